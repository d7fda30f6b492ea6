"""Proof before the commit: what is staged reads what the resolutions say, and the data allows the steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeevolve.engines.local import LocalEngine
from lakeevolve.model.schema import Schema
from lakeevolve.replay import canonical, consumers, digests, faults, predicates, rewrites
from lakeevolve.replay.checking import Checked, check_file, check_multiset
from lakeevolve.replay.compare import Mismatch
from lakeevolve.replay.digests import Sum
from lakeevolve.replay.evidence import FileEvidence, installed
from lakeevolve.replay.faults import ReaderFault
from lakeevolve.replay.fold import Folds
from lakeevolve.replay.multiset import Rows
from lakeevolve.replay.preconditions import Broken, check_preconditions
from lakeevolve.replay.result import OWN_READER, ReplayResult, make_evidence, named
from lakeevolve.replay.sides import (
    RAW_READER,
    Expected,
    Job,
    Unreadable,
    complete,
    expected_rows,
    guarded,
    numbered,
)
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
        self.job = replace(self.job, asked=self._filters())
        # A reader that keeps no order reads the table as a whole below; a file that stays is read once.
        at_once = not self.table.ordered
        stay = self._map(functools.partial(check_file, self.job, compare=not at_once), self.staying, 0)
        # The rows of what is rewritten count for the filters and the whole.
        expect = functools.partial(check_file, self.job, compare=False)
        moved = self._map(expect, list(self.rewritten.values()), len(stay))
        for one in [*stay, *moved]:
            self.note(one.mismatches, one.mismatched)
            self.reader_faults += one.reader_faults
        rows = sum(one.whole.exact.count for one in stay) + self._staged_files()
        if all(one.readable for one in [*stay, *moved]):
            self._whole([*stay, *moved], at_once or bool(self.rewritten))
        self.evidence += [one.evidence for one in stay]
        found = named(self.mismatches)
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

    def _filters(self) -> tuple[Any, ...]:
        newest = self.folds.newest
        if newest.number == self.folds.versions[0].number:
            return ()
        every = predicates.leaves(newest.schema.record)
        last = self.folds(self.folds.versions[-2].number).resolution
        assert last is not None
        changed = predicates.changed_leaves(last.root, newest.schema.record)
        samples = predicates.Samples({path: every[path] for path in changed})
        for _, file in sorted({file.version: file for file in reversed(self.files)}.items()):
            try:
                for _, rows in zip(range(_PEEKED), expected_rows(self.job, file), strict=False):
                    samples.look(rows.batch)
            except Unreadable:
                continue
        return samples.predicates()

    def _map(self, function: Callable[[Any], Any], files: Sequence[DataFile], done: int) -> list[Checked]:
        found: list[Checked] = []
        for result in self.engine.map_unordered(function, files):
            found.append(result)
            if self.progress is not None:
                self.progress(done + len(found), len(self.files))
        return sorted(found, key=lambda one: one.file.path)

    def _staged_files(self) -> int:
        """Compare staged files with their sources; the number of staged rows."""
        staged = {file.path: file for file in self.staged.files}
        groups = rewrites.components({path: file.sources for path, file in staged.items()})
        covered = {path for sources, _ in groups for path in sources}
        groups += [([path], []) for path in self.rewritten if path not in covered]
        rows = 0
        for sources, made in groups:
            unknown = [path for path in sources if path not in self.rewritten]
            if unknown:
                reason = "a staged file was made from a file that was not to be rewritten"
                self.note([Mismatch(unknown[0], None, "", "", "", reason, RAW_READER, "extra")])
                continue
            old = [self.rewritten[path] for path in sources]
            new = [staged[path] for path in made]
            try:
                total, wrong = rewrites.compare(
                    rewrites.side(self.job, old),
                    functools.partial(self._raw, new),
                    self.job,
                    ordered=self.table.ordered,
                )
                self.note(wrong)
                rows += total.count
                for file in new:
                    self.evidence.append(self._file_evidence(file, total if len(new) == 1 else None))
            except Unreadable as error:
                self.note([error.mismatch])
        return rows

    def _file_evidence(self, file: StagedFile, total: Sum | None) -> FileEvidence:
        if total is None:
            total = sum((Sum.of(digests.row_digests(rows.batch)) for rows in self._raw([file])), Sum())
        return FileEvidence(file.path, self.folds.newest.number, False, total.count, total.hex, tuple(file.sources))

    def _raw(self, files: Sequence[StagedFile]) -> Iterator[Rows]:
        """The rows of staged files, one file after the other."""
        for file in files:
            offset = 0
            for batch in guarded(functools.partial(self.staged.raw, file), file.path, RAW_READER):
                whole = complete(canonical.normalise(batch), self.job.columns)
                yield Rows(whole, file.path, numbered(offset, whole.num_rows))
                offset += whole.num_rows

    def _whole(self, checked: Sequence[Checked], unfiltered: bool) -> None:
        if unfiltered:
            total = sum((one.whole for one in checked), Expected())
            self.note(check_multiset(self.job, self.files, total, None, None, self.reader_faults))
        known = {(m.file, m.row) for m in self.mismatches}
        for index, predicate in enumerate(self.job.asked):
            total = sum((one.filtered[index] for one in checked), Expected())
            inner = sum((one.inner[index] for one in checked), Expected())
            excused: list[ReaderFault] = []
            found = check_multiset(self.job, self.files, total, None, predicate, excused, inner)
            self.reader_faults += excused
            self.note([m for m in found if (m.file, m.row) not in known])
            self.asked.append(
                {
                    "path": predicate.path,
                    "op": predicate.op,
                    "rows": total.exact.count,
                    "verdict": "differs" if found else "reader-fault" if excused else "equal",
                }
            )

    def _verdict(self) -> Mapping[str, Any]:
        name, distribution = OWN_READER[self.table.format]
        differs = any(m.reader in (name, RAW_READER) for m in self.mismatches)
        verdict = "differs" if differs else "reader-fault" if self.reader_faults else "equal"
        return {"name": name, "version": installed(distribution), "verdict": verdict}
