"""Real tables of both formats, damaged in their files and their metadata: each damage is caught, named and located."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.errors import ReplayMismatch
from lakeevolve.replaying.verify import verify

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "qty", "type": ["null", "int"], "default": None},
    {"name": "price", "type": ["null", "double"], "default": None},
    {"name": "name", "type": ["null", "string"], "default": None},
]
WIDER = [FIELDS[0], FIELDS[1], FIELDS[2], {**FIELDS[3], "name": "label", "aliases": ["name"]}]


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "qty": i * 2, "price": i / 8, "name": f"n{i}"} for i in range(start, start + count)]


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: Any, disk: Any) -> Any:
    """A table of one version with two files of ten rows each."""
    made = disk(request.param, FIELDS)
    made.add(FIELDS, rows(10))
    made.add(FIELDS, rows(10, 10))
    return made


def judged(lake: Any, **more: Any) -> list[tuple[Any, ...]]:
    return [(m.file, m.row, m.path, m.kind) for m in verify(lake.open(), **more).mismatches]


# --- what the metadata counts


def recount(lake: Any, counted: Callable[[int], int], only: str | None = None) -> None:
    """Change the count of rows that the table's metadata has of its files, or of the one whose path ends so."""
    if lake.format == "delta":

        def change(add: dict[str, Any]) -> None:
            stats = json.loads(add["stats"])
            stats["numRecords"] = counted(stats["numRecords"])
            add["stats"] = json.dumps(stats)

        lake.edit_log(change, only)
    else:

        def edit(file: dict[str, Any]) -> None:
            file["record_count"] = counted(file["record_count"])

        lake.edit_manifests(edit, only)


@pytest.mark.parametrize("counted", [7, 11, 0])
def test_a_row_count_in_the_metadata_that_is_not_the_files_is_a_mismatch(lake: Any, counted: int) -> None:
    assert verify(lake.open()).ok
    file = lake.open().files()[1]
    recount(lake, lambda _: counted, file.path)
    found = verify(lake.open()).mismatches
    assert [(m.file, m.row, m.kind) for m in found if m.kind == "count"] == [(file.path, None, "count")]
    assert found[0].reason == f"the table's metadata counts {counted} rows, and the file has 10"


def test_rows_cut_off_a_file_are_a_mismatch_though_the_table_never_evolved(lake: Any) -> None:
    file = lake.open().files()[0]
    lake.overwrite(file.path, lambda data: data.slice(0, 7))
    found = verify(lake.open(), sample=2).mismatches
    assert [(m.file, m.kind, m.reason) for m in found] == [
        (file.path, "count", "the table's metadata counts 10 rows, and the file has 7")
    ]


def test_rows_lost_before_a_rewrite_are_not_laundered_by_it(lake: Any) -> None:
    before = lake.open().state
    lake.overwrite(lake.open().files()[0].path, lambda data: data.slice(0, 7))
    target = {"type": "record", "name": "Order", "fields": [*FIELDS, {"name": "c", "type": "string", "default": "US"}]}
    plan = le.plan(lake.uri, target)
    with pytest.raises(ReplayMismatch, match="counts 10 rows, and the file has 7"):
        le.apply(plan, allow=plan.permits)
    assert lake.open().state == before


# --- files


def test_a_missing_file_is_said_to_be_missing(lake: Any) -> None:
    file = lake.open().files()[1]
    lake.path(file.path).unlink()
    found = verify(lake.open()).mismatches
    assert {(m.file, m.kind) for m in found} == {(file.path, "unreadable")}
    assert found[0].reason == "the file cannot be read: the table lists it, and it is missing from the store"


@pytest.mark.parametrize("left", [0, 3, 200, -1])
def test_a_file_that_is_cut_short_is_said_to_be(lake: Any, left: int) -> None:
    file = lake.open().files()[1]
    whole = lake.path(file.path).read_bytes()
    lake.path(file.path).write_bytes(whole[:left])
    found = verify(lake.open()).mismatches
    assert {(m.file, m.kind) for m in found} == {(file.path, "unreadable")}
    size = len(whole[:left])
    assert found[0].reason == (
        f"the file cannot be read: it is cut short to {size} bytes, where the table lists {len(whole)}"
    )


def test_a_file_whose_bytes_were_overwritten_is_named(lake: Any) -> None:
    file = lake.open().files()[0]
    path = lake.path(file.path)
    whole = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    whole[start : start + 24] = b"\xff" * 24
    path.write_bytes(bytes(whole))
    result = verify(lake.open())
    assert {m.file for m in result.mismatches} == {file.path}
    assert result.rows == 10


def test_a_file_that_is_no_parquet_at_all_is_named(lake: Any) -> None:
    file = lake.open().files()[0]
    path = lake.path(file.path)
    path.write_bytes(b"x" * path.stat().st_size)
    assert {m.file for m in verify(lake.open()).mismatches} == {file.path}


# --- statistics


def lie(lake: Any, column: str, kind: str, only: str) -> None:
    """Have a file's statistics in the table's metadata say that its values of a column are others, or all null."""
    if lake.format == "delta":

        def change(add: dict[str, Any]) -> None:
            stats = json.loads(add["stats"])
            if kind == "nulls":
                stats["nullCount"][column] = stats["numRecords"]
                stats["minValues"].pop(column, None)
                stats["maxValues"].pop(column, None)
            else:
                value: Any = "zzz" if column == "label" else 10**6
                stats["minValues"][column] = stats["maxValues"][column] = value
            add["stats"] = json.dumps(stats)

        lake.edit_log(change, only)
        return
    number = lake.open().iceberg.schema().find_field(column).field_id

    def edit(file: dict[str, Any]) -> None:
        bounds = b"zzz" if column == "label" else (10**6).to_bytes(4, "little")
        for name in ("lower_bounds", "upper_bounds") if kind == "bounds" else ("null_value_counts",):
            for entry in file[name]:
                if entry["key"] == number:
                    entry["value"] = bounds if kind == "bounds" else file["record_count"]

    lake.edit_manifests(edit, only)


