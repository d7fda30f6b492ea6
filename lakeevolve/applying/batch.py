"""Many saved plans: each by itself, within a budget and a window of time, and one summary of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve.applying.application import Application
from lakeevolve.applying.apply import apply
from lakeevolve.config.approvals import Approval, require
from lakeevolve.engines import Engine, open_engine
from lakeevolve.errors import ConfigError, Interrupted, LakeEvolveError, worst
from lakeevolve.planning.plan import Plan, load_plan
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Table

Status = Literal[
    "applied", "already-applied", "nothing-to-do", "dry-run", "rolled-back", "failed", "not-begun", "interrupted"
]

#: The exit code of a plan that the budget or the window left no room for.
NOT_BEGUN: Final = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one plan file. ``lines`` say why, where it was not applied."""

    file: str
    status: Status
    exit_code: int
    table: str | None = None
    plan: str | None = None
    lines: tuple[str, ...] = ()
    application: Application | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "status": self.status,
            "exit_code": self.exit_code,
            "table": self.table,
            "plan": self.plan,
            "lines": list(self.lines),
            "application": None if self.application is None else self.application.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of all plans, in the order of their files."""

    outcomes: tuple[Outcome, ...]

    @property
    def exit_code(self) -> int:
        """The code of the plan that went worst."""
        return worst(each.exit_code for each in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        counted: dict[str, int] = {}
        for each in self.outcomes:
            counted[each.status] = counted.get(each.status, 0) + 1
        return {
            "exit_code": self.exit_code,
            "counts": counted,
            "plans": [each.to_json() for each in self.outcomes],
        }


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day, in local time, within which plans may be begun; over midnight where it ends before it starts."""

    start: time
    end: time

    def holds(self, now: time) -> bool:
        if self.start <= self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    @classmethod
    def parse(cls, text: str) -> Window:
        """``22:00-05:00``. Raises ``ConfigError`` where it is none."""
        try:
            start, end = (time.fromisoformat(side.strip()) for side in text.split("-"))
        except ValueError as error:
            raise ConfigError(f"{text!r} is no window of time", hint="write it as 22:00-05:00") from error
        return cls(start, end)


def plan_files(folder: str | Path) -> tuple[Path, ...]:
    """The plan files of a folder, by name: what ends in ``.json`` and is no approval."""
    place = Path(folder)
    if not place.is_dir():
        raise ConfigError("there is no such folder", where=str(folder), hint="give a folder of saved plans")
    found = [each for each in place.iterdir() if each.suffix == ".json" and not each.name.endswith(".approval.json")]
    return tuple(sorted(each for each in found if each.is_file()))


