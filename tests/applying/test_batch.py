"""Many plans at once: each by itself, within a budget and a window, and one exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.applying.batch import Window, apply_batch, plan_files
from lakeevolve.config.approvals import Approval
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "int"}],
}
DOUBLE = {**BASE, "fields": [BASE["fields"][0], {"name": "amount", "type": "double"}]}
NOTE = {**BASE, "fields": [*BASE["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}


@pytest.fixture
def folder(lake: Any, rows: Rows, tmp_path: Path) -> Path:
    """Plans for three tables: a rewrite, a change of metadata, and one whose table moved on."""
    place = tmp_path / "plans"
    place.mkdir()
    for name, target in (("a", DOUBLE), ("b", NOTE), ("c", DOUBLE)):
        uri = lake.create(name, le.load(BASE), rows(le.load(BASE), 10, 1), mark=True)
        le.plan(uri, target).save(place / f"{name}.json")
    le.apply(le.plan(lake.uri("c"), NOTE))
    return place


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_one_plan_that_fails_leaves_the_others_to_their_turn(
    folder: Path, lake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "0.json").write_text("{}")
    assert main(["apply", str(folder), "--yes", "--allow", "rewrite", "--format", "json"]) == 2
    record = said(capsys)
    assert [(Path(p["file"]).name, p["status"], p["exit_code"]) for p in record["plans"]] == [
        ("0.json", "failed", 2),
        ("a.json", "applied", 0),
        ("b.json", "applied", 0),
        ("c.json", "failed", 4),
    ]
    assert record["counts"] == {"failed": 2, "applied": 2}
    (folder / "0.json").unlink()
    assert main(["apply", str(folder), "--yes", "--allow", "rewrite"]) == 4
    assert le.open_table(lake.uri("a")).schema == le.load(DOUBLE)
    assert le.open_table(lake.uri("b")).schema == le.load(NOTE)


def test_without_a_terminal_somebody_has_to_say_yes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", str(folder), "--allow", "rewrite"]) == 2
    assert "give --yes, or --approved" in capsys.readouterr().err
    assert main(["apply", str(folder), "--allow", "rewrite", "--dry-run"]) == 4


def test_only_what_is_approved_is_applied(folder: Path, lake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    digest = le.load_plan(folder / "b.json").digest
    (folder / "b.approval.json").write_text(
        json.dumps({"plan": digest, "approver": "ann", "until": "2999-01-01", "reason": "agreed"})
    )
    assert main(["apply", str(folder), "--approved", "--allow", "rewrite", "--format", "json"]) == 1
    statuses = {Path(p["file"]).name: (p["status"], p["exit_code"]) for p in said(capsys)["plans"]}
    assert statuses == {"a.json": ("failed", 1), "b.json": ("applied", 0), "c.json": ("failed", 1)}
    assert le.open_table(lake.uri("a")).schema == le.load(BASE)


def test_the_budget_is_for_all_plans_together(folder: Path) -> None:
    files = [folder / "a.json", folder / "b.json"]
    need = le.load_plan(folder / "a.json").total.bytes
    tight = apply_batch(files, ("rewrite",), max_bytes=need - 1, dry_run=True)
    assert [(each.status, each.exit_code) for each in tight.outcomes] == [("not-begun", 1), ("dry-run", 0)]
    assert "left of the budget" in tight.outcomes[0].lines[0]
    assert apply_batch(files, ("rewrite",), max_bytes=need, dry_run=True).exit_code == 0
    twice = apply_batch([files[0], files[0]], ("rewrite",), max_bytes=need, dry_run=True)
    assert [each.status for each in twice.outcomes] == ["dry-run", "not-begun"]


def test_no_plan_is_begun_when_the_time_is_over(folder: Path) -> None:
    clock = iter([datetime(2030, 1, 1, 22, tzinfo=UTC) + timedelta(hours=hour) for hour in (0, 1, 3)])
    files = [folder / "b.json", folder / "a.json"]
    done = apply_batch(files, ("rewrite",), within=timedelta(hours=2), now=lambda: next(clock), dry_run=True)
    assert [each.status for each in done.outcomes] == ["dry-run", "not-begun"]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("22:00-05:00", ["22:00", "23:59", "00:00", "04:59"], ["05:00", "12:00"]), ("09:00-17:30", ["09:00"], ["17:30"])],
)
def test_a_window_may_reach_over_midnight(text: str, inside: list[str], outside: list[str]) -> None:
    window = Window.parse(text)
    assert all(window.holds(time.fromisoformat(each)) for each in inside)
    assert not any(window.holds(time.fromisoformat(each)) for each in outside)
    with pytest.raises(le.errors.ConfigError):
        Window.parse("at night")


def test_plans_run_side_by_side_and_those_of_one_table_in_turn(lake: Any, rows: Rows, tmp_path: Path) -> None:
    uri = lake.create("a", le.load(BASE), rows(le.load(BASE), 10, 1), mark=True)
    other = lake.create("b", le.load(BASE), rows(le.load(BASE), 10, 1), mark=True)
    files = [
        le.plan(uri, NOTE).save(tmp_path / "1.json"),
        le.plan(uri, DOUBLE).save(tmp_path / "2.json"),
        le.plan(other, DOUBLE).save(tmp_path / "3.json"),
    ]
    done = apply_batch(files, ("rewrite",), jobs=4)
    assert [(each.status, each.exit_code) for each in done.outcomes] == [("applied", 0), ("failed", 4), ("applied", 0)]
    assert done.exit_code == 4


def test_an_interruption_stops_what_is_left(folder: Path, lake: Any) -> None:
    def watch(uri: str) -> Any:
        def told(phase: str, done: int, of: int) -> None:
            if phase == "rewrite":
                raise KeyboardInterrupt

        return told

    files = [folder / "a.json", folder / "b.json"]
    done = apply_batch(files, ("rewrite",), watch=watch)
    assert [(each.status, each.exit_code) for each in done.outcomes] == [("interrupted", 130), ("not-begun", 1)]
    assert "unchanged" in done.outcomes[0].lines[0]
    assert done.exit_code == 130
    assert le.open_table(lake.uri("a")).schema == le.load(BASE)


def test_a_table_in_use_is_left_alone(folder: Path, lake: Any, rows: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", str(folder / "b.json"), "--yes", "--require-idle", "1h"]) == 1
    printed = capsys.readouterr().err
    assert "the table is in use" in printed
    assert le.open_table(lake.uri("b")).schema == le.load(BASE)
    assert main(["apply", str(folder / "b.json"), "--yes", "--require-idle", "0s"]) == 0
    assert main(["apply", str(folder / "b.json"), "--yes", "--require-idle", "soon"]) == 2


def test_a_plan_lists_who_wrote_last(folder: Path, lake: Any, rows: Rows) -> None:
    writers = le.load_plan(folder / "a.json").writers
    assert writers
    assert writers[0].at is not None
    assert writers[0].at > datetime.now(UTC) - timedelta(hours=1)
    assert le.plan(lake.uri("c"), DOUBLE).writers == le.open_table(lake.uri("c")).writes()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(le.errors.ConfigError):
        plan_files(tmp_path / "nowhere")
    assert plan_files(tmp_path) == ()


def test_an_approval_in_python_is_asked_for_each_plan(folder: Path) -> None:
    word = Approval(plan=le.load_plan(folder / "b.json").digest, approver="ann", until=date(2999, 1, 1))
    done = apply_batch([folder / "b.json"], approvals=[word])
    assert done.outcomes[0].status == "applied"


def test_plans_that_run_at_once_keep_their_records_where_the_project_says(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "project.yaml"
    config.write_text("version: 1\nstate: kept\n")
    main(["apply", str(folder), "--yes", "--allow", "rewrite", "--jobs", "2", "--config", str(config)])
    assert len(list((tmp_path / "kept").rglob("ledger/*.json"))) == 2
