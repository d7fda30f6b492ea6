"""Judging files in other processes: what is sent there, and what comes back, as plain data.

The functions run on an engine whose workers share nothing with the process that asked. Everything that a file comes
to adds up, so where and in which order files are judged makes no difference to the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from lakeevolve.errors import UnsupportedTable
from lakeevolve.replaying.checking import Checked, check_file
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.judging import check_filter
from lakeevolve.replaying.leafsums import LeafSum
from lakeevolve.replaying.oracle import Said
from lakeevolve.replaying.predicates import Filter
from lakeevolve.replaying.sides import Job
from lakeevolve.tables.base import DataFile


@dataclass(slots=True)
class Answer:
    """What came of one file, and what the oracle said of its rows."""

    checked: Checked
    said: Said = field(default_factory=lambda: Said([], Counter(), Counter()))


def check(job: Job, compare: bool, file: DataFile) -> Answer:
    """:func:`lakeevolve.replaying.checking.check_file` in another process."""
    if job.oracle is None:
        return Answer(check_file(job, file, compare))
    own = job.oracle.alone()
    return Answer(check_file(replace(job, oracle=own), file, compare), own.said)


@dataclass(frozen=True, slots=True)
class Asked:
    """One file to be asked for under filters; ``met`` is what there must be under each."""

    file: DataFile
    met: Sequence[LeafSum]

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def bytes(self) -> int:
        return self.file.bytes


#: Of a filter: what differs, None where it cannot be judged file by file; and the listed faults that show.
Judged = tuple[list[Mismatch] | None, list[ReaderFault]]


def ask(job: Job, filters: Sequence[Filter], item: Asked) -> tuple[str, list[Judged]]:
    """Ask for one file under each filter."""
    found: list[Judged] = []
    for met, one in zip(item.met, filters, strict=True):
        excused: list[ReaderFault] = []
        try:
            wrong: list[Mismatch] | None = check_filter(job, [item.file], met, item.file, one, excused)
        except UnsupportedTable:
            wrong, excused = None, []
        found.append((wrong, excused))
    return item.path, found


def merged(
    answers: Iterable[tuple[str, list[Judged]]], filters: int
) -> list[tuple[int, list[Mismatch] | None, list[ReaderFault]]]:
    """What the files came to under each filter, by the filter's place."""
    of_files = [judged for _, judged in sorted(answers, key=lambda answer: answer[0])]
    made: list[tuple[int, list[Mismatch] | None, list[ReaderFault]]] = []
    for index in range(filters):
        found = [judged[index] for judged in of_files]
        wrong = None if any(w is None for w, _ in found) else [m for w, _ in found for m in w or ()]
        made.append((index, wrong, [fault for _, excused in found for fault in excused]))
    return made
