"""Proof before the commit: what is staged reads what the resolutions say, and the data allows the steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeevolve.engines import Engine, open_engine
from lakeevolve.model.schema import Schema
from lakeevolve.replaying import consumers, faults, groups, predicates, rewrites
from lakeevolve.replaying.checking import Checked, check_file
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.evidence import FileEvidence, installed
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.judging import check_filter, check_multiset
from lakeevolve.replaying.leafsums import LeafSum
from lakeevolve.replaying.preconditions import Broken, check_preconditions
from lakeevolve.replaying.result import OWN_READER, ReplayResult, make_evidence, named
from lakeevolve.replaying.sides import (
    RAW_READER,
    Expected,
    Job,
    Unreadable,
    expected_rows,
)
from lakeevolve.replaying.why import explained
from lakeevolve.tables.base import DataFile, Evolution, Staged, Table, Version

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
        Who runs the files: what :func:`lakeevolve.engines.open_engine` takes; by default threads.
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
    with open_engine(engine) as opened:
        proof = _Proof(table, staged, evolution, folds, live, given, opened, progress)
        old = consumers.of_versions(protects, folds.newest.schema)
        proof.asks((*old, *consumers.prepare(contracts, folds.newest.schema)))
        return proof.run()


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
        engine: Engine,
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
            functools.partial(table.raw, hint=hint),
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
        sets = rewrites.components({path: file.sources for path, file in staged.items()})
        covered = {path for sources, _ in sets for path in sources}
        sets += [([path], []) for path in self.rewritten if path not in covered]
        known: list[groups.Group] = []
        for sources, made in sets:
            unknown = [path for path in sources if path not in self.rewritten]
            if unknown:
                reason = "a staged file was made from a file that was not to be rewritten"
                self.note([Mismatch(unknown[0], None, "", "", "", reason, RAW_READER, "extra")])
            else:
                known.append(([self.rewritten[path] for path in sources], [staged[path] for path in made]))
        checked: dict[str, Checked] = {}
        rows = 0
        for group in self.engine.map_unordered(functools.partial(groups.judge, self.job, self.staged), known):
            checked.update((one.file.path, one) for one in group.sources)
            self.note(group.mismatches)
            self.evidence += group.evidence
            rows += group.rows
            self._progress(done + len(checked))
        left = [file for path, file in self.rewritten.items() if path not in checked]
        found = [*checked.values(), *(check_file(self.job, file, compare=False) for file in left)]
        self.evidence.sort(key=lambda file: file.path)
        return sorted(found, key=lambda one: one.file.path), rows

    def _whole(self, checked: Sequence[Checked]) -> None:
        if self.job.sums:
            total = sum((one.whole for one in checked), Expected())
            self.note(check_multiset(self.job, self.files, total, None, None, self.reader_faults))
        known = {(m.file, m.row) for m in self.mismatches}

        met = [sum((one.met[index] for one in checked), LeafSum()) for index in range(len(self.job.asked))]
        judged = self.engine.map_unordered(functools.partial(_under_filter, self.job, self.files, met), range(len(met)))
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


def _under_filter(
    job: Job, files: Sequence[DataFile], met: Sequence[LeafSum], index: int
) -> tuple[int, list[Mismatch], list[ReaderFault]]:
    """What the whole reads as under one of the filters."""
    excused: list[ReaderFault] = []
    return index, check_filter(job, files, met[index], None, job.asked[index], excused), excused
