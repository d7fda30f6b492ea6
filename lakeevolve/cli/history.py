"""``lakeevolve history TABLE``: every version that a table has had."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import ChangesFormat, ChangesOutput, TableArgument, TableOption
from lakeevolve.cli.project import ConfigOption, in_project, opened


def history(
    table: TableArgument,
    column: Annotated[
        str | None,
        typer.Option(
            "--column", help="Follow one column through all versions, whatever it was called.", metavar="PATH"
        ),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make ledger entries again that are missing, from the table's marker.")
    ] = False,
    config: ConfigOption = None,
    option: TableOption = None,
    format: ChangesFormat = "text",
    output: ChangesOutput = None,
) -> int:
    """List the versions of a table: changes, plan, approver, verdicts and replay of each, and what others changed."""
    from lakeevolve.applying.past import follow, past_of
    from lakeevolve.applying.past import rebuild as make_again
    from lakeevolve.cli.exits import failing
    from lakeevolve.report.past import of_column, of_past

    with in_project(config):
        live = opened(table, option)
        made = make_again(live) if rebuild else ()
        past = past_of(live)
        if column is not None:
            emit(of_column(follow(past, column)), format, output)
        else:
            emit(of_past(past, made), format, output)
    return 1 if failing(past.findings, "error") else 0
