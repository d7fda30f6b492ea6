"""Writing data files: Parquet with field ids by pyarrow, with the statistics that a manifest wants.

pyiceberg's own writer turns a NULL list of structs into an empty one (apache/iceberg-python#3833) and holds a whole
file in memory, so it is not used. Its statistics are not either: they fail on instants beyond the year 9999.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Record as PartitionRecord
from pyiceberg.types import BinaryType, DecimalType, NestedField, PrimitiveType, StringType
from pyiceberg.utils.decimal import unscaled_to_decimal

from lakeevolve.errors import LakeEvolveError, TableError
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.shape import file_field, to_file
from lakeevolve.tables.iceberg.types import inner_fields

#: Arrow bytes that are gathered before they become a row group.
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
#: Code points or bytes of a bound (Iceberg's own default, ``truncate(16)``).
BOUND_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Written:
    """A data file that lies in the store."""

    file: TheirFile
    rows: int


def write_file(
    io: FileIO,
    path: str,
    schema: IcebergSchema,
    avro: Schema,
    batches: Iterable[pa.RecordBatch],
    properties: Mapping[str, str],
    *,
    partition: PartitionRecord | None = None,
    spec_id: int = 0,
    sort_order_id: int | None = None,
) -> Written | None:
    """Write one data file; None, and no file, where *batches* hold no row. See :func:`write_files`."""
    whole = {**properties, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(2**63)}
    made = write_files(
        io,
        lambda: path,
        schema,
        avro,
        batches,
        whole,
        partition=partition,
        spec_id=spec_id,
        sort_order_id=sort_order_id,
    )
    return made[0] if made else None


def write_files(
    io: FileIO,
    path: Callable[[], str],
    schema: IcebergSchema,
    avro: Schema,
    batches: Iterable[pa.RecordBatch],
    properties: Mapping[str, str],
    *,
    partition: PartitionRecord | None = None,
    spec_id: int = 0,
    sort_order_id: int | None = None,
    unfit: Callable[[TableError, int], LakeEvolveError] | None = None,
) -> list[Written]:
    """Write rows as data files: one, unless it reaches the table's target size; none, where *batches* hold no row.

    Parameters
    ----------
    path:
        Gives the path of the next file.
    batches:
        Rows in the canonical layout of *avro*, then the foreign columns of *schema* in the table's own types.
    properties:
        The table's, which say how its Parquet files are to be.
    partition, spec_id:
        The partition that every row belongs to.
    unfit:
        Makes the error of a row (zero-based) that does not fit; by default a ``TableError`` that names it.

    Raises
    ------
    TableError
        A value does not fit its column, or a required column would hold a null.
    """
    named = sanitize_column_names(schema)
    arrow = pa.schema([file_field(column) for column in named.columns])
    types = {each.name: each.type for each in avro.fields}
    target = _number(
        properties,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    made: list[Written] = []
    rows = 0
    writing: _Writing | None = None
    try:
        for group in _groups(batches):
            if writing is None:
                writing = _Writing(io, path(), arrow, properties)
            fitted = []
            for batch in group:
                arrays = _fitted(batch, schema, arrow, types, rows, unfit or _unfit)
                fitted.append(pa.RecordBatch.from_arrays(arrays, schema=arrow))
                rows += len(batch)
            if writing.write(pa.Table.from_batches(fitted)) >= target:
                made.append(writing.close(schema, partition, spec_id, sort_order_id))
                writing = None
        if writing is not None:
            made.append(writing.close(schema, partition, spec_id, sort_order_id))
    except BaseException:
        if writing is not None:
            _discard(io, writing.path, writing.writer, writing.stream)
        raise
    return made


class _Writing:
    """A data file that is being written."""

    def __init__(self, io: FileIO, path: str, arrow: pa.Schema, properties: Mapping[str, str]) -> None:
        self.path = path
        self.properties = properties
        self.rows = 0
        self.output = io.new_output(path)
        with translated(path):
            self.stream: Any = self.output.create(overwrite=False)
        self.writer: pq.ParquetWriter = pq.ParquetWriter(
            self.stream, arrow, store_decimal_as_integer=True, **_options(properties)
        )

    def write(self, rows: pa.Table) -> int:
        """Write rows; returns the size of the file so far."""
        with translated(self.path):
            self.writer.write_table(rows, row_group_size=_rows_per_group(self.properties))
            self.rows += rows.num_rows
            return int(self.stream.tell())

    def close(
        self, schema: IcebergSchema, partition: PartitionRecord | None, spec_id: int, sort_order_id: int | None
    ) -> Written:
        with translated(self.path):
            self.writer.close()
            self.stream.close()
            size = len(self.output)
        made = TheirFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=partition if partition is not None else PartitionRecord(),
            file_size_in_bytes=size,
            sort_order_id=sort_order_id,
            equality_ids=None,
            key_metadata=None,
            **statistics(self.writer.writer.metadata, schema, self.properties),
        )
        made.spec_id = spec_id
        return Written(made, self.rows)


def _discard(io: FileIO, path: str, writer: Any, stream: Any) -> None:
    """Close and delete half a file; whatever fails here would hide why it is only half."""
    for step in (writer.close if writer is not None else None, stream.close if stream is not None else None):
        try:
            if step is not None:
                step()
        except Exception:
            continue
    if stream is not None:
        try:
            io.delete(path)
        except Exception:
            return


def _fitted(
    group: pa.RecordBatch,
    schema: IcebergSchema,
    arrow: pa.Schema,
    types: Mapping[str, AvroType],
    before: int,
    unfit: Callable[[TableError, int], LakeEvolveError],
) -> list[pa.Array]:
    """The columns as the file holds them; *before* is the number of rows that came before these."""

    def fit(column: NestedField, wanted: pa.Field, array: pa.Array) -> pa.Array:
        return to_file(array, column, wanted, types.get(column.name), paths.child("", column.name))

    held = _arrays(group, schema)
    made = []
    for column, wanted in zip(schema.columns, arrow, strict=True):
        array = held[column.name]
        try:
            made.append(fit(column, wanted, array))
        except TableError as error:
            found, first, end = error, 0, len(array)
            while end - first > 1:
                middle = (first + end) // 2
                try:
                    fit(column, wanted, array.slice(first, middle - first))
                    first = middle
                except TableError as other:
                    found, end = other, middle
            raise unfit(found, before + first) from error
    return made


def _unfit(error: TableError, row: int) -> TableError:
    return TableError(error.what, where=f"row {row}, {error.where or '$'}", hint=error.hint)


def _arrays(rows: pa.RecordBatch, schema: IcebergSchema) -> dict[str, pa.Array]:
    held = dict(zip(rows.schema.names, rows.columns, strict=True))
    for column in schema.columns:
        if column.name not in held:
            raise TableError(
                "the rows to be written lack a column of the table",
                where=column.name,
                hint="rows have the columns of the schema, then the foreign ones; a column without values is all null",
            )
    return held


def new_path(location: Any, folder: str = "", attempt: str = "") -> str:
    """A path that no other attempt uses. *location* is the table's location provider."""
    name = f"{attempt}{uuid.uuid4()}.parquet"
    return str(location.new_data_location(f"{folder}/{name}" if folder else name))


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches, as many at a time as make about a row group."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What the table's properties say of Parquet files, in pyarrow's words."""
    codec = properties.get(TableProperties.PARQUET_COMPRESSION, TableProperties.PARQUET_COMPRESSION_DEFAULT).lower()
    level = properties.get(TableProperties.PARQUET_COMPRESSION_LEVEL)
    return {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": int(level) if level is not None else None,
        "data_page_size": _number(
            properties, TableProperties.PARQUET_PAGE_SIZE_BYTES, TableProperties.PARQUET_PAGE_SIZE_BYTES_DEFAULT
        ),
        # pyarrow's own limit is half of Iceberg's: columns that it is too small for gain little from a dictionary.
        "dictionary_pagesize_limit": _number(properties, TableProperties.PARQUET_DICT_SIZE_BYTES, 1024 * 1024),
        "write_batch_size": _number(
            properties, TableProperties.PARQUET_PAGE_ROW_LIMIT, TableProperties.PARQUET_PAGE_ROW_LIMIT_DEFAULT
        ),
    }


