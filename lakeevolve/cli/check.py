"""``lakeevolve check OLD... NEW``: may it change?"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import (
    FailOnOption,
    Format,
    FormatOption,
    ModeOption,
    NotRenameOption,
    RenameOption,
    pairs,
    write,
    write_json,
)


def add_to(app: typer.Typer) -> None:
    app.command(
        "check",
        help="Judge a candidate schema against the versions before it (oldest first, the last is the candidate).",
    )(check)


def check(
    schemas: Annotated[list[str], typer.Argument(help="OLD... NEW, oldest first; the last is the candidate.")],
    mode: ModeOption = "BACKWARD",
    rename: RenameOption = None,
    not_rename: NotRenameOption = None,
    fail_on: FailOnOption = None,
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve import sources
    from lakeevolve.cli.exits import failing
    from lakeevolve.report.json import report_record
    from lakeevolve.report.text import report_text
    from lakeevolve.rules.modes import check as judge

    *history, candidate = schemas
    report = judge(
        sources.load(candidate),
        [sources.load(version, lenient=True) for version in history],
        mode,
        renames=pairs(rename, "--rename"),
        not_renames=pairs(not_rename, "--not-rename"),
    )
    if format is Format.json:
        write_json(report_record(report))
    else:
        write(report_text(report))
    return 1 if failing(report.findings, fail_on or report.fail_on) else 0
