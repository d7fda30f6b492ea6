"""``history``: as a user reads it."""

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
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "float"}],
}
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "aliases": ["amount"], "type": "double"},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 30, 1))
    le.apply(le.plan(uri, V2), allow=("rewrite", "backfill"))
    return uri


def run(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert main(args) == code
    return capsys.readouterr().out


def entry(folder: Path) -> Path:
    (file,) = folder.rglob("ledger/*.json")
    return file


def test_history_tells_changes_plan_verdict_and_replay_of_each_version(
    orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, "history", orders)
    plan = json.loads(entry(tmp_path).read_text())["plan"]
    for line in (
        f"{orders}: 2 versions",
        "as first seen",
        f"plan {plan[:12]}",
        "> amount is renamed to total",
        '+ currency: string is added, with the default "EUR"',
        "verdict: BACKWARD",
        "replay: equal, 1 file, 30 rows",
    ):
        assert line in said
    record = json.loads(run(capsys, "history", orders, "--format", "json"))
    assert record["format_version"] == "1.0"
    assert [version["by"] for version in record["versions"]] == ["first", "plan"]
    assert record["versions"][1]["replay"]["ok"] is True
    assert record["findings"] == []


def test_one_column_is_followed_through_its_renames(orders: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "history", orders, "--column", "total")
    assert "in 2 of 2 versions" in said
    assert "amount: float" in said
    assert "total: double" in said
    record = json.loads(run(capsys, "history", orders, "--column", "currency", "--format", "json"))
    assert [version["path"] for version in record["versions"]] == [None, "currency"]
    assert main(["history", orders, "--column", "totl"]) == 2
    assert "did you mean total?" in capsys.readouterr().err


def test_a_lost_ledger_is_made_again(orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = entry(tmp_path)
    file.unlink()
    assert "TABLE-LEDGER-MISSING" in run(capsys, "history", orders)
    said = run(capsys, "history", orders, "--rebuild")
    assert "1 ledger entry made again" in said
    assert str(file) in said
    assert "TABLE-LEDGER" not in run(capsys, "history", orders)


@pytest.mark.parametrize(
    ("was", "now", "rule"), [(b'"version":2', b'"version":3', "DIFFERS"), (b"}\n", b"", "DAMAGED")]
)
def test_a_ledger_that_was_changed_or_cut_exits_1(
    was: bytes, now: bytes, rule: str, orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = entry(tmp_path)
    file.write_bytes(file.read_bytes().replace(was, now))
    said = run(capsys, "history", orders, code=1)
    assert f"error    TABLE-LEDGER-{rule}" in said
    assert "2 versions" in said


def test_the_project_that_is_named_says_where_the_ledger_is(
    orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "project.yaml"
    file.write_text("version: 1\nstate: elsewhere\n")
    assert "TABLE-LEDGER-MISSING" in run(capsys, "history", orders, "--config", str(file))
    file.write_text("version: 1\nstat: elsewhere\n")
    assert main(["history", orders, "--config", str(file)]) == 2
    assert "did you mean state?" in capsys.readouterr().err
