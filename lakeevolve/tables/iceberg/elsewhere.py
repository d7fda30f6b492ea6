"""A table in another process: its metadata as it was, read from the file that never changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table as IcebergTable

from lakeevolve.tables.iceberg.catalog import Location, translated

if TYPE_CHECKING:
    from lakeevolve.tables.iceberg.table import IcebergHandle


def sent(location: Location, table: IcebergTable, left_out: tuple[str, ...]) -> tuple[Any, ...]:
    """What of a table goes to another process, as ``__reduce__`` has it. Credentials of the store are part of it."""
    properties: Mapping[str, Any] = table.io.properties
    return _arrived, (location, table.name(), table.metadata_location, tuple(sorted(properties.items())), left_out)


@lru_cache(maxsize=8)
def _arrived(
    location: Location,
    name: tuple[str, ...],
    metadata: str,
    properties: tuple[tuple[str, Any], ...],
    left_out: tuple[str, ...],
) -> IcebergHandle:
    """The table for reading; one for all tasks of a process that concern it."""
    from lakeevolve.tables.iceberg.table import IcebergHandle

    with translated(location.uri):
        io = load_file_io(dict(properties), metadata)
        held = FromInputFile.table_metadata(io.new_input(metadata))
    nobody = NoopCatalog("elsewhere")
    made = IcebergHandle(location, nobody, IcebergTable(name, held, metadata, io, nobody))
    made.leave_out(left_out)
    return made
