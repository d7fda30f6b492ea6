"""What the table's own reader, pyiceberg, gives: whole or file by file, under a predicate or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DecimalType, IcebergType, NestedField, TimestampType, TimestamptzType, UUIDType

from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType
from lakeevolve.tables.base import DataFile, Predicate
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.locate import locate
from lakeevolve.tables.iceberg.raw import foreign_columns
from lakeevolve.tables.iceberg.shape import Reading, with_ids


class Tasks:
    """The files of a scan by path, planned once however often they are read: planning reads every manifest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: dict[str, FileScanTask] | None = None

    def of(self, scan: DataScan) -> Mapping[str, FileScanTask]:
        """The files of this scan, which is the same each time."""
        with self._lock:
            if self._planned is None:
                self._planned = {str(task.file.file_path): task for task in scan.plan_files()}
            return self._planned


def read_table(
    metadata: TableMetadata,
    io: FileIO,
    schema: IcebergSchema,
    avro: Schema,
    where: str,
    *,
    snapshot: int | None = None,
    file: DataFile | None = None,
    predicate: Predicate | None = None,
    columns: Sequence[str] | None = None,
    tasks: Tasks | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows that pyiceberg reads, in the canonical layout of *avro*, then the foreign columns; of these top-level
    columns alone, if any are given. *tasks* keeps what reading without a predicate has planned.

    Files are read one after the other, each in file order, so that memory does not grow with the table.
    """
    expression = AlwaysTrue() if predicate is None else _expression(schema, avro, predicate)
    if columns is not None:
        schema, avro = _only(schema, avro, columns)
    with translated(where):
        scan = DataScan(metadata, io, row_filter=expression, snapshot_id=snapshot)
        planned = (tasks if tasks is not None and predicate is None else Tasks()).of(scan)
    wanted = sorted(planned) if file is None else [file.path] if file.path in planned else []
    for task in (planned[path] for path in wanted):
        canonical = _Canonical(schema, avro, task.file.file_path)
        for batch in _task(metadata, io, schema, expression, task):
            yield canonical(batch)


def _only(schema: IcebergSchema, avro: Schema, columns: Sequence[str]) -> tuple[IcebergSchema, Schema]:
    """Both schemas with these top-level columns alone."""
    kept = [each for each in schema.columns if each.name in columns]
    fields = tuple(each for each in avro.fields if each.name in columns)
    return IcebergSchema(*kept, schema_id=schema.schema_id), Schema(replace(avro.record, fields=fields))


def _task(
    metadata: TableMetadata, io: FileIO, schema: IcebergSchema, expression: BooleanExpression, task: FileScanTask
) -> Iterator[pa.RecordBatch]:
    """One file's batches as they come: the public method holds a whole file (apache/iceberg-python#3036)."""
    where = task.file.file_path
    with translated(where, data=True):
        scan = ArrowScan(metadata, io, schema, expression)
        batches = scan._record_batches_from_scan_tasks_and_deletes([task], _read_all_delete_files(io, [task]))
    while True:
        with translated(where, data=True):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


class _Canonical:
    """Turns the batches of one file into the canonical layout."""

    def __init__(self, schema: IcebergSchema, avro: Schema, where: str) -> None:
        named = {column.name: column for column in schema.columns}
        missing = [each.name for each in avro.fields if each.name not in named]
        if missing:
            raise TableError(
                f"the table has no column {missing[0]!r}",
                where=where,
                hint="refresh the table: its schema has changed",
            )
        self.columns: list[tuple[NestedField, AvroType | None]] = [(named[f.name], f.type) for f in avro.fields]
        self.columns += [(column, None) for column in foreign_columns(schema, avro)]
        self.names = [column.name for column, _ in self.columns]
        self.mapping = list(schema.name_mapping)
        self.where = where
        self.reading: Reading | None = None
        self.held: pa.Schema | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.reading is None or not batch.schema.equals(self.held):
            self.held = batch.schema
            self.reading = Reading(with_ids(list(batch.schema), self.mapping), self.where)
        held = batch.columns
        arrays = [
            self.reading.column(held, len(batch), column, type_, paths.child("", column.name))
            for column, type_ in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.names)


def _expression(schema: IcebergSchema, avro: Schema, predicate: Predicate) -> BooleanExpression:
    column = locate(schema, avro.root, predicate.path)
    segments = paths.parts(predicate.path)
    if column is None or not column.field_type.is_primitive or {paths.ITEMS, paths.VALUES} & set(segments):
        raise TableError(
            "there can be no filter on this path", where=predicate.path, hint="filters are on columns, not in lists"
        )
    if isinstance(column.field_type, UUIDType) and predicate.op != "is null":
        raise UnsupportedTable(
            "pyiceberg has no filter that compares UUIDs", where=predicate.path, hint="filter for null only"
        )
    name, type_ = str(schema.find_column_name(column.field_id)), column.field_type
    match predicate.op:
        case "is null":
            return _make("IsNull", name)
        case "=":
            return _make("EqualTo", name, _literal(predicate.value, type_))
        case "<":
            return _make("LessThan", name, _literal(predicate.value, type_))
        case "in":
            return _make("In", name, {_literal(value, type_) for value in predicate.value})


def _make(kind: str, *parts: Any) -> BooleanExpression:
    # The classes take positions, which their declared signatures do not say.
    made: BooleanExpression = getattr(expressions, kind)(*parts)
    return made


def _literal(value: Any, type_: IcebergType) -> Any:
    """A value as pyiceberg's literals take it."""
    match type_:
        case DecimalType() if isinstance(value, Decimal):
            # A literal of another scale is refused, and arithmetic would round to the context's digits.
            sign, digits, exponent = value.as_tuple()
            shift = type_.scale + int(exponent)
            if shift >= 0:
                return Decimal((sign, (*digits, *(0,) * shift), -type_.scale))
            return value
        case TimestampType() if isinstance(value, datetime):
            return value.replace(tzinfo=None).isoformat()
        case TimestamptzType() if isinstance(value, datetime):
            return value.isoformat() if value.tzinfo is not None else value.isoformat() + "+00:00"
    return value
