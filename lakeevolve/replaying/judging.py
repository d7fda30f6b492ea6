"""Judging what a reader gives of files as a multiset of rows: of a whole table or one file, under a filter or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.model import path as paths
from lakeevolve.model.types import Fixed, Primitive
from lakeevolve.replaying import faults, predicates, why
from lakeevolve.replaying.compare import Mismatch, differences
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.filterfaults import Modelled, fails, modelled
from lakeevolve.replaying.leafsums import LeafSum, given
from lakeevolve.replaying.multiset import Located, Rows, Side, locate
from lakeevolve.replaying.predicates import Filter
from lakeevolve.replaying.sides import Batches, Expected, Job, Unreadable, actual_rows, expected_rows, type_mismatches
from lakeevolve.replaying.tally import Digested, Tally
from lakeevolve.tables.base import DataFile, Predicate


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
        failing = [] if predicate is None else [one for one in files if _fails(job, one, predicate)]
        if asked is not None and failing:
            return _beside(job, files, failing, asked, reader_faults)
        return [error.mismatch]
    if read.whole.exact == expected.exact:
        return []
    if (read.softly or _misread(job, files)) and read.whole.soft == expected.soft:
        if predicate is None:
            reader_faults += _faults_in_multiset(job, files)
        return []
    excused = predicate is not None and read.nested and faults.has(job.reader, faults.FILTER_BENEATH_NULL)
    if predicate is not None and excused and inner is not None and _same(read.inner, inner, read.softly):
        outside = expected.exact.count - inner.exact.count + read.whole.exact.count - read.inner.exact.count
        reader_faults.append(_filter_fault(job, faults.FILTER_BENEATH_NULL, file, predicate, outside))
        return []
    models: Mapping[str, Modelled] = {}
    if asked is not None:
        models, found = _modelled(job, files, read, file, asked)
        if found:
            reader_faults += found
            return []
    return _named(job, files, read, file, asked, excused, models)


def check_filter(
    job: Job,
    files: Sequence[DataFile],
    met: LeafSum,
    file: DataFile | None,
    asked: Filter,
    reader_faults: list[ReaderFault],
) -> list[Mismatch]:
    """Judge what the reader gives of *files* (all of them at once, or one) under a filter.

    ``met`` is what there must be of the filter's leaf. Listed faults are appended to *reader_faults*.
    """
    try:
        if given(job, file, asked) == met:
            return []
    except Unreadable:
        # Said below, once it is known whether it is a listed fault.
        pass
    try:
        total, inner = _under(job, files, asked)
    except Unreadable as error:
        # It was read before: files may go while a replay runs.
        return [error.mismatch]
    return check_multiset(job, files, total, file, asked, reader_faults, inner)


def _under(job: Job, files: Sequence[DataFile], asked: Filter) -> tuple[Expected, Expected]:
    """The digests of the rows that satisfy a filter: of all, and of those with the records that its leaf lies in."""
    total, inner = Expected(), Expected()
    for one in files:
        for rows in expected_rows(job, one):
            mask = predicates.matches(rows.batch, asked.predicate)
            there = predicates.above(rows.batch, asked.path)
            made = Digested.of(rows.batch.select(list(asked.columns)), job.softly)
            total += made.sum(None, mask)
            inner += made.sum(None, mask if there is None else pc.and_(mask, there))
    return total, inner


def _fails(job: Job, file: DataFile, predicate: Predicate) -> bool:
    return file.path not in job.anew and fails(job.reader, job.folds, file, predicate)


def _beside(
    job: Job, files: Sequence[DataFile], failing: Sequence[DataFile], asked: Filter, reader_faults: list[ReaderFault]
) -> list[Mismatch]:
    """Judge a filter under which the reader fails on some files by a listed fault: each of the others by itself.

    A file that is yet to be written is no file that can be read by itself; it is judged once it is.
    """
    found: list[Mismatch] = []
    for one in failing:
        fault = faults.DEFAULT_AS_PYTHON_HOLDS_IT
        reader_faults.append(_filter_fault(job, fault, one, asked.predicate, one.rows))
    for one in files:
        if one not in failing and one.path not in job.anew:
            total, inner = _under(job, [one], asked)
            found += check_multiset(job, [one], total, one, asked, reader_faults, inner)
    return found


def _modelled(
    job: Job, files: Sequence[DataFile], read: _Read, alone: DataFile | None, asked: Filter
) -> tuple[Mapping[str, Modelled], list[ReaderFault]]:
    """The files of which a reader with listed faults gives other rows under a filter, and the faults if that explains
    what it gave."""
    models = {}
    for file in files:
        if file.path in job.anew and faults.has(job.reader, faults.LITERAL_IN_FILE_TYPE):
            # What is written anew has the new type.
            continue

        def rows(file: DataFile = file) -> Iterator[Rows]:
            return expected_rows(job, file)

        found = modelled(job.reader, job.folds, file, asked.predicate, rows)
        if found is not None:
            models[file.path] = found
    if not models:
        return {}, []
    sides = {file.path: _Sides.of(job, file, asked, models.get(file.path), read.softly) for file in files}
    if not _same(_total(sides.values(), models), read.whole, read.softly) and alone is None:
        # Statistics may have kept the fault from showing in some of the files: each is asked by itself.
        for file in files:
            if file.path in models and file.path not in job.anew:
                own = _Read.of(job, file, asked)
                if not _same(own.whole, sides[file.path].faulty, read.softly):
                    del models[file.path]
    models = {path: model for path, model in models.items() if sides[path].differ}
    if not _same(_total(sides.values(), models), read.whole, read.softly):
        return models, []
    return models, [
        ReaderFault(job.reader, model.fault, path, sides[path].row, asked.path, sides[path].rows, "", "")
        for path, model in models.items()
    ]


@dataclass(slots=True)
class _Sides:
    """Of one file under a filter: the digests of the rows that satisfy it, and of those that a faulty reader gives;
    how many rows are on one side only, at least, and the first of them."""

    path: str
    exact: Expected = field(default_factory=Expected)
    faulty: Expected = field(default_factory=Expected)
    rows: int = 0
    row: int | None = None

    @property
    def differ(self) -> bool:
        return self.exact != self.faulty

    @classmethod
    def of(cls, job: Job, file: DataFile, asked: Filter, model: Modelled | None, softly: bool) -> _Sides:
        found = cls(file.path)
        for rows in expected_rows(job, file):
            kept = rows.filter(predicates.matches(rows.batch, asked.predicate))
            found.exact += _digest(kept, asked, softly)
            if model is None:
                continue
            given = model.given(rows)
            found.faulty += _digest(given, asked, softly)
            found._count(kept, given, asked)
        return found

    def _count(self, kept: Rows, given: Rows, asked: Filter) -> None:
        """Count the rows that the fault adds, loses or changes."""
        ours, theirs = kept.numbers, given.numbers
        assert ours is not None
        assert theirs is not None
        only = [set(ours.to_pylist()) ^ set(theirs.to_pylist())] if not ours.equals(theirs) else []
        if ours.equals(theirs):
            held = differences(kept.batch.select(list(asked.columns)), given.batch.select(list(asked.columns)))
            only = [set(ours.take(each.rows).to_pylist()) for each in held]
        rows = set().union(*only) if only else set()
        self.rows += len(rows)
        if self.row is None and rows:
            self.row = min(rows)


def _digest(rows: Rows, asked: Filter, softly: bool) -> Expected:
    return Digested.of(rows.batch.select(list(asked.columns)), softly).sum()


def _total(sides: Iterable[_Sides], models: Mapping[str, Modelled]) -> Expected:
    return sum((one.faulty if one.path in models else one.exact for one in sides), Expected())


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
            made = Digested.of(batch, found.softly)
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
    asked: Filter | None,
    excused: bool,
    models: Mapping[str, Modelled],
) -> list[Mismatch]:
    """The mismatches of a multiset that is known to differ."""
    name = file.path if file is not None else None
    predicate = None if asked is None else asked.predicate
    found: list[Mismatch] = []
    skip: frozenset[str] = frozenset()
    first = next((rows.batch.schema for one in files for rows in expected_rows(job, one)), None)
    if read.schema is not None and first is not None:
        found, skip = type_mismatches(first, read.schema, job.record, name, job.reader)

    def actual() -> Iterator[Rows]:
        return plain(actual_rows(job, file, predicate))

    found += find(job, files, actual, skip, name, asked, read.softly, excused, models).mismatches
    if not found:
        found = [Mismatch(name, None, "", "", "", "other rows at every reading", job.reader, "unreadable")]
    if predicate is None:
        return found
    asked_for = predicates.describe(predicate)

    def told(mismatch: Mismatch) -> Mismatch:
        if mismatch.kind == "kept":
            reason = f"the row came back although it does not meet the filter {asked_for}"
        else:
            reason = f"{mismatch.reason} under the filter {asked_for}"
        return replace(mismatch, reason=reason, path=mismatch.path or predicate.path)

    lost = {mismatch.file for mismatch in found if mismatch.kind == "missing"}
    met = {each.path: _meeting(job, each, predicate) for each in files if each.path in lost}
    return why.left_out([told(mismatch) for mismatch in found], met)


def _meeting(job: Job, file: DataFile, predicate: Predicate) -> int:
    """How many rows of a file meet a filter."""
    return sum(
        rows.filter(predicates.matches(rows.batch, predicate)).batch.num_rows for rows in expected_rows(job, file)
    )


def find(
    job: Job,
    files: Sequence[DataFile],
    actual: Side,
    skip: frozenset[str] = frozenset(),
    name: str | None = None,
    asked: Filter | None = None,
    softly: bool | None = None,
    only_inner: bool = False,
    models: Mapping[str, Modelled] | None = None,
) -> Located:
    """Name the rows by which what was read differs from what these files must read.

    With *only_inner*, rows without the records that the filter's leaf lies in are left out on both sides. *models* are
    the files whose rows a listed fault of the reader makes others under the filter.
    """
    soft = faults.has(job.reader, faults.NULL_LIST_OF_STRUCTS) if softly is None else softly
    misread = _misread(job, files)
    predicate = None if asked is None else asked.predicate
    known = models or {}

    def prepared(rows: Iterable[Rows]) -> Iterator[Rows]:
        for part in rows:
            there = predicates.above(part.batch, predicate.path) if predicate is not None and only_inner else None
            kept = part if there is None else part.filter(there)
            batch = kept.batch.select([n for n in kept.batch.schema.names if n not in skip])
            yield kept._replace(batch=faults.soften(batch) if soft else batch)

    def everything() -> Iterator[Rows]:
        for file in files:
            for rows in expected_rows(job, file):
                yield as_read(rows)

    def as_read(rows: Rows) -> Rows:
        values = misread.get(rows.file or "")
        return rows._replace(batch=faults.as_misread(rows.batch, values)) if values else rows

    def expected() -> Iterator[Rows]:
        for file in files:
            model = known.get(file.path)
            for rows in expected_rows(job, file):
                if model is not None:
                    yield as_read(model.given(rows))
                else:
                    kept = rows if predicate is None else rows.filter(predicates.matches(rows.batch, predicate))
                    yield as_read(kept)

    def both(side: Side) -> Side:
        return lambda: prepared(side())

    beside = None if predicate is None else both(everything)
    return locate(both(expected), both(actual), job.record, reader=job.reader, file=name, beside=beside)


def plain(batches: Batches) -> Iterator[Rows]:
    return (Rows(batch) for batch in batches)


def _misread(job: Job, files: Sequence[DataFile]) -> Mapping[str, Mapping[str, Any]]:
    """The files of which the judged reader has columns for other values than they hold, with these."""
    if not faults.has(job.reader, faults.EMPTY_PARTITION_VALUE):
        return {}
    return {file.path: file.misread for file in files if file.misread}


def _faults_in_multiset(job: Job, files: Sequence[DataFile]) -> list[ReaderFault]:
    """The listed fault that explains a multiset, located by the expected rows that it concerns."""
    found: list[ReaderFault] = []
    for path, values in _misread(job, files).items():
        rows = sum(part.batch.num_rows for file in files if file.path == path for part in expected_rows(job, file))
        for name, value in values.items() if rows else ():
            type_ = str(pa.scalar(value).type)
            found.append(ReaderFault(job.reader, faults.EMPTY_PARTITION_VALUE, path, 0, name, rows, "null", type_))
    for file in files:
        tally = Tally(job.reader, file.path)
        for rows in expected_rows(job, file):
            assert rows.start is not None
            tally.add(differences(rows.batch, faults.soften(rows.batch), job.record), rows.start)
        found += tally.faults
    return found
