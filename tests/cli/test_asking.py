"""Nobody's table is changed without a yes: on a terminal when asked, else by an option."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}  # type: ignore[misc]
V3 = {**V2, "fields": [*V2["fields"], {"name": "kind", "type": "string", "default": "x"}]}  # type: ignore[misc]


@pytest.fixture
def table(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 5, 1), mark=True)
    return uri


@pytest.fixture
def plan(table: str, tmp_path: Path) -> str:
    return str(le.plan(table, V2).save(tmp_path / "plan.json"))


def version(uri: str) -> int:
    return le.open_table(uri).history()[-1].number


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[str]]:
    """A function that makes this a terminal whose user gives one answer, and returns what she is asked."""
    import typer

    def make(answer: bool) -> list[str]:
        asked: list[str] = []

        def confirm(text: str, **_: Any) -> bool:
            asked.append(text)
            return answer

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(typer, "confirm", confirm)
        return asked

    return make


def test_without_a_terminal_a_plan_is_refused_in_three_lines_unless_somebody_says_yes(
    table: str, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", plan]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 3
    assert "--yes" in printed.err
    assert plan in printed.err
    assert version(table) == 1
    assert main(["apply", plan, "--dry-run"]) == 0
    assert version(table) == 1
    assert main(["apply", plan, "-y"]) == 0
    assert version(table) == 2


def test_a_plan_that_changes_nothing_needs_no_yes(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(table, V1).save(tmp_path / "plan.json")
    assert main(["apply", str(saved)]) == 0
    assert "nothing" in capsys.readouterr().out


def test_an_approval_is_a_yes_and_a_missing_one_is_none(
    table: str, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", plan, "--approved"]) == 1
    assert "not approved" in capsys.readouterr().err
    word = {"plan": le.load_plan(plan).digest, "approver": "ann", "until": "2999-01-01"}
    (tmp_path / "a.approval.json").write_text(json.dumps(word))
    assert main(["apply", plan, "--approved"]) == 0
    assert version(table) == 2


def test_what_the_plan_itself_rules_out_is_said_first(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(table, V3).save(tmp_path / "plan.json")
    assert main(["apply", str(saved)]) == 1
    assert "--allow backfill" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_the_plan_is_shown_and_the_answer_taken(
    answer: bool,
    table: str,
    plan: str,
    terminal: Callable[[bool], list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = terminal(answer)
    assert main(["apply", plan, "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert asked == [f"apply this plan to {table}?"]
    assert "note" in printed.err
    assert version(table) == (2 if answer else 1)
    if answer:
        assert json.loads(printed.out)["status"] == "applied"
    else:
        assert printed.out == ""
        assert "nothing was applied" in printed.err


def test_a_word_given_beforehand_is_not_asked_for_again(
    plan: str, terminal: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = terminal(False)
    assert main(["apply", plan, "--dry-run"]) == 0
    assert main(["apply", plan, "--yes"]) == 0
    assert asked == []


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_real_terminal_asks_and_enter_alone_is_a_no(table: str, plan: str, lake: Any) -> None:
    for answer, then in ((b"\n", 1), (b"y\n", 2)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeevolve", "apply", plan],
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(Path(le.__file__).parents[1])},
        )
        os.close(theirs)
        said = _until(ours, b"[y/N]")
        assert b"note" in said
        os.write(ours, answer)
        _drain(ours)
        assert process.wait(timeout=60) == 0
        os.close(ours)
        assert version(table) == then


def _until(terminal: int, word: bytes) -> bytes:
    said, until = b"", time.monotonic() + 60
    while word not in said:
        assert time.monotonic() < until, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 4096)
    return said


def _drain(terminal: int) -> None:
    # A closed terminal is an error to its reader.
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        return
