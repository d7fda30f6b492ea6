"""What a row of one table version reads at another: the fold of the steps between them.

A row of version k is expected at n through k -> k+1 -> ... -> n, each step being the resolution of neighbouring
schemas with what that step recorded. Resolving k directly against n would be wrong for a table: a value that a step
filled, cut or rounded stays so, whatever a later schema says about defaults and types.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lakeevolve.avro.arrow import arrow_schema, execute
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import ResolutionError
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import Version


@dataclass(frozen=True, slots=True)
class Fold:
    """The way of rows from one version to another. ``resolution`` is None where they are the same version."""

    start: int
    end: int
    writer: Schema
    reader: Schema
    resolution: Resolution | None

    def __call__(self, batch: pa.RecordBatch, row_offset: int = 0) -> pa.RecordBatch:
        """Rows of version ``start`` as they must read at version ``end``.

        Parameters
        ----------
        batch:
            The canonical layout of ``start``, then foreign columns, which are passed through.
        row_offset:
            The number of the batch's first row, for messages.

        Raises
        ------
        ValueMismatch
            Where a row holds a value that a value-level step had ruled out.
        """
        if self.resolution is None:
            return batch
        return execute(self.resolution, batch, partial=True, row_offset=row_offset)

    def stream(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batch by batch, counting rows for messages."""
        offset = 0
        for batch in batches:
            yield self(batch, offset)
            offset += batch.num_rows

    @property
    def layout(self) -> pa.Schema:
        """The Arrow schema of what comes out, without foreign columns."""
        return arrow_schema(self.reader, strict=False)


def step(old: Version, new: Version) -> Resolution:
    """The resolution of one version by the next, with what the next recorded about it.

    Raises
    ------
    ResolutionError
        Where the step has no resolution, apart from what depends on values (those were checked before it was made).
    """
    # Other tools may do to a column whatever the format allows, which for decimals is more than Avro's rule.
    logical: Literal["check", "table"] = "table" if new.derived else "check"
    found = resolve(old.schema, new.schema, logical, renames=new.renames, fresh=new.fresh, fills=new.fills)
    wrong = [i for i in found.incompatibilities if not i.value_level]
    if wrong:
        raise ResolutionError(
            f"rows of version {old.number} cannot be read at version {new.number}: {wrong[0].message}",
            where=wrong[0].path or "$",
            hint="rewrite or delete the files that were written before the change",
        )
    return found


def fold(versions: Sequence[Version], start: int, end: int) -> Fold:
    """The fold from one version of a table to another.

    Parameters
    ----------
    versions:
        The table's versions, oldest first (:meth:`lakeevolve.tables.base.Table.history`).
    start, end:
        Version numbers, ``start <= end``.

    Raises
    ------
    ResolutionError
        Where a step between them has no resolution; ``ValueError`` for numbers that the versions do not hold.
    """
    return _folds(tuple(_Same(version) for version in versions))(start, end)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A version as a key: itself and no other. Versions hold mappings, so they cannot be hashed by value."""

    version: Version

    def __hash__(self) -> int:
        return id(self.version)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.version is self.version


@functools.lru_cache(maxsize=16)
def _folds(versions: tuple[_Same, ...]) -> Folds:
    return Folds([same.version for same in versions])


class Folds:
    """The folds of one table's versions, each composed once.

    Composing happens under no lock: two threads may do it twice, and come to the same.
    """

    def __init__(self, versions: Sequence[Version]) -> None:
        self.versions = tuple(versions)
        self._by_number = {version.number: version for version in self.versions}
        self._folds: dict[tuple[int, int], Fold] = {}

    def __call__(self, start: int, end: int | None = None) -> Fold:
        """The fold from version *start* to *end* (the newest)."""
        last = self.newest.number if end is None else end
        found = self._folds.get((start, last))
        if found is None:
            found = self._folds[start, last] = self._compose(start, last)
        return found

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def _compose(self, start: int, end: int) -> Fold:
        missing = [n for n in (start, end) if n not in self._by_number]
        if missing or start > end:
            raise ValueError(f"the table has no versions {start} to {end}")
        steps = [step(old, new) for old, new in itertools.pairwise(self._line(start, end))]
        whole = functools.reduce(Resolution.then, steps) if steps else None
        return Fold(start, end, self._by_number[start].schema, self._by_number[end].schema, whole)

    def _line(self, start: int, end: int) -> list[Version]:
        """The versions that lead from one to the other. A version that the table went back to is entered anew as
        itself, and those that it went back from lead nowhere."""
        line, at = [self._by_number[end]], end
        while at != start:
            version = self._by_number[at]
            at = version.restores if version.restores is not None else at - 1
            if at < start:
                raise ResolutionError(
                    f"the table went back behind version {start}, so no row of it is live",
                    hint="list the table's files anew",
                )
            if version.restores is not None:
                line[-1] = self._by_number[at]
            else:
                line.append(self._by_number[at])
        return line[::-1]
