"""When a table's positions came about, as far as its metadata still tells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from typing import TypeAlias

from lakeevolve.tables.base import Table

#: A position (snapshot id, Delta version) and when it came about.
Moment: TypeAlias = tuple[int, datetime | None]


def moments_of(table: Table) -> Sequence[Moment]:
    """The positions that led to the present one, oldest first.

    Those that the format pruned (expired snapshots, a cleaned log) are not among them.
    """
    found: Sequence[Moment] = import_module(f"lakeevolve.tables.{table.format}.moments").moments(table)
    return found
