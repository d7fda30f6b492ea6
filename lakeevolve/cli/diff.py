"""``lakeevolve diff OLD NEW``: what changed, as facts."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import note
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import ChangesFormat, ChangesOutput, RenameOption, pairs


def diff(
    old: Annotated[str, typer.Argument(help="A schema: file, git:REF:path, table URI, ...", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="The schema to compare it with.", metavar="NEW")],
    rename: RenameOption = None,
    format: ChangesFormat = "text",
    output: ChangesOutput = None,
) -> int:
    """Show what changed between two schemas."""
    from lakeevolve import sources
    from lakeevolve.model.declared import check_renames
    from lakeevolve.model.diff import diff as compare
    from lakeevolve.report.outcome import of_diff

    renames = pairs(rename, "--rename")
    before, after = sources.load(old, lenient=True), sources.load(new)
    for warning in dict.fromkeys(before.warnings):
        note(f"warning: the old schema is broken: {warning}")
    check_renames(renames, after, [before], strict=True)
    found = compare(before, after, renames=renames)
    for was, now in found.unused:
        note(f"note: --rename {was}={now} renames nothing: the old schema has {now} already")
    emit(of_diff(found), format, output)
    return 0
