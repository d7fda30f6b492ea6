"""A change as Spark SQL, for tables that no Python library writes (Iceberg's Spark DDL, "ALTER TABLE").

The names of columns are those at the moment of the change, as in the change's own path.
"""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lakeevolve.model import path as paths
from lakeevolve.model.change import (
    AddField,
    Change,
    ChangeLogicalType,
    DropField,
    MakeOptional,
    MoveField,
    PromoteType,
    RenameField,
    SetDoc,
)
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Record, without_null
from lakeevolve.tables.base import Capability
from lakeevolve.tables.iceberg.types import iceberg_type

_TYPES = {
    BooleanType(): "BOOLEAN",
    IntegerType(): "INT",
    LongType(): "BIGINT",
    FloatType(): "FLOAT",
    DoubleType(): "DOUBLE",
    BinaryType(): "BINARY",
    StringType(): "STRING",
    DateType(): "DATE",
    TimestamptzType(): "TIMESTAMP",
    TimestampType(): "TIMESTAMP_NTZ",
}


def statement(
    change: Change, found: Capability, target: Schema, table: str, existed: Callable[[str], bool]
) -> str | None:
    """The statement that makes a metadata change; None where it takes more than one, or Spark has no type for it.

    *existed* tells whether a path of the target was there before all changes: moves come before fields are added.
    """
    if found.route != "metadata" or found.precondition is not None:
        return None
    column = _column(change.path)
    match change:
        case AddField():
            type_ = _type_of(change.field.type)
            comment = f" COMMENT {_text(change.field.doc)}" if change.field.doc else ""
            place = _place(change, target)
            return f"ALTER TABLE {table} ADD COLUMN {column} {type_}{comment}{place}" if type_ is not None else None
        case DropField():
            return f"ALTER TABLE {table} DROP COLUMN {column}"
        case RenameField():
            return f"ALTER TABLE {table} RENAME COLUMN {column} TO {_quoted(change.name)}"
        case MoveField():
            return f"ALTER TABLE {table} ALTER COLUMN {column}{_place(change, target, existed)}"
        case PromoteType() | ChangeLogicalType():
            type_ = _type_of(change.new)
            if type_ is None or type_ == _type_of(change.old):
                return None
            return f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {type_}"
        case MakeOptional():
            return f"ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL"
        case SetDoc() if change.on == "field":
            return f"ALTER TABLE {table} ALTER COLUMN {column} COMMENT {_text(change.new or '')}"
    return None


def _column(path: str) -> str:
    names = {paths.ITEMS: "element", paths.VALUES: "value"}
    return ".".join(
        names.get(segment) or _quoted(segment[1:-1] if segment.startswith("<") else segment)
        for segment in paths.parts(path)
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _place(change: AddField | MoveField, target: Schema, counts: Callable[[str], bool] = lambda _: True) -> str:
    """Where the column goes: behind the field that stands before it in the target."""
    parent = find_type(target.root, paths.parent(change.path))
    record = without_null(parent) if parent is not None else None
    if not isinstance(record, Record):
        return ""
    above, name = paths.parent(change.path), paths.leaf(change.path)
    names = [field.name for field in record.fields if field.name == name or counts(paths.child(above, field.name))]
    at = names.index(name) if name in names else 0
    return f" AFTER {_quoted(names[at - 1])}" if at else " FIRST"


def _type_of(type_: AvroType) -> str | None:
    return _spark(iceberg_type(type_, paths.ROOT, lambda: 1, 3))


def _spark(type_: IcebergType) -> str | None:
    match type_:
        case StructType():
            inside = [(_quoted(field.name), _spark(field.field_type)) for field in type_.fields]
            if any(inner is None for _, inner in inside):
                return None
            return "STRUCT<" + ", ".join(f"{name}: {inner}" for name, inner in inside) + ">"
        case ListType():
            inner = _spark(type_.element_type)
            return f"ARRAY<{inner}>" if inner is not None else None
        case MapType():
            key, value = _spark(type_.key_type), _spark(type_.value_type)
            return f"MAP<{key}, {value}>" if key is not None and value is not None else None
        case DecimalType():
            return f"DECIMAL({type_.precision}, {type_.scale})"
    return next((text for known, text in _TYPES.items() if known == type_), None)
