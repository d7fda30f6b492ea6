"""Replacing every row of a Delta table in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakeevolve.tables.delta.store import guard, parse_address
from lakeevolve.tables.delta.types import arrow_field, parse_struct
from lakeevolve.tables.delta.write import fitted

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeevolve.errors import TableError


def replace(uri: str, data: pa.RecordBatchReader, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Have a table hold these rows and no others, in one commit; the schema stays.

    Parameters
    ----------
    data:
        Rows in the canonical layout of the table's schema, taken batch by batch.

    Raises
    ------
    TableError
        The rows cannot be written.
    CommitConflict
        The table changed meanwhile.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    address = parse_address(uri, storage_options)
    handle = address.open()
    with guard(address.uri):
        struct = parse_struct(handle.schema().to_json(), address.uri)
    schema = pa.schema([arrow_field(column) for column in struct.columns])

    def unfit(error: TableError, _row: int) -> TableError:
        return error

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in data:
            yield fitted(batch, struct.columns, schema, row, unfit)
            row += batch.num_rows

    with guard(address.uri, "the rows cannot be written"):
        write_deltalake(handle, pa.RecordBatchReader.from_batches(schema, batches()), mode="overwrite")
