"""``lakeevolve describe TABLE``: what a table is."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import note
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import ChangesFormat, ChangesOutput, TableArgument, TableOption, open_with


def describe(
    table: TableArgument,
    save: Annotated[
        str | None,
        typer.Option("--save", help="Save the description here; it serves as a source of the schema.", metavar="FILE"),
    ] = None,
    option: TableOption = None,
    format: ChangesFormat = "text",
    output: ChangesOutput = None,
) -> int:
    """Say what a table is: identity, schema, versions, features, counts."""
    from lakeevolve.report.outcome import of_description
    from lakeevolve.tables.description import describe as make

    found = make(open_with(table, option))
    if save is not None:
        found.save(save)
    emit(of_description(found.to_json()), format, output)
    if save is not None:
        note(f"saved to {save}")
    return 0
