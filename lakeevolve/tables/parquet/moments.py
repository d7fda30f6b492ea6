"""When the folders of a table came about."""

from __future__ import annotations

from datetime import datetime

from lakeevolve.tables.parquet.table import Table


def moments(table: Table) -> list[tuple[int, datetime | None]]:
    """The versions that lakeevolve made, each as it was written."""
    return [
        (position, version.at) for version in table.history() for position in [table.around(version)[1]] if position
    ]
