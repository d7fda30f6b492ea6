"""What a field's default means (Avro 1.12, "Complex Types", the table of default values).

A default is JSON; bytes and fixed are texts of code points up to 255, and a union's default may belong to any of its
branches: the first that it fits. Implementations differ in nearly every corner of this (out-of-range numbers wrap,
texts of the wrong length are padded, inner defaults are left out), so nothing is taken from them here.
"""

from __future__ import annotations

import math
import re
import struct
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from decimal import Decimal
from typing import Any, Final

from lakeevolve.avro.parse.messages import json_kind
from lakeevolve.errors import SchemaError
from lakeevolve.model.types import (
    NO_DEFAULT,
    Array,
    AvroType,
    Enum,
    Fixed,
    Json,
    Map,
    NamedRef,
    NamedType,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
)

#: Records within records that a default may fill before it counts as endless (a recursive type's own default).
MAX_DEPTH: Final = 50

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
#: Units per unit of the canonical Arrow layout, which has no milliseconds.
_SCALE: Final = {"time-millis": 1000, "timestamp-millis": 1000, "local-timestamp-millis": 1000}


def check_default(type_: AvroType, default: Json, *, names: Mapping[str, NamedType] | None = None) -> str | None:
    """Judge a default.

    Parameters
    ----------
    type_:
        The type of the field.
    default:
        The JSON value as written.
    names:
        The definitions of types that *type_* uses and does not hold itself (it stands inside a recursive type).

    Returns
    -------
    str or None
        Why the default is not a value of the type; None where it is one.

    Examples
    --------
    >>> from lakeevolve.model.types import Primitive
    >>> check_default(Primitive("int"), 7)
    >>> check_default(Primitive("int"), 5_000_000_000)
    'a number outside the range of int'
    """
    if isinstance(type_, Primitive):
        return _check_primitive(type_, default)
    return _Defaults(names or {}).check(type_, default, 0)


def default_value(type_: AvroType, default: Json, *, names: Mapping[str, NamedType] | None = None) -> Any:
    """The value that a default stands for, fit for ``pyarrow.scalar(value, arrow_type(type_))``.

    Parameters
    ----------
    type_, default, names:
        As for :func:`check_default`.

    Returns
    -------
    Any
        None, bool, int, float, str or bytes; a ``Decimal``; whole numbers of the layout's unit for date, time and
        timestamp types; a list of items; a list of key and value pairs for a map; a dict for a record (fields that
        the default leaves out hold their own default) and for a real union (the other branches None). The value
        shares nothing with the schema.

    Raises
    ------
    SchemaError
        The default is not a value of the type.

    Examples
    --------
    >>> from lakeevolve.model.types import Primitive
    >>> default_value(Primitive("bytes"), "ÿ")
    b'\\xff'
    """
    defaults = _Defaults(names or {})
    reason = defaults.check(type_, default, 0)
    if reason is not None:
        raise SchemaError(f"the default of a field is not valid: {reason}", hint="correct the default in the schema")
    return defaults.value(type_, default)


class _Defaults:
    """One judgement. Verdicts are kept per type and JSON object: unions would try the same pair again and again."""

    def __init__(self, names: Mapping[str, NamedType]) -> None:
        self.names: MutableMapping[str, NamedType] = ChainMap({}, names)  # type: ignore[arg-type]
        self.verdicts: dict[tuple[int, int], str | None] = {}

    def check(self, type_: AvroType, default: Json, depth: int) -> str | None:
        match type_:
            case Primitive():
                return _check_primitive(type_, default)
            case Fixed():
                return _check_fixed(type_, default)
            case Enum():
                if not isinstance(default, str):
                    return f"{json_kind(default)} for {describe(type_)}"
                return None if default in type_.symbols else f"no symbol of {describe(type_)}"
            case NamedRef():
                named = self.names.get(type_.name)
                return f"the type {type_.name} is not known" if named is None else self.check(named, default, depth)
            case Array():
                if not isinstance(default, list):
                    return f"{json_kind(default)} for an array"
                found = (self.check(type_.items, item, depth) for item in default)
                return next((f"an item: {reason}" for reason in found if reason), None)
            case Map():
                if not isinstance(default, dict):
                    return f"{json_kind(default)} for a map"
                found = (self.check(type_.values, item, depth) for item in default.values())
                return next((f"a value: {reason}" for reason in found if reason), None)
        key = (id(type_), id(default))
        if key not in self.verdicts:
            self.verdicts[key] = (
                self.check_record(type_, default, depth)
                if isinstance(type_, Record)
                else self.check_union(type_, default, depth)
            )
        return self.verdicts[key]

    def check_record(self, type_: Record, default: Json, depth: int) -> str | None:
        if not isinstance(default, dict):
            return f"{json_kind(default)} for a record"
        if depth > MAX_DEPTH:
            return f"the default of {type_.name} never ends"
        self.names.setdefault(type_.name, type_)
        for field in type_.fields:
            value = default.get(field.name, field.default)
            if value is NO_DEFAULT:
                return f"the field {field.name} is missing and has no default"
            reason = self.check(field.type, value, depth + 1)
            if reason is not None:
                return f"{field.name}: {reason}"
        return None

    def check_union(self, type_: Union, default: Json, depth: int) -> str | None:
        reasons = []
        for branch in type_.branches:
            reason = self.check(branch, default, depth)
            if reason is None:
                return None
            reasons.append(reason)
        rest = [reason for branch, reason in zip(type_.branches, reasons, strict=True) if not is_null(branch)]
        return rest[0] if len(rest) == 1 else f"{json_kind(default)} fits no branch of {describe(type_)}"

    def value(self, type_: AvroType, default: Json) -> Any:
        """The value of a default that has been found valid."""
        match type_:
            case Primitive():
                return _primitive(type_, default)
            case Fixed():
                raw = default.encode("latin-1")
                return _decimal(type_, raw) if type_.logical and type_.logical.name == "decimal" else raw
            case Enum():
                return default
            case NamedRef():
                return self.value(self.names[type_.name], default)
            case Array():
                return [self.value(type_.items, item) for item in default]
            case Map():
                return [(key, self.value(type_.values, item)) for key, item in default.items()]
            case Record():
                return {f.name: self.value(f.type, default.get(f.name, f.default)) for f in type_.fields}
            case Union():
                branch = next(b for b in type_.branches if self.check(b, default, 0) is None)
                if is_null(branch):
                    return None
                value = self.value(branch, default)
                if type_.optional:
                    return value
                names = zip(branch_names(type_), type_.values, strict=True)
                return {name: value if b is branch else None for name, b in names}


