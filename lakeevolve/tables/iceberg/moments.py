"""When the snapshots of an Iceberg table came about."""

from __future__ import annotations

from datetime import UTC, datetime

from lakeevolve.tables.iceberg.history import main_line
from lakeevolve.tables.iceberg.table import IcebergHandle


def moments(table: IcebergHandle) -> list[tuple[int, datetime | None]]:
    """The snapshots that led to the current one, oldest first."""
    return [
        (each.snapshot_id, datetime.fromtimestamp(each.timestamp_ms / 1000, UTC))
        for each in main_line(table.iceberg.metadata)
    ]
