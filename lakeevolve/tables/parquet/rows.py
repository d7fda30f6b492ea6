"""Rows of files and of scans in the canonical layout of a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.errors import TableError
from lakeevolve.model import path as paths
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType
from lakeevolve.tables.base import Predicate
from lakeevolve.tables.parquet.derive import canonical, loose
from lakeevolve.tables.parquet.parts import Part, Source, text_of


def canonical_rows(
    batches: Iterator[pa.RecordBatch], schema: Schema, foreign: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows of a file in the canonical layout of its version, then the foreign columns that it has."""
    for batch in batches:
        arrays, names = [], []
        for each in schema.fields:
            at = batch.schema.get_field_index(each.name)
            arrays.append(
                pa.nulls(batch.num_rows, arrow_type(each.type, strict=False))
                if at < 0
                else _column(batch.column(at), each.type, each.name)
            )
            names.append(each.name)
        for name in foreign:
            at = batch.schema.get_field_index(name)
            if at >= 0 and name not in names:
                arrays.append(batch.column(at))
                names.append(name)
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _column(array: pa.Array, type_: AvroType, name: str) -> pa.Array:
    try:
        return canonical(array, type_)
    except TableError as error:
        where = name if error.where in (None, "$") else f"{name}, {error.where}"
        raise TableError(error.what, where=where, hint=error.hint) from error


def read_rows(
    source: Source,
    parts: Sequence[Part],
    schema: Schema,
    foreign: Sequence[str],
    predicate: Predicate | None,
    columns: Sequence[str] | None,
) -> Iterator[pa.RecordBatch]:
    layout = _scanned(source.parts, schema, foreign)
    condition = None if predicate is None else _condition(predicate, layout, schema)
    names = layout.names if columns is None else [name for name in layout.names if name in columns]
    wanted = Schema(replace(schema.record, fields=tuple(f for f in schema.fields if f.name in names)))
    yield from canonical_rows(source.scan(parts, layout, condition, names), wanted, [f for f in foreign if f in names])


def _scanned(parts: Sequence[Part], schema: Schema, foreign: Sequence[str]) -> pa.Schema:
    """The columns that a reader asks a dataset for: as the files have them, where one of this version does."""
    fields = []
    held = [part.schema for part in parts if part.schema is not None]
    for each in schema.fields:
        wanted = loose(each.type)
        same = [s.field(each.name) for s in held if s.get_field_index(each.name) >= 0]
        found = next((column.type for column in same if text_of(column) == str(wanted)), wanted)
        fields.append(pa.field(each.name, found))
    for name in foreign:
        found = next((s.field(name).type for s in held if s.get_field_index(name) >= 0), pa.null())
        fields.append(pa.field(name, found))
    return pa.schema(fields)


def _condition(predicate: Predicate, layout: pa.Schema, schema: Schema) -> Any:
    names = [part[1:-1] if part.startswith("<") else part for part in paths.parts(predicate.path)]
    column = pc.field(*names)
    if predicate.op == "is null":
        return column.is_null()
    found = find_type(schema.root, predicate.path)
    assert found is not None
    type_ = layout.field(names[0]).type
    for name in names[1:]:
        type_ = type_.field(name).type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if predicate.op == "in":
        return column.isin(pa.array(list(predicate.value), type_))
    literal = pa.scalar(predicate.value, type_)
    return column == literal if predicate.op == "=" else column < literal
