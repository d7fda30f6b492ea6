"""Who wrote to a table last."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from lakeevolve.tables.base import Write
from lakeevolve.tables.iceberg.history import main_line
from lakeevolve.tables.iceberg.snapshot import REWRITE

#: Where engines leave their names in a snapshot's summary.
_NAMES: Final = ("engine-name", "spark.app.name", "flink.job-id", "trino_query_id")


def writes(metadata: TableMetadata, limit: int) -> tuple[Write, ...]:
    """The last snapshots that others made, the newest first."""
    found: list[Write] = []
    for snapshot in reversed(main_line(metadata)):
        if len(found) < limit and (write := _write(snapshot)) is not None:
            found.append(write)
    return tuple(found)


def _write(snapshot: Snapshot) -> Write | None:
    summary = snapshot.summary
    said = {} if summary is None else summary.additional_properties
    if REWRITE in said:
        return None
    by = next((str(said[key]) for key in _NAMES if key in said), "an engine that does not say its name")
    operation = "unknown" if summary is None else str(summary.operation.value)
    return Write(datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC), operation, by)
