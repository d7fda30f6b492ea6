"""What tables that are only described have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from lakeevolve.errors import TableError
from lakeevolve.tables.base import DataFile, Table


class Nothing:
    """Stands where a catalog, a file system or a library's handle is not."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TableError(
            "this needs the table itself, and there is only its description",
            where=self._uri,
            hint="run it where the table can be reached",
        )


def sizes_of(table: Table) -> list[list[int]]:
    """The live files as version, rows and bytes each, without their names: those hold partition values."""
    return [[file.version, file.rows, file.bytes] for file in table.files()]


def files_of(sizes: Sequence[Sequence[int]]) -> tuple[DataFile, ...]:
    """The inverse of :func:`sizes_of`, as far as it goes."""
    return tuple(
        DataFile(f"file {number}", rows, size, version) for number, (version, rows, size) in enumerate(sizes, 1)
    )
