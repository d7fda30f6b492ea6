"""A change as Spark SQL, for tables whose columns delta-rs cannot change (Delta Lake's DDL, "ALTER TABLE").

The names of columns are those at the moment of the change, as in the change's own path, so the statements of one plan
run in its order.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from lakeevolve.avro.defaults import default_value
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model import path as paths
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropField,
    DropSymbol,
    MakeOptional,
    PromoteType,
    RenameField,
    RenameType,
)
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Enum, Record, Union, branch_names, is_null, without_null
from lakeevolve.tables.base import Capability
from lakeevolve.tables.delta.schema import delta_type
from lakeevolve.tables.delta.types import DeltaType, ListOf, MapOf, Struct, decimal_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final = {
    "boolean": "BOOLEAN",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
}


def statements(change: Change, found: Capability, base: Schema, target: Schema, table: str) -> str | None:
    """What makes a change in Spark, as statements with a semicolon between; None where SQL alone does not.

    ``table`` is the table as SQL names it, ``found`` the route that the change would take without column mapping.
    """
    if found.route == "refuse" or found.precondition is not None:
        return None
    made = _made(change, found, base, target, table)
    return None if made is None else "; ".join(made)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _made(change: Change, found: Capability, base: Schema, target: Schema, table: str) -> list[str] | None:
    column = _column(change.path)
    match change:
        case AddField():
            comment = f" COMMENT {_text(change.field.doc)}" if change.field.doc else ""
            place = _place(change, base, target)
            added = f"ALTER TABLE {table} ADD COLUMNS ({column} {_type_of(change.field.type)}{comment}{place})"
            if found.route == "metadata" or change.field.default is None:
                return [added]
            value = _literal(change.field.type, change.field.default)
            top = len(paths.parts(change.path)) == 1
            return [added, f"UPDATE {table} SET {column} = {value}"] if top and value is not None else None
        case DropField():
            return [f"ALTER TABLE {table} DROP COLUMN {column}"]
        case RenameField():
            # Names that change places would meet on the way.
            taken = _fields(base, paths.parent(change.path)) | _fields(target, paths.parent(change.path))
            if change.name in taken and change.name in _fields(base, paths.parent(change.path)):
                return None
            return [f"ALTER TABLE {table} RENAME COLUMN {column} TO {quoted(change.name)}"]
        case RenameType() if change.after is not None and change.after != change.path:
            name = paths.leaf(change.after)[1:-1]
            return [f"ALTER TABLE {table} RENAME COLUMN {column} TO {quoted(name)}"]
        case MakeOptional():
            return [f"ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL"]
        case AddBranch() if not is_null(change.branch):
            name = branch_names(Union((change.branch,)))[0]
            return [f"ALTER TABLE {table} ADD COLUMNS ({column}.{quoted(name)} {_type_of(change.branch)})"]
        case DropBranch() if not is_null(change.branch):
            name = branch_names(Union((change.branch,)))[0]
            return [f"ALTER TABLE {table} DROP COLUMN {column}.{quoted(name)}"]
        case DropSymbol() if len(paths.parts(change.path)) == 1:
            found_type = find_type(target.root, change.path)
            enum = without_null(found_type) if found_type is not None else None
            if not isinstance(enum, Enum) or enum.default is None:
                return None
            holds = f"{column} = {_text(change.symbol)}"
            return [f"UPDATE {table} SET {column} = {_text(enum.default)} WHERE {holds}"]
        case PromoteType() | ChangeLogicalType() if len(paths.parts(change.path)) == 1:
            return _retyped(change, table)
    return None


def _retyped(change: PromoteType | ChangeLogicalType, table: str) -> list[str] | None:
    """Delta changes no type in place but under type widening, which locks delta-rs out: a new column takes over."""
    old, new = delta_type(change.old), delta_type(change.new)
    if not isinstance(old, str) or not isinstance(new, str) or isinstance(change, ChangeLogicalType):
        return None
    column = _column(change.path)
    interim = quoted(f"{paths.leaf(change.path)}__new")
    return [
        f"ALTER TABLE {table} ADD COLUMNS ({interim} {_spark(new)} AFTER {column})",
        f"UPDATE {table} SET {interim} = CAST({column} AS {_spark(new)})",
        f"ALTER TABLE {table} DROP COLUMN {column}",
        f"ALTER TABLE {table} RENAME COLUMN {interim} TO {column}",
    ]


def _column(path: str) -> str:
    names = {paths.ITEMS: "element", paths.VALUES: "value"}
    return ".".join(
        names.get(segment) or quoted(segment[1:-1] if segment.startswith("<") else segment)
        for segment in paths.parts(path)
    )


def _place(change: AddField, base: Schema, target: Schema) -> str:
    """Where the column goes: behind the nearest field before it that is there by then."""
    parent = paths.parent(change.path)
    fields = _ordered(target, parent)
    there: Collection[str] = _fields(base, parent)
    name = paths.leaf(change.path)
    before = fields[: fields.index(name)] if name in fields else []
    last = next((field for field in reversed(before) if field in there), None)
    return "" if last is None else f" AFTER {quoted(last)}"


def _ordered(schema: Schema, path: str) -> list[str]:
    found = find_type(schema.root, path)
    record = without_null(found) if found is not None else None
    return [field.name for field in record.fields] if isinstance(record, Record) else []


def _fields(schema: Schema, path: str) -> frozenset[str]:
    return frozenset(_ordered(schema, path))


def _type_of(type_: AvroType) -> str:
    return _spark(delta_type(type_))


def _spark(type_: DeltaType) -> str:
    match type_:
        case Struct():
            return "STRUCT<" + ", ".join(f"{quoted(c.name)}: {_spark(c.type)}" for c in type_.columns) + ">"
        case ListOf():
            return f"ARRAY<{_spark(type_.element)}>"
        case MapOf():
            return f"MAP<{_spark(type_.key)}, {_spark(type_.value)}>"
    decimal = decimal_of(type_)
    return f"DECIMAL({decimal[0]}, {decimal[1]})" if decimal else _TYPES[type_]


def _literal(type_: AvroType, default: Any) -> str | None:
    """A default as a literal of the column's own type; None for one that SQL has no plain literal for."""
    bare, kind = without_null(type_), delta_type(type_)
    try:
        value = default_value(type_, default)
    except LakeEvolveError:
        return None
    if not isinstance(kind, str) or value is None:
        return None
    match kind:
        case "boolean":
            return "TRUE" if value else "FALSE"
        case "string":
            return _text(str(value)) if isinstance(value, str) else None
        case "binary":
            return f"X'{bytes(value).hex().upper()}'" if isinstance(value, bytes) else None
        case "date":
            return f"DATE'{(_EPOCH + timedelta(days=value)).date().isoformat()}'"
        case "timestamp":
            return f"TIMESTAMP'{_instant(value)}+00:00'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ'{_instant(value)}'"
        case "float" | "double":
            return f"CAST('{float(value)!r}' AS {_TYPES[kind]})"
        case "integer" | "long":
            # Delta has no time of day: its column holds the number that Avro wrote.
            logical = getattr(bare, "logical", None)
            return str(default if logical is not None and logical.name.startswith("time-") else int(value))
    return f"CAST('{value}' AS {_spark(kind)})" if isinstance(value, Decimal) else None


def _instant(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(sep=" ")


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
