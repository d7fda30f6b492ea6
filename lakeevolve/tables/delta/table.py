"""A Delta table behind the protocol of :mod:`lakeevolve.tables.base`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from lakeevolve.errors import CommitConflict, LakeEvolveError, TableError, TableNotFound, UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.change import Change
from lakeevolve.model.origin import base_path
from lakeevolve.model.renames import as_aliases
from lakeevolve.model.schema import Schema
from lakeevolve.rules.findings import Finding
from lakeevolve.tables.base import (
    Capability,
    DataFile,
    Evolution,
    Fill,
    MarkerEntry,
    Predicate,
    Route,
    Staged,
    State,
    Stored,
    Version,
    Write,
)
from lakeevolve.tables.delta import capability as routes
from lakeevolve.tables.delta import commit as commits
from lakeevolve.tables.delta import features
from lakeevolve.tables.delta.describing import described, state_of
from lakeevolve.tables.delta.elsewhere import sent
from lakeevolve.tables.delta.evolve import Alteration, Wanted, alteration, evolve
from lakeevolve.tables.delta.filling import as_filled, by_files, defaulted, filled_by_update, refuse_mixed
from lakeevolve.tables.delta.history import View, build, filling_commit, marker_entries, pending_plan
from lakeevolve.tables.delta.infer import holds_column, infer_version, uses_symbol
from lakeevolve.tables.delta.log import Add, Live, Protocol, Snapshot, log_end, read_snapshot
from lakeevolve.tables.delta.raw import Layout, empty_values, footer, read_file, relative, stored
from lakeevolve.tables.delta.restore import refuse_vacuumed, retention, writes
from lakeevolve.tables.delta.rewriting import delete
from lakeevolve.tables.delta.scan import literal_of, read_table, scratch, sql
from lakeevolve.tables.delta.schema import derive
from lakeevolve.tables.delta.spark import quoted
from lakeevolve.tables.delta.stage import DeltaStaged, evaluate, rewrite
from lakeevolve.tables.delta.store import Address, guard

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = "table"


class Table:
    """A live Delta table; see :class:`lakeevolve.tables.base.Table`."""

    format: Literal["delta"] = "delta"
    ordered = False

    def __init__(self, address: Address, *, uri: str | None = None) -> None:
        self.address = address
        self._uri = uri or address.uri
        self._lock = threading.Lock()
        self._left_out: tuple[str, ...] = ()
        self._resumed: str | None = None
        self._read()

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(self.address, self._snapshot.version, self._left_out)

    def __repr__(self) -> str:
        return f"<Delta table {self.uri} at version {self._snapshot.version}>"

    @property
    def uri(self) -> str:
        return self._uri

    # Reading --------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the log anew, unless nothing was committed; a table that was opened at a version stays there."""
        if self._end is None or log_end(self._fs, self._snapshot.version) != self._end:
            self._read()

    def leave_out(self, patterns: Sequence[str]) -> None:
        if tuple(patterns) != self._left_out:
            self._left_out = tuple(patterns)
            self._views.clear()
            self._listed.clear()

    def _read(self) -> None:
        self._handle = self.address.open(self.address.version)
        self._fs = self.address.files(self._handle)
        version = self._handle.version()
        self._end = log_end(self._fs, version)
        self._snapshot = read_snapshot(self._fs, version, self.uri)
        self._views: dict[str | None, View] = {}
        self._listed: dict[str | None, tuple[DataFile, ...]] = {}

    @property
    def schema(self) -> Schema:
        return self._view(None).newest.schema

    @property
    def foreign(self) -> tuple[str, ...]:
        return self._view(None).foreign

    @property
    def state(self) -> State:
        return state_of(self._snapshot)

    def derived(self, hint: Schema | None = None, renames: Mapping[str, str] | None = None) -> Schema:
        metadata = self._snapshot.metadata
        return derive(
            metadata.struct, name=metadata.name or _NAME, hint=hint, renames=renames, left_out=self._left_out
        ).schema

    def history(self, hint: Schema | None = None) -> tuple[Version, ...]:
        return self._view(hint).versions

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        view = self._view(hint)
        if position is not None and position != self._snapshot.version:
            return self._list(view, self._at(position))
        key = None if hint is None else hint.digest
        if key not in self._listed:
            self._listed[key] = self._list(view, self._snapshot)
        return self._listed[key]

    def _list(self, view: View, snapshot: Snapshot) -> tuple[DataFile, ...]:
        at = cache(view.at)
        found = [self._file(live, at(live.added), view, snapshot) for live in snapshot.files.values()]
        return tuple(sorted(found, key=lambda f: (-1 if f.added is None else f.added, f.path)))

    def landed(self, version: Version) -> tuple[int | None, int] | None:
        if version.plan is None or not version.commit:
            return None
        # An evolution that writes data is one commit, and that commit brings the version; or one of its own fills what
        # the version added.
        wrote = {"rewrite", "backfill"} & set(version.routes.values())
        commit = version.commit if wrote else filling_commit(self._snapshot.commits, version.plan)
        return None if commit is None else (commit - 1, commit)

    def live(self, file: DataFile) -> int | None:
        return self._add(file).live

    def stored(self, file: DataFile) -> Stored:
        return stored(self._fs, file.path, self.uri)

    def raw(self, file: DataFile, hint: Schema | None = None) -> Iterator[pa.RecordBatch]:
        features.refuse_unreadable(self._snapshot.protocol, self.uri)
        view = self._view(hint)
        add = self._add(file)
        layout = self._layout(view, file.version)
        coming = view.coming
        fields = filled_by_update(coming) if coming is not None and coming.number == file.version else ()
        for batch in read_file(self._fs, file.path, layout, add.partition, self._keep(add)):
            yield as_filled(batch, fields)

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        features.refuse_unreadable(self._snapshot.protocol, self.uri)
        view = self._view(None)
        condition = None if predicate is None else sql(predicate, view.newest.schema, self.uri)
        layout = replace(self._layout(view, view.newest.number), struct=self._snapshot.metadata.struct)
        if file is None:
            yield from read_table(self._handle, layout, condition, columns)
            return
        alone = scratch(self.address, self._fs, self._snapshot.protocol, self._snapshot.metadata, [self._add(file)])
        try:
            yield from read_table(alone.open(), layout, condition, columns)
        finally:
            alone.close()

    def column(self, file: DataFile, name: str, hint: Schema | None = None) -> Iterator[pa.Array]:
        """One top-level column of a file's live rows, as :meth:`raw` gives it; nothing where its version has none."""
        features.refuse_unreadable(self._snapshot.protocol, self.uri)
        layout, add = self._layout(self._view(hint), file.version), self._add(file)
        field = layout.record.field(name)
        if field is not None:
            alone = replace(layout, record=replace(layout.record, fields=(field,)), foreign=())
            for batch in read_file(self._fs, file.path, alone, add.partition, self._keep(add)):
                yield batch.column(0)

    def _view(self, hint: Schema | None) -> View:
        key = None if hint is None else hint.digest
        with self._lock:
            if key not in self._views:
                name = self._snapshot.metadata.name or _NAME
                self._views[key] = build(self._snapshot, name=name, where=self.uri, hint=hint, left_out=self._left_out)
            return self._views[key]

    def _at(self, position: int) -> Snapshot:
        if not 0 <= position <= self._snapshot.version:
            raise TableNotFound(
                f"the table has no version {position}", where=self.uri, hint=f"the newest is {self._snapshot.version}"
            )
        return read_snapshot(self._fs, position, self.uri)

    def _file(self, live: Live, version: Version | None, view: View, snapshot: Snapshot) -> DataFile:
        add = live.add
        path = relative(add.path, self.uri)
        rows = add.rows
        number = version.number if version is not None else None
        coming = view.coming
        if coming is not None and coming.plan == self._resumed and (live.added or 0) > (coming.commit or 0):
            number = coming.number
        if number is None or rows is None:
            held, count = footer(self._fs, path, self.uri)
            rows = count if rows is None else rows
            if number is None:
                oldest = min((c.version for c in snapshot.commits), default=0)
                number = infer_version(view, held, oldest, snapshot.metadata)
        misread = empty_values(snapshot.metadata, add.partition)
        return DataFile(path, rows, add.size, number, live.added is None, live.added, add, misread)

    def _add(self, file: DataFile) -> Add:
        if isinstance(file.handle, Add):
            return file.handle
        for live in self._snapshot.files.values():
            if relative(live.add.path, self.uri) == file.path:
                return live.add
        raise TableError("the file is no live file of the table", where=f"{self.uri}, {file.path}", hint="list anew")

    def _layout(self, view: View, number: int) -> Layout:
        metadata = self._snapshot.metadata
        by: Literal["id", "physical", "name"] = "name"
        if features.mapped(metadata):
            by = "id" if features.by_id(metadata) else "physical"
        coming = view.coming if number > len(view.versions) else None
        return Layout(
            (view.versions[number - 1] if coming is None else coming).schema.record,
            view.struct(number) if coming is None else metadata.struct,
            tuple(c for c in metadata.struct.columns if c.name in view.foreign),
            metadata.partition_physical,
            by,
            self.uri,
        )

    def _keep(self, add: Add) -> pa.Array | None:
        """For each row of a file, whether its deletion vector leaves it; None where it has none."""
        import pyarrow as pa

        if not add.vector:
            return None
        alone = scratch(self.address, self._fs, self._snapshot.protocol, self._snapshot.metadata, [add])
        try:
            with guard(self.uri, "a deletion vector cannot be read"):
                found = pa.RecordBatchReader.from_stream(alone.open().deletion_vectors()).read_all()
                masks = found.column("selection_vector").combine_chunks()
        finally:
            alone.close()
        if len(masks) != 1:
            raise TableError("a deletion vector cannot be read", where=f"{self.uri}, {add.path}")
        values = masks.flatten()
        return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values

    # Planning -------------------------------------------------------------------------------------------------------

    def capability(
        self,
        change: Change,
        base: Schema,
        target: Schema,
        fills: Mapping[str, Fill],
        renames: Mapping[str, str] | None = None,
    ) -> Capability:
        return routes.capability(self._facts(base, target, renames or {}), change, base, target, fills)

    def _facts(self, base: Schema, target: Schema, renames: Mapping[str, str]) -> routes.Facts:
        snapshot = self._snapshot
        hint = as_aliases(target, {old: new for new, old in renames.items()})

        def earlier(path: str) -> str | None:
            return base_path(path, base.root, target.root, renames)

        owned = {f.name for f in base.fields}
        return routes.Facts(
            f"delta.{quoted(self.address.public)}",
            snapshot.protocol,
            snapshot.metadata,
            tuple(c.name for c in snapshot.metadata.struct.columns if c.name not in owned),
            held=lambda path: holds_column(self, earlier(paths.parent(path)), paths.leaf(path), hint),
            uses=lambda path, symbol: uses_symbol(self, earlier(path), symbol, hint),
            unevaluable=self._unevaluable,
            vectors=lambda: any(live.add.vector for live in snapshot.files.values()),
            pending=pending_plan(snapshot.commits) is not None,
        )

    def _unevaluable(self) -> str | None:
        for name, expression in features.conditions(self._snapshot.metadata):
            try:
                evaluate(self._handle, expression, name, self.uri, rows=1)
            except TableError as error:
                return f"{error.what}; {error.hint}"
        return None

    def combine(self, changes: Sequence[tuple[Change, Capability]]) -> Sequence[tuple[Change, Capability]]:
        return routes.combine(changes)

    def must_rewrite(
        self,
        evolution_routes: Sequence[tuple[Change, Route]],
        files: Iterable[DataFile],
        fills: Mapping[str, Fill] | None = None,
    ) -> tuple[DataFile, ...]:
        """All live files, if any change rewrites: an overwrite replaces them all; or those of before, where columns
        that are added first are filled by file."""
        if any(route in ("rewrite", "backfill") for _, route in evolution_routes):
            return tuple(files)
        coming = self._view(None).coming
        since = None if coming is None else coming.number
        filled = by_files(defaulted(evolution_routes, fills or {}))
        return tuple(file for file in files if file.version != since) if filled else ()

    # Evolving -------------------------------------------------------------------------------------------------------

    def stage(self, evolution: Evolution) -> Staged:
        snapshot = self._snapshot
        features.refuse_unreadable(snapshot.protocol, self.uri)
        self._refuse_pinned()
        reason = features.unwritable(snapshot.protocol, snapshot.metadata)
        if reason is not None:
            raise UnsupportedTable("the table cannot be changed from here", where=self.uri, hint=reason)
        wanted = evolve(snapshot.metadata.struct, evolution)
        live = [found.add for found in snapshot.files.values()]
        sources = {relative(add.path, self.uri): add for add in live}
        if any(route in ("rewrite", "backfill") for _, route in evolution.changes):
            self._refuse_incomplete(evolution, sources)
            return rewrite(self.address, self._fs, snapshot, evolution, wanted, sources)
        how = alteration(snapshot.metadata.struct, wanted.struct)
        if how is None:
            raise TableError(
                "the evolution cannot be reached by metadata alone",
                where=self.uri,
                hint="plan again: the table has changed, or the routes of the plan are not those of this table",
            )
        if not evolution.changes:
            # The schema is recorded, and nothing else: no column gets a text that it had not.
            how = replace(how, texts={})
        metadata = replace(snapshot.metadata, struct=how.result)
        protocol = commits.protocol_after(snapshot.protocol, how.result)
        fields = defaulted(evolution.changes, evolution.fills)
        if by_files(fields):
            return self._stage_filling(evolution, wanted, sources, (how, protocol))
        before = snapshot.metadata.struct
        updates = {change.field.name: literal_of(change.field) or "NULL" for change in fields}
        return DeltaStaged(
            self.address,
            self._fs,
            snapshot.version,
            before,
            protocol,
            metadata,
            evolution,
            how,
            live=tuple(live),
            updates=updates,
        )

    def _stage_filling(
        self, evolution: Evolution, wanted: Wanted, sources: Mapping[str, Add], filling: tuple[Alteration, Protocol]
    ) -> DeltaStaged:
        if any(file.path not in sources for file in evolution.rewrite):
            raise CommitConflict(
                "files that were to be rewritten are gone", where=self.uri, hint="list the live files anew"
            )
        if any(add.vector for add in sources.values()):
            raise UnsupportedTable(
                "columns cannot be filled in a commit of their own where files have deletion vectors",
                where=self.uri,
                hint="leave out the route metadata: a rewrite in one commit can",
            )
        coming = self._view(None).coming
        if coming is not None and coming.commit is not None:
            refuse_mixed(self._snapshot, coming.commit, self._at, self.uri)
        return rewrite(self.address, self._fs, self._snapshot, evolution, wanted, sources, filling)

    def _refuse_pinned(self) -> None:
        if self.address.version is not None:
            raise TableError(
                "a table that was opened at a version cannot be changed", where=self.uri, hint="leave out @vN"
            )

    def _refuse_incomplete(self, evolution: Evolution, sources: Mapping[str, Add]) -> None:
        """An overwrite removes all live files, so all of them have to have been rewritten."""
        import pyarrow as pa

        if {file.path for file in evolution.rewrite} != set(sources):
            raise CommitConflict(
                "the live files are not those that were to be rewritten", where=self.uri, hint="list them anew"
            )
        with guard(self.uri):
            theirs = set(pa.table(self._handle.get_add_actions()).column("path").to_pylist())
        if len(theirs) != len(sources):
            raise TableError(
                "delta-rs and the log disagree on which files are live", where=self.uri, hint="nothing was changed"
            )

    def commit(self, staged: Staged, entries: Sequence[MarkerEntry]) -> State:
        """See :meth:`lakeevolve.tables.base.Table.commit`."""
        assert isinstance(staged, DeltaStaged)
        plan = entries[-1].plan
        try:
            if plan is not None and self.progress_of(plan) == "done":
                recorded = marker_entries(self._snapshot, self.uri)
            else:
                recorded = commits.commit(staged, self._recorded(entries), self.progress_of)
        except BaseException:
            staged.close()
            # What went wrong is told, and not that the table cannot be read either.
            with suppress(LakeEvolveError):
                self.refresh()
            raise
        staged.close()
        self.refresh()
        commits.copy_marker(self.address, recorded)
        self.refresh()
        return self.state

    def around(self, version: Version) -> tuple[int | None, int | None]:
        commit = version.commit
        return (None, 0) if commit is None else (commit - 1 if commit else None, commit)

    def restore(self, position: int | None, entries: Sequence[MarkerEntry]) -> State:
        """See :meth:`lakeevolve.tables.base.Table.restore`."""
        self._refuse_pinned()
        if position is None:
            raise TableError("the table had no version before its first", where=self.uri, hint="drop the table")
        refuse_vacuumed(self._fs, self._at(position), self._snapshot, self.uri)
        recorded = commits.restore(self.address, self._snapshot.version, position, self._recorded(entries))
        commits.copy_marker(self.address, recorded)
        self.refresh()
        return self.state

    def discard(self, paths: Iterable[str]) -> tuple[str, ...]:
        return delete(self._fs, paths)

    def writes(self, limit: int = 5) -> tuple[Write, ...]:
        return writes(self._snapshot.commits, limit)

    @property
    def retention(self) -> timedelta:
        return retention(self._snapshot.metadata)

    def _recorded(self, entries: Sequence[MarkerEntry]) -> tuple[MarkerEntry, ...]:
        """The entries to record: what the table holds already stays word for word, and older versions get the commit
        that the log gives them."""
        held = {e.number: e for e in marker_entries(self._snapshot, self.uri)}
        known = {v.number: v for v in self.history()}
        made = []
        for entry in entries:
            if entry.number in held and held[entry.number].digest == entry.digest:
                made.append(held[entry.number])
            elif entry.number in known:
                made.append(replace(entry, origin={**entry.origin, **_began(known[entry.number])}))
            else:
                made.append(entry)
        return tuple(made)

    def findings(self) -> tuple[Finding, ...]:
        return ()

    def resume(self, plan_digest: str | None) -> None:
        if plan_digest != self._resumed:
            self._resumed = plan_digest
            self._listed.clear()

    def progress_of(self, plan_digest: str) -> Literal["none", "partly", "done"]:
        self.refresh()
        if pending_plan(self._snapshot.commits) == plan_digest:
            return "partly"
        if any(entry.plan == plan_digest for entry in marker_entries(self._snapshot, self.uri)):
            return "done"
        return "partly" if commits.begun(self._snapshot.commits, plan_digest) else "none"

    # Describing -----------------------------------------------------------------------------------------------------

    def describe(self) -> Mapping[str, Any]:
        return described(
            self._snapshot, uri=self.uri, view=self._view(None), versions=self.history(), files=self.files()
        )


def _began(version: Version) -> dict[str, int | None]:
    """Where a version began, as the marker records it."""
    if version.at is None:
        return {"version": version.commit}
    return {"version": version.commit, "at": int(version.at.timestamp() * 1000)}
