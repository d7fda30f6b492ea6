"""Proof before the commit: what is staged reads what the resolutions say, and the data allows the steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakeevolve.engines.local import LocalEngine
from lakeevolve.model.schema import Schema
from lakeevolve.replaying import canonical, consumers, counts, faults, predicates, rewrites
from lakeevolve.replaying.checking import Checked, begin, check_file, take
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.evidence import FileEvidence, installed
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.filehash import FileHash
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.judging import check_filter, check_multiset
from lakeevolve.replaying.leafsums import LeafSum
from lakeevolve.replaying.multiset import Rows
from lakeevolve.replaying.preconditions import Broken, check_preconditions
from lakeevolve.replaying.result import OWN_READER, ReplayResult, make_evidence, named
from lakeevolve.replaying.sides import (
    RAW_READER,
    Expected,
    Job,
    Unreadable,
    complete,
    expected_rows,
    guarded,
)
from lakeevolve.replaying.why import explained
from lakeevolve.tables.base import DataFile, Evolution, Staged, StagedFile, Table, Version

__all__ = ["Broken", "check_preconditions", "prove_staged"]

Progress = Callable[[int, int], None]

#: Batches that are looked into, of each version, for values to filter by.
_PEEKED: Final = 2


def prove_staged(
    table: Table,
    staged: Staged,
    evolution: Evolution,
    versions: Sequence[Version],
    files: Sequence[DataFile] | None = None,
    *,
    protects: Sequence[Version] = (),
    contracts: Sequence[Any] = (),
    hint: Schema | None = None,
    engine: Any = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Prove a staged evolution before it is committed.

    A file that stays has to read through the staged metadata as the fold of its raw rows. A staged file has to hold
    the fold of the rows of its sources, in their order where the table keeps order. The whole, and the whole under a
    filter on each changed column, has to read as all of that together.

    Parameters
    ----------
    table:
        The table as it is.
    staged, evolution:
        What was staged, and what it was asked for.
    versions:
        The table's versions with the new one as the last.
    files:
        The live files; by default those that the table lists now.
    protects:
        Older versions whose readers have to be able to read every row as it will be (the versions that a mode with a
        forward direction protects).
    contracts:
        Consumers whose reader schemas every row has to resolve to.
    hint:
        The schema that columns of a table without a marker take their Avro types from; by default the target.
    engine:
        Who runs the files; by default threads.
    progress:
        Called with the number of files done and of files in all.

    Returns
    -------
    ReplayResult
        Its evidence holds, per staged file, the sources it was made from.

    Examples
    --------
    >>> prove_staged(table, staged, evolution, versions).ok  # doctest: +SKIP
    True
    """
    given = evolution.target if hint is None else hint
    live = table.files(hint=given) if files is None else tuple(files)
    folds = Folds(versions)
    proof = _Proof(table, staged, evolution, folds, live, given, engine or LocalEngine(), progress)
    old = consumers.of_versions(protects, folds.newest.schema)
    proof.asks((*old, *consumers.prepare(contracts, folds.newest.schema)))
    return proof.run()


@dataclass(slots=True)
class _Group:
    """What came of the files that were made from some sources."""

    sources: list[Checked] = field(default_factory=list)
    evidence: list[FileEvidence] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    rows: int = 0