def _check_primitive(type_: Primitive, default: Json) -> str | None:
    logical = type_.logical.name if type_.logical else None
    match type_.name:
        case "null":
            return None if default is None else _wrong(type_, default)
        case "boolean":
            return None if isinstance(default, bool) else _wrong(type_, default)
        case "int" | "long":
            if type(default) is not int:
                return _wrong(type_, default)
            bits = 31 if type_.name == "int" else 63
            if not -(2**bits) <= default < 2**bits:
                return f"a number outside the range of {type_.name}"
            if logical in _DAY:
                return None if 0 <= default < _DAY[logical] else "a number that is no time of a day"
            scaled = default * _SCALE.get(logical or "", 1)
            return None if -(2**63) <= scaled < 2**63 else f"a number outside the range of {logical}"
        case "float" | "double":
            if type(default) not in (int, float):
                return _wrong(type_, default)
            try:
                struct.pack("<f" if type_.name == "float" else "<d", default)
            except (OverflowError, struct.error):
                return f"a number outside the range of {type_.name}"
            return None if math.isfinite(default) else f"a number outside the range of {type_.name}"
        case "string":
            if not isinstance(default, str):
                return _wrong(type_, default)
            return None if logical != "uuid" or _UUID.match(default) else "a text that is no UUID"
        case "bytes":
            if not isinstance(default, str):
                return _wrong(type_, default)
            if default and max(default) > "\xff":
                return "a text with a code point above 255"
            return _check_decimal(type_, default) if logical == "decimal" else None


def _wrong(type_: Primitive, default: Json) -> str:
    return f"{json_kind(default)} for {describe(type_)}"


def _check_fixed(type_: Fixed, default: Json) -> str | None:
    if not isinstance(default, str):
        return f"{json_kind(default)} for {describe(type_)}"
    if default and max(default) > "\xff":
        return "a text with a code point above 255"
    if len(default) != type_.size:
        return f"a text of {len(default)} bytes for {describe(type_)}"
    return _check_decimal(type_, default) if type_.logical and type_.logical.name == "decimal" else None


def _check_decimal(type_: Primitive | Fixed, default: str) -> str | None:
    assert type_.logical is not None
    assert type_.logical.precision is not None
    if not default:
        return "an empty text for a decimal"
    unscaled = int.from_bytes(default.encode("latin-1"), "big", signed=True)
    return None if abs(unscaled) < 10**type_.logical.precision else f"more digits than {type_.logical} holds"


def _primitive(type_: Primitive, default: Json) -> Any:
    match type_.name:
        case "float" | "double":
            return float(default)
        case "bytes":
            raw = default.encode("latin-1")
            return _decimal(type_, raw) if type_.logical and type_.logical.name == "decimal" else raw
        case "int" | "long" if type_.logical:
            return default * _SCALE.get(type_.logical.name, 1)
    return default


def _decimal(type_: Primitive | Fixed, raw: bytes) -> Decimal:
    assert type_.logical is not None
    unscaled = int.from_bytes(raw, "big", signed=True)
    # From its parts: arithmetic would round to the digits of the current decimal context.
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -(type_.logical.scale or 0)))
