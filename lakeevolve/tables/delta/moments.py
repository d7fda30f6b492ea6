"""When the versions of a Delta table came about."""

from __future__ import annotations

from datetime import datetime

from lakeevolve.tables.delta.table import Table


def moments(table: Table) -> list[tuple[int, datetime | None]]:
    """The commits that the log still holds, oldest first."""
    return [(commit.version, commit.at) for commit in table._snapshot.commits]
