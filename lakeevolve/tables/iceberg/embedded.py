"""The catalog in a file. Loading this module loads SQLAlchemy."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import event
from sqlalchemy.engine import Engine, ExceptionContext


class Embedded(SqlCatalog):
    """A catalog in a file. A metadata file never changes once a catalog names it, so the last one is not read again:
    of a table with thousands of columns that takes longer than all else."""

    _last: IcebergTable | None = None

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        show_only_what_landed(self.engine)

    def _convert_orm_to_iceberg(self, orm_table: Any) -> IcebergTable:
        last = self._last
        if last is None or orm_table.metadata_location != last.metadata_location:
            last = self._last = super()._convert_orm_to_iceberg(orm_table)
        # A table of its own: others change theirs in place.
        return IcebergTable(last.name(), last.metadata, last.metadata_location, last.io, self)


def show_only_what_landed(engine: Engine) -> None:
    """Have a connection given up on which anything failed.

    SQLite leaves a transaction open whose commit failed since somebody else was reading, and a connection that goes
    back to the pool with it goes on to show a table as if the commit had landed.
    """
    if engine.url.database not in (None, "", ":memory:"):
        event.listen(engine, "handle_error", _give_up)


def _give_up(context: ExceptionContext) -> None:
    context.is_disconnect = True
