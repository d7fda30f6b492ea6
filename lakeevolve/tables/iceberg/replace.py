"""Replacing every row of an Iceberg table in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.history import schema_of
from lakeevolve.tables.iceberg.write import new_path, write_files

if TYPE_CHECKING:
    import pyarrow as pa


def replace(uri: str, data: pa.RecordBatchReader, /, **options: Any) -> None:
    """Have an unpartitioned table hold these rows and no others, in one commit; the schema stays.

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
    from lakeevolve.tables.iceberg import open_table

    live = open_table(uri, **options)
    iceberg = live.iceberg
    newest = live.history()[-1]
    schema = schema_of(iceberg.metadata, newest.schema_id)
    with translated(live.uri):
        before = [task.file for task in iceberg.scan().plan_files()]
        transaction = iceberg.transaction()
        producer = transaction.update_snapshot().overwrite()
    made = write_files(
        iceberg.io,
        lambda: new_path(iceberg.location_provider(), ""),
        schema,
        newest.schema,
        data,
        iceberg.metadata.properties,
        spec_id=iceberg.spec().spec_id,
    )
    if not before and not made:
        return
    for file in before:
        producer.delete_data_file(file)
    for each in made:
        producer.append_data_file(each.file)
    with translated(live.uri):
        producer.commit()
        transaction.commit_transaction()
