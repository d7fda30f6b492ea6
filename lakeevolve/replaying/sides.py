"""The two sides of a replay: what the fold expects of the raw files, and what a reader gives.

Both come as normalised batches, and whatever a file's damage makes a library raise comes as :class:`Unreadable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakeevolve.errors import CatalogUnavailable, LakeEvolveError, UnsupportedTable, ValueMismatch
from lakeevolve.model import path as paths
from lakeevolve.model.types import AvroType, Record
from lakeevolve.replaying import canonical, counts, predicates
from lakeevolve.replaying.compare import REASONS, Mismatch, column_type, type_differences
from lakeevolve.replaying.consumers import Consumer
from lakeevolve.replaying.digests import Sum
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.multiset import Rows
from lakeevolve.replaying.oracle import Oracle
from lakeevolve.replaying.predicates import Filter
from lakeevolve.tables.base import DataFile, Predicate

Batches = Iterator[pa.RecordBatch]

#: What a reader gives: of a file or of the whole table, under a filter or not, some columns or all.
Read = Callable[[DataFile | None, Predicate | None, Sequence[str] | None], Batches]

#: Small batches are joined up to about so many rows, or so many bytes.
BATCH_ROWS = 1 << 17
BATCH_BYTES: Final = 1 << 25

#: Who reads the files behind every table's back.
RAW_READER: Final = "raw file"


class Unreadable(Exception):  # a finding on its way, never an error that a user sees
    """A side could not be read to its end; carries what that means for the result."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(mismatch.reason)
        self.mismatch = mismatch


@dataclass(frozen=True, slots=True)
class Job:
    """What all files of one replay are judged by.

    Parameters
    ----------
    folds:
        The table's versions.
    raw, read:
        The files as pyarrow alone reads them, and what the judged reader gives.
    reader:
        The judged reader's name.
    ordered:
        Whether it keeps the order of rows within a file.
    foreign:
        Columns that no schema owns.
    softly:
        Whether a reader with listed faults takes part, so that rows are digested as it gives them too.
    hashed, sums:
        Whether rows are hashed for the evidence, and whether they are compared as a multiset and so digested.
    asked:
        The filters.
    wanted:
        Leaves for which a value is still to be found.
    consumers:
        Whose reader schemas every row has to resolve to.
    oracle:
        Who is asked for a second opinion on some rows.
    anew:
        The files that are being written anew.
    required:
        Columns that the table lets be null and the schema does not, by path.
    store:
        Who tells how many rows and bytes a file should have: the table. None: nobody.
    """

    folds: Folds
    raw: Callable[[DataFile], Batches]
    read: Read
    reader: str
    ordered: bool
    foreign: tuple[str, ...] = ()
    softly: bool = False
    hashed: bool = True
    sums: bool = True
    asked: tuple[Filter, ...] = ()
    wanted: Mapping[str, AvroType] = field(default_factory=dict)
    consumers: tuple[Consumer, ...] = ()
    oracle: Oracle | None = None
    anew: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    store: counts.Store | None = None

    def must_hold(self, file: DataFile) -> tuple[str, ...]:
        """Of the required columns, those in which no row of a file may be null.

        A row that is older than a column may, if its owner said so, wherever it lies by now: only what was appended
        since the last such column has no older row.
        """
        left = [version.number for version in self.folds.versions if "null" in version.fills.values()]
        return self.required if not left or (file.appended and file.version >= left[-1]) else ()

    @property
    def record(self) -> Record:
        return self.folds.newest.schema.record

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(f.name for f in self.record.fields), *self.foreign)


@dataclass(frozen=True, slots=True)
class Expected:
    """The digest of rows, as they are and as a reader gives them that has the faults which ``faults.soften`` and
    ``faults.misread`` make."""

    exact: Sum = field(default_factory=Sum)
    soft: Sum = field(default_factory=Sum)

    def __add__(self, other: Expected) -> Expected:
        return Expected(self.exact + other.exact, self.soft + other.soft)


