"""When two values of the model are the same.

Python's ``==`` takes JSON ``true`` for ``1`` and ``1`` for ``1.0``, and compares two uses of one named type anew each
time. A change of a default from ``1`` to ``true`` is a change, so diffs compare with these functions instead.
"""

from __future__ import annotations

from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    NamedRef,
    Primitive,
    Props,
    Record,
    Union,
)

#: Pairs of objects already found the same, by identity; alive as long as the schemas that they belong to.
Seen = set[tuple[int, int]]


def same_json(a: Json, b: Json) -> bool:
    """Whether two JSON values (or absences of one) would be written as the same JSON, key order aside.

    >>> same_json(1, True), same_json(1, 1.0), same_json({"a": 1, "b": 2}, {"b": 2, "a": 1})
    (False, False, True)
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(same_json(x, y) for x, y in zip(a, b, strict=True))
    # repr tells 0.0 from -0.0, and finds NaN equal to itself.
    return repr(a) == repr(b) if isinstance(a, float) else bool(a == b)


def same_props(a: Props, b: Props) -> bool:
    """Whether two sets of properties are the same; the order does not count."""
    return a is b or (a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items()))


def same_field(a: Field, b: Field, seen: Seen | None = None) -> bool:
    """Whether two fields are the same in everything that a schema says of them."""
    return a is b or (
        (a.name, a.doc, a.aliases, a.order) == (b.name, b.doc, b.aliases, b.order)
        and same_json(a.default, b.default)
        and same_props(a.props, b.props)
        and same_type(a.type, b.type, seen)
    )


def same_type(a: AvroType, b: AvroType, seen: Seen | None = None) -> bool:
    """Whether two types are the same in everything that a schema says of them, docs and properties included.

    *seen* may be passed to several calls over the same two schemas: a named type that is used many times is then
    compared once.
    """
    if a is b:
        return True
    seen = set() if seen is None else seen
    match a, b:
        case Primitive(), Primitive():
            return (a.name, a.logical) == (b.name, b.logical) and same_props(a.props, b.props)
        case NamedRef(), NamedRef():
            return a.name == b.name
        case Array(), Array():
            return same_props(a.props, b.props) and same_type(a.items, b.items, seen)
        case Map(), Map():
            return same_props(a.props, b.props) and same_type(a.values, b.values, seen)
        case Union(), Union():
            return len(a.branches) == len(b.branches) and all(
                same_type(x, y, seen) for x, y in zip(a.branches, b.branches, strict=True)
            )
        case Fixed(), Fixed():
            return (a.name, a.size, a.logical, a.aliases, a.doc) == (
                b.name,
                b.size,
                b.logical,
                b.aliases,
                b.doc,
            ) and same_props(a.props, b.props)
        case Enum(), Enum():
            return (a.name, a.symbols, a.default, a.aliases, a.doc) == (
                b.name,
                b.symbols,
                b.default,
                b.aliases,
                b.doc,
            ) and same_props(a.props, b.props)
        case Record(), Record():
            pair = (id(a), id(b))
            if pair in seen:
                return True
            found = (
                (a.name, a.aliases, a.doc, a.error) == (b.name, b.aliases, b.doc, b.error)
                and len(a.fields) == len(b.fields)
                and same_props(a.props, b.props)
                and all(same_field(x, y, seen) for x, y in zip(a.fields, b.fields, strict=True))
            )
            if found:
                seen.add(pair)
            return found
    return False
