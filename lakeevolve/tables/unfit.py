"""Rows that a rewrite cannot write."""

from __future__ import annotations

from lakeevolve.errors import PlanBlocked, TableError
from lakeevolve.tables.base import DataFile


def unfit(file: DataFile, error: TableError, row: int) -> PlanBlocked:
    """The error for a row, by its number in a file that was to be written anew, which the new file cannot hold."""
    return PlanBlocked(
        f"the data does not allow the plan: {error.what}",
        where=f"{file.path}, row {row}, {error.where or '$'}",
        hint="mend the row, or keep the type; the table is as it was",
    )
