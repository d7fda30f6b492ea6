"""The proof of a rewrite: the rows of the files before it, folded, are the rows of the files that it produced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeevolve.errors import CatalogUnavailable, LakeEvolveError, ResolutionError
from lakeevolve.model.schema import Schema
from lakeevolve.redaction import public_path
from lakeevolve.replaying import digests
from lakeevolve.replaying.compare import Mismatch, aligned, differences, mismatches
from lakeevolve.replaying.digests import Sum
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.multiset import Rows, Side, locate
from lakeevolve.replaying.sides import (
    RAW_READER,
    Batches,
    Job,
    Unreadable,
    expected_rows,
)
from lakeevolve.tables.base import DataFile, Predicate, Table, Version

_REWRITING: Final = frozenset({"rewrite", "backfill"})


@dataclass(frozen=True, slots=True)
class Repeated:
    """One version's rewrite proved again, or ``note`` why not.

    ``groups`` counts the sets of files that were compared by themselves: one of each file and its sources where a map
    tells, one of all otherwise.
    """

    version: int
    sources: int = 0
    produced: int = 0
    groups: int = 0
    rows: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        verdict = "not-repeated" if self.note else "differs" if self.mismatches else "equal"
        return {
            "version": self.version,
            "sources": self.sources,
            "produced": self.produced,
            "groups": self.groups,
            "rows": self.rows,
            "verdict": verdict,
        }


def compare(expected: Side, actual: Side, job: Job, *, ordered: bool = False) -> tuple[int, list[Mismatch]]:
    """Compare the rows of a rewrite's sources, folded, with those of the files that it produced.

    The number of rows that were produced, and the mismatches, which name the produced file, its row and the path. With
    *ordered* the rows have to come in the same order.
    """
    rows = _side_by_side(expected(), actual(), job)
    if rows is not None:
        return rows, []
    wanted, made, found = _sums(expected(), actual(), job)
    if wanted == made and (not found or not ordered):
        return made.count, []
    if ordered and wanted.count == made.count and wanted != made and found:
        return made.count, found
    located = locate(expected, actual, job.record, label="actual", reader=RAW_READER)
    return made.count, list(located.mismatches) or found


def _side_by_side(expected: Iterable[Rows], actual: Iterable[Rows], job: Job) -> int | None:
    """How many rows there are on both sides, the same in the same order; None where they differ."""
    count = 0
    for one, two in aligned((rows.batch for rows in expected), (rows.batch for rows in actual)):
        if one is None or two is None or differences(one, two, job.record):
            return None
        count += one.num_rows
    return count


def _sums(expected: Iterable[Rows], actual: Iterable[Rows], job: Job) -> tuple[Sum, Sum, list[Mismatch]]:
    """The digests of both sides, and where they differ row by row while they run side by side."""
    totals = [Sum(), Sum()]
    found: list[Mismatch] = []
    places: list[Rows] = []

    def counted(index: int, side: Iterable[Rows]) -> Batches:
        for rows in side:
            totals[index] += Sum.of(digests.row_digests(rows.batch))
            if index:
                places.append(rows)
            yield rows.batch

    taken = 0
    for one, two in aligned(counted(0, expected), counted(1, actual)):
        if one is None or two is None:
            places.clear()
            continue
        while places and taken >= places[0].batch.num_rows:
            taken -= places.pop(0).batch.num_rows
        where = places[0]
        if len(found) < 100:
            for difference in differences(one, two, job.record):
                first = difference.rows.slice(0, len(difference.expected)).to_pylist()
                numbers = where.numbers
                assert numbers is not None
                named = [(where.file, numbers[taken + row].as_py()) for row in first]
                found += mismatches(difference, named, RAW_READER)
        taken += one.num_rows
    return totals[0], totals[1], found


def repeat(table: Table, folds: Folds, hint: Schema | None, sources: Mapping[str, Sequence[str]]) -> Iterator[Repeated]:
    """Prove every rewrite again whose previous state still exists.

    Parameters
    ----------
    sources:
        Each produced file with the files it was made from, where evidence tells; else all that the rewrite replaced
        are compared with all that it produced, as one multiset.
    """
    for version in folds.versions[1:]:
        found = _repeat(table, folds, hint, version, sources)
        if found is not None:
            yield found


def positions(table: Table, version: Version) -> tuple[int | None, int] | None:
    """The states right before and right after the commit that brought a version."""
    landed = getattr(table, "landed", None)
    if landed is not None:
        found: tuple[int | None, int] | None = landed(version)
        return found
    # A Delta version is recorded with its own commit.
    if table.format != "delta" or not version.commit:
        return None
    return version.commit - 1, version.commit


def _repeat(
    table: Table, folds: Folds, hint: Schema | None, version: Version, sources: Mapping[str, Sequence[str]]
) -> Repeated | None:
    number = version.number
    wrote = _REWRITING & set(version.routes.values()) or "default" in version.fills.values()
    if version.derived or not wrote:
        return None
    try:
        between = positions(table, version)
        if between is None:
            return None
        before, after = between
        then = {file.path: file for file in table.files(before, hint)} if before is not None else {}
        now = {file.path: file for file in table.files(after, hint)}
    except CatalogUnavailable:
        raise
    except LakeEvolveError as error:
        return Repeated(number, note=f"the rewrite for version {number} was not repeated: {error.what}")
    produced = [file for path, file in now.items() if path not in then]
    replaced = [file for path, file in then.items() if path not in now]
    if not replaced:
        # The table held no rows to rewrite.
        return None
    if any(file.version >= number for file in replaced):
        told = "rows that others added to the new columns before these were filled were filled with them"
        return Repeated(number, len(replaced), len(produced), note=f"version {number} was not proved again: {told}")
    step = Folds(folds.versions[:number])
    job = Job(step, lambda file: table.raw(file, hint), _nobody, RAW_READER, False, table.foreign)
    gone = _unreadable(job, replaced)
    if gone is not None:
        return Repeated(
            number,
            len(replaced),
            len(produced),
            note=f"the rewrite for version {number} was not repeated: the state before it is gone ({gone})",
        )
    rows = 0
    found: list[Mismatch] = []
    by_source = groups(replaced, produced, sources)
    try:
        for old, new in by_source:
            made, wrong = compare(side(job, old), side(job, new), job)
            rows += made
            found += wrong
    except Unreadable as error:
        found.append(error.mismatch)
    except ResolutionError as error:
        return Repeated(number, note=f"the rewrite for version {number} was not repeated: {error.what}")
    return Repeated(number, len(replaced), len(produced), len(by_source), rows, tuple(found))


def side(job: Job, files: Sequence[DataFile]) -> Callable[[], Iterator[Rows]]:
    """The rows of files, one file after the other."""

    def read() -> Iterator[Rows]:
        for file in files:
            yield from expected_rows(job, file)

    return read


def _unreadable(job: Job, files: Sequence[DataFile]) -> str | None:
    """Why the state before a rewrite cannot be read: its files may be vacuumed or expired by now."""
    for file in files:
        try:
            next(expected_rows(job, file), None)
        except Unreadable as error:
            return error.mismatch.reason
    return None


def groups(
    replaced: Sequence[DataFile], produced: Sequence[DataFile], sources: Mapping[str, Sequence[str]]
) -> list[tuple[list[DataFile], list[DataFile]]]:
    """What was made from what: files that share sources belong together, and what no map tells is one group.

    Evidence keeps paths without the values of partitions, so that two files may have the same: then none is told.
    """
    known = {public_path(made): [public_path(path) for path in ins] for made, ins in sources.items()}
    old = {public_path(file.path): file for file in replaced}
    new = {public_path(file.path): file for file in produced}
    if len(old) < len(replaced) or len(new) < len(produced) or not all(path in known for path in new):
        return [(list(replaced), list(produced))]
    joined = components({path: known[path] for path in new})
    found = [([old[path] for path in ins if path in old], [new[path] for path in outs]) for ins, outs in joined]
    covered = {path for ins, _ in joined for path in ins}
    rest = [file for path, file in old.items() if path not in covered]
    return [*found, *([(rest, [])] if rest else [])]


def components(sources: Mapping[str, Sequence[str]]) -> list[tuple[list[str], list[str]]]:
    """Produced files that share a source, joined: (sources, produced), each in the order in which they came."""
    groups_: list[tuple[list[str], list[str]]] = []
    for made, ins in sources.items():
        touching = [group for group in groups_ if set(group[0]) & set(ins)]
        merged: tuple[list[str], list[str]] = ([], [])
        for group in touching:
            merged[0].extend(group[0])
            merged[1].extend(group[1])
            groups_.remove(group)
        merged[0].extend(path for path in ins if path not in merged[0])
        merged[1].append(made)
        groups_.append(merged)
    return groups_


def _nobody(_file: DataFile | None, _predicate: Predicate | None, _columns: Sequence[str] | None) -> Batches:
    raise AssertionError("a rewrite is compared on raw files")
