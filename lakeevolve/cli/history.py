"""``lakeevolve history TABLE``: every version that a table has had."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("history", help="List the versions of a table, with what others changed.")(history)


def history(
    table: Annotated[str, typer.Argument(help="iceberg:CATALOG/ns.table or delta:PATH")],
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve.report.json import history_record
    from lakeevolve.report.text import history_text
    from lakeevolve.tables import open_table

    versions = open_table(table).history()
    if format is Format.json:
        write_json(history_record(versions))
    else:
        write(history_text(versions, table))
    return 0
