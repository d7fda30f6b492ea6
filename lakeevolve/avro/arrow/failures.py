"""Which rows cannot be read: found column by column, raised for the first row.

The columns of a batch are converted one after the other, so what fails is noted with its place, and the earliest row
is raised when all is done.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.errors import ValueMismatch


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the values of an array stand: in the rows of a batch, or in the lists (offsets) of another array."""

    lists: pa.Array | None = None
    above: Rows | None = None

    def inside(self, offsets: pa.Array) -> Rows:
        return Rows(offsets, self)

    def row(self, index: int) -> int:
        """The row of the batch in which the value at *index* stands."""
        if self.lists is None or self.above is None:
            return index
        offsets = self.lists
        return self.above.row(bisect_right(range(len(offsets)), index, key=lambda i: offsets[i].as_py()) - 1)


@dataclass(slots=True)
class Failures:
    """The earliest failure so far."""

    row: int | None = None
    path: str = ""
    what: str = ""
    hint: str | None = None

    def at(self, index: int, rows: Rows, path: str, what: str, hint: str | None = None) -> None:
        row = rows.row(index)
        if self.row is None or row < self.row:
            self.row, self.path, self.what, self.hint = row, path, what, hint

    def where(self, bad: pa.Array, rows: Rows, path: str, what: str, hint: str | None = None) -> None:
        """Note the first value that is *bad* (a boolean array; null counts as good)."""
        index = pc.index(bad, True).as_py()
        if index >= 0:
            self.at(index, rows, path, what, hint)

    def check(self, row_offset: int) -> None:
        """Raise what was noted. ``row_offset`` is the number of the batch's first row."""
        if self.row is not None:
            raise ValueMismatch(self.what, row=row_offset + self.row, path=self.path, hint=self.hint)
