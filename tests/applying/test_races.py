"""Other writers commit while a plan is applied: no row is lost or doubled, and the plan lands or says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.applying import apply as module
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "int"}],
}
REWRITTEN = {**BASE, "fields": [BASE["fields"][0], {"name": "amount", "type": "double"}]}
WIDENED = {**BASE, "fields": [*BASE["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
ELSEWHERE = {**BASE, "fields": [*BASE["fields"], {"name": "other", "type": ["null", "int"], "default": None}]}


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(BASE), rows(le.load(BASE), 40, 1))
    return uri


def before_the_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object], times: int) -> list[int]:
    """Let something happen between the proof and the commit, the first *times* times; return a list that counts."""
    proved, count = module.prove_staged, [0]

    def prove(*args: Any, **kwargs: Any) -> Any:
        result = proved(*args, **kwargs)
        count[0] += 1
        if count[0] <= times:
            happens()
        return result

    monkeypatch.setattr(module, "prove_staged", prove)
    return count


def read(uri: str) -> pa.Table:
    return pa.Table.from_batches(list(le.open_table(uri).read()))


@pytest.mark.parametrize("target", [REWRITTEN, WIDENED], ids=["rewrite", "metadata"])
def test_an_append_before_the_commit_is_kept(
    orders: str, lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch, target: dict[str, Any]
) -> None:
    late = rows(le.load(BASE), 15, 2)
    expected = sorted([*read(orders)["id"].to_pylist(), *late["id"].to_pylist()])
    before_the_commit(monkeypatch, lambda: lake.append(orders, late), times=1)
    done = le.apply(le.plan(orders, target), allow=("rewrite",))
    assert done.status == "applied"
    assert done.ok
    assert sorted(read(orders)["id"].to_pylist()) == expected
    assert le.open_table(orders).schema == le.load(target)
    monkeypatch.undo()
    assert le.verify(orders, full=True).ok


def test_appends_without_end_stop_a_rewrite_after_three_attempts_and_lose_nothing(
    orders: str, lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = read(orders)["id"].to_pylist()
    plan = le.plan(orders, REWRITTEN)
    count = before_the_commit(monkeypatch, lambda: lake.append(orders, rows(le.load(BASE), 5, 7)), times=99)
    with pytest.raises(le.errors.CommitConflict):
        le.apply(plan, allow=("rewrite",))
    assert count == [3]
    monkeypatch.undo()
    assert len(read(orders)) == len(ids) + 15
    assert plan.stale() is None
    assert le.apply(plan, allow=("rewrite",)).ok
    assert len(read(orders)) == len(ids) + 15


@pytest.mark.parametrize("target", [REWRITTEN, WIDENED], ids=["rewrite", "metadata"])
def test_another_change_of_the_schema_before_the_commit_makes_the_plan_stale(
    orders: str, monkeypatch: pytest.MonkeyPatch, target: dict[str, Any]
) -> None:
    ids = sorted(read(orders)["id"].to_pylist())
    other = le.plan(orders, ELSEWHERE)
    plan = le.plan(orders, target)
    apply = module.apply
    before_the_commit(monkeypatch, lambda: apply(other), times=1)
    with pytest.raises((le.errors.StalePlan, le.errors.CommitConflict)):
        le.apply(plan, allow=("rewrite",))
    monkeypatch.undo()
    assert le.open_table(orders).schema == le.load(ELSEWHERE)
    assert sorted(read(orders)["id"].to_pylist()) == ids
    assert le.verify(orders, full=True).ok


def test_the_same_plan_landed_by_another_process_is_a_no_op(orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = le.plan(orders, REWRITTEN)
    apply = module.apply
    before_the_commit(monkeypatch, lambda: apply(plan, allow=("rewrite",)), times=1)
    done = le.apply(plan, allow=("rewrite",))
    assert done.ok
    monkeypatch.undo()
    assert [version.number for version in le.open_table(orders).history()] == [1, 2]
    assert len(read(orders)) == 40
    assert le.verify(orders, full=True).ok
