"""A plan whose table others changed since: disjoint changes both land, overlapping ones name the winner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.planning.rebase import base_of, rebase
from lakeevolve.planning.threeway import Conflict, Side, merge
from lakeevolve.testing import evolutions

Rows = Callable[[Schema, int, int], pa.Table]


def order(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
AMOUNT = {"name": "amount", "type": "int"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
CHANNEL = {"name": "channel", "type": ["null", "string"], "default": None}
BASE = order(ID, AMOUNT, NOTE)


def wider(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "type": "long"}


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(BASE), rows(le.load(BASE), 20, 1), mark=True)
    return uri


def names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def test_two_disjoint_plans_from_one_base_both_land_the_second_after_a_rebase(orders: str) -> None:
    first = le.plan(orders, order(ID, AMOUNT, NOTE, CHANNEL))
    second = le.plan(orders, order(ID, wider(AMOUNT), NOTE))
    assert le.apply(first).ok
    with pytest.raises(le.errors.StalePlan):
        le.apply(second, allow=("rewrite",))
    again = rebase(second)
    assert [type(change).__name__ for change in again.changes] == ["PromoteType"]
    assert again.digest != second.digest
    assert le.apply(again, allow=("rewrite",)).ok
    assert le.open_table(orders).schema == le.load(order(ID, wider(AMOUNT), NOTE, CHANNEL))
    assert le.verify(orders, full=True).ok


def test_two_plans_for_a_table_never_seen_both_land(lake: Any, rows: Rows) -> None:
    text = order(ID, {"name": "state", "type": "string"}, NOTE)
    data = pa.Table.from_pylist([{"id": 7, "state": "NEW", "note": None}], schema=le.arrow_schema(text))
    uri = lake.create("states", le.load(text), data)
    enum = {
        "name": "state",
        "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
        "doc": "Of the order.",
    }
    first = le.plan(uri, order(ID, {"name": "state", "type": "string"}, NOTE, CHANNEL))
    second = le.plan(uri, order(ID, enum, {**NOTE, "doc": "Free text."}))
    assert le.apply(first).ok
    again = rebase(second)
    assert "channel" not in {change.path for change in again.changes}
    if again.applicable:
        assert le.apply(again, allow=("rewrite", "backfill")).ok
        assert names(le.open_table(uri).schema) == ["id", "state", "note", "channel"]
        assert le.verify(uri, full=True).ok


def test_overlapping_plans_end_in_exit_4_with_the_winner_named(
    orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = le.plan(orders, order(ID, {**AMOUNT, "type": "double"}, NOTE))
    loser = le.plan(orders, order(ID, wider(AMOUNT), NOTE)).save(tmp_path / "plan.json")
    assert le.apply(first, allow=("rewrite",)).ok
    before = le.open_table(orders).state
    assert main(["plan", "--rebase", str(loser)]) == 4
    said = capsys.readouterr().err
    assert f"version 2 (plan {first.digest[:12]})" in said
    assert "amount" in said
    assert le.open_table(orders).state == before


def test_appends_and_time_leave_a_plan_and_its_digest_as_they_are(orders: str, lake: Any, rows: Rows) -> None:
    plan = le.plan(orders, order(ID, wider(AMOUNT), NOTE))
    for seed in range(2, 8):
        lake.append(orders, rows(le.load(BASE), 3, seed))
        assert plan.stale() is None
    assert rebase(plan).digest == plan.digest
    assert le.apply(plan, allow=("rewrite",)).replay.rows == 38  # type: ignore[union-attr]
    with pytest.raises(le.errors.PlanError, match="applied already"):
        rebase(plan)


def test_a_column_that_others_added_with_another_tool_is_no_drop(orders: str, lake: Any) -> None:
    plan = le.plan(orders, order(ID, wider(AMOUNT)))
    assert [type(c).__name__ for c in plan.changes] == ["DropField", "PromoteType"]
    lake.add_column(orders, "channel")
    again = rebase(plan)
    assert [type(c).__name__ for c in again.changes] == ["DropField", "PromoteType"]
    assert le.apply(again, allow=("rewrite", "drop")).ok
    assert names(le.open_table(orders).schema) == ["id", "amount", "channel"]


def test_the_command_saves_the_new_plan_and_says_whether_the_approval_stands(
    orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(orders, order(ID, wider(AMOUNT), NOTE)).save(tmp_path / "plan.json")
    new = tmp_path / "new.json"
    assert main(["plan", "--rebase", str(saved), "--out", str(new)]) == 0
    assert "the intent digest stands" in capsys.readouterr().err
    assert json.loads(new.read_text())["digest"] == json.loads(saved.read_text())["digest"]
    le.apply(le.plan(orders, order(ID, AMOUNT, NOTE, CHANNEL)))
    assert main(["plan", "--rebase", str(saved), "--out", str(new)]) == 0
    assert "approve it anew" in capsys.readouterr().err
    assert main(["apply", str(new), "--yes", "--allow", "rewrite"]) == 0
    assert main(["plan", "--rebase", str(saved), orders]) == 2
    assert main(["plan", orders]) == 2


def merged(base: Any, ours: Any, theirs: Any) -> Schema:
    old, mine, other = (le.load(each) for each in (base, ours, theirs))
    one, two = diff(old, mine), diff(old, other)
    return merge(old, Side.of(mine, one.changes, one.renames), Side.of(other, two.changes, two.renames))


RENAMED = {"name": "remark", "type": ["null", "string"], "default": None, "aliases": ["note"]}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        (BASE, order(ID, AMOUNT, NOTE, CHANNEL), order(ID, NOTE), order(ID, NOTE, CHANNEL)),
        (BASE, order(ID, wider(AMOUNT), NOTE), order(ID, AMOUNT, RENAMED), order(ID, wider(AMOUNT), RENAMED)),
        (BASE, order(ID, AMOUNT, NOTE, CHANNEL), order(CHANNEL, ID, AMOUNT, NOTE), order(CHANNEL, ID, AMOUNT, NOTE)),
        (BASE, order(ID, wider(AMOUNT), NOTE), order(NOTE, AMOUNT, ID), order(NOTE, wider(AMOUNT), ID)),
        (BASE, order(NOTE, AMOUNT, ID), order(ID, AMOUNT, NOTE, CHANNEL), order(NOTE, CHANNEL, AMOUNT, ID)),
        (
            order({"name": "s", "type": STATE}),
            order({"name": "s", "type": {**STATE, "symbols": ["NEW", "PAID", "LOST"]}}),
            order({"name": "s", "type": {**STATE, "symbols": ["NEW", "PAID", "SENT"]}}),
            order({"name": "s", "type": {**STATE, "symbols": ["NEW", "PAID", "LOST", "SENT"]}}),
        ),
        (
            order({"name": "l", "type": {"type": "array", "items": {**BASE, "name": "Line"}}}),
            order(
                {"name": "l", "type": {"type": "array", "items": {**order(ID, AMOUNT, NOTE, CHANNEL), "name": "Line"}}}
            ),
            order(
                {"name": "l", "type": {"type": "array", "items": {**order(ID, wider(AMOUNT), NOTE), "name": "Line"}}}
            ),
            order(
                {
                    "name": "l",
                    "type": {"type": "array", "items": {**order(ID, wider(AMOUNT), NOTE, CHANNEL), "name": "Line"}},
                }
            ),
        ),
    ],
)
def test_what_only_one_side_changed_is_taken(base: Any, ours: Any, theirs: Any, expected: Any) -> None:
    assert merged(base, ours, theirs) == le.load(expected)


@pytest.mark.parametrize(
    ("ours", "theirs", "path"),
    [
        (order(ID, wider(AMOUNT), NOTE), order(ID, NOTE), "amount"),
        (order(ID, NOTE), order(ID, wider(AMOUNT), NOTE), "amount"),
        (order(ID, AMOUNT, RENAMED), order(ID, AMOUNT, {**RENAMED, "name": "memo"}), "note"),
        (order(ID, AMOUNT, NOTE, CHANNEL), order(ID, AMOUNT, NOTE, {**CHANNEL, "type": ["null", "int"]}), "channel"),
        (order(ID, AMOUNT, {**NOTE, "doc": "a"}), order(ID, AMOUNT, {**NOTE, "doc": "b"}), "note"),
    ],
)
def test_what_both_changed_otherwise_is_a_conflict(ours: Any, theirs: Any, path: str) -> None:
    with pytest.raises(Conflict) as caught:
        merged(BASE, ours, theirs)
    assert caught.value.path == path


@settings(max_examples=80, deadline=None, derandomize=True)
@given(evolutions(tables=True))
def test_where_one_side_changed_nothing_the_other_is_taken_whole(pair: tuple[Schema, Schema]) -> None:
    old, new = pair
    found = diff(old, new)
    changed, same = Side.of(new, found.changes, found.renames), Side.of(old, (), {})
    for ours, theirs in ((changed, same), (same, changed), (changed, changed)):
        assert merge(old, ours, theirs) == new


def test_a_plan_knows_the_schema_that_it_starts_from(orders: str) -> None:
    plan = le.plan(orders, order({"name": "amount", "type": "double"}, ID, RENAMED, CHANNEL))
    assert base_of(plan) == le.load(BASE)
    assert base_of(plan).digest == plan.base_digest
