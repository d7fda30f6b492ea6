"""Whether a table's metadata counts the rows and bytes that its files have.

Readers answer ``count(*)`` and plan from what the metadata says, and a file that was cut short behind the table's back
folds and reads without an error: only the two counts side by side tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from lakeevolve.replaying.compare import Mismatch
from lakeevolve.tables.base import DataFile, Stored

#: Who says how many rows a file has, without reading it.
METADATA: Final = "metadata"


class Store(Protocol):
    """What tells of files without reading their rows: a table."""

    def live(self, file: DataFile) -> int | None: ...

    def stored(self, file: DataFile) -> Stored: ...


def miscounted(store: Store | None, file: DataFile, live: int) -> list[Mismatch]:
    """Where the metadata's counts of a file are not those of the file.

    Parameters
    ----------
    store:
        The file's table; None where nobody can tell.
    live:
        How many live rows were read from it.
    """
    if store is None:
        return []
    counted = store.live(file)
    if counted == file.rows:
        # Nothing is deleted, so what was read is what the footer counts.
        return [] if live == counted else [_wrong(file, counted, live, "rows")]
    held = store.stored(file).rows
    if held is not None and held != file.rows:
        return [_wrong(file, file.rows, held, "rows")]
    if counted is not None and counted != live:
        return [_wrong(file, counted, live, "rows that are not deleted")]
    return []


def _wrong(file: DataFile, counted: int, there: int, what: str) -> Mismatch:
    reason = f"the table's metadata counts {counted} {what}, and the file has {there}"
    return Mismatch(file.path, None, "", f"{counted} rows", f"{there} rows", reason, METADATA, "count")


def explained(found: Mismatch, file: DataFile, store: Store | None) -> Mismatch:
    """What made a file unreadable, said by what lies in the store."""
    if store is None or found.kind != "unreadable":
        return found
    held = store.stored(file)
    if held.bytes is None:
        return replace(found, reason="the file cannot be read: the table lists it, and it is missing from the store")
    if held.bytes < file.bytes:
        cut = f"it is cut short to {held.bytes} bytes, where the table lists {file.bytes}"
        return replace(found, reason=f"the file cannot be read: {cut}")
    return found
