"""``lakeevolve lineage TABLE``: where a table's rows come from."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import note
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import PlainFormat, PlainOutput, TableArgument, TableOption, open_with
from lakeevolve.cli.project import ConfigOption, in_project


def lineage(
    table: TableArgument,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="The files that were live at this moment (ISO 8601, UTC by default).", metavar="TIME"
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            help="The column that holds of each row its registry_id, topic, partition or offset: topic=_topic. "
            "Repeatable. What no column is named for is unknown.",
            metavar="NAME=COLUMN",
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", help="Write the origin of every row into this new Parquet file, too.", metavar="FILE"),
    ] = None,
    config: ConfigOption = None,
    option: TableOption = None,
    format: PlainFormat = "text",
    output: PlainOutput = None,
) -> int:
    """Tell of each file which commit added it, and of its version the plan, approver, evidence and contracts."""
    from lakeevolve.applying.lineage import lineage_of
    from lakeevolve.report.origins import of_lineage

    columns = {}
    for text in column or ():
        name, equals, wanted = (each.strip() for each in text.partition("="))
        if not (name and equals and wanted):
            raise typer.BadParameter(f"{text!r} is not NAME=COLUMN", param_hint="--column")
        columns[name] = wanted
    with in_project(config):
        found = lineage_of(open_with(table, option), at, columns)
        count = None if rows is None else found.save_rows(rows)
        emit(of_lineage(found), format, output)
    if count is not None:
        note(f"{count:,} rows written to {rows}")
    return 0
