"""The canonical form of a schema and the digests of JSON records."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Logical,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
)


def canonical_json(value: Json) -> str:
    """Sorted, compact JSON: the one text that a digest is taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _python_sha256() -> Any:
    # hashlib loads OpenSSL, which takes longer than most checks do; random keeps clear of it in the same way.
    try:
        return import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except (ImportError, AttributeError):
        return import_module("hashlib").sha256


_sha256 = _python_sha256()


def text_digest(text: str) -> str:
    """SHA-256 (hex) of a text."""
    digest: str = _sha256(text.encode()).hexdigest()
    return digest


def json_digest(value: Json) -> str:
    """SHA-256 (hex) of the value's canonical JSON."""
    return text_digest(canonical_json(value))


def schema_digest(schema: Schema) -> str:
    """SHA-256 (hex) over everything that the schema says, docs and properties included."""
    return json_digest(schema_json(schema))


def schema_json(schema: Schema) -> Json:
    """The schema as Avro JSON."""
    return type_json(schema.root)


def type_json(type_: AvroType) -> Json:
    """One type as Avro JSON, self-contained, with full names."""
    return _type(type_, set())


def _type(type_: AvroType, defined: set[str]) -> Json:
    match type_:
        case NamedRef():
            return type_.name
        case Primitive():
            if type_.logical is None and not type_.props:
                return type_.name
            return {"type": type_.name, **_logical(type_.logical), **type_.props}
        case Union():
            return [_type(b, defined) for b in type_.branches]
        case Array():
            return {"type": "array", "items": _type(type_.items, defined), **type_.props}
        case Map():
            return {"type": "map", "values": _type(type_.values, defined), **type_.props}
    if type_.name in defined:
        return type_.name
    defined.add(type_.name)
    namespace, _, short = type_.name.rpartition(".")
    # A namespace of "" is written out: without it, a nested type would inherit the enclosing one.
    head: dict[str, Json] = {"name": short, "namespace": namespace}
    if type_.aliases:
        # An alias without a dot is relative to the namespace, so the null namespace is written with a leading dot.
        head["aliases"] = [alias if "." in alias or not namespace else f".{alias}" for alias in type_.aliases]
    if type_.doc is not None:
        head["doc"] = type_.doc
    match type_:
        case Fixed():
            return {"type": "fixed", **head, "size": type_.size, **_logical(type_.logical), **type_.props}
        case Enum():
            default = {} if type_.default is None else {"default": type_.default}
            return {"type": "enum", **head, "symbols": list(type_.symbols), **default, **type_.props}
        case Record():
            fields = [_field(f, defined) for f in type_.fields]
            return {"type": "error" if type_.error else "record", **head, "fields": fields, **type_.props}


def _field(field: Field, defined: set[str]) -> Json:
    found: dict[str, Json] = {"name": field.name, "type": _type(field.type, defined)}
    if field.has_default:
        found["default"] = field.default
    if field.doc is not None:
        found["doc"] = field.doc
    if field.aliases:
        found["aliases"] = list(field.aliases)
    if field.order is not None:
        found["order"] = field.order
    return {**found, **field.props}


def _logical(logical: Logical | None) -> dict[str, Json]:
    if logical is None:
        return {}
    found: dict[str, Json] = {"logicalType": logical.name}
    if logical.precision is not None:
        found["precision"] = logical.precision
    if logical.scale is not None:
        found["scale"] = logical.scale
    return found
