"""What is gathered of a side while it is read: digests of its rows, and where two sides differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakeevolve.replaying import faults
from lakeevolve.replaying.compare import ROWS_NAMED, Difference, Mismatch, mismatches
from lakeevolve.replaying.digests import Digests, Sum, Words
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.multiset import Located
from lakeevolve.replaying.sides import Expected


class Digested:
    """The digests of a batch, as it is and as a reader gives it that has the faults which ``faults.soften`` and
    ``faults.misread`` make."""

    def __init__(self, exact: Digests, soft: Digests, softened: frozenset[str]) -> None:
        self._exact, self._soft, self._softened = exact, soft, softened
        self._words: dict[tuple[str, ...] | None, tuple[Words, Words]] = {}

    @classmethod
    def of(
        cls, batch: pa.RecordBatch, softly: bool, keep: Collection[str] = (), misread: Mapping[str, Any] | None = None
    ) -> Digested:
        softened = faults.softened(batch) if softly else {}
        if misread:
            softened |= faults.misread(batch, misread)
        exact = Digests(batch, {*keep, *softened})
        return cls(exact, exact.replaced(softened) if softened else exact, frozenset(softened))

    def sum(self, columns: tuple[str, ...] | None = None, mask: pa.Array | None = None) -> Expected:
        """The sums over the rows that the mask lets through, of all columns or of some of those that were kept."""
        words = self._words.get(columns)
        if words is None:
            exact = soft = self._exact.rows(columns)
            if self._softened and (columns is None or not self._softened.isdisjoint(columns)):
                soft = self._soft.rows(columns)
            words = self._words[columns] = exact, soft
        one = Sum.of(words[0]) if mask is None else Sum.under(words[0], mask)
        if words[1] is words[0]:
            return Expected(one, one)
        return Expected(one, Sum.of(words[1]) if mask is None else Sum.under(words[1], mask))


class Tally:
    """Differences of one file gathered: the first rows of each path and kind named, all of them counted."""

    def __init__(self, reader: str, file: str) -> None:
        self.reader, self.file = reader, file
        self.named: list[Mismatch] = []
        self.count = 0
        self._seen: dict[tuple[str, str], int] = {}
        self._faults: dict[tuple[str, str], ReaderFault] = {}

    def types(self, found: Sequence[Mismatch]) -> None:
        self.named += found
        self.count += len(found)

    def located(self, found: Located) -> None:
        self.named += found.mismatches
        self.count += len(found.mismatches)

    def add(self, found: Sequence[Difference], offset: int) -> None:
        for difference in found:
            fault = faults.fault_of(difference, self.reader)
            if fault is not None:
                self._fault(fault, difference, offset)
                continue
            self.count += len(difference.rows)
            key = (difference.path, difference.kind)
            room = ROWS_NAMED - self._seen.get(key, 0)
            if room > 0:
                rows = difference.rows.slice(0, room).to_pylist()
                self.named += mismatches(difference, [(self.file, offset + row) for row in rows], self.reader)
                self._seen[key] = self._seen.get(key, 0) + len(rows)

    def _fault(self, fault: str, difference: Difference, offset: int) -> None:
        key = (difference.path, fault)
        before = self._faults.get(key)
        if before is not None:
            self._faults[key] = replace(before, rows=before.rows + len(difference.rows))
            return
        self._faults[key] = ReaderFault(
            self.reader,
            fault,
            self.file,
            offset + difference.rows[0].as_py(),
            difference.path,
            len(difference.rows),
            difference.expected_type,
            difference.actual_type,
        )

    @property
    def faults(self) -> list[ReaderFault]:
        return list(self._faults.values())
