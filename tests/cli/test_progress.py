"""What a terminal shows while files are worked on."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.applying.counted import Files
from lakeevolve.cli.console import progress_bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_tell_files_bytes_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bars() as progress:
        progress("rewrite", Files(1, 2_000_000), Files(4, 9_000_000))
        progress("verify", 3, 8)
    shown = screen.getvalue()
    assert "1/4" in shown
    assert "2.0 MB of 9.0 MB" in shown
    assert "3/8" in shown
    assert "left" in shown


def test_nothing_is_shown_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bars() as progress:
        progress("rewrite", 1, 4)
    assert capfd.readouterr() == ("", "")


def test_a_rewrite_is_told_in_files_that_know_their_bytes(lake: Any, rows: Any) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": "int"}]
    old: dict[str, Any] = {"type": "record", "name": "R", "fields": fields}
    new = {**old, "fields": [*fields, {"name": "c", "type": "string", "default": "x"}]}
    uri = lake.create("t", le.load(old), rows(le.load(old), 30, 1))
    lake.append(uri, rows(le.load(old), 30, 2))
    sizes = [file.bytes for file in le.open_table(uri).files()]
    told: list[tuple[Any, Any]] = []
    le.apply(
        le.plan(uri, new),
        allow=("backfill", "rewrite"),
        progress=lambda phase, done, of: told.append((done, of)) if phase == "rewrite" else None,
    )
    assert [(int(done), int(of)) for done, of in told] == [(1, 2), (2, 2)]
    assert told[-1][0].bytes == told[0][1].bytes == sum(sizes)
    assert 0 < told[0][0].bytes < sum(sizes)
