"""Running the demo: diff, check, plan, apply and verify for every table, format and version, told on a console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeevolve import _api as le
from lakeevolve.demo import samples
from lakeevolve.demo.build import FORMATS, DemoTable, Progress, build, schema_file, state_in
from lakeevolve.errors import PlanBlocked, PlanError
from lakeevolve.report.text import counted, diff_text, findings_text, plan_text, replay_text

if TYPE_CHECKING:
    from rich.console import Console

    from lakeevolve.applying.apply import Application
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replay.result import ReplayResult

MODE = "BACKWARD"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one table's step to one version came to."""

    table: DemoTable
    version: int
    plan: Plan
    saved: Path
    applied: Application
    replay: ReplayResult

    @property
    def ok(self) -> bool:
        return self.applied.ok and self.replay.ok


def run(directory: str | Path, console: Console) -> tuple[Outcome, ...]:
    """Build the sample tables and evolve each through versions 4, 5 and 6, verifying after every step.

    Parameters
    ----------
    directory:
        Where tables, plans and evidence go; see :func:`lakeevolve.demo.build.build`.
    console:
        Where results are told; progress goes to stderr.

    Returns
    -------
    tuple[Outcome, ...]
        One per version, table and format, in that order.

    Raises
    ------
    ConfigError
        The folder holds something else, or cannot be written.
    ReplayMismatch
        A proof failed; that table was not changed.
    """
    root = Path(directory)
    found: list[Outcome] = []
    with _bars() as progress, state_in(root):
        tables = build(root, progress)
        _heading(console, f"Two tables in two formats, with rows of versions {_listed(samples.WRITTEN)}")
        for table in tables:
            _say(console, f"  {table.uri}: {counted(table.rows, 'row')}")
        for version in samples.EVOLVED:
            if version == samples.EVOLVED[1]:
                _refused(console, root, tables)
                _forgotten(console, root, tables)
            for name in samples.TABLES:
                of_name = [table for table in tables if table.name == name]
                found += _evolve(console, root, of_name, version, progress)
    _summary(console, root, found)
    return tuple(found)


def _evolve(
    console: Console, root: Path, tables: Sequence[DemoTable], version: int, progress: Progress
) -> Iterator[Outcome]:
    name = tables[0].name
    old, new = schema_file(root, name, version - 1), schema_file(root, name, version)
    _heading(console, f"{name}: version {version - 1} to {version}")
    _say(console, f"$ lakeevolve diff {old} {new}")
    _say(console, diff_text(le.diff(old, new)), 2)
    report = le.check(new, [schema_file(root, name, earlier) for earlier in range(1, version)], MODE)
    verdict = "compatible" if report.compatible else "not compatible"
    _say(console, f"$ lakeevolve check ... {new}")
    _say(console, "\n".join([f"{MODE}: {verdict}", *findings_text(report.findings)]), 2)
    for table in tables:
        saved = root / "plans" / f"{name}-{table.format}-v{version}.json"
        what = f"{name} in {table.format} to version {version}"
        progress(f"{what}: plan", 0, 1)
        plan = le.plan(table.uri, new, mode=MODE)
        plan.save(saved)
        permits = "".join(f" --allow {permit}" for permit in sorted(plan.permits))
        _say(console, f"$ lakeevolve plan {table.uri} {new} --out {saved}")
        _say(console, _routes(plan), 2)
        _say(console, f"$ lakeevolve apply {saved}{permits}")
        applied = le.apply(saved, allow=plan.permits, progress=_phases(what, progress))
        _say(console, f"version {applied.version}, {counted(applied.rewritten, 'file')} written anew", 2)
        _say(console, f"$ lakeevolve verify {table.uri}")
        progress(f"{what}: verify", 0, 1)
        replay = le.verify(table.uri)
        _say(console, replay_text(replay, table.uri), 2)
        yield Outcome(table, version, plan, saved, applied, replay)


def _phases(what: str, progress: Progress) -> Progress:
    """The progress of an apply, whose phases say nothing of the table that they belong to."""
    return lambda phase, done, of: progress(f"{what}: {phase}", done, of)


def _routes(plan: Plan) -> str:
    """The plan in a few lines: a route with its changes on each."""
    paths: dict[str, list[str]] = {}
    for step in plan.steps:
        paths.setdefault(step.route, []).extend(change.path for change in step.changes)
    lines = [f"plan {plan.digest[:12]}: {counted(len(plan.steps), 'step')}"]
    lines += [f"{route:<9} {', '.join(dict.fromkeys(found))}" for route, found in paths.items()]
    return "\n".join(lines)


def _refused(console: Console, root: Path, tables: Sequence[DemoTable]) -> None:
    """A change without a resolution is refused in every mode, NONE included."""
    table, target = tables[-len(FORMATS) - 1], schema_file(root, "orders", "5-refused")
    _heading(console, "A change that no mode allows")
    plan = le.plan(table.uri, target, mode="NONE")
    saved = plan.save(root / "plans" / f"orders-{table.format}-v5-refused.json")
    _say(console, f"$ lakeevolve plan {table.uri} {target} --mode NONE --out {saved}")
    _say(console, plan_text(plan), 2)
    _expect_blocked(console, saved, plan)


def _forgotten(console: Console, root: Path, tables: Sequence[DemoTable]) -> None:
    """A rename without an alias passes the mode and is caught all the same."""
    table, target = tables[0], schema_file(root, "orders", "5-rename-without-alias")
    _heading(console, "A rename whose alias was forgotten")
    plan = le.plan(table.uri, target, mode=MODE)
    saved = plan.save(root / "plans" / f"orders-{table.format}-v5-rename-without-alias.json")
    _say(console, f"$ lakeevolve plan {table.uri} {target} --out {saved}")
    _say(console, "\n".join(findings_text(plan.findings)), 2)
    _expect_blocked(console, saved, plan)


def _expect_blocked(console: Console, saved: Path, plan: Plan) -> None:
    permits = "".join(f" --allow {permit}" for permit in sorted(plan.permits))
    _say(console, f"$ lakeevolve apply {saved}{permits}")
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


def _summary(console: Console, root: Path, outcomes: Sequence[Outcome]) -> None:
    from rich.table import Table as Grid

    grid = Grid(title="What was done", title_justify="left", title_style="bold")
    for column in ("table", "format", "version", "routes", "files", "rows", "replay"):
        grid.add_column(column, justify="right" if column in ("version", "files", "rows") else "left")
    for each in outcomes:
        routes = Counter(step.route for step in each.plan.steps)
        verdict = "equal" if each.ok else "DIFFERS"
        if each.ok and each.replay.reader_faults:
            verdict += f", {counted(len(each.replay.reader_faults), 'reader fault')}"
        grid.add_row(
            each.table.name,
            each.table.format,
            str(each.version),
            ", ".join(f"{count} {route}" for route, count in sorted(routes.items())),
            f"{each.replay.files:,}",
            f"{each.replay.rows:,}",
            verdict,
        )
    console.print()
    console.print(grid)
    _say(console, f"plans: {root / 'plans'}")
    _say(console, f"evidence: {root / 'state'}/*/evidence")
    for table in {each.table.uri: each.table for each in outcomes}.values():
        _say(console, f"try: lakeevolve history {table.uri}")


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
    """One bar on stderr for what is being done; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True)
    columns: tuple[Any, ...] = (SpinnerColumn(), TextColumn("{task.description:<56}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bars:
        task = bars.add_task("start", total=1)
        yield lambda what, done, of: bars.update(task, description=what, completed=done, total=of)
