"""Real tables of both formats, damaged in their files and their metadata: each damage is caught, named and located."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.errors import ReplayMismatch
from lakeevolve.replay.verify import verify

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
