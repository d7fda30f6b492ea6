"""Applies that are killed: at every step boundary, and at random moments. No row is lost, doubled or changed, and the
next apply finishes, whatever the state folder still knows.

The long run of 200 kills: ``python -m pytest -m long tests/applying/test_kills.py``
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.model.schema import Schema
from tests.applying.story import ALL, BASE, TARGETS, Story

Rows = Callable[[Schema, int, int], pa.Table]
ROOT = Path(__file__).resolve().parents[2]


class Killer:
    """The server of :mod:`tests.applying.killed`, as a function."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("killed.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def __call__(self, plan: Path, state: Path, **how: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = {"plan": str(plan), "state": str(state), "allow": ALL, **how}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def kill() -> Iterator[Killer]:
    killer = Killer()
    yield killer
    killer.close()


@pytest.mark.parametrize("target", TARGETS)
def test_killed_at_some_step_boundaries_the_next_apply_finishes(
    lake: Any, rows: Rows, kill: Killer, target: str
) -> None:
    at_boundaries(lake, rows, kill, target, short=True)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_killed_at_every_step_boundary_the_next_apply_finishes(
    lake: Any, rows: Rows, kill: Killer, target: str
) -> None:
    at_boundaries(lake, rows, kill, target, short=False)


def at_boundaries(lake: Any, rows: Rows, kill: Killer, target: str, *, short: bool) -> None:
    probe = Story(lake, rows, target, "probe")
    calls = kill(probe.plan, probe.state)["calls"]
    assert calls >= 4
    for at in {calls // 2, calls - 1, calls} if short else range(1, calls + 1):
        story = Story(lake, rows, target, f"t{at}")
        assert kill(story.plan, story.state, at=at)["killed"]
        story.check()
        story.finish(lose_state=at % 3 == 0)


def test_what_a_killed_apply_had_written_is_deleted_by_the_next(
    lake: Any, rows: Rows, kill: Killer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.applying import journal

    story = Story(lake, rows, "rewrite", "t")
    for at in (2, 3):
        assert kill(story.plan, story.state, at=at)["killed"]
        assert story.strays()
        assert not story.check()
    # A commit that was under way when the process died could still land now.
    dry = le.apply(story.plan, allow=ALL, dry_run=True)
    assert (dry.status, dry.leftovers.deleted) == ("dry-run", ())
    monkeypatch.setattr(journal, "GRACE", 0)
    done = le.apply(story.plan, allow=ALL)
    assert done.leftovers.deleted
    assert not done.leftovers.left
    assert story.strays() == set()
    assert not list(story.state.rglob("journal/*.json"))
    assert done.to_json()["leftovers"]["deleted"] == list(done.leftovers.deleted)


def test_what_a_plan_that_has_landed_had_written_is_never_deleted(
    lake: Any, rows: Rows, kill: Killer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.applying import journal

    monkeypatch.setattr(journal, "GRACE", 0)
    story = Story(lake, rows, "rewrite", "t")
    calls = kill(Story(lake, rows, "rewrite", "probe").plan, story.state)["calls"]
    assert kill(story.plan, story.state, at=calls)["killed"]
    assert story.check()
    before = {path for path in (lake.folder / "lake").rglob("*") if path.is_file()}
    assert list(story.state.rglob("journal/*-w*.json"))
    again = le.apply(story.plan, allow=ALL)
    assert (again.status, again.leftovers.deleted) == ("already-applied", ())
    assert {path for path in (lake.folder / "lake").rglob("*") if path.is_file()} == before
    assert not list(story.state.rglob("journal/*.json"))
    story.finish(lose_state=False)
    back = le.rollback(story.uri, to=1)
    assert back.ok
    assert story.rows() == story.before


def test_files_of_an_apply_that_still_runs_are_left_alone(
    lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.applying import apply as module

    story = Story(lake, rows, "rewrite", "t")
    proved = module.prove_staged

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(module, "prove_staged", proved)
        other = {**BASE, "fields": [*BASE["fields"], {"name": "x", "type": ["null", "int"], "default": None}]}
        assert le.apply(le.plan(story.uri, other)).leftovers.deleted == ()
        return proved(*args, **kwargs)

    monkeypatch.setattr(module, "prove_staged", meanwhile)
    with pytest.raises((le.errors.StalePlan, le.errors.CommitConflict)):
        le.apply(story.plan, allow=ALL)
    assert story.strays() == set()
    assert story.rows() == [{**row, "x": None} for row in story.before] or len(story.rows()) == 50


def at_random(lake: Any, rows: Rows, kill: Killer, count: int, seed: int) -> int:
    """Kill that many applies at random moments, each a table of its own; return how many were killed."""
    dice, killed, longest = random.Random(seed), 0, 0.0
    for number in range(count):
        story = Story(lake, rows, dice.choice(list(TARGETS)), f"t{number}")
        if not longest:
            began = time.monotonic()
            kill(story.plan, story.state)
            longest = time.monotonic() - began
            story.check()
            continue
        while kill(story.plan, story.state, after=dice.uniform(0.01, longest), resume=True)["killed"]:
            killed += 1
            if story.check() or dice.random() < 0.7:
                break
        story.finish(lose_state=dice.random() < 0.3)
    return killed


def test_killed_at_random_moments_the_next_apply_finishes(lake: Any, rows: Rows, kill: Killer) -> None:
    at_random(lake, rows, kill, 3, 7)


@pytest.mark.long
def test_a_hundred_kills_at_random_moments(lake: Any, rows: Rows, kill: Killer) -> None:
    killed, seed = 0, 0
    while killed < 100:
        seed += 1
        lake.folder.joinpath(str(seed)).mkdir()
        inner = type(lake)(lake.format, lake.folder / str(seed))
        killed += at_random(inner, rows, kill, 20, seed)
        shutil.rmtree(lake.folder / str(seed))
    assert killed >= 100


def test_a_state_that_fails_after_the_commit_says_that_the_plan_is_applied(
    lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.config.state import TableState

    story = Story(lake, rows, "rewrite", "t")
    written = TableState.write

    def full(self: TableState, kind: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if kind == "evidence":
            raise le.errors.ConfigError("the state cannot be written: no space left on device")
        return written(self, kind, name, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(TableState, "write", full)
        with pytest.raises(le.errors.ConfigError, match="the plan is applied"):
            le.apply(story.plan, allow=ALL)
    assert story.check()
    story.finish(lose_state=False)


def test_a_state_that_fails_while_files_are_written_leaves_the_table_and_no_file(
    lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.applying.journal import Journal

    story = Story(lake, rows, "rewrite", "t")
    noted, count = Journal.writing, [0]

    def broken(self: Journal, path: str) -> None:
        count[0] += 1
        if count[0] == 2:
            raise le.errors.ConfigError("the state cannot be written: no space left on device")
        noted(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "writing", broken)
        with pytest.raises(le.errors.ConfigError):
            le.apply(story.plan, allow=ALL)
    assert not story.check()
    assert story.strays() == set()
    story.finish(lose_state=False)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"plan": 7}', '{"plan": "x", "path": "y", "pid": "z"}'])
def test_what_else_lies_in_the_journal_is_left_alone(lake: Any, rows: Rows, content: str) -> None:
    story = Story(lake, rows, "several", "t")
    folder = story.state / le.open_table(story.uri).state.id / "journal"
    folder.mkdir(parents=True)
    (folder / "another.json").write_text(content)
    assert le.apply(story.plan, allow=ALL).ok
    assert (folder / "another.json").read_text() == content
