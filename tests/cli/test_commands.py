"""The commands as a user runs them, one after the other, with their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]

V1 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "float"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "aliases": ["amount"], "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}


@pytest.fixture
def v1(tmp_path: Path) -> str:
    file = tmp_path / "v1.avsc"
    file.write_text(json.dumps(V1))
    return str(file)


@pytest.fixture
def v2(tmp_path: Path) -> str:
    file = tmp_path / "v2.avsc"
    file.write_text(json.dumps(V2))
    return str(file)


@pytest.fixture
def table(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 30, 1))
    return uri


def run(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert main(args) == code
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.out


def test_diff_tells_each_change_in_a_line(v1: str, v2: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "diff", v1, v2)
    assert "> amount is renamed to total" in said
    assert "~ total: float is promoted to double" in said
    assert '+ currency: string is added, with the default "EUR"' in said
    record = json.loads(run(capsys, "diff", v1, v2, "--format", "json"))
    assert record["format_version"] == "1.0"
    assert {change["change"] for change in record["changes"]} >= {"rename-field", "promote-type", "add-field"}


def test_diff_warns_of_an_old_schema_that_is_broken(
    tmp_path: Path, v2: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.avsc"
    broken.write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "lnog"}]}')
    assert main(["diff", str(broken), v2]) == 0
    said = capsys.readouterr().err
    assert "the old schema is broken" in said
    assert "$.fields[0].type" in said


def test_check_exits_1_on_findings_at_or_above_fail_on(v1: str, v2: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "compatible" in run(capsys, "check", v1, v2)
    assert "not compatible" in run(capsys, "check", v1, v2, "--mode", "FORWARD", code=1)
    run(capsys, "check", v1, v2, "--mode", "FORWARD", "--fail-on", "never")
    run(capsys, "check", v1, v2, "--fail-on", "info", code=1)


def test_every_finding_says_who_breaks_and_how_to_mend_it(v1: str, v2: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, "check", v1, v2, "--mode", "FULL", "--format", "json", code=1))
    errors = [finding for finding in record["findings"] if finding["severity"] == "error"]
    assert errors
    for finding in errors:
        assert finding["rule"] in run(capsys, "explain", finding["rule"])
        assert finding["breaks"]
        assert finding["fix"]
        assert len(finding["fingerprint"]) == 16


def test_the_whole_way_from_plan_to_history(
    table: str, v2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "plan.json")
    said = run(capsys, "plan", table, v2, "--out", saved)
    assert "version 1 -> 2" in said
    assert "apply needs: --allow" in said
    run(capsys, "plan", table, v2, "--detailed-exitcode", code=3)
    assert run(capsys, "show", saved) == said
    run(capsys, "apply", saved, "--yes", code=1)
    run(capsys, "apply", saved, "--yes", "--allow", "backfill", "--allow", "rewrite", "--dry-run")
    allowed = ["--allow", "backfill", "--allow", "rewrite"]
    assert "equal" in run(capsys, "apply", saved, "--yes", *allowed, "--engine", "processes://1")
    assert "already applied" in run(capsys, "apply", saved, "--yes", "--allow", "backfill", "--allow", "rewrite")
    assert "equal" in run(capsys, "verify", table, "--full")
    assert "equal" in run(capsys, "verify", table, "--engine", "processes://1")
    assert "2 versions" in run(capsys, "history", table)
    record = json.loads(run(capsys, "describe", table, "--format", "json"))
    assert record["uri"] == table
    assert "no changes" in run(capsys, "plan", table, v2, "--detailed-exitcode")


def test_show_warns_of_a_stale_plan_and_shows_it(
    table: str, v2: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "plan.json")
    run(capsys, "plan", table, v2, "--out", saved)
    run(capsys, "apply", saved, "--yes", "--allow", "backfill", "--allow", "rewrite")
    assert main(["show", saved]) == 0
    printed = capsys.readouterr()
    assert "plan" in printed.out
    assert "stale" in printed.err


def test_a_plan_with_a_refused_step_exits_1_and_says_why(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "bad.avsc"
    fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": "int"}, V1["fields"][2]]
    target.write_text(json.dumps({**V1, "fields": fields}))
    said = run(capsys, "plan", table, str(target), "--mode", "NONE", code=1)
    assert "refuse" in said
    assert "apply will refuse" in said


def test_a_schema_can_be_named_by_a_table(table: str, v2: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "renamed to total" in run(capsys, "diff", table, v2)


def test_the_api_is_what_it_says_it_is() -> None:
    for name in le.__all__:
        assert getattr(le, name) is not None
    assert "__all__" not in le.__all__
    with pytest.raises(AttributeError):
        _ = le.no_such_name
