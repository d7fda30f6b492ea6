"""Undoing a plan on today's table: every row stays, and what cannot come back is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.avro.arrow.promote import changed_by
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]
ALL = ("rewrite", "backfill", "drop")


def order(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


def line(type_: str) -> dict[str, Any]:
    item = {"type": "record", "name": "Line", "fields": [{"name": "count", "type": ["null", type_], "default": None}]}
    return {"name": "lines", "type": {"type": "array", "items": item}}


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"], "default": "NEW"}
MORE = {**STATE, "symbols": ["NEW", "PAID", "LOST"]}
CHANNEL = {"name": "channel", "type": "string", "default": "web"}
BASE = order(ID, {"name": "amount", "type": "int"}, NOTE, {"name": "state", "type": STATE}, line("int"))
TARGET = order(
    ID,
    {"name": "total", "type": "double", "aliases": ["amount"]},
    {"name": "state", "type": MORE},
    line("long"),
    CHANNEL,
)


@pytest.fixture
def applied(lake: Any, rows: Rows) -> tuple[str, Any]:
    uri = lake.create("orders", le.load(BASE), rows(le.load(BASE), 20, 1), mark=True)
    plan = le.plan(uri, TARGET, mode="NONE", not_renames=[("note", "channel")])
    assert le.apply(plan, allow=ALL).ok
    return uri, plan


def read(uri: str) -> pa.Table:
    return pa.Table.from_batches(list(le.open_table(uri).read())).sort_by("id")


def late(total: float, count: int = 3, state: str = "PAID") -> pa.Table:
    row = {
        "id": 10**15,
        "total": total,
        "state": state,
        "lines": [{"count": count}, {"count": None}],
        "channel": "shop",
    }
    return pa.Table.from_pylist([row], schema=le.arrow_schema(TARGET))


def test_the_inverse_keeps_new_rows_and_names_each_loss(lake: Any, applied: tuple[str, Any]) -> None:
    uri, plan = applied
    before = read(uri)
    lake.append(uri, late(7.0))
    undo = le.revert(plan)
    assert {f.path for f in undo.findings if f.rule == "TABLE-REVERT-LOSES"} == {
        "note",
        "channel",
        "amount",
        "lines[].count",
        "state",
    }
    assert undo.applicable, undo.failures or [step.reason for step in undo.refused]
    with pytest.raises(le.errors.PermitMissing):
        le.apply(undo)
    assert le.apply(undo, allow=ALL).ok
    live = le.open_table(uri)
    assert live.schema.digest == le.load(BASE).digest
    after = read(uri)
    assert after["id"].to_pylist() == sorted([*before["id"].to_pylist(), 10**15])
    assert after["amount"].type == pa.int32()
    got = dict(zip(after["id"].to_pylist(), after["amount"].to_pylist(), strict=True))
    was = dict(zip(before["id"].to_pylist(), before["total"].to_pylist(), strict=True))
    assert got == {**was, 10**15: 7}
    assert after["note"].null_count == 21
    assert le.verify(uri, full=True, columns="all").ok
    assert le.apply(undo, allow=ALL).status == "already-applied"


@pytest.mark.parametrize(
    ("row", "path"),
    [
        (late(0.5), "amount"),
        (late(2.0**31), "amount"),
        (late(math.nan), "amount"),
        (late(1.0, count=2**31), "lines[].count"),
    ],
    ids=["fraction", "too large", "no number", "nested"],
)
def test_one_row_that_does_not_fit_stops_it_with_file_row_and_path(
    lake: Any, applied: tuple[str, Any], row: pa.Table, path: str
) -> None:
    uri, plan = applied
    lake.append(uri, row)
    state = le.open_table(uri).state
    undo = le.revert(plan)
    (found,) = undo.failures
    assert (found.rule, found.path.replace("total", "amount")) == ("TABLE-ROWS-REFUSE", path)
    assert "row 0" in found.message
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(undo, allow=ALL)
    assert le.open_table(uri).state == state


def test_rows_that_came_after_the_revert_was_planned_are_checked_by_apply(lake: Any, applied: tuple[str, Any]) -> None:
    uri, plan = applied
    undo = le.revert(plan)
    lake.append(uri, late(0.5))
    state = le.open_table(uri).state
    with pytest.raises(le.errors.PlanBlocked) as caught:
        le.apply(undo, allow=ALL)
    assert "row 0" in str(caught.value)
    assert le.open_table(uri).state == state


def test_a_change_that_another_plan_made_since_stays(applied: tuple[str, Any]) -> None:
    uri, plan = applied
    extra = {"name": "extra", "type": ["null", "int"], "default": None}
    assert le.apply(le.plan(uri, order(*TARGET["fields"], extra))).ok
    undo = le.revert(plan)
    assert "extra" not in {change.path for change in undo.changes}
    assert le.apply(undo, allow=ALL).ok
    assert "extra" in {field.name for field in le.open_table(uri).schema.fields}


def test_what_another_plan_changed_in_the_same_place_is_named(applied: tuple[str, Any]) -> None:
    uri, plan = applied
    channel = {"name": "channel", "type": ["null", "string"], "default": None}
    other = le.plan(uri, order(*TARGET["fields"][:-1], channel), mode="NONE")
    assert le.apply(other, allow=ALL).ok
    with pytest.raises(le.errors.StalePlan, match=f"version 3 \\(plan {other.digest[:12]}\\) changed channel"):
        le.revert(plan)


def test_a_plan_that_was_never_applied_cannot_be_reverted(
    lake: Any, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = lake.create("orders", le.load(BASE), rows(le.load(BASE), 5, 1), mark=True)
    saved = le.plan(uri, order(*BASE["fields"], CHANNEL)).save(tmp_path / "plan.json")
    assert main(["revert", str(saved)]) == 2
    assert "not applied" in capsys.readouterr().err


def test_a_plan_that_was_rolled_back_cannot_be_reverted(applied: tuple[str, Any]) -> None:
    uri, plan = applied
    assert le.rollback(uri, to=1).ok
    with pytest.raises(le.errors.PlanError, match="went back"):
        le.revert(plan)


def test_a_consumer_that_reads_what_the_plan_added_is_told_of_a_revert(lake: Any, rows: Rows) -> None:
    base, target = order(ID), order(ID, CHANNEL)
    uri = lake.create("told", le.load(base), rows(le.load(base), 5, 1), mark=True)
    contract = {
        "contract": "report",
        "subject": "told",
        "fields": [{"path": "id", "type": "long"}],
        "accepts": [1, 2, 3],
    }
    plan = le.plan(uri, target, contracts=[{**contract, "owner": "ann", "result": "report.1"}])
    assert le.apply(plan, allow=ALL).ok
    assert le.revert(plan).inputs.contracts == plan.inputs.contracts


def test_the_command_saves_a_plan_that_apply_runs(applied: tuple[str, Any], tmp_path: Path) -> None:
    uri, plan = applied
    saved, undo = plan.save(tmp_path / "plan.json"), tmp_path / "undo.json"
    assert main(["revert", str(saved), "--out", str(undo)]) == 0
    assert main(["apply", str(undo), "--yes", *(f"--allow={permit}" for permit in ALL)]) == 0
    assert le.open_table(uri).schema.digest == le.load(BASE).digest


@pytest.mark.parametrize(
    ("values", "type_", "target", "changed"),
    [
        ([0, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, None], pa.int64(), pa.int32(), [0, 0, 0, 1, 1, None]),
        ([1.0, 0.5, math.nan, math.inf, -0.0, 2.0**31, -(2.0**31)], pa.float64(), pa.int32(), [0, 1, 1, 1, 1, 1, 0]),
        ([2.0**63, -(2.0**63), 2.0**62, 1e300], pa.float64(), pa.int64(), [1, 0, 0, 1]),
        ([0.5, 0.1, math.nan, math.inf, 1e300, -0.0], pa.float64(), pa.float32(), [0, 1, 0, 0, 1, 0]),
        ([1.0, 2.0**31, 16777217.0], pa.float32(), pa.int32(), [0, 1, 0]),
    ],
)
def test_a_number_that_would_be_another_in_a_narrower_type_is_found(
    values: list[Any], type_: pa.DataType, target: pa.DataType, changed: list[Any]
) -> None:
    found = changed_by(pa.array(values, type_), target).to_pylist()
    assert found == [None if each is None else bool(each) for each in changed]


# Logical types --------------------------------------------------------------------------------------------------------


def logical(type_: str, name: str) -> dict[str, str]:
    return {"type": type_, "logicalType": name}


MOMENTS = order(
    ID,
    {"name": "at", "type": logical("long", "timestamp-millis")},
    {"name": "local", "type": ["null", logical("long", "local-timestamp-millis")], "default": None},
    {"name": "time", "type": logical("int", "time-millis")},
    {"name": "day", "type": logical("int", "date")},
    {"name": "when", "type": {"type": "array", "items": logical("long", "timestamp-millis")}},
)
FINER = order(
    ID,
    {"name": "at", "type": logical("long", "timestamp-micros")},
    {"name": "local", "type": ["null", logical("long", "local-timestamp-micros")], "default": None},
    {"name": "time", "type": logical("long", "time-micros")},
    {"name": "day", "type": "long"},
    {"name": "when", "type": {"type": "array", "items": logical("long", "timestamp-micros")}},
)
FINE = {
    "id": 10**9,
    "at": datetime(2026, 1, 1, 0, 0, 0, 7000, UTC),
    "local": None,
    "time": time(1, 2, 3, 4000),
    "day": 20000,
    "when": [datetime(2026, 1, 1, 0, 0, 0, 1000, UTC)],
}
TOO_FINE = {
    "at": datetime(2026, 1, 1, 0, 0, 0, 7, UTC),
    "local": datetime(2026, 1, 1, 0, 0, 0, 999),
    "time": time(1, 2, 3, 4),
    "day": 2**31,
    "when[]": datetime(2026, 1, 1, 0, 0, 0, 1, UTC),
}


@pytest.fixture
def moments(lake: Any, rows: Rows) -> tuple[str, Any]:
    uri = lake.create("moments", le.load(MOMENTS), rows(le.load(MOMENTS), 20, 1), mark=True)
    plan = le.plan(uri, FINER)
    le.apply(plan, allow=ALL)
    return uri, plan


def as_finer(row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row], schema=le.arrow_schema(FINER))


def test_units_of_time_and_dates_become_what_they_were_and_each_is_named(lake: Any, moments: tuple[str, Any]) -> None:
    uri, plan = moments
    lake.append(uri, as_finer(FINE))
    undo = le.revert(plan)
    lossy = {f.path: f.message for f in undo.findings if f.rule == "TABLE-REVERT-LOSES"}
    assert lossy.keys() == {"at", "local", "time", "day", "when[]"}
    assert "timestamp-millis" in lossy["at"]
    assert undo.applicable, undo.failures or [step.reason for step in undo.refused]
    before = read(uri)
    assert le.apply(undo, allow=ALL).ok
    live = le.open_table(uri)
    assert live.schema.digest == le.load(MOMENTS).digest
    after = read(uri)
    assert after.num_rows == 21
    for name in ("at", "local", "time"):
        assert after[name].combine_chunks() == before[name].combine_chunks()
    assert after["day"].cast(pa.int32()).to_pylist() == before["day"].to_pylist()
    assert le.verify(uri, full=True, columns="all").ok


@pytest.mark.parametrize("path", TOO_FINE)
def test_one_moment_that_the_coarser_type_has_not_stops_it_and_is_named(
    lake: Any, moments: tuple[str, Any], path: str
) -> None:
    uri, plan = moments
    value = TOO_FINE[path]
    lake.append(uri, as_finer({**FINE, path.removesuffix("[]"): [value] if path.endswith("[]") else value}))
    state = le.open_table(uri).state
    undo = le.revert(plan)
    (found,) = undo.failures
    assert (found.rule, found.path) == ("TABLE-ROWS-REFUSE", path)
    assert "row 0" in found.message
    assert str(value) not in found.message
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(undo, allow=ALL)
    assert le.open_table(uri).state == state
