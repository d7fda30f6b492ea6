"""Staged files held against the files that they were made from."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakeevolve.replaying import canonical, counts, rewrites
from lakeevolve.replaying.checking import Checked, begin, check_file, take
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.evidence import FileEvidence
from lakeevolve.replaying.filehash import FileHash
from lakeevolve.replaying.multiset import Rows
from lakeevolve.replaying.sides import RAW_READER, Job, Unreadable, complete, expected_rows, guarded
from lakeevolve.tables.base import DataFile, Staged, StagedFile

#: Files to be rewritten, and those that were made from them.
Group = tuple[Sequence[DataFile], Sequence[StagedFile]]


@dataclass(slots=True)
class Judged:
    """What came of the files that were made from some sources."""

    sources: list[Checked] = field(default_factory=list)
    evidence: list[FileEvidence] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    rows: int = 0


def judge(job: Job, staged: Staged, group: Group) -> Judged:
    """Compare the files that were made from some sources with these, whose rows are counted on the way."""
    old, new = group
    checked: dict[str, Checked] = {}
    begun: list[bool] = []

    def counted() -> Iterator[Rows]:
        for file in old:
            one = begin(job, file)
            for rows in expected_rows(job, file):
                take(job, one, rows)
                yield rows
            one.note(counts.miscounted(job.store, file, one.rows))
            checked[file.path] = one

    def expected() -> Iterator[Rows]:
        # Only the first reading counts; others follow where something is wrong.
        if begun:
            return rewrites.side(job, old)()
        begun.append(True)
        return counted()

    found = Judged()
    try:
        actual = functools.partial(_raw, job, staged, new)
        found.rows, wrong = rewrites.compare(expected, actual, job, ordered=job.ordered)
        found.mismatches += wrong
        same = not wrong and len(checked) == len(old)
        for made in new:
            known = checked[old[0].path].hash if same and len(new) == len(old) == 1 else None
            found.evidence.append(_evidence(job, staged, made, known))
    except Unreadable as error:
        found.mismatches.append(error.mismatch)
    for file in old:
        found.sources.append(checked.get(file.path) or check_file(job, file, compare=False))
    return found


def _evidence(job: Job, staged: Staged, file: StagedFile, known: FileHash | None) -> FileEvidence:
    rows = known or FileHash()
    if known is None:
        for part in _raw(job, staged, [file]):
            rows.update(part.batch)
    return FileEvidence(file.path, job.folds.newest.number, False, rows.rows, rows.hex, tuple(file.sources))


def _raw(job: Job, staged: Staged, files: Sequence[StagedFile]) -> Iterator[Rows]:
    """The rows of staged files, one file after the other."""
    for file in files:
        offset = 0
        for batch in guarded(functools.partial(staged.raw, file), file.path, RAW_READER):
            whole = complete(canonical.normalise(batch), job.columns)
            yield Rows(whole, file.path, offset)
            offset += whole.num_rows
