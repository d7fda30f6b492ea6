"""fastavro asked the same question: what does a row read as at the end of a line of schemas?

A row is encoded with the first schema and decoded with the next one as the reader, encoded with that and decoded with
the one after it, and so on. Nothing here takes part in reading data: it is a second opinion on a few rows.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import math
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final
from uuid import UUID

import fastavro

from lakeevolve.avro.parse import walk
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    PROMOTIONS,
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    branch_names,
    kind,
    without_null,
)

#: What fastavro leaves out of a record that it fills from a default.
_NOTHING: Final = object()

_EPOCH: Final = datetime(1970, 1, 1)


def _promotes_first(type_: AvroType) -> bool:
    """Whether a union has a branch that one behind it could be read as."""
    kinds = [kind(branch) for branch in type_.branches] if isinstance(type_, Union) else []
    return any(kinds[at] in PROMOTIONS.get(other, ()) for at in range(len(kinds)) for other in kinds[at + 1 :])


def _changes_places(type_: AvroType) -> bool:
    """Whether a record has a field with another field's name as its alias."""
    if not isinstance(type_, Record):
        return False
    names = {field.name for field in type_.fields}
    return any(alias in names - {field.name} for field in type_.fields for alias in field.aliases)


class Unasked(Exception):  # an answer on its way, never an error that a user sees
    """fastavro cannot be asked about a row; ``args[0]`` says why, without any value."""


class Chain:
    """A line of schemas that fastavro takes rows through.

    >>> from lakeevolve.avro.parse import parse
    >>> old = parse('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}')
    >>> new = parse('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "double"}]}')
    >>> Chain([old, new]).read({"n": 3})
    {'n': 3.0}
    """

    def __init__(self, schemas: Sequence[Schema]) -> None:
        if any(_promotes_first(type_) for schema in schemas[1:] for type_ in walk(schema.root)):
            # fastavro takes the first branch that a value can be promoted to, though a later one is its own type.
            raise Unasked("a union with a wider branch before a narrower one")
        if any(_changes_places(type_) for schema in schemas[1:] for type_ in walk(schema.root)):
            # fastavro takes a field's own name before its alias, where the writer has both.
            raise Unasked("names that change places")
        self._schemas = tuple(schemas)
        self._parsed = [_parsed(json.dumps(schema.to_json(), sort_keys=True)) for schema in self._schemas]

    def read(self, row: Mapping[str, Any]) -> Any:
        """What a row reads as at the last schema, as fastavro gives it.

        Parameters
        ----------
        row:
            The values as pyarrow gives them of the canonical layout of the first schema.

        Raises ``Unasked`` where fastavro cannot encode or resolve it.
        """
        given = to_fastavro(self._schemas[0].root, row)
        for (writer, reader), schema in zip(_pairs(self._parsed), self._schemas[1:], strict=True):
            stream = io.BytesIO()
            try:
                fastavro.schemaless_writer(stream, writer, given)
                stream.seek(0)
                given = fastavro.schemaless_reader(stream, writer, reader, return_named_type=True)
            except Exception as error:
                # Its errors quote values, and are of every kind.
                raise Unasked(type(error).__name__) from None
            if schema is not self._schemas[-1]:
                given = again(schema.root, given)
        return given


def _pairs(parsed: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(itertools.pairwise(parsed))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text))
    except Exception as error:
        raise Unasked(type(error).__name__) from None


# --- values -------------------------------------------------------------------------------------------------------


def to_fastavro(type_: AvroType, value: Any) -> Any:
    """A value as pyarrow gives it of the canonical layout, as fastavro takes it."""
    if value is None:
        return None
    match type_:
        case Union() if type_.optional:
            inner = without_null(type_)
            return _tagged(inner, to_fastavro(inner, value))
        case Union():
            types = dict(zip(branch_names(type_), type_.values, strict=True))
            there = [(types[name], each) for name, each in value.items() if each is not None]
            if len(there) != 1:
                raise Unasked("a union without a value")
            return _tagged(there[0][0], to_fastavro(*there[0]))
        case Record():
            return {field.name: to_fastavro(field.type, value[field.name]) for field in type_.fields}
        case Array():
            return [to_fastavro(type_.items, each) for each in value]
        case Map():
            return {key: to_fastavro(type_.values, each) for key, each in value}
    return value


def _tagged(type_: AvroType, value: Any) -> Any:
    """The value of a union with its branch's name, which leaves fastavro nothing to guess."""
    match type_:
        case Record() | Enum() | Fixed():
            return (type_.name, value)
        case Array():
            return ("array", value)
        case Map():
            return ("map", value)
        case Primitive() if type_.logical is None:
            return (type_.name, value)
    return value


