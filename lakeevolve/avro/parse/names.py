"""Full names, and lists of named types that refer to each other (Avro 1.12, "Names")."""

from __future__ import annotations

from typing import Final

from lakeevolve.model.types import Json

NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def qualify(name: str, namespace: str) -> str:
    """The full name: a name with dots is one already, a leading dot stands for the null namespace."""
    if "." in name:
        return name.removeprefix(".")
    return f"{namespace}.{name}" if namespace else name


def defines(node: Json) -> bool:
    """Whether a JSON value is the definition of a named type."""
    return isinstance(node, dict) and isinstance(node.get("type"), str) and node["type"] in NAMED


def declared(node: dict[str, Json], namespace: str = "") -> str:
    """The full name that a definition gives itself; empty where it has none."""
    name, own = node.get("name"), node.get("namespace")
    if not isinstance(name, str):
        return ""
    return qualify(name, own if isinstance(own, str) else namespace)


def refer_to_each_other(nodes: list[Json]) -> bool:
    """Whether a list is a file of named types: it holds definitions alone, and one uses the name of another."""
    if len(nodes) < 2 or not all(defines(node) for node in nodes):
        return False
    names = {declared(node) for node in nodes}
    return any(_uses(node, names, declared(node)) for node in nodes)


def _uses(node: Json, names: set[str], own: str) -> bool:
    """Whether a definition uses one of some names other than its own."""
    todo: list[tuple[Json, str]] = [(node, "")]
    while todo:
        item, namespace = todo.pop()
        if isinstance(item, str):
            if any(name in names and name != own for name in (item, qualify(item, namespace))):
                return True
        elif isinstance(item, list):
            todo.extend((below, namespace) for below in item)
        elif isinstance(item, dict):
            inner = declared(item, namespace).rpartition(".")[0] if defines(item) else namespace
            todo.extend((item[key], inner) for key in ("type", "items", "values", "fields") if key in item)
    return False
