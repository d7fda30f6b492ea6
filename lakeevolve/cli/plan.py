"""``lakeevolve plan TABLE TARGET``: what apply would do, exactly; nothing is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeevolve.cli.console import (
    FailOnOption,
    Format,
    FormatOption,
    ModeOption,
    NotRenameOption,
    RenameOption,
    note,
    old_rows_of,
    pairs,
    write,
    write_json,
)

CLEAN_WITH_CHANGES = 3


def add_to(app: typer.Typer) -> None:
    app.command("plan", help="Plan how a table gets to a target schema. Touches nothing.")(plan)


def plan(
    table: Annotated[str, typer.Argument(help="iceberg:CATALOG/ns.table or delta:PATH")],
    target: Annotated[str, typer.Argument(help="The schema that the table is to have.")],
    mode: ModeOption = "BACKWARD",
    old_rows: Annotated[
        list[str] | None,
        typer.Option("--old-rows", help="What old rows read in added fields: default, null or PATH=null. Repeatable."),
    ] = None,
    rename: RenameOption = None,
    not_rename: NotRenameOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the plan here, for apply.")] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 3 when the plan is clean and holds changes.")
    ] = False,
    fail_on: FailOnOption = None,
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve.cli.exits import failing
    from lakeevolve.planning.make import plan as make
    from lakeevolve.report.json import plan_record
    from lakeevolve.report.text import plan_text

    made = make(
        table,
        target,
        mode,
        old_rows_of(old_rows),
        renames=pairs(rename, "--rename"),
        not_renames=pairs(not_rename, "--not-rename"),
    )
    if out is not None:
        made.save(out)
    if format is Format.json:
        write_json(plan_record(made))
    else:
        write(plan_text(made))
    if out is not None:
        note(f"saved to {out}")
    if made.refused or failing(made.findings, fail_on or made.fail_on):
        return 1
    return CLEAN_WITH_CHANGES if detailed_exitcode and not made.empty else 0