def again(type_: AvroType, value: Any) -> Any:
    """What fastavro read, as it takes it once more: a default in JSON becomes a value."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        value = value[1]
    if value is None:
        return None
    match type_:
        case Union() if type_.optional:
            return again(without_null(type_), value)
        case Union():
            # fastavro tells the branch of a named type alone.
            raise Unasked("a union at more than one step")
        case Record() if isinstance(value, Mapping):
            if any(field.name not in value for field in type_.fields):
                raise Unasked("a record default without its inner defaults")
            return {field.name: again(field.type, value[field.name]) for field in type_.fields}
        case Array() if isinstance(value, list):
            return [again(type_.items, each) for each in value]
        case Map() if isinstance(value, Mapping):
            return {key: again(type_.values, each) for key, each in value.items()}
        case Primitive() | Fixed():
            made = _leaf(type_, value)
            return struct.unpack("<f", struct.pack("<f", made))[0] if _is_float(type_) and _packs(made) else made
    return value


def _is_float(type_: AvroType) -> bool:
    return isinstance(type_, Primitive) and type_.name == "float"


def _packs(value: Any) -> bool:
    return isinstance(value, float | int) and (math.isinf(value) or math.isnan(value) or abs(value) < 3.5e38)


def agrees(type_: AvroType, ours: Any, theirs: Any) -> str | None:
    """The path of the first place at which fastavro reads otherwise; None where it reads the same.

    Parameters
    ----------
    ours:
        As pyarrow gives it of the canonical layout.
    theirs:
        As :meth:`Chain.read` gives it. Known faults of fastavro 1.13 are put right: a default of bytes comes as text,
        one of a logical type as its number, one of a record without its own defaults, and a float unrounded.
    """
    if isinstance(theirs, tuple) and len(theirs) == 2 and isinstance(theirs[0], str):
        theirs = theirs[1]
    if ours is None or theirs is None:
        return None if ours is theirs else ""
    match type_:
        case Union() if type_.optional:
            return agrees(without_null(type_), ours, theirs)
        case Union():
            types = dict(zip(branch_names(type_), type_.values, strict=True))
            there = next(((name, each) for name, each in ours.items() if each is not None), None)
            if there is None:
                return ""
            return _beneath(f"<{there[0]}>", agrees(types[there[0]], there[1], theirs))
        case Record() if isinstance(theirs, Mapping):
            for field in type_.fields:
                held = theirs.get(field.name, _NOTHING)
                wrong = None if held is _NOTHING else agrees(field.type, ours[field.name], held)
                if wrong is not None:
                    return _beneath(f".{field.name}", wrong)
            return None
        case Array() if isinstance(theirs, list):
            if len(ours) != len(theirs):
                return ""
            found = (agrees(type_.items, one, two) for one, two in zip(ours, theirs, strict=True))
            return _beneath("[]", next((each for each in found if each is not None), None))
        case Map() if isinstance(theirs, Mapping):
            mine = dict(ours)
            if mine.keys() != theirs.keys():
                return ""
            found = (agrees(type_.values, mine[key], theirs[key]) for key in mine)
            return _beneath("{}", next((each for each in found if each is not None), None))
        case Enum():
            return None if ours == theirs else ""
    return None if _same(type_, ours, theirs) else ""


def _beneath(part: str, path: str | None) -> str | None:
    return None if path is None else part + path


def _same(type_: AvroType, ours: Any, theirs: Any) -> bool:
    theirs = _leaf(type_, theirs)
    if isinstance(type_, Primitive) and type_.name in ("float", "double") and isinstance(theirs, int | float):
        if type_.name == "float" and not _packs(theirs):
            return False
        form = "<f" if type_.name == "float" else "<d"
        # The payload of NaN passes through Python on neither side.
        return (math.isnan(ours) and math.isnan(theirs)) or struct.pack(form, ours) == struct.pack(form, theirs)
    if isinstance(ours, datetime) and isinstance(theirs, datetime):
        return _instant(ours) == _instant(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def _instant(value: datetime) -> datetime:
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value


def _leaf(type_: AvroType, value: Any) -> Any:
    """A leaf as fastavro gives it, in the form that pyarrow has for it."""
    logical = type_.logical.name if isinstance(type_, Primitive | Fixed) and type_.logical is not None else None
    if isinstance(value, UUID):
        return str(value) if isinstance(type_, Primitive) else value.bytes
    stored = type_.name if isinstance(type_, Primitive) else "fixed"
    if isinstance(value, str) and stored in ("bytes", "fixed"):
        value = value.encode("latin-1")
    if isinstance(value, bytes) and logical == "decimal" and isinstance(type_, Primitive | Fixed) and type_.logical:
        whole = int.from_bytes(value, "big", signed=True)
        return Decimal(whole).scaleb(-(type_.logical.scale or 0), Context(prec=80))
    if isinstance(value, int) and not isinstance(value, bool) and logical is not None:
        return _counted(logical, value)
    return value


def _counted(logical: str, value: int) -> Any:
    try:
        match logical:
            case "date":
                return date(1970, 1, 1) + timedelta(days=value)
            case "time-millis" | "time-micros":
                return (_EPOCH + timedelta(microseconds=value * (1000 if logical == "time-millis" else 1))).time()
            case "timestamp-millis" | "local-timestamp-millis":
                return _EPOCH + timedelta(milliseconds=value)
            case "timestamp-micros" | "local-timestamp-micros":
                return _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        raise Unasked("a date beyond the year 9999") from None
    return value
