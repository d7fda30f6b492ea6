"""``lakeevolve rollback TABLE --to N`` and ``lakeevolve revert PLAN``: two ways back."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import note
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    FindingsFormat,
    FindingsOutput,
    PlanArgument,
    TableArgument,
    TableOption,
    open_with,
)
from lakeevolve.cli.signals import stoppable


def rollback(
    table: TableArgument,
    to: Annotated[
        str,
        typer.Option("--to", help="The version to go back to, as lakeevolve history lists it.", metavar="VERSION"),
    ],
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            help="lose-rows: rows that were written since may go, and deleted ones come back.",
            metavar="lose-rows",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")] = False,
    approvals: Annotated[
        str | None,
        typer.Option(
            "--approvals",
            help="Go back only if an approval in this folder covers it: of the digest that --dry-run shows.",
            metavar="FOLDER",
        ),
    ] = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Put a table's rows and schema back to what they were when a version was last in force."""
    from lakeevolve.applying.rollback import rollback as go_back
    from lakeevolve.config.approvals import load_approvals
    from lakeevolve.errors import ReplayMismatch
    from lakeevolve.report.undo import of_rollback

    if not to.isdecimal():
        raise typer.BadParameter(f"{to!r} is no version number", param_hint="--to")
    words = None if approvals is None else load_approvals(approvals)
    live = open_with(table, option)
    with stoppable():
        done = go_back(live, int(to), frozenset(allow or ()), dry_run=dry_run, approvals=words)
    emit(of_rollback(done, live.uri, int(to)), format, output)
    return 0 if done.ok else ReplayMismatch.exit_code


def revert(
    plan: PlanArgument,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Save the plan here, for apply.", metavar="FILE")
    ] = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Plan how to undo an applied plan, with every row that was written since. Touches nothing."""
    from lakeevolve.cli.exits import failing
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.planning.rebase import revert as undo
    from lakeevolve.report.outcome import of_plan

    saved = load_plan(plan)
    made = undo(saved, open_with(saved.table["uri"], option))
    if out is not None:
        made.save(out)
    emit(of_plan(made, made.target), format, output)
    if out is not None:
        note(f"saved to {out}")
    return 1 if made.refused or failing(made.findings, made.fail_on) else 0
