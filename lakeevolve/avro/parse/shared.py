"""Types and fields that are one object wherever they occur.

A type that holds no name and no attribute of its own, and a field that has nothing but a name, such a type and a plain
default, are made once and used by every schema. Versions of one schema then consist of the same objects where they are
the same, which whoever compares them sees at a glance; and most of a schema is known before it is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from lakeevolve.model.types import NO_DEFAULT, NULL, AvroType, Field, Json, Primitive

#: What is kept at most, in all schemas of a process.
_MOST: Final = 1 << 16
_SIMPLE: Final = frozenset({type(None), bool, int, str})

#: The primitive types by name.
PLAIN: Final[dict[str, Primitive]] = {
    "null": NULL,
    "boolean": Primitive("boolean"),
    "int": Primitive("int"),
    "long": Primitive("long"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "bytes": Primitive("bytes"),
    "string": Primitive("string"),
}

_types: dict[Hashable, AvroType] = {}
_fields: dict[Hashable, Field] = {}
#: By the identity of a shared type: its levels and its number of types.
_extents: dict[int, tuple[int, int]] = {id(type_): (1, 1) for type_ in PLAIN.values()}


def extent(type_: AvroType) -> tuple[int, int] | None:
    """The levels and the number of types of a shared type; None for another."""
    return _extents.get(id(type_))


def known(node: Json) -> AvroType | None:
    """The shared type that a schema's JSON stands for, if it has been met."""
    if type(node) is str:
        return PLAIN.get(node)
    key = _key(node)
    return None if key is None else _types.get(key)


def keep(node: Json, type_: AvroType, levels: int, count: int) -> None:
    """Share what a JSON without a warning stands for, if it is of a kind that is shared."""
    key = _key(node)
    if key is not None and key not in _types:
        if len(_types) >= _MOST:
            _forget()
        _types[key] = type_
        _extents[id(type_)] = (levels, count)


def field(item: dict[str, Json], name: str, type_: AvroType, valid: Callable[[str], Any]) -> Field | None:
    """The field that a JSON object stands for, if it is of a kind that is shared."""
    if len(item) == 2:
        key: Hashable = (name, id(type_))
        default: Any = NO_DEFAULT
    else:
        default = item.get("default", NO_DEFAULT)
        if len(item) != 3 or type(default) not in _SIMPLE:
            return None
        key = (name, id(type_), type(default), default)
    found = _fields.get(key)
    if found is None and id(type_) in _extents and valid(name):
        if len(_fields) >= _MOST:
            _forget()
        found = _fields[key] = Field(name, type_, default)
    return found


def _forget() -> None:
    # Both: a field is found by the identity of its type, which it keeps alive.
    _types.clear()
    _fields.clear()
    _extents.clear()
    _extents.update((id(type_), (1, 1)) for type_ in PLAIN.values())


def _key(node: Json) -> Hashable | None:
    """What identifies a union of primitives, a logical type without parameters, an array or map of a primitive."""
    if type(node) is list:
        for each in node:
            if type(each) is not str or each not in PLAIN:
                return None
        return tuple(node)
    if type(node) is not dict or len(node) != 2:
        return None
    word = node.get("type")
    if type(word) is not str:
        return None
    other = node.get("logicalType") if word in PLAIN else node.get("items") if word == "array" else node.get("values")
    if type(other) is not str or (word not in PLAIN and (other not in PLAIN or word not in ("array", "map"))):
        return None
    return word, None, other
