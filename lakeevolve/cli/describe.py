"""``lakeevolve describe TABLE``: what a table is, as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("describe", help="Say what a table is: identity, schema, versions, features, counts.")(describe)


def describe(
    table: Annotated[str, typer.Argument(help="iceberg:CATALOG/ns.table or delta:PATH")],
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve.report.text import description_text
    from lakeevolve.tables import open_table

    found = open_table(table).describe()
    if format is Format.json:
        write_json(found)
    else:
        write(description_text(found))
    return 0
