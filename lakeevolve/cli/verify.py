"""``lakeevolve verify TABLE``: does every row read what the resolutions say?"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, progress_bars, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("verify", help="Replay a table: compare every value with what Avro resolution says.")(verify)


def verify(
    table: Annotated[str, typer.Argument(help="iceberg:CATALOG/ns.table or delta:PATH")],
    full: Annotated[
        bool, typer.Option("--full", help="Repeat the proof of each rewrite while the state before it exists.")
    ] = False,
    reader: Annotated[
        list[str] | None, typer.Option("--reader", help="Ask a second reader too: duckdb, polars. Repeatable.")
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show the values of mismatches; on a terminal only.")
    ] = False,
    format: FormatOption = Format.text,
) -> int:
    from lakeevolve.applying.proofs import proofs_of
    from lakeevolve.errors import ReplayMismatch
    from lakeevolve.replay.verify import verify as replay
    from lakeevolve.report.json import replay_record
    from lakeevolve.report.text import replay_text
    from lakeevolve.tables import open_table

    if show_values and not (sys.stdout.isatty() and format is Format.text):
        raise typer.BadParameter("values are shown on a terminal only", param_hint="--show-values")
    live = open_table(table)
    with progress_bars() as progress:
        result = replay(
            live,
            full=full,
            readers=tuple(reader or ()),
            progress=lambda done, of: progress("verify", done, of),
            evidence=proofs_of(live) if full else (),
        )
    if format is Format.json:
        write_json(replay_record(result))
    else:
        write(replay_text(result, table, show_values=show_values))
    return 0 if result.ok else ReplayMismatch.exit_code
