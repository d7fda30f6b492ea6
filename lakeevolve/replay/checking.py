"""Judging files and tables: what the fold expects of the raw files against what a reader gives.

:mod:`lakeevolve.replay.verify` and :mod:`lakeevolve.replay.prove` say what is to be judged; here it is done, one file
at a time in batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.model import path as paths
from lakeevolve.model.types import Fixed, Primitive
from lakeevolve.replay import counts, faults, predicates
from lakeevolve.replay.compare import ROWS_NAMED, Difference, Mismatch, aligned, differences, mismatches
from lakeevolve.replay.digests import Digests, Sum, Words
from lakeevolve.replay.evidence import FileEvidence
from lakeevolve.replay.faults import ReaderFault
from lakeevolve.replay.filehash import FileHash
from lakeevolve.replay.multiset import Located, Rows, Side, locate
from lakeevolve.replay.predicates import Filter
from lakeevolve.replay.sides import (
    RAW_READER,
    Batches,
    Expected,
    Job,
    Unreadable,
    actual_rows,
    expected_rows,
    type_mismatches,
)
from lakeevolve.tables.base import DataFile, Predicate


@dataclass(slots=True)
class Checked:
    """What came of one file.

    ``hash`` is that of its expected rows in their order. ``whole`` is their digest as a multiset, ``filtered`` that of
    those under each filter, and ``inner`` that of those under a filter whose records above the leaf are there.
    ``mismatched`` counts every (row, path) that differs.
    """

    file: DataFile
    hash: FileHash = field(default_factory=FileHash)
    whole: Expected = field(default_factory=Expected)
    filtered: list[Expected] = field(default_factory=list)
    inner: list[Expected] = field(default_factory=list)
    rows: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    mismatched: int = 0
    reader_faults: list[ReaderFault] = field(default_factory=list)
    samples: predicates.Samples | None = None
    refused: set[str] = field(default_factory=set)
    readable: bool = True

    @property
    def evidence(self) -> FileEvidence:
        """The file with the digest of its expected rows."""
        rows = self.hash
        return FileEvidence(self.file.path, self.file.version, self.file.inferred, rows.rows, rows.hex)

    def note(self, found: Iterable[Mismatch]) -> None:
        for mismatch in found:
            self.mismatches.append(mismatch)
            self.mismatched += 1


# --- one file -----------------------------------------------------------------------------------------------------


def check_file(job: Job, file: DataFile, compare: bool = True) -> Checked:
    """Judge one file: its rows in order, or as a multiset where the reader keeps no order.

    With *compare* False only the expected side is read, for a comparison of the whole table afterwards.
    """
    found = begin(job, file)
    try:
        if compare and job.ordered:
            _in_order(job, file, found)
        else:
            _take_all(job, file, found)
            if compare:
                found.note(check_multiset(job, [file], found.whole, file, None, found.reader_faults))
        found.note(counts.miscounted(job.store, file, found.rows))
        return found
    except Unreadable as error:
        damage = error.mismatch
    # What the reader cannot read has its expected rows all the same.
    found = begin(job, file)
    found.readable = False
    found.note([damage])
    if damage.reader != RAW_READER:
        _take_all(job, file, found)
    return found


def begin(job: Job, file: DataFile) -> Checked:
    """A file of which no rows have been taken yet."""
    samples = predicates.Samples(job.wanted) if job.wanted else None
    none = [Expected()] * len(job.asked)
    return Checked(file, filtered=none[:], inner=none[:], samples=samples)


def _take_all(job: Job, file: DataFile, found: Checked) -> None:
    for rows in expected_rows(job, file):
        take(job, found, rows)


def take(job: Job, found: Checked, rows: Rows) -> None:
    """Count expected rows into the file's digests, and read them as the consumers do."""
    batch, offset = rows.batch, found.rows
    found.rows += batch.num_rows
    if job.hashed:
        found.hash.update(batch)
    if job.sums or job.asked:
        _count(job, found, batch)
    if found.samples is not None:
        found.samples.look(batch)
    for consumer in job.consumers:
        if consumer.checks_values and consumer.name not in found.refused:
            wrong = consumer.run(batch, found.file.path, offset)
            if wrong is not None:
                found.note([wrong])
                found.refused.add(consumer.name)