class _Proof:
    """One proof while it runs."""

    def __init__(
        self,
        table: Table,
        staged: Staged,
        evolution: Evolution,
        folds: Folds,
        files: Sequence[DataFile],
        hint: Schema,
        engine: Any,
        progress: Progress | None,
    ) -> None:
        self.table, self.staged, self.folds, self.engine = table, staged, folds, engine
        self.progress = progress
        self.files = tuple(files)
        gone = {file.path for file in evolution.rewrite}
        self.staying = [file for file in files if file.path not in gone]
        self.rewritten = {file.path: file for file in evolution.rewrite}
        reader = OWN_READER[table.format][0]
        self.job = Job(
            folds,
            lambda file: table.raw(file, hint),
            staged.read,
            reader,
            table.ordered,
            table.foreign,
            softly=faults.has(reader, faults.NULL_LIST_OF_STRUCTS),
            anew=frozenset(gone),
            store=table,
        )
        self.mismatches: list[Mismatch] = []
        self.mismatched = 0
        self.reader_faults: list[ReaderFault] = []
        self.evidence: list[FileEvidence] = []
        self.asked: list[dict[str, Any]] = []

    def asks(self, readers: tuple[consumers.Consumer, ...]) -> None:
        """Have every row read by these consumers too."""
        self.job = replace(self.job, consumers=readers)
        self.note(consumers.refused(readers))

    def note(self, found: Sequence[Mismatch], count: int | None = None) -> None:
        self.mismatches += found
        self.mismatched += len(found) if count is None else count

    def run(self) -> ReplayResult:
        # A reader that keeps no order reads the table as a whole below; a file that stays is read once.
        at_once = not self.table.ordered
        self.job = replace(self.job, asked=self._filters(), sums=at_once or bool(self.rewritten))
        stay = self._files(functools.partial(check_file, self.job, compare=not at_once), self.staying, 0)
        # The rows of what is rewritten count for the filters and the whole.
        moved, rows = self._staged_files(len(stay))
        for one in [*stay, *moved]:
            self.note(one.mismatches, one.mismatched)
            self.reader_faults += one.reader_faults
        rows += sum(one.rows for one in stay)
        if all(one.readable for one in [*stay, *moved]):
            self._whole([*stay, *moved])
        self.evidence += [one.evidence for one in stay]
        found = tuple(explained(named(self.mismatches), self.folds, self.files))
        return ReplayResult(
            len(self.staying) + len(self.staged.files),
            rows,
            found,
            faults.merged(self.reader_faults),
            make_evidence(
                self.table,
                self.folds,
                self.evidence,
                found,
                readers=[self._verdict()],
                predicates=self.asked,
                consumers=[one.verdict({m.reader for m in self.mismatches}) for one in self.job.consumers],
                oracle={"staged": True},
            ),
            self.mismatched,
        )

    def _filters(self) -> tuple[predicates.Filter, ...]:
        newest = self.folds.newest
        if newest.number == self.folds.versions[0].number:
            return ()
        every = predicates.leaves(newest.schema.record)
        last = self.folds(self.folds.versions[-2].number).resolution
        assert last is not None
        changed = predicates.changed_leaves(last.roots, newest.schema.record)
        samples = predicates.Samples({path: every[path] for path in changed})
        for _, file in sorted({file.version: file for file in reversed(self.files)}.items()):
            try:
                for _, rows in zip(range(_PEEKED), expected_rows(self.job, file), strict=False):
                    samples.look(rows.batch, more=True)
            except Unreadable:
                continue
        return predicates.filters(samples.predicates())

    def _files(self, function: Callable[[Any], Checked], files: Sequence[DataFile], done: int) -> list[Checked]:
        found: list[Checked] = []
        for result in self.engine.map_unordered(function, files):
            found.append(result)
            self._progress(done + len(found))
        return sorted(found, key=lambda one: one.file.path)

    def _progress(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, len(self.files))

    def _staged_files(self, done: int) -> tuple[list[Checked], int]:
        """Compare staged files with their sources: what came of the sources, and the number of staged rows."""
        staged = {file.path: file for file in self.staged.files}
        groups = rewrites.components({path: file.sources for path, file in staged.items()})
        covered = {path for sources, _ in groups for path in sources}
        groups += [([path], []) for path in self.rewritten if path not in covered]
        known = []
        for sources, made in groups:
            unknown = [path for path in sources if path not in self.rewritten]
            if unknown:
                reason = "a staged file was made from a file that was not to be rewritten"
                self.note([Mismatch(unknown[0], None, "", "", "", reason, RAW_READER, "extra")])
            else:
                known.append(([self.rewritten[path] for path in sources], [staged[path] for path in made]))
        checked: dict[str, Checked] = {}
        rows = 0
        for group in self.engine.map_unordered(self._group, known):
            checked.update((one.file.path, one) for one in group.sources)
            self.note(group.mismatches)
            self.evidence += group.evidence
            rows += group.rows
            self._progress(done + len(checked))
        left = [file for path, file in self.rewritten.items() if path not in checked]
        found = [*checked.values(), *(check_file(self.job, file, compare=False) for file in left)]
        self.evidence.sort(key=lambda file: file.path)
        return sorted(found, key=lambda one: one.file.path), rows

    def _group(self, group: tuple[Sequence[DataFile], Sequence[StagedFile]]) -> _Group:
        """Compare the files that were made from some sources with these, whose rows are counted on the way."""
        old, new = group
        checked: dict[str, Checked] = {}
        begun: list[bool] = []

        def counted() -> Iterator[Rows]:
            for file in old:
                one = begin(self.job, file)
                for rows in expected_rows(self.job, file):
                    take(self.job, one, rows)
                    yield rows
                one.note(counts.miscounted(self.job.store, file, one.rows))
                checked[file.path] = one

        def expected() -> Iterator[Rows]:
            # Only the first reading counts; others follow where something is wrong.
            if begun:
                return rewrites.side(self.job, old)()
            begun.append(True)
            return counted()

        found = _Group()
        try:
            actual = functools.partial(self._raw, new)
            found.rows, wrong = rewrites.compare(expected, actual, self.job, ordered=self.table.ordered)
            found.mismatches += wrong
            same = not wrong and len(checked) == len(old)
            for made in new:
                known = checked[old[0].path].hash if same and len(new) == len(old) == 1 else None
                found.evidence.append(self._file_evidence(made, known))
        except Unreadable as error:
            found.mismatches.append(error.mismatch)
        for file in old:
            found.sources.append(checked.get(file.path) or check_file(self.job, file, compare=False))
        return found

    def _file_evidence(self, file: StagedFile, known: FileHash | None) -> FileEvidence:
        rows = known or FileHash()
        if known is None:
            for part in self._raw([file]):
                rows.update(part.batch)
        return FileEvidence(file.path, self.folds.newest.number, False, rows.rows, rows.hex, tuple(file.sources))

    def _raw(self, files: Sequence[StagedFile]) -> Iterator[Rows]:
        """The rows of staged files, one file after the other."""
        for file in files:
            offset = 0
            for batch in guarded(functools.partial(self.staged.raw, file), file.path, RAW_READER):
                whole = complete(canonical.normalise(batch), self.job.columns)
                yield Rows(whole, file.path, offset)
                offset += whole.num_rows

    def _whole(self, checked: Sequence[Checked]) -> None:
        if self.job.sums:
            total = sum((one.whole for one in checked), Expected())
            self.note(check_multiset(self.job, self.files, total, None, None, self.reader_faults))
        known = {(m.file, m.row) for m in self.mismatches}

        def judge(index: int) -> tuple[int, list[Mismatch], list[ReaderFault]]:
            met = sum((one.met[index] for one in checked), LeafSum())
            excused: list[ReaderFault] = []
            found = check_filter(self.job, self.files, met, None, self.job.asked[index], excused)
            return index, found, excused

        judged = self.engine.map_unordered(judge, range(len(self.job.asked)))
        for index, found, excused in sorted(judged, key=lambda one: one[0]):
            self.reader_faults += excused
            self.note([m for m in found if (m.file, m.row) not in known])
            predicate = self.job.asked[index].predicate
            self.asked.append(
                {
                    "path": predicate.path,
                    "op": predicate.op,
                    "rows": sum(one.met[index].count for one in checked),
                    "verdict": "differs" if found else "reader-fault" if excused else "equal",
                }
            )

    def _verdict(self) -> Mapping[str, Any]:
        name, distribution = OWN_READER[self.table.format]
        differs = any(m.reader in (name, RAW_READER) for m in self.mismatches)
        verdict = "differs" if differs else "reader-fault" if self.reader_faults else "equal"
        return {"name": name, "version": installed(distribution), "verdict": verdict}
