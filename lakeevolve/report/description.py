"""A table's description as text: what it is, and its columns as a tree with their types on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeevolve.avro.parse import parse
from lakeevolve.errors import SchemaError
from lakeevolve.model import path as paths
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import describe
from lakeevolve.report.text import counted, size

_OPTIONAL = {"required": False, "nullable": True}


@dataclass(frozen=True, slots=True)
class Column:
    """One column or field of the table's own schema. ``path`` is its path, ``name`` its name as the tree shows it."""

    name: str
    path: str
    depth: int
    type: str
    optional: bool
    id: int | None
    notes: tuple[str, ...] = ()


def description_text(record: Mapping[str, Any]) -> str:
    lines = [record["uri"], *(f"  {name:<12} {text}" for name, text in facts_of(record) if text), ""]
    return "\n".join([*lines, *_table(record)])


def columns_of(record: Mapping[str, Any]) -> Iterator[Column]:
    """Every column of a description, those inside of others after them."""
    for column in record["columns"]:
        yield from _column(column, paths.ROOT, 0, _roles(record))


def facts_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a table is, as names and texts; a text may be empty."""
    pin, counts = record["pin"], record["counts"]
    features = dict(record["features"])
    if "format-version" in pin:
        yield "format", f"{record['format']}, format version {pin['format-version']}"
    elif "minReaderVersion" in features:
        protocol = (
            f"reader version {features.pop('minReaderVersion')}, writer version {features.pop('minWriterVersion')}"
        )
        yield "format", f"{record['format']}, {protocol}"
    else:
        yield "format", record["format"]
    yield "id", record["id"]
    versions = record["versions"]
    newest = versions[-1]
    plan = newest["plan"]
    made = (
        f"by plan {plan[:12]}" if plan else "by others" if newest["derived"] and len(versions) > 1 else "as first seen"
    )
    yield "version", f"{newest.get('number', newest.get('version'))} of {counted(len(versions), 'version')}, {made}"
    recorded = sum(not version["derived"] for version in versions)
    yield "marker", f"records {counted(recorded, 'version')}" if recorded else "none"
    yield "digest", newest["digest"][:12]
    yield "data", f"{counted(counts['files'], 'file')}, {counted(counts['rows'], 'row')}, {size(counts['bytes'])}"
    yield "position", "" if record.get("position") is None else str(record["position"])
    yield "partitioned", ", ".join(map(_partition, record["partitioning"]))
    yield "sorted", ", ".join(f"{each['column']} {each['direction']}" for each in record.get("sort_order", ()))
    yield "foreign", ", ".join(record["foreign"])
    told = (f"{name}: {_short(value)}" for name, value in features.items() if value not in (False, [], "none", None))
    yield "features", "; ".join(told)
    more = (f"{name} {value:,}" for name, value in counts.items() if name not in ("files", "rows", "bytes") and value)
    yield "counts", ", ".join(more)


def _short(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "yes" if value is True else str(value)


def _partition(each: Any) -> str:
    if isinstance(each, str):
        return each
    column, transform = each["column"], each["transform"]
    return str(column) if transform == "identity" else f"{transform}({column})"


def _roles(record: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in record["partitioning"]:
        found.setdefault(each if isinstance(each, str) else str(each["column"]), []).append("partition")
    for each in record.get("sort_order", ()):
        found.setdefault(str(each["column"]), []).append("sort order")
    for name in record.get("identifier", ()):
        found.setdefault(name, []).append("identifier")
    for name in record["foreign"]:
        found.setdefault(paths.child(paths.ROOT, name), []).append("foreign")
    return found


def _column(column: Mapping[str, Any], above: str, depth: int, roles: Mapping[str, Sequence[str]]) -> Iterator[Column]:
    path = paths.child(above, column["name"])
    type_ = column["type"]
    optional = any(column.get(key) is value for key, value in _OPTIONAL.items())
    yield Column(column["name"], path, depth, type_text(type_), optional, column.get("id"), tuple(roles.get(path, ())))
    inside, at = _struct(type_, path)
    for each in inside:
        yield from _column(each, at, depth + 1, roles)


def _struct(type_: Any, path: str) -> tuple[Sequence[Mapping[str, Any]], str]:
    """The fields of the struct that a type holds at last, and the path that leads to them."""
    while isinstance(type_, Mapping):
        match type_["type"]:
            case "struct":
                return type_["fields"], path
            case "list" | "array":
                type_, path = type_.get("element", type_.get("elementType")), paths.items(path)
            case "map":
                type_, path = type_.get("value", type_.get("valueType")), paths.values(path)
            case _:
                break
    return (), path


def type_text(type_: Any) -> str:
    """A type of the table's own schema in a word or two; a ``?`` marks what may be null.

    >>> type_text({"type": "list", "element": "string", "element-required": False})
    'list<string?>'
    """
    if not isinstance(type_, Mapping):
        return str(type_)
    match type_["type"]:
        case "list" | "array":
            inner = type_text(type_.get("element", type_.get("elementType")))
            optional = not type_.get("element-required", not type_.get("containsNull", False))
            return f"{type_['type']}<{inner}{'?' * optional}>"
        case "map":
            key = type_text(type_.get("key", type_.get("keyType")))
            value = type_text(type_.get("value", type_.get("valueType")))
            optional = not type_.get("value-required", not type_.get("valueContainsNull", False))
            return f"map<{key}, {value}{'?' * optional}>"
        case kind:
            return str(kind)


def rows_of(record: Mapping[str, Any]) -> list[list[str]]:
    """The columns as rows of text, below a row of headings."""
    schema = _schema(record)
    ids = any(column.id is not None for column in columns_of(record))
    rows = [["column", *(["id"] if ids else []), record["format"], "null", "Avro", ""]]
    for column in columns_of(record):
        avro = None if schema is None else find_type(schema.root, column.path)
        row = [
            "  " * column.depth + column.name,
            column.type,
            "yes" if column.optional else "no",
            "" if avro is None else describe(avro),
            ", ".join(column.notes),
        ]
        if ids:
            row.insert(1, "" if column.id is None else str(column.id))
        rows.append(row)
    return rows


def _table(record: Mapping[str, Any]) -> Iterator[str]:
    rows = rows_of(record)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _schema(record: Mapping[str, Any]) -> Schema | None:
    try:
        return parse(record["schema"], lenient=True)
    except SchemaError:
        return None