def _count(job: Job, found: Checked, batch: pa.RecordBatch) -> None:
    """Count rows into the sums of the whole, if it is compared as a multiset, and of each filter."""
    filtered = job.filtered
    compared = batch if job.sums else batch.select(sorted(filtered))
    made = _Digested.of(compared, job.softly, filtered)
    if job.sums:
        found.whole += made.sum()
    leaves = _Leaves(batch)
    for index, one in enumerate(job.asked):
        mask = predicates.satisfied(leaves.values(one.path), one.predicate, batch.num_rows)
        there = leaves.above(one.path)
        under = made.sum(one.columns, mask)
        found.filtered[index] += under
        found.inner[index] += under if there is None else made.sum(one.columns, pc.and_(mask, there))


class _Digested:
    """The digests of a batch, as it is and as a reader with the fault that ``faults.soften`` makes gives it."""

    def __init__(self, exact: Digests, soft: Digests, softened: frozenset[str]) -> None:
        self._exact, self._soft, self._softened = exact, soft, softened
        self._words: dict[tuple[str, ...] | None, tuple[Words, Words]] = {}

    @classmethod
    def of(cls, batch: pa.RecordBatch, softly: bool, keep: Collection[str] = ()) -> _Digested:
        softened = faults.softened(batch) if softly else {}
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


