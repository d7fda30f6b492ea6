"""Running the demo: diff, check, plan, apply and verify for every table, format and version, told on a console."""

from __future__ import annotations

import functools
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeevolve import _api as le
from lakeevolve.demo import samples
from lakeevolve.demo.build import FORMATS, DemoTable, Format, Progress, build, each_format, schema_file, state_in
from lakeevolve.errors import ConfigError, PlanBlocked, PlanError
from lakeevolve.report.text import counted, diff_text, findings_text, plan_text, replay_text

if TYPE_CHECKING:
    from rich.console import Console

    from lakeevolve.applying.apply import Application
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replaying.result import ReplayResult
    from lakeevolve.rules.modes import Report

MODE = "BACKWARD"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one table's step to one version came to; ``saved`` is the plan's file."""

    table: DemoTable
    version: int
    plan: Plan
    saved: Path
    applied: Application


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What a demo came to: every step, and the replay of each table at the end, by its URI."""

    outcomes: tuple[Outcome, ...]
    replays: Mapping[str, ReplayResult]

    @property
    def ok(self) -> bool:
        """Whether every row read what it has to, after each step and at the end."""
        return all(each.applied.ok for each in self.outcomes) and all(each.ok for each in self.replays.values())


def run(directory: str | Path, console: Console) -> Demonstration:
    """Build the sample tables, evolve each through versions 4, 5 and 6 with a replay after every step, verify them.

    Parameters
    ----------
    directory:
        Where tables, plans and evidence go; see :func:`lakeevolve.demo.build.build`.
    console:
        Where results are told; progress goes to stderr.

    Raises
    ------
    ConfigError
        The folder holds something else, or cannot be written.
    ReplayMismatch
        A proof failed; that table was not changed.
    """
    if "://" in str(directory):
        raise ConfigError("the demo needs a folder on this disk", where=str(directory), hint="name a new folder")
    root = Path(directory)
    done: list[Outcome] = []
    with _bars() as progress, state_in(root):
        tables = build(root, progress)
        _heading(console, f"Two tables in two formats, with rows of versions {_listed(samples.WRITTEN)}")
        for table in tables:
            _say(console, f"  {table.uri}: {counted(table.rows, 'row')}")
        for version in samples.EVOLVED:
            if version == samples.EVOLVED[1]:
                _refused(console, root, _find(tables, "orders", "delta"))
                _forgotten(console, root, _find(tables, "orders", "iceberg"))
            for name in samples.TABLES:
                done += _evolve(console, root, [table for table in tables if table.name == name], version, progress)
        replays = _verify(console, tables, progress)
    found = Demonstration(tuple(done), replays)
    _summary(console, root, found)
    return found


def _evolve(
    console: Console, root: Path, tables: Sequence[DemoTable], version: int, progress: Progress
) -> Iterator[Outcome]:
    name = tables[0].name
    old, new = schema_file(root, name, version - 1), schema_file(root, name, version)
    _heading(console, f"{name}: version {version - 1} to {version}")
    _say(console, f"$ lakeevolve diff {old} {new}")
    _say(console, diff_text(le.diff(old, new)), 2)
    _say(console, f"$ lakeevolve check {schema_file(root, name, f'[1-{version}]')}")
    _say(console, _verdict(le.check(new, [schema_file(root, name, v) for v in range(1, version)], MODE)), 2)
    for told, outcome in each_format(functools.partial(_step, root, version, new, progress), tables):
        for line, indent in told:
            _say(console, line, indent)
        yield outcome


def _step(
    root: Path, version: int, new: Path, progress: Progress, table: DemoTable
) -> tuple[list[tuple[str, int]], Outcome]:
    """One table's way to one version, and what is to be told of it: texts with their indents."""
    saved = root / "plans" / f"{table.name}-{table.format}-v{version}.json"
    what = f"{table.name} to version {version}"
    progress(table.format, f"{what}: plan", 0, 1)
    plan = le.plan(table.uri, new, mode=MODE)
    plan.save(saved)
    applied = le.apply(saved, allow=plan.permits, progress=_phases(table.format, what, progress))
    told = [
        (f"$ lakeevolve plan {table.uri} {new} --out {saved}", 0),
        (_routes(plan), 2),
        (f"$ lakeevolve apply {saved}{_permits(plan)}", 0),
        (_applied(applied), 2),
    ]
    return told, Outcome(table, version, plan, saved, applied)


def _verify(console: Console, tables: Sequence[DemoTable], progress: Progress) -> dict[str, ReplayResult]:
    _heading(console, "All versions of all tables, once more from what the tables themselves say")
    found = {}
    for name in samples.TABLES:
        of_name = [table for table in tables if table.name == name]
        for table, replay in zip(of_name, each_format(functools.partial(_replay, progress), of_name), strict=True):
            _say(console, f"$ lakeevolve verify {table.uri}")
            _say(console, replay_text(replay, table.uri), 2)
            found[table.uri] = replay
    return found


def _replay(progress: Progress, table: DemoTable) -> ReplayResult:
    progress(table.format, f"{table.name}: verify", 0, 1)
    return le.verify(table.uri)


def _verdict(report: Report) -> str:
    """The verdict with the findings that somebody has to look at; the others are counted."""
    notes = sum(finding.severity == "info" for finding in report.findings)
    lines = [f"{report.mode}: {'compatible' if report.compatible else 'not compatible'}"]
    lines += findings_text(finding for finding in report.findings if finding.severity != "info")
    return "\n".join([*lines, f"and {counted(notes, 'info')}"] if notes else lines)