def _rows_per_group(properties: Mapping[str, str]) -> int:
    return _number(properties, TableProperties.PARQUET_ROW_GROUP_LIMIT, TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT)


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    return int(properties.get(key, default))


# Statistics ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Column:
    """What is known of one leaf column so far."""

    type: PrimitiveType
    mode: str
    size: int = 0
    values: int = 0
    nulls: int | None = 0
    low: Any = None
    high: Any = None
    bounded: bool = True


def statistics(footer: pq.FileMetaData, schema: IcebergSchema, properties: Mapping[str, str]) -> dict[str, Any]:
    """A data file's statistics from its footer (Iceberg spec, "Manifests", ``data_file``).

    Bounds are kept for top-level columns, as other writers do; ids are taken from the leaf's place, since leaves
    stand in a file in the order of the schema.
    """
    leaves = list(_leaves(schema, properties))
    offsets = []
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        first = group.column(0)
        dictionary = first.dictionary_page_offset if first.has_dictionary_page else None
        offsets.append(min(first.data_page_offset, dictionary or first.data_page_offset))
        for place, (_, column) in enumerate(leaves):
            _add(column, group.column(place))
    kept = dict(leaves)
    counted = {number: column for number, column in kept.items() if column.mode != "none"}
    low = {n: _bound(c, c.low, upper=False) for n, c in counted.items()}
    high = {n: _bound(c, c.high, upper=True) for n, c in counted.items()}
    return {
        "record_count": footer.num_rows,
        "column_sizes": {number: column.size for number, column in kept.items()},
        "value_counts": {number: column.values for number, column in counted.items()},
        "null_value_counts": {n: c.nulls for n, c in counted.items() if c.nulls is not None},
        "nan_value_counts": {},
        "lower_bounds": {number: bound for number, bound in low.items() if bound is not None},
        "upper_bounds": {number: bound for number, bound in high.items() if bound is not None},
        "split_offsets": sorted(offsets),
    }


