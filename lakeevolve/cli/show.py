"""``lakeevolve show PLAN``: a saved plan, also a stale one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, note, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("show", help="Show a saved plan.")(show)


def show(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve.errors import TableError
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.report.json import plan_record
    from lakeevolve.report.text import plan_text

    saved = load_plan(plan)
    if format is Format.json:
        write_json(plan_record(saved))
    else:
        write(plan_text(saved))
    try:
        reason = saved.stale()
    except TableError as error:
        note(f"warning: whether the plan is stale cannot be told: {error.what}")
    else:
        if reason is not None:
            note(f"warning: the plan is stale: {reason}")
    return 0
