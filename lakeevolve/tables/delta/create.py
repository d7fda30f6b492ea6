"""Making a Delta table for an Avro schema, and appending rows to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Field
from lakeevolve.tables import marker
from lakeevolve.tables.base import MarkerEntry
from lakeevolve.tables.delta import features
from lakeevolve.tables.delta.schema import column_texts, new_column
from lakeevolve.tables.delta.store import guard, parse_address
from lakeevolve.tables.delta.table import Table
from lakeevolve.tables.delta.types import (
    Column,
    Struct,
    arrow_field,
    parse_struct,
    primitives_of,
    requires,
    struct_json,
)
from lakeevolve.tables.delta.write import fitted

if TYPE_CHECKING:
    import pyarrow as pa


def create_table(
    uri: str,
    schema: Schema,
    *,
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    mark: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Create an empty Delta table with the columns of an Avro schema.

    Parameters
    ----------
    uri:
        ``delta:PATH``.
    schema:
        Its root has to be a record.
    partition_by:
        Top-level fields to partition by.
    configuration:
        Table properties.
    mark:
        Record the schema as the table's version 1, so that symbols and names of types are known from the start.

    Raises
    ------
    UnsupportedTable
        A field has no Delta type, a table property asks for what delta-rs does not do, or the table is to be
        partitioned by bytes.
    TableError
        There is a table already.

    Examples
    --------
    >>> from lakeevolve.avro.parse import parse
    >>> create_table("delta:lake/orders", parse(open("orders.avsc").read()))  # doctest: +SKIP
    """
    from deltalake import CommitProperties, DeltaTable, TableFeatures
    from deltalake import Schema as DeltaSchema

    address = parse_address(uri, storage_options)
    features.refuse_properties(configuration or {}, address.uri)
    struct = Struct(tuple(_column(f) for f in schema.fields))
    _refuse_bytes(struct, partition_by, address.uri)
    began = {"version": None, "at": int(time.time() * 1000)}
    first = MarkerEntry(1, schema.to_json(), schema.digest, None, began, {}, {}, {})
    marks = marker.to_properties([first]) if mark else {}
    local = address.local
    if local is not None:
        local.mkdir(parents=True, exist_ok=True)
    with guard(address.uri, "the table cannot be created"):
        table = DeltaTable.create(
            str(local) if local is not None else address.path,
            DeltaSchema.from_json(json.dumps(struct_json(struct))),
            mode="error",
            partition_by=list(partition_by) or None,
            configuration={**(configuration or {}), **marks} or None,
            storage_options=dict(address.options) or None,
            commit_properties=CommitProperties(custom_metadata=marks) if marks else None,
            raise_if_key_not_exists=False,
        )
        if "timestamp_ntz" in primitives_of(struct) and requires(struct):
            # delta-rs raises the protocol for timestampNtz and leaves out what enforces NOT NULL.
            table.alter.add_feature([TableFeatures.Invariants], allow_protocol_versions_increase=True)
    return Table(address)


def _refuse_bytes(struct: Struct, partition_by: Sequence[str], where: str) -> None:
    """delta-rs 1.6 writes bytes into the log as ``\\u0001\\u00FF``, and every reader takes that for the bytes."""
    found = next((c for c in struct.columns if c.name in partition_by and c.type == "binary"), None)
    if found is not None:
        raise UnsupportedTable(
            "delta-rs writes partition values of bytes so that no reader reads them back",
            where=f"{where}, {found.name}",
            hint="partition by a column of another type, or write with Spark",
        )


def _column(field: Field) -> Column:
    made = new_column(field, paths.child("", field.name))
    return Column(made.name, made.type, made.nullable, {**made.metadata, **column_texts(field)})


def append(uri: str, data: pa.Table, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Append rows in the canonical Arrow layout; columns that they lack are null.

    Raises
    ------
    TableError
        A column has no place in the table, a value does not fit, or a NOT NULL column would hold a null.
    UnsupportedTable
        The table is partitioned by bytes.
    CommitConflict
        The table changed meanwhile.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    address = parse_address(uri, storage_options)
    handle = address.open()
    with guard(address.uri):
        struct = parse_struct(handle.schema().to_json(), address.uri)
        parted = handle.metadata().partition_columns
    _refuse_bytes(struct, parted, address.uri)
    unknown = [name for name in data.column_names if struct.column(name) is None]
    if unknown:
        raise TableError("the table has no such column", where=f"{address.uri}, {unknown[0]}", hint="evolve it first")
    schema = pa.schema([arrow_field(c) for c in struct.columns])

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in data.to_batches():
            yield fitted(batch, struct.columns, schema, row, unfit)
            row += batch.num_rows

    def unfit(error: TableError, row: int) -> TableError:
        return TableError(error.what, where=f"{address.uri}, row {row}, {error.where or '$'}", hint=error.hint)

    reader = pa.RecordBatchReader.from_batches(schema, list(batches()))
    with guard(address.uri, "the rows cannot be appended"):
        write_deltalake(handle, reader, mode="append")
