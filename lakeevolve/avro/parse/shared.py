"""Types and fields that are one object wherever they occur.

A type that holds no name and no attribute of its own, and a field that has nothing but a name, such a type, a plain
default and a doc, are made once and used by every schema. Versions of one schema then consist of the same objects where
they are the same, which whoever compares them sees at a glance; and most of a schema is known before it is parsed.

What is shared means the same in every place: it uses no name of a type, so that no namespace counts, and nothing of it
is tolerated by a lenient parser alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

from lakeevolve.model.types import NO_DEFAULT, NULL, AvroType, Field, Json, NoDefault, Primitive

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
#: Characters of a name, a doc or a default that is kept, at most.
_LONGEST: Final = 500
_SIMPLE: Final = frozenset({NoDefault, type(None), bool, int, str})

_PLACEHOLDER: Final = Field("", NULL)
_UNKNOWN: Final[tuple[None, Extent]] = None, (0, 0)

#: By what the JSON holds, which is text alone: a type and its extent.
_types: Final[dict[Hashable, tuple[AvroType, Extent]]] = {}
#: The same of a field, with its levels, its number of types, and the number of attributes that its JSON has.
_fields: Final[dict[Hashable, tuple[Field, int, int, int]]] = {}

# A frozen dataclass sets its attributes by name, which takes most of the time in which a schema is parsed.
_NO_PROPS: Final[dict[str, Json]] = {}
_SLOTS: Final[dict[str, Any]] = dict(vars(Field))
_new: Final[Any] = object.__new__
_set_name: Final = _SLOTS["name"].__set__
_set_type: Final = _SLOTS["type"].__set__
_set_default: Final = _SLOTS["default"].__set__
_set_doc: Final = _SLOTS["doc"].__set__
_set_aliases: Final = _SLOTS["aliases"].__set__
_set_order: Final = _SLOTS["order"].__set__
_set_props: Final = _SLOTS["props"].__set__


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
    """Share what a schema's JSON without a fault stands for, which is of a kind that is shared."""
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
    get = _fields.get
    for item in items:
        hit = None
        if type(item) is dict:
            node, name = item.get("type"), item.get("name")
            try:
                word = node if type(node) is str else _key(node)
                if len(item) == 2:
                    hit = get((name, word)) or _made((name, word), name, word)
                elif len(item) < 5:
                    default, doc = item.get("default", NO_DEFAULT), item.get("doc")
                    if len(item) == 2 + (default is not NO_DEFAULT) + (doc is not None):
                        key = (name, word, type(default), default, doc)
                        hit = get(key) or _made(key, name, word, default, doc)
            except TypeError:  # it holds more than texts
                pass
        if hit is None or name in names:
            missing.append(len(found))
            found.append(_PLACEHOLDER)
            continue
        made, deep, many, size = hit
        found.append(made)
        names.add(name)
        count += many
        members += size
        if deep > levels:
            levels = deep
    return found, missing, (levels, count), members


def _made(
    key: Hashable, name: Json, word: Any, default: Json | NoDefault = NO_DEFAULT, doc: Json = None
) -> tuple[Field, int, int, int] | None:
    """A shared field that has not been met, of a type that has."""
    if type(name) is not str or not name.isidentifier() or not name.isascii() or len(name) > _LONGEST:
        return None
    deep = many = 1
    size = 2
    if type(word) is str:
        type_: AvroType | None = PLAIN.get(word)
    else:
        type_, (deep, many) = _types.get(word, _UNKNOWN)
        if type(word[0]) is tuple:  # an object has two attributes, if it stands for a shared type
            size = 4
    if type_ is None:
        return None
    if default is not NO_DEFAULT:
        if type(default) not in _SIMPLE or not _is_short(default):
            return None
        size += 1
    if doc is not None:
        if type(doc) is not str or not _is_short(doc):
            return None
        size += 1
    field = _new(Field)
    _set_name(field, name)
    _set_type(field, type_)
    _set_default(field, default)
    _set_doc(field, doc)
    _set_aliases(field, ())
    _set_order(field, None)
    _set_props(field, _NO_PROPS)
    if len(_fields) >= _MOST:
        _fields.clear()
    made = _fields[key] = field, deep, many, size
    return made


def _is_short(value: Json) -> bool:
    return type(value) is not str or len(value) <= _LONGEST


def _key(node: Json) -> Hashable:
    if not node:
        raise TypeError("an empty list and an empty object are not the same")
    return tuple(node.items()) if type(node) is dict else tuple(node)


def is_shared(node: Json) -> bool:
    """Whether it is a union of primitives, a logical type without parameters, an array or map of a primitive."""
    if type(node) is list:
        return bool(node) and all(type(each) is str and each in PLAIN for each in node)
    if type(node) is not dict or len(node) != 2 or not all(type(value) is str for value in node.values()):
        return False
    word = node.get("type")
    if word in PLAIN:
        return "logicalType" in node
    return (word == "array" and node.get("items") in PLAIN) or (word == "map" and node.get("values") in PLAIN)
