"""Tables that other tools had changed before they were recorded: what came before belongs to the recorded version."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import IntegerType

import lakeevolve as le
from lakeevolve.tables.iceberg import append, create_table, open_table

BASE = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
GROWN = {**BASE, "fields": [*BASE["fields"], {"name": "a", "type": ["null", "int"], "default": None}]}
MORE = {**BASE, "fields": [*GROWN["fields"], {"name": "lot", "type": "int", "default": 7}]}


def rows(uri: str) -> list[dict[str, Any]]:
    return sorted((row for batch in open_table(uri).read() for row in batch.to_pylist()), key=lambda row: row["id"])


@pytest.fixture(params=[None, 5], ids=["without a default", "with a default in the metadata"])
def grown(request: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int | None]:
    """A table to which others added a column between two appends, recorded as it then was."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"iceberg:{tmp_path / 'lake'}/shop.orders"
    create_table(uri, le.load(BASE))
    append(uri, pa.table({"id": pa.array([1], pa.int32())}))
    with open_table(uri).iceberg.update_schema() as update:
        update.add_column("a", IntegerType(), default_value=request.param)
    append(uri, pa.table({"id": pa.array([2], pa.int32()), "a": pa.array([9], pa.int32())}))
    done = le.apply(le.plan(uri, GROWN))
    assert (done.status, done.ok) == ("applied", True)
    return uri, request.param


def test_recording_a_table_makes_one_version_of_all_that_came_before(grown: Any) -> None:
    uri, default = grown
    assert [(version.number, version.recorded) for version in open_table(uri).history()] == [(1, True)]
    assert rows(uri) == [{"id": 1, "a": default}, {"id": 2, "a": 9}]
    assert {file.version for file in open_table(uri).files()} == {1}
    assert le.verify(uri, full=True, columns="all").ok


def test_a_recorded_table_is_rewritten_row_for_row(grown: Any) -> None:
    uri, default = grown
    assert le.apply(le.plan(uri, MORE), allow={"backfill"}).ok
    assert rows(uri) == [{"id": 1, "a": default, "lot": 7}, {"id": 2, "a": 9, "lot": 7}]
    assert [version.number for version in open_table(uri).history()] == [1, 2]
    assert le.verify(uri, full=True, columns="all").ok


def test_what_others_change_after_a_table_was_recorded_is_a_version_of_its_own(grown: Any) -> None:
    uri, default = grown
    with open_table(uri).iceberg.update_schema() as update:
        update.add_column("b", IntegerType())
    open_table(uri).iceberg.append(
        pa.table(
            {"id": pa.array([3], pa.int32()), "a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())},
            schema=pa.schema([pa.field("id", pa.int32(), False), pa.field("a", pa.int32()), pa.field("b", pa.int32())]),
        )
    )
    table = open_table(uri)
    assert [(version.number, version.recorded) for version in table.history()] == [(1, True), (2, False)]
    assert sorted(file.version for file in table.files()) == [1, 1, 2]
    assert rows(uri)[0] == {"id": 1, "a": default, "b": None}
    assert le.verify(uri, full=True, columns="all").ok