def expected_rows(job: Job, file: DataFile) -> Iterator[Rows]:
    """The live rows of a file as they must read now, normalised, with their numbers.

    Raises ``Unreadable`` where the file cannot be read or a row cannot be folded.
    """

    def folded() -> Batches:
        fold = job.folds(file.version)
        offset = 0
        for batch in job.raw(file):
            made = fold(batch, offset)
            if job.oracle is not None:
                job.oracle.look(file, batch, made, offset)
            yield complete(canonical.normalise(made), job.columns)
            offset += batch.num_rows

    offset = 0
    try:
        for batch in guarded(folded, file.path, RAW_READER):
            yield Rows(batch, file.path, offset)
            offset += batch.num_rows
    except Unreadable as error:
        raise Unreadable(counts.explained(error.mismatch, file, job.store)) from error


def actual_rows(
    job: Job,
    file: DataFile | None = None,
    predicate: Predicate | None = None,
    columns: Sequence[str] | None = None,
) -> Batches:
    """What the judged reader gives, normalised; of *columns* alone, if they are given.

    Raises ``Unreadable`` where it fails.
    """

    def read() -> Batches:
        for batch in job.read(file, predicate, columns):
            if columns is not None:
                # A table may give more than it is asked for.
                batch = batch.select([name for name in columns if name in batch.schema.names])
            yield complete(canonical.normalise(batch), job.columns if columns is None else columns)

    return guarded(read, file.path if file is not None else None, job.reader, predicate)


def guarded(read: Callable[[], Batches], file: str | None, reader: str, predicate: Predicate | None = None) -> Batches:
    """The batches of *read*. Whatever a file's damage makes a library raise becomes ``Unreadable``, naming the file.

    A library's own text may quote values, so only the kind of its error is kept. What is no fault of the data
    (a catalog that does not answer, a feature that is not handled) passes through.
    """
    try:
        yield from coalesced(read())
    except (CatalogUnavailable, UnsupportedTable, Unreadable):
        raise
    except Exception as error:
        raise Unreadable(_damage(error, file, reader, predicate)) from error


def _damage(error: Exception, file: str | None, reader: str, predicate: Predicate | None) -> Mismatch:
    if isinstance(error, ValueMismatch):
        return Mismatch(file, error.row, error.path, "", "", error.what, reader, "value")
    text = error.what if isinstance(error, LakeEvolveError) else type(error).__name__
    subject = "the file" if file is not None else "the table"
    who = "" if reader == RAW_READER else f" by {reader}"
    under = f" under the filter {predicates.describe(predicate)}" if predicate is not None else ""
    path = predicate.path if predicate is not None else ""
    return Mismatch(file, None, path, "", "", f"{subject} cannot be read{who}{under}: {text}", reader, "unreadable")


def coalesced(batches: Batches) -> Batches:
    """The same rows in batches that are worth a kernel call: small ones joined up to ``BATCH_ROWS``, empty ones left
    out."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > BATCH_ROWS or size > BATCH_BYTES or batch.schema != waiting[0].schema):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        if batch.num_rows * 2 > BATCH_ROWS and not waiting:
            yield batch
        elif batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    # Joining a single batch would copy it.
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def complete(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The batch with columns that it lacks as nulls of no type, which compare as nulls of any."""
    there = frozenset(batch.schema.names)
    missing = [name for name in columns if name not in there]
    for name in missing:
        batch = batch.append_column(name, pa.nulls(batch.num_rows))
    return batch


def type_mismatches(
    expected: pa.Schema, actual: pa.Schema, record: Record, file: str | None, reader: str
) -> tuple[list[Mismatch], frozenset[str]]:
    """Where the columns of two sides differ in type, and the top-level columns that do."""
    found, wrong = [], set()
    for wanted in expected:
        index = actual.get_field_index(wanted.name)
        if index < 0:
            continue
        where = paths.child("", wanted.name)
        for path, ours, theirs in type_differences(
            wanted.type, actual.field(index).type, where, column_type(wanted.name, record)
        ):
            found.append(Mismatch(file, None, path, ours, theirs, REASONS["type"], reader, "type"))
            wrong.add(wanted.name)
    return found, frozenset(wrong)
