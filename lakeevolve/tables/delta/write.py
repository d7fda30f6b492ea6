"""Writing data files with pyarrow, with the statistics that the log holds about them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.errors import LakeEvolveError, TableError
from lakeevolve.model import path as paths
from lakeevolve.redaction import without_secrets
from lakeevolve.tables.delta.store import unanswered
from lakeevolve.tables.delta.types import Column, DeltaType, ListOf, MapOf, Struct, arrow_field, decimal_of, requires
from lakeevolve.tables.delta.unfit import first_unfit

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pa_fs
    import pyarrow.parquet as pq

#: A row group is closed at whichever comes first.
GROUP_ROWS: Final = 262_144
GROUP_BYTES: Final = 64 * 2**20

#: delta.dataSkippingNumIndexedCols where the table does not set it.
INDEXED_COLUMNS: Final = 32
_LONGEST_TEXT: Final = 32
#: So many rows tell whether the values of a column repeat.
_SAMPLED: Final = 4096
#: A JSON number is a double to many readers.
_EXACT_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class Written:
    rows: int
    bytes: int
    stats: str


def write_file(
    fs: pa_fs.FileSystem,
    path: str,
    columns: Sequence[Column],
    batches: Iterator[pa.RecordBatch],
    indexed: int = INDEXED_COLUMNS,
    unfit: Callable[[TableError, int], LakeEvolveError] | None = None,
) -> Written | None:
    """Write one Parquet file; None, and no file, where there is no row.

    Parameters
    ----------
    fs, path:
        Where to write.
    columns:
        The columns of the file, in order.
    batches:
        The rows, in the canonical layout; their columns are found by name.
    indexed:
        How many leaf columns get statistics (negative: all).
    unfit:
        Makes the error of a row (zero-based) that does not fit, from what is wrong with it; by default a
        ``TableError`` that names the row.

    Raises
    ------
    TableError
        Where a column that must not hold nulls does, or a value has no place in its column, and nothing else is asked
        for.
    """
    import pyarrow as pa

    schema = pa.schema([arrow_field(c) for c in columns])
    statistics = Statistics(columns, indexed)
    writer: pq.ParquetWriter | None = None
    held: list[pa.RecordBatch] = []
    rows = 0
    with _told(path), _closing(lambda: writer):
        for batch in batches:
            made = fitted(batch, columns, schema, rows, unfit or partial(_unfit, path))
            statistics.add(made)
            held.append(made)
            rows += made.num_rows
            full = sum(b.num_rows for b in held) >= GROUP_ROWS or sum(b.nbytes for b in held) >= GROUP_BYTES
            if full and held:
                writer = writer or _writer(fs, path, schema, held[0])
                writer.write_table(pa.Table.from_batches(held, schema), row_group_size=GROUP_ROWS)
                held = []
        if held and rows:
            writer = writer or _writer(fs, path, schema, held[0])
            writer.write_table(pa.Table.from_batches(held, schema), row_group_size=GROUP_ROWS)
    if writer is None:
        return None
    with _told(path):
        return Written(rows, fs.get_file_info(path).size, statistics.to_json())


@contextmanager
def _closing(writer: Callable[[], pq.ParquetWriter | None]) -> Iterator[None]:
    try:
        yield
    finally:
        made = writer()
        if made is not None:
            made.close()


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Say which file could not be written. A store's own words do not pass."""
    try:
        yield
    except OSError as error:
        told = "a data file cannot be written"
        raise unanswered(error, path, told) or TableError(
            told, where=path, hint="check that there is room, and the permissions"
        ) from without_secrets(error)


def _writer(fs: pa_fs.FileSystem, path: str, schema: pa.Schema, first: pa.RecordBatch) -> pq.ParquetWriter:
    """A writer that makes dictionaries for columns whose values repeat: for others they are built and thrown away,
    which takes longer than all the rest."""
    import pyarrow.parquet as pq

    sample = first.slice(0, _SAMPLED)
    repeating = [
        name for field, array in zip(schema, sample.columns, strict=True) for name in _repeating(field.name, array)
    ]
    return pq.ParquetWriter(path, schema, filesystem=fs, use_dictionary=repeating)


def _repeating(name: str, array: pa.Array) -> Iterator[str]:
    """The leaves, as Parquet calls them, of which a sample repeats its values."""
    import pyarrow as pa

    from lakeevolve.avro.arrow import nested

    type_ = array.type
    if pa.types.is_struct(type_):
        for field, child in zip(type_, nested.fields(array), strict=True):
            yield from _repeating(f"{name}.{field.name}", child)
    elif pa.types.is_map(type_):
        keys, values = nested.fields(nested.lists(array)[1])
        yield from _repeating(f"{name}.key_value.key", keys)
        yield from _repeating(f"{name}.key_value.value", values)
    elif pa.types.is_list(type_):
        yield from _repeating(f"{name}.list.element", nested.lists(array)[1])
    elif not pa.types.is_null(type_) and len(array.slice(0, _SAMPLED).unique()) <= len(array) // 2 + 1:
        yield name


