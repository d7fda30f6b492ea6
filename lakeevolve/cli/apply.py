"""``lakeevolve apply PLAN``: run exactly the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, progress_bars, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("apply", help="Run a saved plan: proof, one commit, replay.")(apply)


def apply(
    plan: Annotated[Path, typer.Argument(help="A plan file.")],
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="Permit: rewrite, backfill, drop, protocol-upgrade. Repeatable.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an apply that stopped part-way.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, write nothing.")] = False,
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve.applying.apply import apply as run
    from lakeevolve.errors import ReplayMismatch
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.report.json import application_record
    from lakeevolve.report.text import application_text

    saved = load_plan(plan)
    with progress_bars() as progress:
        done = run(saved, frozenset(allow or ()), resume=resume, dry_run=dry_run, progress=progress)
    if format is Format.json:
        write_json(application_record(done))
    else:
        write(application_text(done, saved))
    return 0 if done.ok else ReplayMismatch.exit_code
