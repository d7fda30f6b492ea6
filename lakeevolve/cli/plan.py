"""``lakeevolve plan TABLE TARGET``: what apply would do, exactly; nothing is touched."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import note
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    FailOnOption,
    FindingsFormat,
    FindingsOutput,
    ModeOption,
    NotRenameOption,
    RenameOption,
    TableArgument,
    TableOption,
    old_rows_of,
    open_with,
    pairs,
    routes_of,
)

CLEAN_WITH_CHANGES = 3


def plan(
    table: TableArgument,
    target: Annotated[str, typer.Argument(help="The schema that the table is to have.", metavar="TARGET")],
    mode: ModeOption = "BACKWARD",
    old_rows: Annotated[
        list[str] | None,
        typer.Option(
            "--old-rows",
            help="What old rows read in added fields: default, null or PATH=null. Repeatable.",
            metavar="default|null|PATH=null",
        ),
    ] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(
            "--route",
            help="A route to insist on: PATH=ROUTE. A change that would take another one is refused. Repeatable.",
            metavar="PATH=ROUTE",
        ),
    ] = None,
    rename: RenameOption = None,
    not_rename: NotRenameOption = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Save the plan here, for apply.", metavar="FILE")
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 3 when the plan is clean and holds changes.")
    ] = False,
    fail_on: FailOnOption = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Plan how a table gets to a target schema. Touches nothing."""
    from lakeevolve import sources
    from lakeevolve.cli.exits import failing
    from lakeevolve.planning.make import plan as make
    from lakeevolve.report.outcome import of_plan

    renames = pairs(rename, "--rename")
    wanted_rows, wanted_routes = old_rows_of(old_rows), routes_of(route)
    not_renames = pairs(not_rename, "--not-rename")
    wanted = sources.load(target)
    made = make(
        open_with(table, option),
        wanted,
        mode,
        wanted_rows,
        routes=wanted_routes,
        renames=renames,
        not_renames=not_renames,
    )
    for was, now in renames:
        if now not in made.renames:
            note(f"note: --rename {was}={now} renames nothing: the table has {now} already")
    if out is not None:
        made.save(out)
    emit(of_plan(made, wanted), format, output)
    if out is not None:
        note(f"saved to {out}")
    if made.refused or failing(made.findings, fail_on or made.fail_on):
        return 1
    return CLEAN_WITH_CHANGES if detailed_exitcode and not made.empty else 0
