"""Schemas of several files: a type that a file uses and does not define is looked for in the file of its name.

``shop.Address`` is found in ``shop.Address.avsc`` or ``Address.avsc`` beside the file that uses it, if the definition
there has exactly that full name; the same holds for what that file uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lakeevolve.avro.parse import parse
from lakeevolve.avro.parse.names import NAMED, declared, defines, qualify
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import PRIMITIVES
from lakeevolve.model.value import value

#: File name -> its text, or None where there is no such file.
Sibling = Callable[[str], str | None]

_UNKNOWN = "unknown type "
#: What stands where a type is named and is no name of one.
NO_REFERENCE: Final = frozenset({*PRIMITIVES, *NAMED, "array", "map"})


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Whole:
    """A list of the types that a text lacks, on one line, and the text itself as its last element."""

    text: str
    added: tuple[str, ...]


def parse_with(text: str | bytes, name: str, sibling: Sibling, *, lenient: bool = False) -> Schema:
    """Parse a schema's text; what it lacks is taken from the files beside it."""
    try:
        found = parse(text, source_name=name, lenient=lenient)
    except SchemaError as error:
        if _UNKNOWN not in error.what:
            raise
        whole = _completed(text, sibling)
        if whole is None:
            hint = "or define it in the file of its name, beside this one"
            raise SchemaError(error.what, where=error.where, hint=f"{error.hint}; {hint}") from error
        return _parse_whole(whole, name, lenient)
    if lenient and any(_UNKNOWN in warning for warning in found.warnings):
        whole = _completed(text, sibling)
        return found if whole is None else _parse_whole(whole, name, lenient)
    return found


def _parse_whole(whole: _Whole, name: str, lenient: bool) -> Schema:
    try:
        made = parse(whole.text, source_name=name, lenient=lenient)
    except SchemaError as error:
        raise _placed(error, whole, name) from error
    # What was added stands before the file's own text, on its first line.
    own_lines = {path: line for path, line in made.lines.items() if line > 1 or not path}
    return replace(made, lines=own_lines if "\n" in whole.text else {})


def _placed(error: SchemaError, whole: _Whole, name: str) -> SchemaError:
    """The error with its place in the file that holds it."""
    found = re.search(r"\$\[(\d+)\]([^,]*)", error.where or "")
    if found is None:
        return error
    at = int(found.group(1))
    if at == len(whole.added):
        # The file itself stands last in the list.
        where = (error.where or "").replace(f"$[{at}]", "$", 1)
        return SchemaError(error.what, where=where, hint=error.hint)
    what, hint = error.what, error.hint
    if "before its definition" in what:
        what, hint = f"{what}, since two files use each other's types", "define them in one file"
    return SchemaError(what, where=f"{name}, in the type {whole.added[at]} that it uses: ${found.group(2)}", hint=hint)


def _completed(text: str | bytes, sibling: Sibling) -> _Whole | None:
    """None where something is found nowhere: the parser says what."""
    whole = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    main = json.loads(whole)
    if not defines(main):
        return None
    added: dict[str, Any] = {}
    own = dict(definitions(main))

    def add(node: Any, above: tuple[str, ...]) -> bool:
        for name in dict.fromkeys(_lacking(node, "", {*own, *added, *dict(definitions(node))})):
            if name in added:
                continue
            if name in above:
                return False
            found = _find(name, sibling)
            if found is None or not add(found, (*above, name)):
                return False
            added[name] = found
        return True

    if not add(main, (declared(main),)) or not added:
        return None
    before = ", ".join(json.dumps(node, ensure_ascii=False) for node in added.values())
    return _Whole(f"[{before}, {whole.strip()}]", tuple(added))


def versions_among(texts: Mapping[str, str | None]) -> list[str]:
    """Of the schema files of a folder, by name, those that are versions: not the types that others of them use."""
    roots: dict[str, str] = {}
    used: set[str] = set()
    for file, text in texts.items():
        try:
            node = json.loads(text or "")
        except ValueError:
            # Whoever reads the file says what is wrong with it.
            continue
        if defines(node):
            roots[file] = declared(node)
            used |= set(_lacking(node, "", dict(definitions(node))))
    return [file for file in texts if roots.get(file) not in used] or list(texts)


def _find(name: str, sibling: Sibling) -> Any:
    for file in dict.fromkeys((f"{name}.avsc", f"{name.rpartition('.')[2]}.avsc")):
        text = sibling(file)
        if text is None:
            continue
        try:
            node = json.loads(text)
        except ValueError:
            continue
        if defines(node) and declared(node) == name:
            return node
    return None


def definitions(node: Any) -> Iterator[tuple[str, Any]]:
    """Every named type that is defined in a JSON value, with its full name."""
    for item, namespace, _ in _walk(node, ""):
        if defines(item):
            yield declared(item, namespace), item


def _lacking(node: Any, namespace: str, known: Collection[str]) -> Iterator[str]:
    """The full names that a JSON value uses and that are not known."""
    for item, inner, is_type in _walk(node, namespace):
        if is_type and isinstance(item, str) and item not in NO_REFERENCE:
            full = qualify(item, inner)
            if full not in known and item not in known:
                yield full


def _walk(node: Any, namespace: str) -> Iterator[tuple[Any, str, bool]]:
    """Every JSON value that stands for a type, with the namespace that is in force there, in document order."""
    yield node, namespace, True
    if isinstance(node, list):
        for each in node:
            yield from _walk(each, namespace)
    elif isinstance(node, dict):
        inner = declared(node, namespace).rpartition(".")[0] if defines(node) else namespace
        if defines(node):
            fields = node.get("fields")
            # What is no list is named by parsing.
            for field in fields if isinstance(fields, list) else ():
                if isinstance(field, dict) and "type" in field:
                    yield from _walk(field["type"], inner)
        else:
            for key in ("type", "items", "values"):
                if key in node:
                    yield from _walk(node[key], inner)
