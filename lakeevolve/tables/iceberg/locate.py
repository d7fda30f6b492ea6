"""Which column of the table a path of a change means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakeevolve.model import path as paths
from lakeevolve.model.origin import base_path
from lakeevolve.model.types import AvroType
from lakeevolve.tables.iceberg.types import below, by_name, children, inner_fields

__all__ = ["base_path", "initial_values", "locate", "subtree"]


def locate(schema: IcebergSchema, root: AvroType | None, path: str) -> NestedField | None:
    """The column at a path of the Avro type that the schema holds (or, without one, of the columns' own names); None
    where there is none."""
    struct: IcebergType = schema.as_struct()
    type_ = root
    found: NestedField | None = None
    here = paths.ROOT
    for segment in paths.parts(path):
        match struct:
            case StructType():
                name = segment[1:-1] if segment.startswith("<") else segment
                found = by_name(struct, name)
                inner = [each for called, each, _ in children(type_, struct, here) if called == name]
                type_ = inner[0] if inner else None
            case ListType() if segment == paths.ITEMS:
                found, type_ = struct.element_field, below(type_)
            case MapType() if segment == paths.VALUES:
                found, type_ = struct.value_field, below(type_)
            case _:
                return None
        if found is None:
            return None
        struct = found.field_type
    return found


def initial_values(schema: IcebergSchema, root: AvroType) -> dict[int, tuple[str, Any]]:
    """The leaves outside lists and maps that have a default for old rows in the metadata: path and default by field
    id."""
    struct = schema.as_struct()
    if not _any_initial(struct):
        return {}
    return {number: (path, value) for number, path, value in _initial(struct, root, paths.ROOT)}


def _any_initial(struct: StructType) -> bool:
    return any(
        each.initial_default is not None or (isinstance(each.field_type, StructType) and _any_initial(each.field_type))
        for each in struct.fields
    )


def _initial(struct: StructType, type_: AvroType | None, path: str) -> Iterator[tuple[int, str, Any]]:
    columns = {each.name: each for each in struct.fields}
    for name, inner, here in children(type_, struct, path):
        column = columns.get(name)
        if column is None:
            continue
        if isinstance(column.field_type, StructType):
            yield from _initial(column.field_type, inner, here)
        elif column.initial_default is not None:
            yield column.field_id, here, column.initial_default


def subtree(column: NestedField) -> frozenset[int]:
    """The ids of a column and of everything beneath it."""
    found = {column.field_id}
    for inner in inner_fields(column.field_type):
        found |= subtree(inner)
    return frozenset(found)
