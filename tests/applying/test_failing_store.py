"""Whatever the store or the state refuses, the table reads as before or as after, and the next apply finishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.config.store import Folder
from lakeevolve.model.schema import Schema
from tests.applying.story import ALL, Story

Rows = Callable[[Schema, int, int], pa.Table]
ROOT = Path(__file__).resolve().parents[2]

#: Applies a plan under a limit of the operating system: on how large a file may get, or as another user.
UNDER = """
import os, resource, signal, sys
from lakeevolve.__main__ import main
plan, limit, user = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
if user:
    os.setgid(user); os.setuid(user)
sys.exit(main(["apply", plan, "--yes", "--allow", "rewrite", "--allow", "backfill", "--allow", "drop"]))
"""


def under(story: Story, *, limit: int = 0, user: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", UNDER, str(story.plan), str(limit), str(user)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LAKEEVOLVE_STATE": str(story.state)},
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def clear(done: subprocess.CompletedProcess[str]) -> bool:
    return 1 <= len(done.stderr.strip().splitlines()) <= 3 and "Traceback" not in done.stderr


@pytest.mark.parametrize("limit", [1500, *(pytest.param(each, marks=pytest.mark.long) for each in (200, 600, 4000))])
def test_a_disk_that_takes_no_more_bytes_leaves_the_table_as_it_was_or_as_it_will_be(
    lake: Any, rows: Rows, limit: int
) -> None:
    story = Story(lake, rows, "rewrite", "t")
    done = under(story, limit=limit)
    # 5 where the disk took the files, and not what the proof needs to read them.
    assert done.returncode in (2, 5), done.stderr
    assert clear(done), done.stderr
    story.check()
    story.finish(lose_state=False)
    assert story.strays() == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_lake_that_may_not_be_written_is_said_to_be_and_stays_as_it_was(
    lake: Any, rows: Rows, tmp_path: Path
) -> None:
    story = Story(lake, rows, "rewrite", "t")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    for folder, _, files in os.walk(tmp_path / "lake"):
        os.chmod(folder, 0o555)
        for file in files:
            os.chmod(Path(folder) / file, 0o444)
    story.plan.chmod(0o444)
    story.state.mkdir(exist_ok=True)
    story.state.chmod(0o777)
    done = under(story, user=65534, cwd=Path("/"))
    assert done.returncode == 2, done.stderr
    assert clear(done), done.stderr
    assert not story.check()
    story.finish(lose_state=True)
    assert story.strays() == set()


class Failing:
    """A state folder whose n-th write or removal fails."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        self.count, self.at = 0, at
        for name in ("put", "delete"):
            patch.setattr(Folder, name, self._failing(getattr(Folder, name)))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(folder: Folder, name: str, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                raise le.errors.ConfigError("the state folder cannot be written: No space left on device", where=name)
            return real(folder, name, *args, **kwargs)

        return call


def at_each_step_of_the_state(lake: Any, rows: Rows, target: str, first: int, step: int) -> int:
    """Let the state fail once, at every *step*-th of its writes and removals; return how many there are."""
    at = first
    while True:
        inner = replace(lake, folder=lake.folder / str(at))
        error = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LAKEEVOLVE_STATE", str(inner.folder / "state"))
            story = Story(inner, rows, target, "t")
            with pytest.MonkeyPatch.context() as fault:
                failing = Failing(fault, at)
                try:
                    le.apply(story.plan, allow=ALL)
                except le.errors.LakeEvolveError as caught:
                    error = caught
            done = story.check()
            if error is not None:
                assert len(error.lines()) <= 3
                assert "No space left" in error.what
                # Whether the table was changed is said, and true.
                assert ("the plan is applied" in error.what) == done
            story.finish(lose_state=False)
            assert story.strays() == set()
        if failing.count < at:
            return failing.count
        at += step


def test_a_state_that_fails_at_some_step_leaves_the_table_before_or_after(lake: Any, rows: Rows) -> None:
    assert at_each_step_of_the_state(lake, rows, "rewrite", 3, 9) > 5


@pytest.mark.long
@pytest.mark.parametrize("target", ["rewrite", "several"])
def test_a_state_that_fails_at_every_step_leaves_the_table_before_or_after(lake: Any, rows: Rows, target: str) -> None:
    assert at_each_step_of_the_state(lake, rows, target, 1, 1) > 5


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_a_commit_whose_answer_an_embedded_catalog_loses_has_landed(
    lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    story = Story(lake, rows, "rewrite", "t")
    commit, count = SqlCatalog.commit_table, [0]

    def lost(self: SqlCatalog, *args: Any, **kwargs: Any) -> Any:
        commit(self, *args, **kwargs)
        count[0] += 1
        raise OSError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", lost)
        assert le.apply(story.plan, allow=ALL).status == "applied"
    assert count == [1]
    assert story.check()
    story.finish(lose_state=False)


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_slow_state_is_waited_for(lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    story, put = Story(lake, rows, "several", "t"), Folder.put

    def slow(*args: Any, **kwargs: Any) -> bool:
        time.sleep(0.05)
        return put(*args, **kwargs)

    monkeypatch.setattr(Folder, "put", slow)
    assert le.apply(story.plan, allow=ALL).ok
    assert story.check()
    ledger = list(story.state.rglob("ledger/*.json"))
    assert len(ledger) == 1
    assert json.loads(ledger[0].read_text())["replay"]["ok"]
