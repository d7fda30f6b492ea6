"""``lakeevolve adopt [TABLE...] --against SUBJECT|FOLDER``: tables that were never managed."""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeevolve.cli.console import note, progress_bars
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import ChangesFormat, ChangesOutput, TableOption, open_with, options_for
from lakeevolve.cli.project import ConfigOption

if TYPE_CHECKING:
    from lakeevolve.config.project import Project

PROPOSAL = "adoption.yaml"


def adopt(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables, or patterns of them: delta:PATH with *, iceberg:CATALOG/ns.table with *. None: those of "
            "the project.",
            metavar="[TABLE...]",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            help="What the tables may be: a subject of the project, a folder of schemas, or another source. "
            "Repeatable; without it, every subject of the project.",
            metavar="SUBJECT|FOLDER",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Where the proposal goes; adoption.yaml by default.", metavar="FILE"),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Write the markers of the tables that are a version exactly, and no proposal. No row changes.",
        ),
    ] = False,
    until: Annotated[
        str | None,
        typer.Option("--until", help="The last day of the baseline; 90 days from now by default.", metavar="DAY"),
    ] = None,
    approver: Annotated[
        str | None,
        typer.Option("--approver", help="Who lets the baseline pass; by default, whom git knows.", metavar="NAME"),
    ] = None,
    config: ConfigOption = None,
    option: TableOption = None,
    format: ChangesFormat = "text",
    output: ChangesOutput = None,
) -> int:
    """Find out what tables are that were never managed, and propose what lakeevolve.yaml is to say of them."""
    from lakeevolve.applying.adoption import record
    from lakeevolve.config.state import using
    from lakeevolve.planning.adoption import adoption
    from lakeevolve.report.adoption import code_of, of_adoption
    from lakeevolve.tables.listing import list_tables

    last = _day(until)
    project = _project(config)
    if project is None and not against:
        raise typer.BadParameter("name what the tables are held against", param_hint="--against")
    target = None if apply else Path(out or PROPOSAL)
    if apply and out is not None:
        raise typer.BadParameter("--apply writes markers, and no proposal", param_hint="--out")
    if target is not None and target.exists():
        raise typer.BadParameter(f"{target} is there already; name another file, or take it away", param_hint="--out")
    with using(project), progress_bars() as progress:
        found = adoption(
            tables or (),
            against or (),
            project=project,
            until=last,
            approver=approver or _whom(),
            notes=None if target is None else target.with_name(f"{target.name}.part"),
            open_=lambda uri: open_with(uri, option),
            list_=lambda pattern: list_tables(pattern, **options_for(pattern, option)),
            progress=partial(progress, "look"),
        )
        if apply:
            found = record(found, open_=lambda uri: open_with(uri, option), progress=partial(progress, "record"))
    if target is not None:
        found.save(target)
    emit(of_adoption(found), format, output)
    if target is not None:
        note(f"saved to {target}; review it, then: lakeevolve adopt --config {target} --apply")
    return code_of(found)


def _project(config: str | None) -> Project | None:
    from lakeevolve.config.find import find
    from lakeevolve.config.load import load_project

    return None if config is None and find() is None else load_project(config)


def _day(until: str | None) -> date | None:
    if until is None:
        return None
    try:
        found = date.fromisoformat(until)
    except ValueError:
        raise typer.BadParameter(f"{until!r} is no day such as 2027-01-31", param_hint="--until") from None
    if found < date.today():
        raise typer.BadParameter(f"{until} is over", param_hint="--until")
    return found


def _whom() -> str:
    import subprocess

    try:
        said = subprocess.run(["git", "config", "user.email"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
