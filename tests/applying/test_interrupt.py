"""Ctrl-C and SIGTERM: the table is in a state that the command names, and no live file is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.applying import apply as module
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta, iceberg

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "int"}],
}
TARGET = {**BASE, "fields": [BASE["fields"][0], {"name": "amount", "type": "double"}]}


@pytest.fixture
def saved(lake: Any, rows: Rows, tmp_path: Path) -> Path:
    uri = lake.create("orders", le.load(BASE), rows(le.load(BASE), 20, 1))
    file: Path = le.plan(uri, TARGET).save(tmp_path / "plan.json")
    return file


def stop(number: int) -> Callable[..., Any]:
    def stopped(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), number)

    return stopped


def after(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The function, and a signal as soon as it has done its work."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        os.kill(os.getpid(), number)
        return result

    return run


def said(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr().err.rstrip("\n")
    assert 2 <= len(printed.split("\n")) <= 3
    return printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_the_commit_the_table_is_unchanged_and_apply_says_so(
    lake: Any, saved: Path, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = le.load_plan(saved).table["uri"]
    before, files = le.open_table(uri).state, {f.path for f in le.open_table(uri).files()}
    stored = set((lake.folder / "lake").rglob("*.parquet"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "prove_staged", stop(number))
        assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 130
    printed = said(capsys)
    assert "unchanged" in printed
    assert uri in printed
    assert "run apply again" in printed
    live = le.open_table(uri)
    assert (live.state, {f.path for f in live.files()}) == (before, files)
    assert set((lake.folder / "lake").rglob("*.parquet")) == stored
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_the_commit_the_new_files_are_live_and_stay(
    lake: Any, saved: Path, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = le.load_plan(saved).table["uri"]
    ids = sorted(pa.Table.from_batches(list(le.open_table(uri).read()))["id"].to_pylist())
    with monkeypatch.context() as patch:
        # Right behind the swap, before the handle has read the new metadata.
        where = iceberg.table if lake.format == "iceberg" else delta.table.commits
        name = "commit"
        patch.setattr(where, name, after(getattr(where, name), number))
        assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 130
    printed = said(capsys)
    assert "the plan is applied" in printed
    assert "verify" in printed
    live = le.open_table(uri)
    assert live.schema == le.load(TARGET)
    assert sorted(pa.Table.from_batches(list(live.read()))["id"].to_pylist()) == ids
    assert le.verify(uri, full=True).ok
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 0


@pytest.mark.parametrize("phase", ["rewrite", "prove", "commit"])
def test_who_listens_may_stop_apply_in_any_phase_before_the_commit(lake: Any, saved: Path, phase: str) -> None:
    uri = le.load_plan(saved).table["uri"]
    stored, before = set((lake.folder / "lake").rglob("*.parquet")), le.open_table(uri).state
    heard = []

    def listen(at: str, done: int, _of: int) -> None:
        heard.append(at)
        if at == phase and (done == 0 or phase != "commit"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        le.apply(saved, allow=("rewrite",), progress=listen)
    assert phase in heard
    assert set((lake.folder / "lake").rglob("*.parquet")) == stored
    assert le.open_table(uri).state == before


def test_an_interruption_is_a_keyboard_interrupt_in_python(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "prove_staged", stop(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as caught:
        le.apply(saved, allow=("rewrite",))
    assert isinstance(caught.value, le.errors.Interrupted)
    assert not isinstance(caught.value, Exception)


def test_sigterm_is_given_back_after_an_apply(saved: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 0
    assert signal.getsignal(signal.SIGTERM) is before
