"""Going back: rows and schema as they were, and never without a word where rows would be lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]


def order(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
BASE = order(ID, {"name": "amount", "type": "int"}, NOTE)
REWRITTEN = order(ID, {"name": "total", "type": "double", "aliases": ["amount"]}, NOTE)
WIDENED = order(ID, {"name": "amount", "type": "int"}, NOTE, {"name": "more", "type": ["null", "int"], "default": None})
DROPPED = order(ID, {"name": "amount", "type": "int"})
TARGETS = {"rewrite": REWRITTEN, "metadata": WIDENED, "drop": DROPPED}
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    return made(lake, rows, mark=True)


def made(lake: Any, rows: Rows, *, mark: bool) -> str:
    uri: str = lake.create("orders", le.load(BASE), rows(le.load(BASE), 20, 1), mark=mark)
    lake.append(uri, rows(le.load(BASE), 10, 2))
    return uri


def bag(uri: str) -> list[str]:
    return sorted(json.dumps(row, default=str) for batch in le.open_table(uri).read() for row in batch.to_pylist())


@pytest.mark.parametrize(("target", "mark"), [("rewrite", False), ("metadata", False), ("drop", True)])
def test_rows_and_schema_are_as_they_were_and_the_history_goes_on(
    lake: Any, rows: Rows, target: str, mark: bool
) -> None:
    orders = made(lake, rows, mark=mark)
    before = bag(orders)
    plan = le.plan(orders, TARGETS[target], mode="NONE")
    done = le.apply(plan, allow=ALL)
    assert done.undo is not None
    assert done.undo.to == 1
    assert done.undo.until > datetime.now(UTC) + timedelta(days=1)
    back = le.rollback(orders, to=1)
    assert (back.status, back.version) == ("rolled-back", 3)
    assert back.ok
    live = le.open_table(orders)
    assert [(f.name, f.type) for f in live.schema.fields] == [(f.name, f.type) for f in le.load(BASE).fields]
    assert bag(orders) == before
    assert [(v.number, v.restores) for v in live.history()] == [(1, None), (2, None), (3, 1)]
    assert le.verify(orders, full=True, columns="all").ok
    lake.append(orders, rows(le.load(BASE), 5, 3))
    assert le.verify(orders, full=True, columns="all").ok
    assert le.rollback(orders, to=1).status == "nothing-to-do"
    # The plan that was undone is neither applied nor fit for the table as it is.
    with pytest.raises(le.errors.StalePlan, match="went back to version 1"):
        le.apply(plan, allow=ALL)
    again = le.apply(le.plan(orders, TARGETS[target], mode="NONE"), allow=ALL)
    assert (again.status, again.version) == ("applied", 4)
    assert len(bag(orders)) == 35
    assert le.verify(orders, full=True, columns="all").ok


@pytest.mark.parametrize("target", TARGETS)
def test_rows_written_since_are_lost_only_with_the_permit(
    orders: str, lake: Any, rows: Rows, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bag(orders)
    le.apply(le.plan(orders, TARGETS[target], mode="NONE"), allow=ALL)
    late = rows(le.load(TARGETS[target]), 7, 9)
    lake.append(orders, late)
    state = le.open_table(orders).state
    assert main(["rollback", orders, "--to", "1"]) == 1
    said = capsys.readouterr().err
    assert "30 rows then, 37 later" in said
    assert "--allow lose-rows" in said
    assert le.open_table(orders).state == state
    assert le.rollback(orders, to=1, allow=("lose-rows",)).ok
    assert bag(orders) == before
    assert le.verify(orders, full=True).ok


def test_deleted_rows_come_back_only_with_the_permit(orders: str, lake: Any) -> None:
    before = bag(orders)
    le.apply(le.plan(orders, WIDENED))
    if lake.format == "delta":
        from deltalake import DeltaTable

        DeltaTable(orders.removeprefix("delta:")).delete("amount = 0")
    else:
        le.open_table(orders).iceberg.delete("amount == 0")  # type: ignore[attr-defined]
    assert len(bag(orders)) < len(before)
    with pytest.raises(le.errors.PermitMissing):
        le.rollback(orders, to=1)
    assert le.rollback(orders, to=1, allow={"lose-rows"}).ok
    assert bag(orders) == before


# pyiceberg compacts nothing.
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_compaction_since_loses_nothing(orders: str) -> None:
    from deltalake import DeltaTable

    before = bag(orders)
    le.apply(le.plan(orders, WIDENED))
    DeltaTable(orders.removeprefix("delta:")).optimize.compact()
    assert le.rollback(orders, to=1).ok
    assert bag(orders) == before


def test_a_rollback_can_be_rolled_back(orders: str) -> None:
    le.apply(le.plan(orders, REWRITTEN), allow=ALL)
    evolved = bag(orders)
    le.rollback(orders, to=1)
    assert le.rollback(orders, to=2).version == 4
    assert bag(orders) == evolved
    assert le.open_table(orders).schema == le.load(REWRITTEN)
    assert le.verify(orders, full=True).ok
    assert le.rollback(orders, to=3).ok
    assert le.rollback(orders, to=1).status == "nothing-to-do"
    assert le.verify(orders, full=True).ok


def test_what_the_table_went_back_from_is_not_taken_for_what_came_after(orders: str) -> None:
    le.apply(le.plan(orders, REWRITTEN), allow=ALL)
    le.rollback(orders, to=1)
    other = order(*BASE["fields"], {"name": "currency", "type": "string", "default": "EUR"})
    le.apply(le.plan(orders, other, mode="NONE"), allow=ALL)
    live = le.open_table(orders)
    if live.format == "iceberg":
        assert live.landed(live.history()[1]) is None
    assert live.landed(live.history()[3]) is not None
    assert le.verify(orders, full=True, columns="all").ok


def test_a_dry_run_says_whether_and_changes_nothing(orders: str, capsys: pytest.CaptureFixture[str]) -> None:
    le.apply(le.plan(orders, REWRITTEN), allow=ALL)
    state = le.open_table(orders).state
    assert main(["rollback", orders, "--to", "1", "--dry-run"]) == 0
    assert "dry run" in capsys.readouterr().out
    assert le.open_table(orders).state == state


@pytest.mark.parametrize("to", [0, 3, -1, True])
def test_a_version_that_is_not_there_is_refused(orders: str, to: Any) -> None:
    le.apply(le.plan(orders, WIDENED))
    with pytest.raises(le.errors.PlanError, match="no version"):
        le.rollback(orders, to=to)
    with pytest.raises(le.errors.PlanError):
        le.rollback(orders, to=1, allow={"rewrite"})


def test_files_that_are_gone_refuse_a_rollback_and_leave_the_table(orders: str, lake: Any) -> None:
    le.apply(le.plan(orders, REWRITTEN), allow=ALL)
    state = le.open_table(orders).state
    if lake.format == "delta":
        from deltalake import DeltaTable

        DeltaTable(orders.removeprefix("delta:")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    else:
        live = le.open_table(orders).iceberg  # type: ignore[attr-defined]
        old = [s.snapshot_id for s in live.metadata.snapshots if s.snapshot_id != live.metadata.current_snapshot_id]
        live.maintenance.expire_snapshots().by_ids(old).commit()
    for allow in ((), ("lose-rows",)):
        with pytest.raises(le.errors.TableError):
            le.rollback(orders, to=1, allow=allow)
    assert le.open_table(orders).state.pin == state.pin
    assert le.verify(orders).ok


def test_a_write_in_between_is_a_conflict(orders: str, lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeevolve.applying import rollback as module

    le.apply(le.plan(orders, REWRITTEN), allow=ALL)
    checked = module.written_since

    def slowly(*args: Any) -> Any:
        found = checked(*args)
        lake.append(orders, rows(le.load(REWRITTEN), 3, 5))
        return found

    monkeypatch.setattr(module, "written_since", slowly)
    with pytest.raises(le.errors.CommitConflict):
        le.rollback(orders, to=1)
    assert len(bag(orders)) == 33
    assert le.open_table(orders).schema == le.load(REWRITTEN)


def test_a_state_that_cannot_be_written_stops_a_rollback_before_anything(
    orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    le.apply(le.plan(orders, WIDENED))
    state = le.open_table(orders).state
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(blocked))
    with pytest.raises(le.errors.ConfigError):
        le.rollback(orders, to=1)
    assert le.open_table(orders).state == state


def test_the_ledger_says_who_approved_a_rollback_and_what_was_let_pass(
    orders: str, lake: Any, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    le.apply(le.plan(orders, WIDENED), allow=ALL)
    lake.append(orders, rows(le.load(WIDENED), 7, 9))
    state, words = le.open_table(orders).state, tmp_path / "words"
    words.mkdir()
    back = ("rollback", orders, "--to", "1", "--allow", "lose-rows")
    assert main([*back, "--dry-run", "--format", "json"]) == 0
    digest = json.loads(capsys.readouterr().out)["plan"]
    assert main([*back, "--dry-run"]) == 0
    assert digest in capsys.readouterr().out
    assert main([*back, "--approvals", str(words)]) == 1
    assert "not approved" in capsys.readouterr().err
    assert le.open_table(orders).state == state
    word = words / "back.approval.json"
    word.write_text(json.dumps({"plan": digest, "approver": "ann", "until": "2999-01-01", "reason": "bad release"}))
    assert main([*back, "--approvals", str(words)]) == 0
    capsys.readouterr()
    assert main(["history", orders, "--format", "json"]) == 0
    step = json.loads(capsys.readouterr().out)["versions"][-1]
    assert (step["by"], step["approver"], step["plan"]) == ("rollback", "ann", digest)
    assert step["replay"]["ok"]
    assert step["verdicts"]["mode"] == "NONE"
    assert [(each["rule"], each["waived_by"]) for each in step["verdicts"]["findings"]] == [
        ("TABLE-REVERT-LOSES", "ann")
    ]
    # The digest is of going back from where the table was: it covers no other way back.
    le.apply(le.plan(orders, WIDENED), allow=ALL)
    with pytest.raises(le.errors.PermitMissing, match="names other plans"):
        le.rollback(orders, to=1, approval=word)


def test_a_rollback_that_nobody_approved_and_that_loses_nothing_has_verdicts_without_findings(orders: str) -> None:
    from lakeevolve.applying.past import past_of

    le.apply(le.plan(orders, WIDENED), allow=ALL)
    le.rollback(orders, to=1)
    step = past_of(le.open_table(orders)).steps[-1]
    assert step.entry is not None
    assert (step.approver, step.entry["verdicts"]) == (None, {"mode": "NONE", "fail_on": "error", "findings": []})
