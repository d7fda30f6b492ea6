"""Schemas of several subjects made one: each type that a schema refers to is put where it is used first.

A list of definitions would not do, since a schema that is a union of referred types is a list itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lakeevolve.avro.parse import parse
from lakeevolve.avro.parse.names import declared, defines, qualify
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.sources.references import NO_REFERENCE, definitions


def schema_of(text: str, referred: Iterable[str], *, source_name: str | None = None, lenient: bool = False) -> Schema:
    """A schema's text with the types of the texts that it refers to, parsed.

    In a registry a list is a union, also one whose records use each other, which a file of named types looks like.

    Raises ``SchemaError`` where the text, or one of the others, is no Avro schema.
    """
    try:
        made = _inlined(text, referred)
    except ValueError as error:
        raise SchemaError(
            "the schema, or one that it refers to, is not JSON", where=source_name, hint="register it anew"
        ) from error
    if not isinstance(made, list):
        return parse(made, source_name=source_name, lenient=lenient)
    field = {"name": "union", "type": made}
    around = parse({"type": "record", "name": "Around", "fields": [field]}, source_name=source_name, lenient=lenient)
    return Schema(around.fields[0].type, source_name, warnings=around.warnings)


def _inlined(text: str, referred: Iterable[str]) -> str | dict[str, Any] | list[Any]:
    known = {name: node for each in referred for name, node in definitions(json.loads(each))}
    if not known:
        return json.loads(text) if text.lstrip()[:1] == "[" else text
    main = json.loads(text)
    own = {name for name, _ in definitions(main)}
    made: str | dict[str, Any] | list[Any] = _Inliner({k: v for k, v in known.items() if k not in own}).put(main, "")
    return json.dumps(made) if isinstance(made, str) else made


class _Inliner:
    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known
        self.defined: set[str] = set()
        self.inside = 0

    def put(self, node: Any, namespace: str) -> Any:
        if isinstance(node, list):
            return [self.put(each, namespace) for each in node]
        if isinstance(node, str):
            return self.name(node, namespace)
        if not isinstance(node, dict):
            return node
        if defines(node):
            full = declared(node, namespace)
            if self.inside and full in self.defined:
                # Put in already, by its own name. A name without dots would be taken for one of the namespace.
                return full if "." in full or not namespace else f".{full}"
            self.defined.add(full)
            if not isinstance(node.get("fields"), list):
                return node
            inner = full.rpartition(".")[0]
            return {**node, "fields": [self.field(each, inner) for each in node["fields"]]}
        below = {key: self.put(node[key], namespace) for key in ("type", "items", "values") if key in node}
        return {**node, **below}

    def field(self, node: Any, namespace: str) -> Any:
        return (
            {**node, "type": self.put(node["type"], namespace)} if isinstance(node, dict) and "type" in node else node
        )

    def name(self, name: str, namespace: str) -> Any:
        if name in NO_REFERENCE:
            return name
        full = next((each for each in (qualify(name, namespace), name) if each in self.known), None)
        if full is None or full in self.defined:
            return name
        space, _, short = full.rpartition(".")
        self.inside += 1
        try:
            return self.put({**self.known[full], "name": short, "namespace": space}, "")
        finally:
            self.inside -= 1


def normal(node: Any, namespace: str = "") -> Any:
    """A schema's JSON in the one form that all ways of writing the same schema have: names in full, primitive types as
    their names. Docs, aliases, defaults and properties are part of it.

    >>> normal({"type": "record", "name": "R", "namespace": "", "fields": [{"name": "x", "type": {"type": "int"}}]})
    {'type': 'record', 'name': 'R', 'fields': [{'name': 'x', 'type': 'int'}]}
    """
    if isinstance(node, str):
        return node if node in NO_REFERENCE else qualify(node, namespace)
    if isinstance(node, list):
        return [normal(each, namespace) for each in node]
    if not isinstance(node, dict):
        return node
    if defines(node):
        full = declared(node, namespace)
        inner = full.rpartition(".")[0]
        made = {key: value for key, value in node.items() if key != "namespace"} | {"name": full}
        if isinstance(node.get("aliases"), list):
            made["aliases"] = [qualify(each, inner) if isinstance(each, str) else each for each in node["aliases"]]
        if isinstance(node.get("fields"), list):
            made["fields"] = [
                {**each, "type": normal(each["type"], inner)} if isinstance(each, dict) and "type" in each else each
                for each in node["fields"]
            ]
        return made
    if set(node) == {"type"}:
        return normal(node["type"], namespace)
    return {
        key: normal(value, namespace) if key in ("type", "items", "values") else value for key, value in node.items()
    }
