"""Types and fields of the model as JSON, without loss.

It reads like Avro, and differs from Avro where that would lose something: every name is a full name and nothing is
inherited from an enclosing namespace, a use of a named type inside its own definition stays one, and attributes
that Avro would take for its own (an ignored ``logicalType``, say) stand under ``props``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from lakeevolve.model.same import same_type
from lakeevolve.model.types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Logical,
    Map,
    NamedRef,
    NamedType,
    Primitive,
    PrimitiveName,
    Props,
    Record,
    Union,
)

_LOGICAL: Final = ("logicalType", "precision", "scale")
_RESERVED: Final = frozenset(
    {
        *("type", "name", "aliases", "doc", "default", "order", "fields", "symbols", "size", "items", "values"),
        *("props", "ref", *_LOGICAL),
    }
)


class _Names:
    """The named types met so far, and those whose definition is still open."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.known: dict[str, NamedType] = {}


def type_to_json(type_: AvroType) -> Json:
    """One type as JSON from which :func:`type_from_json` makes an equal one.

    >>> type_to_json(Union((Primitive("null"), Primitive("int", Logical("date")))))
    ['null', {'type': 'int', 'logicalType': 'date'}]
    """
    return _type(type_, _Names())


def field_to_json(field: Field) -> dict[str, Json]:
    """One field as JSON; a field without a default has no key ``default``."""
    return _field(field, _Names())


def type_from_json(value: Json) -> AvroType:
    """The inverse of :func:`type_to_json`. Raises ``KeyError``, ``TypeError`` or ``ValueError`` on anything else."""
    return _read(value, _Names())


def field_from_json(value: Json) -> Field:
    """The inverse of :func:`field_to_json`."""
    return _read_field(value, _Names())


def _type(type_: AvroType, names: _Names) -> Json:
    match type_:
        case NamedRef():
            plain = type_.name not in PRIMITIVES and (type_.name in names.open or type_.name not in names.known)
            return type_.name if plain else {"ref": type_.name}
        case Primitive():
            if type_.logical is None and not type_.props:
                return type_.name
            return {"type": type_.name, **_attributes(type_.logical, type_.props)}
        case Union():
            return [_type(branch, names) for branch in type_.branches]
        case Array():
            return {"type": "array", "items": _type(type_.items, names), **_attributes(None, type_.props)}
        case Map():
            return {"type": "map", "values": _type(type_.values, names), **_attributes(None, type_.props)}
    known = names.known.get(type_.name)
    if known is not None and type_.name not in names.open and same_type(known, type_):
        return type_.name
    head: dict[str, Json] = {"name": type_.name}
    if type_.aliases:
        head["aliases"] = list(type_.aliases)
    if type_.doc is not None:
        head["doc"] = type_.doc
    names.open.append(type_.name)
    match type_:
        case Fixed():
            found = {"type": "fixed", **head, "size": type_.size, **_attributes(type_.logical, type_.props)}
        case Enum():
            default = {} if type_.default is None else {"default": type_.default}
            symbols = list(type_.symbols)
            found = {"type": "enum", **head, "symbols": symbols, **default, **_attributes(None, type_.props)}
        case Record():
            kind = "error" if type_.error else "record"
            fields = [_field(field, names) for field in type_.fields]
            found = {"type": kind, **head, "fields": fields, **_attributes(None, type_.props)}
    names.open.pop()
    names.known[type_.name] = type_
    return found


def _field(field: Field, names: _Names) -> dict[str, Json]:
    found: dict[str, Json] = {"name": field.name, "type": _type(field.type, names)}
    if field.has_default:
        found["default"] = field.default
    if field.doc is not None:
        found["doc"] = field.doc
    if field.aliases:
        found["aliases"] = list(field.aliases)
    if field.order is not None:
        found["order"] = field.order
    return {**found, **_attributes(None, field.props)}


def _attributes(logical: Logical | None, props: Props) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if logical is not None:
        found["logicalType"] = logical.name
        if logical.precision is not None:
            found["precision"] = logical.precision
        if logical.scale is not None:
            found["scale"] = logical.scale
    return {**found, **props} if _RESERVED.isdisjoint(props) else {**found, "props": dict(props)}


def _read(value: Json, names: _Names) -> AvroType:
    if isinstance(value, str):
        if value in PRIMITIVES:
            return Primitive(cast(PrimitiveName, value))
        return NamedRef(value) if value in names.open or value not in names.known else names.known[value]
    if isinstance(value, list):
        return Union(tuple(_read(branch, names) for branch in value))
    if "ref" in value and "type" not in value:
        return NamedRef(value["ref"])
    kind = value["type"]
    props = _read_props(value)
    if kind in PRIMITIVES:
        return Primitive(kind, _read_logical(value), props)
    if kind == "array":
        return Array(_read(value["items"], names), props)
    if kind == "map":
        return Map(_read(value["values"], names), props)
    name, aliases, doc = value["name"], tuple(value.get("aliases", ())), value.get("doc")
    made: NamedType
    names.open.append(name)
    if kind == "fixed":
        made = Fixed(name, value["size"], _read_logical(value), aliases, doc, props)
    elif kind == "enum":
        made = Enum(name, tuple(value["symbols"]), value.get("default"), aliases, doc, props)
    elif kind in ("record", "error"):
        fields = tuple(_read_field(field, names) for field in value["fields"])
        made = Record(name, fields, aliases, doc, kind == "error", props)
    else:
        raise ValueError(f"not a type: {kind!r}")
    names.open.pop()
    names.known[name] = made
    return made


def _read_field(value: Mapping[str, Json], names: _Names) -> Field:
    return Field(
        name=value["name"],
        type=_read(value["type"], names),
        default=value.get("default", NO_DEFAULT),
        doc=value.get("doc"),
        aliases=tuple(value.get("aliases", ())),
        order=value.get("order"),
        props=_read_props(value),
    )


def _read_props(value: Mapping[str, Any]) -> Props:
    return dict(value["props"]) if "props" in value else {k: v for k, v in value.items() if k not in _RESERVED}


def _read_logical(value: Mapping[str, Any]) -> Logical | None:
    if "logicalType" not in value:
        return None
    return Logical(value["logicalType"], value.get("precision"), value.get("scale"))
