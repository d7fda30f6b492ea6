"""Judging files and tables: what the fold expects of the raw files against what a reader gives.

:mod:`lakeevolve.replay.verify` and :mod:`lakeevolve.replay.prove` say what is to be judged; here it is done, one file
at a time in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.errors import CatalogUnavailable, LakeEvolveError, UnsupportedTable, ValueMismatch
from lakeevolve.model import path as paths
from lakeevolve.model.types import AvroType, Record
from lakeevolve.replay import canonical, digests, faults, predicates
from lakeevolve.replay.compare import (
    REASONS,
    ROWS_NAMED,
    Difference,
    Mismatch,
    aligned,
    column_type,
    differences,
    mismatches,
    type_differences,
)
from lakeevolve.replay.consumers import Consumer
from lakeevolve.replay.digests import Sum
from lakeevolve.replay.faults import ReaderFault
from lakeevolve.replay.fold import Folds
from lakeevolve.replay.multiset import Located, Rows, Side, locate
from lakeevolve.tables.base import DataFile, Predicate

Batches = Iterator[pa.RecordBatch]

#: Small batches are joined up to about so many rows, or so many bytes.
BATCH_ROWS = 1 << 15
BATCH_BYTES: Final = 1 << 25

#: Who reads the files behind every table's back.
RAW_READER: Final = "raw file"


class Unreadable(Exception):  # noqa: N818 - a finding on its way, never an error that a user sees
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
        The files as pyarrow alone reads them, and what the judged reader gives (whole, of one file, filtered).
    reader:
        The judged reader's name.
    ordered:
        Whether it keeps the order of rows within a file.
    foreign:
        Columns that no schema owns.
    softly:
        Whether a reader with listed faults takes part, so that rows are digested as it gives them too.
    asked:
        The filters.
    wanted:
        Leaves for which a value is still to be found.
    consumers:
        Whose reader schemas every row has to resolve to.
    """

    folds: Folds
    raw: Callable[[DataFile], Batches]
    read: Callable[[DataFile | None, Predicate | None], Batches]
    reader: str
    ordered: bool
    foreign: tuple[str, ...] = ()
    softly: bool = False
    asked: tuple[Predicate, ...] = ()
    wanted: Mapping[str, AvroType] = field(default_factory=dict)
    consumers: tuple[Consumer, ...] = ()

    @property
    def record(self) -> Record:
        return self.folds.newest.schema.record

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(f.name for f in self.record.fields), *self.foreign)


@dataclass(slots=True)
class Checked:
    """What came of one file.

    ``sum`` is the digest of its expected rows and ``filtered`` that of those under each filter; ``soft`` and
    ``softly`` are the same of the rows as a reader with a listed fault gives them. ``mismatched`` counts every
    (row, path) that differs.
    """

    file: DataFile
    sum: Sum = field(default_factory=Sum)
    soft: Sum = field(default_factory=Sum)
    filtered: list[Sum] = field(default_factory=list)
    softly: list[Sum] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    mismatched: int = 0
    reader_faults: list[ReaderFault] = field(default_factory=list)
    samples: predicates.Samples | None = None
    refused: set[str] = field(default_factory=set)
    readable: bool = True

    def note(self, found: Iterable[Mismatch]) -> None:
        for mismatch in found:
            self.mismatches.append(mismatch)
            self.mismatched += 1


# --- the two sides ------------------------------------------------------------------------------------------------


def expected_rows(job: Job, file: DataFile) -> Iterator[Rows]:
    """The live rows of a file as they must read now, normalised, with their numbers.

    Raises ``Unreadable`` where the file cannot be read or a row cannot be folded.
    """
    def folded() -> Batches:
        fold = job.folds(file.version)
        offset = 0
        for batch in job.raw(file):
            yield complete(canonical.normalise(fold(batch, offset)), job.columns)
            offset += batch.num_rows

    offset = 0
    for batch in guarded(folded, file.path, RAW_READER):
        yield Rows(batch, file.path, numbered(offset, batch.num_rows))
        offset += batch.num_rows