def apply_batch(
    files: Sequence[str | Path],
    allow: Collection[str] = (),
    *,
    approvals: Sequence[Approval] | None = None,
    max_bytes: int | None = None,
    within: timedelta | None = None,
    window: Window | None = None,
    jobs: int = 1,
    require_idle: timedelta | None = None,
    engine: Any = None,
    resume: bool = False,
    dry_run: bool = False,
    open_: Callable[[str], Table] = open_table,
    watch: Callable[[str], Callable[[Any, int, int], None]] = lambda _name: lambda _phase, _done, _of: None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Batch:
    """Apply many plans. What fails with one leaves the others to their turn.

    Parameters
    ----------
    files:
        Saved plans; two for the same table run one after the other.
    allow, require_idle, engine, resume, dry_run:
        As for :func:`lakeevolve.applying.apply.apply`.
    approvals:
        Those that are there: a plan that none covers is not applied. None: no approval is asked for.
    max_bytes:
        How many stored bytes may be written anew in all; a plan that would go beyond is not begun.
    within, window:
        For how long from now, and at what time of the day, plans are begun.
    jobs:
        How many plans run at once.
    watch:
        Told of each table's URI; gives what is called with the phase, the files done and the files in all.
    now:
        The clock.

    Returns
    -------
    Batch
        Its ``exit_code`` is that of the worst plan.
    """
    if jobs < 1:
        raise ConfigError("at least one plan runs at a time", where=f"jobs={jobs}")
    last = None if within is None else now() + within
    with open_engine(engine) as opened:
        run = _Run(allow, approvals, max_bytes, last, window, require_idle, opened, resume, dry_run, open_, watch, now)
        return _run_all(run, files, jobs)


def _run_all(run: _Run, files: Sequence[str | Path], jobs: int) -> Batch:
    """Run the plans, those of one table one after the other."""
    read = [run.read(str(file)) for file in files]
    tables: dict[str, list[int]] = {}
    for at, (_, plan, outcome) in enumerate(read):
        if plan is not None and outcome is None:
            tables.setdefault(plan.table["id"], []).append(at)
    done: dict[int, Outcome] = {at: outcome for at, (_, _, outcome) in enumerate(read) if outcome is not None}

    def one_table(places: list[int]) -> Iterator[tuple[int, Outcome]]:
        for at in places:
            name, plan, _ = read[at]
            assert plan is not None
            yield at, run.plan(name, plan)

    if jobs == 1:
        for places in tables.values():
            done.update(one_table(places))
    else:
        with ThreadPoolExecutor(jobs) as pool:
            # Each thread with what this one knows: the project whose state it is.
            running = [
                pool.submit(copy_context().run, lambda places: list(one_table(places)), places)
                for places in tables.values()
            ]
            try:
                for each in running:
                    done.update(each.result())
            except KeyboardInterrupt:
                # Those that run stop at their next file, and the rest is not begun.
                run.stopped.set()
                for each in running:
                    done.update(each.result())
    return Batch(tuple(done[at] for at in sorted(done)))


@dataclass(slots=True)
class _Run:
    """What all plans have in common: ``left`` is what is left of the budget, ``last`` when the last one may begin."""

    allow: Collection[str]
    approvals: Sequence[Approval] | None
    left: int | None
    last: datetime | None
    window: Window | None
    require_idle: timedelta | None
    engine: Engine
    resume: bool
    dry_run: bool
    open: Callable[[str], Table]
    watch: Callable[[str], Callable[[Any, int, int], None]]
    now: Callable[[], datetime]
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, file: str) -> tuple[str, Plan | None, Outcome | None]:
        try:
            return file, load_plan(file), None
        except LakeEvolveError as error:
            return file, None, Outcome(file, "failed", error.exit_code, lines=error.lines())

    def plan(self, file: str, plan: Plan) -> Outcome:
        uri = plan.table["uri"]
        spent = plan.total.bytes
        why = self._no_room(spent)
        if why is not None:
            return Outcome(file, "not-begun", NOT_BEGUN, uri, plan.digest, (why,))
        told = self.watch(uri)

        def progress(phase: Any, done: int, of: int) -> None:
            if self.stopped.is_set():
                raise KeyboardInterrupt
            told(phase, done, of)

        try:
            approval = None
            if self.approvals is not None and not plan.empty:
                approval = require(plan.digest, self.approvals, where=uri)
            done = apply(
                plan,
                self.allow,
                table=self.open(uri),
                engine=self.engine,
                resume=self.resume,
                dry_run=self.dry_run,
                require_idle=self.require_idle,
                progress=progress,
                approval=approval,
            )
        except Interrupted as stop:
            self.stopped.set()
            return Outcome(file, "interrupted", stop.exit_code, uri, plan.digest, stop.lines())
        except KeyboardInterrupt:
            self.stopped.set()
            return Outcome(file, "interrupted", 130, uri, plan.digest, ("interrupted before anything was begun",))
        except LakeEvolveError as error:
            return Outcome(file, "failed", error.exit_code, uri, plan.digest, error.lines())
        except Exception as error:
            # One plan's surprise is no reason to leave the others; a library's text may hold row values.
            what = f"an unexpected {type(error).__name__} stopped this plan"
            return Outcome(file, "failed", 2, uri, plan.digest, (what, "next: apply it alone with --debug"))
        code = 0 if done.ok else 5
        return Outcome(file, done.status, code, uri, plan.digest, application=done)

    def _no_room(self, wanted: int) -> str | None:
        """Why a plan is not begun now, or None; what it will write is taken off the budget."""
        if self.stopped.is_set():
            return "interrupted before it was begun"
        now = self.now()
        if self.last is not None and now > self.last:
            return "the time for beginning plans is over"
        if self.window is not None and not self.window.holds(now.astimezone().time()):
            return "it is not the time of day for beginning plans"
        with self._lock:
            if self.left is not None:
                if wanted > self.left:
                    return f"it would write {wanted:,} bytes anew, and {self.left:,} are left of the budget"
                self.left -= wanted
        return None
