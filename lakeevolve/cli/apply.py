"""``lakeevolve apply PLAN``: run exactly the plan."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import progress_bars
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import FindingsFormat, FindingsOutput, PlanArgument, TableOption, open_with
from lakeevolve.cli.signals import stoppable

PERMITS = ("rewrite", "backfill", "drop", "protocol-upgrade")


def _permits(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        if value not in PERMITS:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(PERMITS)}", param_hint="--allow")
    return values


def apply(
    plan: PlanArgument,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            help="Permit a kind of step: " + ", ".join(PERMITS) + ". Repeatable.",
            metavar="|".join(PERMITS),
            callback=_permits,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an apply that stopped part-way.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, write nothing.")] = False,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Run a saved plan: proof, one commit, replay."""
    from lakeevolve.applying.apply import apply as run
    from lakeevolve.errors import ReplayMismatch
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.report.outcome import of_application

    saved = load_plan(plan)
    live = open_with(saved.table["uri"], option)
    with stoppable(), progress_bars() as progress:
        done = run(saved, frozenset(allow or ()), table=live, resume=resume, dry_run=dry_run, progress=progress)
    emit(of_application(done, saved), format, output)
    return 0 if done.ok else ReplayMismatch.exit_code