def actual_rows(job: Job, file: DataFile | None = None, predicate: Predicate | None = None) -> Batches:
    """What the judged reader gives, normalised. Raises ``Unreadable`` where it fails."""

    def read() -> Batches:
        for batch in job.read(file, predicate):
            yield complete(canonical.normalise(batch), job.columns)

    return guarded(read, file.path if file is not None else None, job.reader, predicate)


def guarded(
    read: Callable[[], Batches], file: str | None, reader: str, predicate: Predicate | None = None
) -> Batches:
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
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
    if waiting:
        yield pa.concat_batches(waiting)


def complete(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The batch with columns that it lacks as nulls of no type, which compare as nulls of any."""
    missing = [name for name in columns if batch.schema.get_field_index(name) < 0]
    for name in missing:
        batch = batch.append_column(name, pa.nulls(batch.num_rows))
    return batch


def numbered(offset: int, count: int) -> pa.Array:
    """The row numbers from *offset* on."""
    return pc.add(canonical.counting(count), pa.scalar(offset, pa.int64()))


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


# --- one file -----------------------------------------------------------------------------------------------------


def check_file(job: Job, file: DataFile, compare: bool = True) -> Checked:
    """Judge one file: its rows in order, or as a multiset where the reader keeps no order.

    With *compare* False only the expected side is read, for a comparison of the whole table afterwards.
    """
    found = _begin(job, file)
    try:
        if compare and job.ordered:
            _in_order(job, file, found)
        else:
            _take_all(job, file, found)
            if compare:
                found.note(check_multiset(job, [file], found.sum, found.soft, file, None, found.reader_faults))
        return found
    except Unreadable as error:
        damage = error.mismatch
    # What the reader cannot read has its expected rows all the same.
    found = _begin(job, file)
    found.readable = False
    found.note([damage])
    if damage.reader != RAW_READER:
        _take_all(job, file, found)
    return found


def _begin(job: Job, file: DataFile) -> Checked:
    samples = predicates.Samples(job.wanted) if job.wanted else None
    none = [Sum()] * len(job.asked)
    return Checked(file, filtered=none[:], softly=none[:], samples=samples)


def _take_all(job: Job, file: DataFile, found: Checked) -> None:
    for rows in expected_rows(job, file):
        _take(job, found, rows)


def _take(job: Job, found: Checked, rows: Rows) -> None:
    """Count expected rows into the file's digests, and read them as the consumers do."""
    batch, offset = rows.batch, found.sum.count
    words = digests.row_digests(batch)
    gentle = words
    if job.softly and faults.concerns(batch.schema):
        gentle = digests.row_digests(faults.soften(batch))
    found.sum += Sum.of(words)
    found.soft += Sum.of(gentle)
    for index, predicate in enumerate(job.asked):
        mask = predicates.matches(batch, predicate)
        found.filtered[index] += Sum.of(words.filter(mask))
        found.softly[index] += Sum.of(gentle.filter(mask))
    if found.samples is not None:
        found.samples.look(batch)
    for consumer in job.consumers:
        if consumer.checks_values and consumer.name not in found.refused:
            wrong = consumer.run(batch, found.file.path, offset)
            if wrong is not None:
                found.note([wrong])
                found.refused.add(consumer.name)


def _in_order(job: Job, file: DataFile, found: Checked) -> None:
    """Compare row by row; where the counts differ, name the rows that one side lacks instead of all that moved."""

    def expected() -> Batches:
        for rows in expected_rows(job, file):
            _take(job, found, rows)
            yield rows.batch

    tally = _Tally(job.reader, file.path)
    wrong: frozenset[str] | None = None
    in_type: list[Mismatch] = []
    offset = lengths = 0
    for one, two in aligned(expected(), actual_rows(job, file)):
        if one is None or two is None:
            lengths += (one if one is not None else two).num_rows  # type: ignore[union-attr]
            continue
        if wrong is None:
            in_type, wrong = type_mismatches(one.schema, two.schema, job.record, file.path, job.reader)
            tally.types(in_type)
        tally.add(differences(one, two, job.record, wrong), offset)
        offset += one.num_rows
    if lengths:
        tally = _Tally(job.reader, file.path)
        tally.types(in_type)
        tally.located(find(job, [file], lambda: _plain(actual_rows(job, file)), wrong or frozenset(), file.path))
    tally.into(found)


class _Tally:
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

    def into(self, found: Checked) -> None:
        found.mismatches += self.named
        found.mismatched += self.count
        found.reader_faults += self.faults


# --- multisets ----------------------------------------------------------------------------------------------------


def check_multiset(
    job: Job,
    files: Sequence[DataFile],
    expected: Sum,
    soft: Sum,
    file: DataFile | None,
    predicate: Predicate | None,
    reader_faults: list[ReaderFault],
) -> list[Mismatch]:
    """Judge what the reader gives for *files* (all of them at once, or one) as a multiset of rows.

    ``expected`` and ``soft`` are the digests of the rows that must come back. Listed reader faults are appended to
    *reader_faults*.
    """
    concerned = False
    exact, softened = Sum(), Sum()
    schema: pa.Schema | None = None
    try:
        for batch in actual_rows(job, file, predicate):
            schema = batch.schema if schema is None else schema
            exact += Sum.of(digests.row_digests(batch))
            concerned = concerned or (bool(faults.known(job.reader)) and faults.concerns(batch.schema))
            if concerned:
                softened += Sum.of(digests.row_digests(faults.soften(batch)))
    except Unreadable as error:
        return [error.mismatch]
    if exact == expected if not concerned else softened == soft:
        if concerned and exact != expected and predicate is None:
            reader_faults += _faults_in_multiset(job, files)
        return []
    name = file.path if file is not None else None
    found: list[Mismatch] = []
    skip: frozenset[str] = frozenset()
    first = next((rows.batch.schema for one in files for rows in expected_rows(job, one)), None)
    if schema is not None and first is not None:
        found, skip = type_mismatches(first, schema, job.record, name, job.reader)
    located = find(job, files, lambda: _plain(actual_rows(job, file, predicate)), skip, name, predicate, concerned)
    found += located.mismatches
    if not found:
        found = [
            Mismatch(name, None, "", "", "", "other rows at every reading", job.reader, "unreadable"),
        ]
    if predicate is not None:
        under = f" under the filter {predicates.describe(predicate)}"
        found = [replace(m, reason=m.reason + under, path=m.path or predicate.path) for m in found]
    return found


def find(
    job: Job,
    files: Sequence[DataFile],
    actual: Side,
    skip: frozenset[str] = frozenset(),
    name: str | None = None,
    predicate: Predicate | None = None,
    softly: bool | None = None,
) -> Located:
    """Name the rows by which what was read differs from what these files must read."""
    soft = bool(faults.known(job.reader)) if softly is None else softly

    def prepared(rows: Iterable[Rows]) -> Iterator[Rows]:
        for part in rows:
            batch = part.batch.select([n for n in part.batch.schema.names if n not in skip])
            yield part._replace(batch=faults.soften(batch) if soft else batch)

    def expected() -> Iterator[Rows]:
        for file in files:
            for rows in expected_rows(job, file):
                if predicate is None or rows.numbers is None:
                    yield rows
                else:
                    mask = predicates.matches(rows.batch, predicate)
                    yield Rows(rows.batch.filter(mask), rows.file, rows.numbers.filter(mask))

    def both(side: Side) -> Side:
        return lambda: prepared(side())

    return locate(both(expected), both(actual), job.record, reader=job.reader, file=name)


def _plain(batches: Batches) -> Iterator[Rows]:
    return (Rows(batch) for batch in batches)


def _faults_in_multiset(job: Job, files: Sequence[DataFile]) -> list[ReaderFault]:
    """The listed fault that explains a multiset, located by the expected rows that it concerns."""
    found: list[ReaderFault] = []
    for file in files:
        tally = _Tally(job.reader, file.path)
        for rows in expected_rows(job, file):
            assert rows.numbers is not None
            offset = rows.numbers[0].as_py() if len(rows.numbers) else 0
            tally.add(differences(rows.batch, faults.soften(rows.batch), job.record), offset)
        found += tally.faults
    return found
