"""Delta's own schema: what stands in ``schemaString``, and the Arrow types that its columns are written in.

Source: the Delta protocol, "Schema Serialization Format" and "Column Mapping".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeevolve.errors import TableError, UnsupportedTable

if TYPE_CHECKING:
    import pyarrow as pa

PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
FIELD_ID: Final = "delta.columnMapping.id"
COMMENT: Final = "comment"

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)\Z")


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a struct. ``physical`` is its name in the data files, ``id`` its number under column mapping."""

    name: str
    type: DeltaType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def physical(self) -> str:
        return str(self.metadata.get(PHYSICAL_NAME, self.name))

    @property
    def id(self) -> int | None:
        found = self.metadata.get(FIELD_ID)
        return None if found is None else int(found)


@dataclass(frozen=True, slots=True)
class Struct:
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def similar(self, name: str) -> Column | None:
        """The column of that name whatever its case: Delta does not tell names apart by case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class ListOf:
    element: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapOf:
    key: DeltaType
    value: DeltaType
    contains_null: bool = True


#: A primitive is its Delta name: ``long``, ``decimal(9,2)``, ``timestamp_ntz``.
DeltaType: TypeAlias = str | Struct | ListOf | MapOf


def parse_struct(text: str, where: str) -> Struct:
    """A ``schemaString``. Raises ``TableError`` where it is none."""
    try:
        found = _parse(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(
            "the table's schema cannot be read", where=where, hint="repair the table's log, or go back a version"
        ) from error
    if not isinstance(found, Struct):
        raise TableError("the table's schema is not a struct", where=where, hint="repair the table's log")
    return found


def _parse(found: Any) -> DeltaType:
    if isinstance(found, str):
        return found.replace(" ", "")
    match found["type"]:
        case "struct":
            return Struct(tuple(_parse_column(f) for f in found["fields"]))
        case "array":
            return ListOf(_parse(found["elementType"]), bool(found["containsNull"]))
        case "map":
            return MapOf(_parse(found["keyType"]), _parse(found["valueType"]), bool(found["valueContainsNull"]))
    return str(found["type"])


def _parse_column(found: Any) -> Column:
    return Column(found["name"], _parse(found["type"]), bool(found["nullable"]), dict(found.get("metadata") or {}))


def struct_json(struct: Struct) -> dict[str, Any]:
    """The inverse of :func:`parse_struct`, as parsed JSON."""
    return {"type": "struct", "fields": [column_json(c) for c in struct.columns]}


def column_json(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": _json(column.type),
        "nullable": column.nullable,
        "metadata": dict(column.metadata),
    }


def _json(type_: DeltaType) -> Any:
    match type_:
        case Struct():
            return struct_json(type_)
        case ListOf():
            return {"type": "array", "elementType": _json(type_.element), "containsNull": type_.contains_null}
        case MapOf():
            return {
                "type": "map",
                "keyType": _json(type_.key),
                "valueType": _json(type_.value),
                "valueContainsNull": type_.contains_null,
            }
    return type_


def shape(type_: DeltaType) -> Any:
    """What readers and writers must agree on: names, types and nullability, without order, comments and the like."""
    match type_:
        case Struct():
            return tuple(
                sorted((c.name, c.physical, shape(c.type), c.nullable) for c in type_.columns)  # names are unique
            )
        case ListOf():
            return ("array", shape(type_.element), type_.contains_null)
        case MapOf():
            return ("map", shape(type_.key), shape(type_.value), type_.contains_null)
    return type_


def same_type(one: DeltaType, other: DeltaType) -> bool:
    """Whether two types differ in no more than nullability, order and metadata."""
    match one, other:
        case Struct(), Struct():
            return len(one.columns) == len(other.columns) and all(
                (match := other.column(c.name)) is not None and same_type(c.type, match.type) for c in one.columns
            )
        case ListOf(), ListOf():
            return same_type(one.element, other.element)
        case MapOf(), MapOf():
            return same_type(one.key, other.key) and same_type(one.value, other.value)
    return one == other


def columns_of(type_: DeltaType) -> Iterator[Column]:
    """Every column at every depth."""
    match type_:
        case Struct():
            for column in type_.columns:
                yield column
                yield from columns_of(column.type)
        case ListOf():
            yield from columns_of(type_.element)
        case MapOf():
            yield from columns_of(type_.key)
            yield from columns_of(type_.value)


def primitives_of(type_: DeltaType) -> Iterator[str]:
    """Every primitive type that occurs."""
    match type_:
        case Struct():
            for column in type_.columns:
                yield from primitives_of(column.type)
        case ListOf():
            yield from primitives_of(type_.element)
        case MapOf():
            yield from primitives_of(type_.key)
            yield from primitives_of(type_.value)
        case _:
            yield type_


def requires(type_: DeltaType) -> bool:
    """Whether anything beneath the type is NOT NULL."""
    match type_:
        case Struct():
            return any(not c.nullable or requires(c.type) for c in type_.columns)
        case ListOf():
            return not type_.contains_null or requires(type_.element)
        case MapOf():
            return not type_.contains_null or requires(type_.value)
    return False


def without_keys(struct: Struct, prefix: str) -> Struct:
    """The struct without the metadata keys that begin with *prefix*."""

    def clean(type_: DeltaType) -> DeltaType:
        match type_:
            case Struct():
                return without_keys(type_, prefix)
            case ListOf():
                return ListOf(clean(type_.element), type_.contains_null)
            case MapOf():
                return MapOf(clean(type_.key), clean(type_.value), type_.contains_null)
        return type_

    return Struct(
        tuple(
            replace(
                c,
                type=clean(c.type),
                metadata={k: v for k, v in c.metadata.items() if not k.startswith(prefix)},
            )
            for c in struct.columns
        )
    )


def decimal_of(type_: str) -> tuple[int, int] | None:
    """Precision and scale of ``decimal(p,s)``."""
    found = _DECIMAL.match(type_)
    return (int(found.group(1)), int(found.group(2))) if found else None


def arrow_type(type_: DeltaType, path: str = "$") -> pa.DataType:
    """The Arrow type in which a column of this type is written to Parquet and handed on.

    Raises ``UnsupportedTable`` for a type without one (interval, variant, geometry).
    """
    import pyarrow as pa

    match type_:
        case Struct():
            return pa.struct([arrow_field(c, path) for c in type_.columns])
        case ListOf():
            return pa.list_(pa.field("element", arrow_type(type_.element, path), type_.contains_null))
        case MapOf():
            value = pa.field("value", arrow_type(type_.value, path), type_.contains_null)
            return pa.map_(pa.field("key", arrow_type(type_.key, path), False), value)
    decimal = decimal_of(type_)
    if decimal is not None:
        return pa.decimal128(*decimal)
    if type_ == "decimal":
        return pa.decimal128(10, 0)
    plain = {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    if type_ not in plain:
        raise UnsupportedTable(
            f"the Delta type {type_} is not handled", where=path, hint="keep the column out of the schema, or cast it"
        )
    return plain[type_]


def arrow_field(column: Column, path: str = "$") -> pa.Field:
    import pyarrow as pa

    return pa.field(column.name, arrow_type(column.type, column.name if path == "$" else path), column.nullable)
