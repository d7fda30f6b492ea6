"""When the folders of a table came about."""

from __future__ import annotations

from datetime import datetime

from lakeevolve.tables.parquet.table import Table


def moments(table: Table) -> list[tuple[int, datetime | None]]:
    """The versions that lakeevolve made, each as it was written."""
    return [(table._began(version)[1], version.at) for version in table.history()]