def _routes(plan: Plan) -> str:
    """The plan in a few lines: a route with its paths on each."""
    found: dict[str, dict[str, None]] = {}
    for step in plan.steps:
        found.setdefault(step.route, {}).update(dict.fromkeys(change.path or "$" for change in step.changes))
    lines = [f"plan {plan.digest[:12]}: {counted(len(plan.steps), 'step')}"]
    return "\n".join([*lines, *(f"{route:<9} {', '.join(at)}" for route, at in found.items())])


def _permits(plan: Plan) -> str:
    return "".join(f" --allow {permit}" for permit in sorted(plan.permits))


def _phases(format_: Format, what: str, progress: Progress) -> Callable[[str, int, int], None]:
    """The progress of an apply, whose phases say nothing of the table that they belong to."""
    return lambda phase, done, of: progress(format_, f"{what}: {phase}", done, of)


def _applied(applied: Application) -> str:
    text = f"version {applied.version}, {counted(applied.rewritten, 'file')} written anew"
    if applied.replay is None:
        return text
    return f"{text}; replay {_result(applied.replay)}, {counted(applied.replay.rows, 'row')}"


def _result(replay: ReplayResult) -> str:
    if not replay.ok:
        return "DIFFERS"
    return f"equal, {counted(len(replay.reader_faults), 'reader fault')}" if replay.reader_faults else "equal"


def _refused(console: Console, root: Path, table: DemoTable) -> None:
    """A change without a resolution is refused in every mode, NONE included."""
    target = schema_file(root, table.name, "5-refused")
    _heading(console, "A change that no mode allows")
    plan = le.plan(table.uri, target, mode="NONE")
    saved = plan.save(root / "plans" / f"{table.name}-{table.format}-v5-refused.json")
    _say(console, f"$ lakeevolve plan {table.uri} {target} --mode NONE --out {saved}")
    _say(console, plan_text(plan), 2)
    _expect_blocked(console, saved, plan)


def _forgotten(console: Console, root: Path, table: DemoTable) -> None:
    """A rename without an alias passes the mode and is caught all the same."""
    target = schema_file(root, table.name, "5-rename-without-alias")
    _heading(console, "A rename whose alias was forgotten")
    plan = le.plan(table.uri, target, mode=MODE)
    saved = plan.save(root / "plans" / f"{table.name}-{table.format}-v5-rename-without-alias.json")
    _say(console, f"$ lakeevolve plan {table.uri} {target} --out {saved}")
    _say(console, "\n".join(findings_text(plan.findings)), 2)
    _expect_blocked(console, saved, plan)


def _expect_blocked(console: Console, saved: Path, plan: Plan) -> None:
    _say(console, f"$ lakeevolve apply {saved}{_permits(plan)}")
    try:
        le.apply(saved, allow=plan.permits)
    except PlanBlocked as blocked:
        _say(console, "\n".join(blocked.lines()), 2)
    else:
        raise PlanError(
            "a plan that has to be blocked was applied",
            where=str(saved),
            hint="this is a defect of lakeevolve: report it",
        )


def _summary(console: Console, root: Path, found: Demonstration) -> None:
    from rich.table import Table as Grid

    grid = Grid(title="What was done", title_justify="left", title_style="bold")
    for column in ("table", "format", "version", "routes", "files", "rows", "replay"):
        grid.add_column(column, justify="right" if column in ("version", "files", "rows") else "left")
    for each in found.outcomes:
        routes = Counter(step.route for step in each.plan.steps)
        replay = each.applied.replay
        grid.add_row(
            each.table.name,
            each.table.format,
            str(each.version),
            ", ".join(f"{count} {route}" for route, count in sorted(routes.items())),
            "" if replay is None else f"{replay.files:,}",
            "" if replay is None else f"{replay.rows:,}",
            "" if replay is None else _result(replay),
        )
    console.print()
    console.print(grid)
    _say(console, f"plans: {root / 'plans'}")
    _say(console, f"evidence: {root / 'state'}/*/evidence")
    for uri in found.replays:
        state = shlex.quote(_from_here(root / "state"))
        _say(console, f"try: LAKEEVOLVE_STATE={state} {own_command()} history {shlex.quote(uri)}")


def own_command() -> str:
    """How this program is called again from here: its name where the shell finds it, else its path."""
    called = Path(sys.argv[0])
    if called.name != "lakeevolve" or not called.is_file():
        return f"{shlex.quote(_from_here(Path(sys.executable)))} -m lakeevolve"
    found = shutil.which("lakeevolve")
    if found is not None and Path(found).resolve() == called.resolve():
        return "lakeevolve"
    return shlex.quote(_from_here(called))


def _from_here(path: Path) -> str:
    """The path, relative to the working directory where it lies below it."""
    here = Path.cwd()
    whole = path if path.is_absolute() else here / path
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


def _find(tables: Sequence[DemoTable], name: str, format_: Format) -> DemoTable:
    return next(table for table in tables if (table.name, table.format) == (name, format_))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold", markup=False, highlight=False)


def _say(console: Console, text: str, indent: int = 0) -> None:
    for line in text.splitlines():
        style = "cyan" if line.startswith("$ ") else None
        console.print(" " * indent + line, style=style, markup=False, highlight=False, soft_wrap=True)


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}"


@contextmanager
def _bars() -> Iterator[Progress]:
    """One bar on stderr for each format; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True)
    texts = (TextColumn("{task.fields[format]:<8}"), TextColumn("{task.description:<40}"))
    columns: tuple[Any, ...] = (SpinnerColumn(), *texts, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bars:
        tasks = {format_: bars.add_task("start", total=1, format=format_) for format_ in FORMATS}
        yield lambda format_, what, done, of: bars.update(
            tasks[format_], description=what, completed=done, total=max(of, 1)
        )
