"""Other writers commit while a plan is applied: no row is lost or doubled, and the plan lands or says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
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


@pytest.mark.parametrize("target", [REWRITTEN, WIDENED], ids=["rewrite", "metadata"])
def test_a_delete_before_the_commit_stays_deleted(
    orders: str, lake: Any, monkeypatch: pytest.MonkeyPatch, target: dict[str, Any]
) -> None:
    gone = read(orders)["id"].to_pylist()[0]
    expected = sorted(each for each in read(orders)["id"].to_pylist() if each != gone)
    before_the_commit(monkeypatch, lambda: delete(orders, gone), times=1)
    done = le.apply(le.plan(orders, target), allow=("rewrite",))
    assert (done.status, done.ok) == ("applied", True)
    monkeypatch.undo()
    assert sorted(read(orders)["id"].to_pylist()) == expected
    assert le.verify(orders, full=True).ok


@pytest.mark.parametrize("target", [REWRITTEN, WIDENED], ids=["rewrite", "metadata"])
def test_a_compaction_before_the_commit_doubles_no_row(
    orders: str, lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch, target: dict[str, Any]
) -> None:
    lake.append(orders, rows(le.load(BASE), 15, 2))
    expected = sorted(read(orders)["id"].to_pylist())
    before_the_commit(monkeypatch, lambda: compact(orders), times=1)
    done = le.apply(le.plan(orders, target), allow=("rewrite",))
    assert (done.status, done.ok) == ("applied", True)
    monkeypatch.undo()
    assert sorted(read(orders)["id"].to_pylist()) == expected
    assert le.verify(orders, full=True).ok


def delete(uri: str, number: int) -> None:
    if uri.startswith("delta:"):
        from deltalake import DeltaTable

        DeltaTable(uri.removeprefix("delta:")).delete(f"id = {number}")
    else:
        le.open_table(uri).iceberg.delete(f"id == {number}")  # type: ignore[attr-defined]


def compact(uri: str) -> None:
    if uri.startswith("delta:"):
        from deltalake import DeltaTable

        DeltaTable(uri.removeprefix("delta:")).optimize.compact()
    else:
        table = le.open_table(uri).iceberg  # type: ignore[attr-defined]
        table.overwrite(table.scan().to_arrow())


def test_of_two_plans_of_one_table_the_second_is_exit_4_and_names_the_first(
    orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = le.plan(orders, ELSEWHERE), le.plan(orders, REWRITTEN)
    le.apply(first)
    state = le.open_table(orders).state
    saved = second.save(tmp_path / "second.json")
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 4
    printed = capsys.readouterr().err
    assert f"version 2 (plan {first.digest[:12]})" in printed
    assert "--rebase" in printed
    assert len(printed.splitlines()) == 3
    assert le.open_table(orders).state == state


def test_a_change_by_others_is_exit_4_and_named_so(
    orders: str, lake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(orders, REWRITTEN).save(tmp_path / "plan.json")
    lake.add_column(orders, "note")
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 4
    printed = capsys.readouterr().err
    assert "(made by others)" in printed
    assert len(printed.splitlines()) == 3
