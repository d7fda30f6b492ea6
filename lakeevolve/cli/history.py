"""``lakeevolve history TABLE``: every version that a table has had."""

from __future__ import annotations

from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import PlainFormat, PlainOutput, TableArgument, TableOption, open_with


def history(
    table: TableArgument, option: TableOption = None, format: PlainFormat = "text", output: PlainOutput = None
) -> int:
    """List the versions of a table, with what others changed."""
    from lakeevolve.report.outcome import of_history

    live = open_with(table, option)
    emit(of_history(live.history(), live.uri), format, output)
    return 0
