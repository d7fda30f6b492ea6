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

#: By what the JSON holds, which is text alone.
_types: Final[dict[Hashable, AvroType]] = {}
#: With its extent, and the number of attributes that its JSON has.
_fields: Final[dict[Hashable, tuple[Field, Extent, int]]] = {}


def known(node: Json) -> AvroType | None:
    """The shared type that a schema's JSON stands for, if it has been met."""
    if type(node) is str:
        return PLAIN.get(node)
    try:
        return _types.get(_key(node))
    except TypeError:  # it holds more than texts
        return None


def keep(node: Json, type_: AvroType) -> None:
    """Share what a schema's JSON without a fault stands for, if it is of a kind that is shared."""
    if _is_shared(node):
        if len(_types) >= _MOST:
            _types.clear()
        _types[_key(node)] = type_


def fields(items: list[Json]) -> tuple[list[Field], list[int], Extent, int]:
    """The shared fields that JSON objects stand for.

    Returns
    -------
    fields, missing, extent, members
        The fields, with a placeholder for each that has not been met or has a name that came before; the places of
        those; the extent of all others together, and the number of attributes that they have.
    """
    found: list[Field] = []
    missing: list[int] = []
    names = set()
    levels, count, members = 0, 0, 0
    for item in items:
        hit = None
        if type(item) is dict:
            node = item.get("type")
            try:
                word = (
                    node if type(node) is str else tuple(node) if type(node) is list else tuple(node.items())  # type: ignore[union-attr]
                )
                if len(item) == 2:
                    hit = _fields.get((item.get("name"), word))
                elif len(item) == 3:
                    default = item.get("default", NO_DEFAULT)
                    hit = _fields.get((item.get("name"), word, type(default), default))
            except (TypeError, AttributeError):  # it holds more than texts
                pass
        if hit is None or hit[0].name in names:
            missing.append(len(found))
            found.append(_PLACEHOLDER)
            continue
        made, (deep, many), size = hit
        found.append(made)
        names.add(made.name)
        count += many
        members += size
        if deep > levels:
            levels = deep
    return found, missing, (levels, count), members


def keep_field(item: dict[str, Json], made: Field, extent: Extent) -> None:
    """Share the field that a JSON object without a fault stands for, if it is of a kind that is shared."""
    node = item["type"]
    if len(item) > 3 or not ((type(node) is str and node in PLAIN) or _is_shared(node)):
        return
    key: tuple[Any, ...] = made.name, node if type(node) is str else _key(node)
    if len(item) == 3:
        if type(made.default) not in _SIMPLE:
            return
        key = (*key, type(made.default), made.default)
    if len(_fields) >= _MOST:
        _fields.clear()
    _fields[key] = made, extent, len(item) + (len(node) if type(node) is dict else 0)


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