@pytest.mark.parametrize("kind", ["bounds", "nulls"])
@pytest.mark.parametrize("column", ["label", "qty"])
def test_statistics_that_hide_rows_are_found_and_told_from_a_wrong_value(lake: Any, kind: str, column: str) -> None:
    lake.evolve(WIDER)
    table = lake.open()
    assert verify(table, columns="all").ok
    # Predicates take their values from the oldest file first.
    file = table.files()[0]
    lie(lake, column, kind, file.path)
    result = verify(lake.open(), columns="all")
    found = [m for m in result.mismatches if m.path == column]
    assert found, [str(m) for m in result.mismatches]
    assert {m.file for m in found if m.kind == "missing"} == {file.path}
    assert any("statistics say that no row of it can meet the filter" in m.why for m in found)
    assert all("under the filter" in m.reason for m in found if m.kind == "missing")


# --- the reader


def reading_always(lake: Any, monkeypatch: pytest.MonkeyPatch, column: str, value: pa.Scalar) -> Any:
    """The open table with a reader that gives one value of a column for every row."""
    table = lake.open()
    read = table.read

    def wrong(file: Any = None, predicate: Any = None, columns: Any = None) -> Any:
        for batch in read(file, predicate, columns):
            at = batch.schema.get_field_index(column)
            yield batch if at < 0 else batch.set_column(at, batch.schema.field(at), pa.repeat(value, len(batch)))

    monkeypatch.setattr(table, "read", wrong)
    return table


def test_a_default_that_the_reader_ignores_is_said_to_be(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = [*FIELDS, {"name": "country", "type": ["null", "string"], "default": None}]
    lake.evolve(filled)
    table = reading_always(lake, monkeypatch, "country", pa.scalar("US"))
    found = [m for m in verify(table).mismatches if m.kind == "gained"]
    assert {(m.path, m.kind) for m in found} == {("country", "gained")}
    assert all(
        m.why.startswith("version 2 added the column, the file is of version 1, so its rows read null") for m in found
    )


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)  # a promotion rewrites a Delta table
def test_a_promotion_that_the_reader_makes_otherwise_is_said_to_be(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = [FIELDS[0], {"name": "qty", "type": ["null", "long"], "default": None}, *FIELDS[2:]]
    lake.evolve(longer)
    table = reading_always(lake, monkeypatch, "qty", pa.scalar(7, pa.int64()))
    found = [m for m in verify(table).mismatches if m.path == "qty" and m.kind == "value"]
    assert found[0].why == "version 2 converts it from int to long, which the reader does otherwise"


# --- before the commit


@pytest.mark.parametrize("fault", ["row", "value", "filter"])
def test_a_fault_before_the_commit_stops_apply_and_leaves_the_table_as_it_was(
    lake: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    table = lake.open()
    before = table.state, table.files(), [batch.to_pylist() for batch in table.read()]
    target = {"type": "record", "name": "Order", "fields": [*FIELDS, {"name": "c", "type": "string", "default": "US"}]}
    plan = le.plan(lake.uri, target)
    stage = table.stage

    def staged(evolution: Any) -> Any:
        made = stage(evolution)
        read, raw = made.read, made.raw

        def spoiled(batches: Any) -> Any:
            for batch in batches:
                yield (
                    batch.slice(1)
                    if fault == "row"
                    else batch.set_column(0, batch.schema.field(0), pa.array([-1] * len(batch), pa.int64()))
                )

        class Spoiled:
            def __getattr__(self, name: str) -> Any:
                return getattr(made, name)

            def raw(self, file: Any) -> Any:
                return raw(file) if fault == "filter" else spoiled(raw(file))

            def read(self, file: Any = None, predicate: Any = None, columns: Any = None) -> Any:
                given = read(file, predicate, columns)
                return (batch.slice(0, 0) for batch in given) if fault == "filter" and predicate is not None else given

        return Spoiled()

    monkeypatch.setattr(table, "stage", staged)
    with pytest.raises(ReplayMismatch) as caught:
        le.apply(plan, allow=plan.permits, table=table)
    assert caught.value.exit_code == 5
    again = lake.open()
    assert (again.state, again.files(), [batch.to_pylist() for batch in again.read()]) == before
    assert verify(again).ok


def test_statistics_of_long_decimals_that_delta_rs_rounds_are_found(disk: Any) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
    fields = [FIELDS[0], {"name": "amount", "type": ["null", decimal], "default": None}]
    lake = disk("delta", fields)
    # delta-rs 1.6 writes the bounds of decimals as 64-bit floats (delta-io/delta-rs#4757): here above the least value.
    lake.add(fields, [{"id": 1, "amount": Decimal("1234567890123456.78")}])
    result = verify(lake.open(), columns="all")
    assert {(m.row, m.path, m.kind) for m in result.mismatches} == {(0, "amount", "missing")}
    assert "statistics say that no row of it can meet the filter" in result.mismatches[0].why
    # What lakeevolve writes anew has bounds that hold.
    lake.evolve([*fields, {"name": "c", "type": "string", "default": "US"}])
    assert verify(lake.open(), columns="all").ok
