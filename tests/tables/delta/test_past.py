"""What a table's past is once others cleaned up its log, vacuumed its files, put it back or replaced it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake import Schema as DeltaSchema

import lakeevolve as le
from lakeevolve.errors import StalePlan, TableError
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta

from .conftest import field, record

ID, N, X = field("id", "long"), field("n", "int"), field("x", ["null", "int"], default=None)
BASE, WIDER = record(ID, N), record(ID, N, X)
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def uri(two_files: Callable[[Schema], str]) -> str:
    return two_files(BASE)


def live(uri: str) -> DeltaTable:
    return DeltaTable(uri.removeprefix("delta:"))


def forget(uri: str) -> None:
    """delta-rs cleans up the log before a checkpoint."""
    live(uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    live(uri).create_checkpoint()
    time.sleep(0.01)
    live(uri).cleanup_metadata()
    log = Path(uri.removeprefix("delta:")) / "_delta_log"
    assert not (log / f"{3:020d}.json").exists()


def told(uri: str) -> list[tuple[int, bool, bool, list[str]]]:
    return [(v.number, v.derived, v.recorded, [f.name for f in v.schema.fields]) for v in delta.open(uri).history()]


@pytest.mark.parametrize(
    ("data", "names", "held"),
    [
        ({"id": [9]}, ["id"], [{"id": 9}]),
        ({"id": ["9"], "n": ["x"]}, ["id", "n"], [{"id": "9", "n": "x"}]),
        ({"id": [9], "n": pa.array([1], pa.int32()), "z": ["x"]}, ["id", "n"], [{"id": 9, "n": 1, "z": "x"}]),
    ],
    ids=["columns are gone", "columns have other types", "one went and one came"],
)
def test_what_others_changed_in_a_part_of_the_log_that_is_gone_is_a_version(
    data: dict[str, Any], names: list[str], held: list[dict[str, Any]], uri: str
) -> None:
    le.apply(le.plan(uri, WIDER))
    write_deltalake(live(uri), pa.table(data), mode="overwrite", schema_mode="overwrite")
    before = [version.schema.digest for version in delta.open(uri).history()][:2]
    forget(uri)
    assert told(uri)[1:] == [(2, False, True, ["id", "n", "x"]), (3, True, False, names)]
    table = delta.open(uri)
    assert [version.schema.digest for version in table.history()][:2] == before
    assert [(file.version, file.inferred) for file in table.files()] == [(3, True)]
    replay = le.verify(uri, columns="all")
    assert (replay.ok, replay.rows) == (True, 1)
    assert {finding.rule for finding in replay.findings} == {"DRIFT-SCHEMA-CHANGED"}
    assert [row for batch in table.read() for row in batch.to_pylist()] == held
    # What the marker owns, it owns; a plan goes on from there.
    target = record(*table.schema.to_json()["fields"], field("k", ["null", "int"], default=None))  # type: ignore[index]
    assert le.apply(le.plan(uri, target), allow=ALL).ok
    assert [number for number, *_ in told(uri)] == [1, 2, 3, 4]


def test_columns_that_others_added_in_a_part_of_the_log_that_is_gone_are_nobodys(uri: str) -> None:
    le.apply(le.plan(uri, WIDER))
    live(uri).alter.add_columns([Field("theirs", "long", nullable=True)])
    assert told(uri)[-1] == (3, True, False, ["id", "n", "x", "theirs"])
    forget(uri)
    assert told(uri)[-1] == (2, False, True, ["id", "n", "x"])
    table = delta.open(uri)
    assert table.foreign == ("theirs",)
    assert le.verify(uri, columns="all").ok
    assert le.apply(le.plan(uri, record(ID, field("n", "long"), X)), allow=ALL).ok
    assert delta.open(uri).foreign == ("theirs",)
    assert [f.name for f in live(uri).schema().fields] == ["id", "n", "x", "theirs"]


def test_after_a_vacuum_the_past_is_told_and_not_gone_back_to(uri: str) -> None:
    le.apply(le.plan(uri, record(ID, field("n", "long"))), allow=ALL)
    live(uri).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert [(number, derived) for number, derived, *_ in told(uri)] == [(1, True), (2, False)]
    replay = le.verify(uri, full=True)
    assert replay.ok
    assert any("the state before it is gone" in note for note in replay.notes)
    rows = replay.rows
    with pytest.raises(TableError, match="2 of the 2 files of version 2 are gone: a vacuum took them") as caught:
        delta.open(uri).restore(2, [])
    assert "revert" in str(caught.value.hint)
    with pytest.raises(TableError):
        le.rollback(uri, 1, allow=["lose-rows"])
    assert le.verify(uri).rows == rows


def test_a_table_that_another_tool_put_back_goes_on_from_there(uri: str) -> None:
    plan = le.plan(uri, WIDER)
    le.apply(plan)
    live(uri).restore(2)
    assert [names for *_, names in told(uri)] == [["id", "n"], ["id", "n", "x"], ["id", "n"]]
    assert told(uri)[-1][1:3] == (True, False)
    assert le.verify(uri, full=True).ok
    again = le.plan(uri, WIDER)
    assert again.digest != plan.digest
    # Files of before may hold what the column held meanwhile, so they are written anew.
    assert le.apply(again, allow=ALL).ok
    assert [names for *_, names in told(uri)][-1] == ["id", "n", "x"]


def test_a_table_that_was_replaced_in_its_place_is_another_one(uri: str) -> None:
    """CREATE OR REPLACE: the log goes on, and the table has another id."""
    stale, was = le.plan(uri, WIDER), delta.open(uri).state.id
    DeltaTable.create(
        uri.removeprefix("delta:"), DeltaSchema([Field("id", "string"), Field("z", "long")]), mode="overwrite"
    )
    table = delta.open(uri)
    assert table.state.id != was
    assert table.files() == ()
    assert told(uri) == [(1, True, True, ["id", "n"]), (2, True, False, ["id", "z"])]
    with pytest.raises(StalePlan):
        le.apply(stale)
    write_deltalake(uri.removeprefix("delta:"), pa.table({"id": ["a"], "z": [1]}), mode="append")
    replay = le.verify(uri, full=True, columns="all")
    assert (replay.ok, replay.rows) == (True, 1)
    target = record(field("id", ["null", "string"]), field("z", ["null", "long"]), X)
    assert le.apply(le.plan(uri, target)).ok
    assert le.verify(uri, full=True, columns="all").ok
