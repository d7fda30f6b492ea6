"""Judging files one by one: what the fold expects of a raw file against what a reader gives.

:mod:`lakeevolve.replaying.verify` and :mod:`lakeevolve.replaying.prove` say what is to be judged; here it is done, one
file at a time in batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.replaying import counts, predicates
from lakeevolve.replaying.compare import Mismatch, aligned, differences
from lakeevolve.replaying.evidence import FileEvidence
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.filehash import FileHash
from lakeevolve.replaying.judging import check_multiset, find, plain
from lakeevolve.replaying.leafsums import LeafSum, leaf_sum, numbers_of
from lakeevolve.replaying.multiset import Rows
from lakeevolve.replaying.preconditions import reach
from lakeevolve.replaying.sides import (
    RAW_READER,
    Batches,
    Expected,
    Job,
    Unreadable,
    actual_rows,
    expected_rows,
    type_mismatches,
)
from lakeevolve.replaying.tally import Digested, Tally
from lakeevolve.tables.base import DataFile


@dataclass(slots=True)
class Checked:
    """What came of one file.

    ``hash`` is that of its expected rows in their order. ``whole`` is their digest as a multiset, ``met`` what
    there is of the leaf of each filter under it.
    ``mismatched`` counts every (row, path) that differs.
    """

    file: DataFile
    hash: FileHash = field(default_factory=FileHash)
    whole: Expected = field(default_factory=Expected)
    met: list[LeafSum] = field(default_factory=list)
    rows: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    mismatched: int = 0
    reader_faults: list[ReaderFault] = field(default_factory=list)
    samples: predicates.Samples | None = None
    refused: set[str] = field(default_factory=set)
    readable: bool = True
    null: set[str] = field(default_factory=set)

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
    return Checked(file, met=[LeafSum()] * len(job.asked), samples=samples)


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
    for path in job.must_hold(found.file) if job.required else ():
        numbers, values = reach(batch, path, job.folds.newest.schema)
        if values.null_count:
            held = pc.unique(numbers.filter(values.is_null()))
            _hold_null(found, path, offset + held[0].as_py(), len(held))
    if found.samples is not None:
        found.samples.look(batch)
    for consumer in job.consumers:
        if consumer.checks_values and consumer.name not in found.refused:
            wrong = consumer.run(batch, found.file.path, offset)
            if wrong is not None:
                found.note([wrong])
                found.refused.add(consumer.name)


def _hold_null(found: Checked, path: str, row: int, rows: int) -> None:
    """Note nulls where the schema has a value: one mismatch of the file and column, with the first row."""
    found.mismatched += rows
    if path not in found.null:
        found.null.add(path)
        why = "holds a null, and the schema says that there is a value"
        found.mismatches.append(Mismatch(found.file.path, row, path, "", "", why, RAW_READER))


def _count(job: Job, found: Checked, batch: pa.RecordBatch) -> None:
    """Count rows into the sums of the whole, if it is compared as a multiset, and of each filter."""
    if job.sums:
        found.whole += Digested.of(batch, job.softly, misread=found.file.misread).sum()
    leaves: dict[str, tuple[pa.Array | None, pa.Array | None]] = {}
    for index, one in enumerate(job.asked):
        if one.path not in leaves:
            held = predicates.column(batch, one.path)
            leaves[one.path] = held, numbers_of(held)
        values, numbers = leaves[one.path]
        mask = predicates.satisfied(values, one.predicate, batch.num_rows)
        found.met[index] += leaf_sum(numbers, batch.num_rows, mask)


def _in_order(job: Job, file: DataFile, found: Checked) -> None:
    """Compare row by row; where the counts differ, name the rows that one side lacks instead of all that moved."""

    def expected() -> Batches:
        for rows in expected_rows(job, file):
            take(job, found, rows)
            yield rows.batch

    tally = Tally(job.reader, file.path)
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
        tally = Tally(job.reader, file.path)
        tally.types(in_type)
        tally.located(find(job, [file], lambda: plain(actual_rows(job, file)), wrong or frozenset(), file.path))
    found.mismatches += tally.named
    found.mismatched += tally.count
    found.reader_faults += tally.faults
