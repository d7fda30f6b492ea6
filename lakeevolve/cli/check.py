"""``lakeevolve check OLD... NEW``: may it change?"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    FailOnOption,
    FindingsFormat,
    FindingsOutput,
    ModeOption,
    NotRenameOption,
    RenameOption,
    pairs,
)


def check(
    schemas: Annotated[
        list[str], typer.Argument(help="OLD... NEW, oldest first; the last is the candidate.", metavar="OLD... NEW")
    ],
    mode: ModeOption = "BACKWARD",
    rename: RenameOption = None,
    not_rename: NotRenameOption = None,
    fail_on: FailOnOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Judge a candidate schema against the versions before it (oldest first, the last is the candidate)."""
    from lakeevolve import sources
    from lakeevolve.cli.exits import failing
    from lakeevolve.model.declared import check_renames
    from lakeevolve.report.outcome import of_check
    from lakeevolve.rules.modes import check as judge

    *history, candidate = schemas
    renames, not_renames = pairs(rename, "--rename"), pairs(not_rename, "--not-rename")
    versions = [sources.load(version, lenient=True) for version in history]
    wanted = sources.load(candidate)
    check_renames(renames, wanted, versions, strict=True)
    check_renames(not_renames, wanted, versions, what="what is said to be no rename", strict=True)
    report = judge(wanted, versions, mode, renames=renames, not_renames=not_renames)
    emit(of_check(report, wanted), format, output)
    return 1 if failing(report.findings, fail_on or report.fail_on) else 0
