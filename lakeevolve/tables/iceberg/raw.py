"""Data files as pyarrow alone reads them: no reader whose answer is to be judged takes part.

Deletes are applied here. Only the bitmap of a v3 deletion vector is decoded by pyiceberg.
"""

from __future__ import annotations

from array import array as numbers
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import NestedField

from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType
from lakeevolve.tables.base import Stored
from lakeevolve.tables.batches import batch_rows
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.shape import Reading, field_id, has_ids, with_ids

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import NameMapping


@dataclass(frozen=True, slots=True)
class Handle:
    """What the table's metadata says of one data file.

    ``deletes`` are the position delete files that may concern it, ``equality`` whether equality deletes do.
    ``given`` holds the values of identity partitions by field id.
    """

    file: TheirFile
    deletes: tuple[TheirFile, ...] = ()
    equality: bool = False
    given: Mapping[int, Any] = field(default_factory=dict)
    sequence: int | None = None


def foreign_columns(schema: IcebergSchema, avro: Schema) -> tuple[NestedField, ...]:
    """The top-level columns that the Avro schema does not own."""
    owned = {each.name for each in avro.fields}
    return tuple(column for column in schema.columns if column.name not in owned)


def read_raw(
    io: FileIO,
    handle: Handle,
    schema: IcebergSchema,
    avro: Schema,
    foreign: Sequence[NestedField],
    mapping: NameMapping | None,
) -> Iterator[pa.RecordBatch]:
    """The live rows of one data file in file order: the canonical layout of *avro*, whose columns have the ids of
    *schema*, then the foreign columns."""
    refuse_unreadable(handle)
    deleted = _deleted(io, handle)
    named = {column.name: column for column in schema.columns}
    missing = [each.name for each in avro.fields if each.name not in named]
    if missing:
        raise TableError(
            f"the table's schema has no column {missing[0]!r}, which this version of it should have",
            where=handle.file.file_path,
            hint="the schema was removed from the table's metadata: restore it, or start anew from today",
        )
    columns: list[tuple[NestedField, AvroType | None]] = [(named[each.name], each.type) for each in avro.fields]
    columns += [(column, None) for column in foreign]
    names = [column.name for column, _ in columns]
    with opened(io, handle.file.file_path) as parquet:
        fields = identified(parquet.schema_arrow, mapping, handle.file.file_path)
        reading = Reading(fields, handle.file.file_path, handle.given)
        start = 0
        for batch in _batches(parquet, handle.file.file_path):
            held = batch.columns
            arrays = [
                reading.column(held, len(batch), column, type_, paths.child("", column.name))
                for column, type_ in columns
            ]
            made = pa.RecordBatch.from_arrays(arrays, names=names)
            yield _without(made, start, deleted)
            start += len(batch)


def live_rows(handle: Handle) -> int | None:
    """How many rows the metadata counts once deletes are taken off; None where two deletes may name one row."""
    # Two position delete files may name one row; a deletion vector names each once, and counts them.
    if handle.equality or any(each.file_format != FileFormat.PUFFIN for each in handle.deletes):
        return None
    return int(handle.file.record_count - sum(each.record_count for each in handle.deletes))


def stored(io: FileIO, path: str) -> Stored:
    """What lies where the metadata lists a file; see :class:`lakeevolve.tables.base.Stored`."""
    with translated(path, data=True):
        try:
            size = len(io.new_input(path))
        except FileNotFoundError:
            return Stored(None, None)
    try:
        with opened(io, path) as parquet:
            return Stored(size, parquet.metadata.num_rows)
    except TableError:
        return Stored(size, None)


def opened_batches(
    io: FileIO, handle: Handle, mapping: NameMapping | None, top: int
) -> Iterator[tuple[list[pa.Field], list[pa.Array], int]]:
    """One top-level column of a file, deleted rows included: its field with ids, its array and the rows, per batch;
    nothing where the file lacks it."""
    refuse_unreadable(handle)
    with opened(io, handle.file.file_path) as parquet:
        fields = identified(parquet.schema_arrow, mapping, handle.file.file_path)
        at = next((at for at, each in enumerate(fields) if field_id(each) == top), None)
        if at is None:
            return
        name = parquet.schema_arrow.names[at]
        # pyarrow takes a dot for a way into a struct.
        only = None if "." in name else [name]
        for batch in _batches(parquet, handle.file.file_path, only):
            yield [fields[at]], [batch.column(at if only is None else 0)], len(batch)


def refuse_unreadable(handle: Handle) -> None:
    """Raise for what cannot be read row by row here."""
    if handle.file.file_format != FileFormat.PARQUET:
        raise UnsupportedTable(
            f"a data file is {handle.file.file_format}, and only Parquet is read",
            where=handle.file.file_path,
            hint="rewrite the file as Parquet with the engine that wrote it",
        )
    if handle.equality:
        raise UnsupportedTable(
            "the table holds equality deletes, which no Python library applies",
            where=handle.file.file_path,
            hint="compact the table with Spark (rewrite_data_files), which applies them",
        )


