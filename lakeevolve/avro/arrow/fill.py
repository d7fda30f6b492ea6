"""Filling in the fields that a producer's rows lack, with the defaults of the schema that they are written for.

Avro's own writers must supply every field; its readers fill what is missing. A table has no such reader for new rows:
neither Iceberg nor Delta applies a column's default when a library appends, and what is left out is stored as NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa

from lakeevolve.avro.arrow import nested
from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.avro.defaults import default_value
from lakeevolve.errors import ResolutionError
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Array, AvroType, Field, Map, Record, Union, branch_names, without_null

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def fill_defaults(schema: Schema, data: Rows) -> Rows:
    """The rows with every field of the schema; see :func:`lakeevolve.fill_defaults`."""
    if isinstance(data, pa.RecordBatch):
        return _batch(schema.record, data)
    batches = [_batch(schema.record, batch) for batch in data.to_batches()]
    if batches:
        return pa.Table.from_batches(batches)
    empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in data.schema], schema=data.schema)
    return pa.Table.from_batches([_batch(schema.record, empty)])


def _batch(record: Record, batch: pa.RecordBatch) -> pa.RecordBatch:
    held = {field.name: (field, column) for field, column in zip(batch.schema, batch.columns, strict=True)}
    fields, arrays = [], []
    for field, called in _named(record, list(held)):
        here = paths.child(paths.ROOT, field.name)
        if called is None:
            made = _default(field, batch.num_rows, here)
            fields.append(pa.field(field.name, made.type))
        else:
            old, column = held.pop(called)
            made = _filled(column, field.type, here)
            fields.append(pa.field(field.name, made.type, old.nullable, old.metadata))
        arrays.append(made)
    # What no field owns (ingest metadata) stays, behind the rest.
    for old, column in held.values():
        fields.append(old)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=batch.schema.metadata))


def _named(record: Record, held: list[str]) -> Iterator[tuple[Field, str | None]]:
    """Each field with the column that holds it: by its name, or by an alias that no other field is called."""
    names = {field.name for field in record.fields}
    for field in record.fields:
        alias = next((each for each in field.aliases if each in held and each not in names), None)
        yield field, field.name if field.name in held else alias


def _default(field: Field, length: int, path: str) -> pa.Array:
    if not field.has_default:
        raise ResolutionError(
            "the data lacks a field that has no default",
            where=path,
            hint="give every row a value, or the field a default",
        )
    type_ = arrow_type(field.type, strict=False)
    one = pa.array([default_value(field.type, field.default)], type_)
    # Repeating a scalar shares its children, which writers of nested columns stumble over.
    return one.take(pa.array([0] * length, pa.int64())) if pa.types.is_nested(type_) else pa.repeat(one[0], length)


def _filled(array: pa.Array, type_: AvroType, path: str) -> pa.Array:
    """The array with every field that stands beneath it; as it is, where it lacks none."""
    plain = without_null(type_)
    if _complete(array.type, plain):
        return array
    match plain:
        case Record():
            return _struct(array, plain, path)
        case Union():
            branches = dict(zip(branch_names(plain), plain.values, strict=True))
            held = dict(zip((f.name for f in array.type), nested.fields(array), strict=True))
            made = {
                name: _filled(held[name], branch, paths.branch(path, name))
                if name in held
                else pa.nulls(len(array), arrow_type(branch, strict=False))
                for name, branch in branches.items()
            }
            return _structs(list(made), list(made.values()), array)
        case Array():
            offsets, values = nested.lists(array)
            items = _filled(values, plain.items, paths.items(path))
            inner = pa.field(array.type.value_field.name, items.type)
            large = pa.types.is_large_list(array.type)
            return nested.list_like(pa.large_list(inner) if large else pa.list_(inner), offsets, items, array)
        case Map():
            offsets, entries = nested.lists(array)
            keys, values = nested.fields(entries)
            values = _filled(values, plain.values, paths.values(path))
            target = pa.map_(keys.type, pa.field("value", values.type))
            return nested.list_like(target, offsets, nested.entries(target, keys, values), array)
    return array


def _struct(array: pa.Array, record: Record, path: str) -> pa.Array:
    held = dict(zip((field.name for field in array.type), nested.fields(array), strict=True))
    names, arrays = [], []
    for field, called in _named(record, list(held)):
        here = paths.child(path, field.name)
        names.append(field.name)
        if called is None:
            arrays.append(_default(field, len(array), here))
        else:
            arrays.append(_filled(held.pop(called), field.type, here))
    return _structs([*names, *held], [*arrays, *held.values()], array)


def _structs(names: list[str], arrays: list[pa.Array], like: pa.Array) -> pa.Array:
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
    return nested.struct(pa.struct(fields), arrays, like)


def _complete(held: pa.DataType, type_: AvroType) -> bool:
    """Whether data of an Arrow type have every field of an Avro type, under its own name."""
    type_ = without_null(type_)
    match type_:
        case Record() if pa.types.is_struct(held):
            found = {field.name: field.type for field in held}
            return all(f.name in found and _complete(found[f.name], f.type) for f in type_.fields)
        case Union() if pa.types.is_struct(held):
            found = {field.name: field.type for field in held}
            named = zip(branch_names(type_), type_.values, strict=True)
            return all(name in found and _complete(found[name], branch) for name, branch in named)
        case Array() if pa.types.is_list(held) or pa.types.is_large_list(held):
            return _complete(held.value_type, type_.items)
        case Map() if pa.types.is_map(held):
            return _complete(held.item_type, type_.values)
    # A column of another kind is for the table to judge.
    return True