class _Leaves:
    """Leaf columns of a batch, each taken out once however many filters there are on it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._values: dict[str, pa.Array | None] = {}

    def values(self, path: str) -> pa.Array | None:
        if path not in self._values:
            self._values[path] = predicates.column(self._batch, path)
        return self._values[path]

    def above(self, path: str) -> pa.Array | None:
        """Which rows have every record that the leaf lies in; None where all do."""
        holder = paths.parent(path)
        found = self.values(holder) if holder else None
        return None if found is None or found.null_count == 0 else found.is_valid()


def _in_order(job: Job, file: DataFile, found: Checked) -> None:
    """Compare row by row; where the counts differ, name the rows that one side lacks instead of all that moved."""

    def expected() -> Batches:
        for rows in expected_rows(job, file):
            take(job, found, rows)
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
    expected: Expected,
    file: DataFile | None,
    asked: Filter | None,
    reader_faults: list[ReaderFault],
    inner: Expected | None = None,
) -> list[Mismatch]:
    """Judge what the reader gives for *files* (all of them at once, or one) as a multiset of rows.

    ``expected`` is the digest of the rows that must come back, ``inner`` of those among them that a fault of the
    reader with null records does not concern; under a filter, of its columns. Listed faults are appended to
    *reader_faults*.
    """
    predicate = None if asked is None else asked.predicate
    try:
        read = _Read.of(job, file, asked)
    except Unreadable as error:
        if predicate is not None and faults.has(job.reader, faults.FILTER_ON_UUID) and _is_uuid(job, predicate):
            reader_faults.append(_filter_fault(job, faults.FILTER_ON_UUID, file, predicate, 0))
            return []
        return [error.mismatch]
    if read.whole.exact == expected.exact:
        return []
    if read.softly and read.whole.soft == expected.soft:
        if predicate is None:
            reader_faults += _faults_in_multiset(job, files)
        return []
    excused = predicate is not None and read.nested and faults.has(job.reader, faults.FILTER_BENEATH_NULL)
    if predicate is not None and excused and inner is not None and _same(read.inner, inner, read.softly):
        outside = expected.exact.count - inner.exact.count + read.whole.exact.count - read.inner.exact.count
        reader_faults.append(_filter_fault(job, faults.FILTER_BENEATH_NULL, file, predicate, outside))
        return []
    return _named(job, files, read, file, predicate, excused)


def _filter_fault(job: Job, fault: str, file: DataFile | None, predicate: Predicate, rows: int) -> ReaderFault:
    return ReaderFault(job.reader, fault, file.path if file is not None else None, None, predicate.path, rows, "", "")


def _is_uuid(job: Job, predicate: Predicate) -> bool:
    type_ = predicates.leaves(job.record).get(predicate.path)
    logical = type_.logical if isinstance(type_, Primitive | Fixed) else None
    return logical is not None and logical.name == "uuid"


def _same(one: Expected, two: Expected, softly: bool) -> bool:
    return one.soft == two.soft if softly else one.exact == two.exact


@dataclass(slots=True)
class _Read:
    """The digests of what a reader gave."""

    whole: Expected = field(default_factory=Expected)
    inner: Expected = field(default_factory=Expected)
    schema: pa.Schema | None = None
    softly: bool = False
    nested: bool = False

    @classmethod
    def of(cls, job: Job, file: DataFile | None, asked: Filter | None) -> _Read:
        found = cls(nested=asked is not None and bool(paths.parent(asked.path)))
        given = (None, None) if asked is None else (asked.predicate, asked.columns)
        for batch in actual_rows(job, file, *given):
            if found.schema is None:
                found.schema = batch.schema
                has = faults.has(job.reader, faults.NULL_LIST_OF_STRUCTS)
                found.softly = has and bool(faults.concerned(batch.schema))
            made = _Digested.of(batch, found.softly)
            found.whole += made.sum()
            if asked is not None and found.nested:
                there = predicates.above(batch, asked.path)
                if there is not None:
                    found.inner += made.sum(None, there)
        return found


def _named(
    job: Job,
    files: Sequence[DataFile],
    read: _Read,
    file: DataFile | None,
    predicate: Predicate | None,
    excused: bool,
) -> list[Mismatch]:
    """The mismatches of a multiset that is known to differ."""
    name = file.path if file is not None else None
    found: list[Mismatch] = []
    skip: frozenset[str] = frozenset()
    first = next((rows.batch.schema for one in files for rows in expected_rows(job, one)), None)
    if read.schema is not None and first is not None:
        found, skip = type_mismatches(first, read.schema, job.record, name, job.reader)

    def actual() -> Iterator[Rows]:
        return _plain(actual_rows(job, file, predicate))

    found += find(job, files, actual, skip, name, predicate, read.softly, excused).mismatches
    if not found:
        found = [Mismatch(name, None, "", "", "", "other rows at every reading", job.reader, "unreadable")]
    if predicate is None:
        return found
    under = f" under the filter {predicates.describe(predicate)}"
    return [replace(m, reason=m.reason + under, path=m.path or predicate.path) for m in found]


def find(
    job: Job,
    files: Sequence[DataFile],
    actual: Side,
    skip: frozenset[str] = frozenset(),
    name: str | None = None,
    predicate: Predicate | None = None,
    softly: bool | None = None,
    only_inner: bool = False,
) -> Located:
    """Name the rows by which what was read differs from what these files must read.

    With *only_inner*, rows without the records that the filter's leaf lies in are left out on both sides.
    """
    soft = faults.has(job.reader, faults.NULL_LIST_OF_STRUCTS) if softly is None else softly

    def prepared(rows: Iterable[Rows]) -> Iterator[Rows]:
        for part in rows:
            there = predicates.above(part.batch, predicate.path) if predicate is not None and only_inner else None
            kept = part if there is None else part.filter(there)
            batch = kept.batch.select([n for n in kept.batch.schema.names if n not in skip])
            yield kept._replace(batch=faults.soften(batch) if soft else batch)

    def expected() -> Iterator[Rows]:
        for file in files:
            for rows in expected_rows(job, file):
                yield rows if predicate is None else rows.filter(predicates.matches(rows.batch, predicate))

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
            assert rows.start is not None
            tally.add(differences(rows.batch, faults.soften(rows.batch), job.record), rows.start)
        found += tally.faults
    return found