class opened:  # noqa: N801 - used as a context manager, like open()
    """A Parquet file of the table's store."""

    def __init__(self, io: FileIO, path: str) -> None:
        self.path = path
        with translated(path, data=True):
            self.stream = io.new_input(path).open()
            try:
                self.parquet = pq.ParquetFile(self.stream)
            except BaseException:
                self.stream.close()
                raise

    def __enter__(self) -> pq.ParquetFile:
        return self.parquet

    def __exit__(self, *_: object) -> None:
        self.parquet.close()
        self.stream.close()


def identified(schema: pa.Schema, mapping: NameMapping | None, where: str) -> list[pa.Field]:
    """A file's columns with field ids: its own, or those that the table's name mapping gives to a file without any."""
    fields = list(schema)
    if has_ids(fields) or not fields:
        return fields
    if mapping is None:
        raise TableError(
            "a data file has no field ids, and the table no name mapping that says which column is which",
            where=where,
            hint="set the table property schema.name-mapping.default, or rewrite the file",
        )
    return with_ids(fields, list(mapping))


def footer_ids(io: FileIO, path: str, mapping: NameMapping | None) -> dict[int, pa.DataType]:
    """Field id and Arrow type of each column of a file, at every depth, from its footer alone."""
    return column_ids(footer(io, path), mapping, path)


def footer(io: FileIO, path: str) -> pa.Schema:
    """A file's columns, from its footer alone."""
    with opened(io, path) as parquet:
        return parquet.schema_arrow


def column_ids(schema: pa.Schema, mapping: NameMapping | None, where: str) -> dict[int, pa.DataType]:
    """Field id and Arrow type of each of a file's columns, at every depth."""
    found: dict[int, pa.DataType] = {}
    _collect(identified(schema, mapping, where), found)
    return found


def _collect(fields: Iterable[pa.Field], found: dict[int, pa.DataType]) -> None:
    for each in fields:
        number = field_id(each)
        if number is not None:
            found[number] = each.type
        inside: list[pa.Field] = []
        if pa.types.is_struct(each.type):
            inside = list(each.type)
        elif pa.types.is_map(each.type):
            inside = [each.type.key_field, each.type.item_field]
        elif pa.types.is_list(each.type) or pa.types.is_large_list(each.type):
            inside = [each.type.value_field]
        _collect(inside, found)


def _batches(parquet: pq.ParquetFile, where: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    batches = parquet.iter_batches(batch_size=batch_rows(parquet.metadata), columns=columns)
    while True:
        with translated(where, data=True):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _deleted(io: FileIO, handle: Handle) -> numbers[int]:
    """The sorted positions that delete files take out of one data file."""
    found: list[pa.ChunkedArray] = []
    for delete in handle.deletes:
        with translated(delete.file_path, data=True):
            found.extend(_positions(io, delete, handle.file.file_path))
    if not found:
        return numbers("q")
    chunks = [chunk for each in found for chunk in each.chunks]
    sorted_ = pc.unique(pa.chunked_array(chunks, pa.int64())).sort()
    return numbers("q", sorted_.to_pylist())


def _positions(io: FileIO, delete: TheirFile, path: str) -> Iterator[pa.ChunkedArray]:
    if delete.file_format == FileFormat.PARQUET:
        with opened(io, delete.file_path) as parquet:
            # "file_path" and "pos" have these names in every delete file (spec, "Position Delete Files").
            for batch in parquet.iter_batches(columns=["file_path", "pos"]):
                named = pc.equal(batch.column("file_path").cast(pa.string()), path)
                yield pa.chunked_array([batch.column("pos").filter(named)], pa.int64())
        return
    if delete.file_format == FileFormat.PUFFIN:
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        with io.new_input(delete.file_path).open() as stream:
            payload = stream.read()
        for vector in deletion_vectors_from_puffin_file(PuffinFile(payload)):
            if vector.referenced_data_file == path:
                yield vector.to_vector().cast(pa.int64())
        return
    raise UnsupportedTable(
        f"a delete file is {delete.file_format}, and only Parquet and Puffin are read",
        where=delete.file_path,
        hint="compact the table with the engine that wrote it",
    )


def _without(batch: pa.RecordBatch, start: int, deleted: Sequence[int]) -> pa.RecordBatch:
    """The batch, whose first row is the file's row *start*, without the deleted rows."""
    first, last = bisect_left(deleted, start), bisect_left(deleted, start + len(batch))
    if first == last:
        return batch
    keep = bytearray(b"\x01") * len(batch)
    for position in deleted[first:last]:
        keep[position - start] = 0
    mask = pa.Array.from_buffers(pa.uint8(), len(batch), [None, pa.py_buffer(keep)]).cast(pa.bool_())
    # Table.filter: RecordBatch.filter fails on an empty result before pyarrow 21 (apache/arrow#46057).
    table = pa.Table.from_batches([batch]).filter(mask)
    rows = table.combine_chunks().to_batches()
    return rows[0] if rows else batch.slice(0, 0)
