"""Types and fields that are one object wherever they occur.

A type that holds no name and no attribute of its own, and a field that has nothing but a name, such a type and a plain
default, are made once and used by every schema. Versions of one schema then consist of the same objects where they are
the same, which whoever compares them sees at a glance; and most of a schema is known before it is parsed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

from lakeevolve.model.types import NO_DEFAULT, NULL, AvroType, Field, Json, Primitive

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

#: The levels and the number of types of a type.
Extent: TypeAlias = tuple[int, int]

#: What is kept at most, in all schemas of a process.
_MOST: Final = 1 << 16
_SIMPLE: Final = frozenset({type(None), bool, int, str})

_PLACEHOLDER: Final = Field("", NULL)

#: By what the JSON holds, which is text alone: a type and its extent.
_types: Final[dict[Hashable, tuple[AvroType, Extent]]] = {}
#: The same of a field, with its extent and the number of attributes that its JSON has.
_fields: Final[dict[Hashable, tuple[Field, Extent, int]]] = {}


def known(node: Json) -> AvroType | None:
    """The shared type that a schema's JSON stands for, if it has been met."""
    if type(node) is str:
        return PLAIN.get(node)
    if type(node) is dict and len(node) != 2:
        return None
    try:
        found = _types.get(_key(node))
    except TypeError:  # it holds more than texts
        return None
    return None if found is None else found[0]


def keep(node: Json, type_: AvroType, extent: Extent) -> None:
    """Share what a schema's JSON without a fault stands for, if it is of a kind that is shared."""
    if _is_shared(node):
        if len(_types) >= _MOST:
            _types.clear()
        _types[_key(node)] = type_, extent


def fields(items: list[Json]) -> tuple[list[Field], list[int], Extent, int]:
    """The shared fields that JSON objects stand for.

    Returns
    -------
    fields, missing, extent, members
        The fields, with a placeholder for each that is no shared one or has a name that came before; the places of
        those; the extent of all others together, and the number of attributes that they have.
    """
    found: list[Field] = []
    missing: list[int] = []
    names = set()
    levels, count, members = 0, 0, 0
    for item in items:
        hit = None
        if type(item) is dict:
            node, name = item.get("type"), item.get("name")
            try:
                word = node if type(node) is str else _key(node)
                if len(item) == 2:
                    hit = _fields.get((name, word)) or _made(name, word)
                elif len(item) == 3:
                    default = item.get("default", NO_DEFAULT)
                    hit = _fields.get((name, word, type(default), default)) or _made(name, word, default)
            except TypeError:  # it holds more than texts
                pass
        if hit is None or name in names:
            missing.append(len(found))
            found.append(_PLACEHOLDER)
            continue
        made, (deep, many), size = hit
        found.append(made)
        names.add(name)
        count += many
        members += size
        if deep > levels:
            levels = deep
    return found, missing, (levels, count), members


def _made(name: Json, word: Any, *default: Json) -> tuple[Field, Extent, int] | None:
    """A shared field that has not been met, of a type that has."""
    if type(name) is not str or not (name.isascii() and name.isidentifier()):
        return None
    if default and type(default[0]) not in _SIMPLE:
        return None
    simple = type(word) is str
    type_, extent = (PLAIN.get(word), (1, 1)) if simple else _types.get(word, (None, (0, 0)))
    if type_ is None:
        return None
    if len(_fields) >= _MOST:
        _fields.clear()
    # An object that is no text has two attributes, if it stands for a shared type.
    size = 2 + len(default) + (2 if not simple and word and type(word[0]) is tuple else 0)
    made = Field(name, type_, *default), extent, size
    _fields[(name, word, type(default[0]), default[0]) if default else (name, word)] = made
    return made


def _key(node: Json) -> Hashable:
    return tuple(node.items()) if type(node) is dict else tuple(node)


def _is_shared(node: Json) -> bool:
    """Whether it is a union of primitives, a logical type without parameters, an array or map of a primitive."""
    if type(node) is list:
        return all(type(each) is str and each in PLAIN for each in node)
    if type(node) is not dict or len(node) != 2 or not all(type(value) is str for value in node.values()):
        return False
    word = node.get("type")
    if word in PLAIN:
        return "logicalType" in node
    return (word == "array" and node.get("items") in PLAIN) or (word == "map" and node.get("values") in PLAIN)
