"""What a rewrite leaves behind: files as the table's properties want them, several at a time, or nothing at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate
from pyiceberg.transforms import IdentityTransform

import lakeevolve as le
from lakeevolve.errors import TableError
from lakeevolve.tables.iceberg import raw, stage, write

OLD = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "int"}, {"name": "s", "type": "string"}],
}
NEW = {**OLD, "fields": [OLD["fields"][0], {"name": "v", "type": "double"}, OLD["fields"][2]]}


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": at, "v": at, "s": f"text {at * 7919}"} for at in range(first, first + count)]


def read(table: Any) -> list[dict[str, Any]]:
    return sorted((row for batch in table.read() for row in batch.to_pylist()), key=lambda row: row["id"])


def lies_there(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.suffix in (".parquet", ".avro")}


def test_a_file_that_outgrows_the_target_size_becomes_several(workshop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(raw, "batch_rows", lambda _: 500)
    monkeypatch.setattr(write, "ROW_GROUP_BYTES", 20_000)
    small = {"write.target-file-size-bytes": "20000", "write.parquet.row-group-limit": "500"}
    table = workshop.table(OLD, rows(0, 6000), mark=True, properties=small)
    assert le.apply(le.plan(table, NEW), allow={"rewrite"}).ok
    table = workshop.reopen(table)
    sizes = [file.bytes for file in table.files()]
    assert len(sizes) > 1
    assert max(sizes) < 40_000
    assert sum(file.rows for file in table.files()) == 6000
    assert read(table) == [{**row, "v": float(row["v"])} for row in rows(0, 6000)]
    assert le.verify(table, full=True).ok


def test_a_large_file_is_written_in_row_groups(workshop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(raw, "batch_rows", lambda _: 500)
    monkeypatch.setattr(write, "ROW_GROUP_BYTES", 50_000)
    table = workshop.table(OLD, rows(0, 6000), mark=True)
    assert le.apply(le.plan(table, NEW), allow={"rewrite"}).ok
    (file,) = workshop.reopen(table).files()
    with pq.ParquetFile(file.path.removeprefix("file://")) as parquet:
        assert parquet.metadata.num_row_groups > 2


def test_files_are_written_several_at_a_time(workshop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(stage, "WORKERS", 3)
    table = workshop.table(OLD, rows(0, 10), mark=True)
    for number in range(1, 6):
        workshop.append(table, OLD, rows(10 * number, 10))
    meeting = threading.Barrier(3, timeout=20)

    def convert(file: Any) -> Iterator[pa.RecordBatch]:
        meeting.wait()
        for batch in table.raw(file):
            yield batch.set_column(1, "v", batch.column("v").cast(pa.float64()))

    evolved = workshop.prepare(table, NEW, convert=convert)
    assert len(evolved.staged.files) == 6
    workshop.commit(table, evolved)
    assert read(table) == [{**row, "v": float(row["v"])} for row in rows(0, 60)]


def test_one_file_that_fails_stops_the_others_and_leaves_nothing(workshop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(stage, "WORKERS", 2)
    table = workshop.table(OLD, rows(0, 10), mark=True)
    for number in range(1, 8):
        workshop.append(table, OLD, rows(10 * number, 10))
    first, *_ = table.files()
    there = lies_there(workshop.folder)
    begun: list[str] = []

    def convert(file: Any) -> Iterator[pa.RecordBatch]:
        begun.append(file.path)
        if file.path == first.path:
            raise TableError("this file cannot be converted")
        for batch in table.raw(file):
            yield batch.set_column(1, "v", batch.column("v").cast(pa.float64()))

    with pytest.raises(TableError, match="cannot be converted"):
        workshop.prepare(table, NEW, convert=convert)
    assert lies_there(workshop.folder) == there
    assert len(begun) < 8
    assert le.verify(table).ok


@pytest.mark.parametrize("mode", ["none", "counts", "truncate(3)", "full"])
def test_a_rewrite_keeps_what_the_table_says_of_statistics(mode: str, workshop: Any) -> None:
    table = workshop.table(OLD, rows(0, 10), mark=True, properties={"write.metadata.metrics.default": mode})
    le.apply(le.plan(table, NEW), allow={"rewrite"})
    (file,) = workshop.reopen(table).files()
    theirs, ids = file.handle.file, {f.name: f.field_id for f in workshop.reopen(table).iceberg.schema().columns}
    assert (ids["id"] in theirs.value_counts) == (mode != "none")
    assert (ids["id"] in theirs.lower_bounds) == (mode in ("truncate(3)", "full"))
    if mode in ("truncate(3)", "full"):
        assert theirs.lower_bounds[ids["s"]] == (b"tex" if mode == "truncate(3)" else b"text 0")


def test_a_rewritten_file_keeps_the_sort_order_that_its_source_had(workshop: Any) -> None:
    table = workshop.table(OLD, mark=True)
    order = SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1)
    changes = (AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=1))
    table.iceberg._do_commit(changes, ())
    iceberg, schema = table.iceberg, table.schema
    batches = pa.Table.from_pylist(rows(0, 5), schema=le.arrow_schema(schema)).to_batches()
    path = write.new_path(iceberg.location_provider())
    made = write.write_file(iceberg.io, path, iceberg.schema(), schema, batches, {}, sort_order_id=1)
    assert made is not None
    with iceberg.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(made.file)
    table.refresh()
    assert le.apply(le.plan(table, NEW), allow={"rewrite"}).ok
    (file,) = workshop.reopen(table).files()
    assert file.handle.file.sort_order_id == 1
    assert [row["v"] for row in read(workshop.reopen(table))] == [0.0, 1.0, 2.0, 3.0, 4.0]
