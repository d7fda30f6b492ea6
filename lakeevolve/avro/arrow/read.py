"""Reading Arrow data that was written with one schema as another: the entry points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from lakeevolve.avro.arrow.failures import Failures, Rows
from lakeevolve.avro.arrow.layout import convert
from lakeevolve.avro.arrow.run import Run
from lakeevolve.avro.arrow.types import arrow_schema, arrow_type
from lakeevolve.avro.nodes import (
    Fields,
    FillField,
    FromUnion,
    Incompatibility,
    Items,
    Node,
    ReadField,
    ToBranch,
    Values,
)
from lakeevolve.errors import ResolutionError
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record

#: Rows that are converted at a time: a column of nested lists of a larger piece might outgrow 32-bit offsets.
_ROWS: Final = 1 << 16

Data = TypeVar("Data", pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table, pa.RecordBatchReader)


class Resolution(Protocol):
    """What is run: one resolution, or several that follow one another (``steps``)."""

    @property
    def writer(self) -> Schema: ...

    @property
    def reader(self) -> Schema: ...

    @property
    def incompatibilities(self) -> Sequence[Incompatibility]: ...

    @property
    def roots(self) -> Sequence[Node]: ...


Resolved = TypeVar("Resolved", bound=Resolution)


def execute(
    resolution: Resolution, batch: pa.RecordBatch, *, partial: bool = False, row_offset: int = 0
) -> pa.RecordBatch:
    """Read a batch of a table as the reader's schema, in the loose form.

    Parameters
    ----------
    resolution:
        From the batch's schema to the one that it is read as.
    batch:
        The fields of the writer's record in the canonical layout, in any order, and any foreign columns. Nulls are
        read as nulls wherever they stand, whatever the types say: the owner of a table may have chosen them.
    partial:
        Read although some values cannot be read, and raise at the first row that holds one.
    row_offset:
        The number of the batch's first row, for messages.

    Returns
    -------
    pyarrow.RecordBatch
        As many rows, in the same order: the columns of ``arrow_schema(reader, strict=False)``, then the foreign ones.

    Raises
    ------
    ResolutionError
        The schemas do not resolve, or the batch has not the writer's shape.
    ValueMismatch
        A value cannot be read; with the number of the first such row, and the path.
    """
    checked(resolution, partial)
    writer, reader = resolution.writer.root, resolution.reader.root
    if not isinstance(writer, Record) or not isinstance(reader, Record):
        raise ResolutionError("a table holds records, and the root of the schema is another type")
    owned = {field.name for field in writer.fields}
    foreign = [at for at, name in enumerate(batch.schema.names) if name not in owned]
    taken = {field.name for field in reader.fields} & {batch.schema.names[at] for at in foreign}
    if taken:
        raise ResolutionError(
            "the reader's schema has a field where the table has a column that no schema owns",
            where=min(taken),
            hint="rename the field, or drop the column from the table",
        )
    struct = _struct(batch, [at for at, name in enumerate(batch.schema.names) if name in owned])
    made = read_array(resolution, struct, partial=partial, strict=False, row_offset=row_offset)
    schema = pa.schema([*made.type, *(batch.schema.field(at) for at in foreign)])
    return batch_of(made, schema, [batch.column(at) for at in foreign])


def to_arrow(resolution: Resolution, data: Data, partial: bool = False) -> Data:
    """Read data of the writer's shape as the reader's schema.

    Parameters
    ----------
    resolution:
        From the schema of the data to the one that it is read as.
    data:
        A struct Array (of another type where the schemas' roots are no records), ChunkedArray, RecordBatch, Table or
        RecordBatchReader whose fields are found by name. The Arrow types may be any representation of the writer's
        canonical layout (``large_string`` for string, a dictionary, ...), and numbers may be wider where all fit.
    partial:
        Read although some values cannot be read, and raise at the first row that holds one.

    Returns
    -------
    The same kind
        As many rows, in the same order, with the schema ``arrow_schema(reader)``. A RecordBatchReader is read as it
        is consumed, one batch at a time, and raises then. Where the resolution leaves nulls in old rows by the
        owner's choice, every field is nullable.

    Raises
    ------
    ResolutionError
        The schemas do not resolve, or the data has not the writer's shape.
    ValueMismatch
        A value cannot be read; with the number of the first such row, and the path.
    """
    checked(resolution, partial)
    strict = not any(_leaves_nulls(root) for root in resolution.roots)

    def read(array: pa.Array, row_offset: int) -> pa.Array:
        writer = resolution.writer.root
        array = convert(
            array, arrow_type(writer, strict=False), writer, error=ResolutionError, canonical=True, widths=True
        )
        return read_array(resolution, array, partial=partial, strict=strict, row_offset=row_offset)

    match data:
        case pa.Array():
            return read(data, 0)
        case pa.ChunkedArray():
            chunks, row = [], 0
            for chunk in data.chunks:
                chunks.append(read(chunk, row))
                row += len(chunk)
            return pa.chunked_array(chunks, arrow_type(resolution.reader.root, strict=strict))
        case pa.RecordBatch():
            schema = arrow_schema(resolution.reader, strict=strict)
            return next(_batches(iter([data]), schema, read))
        case pa.Table():
            schema = arrow_schema(resolution.reader, strict=strict)
            pieces = iter(data.to_batches(max_chunksize=_ROWS))
            batches = list(_batches(pieces, schema, read))
            return pa.Table.from_batches(batches, schema)
        case pa.RecordBatchReader():
            schema = arrow_schema(resolution.reader, strict=strict)
            return pa.RecordBatchReader.from_batches(schema, _batches(data, schema, read))
    raise ResolutionError(
        f"a {type(data).__name__} is not Arrow data",
        hint="pass a pyarrow Array, ChunkedArray, RecordBatch, Table or RecordBatchReader",
    )


def _batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema, read: Any) -> Iterator[Any]:
    row = 0
    for batch in batches:
        yield batch_of(read(_struct(batch, range(batch.num_columns)), row), schema)
        row += batch.num_rows


def _struct(batch: pa.RecordBatch, columns: Sequence[int]) -> pa.StructArray:
    type_ = pa.struct([batch.schema.field(at) for at in columns])
    # Not from_arrays, which gives no rows where there are no columns.
    return pa.Array.from_buffers(type_, batch.num_rows, [None], 0, children=[batch.column(at) for at in columns])


def batch_of(struct: pa.StructArray, schema: pa.Schema, more: Sequence[pa.Array] = ()) -> pa.RecordBatch:
    if not schema.names:
        return pa.RecordBatch.from_struct_array(struct)
    return pa.RecordBatch.from_arrays(
        [*(struct.field(at) for at in range(struct.type.num_fields)), *more], schema=schema
    )


def read_array(
    resolution: Resolution,
    array: pa.Array,
    *,
    partial: bool,
    strict: bool,
    row_offset: int,
    valid: bool = False,
) -> pa.Array:
    """Run a resolution that was :func:`checked` over an array of the writer's root type.

    With ``valid``, the array is known to hold nothing but values of that type, as what a decoder made does.
    """
    writer = resolution.writer.root
    array = convert(array, arrow_type(writer, strict=False), writer, error=ResolutionError, canonical=True)
    failures = Failures()
    rows = Rows()
    run = Run(failures, partial=partial, strict=strict)
    for root in resolution.roots:
        array = run.node(root, array, None, rows, paths.ROOT)
    if not strict:
        failures.check(row_offset)
        return array
    reader = resolution.reader.root
    if not valid:
        run.require(array, reader, None, rows, paths.ROOT)
    failures.check(row_offset)
    return convert(array, arrow_type(reader), reader, error=ResolutionError, canonical=True)


def checked(resolution: Resolved, partial: bool = False) -> Resolved:
    """The resolution, if it can be run; ``ResolutionError`` otherwise."""
    found = [i for i in resolution.incompatibilities if not (partial and i.value_level)]
    if not found:
        return resolution
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    hint = "give the field a default, keep the wider type, or write to a new table"
    if all(i.value_level for i in found):
        hint = "with partial=True, data without such values can be read"
    raise ResolutionError(f"{first.kind}: {first.message}{more}", where=first.path or first.location, hint=hint)


def _leaves_nulls(node: Node | ReadField | FillField) -> bool:
    """Whether some field is null by the owner's choice."""
    match node:
        case FillField():
            return node.null
        case ReadField() | Items() | Values() | ToBranch():
            return _leaves_nulls(node.node)
        case Fields():
            return any(_leaves_nulls(part) for part in node.fields)
        case FromUnion():
            return any(_leaves_nulls(branch) for branch in node.branches)
    return False