def _leaves(schema: IcebergSchema, properties: Mapping[str, str]) -> Iterator[tuple[int, _Column]]:
    usual = properties.get(
        TableProperties.DEFAULT_WRITE_METRICS_MODE, TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT
    )
    for top in schema.columns:
        for leaf, nested in _under(top, False):
            name = schema.find_column_name(leaf.field_id)
            mode = properties.get(f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{name}", usual).strip().lower()
            if nested and mode not in ("none", "counts"):
                mode = "counts"
            assert isinstance(leaf.field_type, PrimitiveType)
            yield leaf.field_id, _Column(leaf.field_type, mode)


def _under(column: NestedField, nested: bool) -> Iterator[tuple[NestedField, bool]]:
    inner = inner_fields(column.field_type)
    if not inner:
        yield column, nested
    for each in inner:
        yield from _under(each, True)


def _add(column: _Column, chunk: Any) -> None:
    column.size += chunk.total_compressed_size
    column.values += chunk.num_values
    found = chunk.statistics if chunk.is_stats_set else None
    if found is None or not found.has_null_count:
        column.nulls = None
    elif column.nulls is not None:
        column.nulls += found.null_count
    if column.mode == "counts" or not column.bounded:
        return
    if found is None or not found.has_min_max:
        # Without bounds in one row group there are none for the file, unless that group holds nulls alone.
        column.bounded = found is not None and found.has_null_count and found.null_count == chunk.num_values
        return
    low, high = _value(column.type, found.min_raw), _value(column.type, found.max_raw)
    column.low = low if column.low is None or low < column.low else column.low
    column.high = high if column.high is None or high > column.high else column.high


def _value(type_: PrimitiveType, raw: Any) -> Any:
    """A physical value in an order that is the column's own. Dates and instants stay numbers, of any year."""
    match type_:
        case DecimalType():
            number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
            return unscaled_to_decimal(number, type_.scale)
        case StringType():
            return raw.decode() if isinstance(raw, bytes) else raw
    return raw


def _bound(column: _Column, value: Any, *, upper: bool) -> bytes | None:
    if value is None or not column.bounded:
        return None
    length = BOUND_LENGTH if column.mode.startswith("truncate") else None
    if column.mode.startswith("truncate(") and column.mode[9:-1].isdigit():
        length = int(column.mode[9:-1])
    match column.type:
        case StringType():
            value = _cut_text(value, length, upper)
        case BinaryType():
            value = _cut_bytes(value, length, upper)
    return None if value is None else to_bytes(column.type, value)


def _cut_text(value: str, length: int | None, upper: bool) -> str | None:
    """The first code points of a text; as an upper bound, of those the least text that is not below it."""
    if length is None or len(value) <= length:
        return value
    cut = value[:length]
    if not upper:
        return cut
    while cut and cut[-1] == "\U0010ffff":
        cut = cut[:-1]
    if not cut:
        return None
    # No code point lies between U+D7FF and U+E000: those are surrogates.
    after = 0xE000 if cut[-1] == "\ud7ff" else ord(cut[-1]) + 1
    return cut[:-1] + chr(after)


def _cut_bytes(value: bytes, length: int | None, upper: bool) -> bytes | None:
    if length is None or len(value) <= length:
        return value
    cut = value[:length]
    if not upper:
        return cut
    cut = cut.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
