"""``lakeevolve diff OLD NEW``: what changed, as facts."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, RenameOption, pairs, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("diff", help="Show what changed between two schemas.")(diff)


def diff(
    old: Annotated[str, typer.Argument(help="A schema: file, git:REF:path, table URI, ...")],
    new: Annotated[str, typer.Argument(help="The schema to compare it with.")],
    rename: RenameOption = None,
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve import sources
    from lakeevolve.model.diff import diff as compare
    from lakeevolve.report.json import diff_record
    from lakeevolve.report.text import diff_text

    found = compare(sources.load(old, lenient=True), sources.load(new), renames=pairs(rename, "--rename"))
    if format is Format.json:
        write_json(diff_record(found))
    else:
        write(diff_text(found))
    return 0
