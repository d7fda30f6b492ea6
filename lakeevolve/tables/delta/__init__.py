"""Delta tables, through delta-rs and pyarrow.

delta-rs opens tables and commits to them; data files are read and written with pyarrow alone. Everything that changes
what readers see lands in one commit, which carries the marker.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeevolve.errors import ConfigError
from lakeevolve.tables.delta import quiet
from lakeevolve.tables.delta.create import append, create_table
from lakeevolve.tables.delta.store import parse_address
from lakeevolve.tables.delta.table import Table

quiet.load_quietly()

__all__ = ["Table", "append", "create_table", "open", "open_table"]


def open_table(path: str, *, storage_options: Mapping[str, str] | None = None, **options: str) -> Table:
    """Open a Delta table.

    Parameters
    ----------
    path:
        ``PATH[@vN]`` with or without ``delta:`` before it; the path of a folder, or the URL of an object store.
    storage_options:
        What delta-rs needs to reach an object store, credentials among them. Kept in the handle alone.

    Raises
    ------
    TableNotFound, UnsupportedTable
        There is no table, or it uses a feature under which it cannot be opened.

    Examples
    --------
    >>> open_table("delta:lake/orders").schema  # doctest: +SKIP
    """
    if options:
        raise ConfigError(
            f"a Delta table takes no option {next(iter(options))}", where=path, hint="pass storage_options={...}"
        )
    return Table(parse_address(path, storage_options))


open = open_table  # noqa: A001
