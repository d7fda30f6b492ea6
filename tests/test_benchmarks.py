"""The benchmarks' own command; what they measure is no matter of tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(ROOT))
    yield importlib.import_module("tests.benchmarks.__main__")
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.benchmarks")]:
        monkeypatch.delitem(sys.modules, name)


def test_each_benchmark_can_be_named_and_offers_figures(command) -> None:
    assert "check" in command.names()
    for name in command.names():
        source = (ROOT / "tests" / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        assert "def measure() -> list[Figure]:" in source


def test_the_table_says_what_was_measured_and_which_targets_are_met(command, capsys, monkeypatch) -> None:
    figures = [
        command.Figure("fast", 4.0, "x", at_least=3),
        command.Figure("slow", 2.0, "x", at_most=1.5),
        command.Figure("free", 1234.0, "MB"),
    ]
    monkeypatch.setattr(command, "run", lambda name: figures)
    assert command.main(["check"]) == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()[-3:]]
    assert rows == [
        ["fast", "4", "x", ">= 3", "yes", ""],
        ["slow", "2", "x", "<= 1.5", "no", ""],
        ["free", "1,234", "MB", "", "", ""],
    ]
    assert command.main(["check", "--strict"]) == 1


def test_a_benchmark_that_fails_is_named_and_the_others_are_told(command, capsys, monkeypatch) -> None:
    monkeypatch.setattr(command, "names", lambda: ["check", "other"])
    monkeypatch.setattr(command, "run", lambda name: None if name == "check" else [command.Figure("it", 1.0, "x")])
    assert command.main([]) == 1
    out, err = capsys.readouterr()
    assert "| it " in out
    assert err == "failed: check\n"


def test_times_are_of_this_process_and_its_children_and_by_turns(command) -> None:
    from tests.benchmarks import side_by_side

    calls: list[str] = []
    times = side_by_side({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=2)
    assert calls == ["a", "b"] * 3
    assert all(0 <= each.best <= each.median for each in times.values())