def _unfit(where: str, error: TableError, row: int) -> TableError:
    return TableError(error.what, where=f"{where}, row {row}, {error.where or '$'}", hint=error.hint)


def fitted(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    schema: pa.Schema,
    before: int,
    unfit: Callable[[TableError, int], LakeEvolveError],
) -> pa.RecordBatch:
    """Rows in the canonical layout as the table's own Arrow types; a column that they lack is null.

    ``before`` is the number of rows that came before these. Raises what ``unfit`` makes of the first row that does not
    fit.
    """
    try:
        return _laid_out(batch, columns, schema)
    except TableError as error:
        # Column by column the error is another; the first row that any of them does not take is what is wanted.
        row, alone = first_unfit(
            lambda start, count: _laid_out(batch.slice(start, count), columns, schema), batch.num_rows, error
        )
        raise unfit(alone, before + row) from error


def _laid_out(batch: pa.RecordBatch, columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    """The same; the error names the path alone."""
    import pyarrow as pa

    from lakeevolve.tables.layout import to_layout

    arrays = []
    for column, target in zip(columns, schema, strict=True):
        index = batch.schema.get_field_index(column.name)
        array = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)
        here = paths.child("", column.name)
        if not pa.types.is_null(target.type):
            try:
                array = to_layout(_spelled(array, target.type), target.type)
            except TableError as error:
                inner = paths.parts(error.where) if error.where and error.where != "$" else ()
                at = paths.join((column.name, *inner))
                raise TableError(error.what, where=at, hint=error.hint) from error
        refuse_nulls(array, column.type, column.nullable, here)
        arrays.append(_settled(array, column.type, target.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spelled(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array with UUIDs as text where the target has text: 16 bytes in such a column can be nothing else."""
    import pyarrow as pa

    from lakeevolve.avro.arrow import nested
    from lakeevolve.tables.layout import to_layout

    source = array.type
    if source == pa.binary(16) and pa.types.is_string(target):
        return to_layout(to_layout(array, pa.uuid()), pa.string())
    if pa.types.is_struct(source) and pa.types.is_struct(target) and _packed(source):
        wanted = {f.name: f.type for f in target}
        parts = zip(source, nested.fields(array), strict=True)
        made = [_spelled(child, wanted.get(f.name, f.type)) for f, child in parts]
        return nested.struct(pa.struct([(f.name, m.type) for f, m in zip(source, made, strict=True)]), made, array)
    if pa.types.is_list(source) and pa.types.is_list(target) and _packed(source):
        offsets, items = nested.lists(array)
        items = _spelled(items, target.value_type)
        return nested.list_like(pa.list_(items.type), offsets, items, array)
    if pa.types.is_map(source) and pa.types.is_map(target) and _packed(source):
        offsets, entries = nested.lists(array)
        keys, values = nested.fields(entries)
        values = _spelled(values, target.item_type)
        made_type = pa.map_(keys.type, values.type)
        return nested.list_like(made_type, offsets, nested.entries(made_type, keys, values), array)
    return array


def _packed(type_: pa.DataType) -> bool:
    """Whether 16 bytes stand anywhere in the type."""
    import pyarrow as pa

    return type_ == pa.binary(16) or any(_packed(type_.field(i).type) for i in range(type_.num_fields))


def _settled(array: pa.Array, type_: DeltaType, target: pa.DataType) -> pa.Array:
    """The array with some value for each required field that lies beneath a null: Parquet's writer looks at no more
    than the field itself."""
    from lakeevolve.avro.arrow import nested
    from lakeevolve.tables.layout import to_layout

    if not requires(type_):
        return array if array.type == target else to_layout(array, target)
    match type_:
        case Struct():
            parts = zip(type_.columns, nested.fields(array), target, strict=True)
            made = [_settled(child if c.nullable else _some(child), c.type, f.type) for c, child, f in parts]
            return nested.struct(target, made, array)
        case ListOf():
            offsets, items = nested.lists(array)
            return nested.list_like(target, offsets, _settled(items, type_.element, target.value_type), array)
        case MapOf():
            offsets, entries = nested.lists(array)
            keys, values = nested.fields(entries)
            kept = nested.entries(target, keys, _settled(values, type_.value, target.item_type))
            return nested.list_like(target, offsets, kept, array)
    return array


def _some(array: pa.Array) -> pa.Array:
    """The array with a stand-in for each null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.null_count == 0:
        return array
    places = pa.array(range(len(array)), pa.int64())
    chosen = pc.if_else(pc.is_valid(array), places, pa.scalar(len(array), pa.int64()))
    return pa.concat_arrays([array, pa.array([_blank(array.type)], array.type)]).take(chosen)


def _blank(type_: pa.DataType) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(type_):
        return {f.name: _blank(f.type) for f in type_}
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return []
    if pa.types.is_string(type_):
        return ""
    if pa.types.is_binary(type_):
        return b""
    if pa.types.is_decimal(type_):
        return Decimal(0)
    return False if pa.types.is_boolean(type_) else 0


def refuse_nulls(array: pa.Array, type_: DeltaType, optional: bool, here: str) -> None:
    """Raise ``TableError`` where a value that must not be null is: Arrow itself does not look."""
    from lakeevolve.avro.arrow import nested

    if array.null_count and not optional:
        raise TableError(
            "a column that must not hold nulls would hold some",
            where=here,
            hint="give the field a default for old rows, or make it optional",
        )
    match type_:
        case Struct():
            inside = array.drop_null() if array.null_count else array
            for column, child in zip(type_.columns, nested.fields(inside), strict=True):
                refuse_nulls(child, column.type, column.nullable, paths.child(here, column.name))
        case ListOf():
            _, items = nested.lists(array)
            refuse_nulls(items, type_.element, type_.contains_null, paths.items(here))
        case MapOf():
            _, entries = nested.lists(array)
            values = nested.fields(entries)[1]
            refuse_nulls(values, type_.value, type_.contains_null, paths.values(here))


@dataclass(slots=True)
class _Leaf:
    path: tuple[str, ...]
    type: DeltaType
    nulls: int = 0
    low: Any = None
    high: Any = None
    usable: bool = True


@dataclass(slots=True)
class Statistics:
    """Per-file statistics of leaf columns, such that no reader skips a row that it should find.

    Bounds are left out where a reader could misunderstand them: NaN, infinities, decimals beyond the digits of a JSON
    number, long texts (upper bound), binary and boolean columns (protocol, "Per-file Statistics").
    """

    columns: Sequence[Column]
    indexed: int = INDEXED_COLUMNS
    rows: int = 0
    leaves: list[_Leaf] = field(default_factory=list)

    def __post_init__(self) -> None:
        found = [_Leaf(path, type_) for c in self.columns for path, type_ in _leaves(c, ())]
        self.leaves = found if self.indexed < 0 else found[: self.indexed]

    def add(self, batch: pa.RecordBatch) -> None:
        from lakeevolve.avro.arrow import nested

        self.rows += batch.num_rows
        for leaf in self.leaves:
            array = batch.column(batch.schema.get_field_index(leaf.path[0]))
            for name in leaf.path[1:]:
                array = nested.fields(array)[array.type.get_field_index(name)]
            leaf.nulls += array.null_count
            if leaf.usable and _bounded(leaf.type) and array.null_count < len(array):
                self._bounds(leaf, array)

    def _bounds(self, leaf: _Leaf, array: pa.Array) -> None:
        import pyarrow.compute as pc

        if leaf.type in ("float", "double") and pc.any(pc.is_nan(array)).as_py():
            leaf.usable = False  # readers disagree on where NaN stands in the order
            return
        try:
            found = pc.min_max(array).as_py()
        except (ValueError, OverflowError):
            leaf.usable = False  # outside the years that Python's dates know
            return
        low, high = found["min"], found["max"]
        leaf.low = low if leaf.low is None or low < leaf.low else leaf.low
        leaf.high = high if leaf.high is None or high > leaf.high else leaf.high

    def to_json(self) -> str:
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in self.leaves:
            _put(nulls, leaf.path, leaf.nulls)
            if leaf.usable and leaf.low is not None:
                bottom, top = _bound(leaf.low, leaf.type, upper=False), _bound(leaf.high, leaf.type, upper=True)
                if bottom is not None:
                    _put(low, leaf.path, bottom)
                if top is not None:
                    _put(high, leaf.path, top)
        record = {"numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": nulls}
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _leaves(column: Column, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DeltaType]]:
    here = (*above, column.name)
    match column.type:
        case Struct():
            for inner in column.type.columns:
                yield from _leaves(inner, here)
        case ListOf() | MapOf():
            return
        case _:
            yield here, column.type


def _bounded(type_: DeltaType) -> bool:
    if not isinstance(type_, str) or type_ in ("binary", "boolean", "void", "decimal"):
        return False
    decimal = decimal_of(type_)
    return decimal is None or decimal[0] <= _EXACT_DIGITS


def _bound(value: Any, type_: DeltaType, *, upper: bool) -> Any:
    match type_:
        case "string":
            if len(value) <= _LONGEST_TEXT:
                return value
            return None if upper else value[:_LONGEST_TEXT]
        case "float" | "double":
            if math.isinf(value):
                return None
            # -0.0 and 0.0 are equal to some readers and ordered to others.
            return (0.0 if upper else -0.0) if value == 0 else value
        case "date":
            return value.isoformat()
        case "timestamp" | "timestamp_ntz":
            # Readers know that statistics are cut to milliseconds; the upper bound has to stay above.
            cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
            try:
                cut = cut + timedelta(milliseconds=1) if upper and cut != value else cut
            except OverflowError:
                return None
            text = cut.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return text + ("Z" if type_ == "timestamp" else "")
    if isinstance(type_, str) and decimal_of(type_):
        number = float(value)
        return None if "e" in repr(number) else number
    return value


def _put(record: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        record = record.setdefault(name, {})
    record[path[-1]] = value
