"""Folders of Parquet files, and Arrow data in memory, as tables.

They have no log and no catalog, so nothing about them is changed in place: an evolution writes a new folder, which
appears whole by one rename, or makes a new object; what it came from stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeevolve.errors import ConfigError, UnsupportedTable
from lakeevolve.redaction import public_uri
from lakeevolve.tables.parquet.folder import Folder
from lakeevolve.tables.parquet.memory import Memory
from lakeevolve.tables.parquet.table import Table

__all__ = ["Table", "open_table"]


def open_table(source: Any, /, *, into: str | Path | None = None) -> Table:
    """Open a folder of Parquet files, or Arrow data in memory.

    Parameters
    ----------
    source:
        ``parquet:DIR`` on a disk; or a ``pyarrow.Table`` or a ``pyarrow.dataset.Dataset``.
    into:
        The new folder that an evolution of a folder writes: by default the old one's name with ``.v`` and the number
        of the new version. An object in memory becomes a ``pyarrow.Table``, which is then the table's ``arrow``.

    Raises
    ------
    TableNotFound
        There is no such folder, or no Parquet file in it.
    UnsupportedTable
        Files have schemas that do not go together, or the folder is partitioned by its path or lies in a store.

    Examples
    --------
    >>> open_table("parquet:data/orders").schema  # doctest: +SKIP
    """
    if not isinstance(source, str):
        if into is not None:
            raise ConfigError("data in memory goes into no folder", where=str(into), hint="leave `into` out")
        return Table(Memory.of(source))
    place = source.removeprefix("parquet:")
    if "://" in place:
        raise UnsupportedTable(
            "folders of Parquet files are handled on a disk, where a rename is atomic",
            where=public_uri(source),
            hint="copy the folder to a disk, or make it an Iceberg or Delta table",
        )
    return Table(Folder.open(Path(place or "."), None if into is None else Path(into)))
