"""Preparing an evolution down to the last byte, and committing it in one piece.

Staging writes data files, manifests and a manifest list; the table refers to none of them until the catalog swaps its
metadata. Schema, snapshot and marker are updates of that one swap.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from lakeevolve.errors import ReplayMismatch, TableError, UnsupportedTable
from lakeevolve.model.change import Change
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import Capability, DataFile, Evolution, Predicate, StagedFile
from lakeevolve.tables.iceberg.capability import capability
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.derive import known_columns
from lakeevolve.tables.iceberg.evolve import Edits, Evolved, evolve, without_defaults
from lakeevolve.tables.iceberg.facts import Facts
from lakeevolve.tables.iceberg.mapping import mapped, unmapped
from lakeevolve.tables.iceberg.raw import foreign_columns, read_raw
from lakeevolve.tables.iceberg.reading import Tasks, read_table
from lakeevolve.tables.iceberg.rewriting import Rewriting, files_of
from lakeevolve.tables.iceberg.snapshot import Frozen, Replace
from lakeevolve.tables.iceberg.unread import wrong_in

#: How many files are written at a time. Each holds a row group or two in memory.
WORKERS: Final = min(4, os.cpu_count() or 1)

_Model = TypeVar("_Model")


@dataclass(slots=True)
class StagedEvolution:
    """What was prepared. ``files`` fulfils the protocol; the rest is for the commit."""

    where: str
    io: FileIO
    base: TableMetadata
    metadata: TableMetadata
    target: Schema
    checked: bool
    updates: tuple[TableUpdate, ...]
    files: tuple[StagedFile, ...] = ()
    written: list[str] = field(default_factory=list)
    #: The name mapping so far, where columns took their names to another id.
    names: str | None = None
    tasks: Tasks = field(default_factory=Tasks)

    def __reduce__(self) -> tuple[Any, ...]:
        # To other processes goes what it takes to read.
        return StagedEvolution, (self.where, self.io, self.metadata, self.metadata, self.target, self.checked, ())

    @property
    def schema(self) -> IcebergSchema:
        return self.metadata.schema()

    def raw(self, file: StagedFile) -> Iterator[pa.RecordBatch]:
        """The rows of a staged file as pyarrow alone reads them."""
        foreign = foreign_columns(self.schema, self.target)
        return read_raw(self.io, file.handle, self.schema, self.target, foreign, None)

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """What pyiceberg would read after the commit."""
        return read_table(
            self.metadata,
            self.io,
            self.schema,
            self.target,
            self.where,
            file=file,
            predicate=predicate,
            columns=columns,
            tasks=self.tasks,
        )

    def abandon(self) -> tuple[str, ...]:
        """Delete what was written; return what could not be deleted."""
        left = delete_all(self.io, self.written)
        self.written = list(left)
        return left

    def requirements(self) -> tuple[TableRequirement, ...]:
        """What has to be true of the table at the moment of the commit."""
        base = self.base
        found: list[TableRequirement] = [
            AssertTableUUID(uuid=base.table_uuid),
            _aliased(AssertCurrentSchemaId, current_schema_id=base.current_schema_id),
            _aliased(AssertDefaultSpecId, default_spec_id=base.default_spec_id),
            _aliased(AssertDefaultSortOrderId, default_sort_order_id=base.default_sort_order_id),
        ]
        if self.schema.schema_id != base.current_schema_id:
            found.append(_aliased(AssertLastAssignedFieldId, last_assigned_field_id=base.last_column_id))
        if self.checked:
            ref = base.refs.get(MAIN_BRANCH)
            head = ref.snapshot_id if ref is not None else None
            found.append(_aliased(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=head))
        return tuple(found)

    def origin(self, now: TableMetadata) -> dict[str, int | None]:
        """Where the new version begins: after the snapshot that is current just before the commit."""
        metadata = self.base if self.checked else now
        snapshot = metadata.current_snapshot()
        return {
            "snapshot": snapshot.snapshot_id if snapshot is not None else None,
            "schema_id": self.schema.schema_id,
            "sequence": getattr(metadata, "last_sequence_number", None) or None,
            "ms": time.time_ns() // 1_000_000,
        }


def _set_current(schema_id: int) -> SetCurrentSchemaUpdate:
    """Make a schema the current one; -1 for the one that was added last."""
    return _aliased(SetCurrentSchemaUpdate, schema_id=schema_id)


def _aliased(kind: type[_Model], **values: Any) -> _Model:
    # pyiceberg's models take their fields by name, which their declared signatures (by alias) do not say.
    return kind(**values)


def delete_all(io: FileIO, locations: Sequence[str]) -> tuple[str, ...]:
    """Delete files, and all that an attempt wrote; return those that are still there."""
    left = []
    for location in locations:
        try:
            for file in files_of(io, location):
                with suppress(FileNotFoundError):
                    io.delete(file)
        except Exception:
            # Whatever the store raises, the rest is still to be deleted.
            left.append(location)
    return tuple(left)


def stage(
    table: IcebergTable, evolution: Evolution, facts: Facts, live: Sequence[DataFile], where: str
) -> StagedEvolution:
    """Prepare an evolution of the table as *table* has loaded it."""
    return _Staging(table, evolution, facts, live, where).run()


class _Staging:
    def __init__(
        self, table: IcebergTable, evolution: Evolution, facts: Facts, live: Sequence[DataFile], where: str
    ) -> None:
        self.table = table
        self.evolution = evolution
        self.facts = facts
        self.live = live
        self.where = where
        self.base = table.metadata
        self.written: list[str] = []
        self.stopped = threading.Event()
        # Whether a change is made over equality deletes depends on which there are.
        self.checked = facts.equality_deletes
        self.remapped = False

    def run(self) -> StagedEvolution:
        if self.base.format_version > 2:
            raise UnsupportedTable(
                f"the table has format version {self.base.format_version}, which no Python library writes yet",
                where=self.where,
                hint="run the plan's Spark SQL, or use the Spark engine",
            )
        self._check_routes()
        changes = [change for change, _ in self.evolution.changes]
        evolved = evolve(
            self.base.schema(),
            self.evolution.base,
            self.evolution.target,
            Edits.of(changes, self.evolution.fills),
            last_id=self.base.last_column_id,
            format_version=self.base.format_version,
        )
        rewritten = {file.path for file in self.evolution.rewrite}
        if rewritten and all(file.path in rewritten for file in self.live if file.rows):
            # Format versions 1 and 2 have no such defaults, and no file needs them any more.
            evolved.schema = without_defaults(evolved.schema)
        self._check_layout(evolved)
        self._check_rewrite(evolved)
        try:
            return self._stage(evolved)
        except BaseException:
            delete_all(self.table.io, self.written)
            raise

    def _stage(self, evolved: Evolved) -> StagedEvolution:
        updates = self._schema_updates(evolved)
        with translated(self.where):
            metadata = update_table_metadata(self.base, updates)
        kept = self._rewrite_all(metadata.schema())
        if self.evolution.rewrite:
            with translated(self.where):
                swap = self._replace(metadata, kept)
                metadata = update_table_metadata(metadata, swap)
            updates += swap
        if self.facts.equality_deletes:
            self._prove_schema(metadata)
        return StagedEvolution(
            where=self.where,
            io=self.table.io,
            base=self.base,
            metadata=metadata,
            target=self.evolution.target,
            checked=self.checked or bool(self.evolution.rewrite),
            updates=updates,
            files=kept,
            written=self.written,
            names=self.base.properties.get(TableProperties.DEFAULT_NAME_MAPPING)
            if evolved.moved or self.remapped
            else None,
        )

    def _prove_schema(self, metadata: TableMetadata) -> None:
        """What can be proved where no row can be read."""
        wrong = next(wrong_in(metadata, self.base, self.evolution), None)
        if wrong is not None:
            raise ReplayMismatch(
                f"the proof before the commit failed, so nothing was committed: {wrong}",
                where=self.where,
                hint="the table is untouched; report this with the plan, it is a defect of lakeevolve or of a library",
            )

    def _replace(self, metadata: TableMetadata, files: Sequence[StagedFile]) -> tuple[TableUpdate, ...]:
        """Write the snapshot's manifests; the schema is the new one already."""
        taken = [source.path for source in self.evolution.rewrite]
        added = [file.handle.file for file in files]
        producer = Replace(Frozen(metadata, self.table), self.table.io, taken, added)
        try:
            missing = producer.sort()
            if missing:
                raise TableError(
                    "a file to be rewritten is not in the table any more",
                    where=min(missing),
                    hint="list the files again and stage anew",
                )
            updates, _ = producer.stage()
        finally:
            for path in producer.written():
                self.written.append(path)
                self.evolution.writing(path)
        return updates

    def _schema_updates(self, evolved: Evolved) -> tuple[TableUpdate, ...]:
        current = self.base.schema()
        same = next((schema for schema in (current, *self.base.schemas) if schema == evolved.schema), None)
        if same is not None:
            changed: tuple[TableUpdate, ...] = (
                () if same.schema_id == current.schema_id else (_set_current(same.schema_id),)
            )
        else:
            number = max(schema.schema_id for schema in self.base.schemas) + 1
            made = IcebergSchema(
                *evolved.schema.columns,
                schema_id=number,
                identifier_field_ids=list(evolved.schema.identifier_field_ids),
            )
            changed = (AddSchemaUpdate(schema=made), _set_current(-1))
        mapping = self.base.name_mapping()
        if mapping is None:
            return changed
        known = known_columns(evolved.schema, self.evolution.target)
        aliases = {number: each.field.aliases for number, each in known.items()}
        made_of = mapped(mapping, evolved.schema, evolved.moved, aliases)
        if any(unmapped(made_of, evolved.schema)) and not self.facts.plain_files():
            # Every file has ids, so the names are free for whoever is called so now. No file without may come between.
            made_of = mapped(NameMapping([]), evolved.schema, {}, aliases)
            self.remapped = self.checked = True
        if made_of == mapping:
            return changed
        text = made_of.model_dump_json()
        return (*changed, SetPropertiesUpdate(updates={TableProperties.DEFAULT_NAME_MAPPING: text}))

    def _rewrite_all(self, schema: IcebergSchema) -> tuple[StagedFile, ...]:
        """Every file that is to be written anew, several at a time: Parquet is coded without Python's lock."""
        sources, engine = self.evolution.rewrite, self.evolution.engine
        if engine is not None and engine.remote and sources:
            return self._rewrite_elsewhere(schema, engine)
        how = Rewriting.of(self.table, schema, self.evolution.target, self._rows)
        made: list[StagedFile] = []
        with ThreadPoolExecutor(max_workers=min(len(sources), WORKERS) or 1) as pool:
            running = [pool.submit(how.rewrite, source, self._rows(source), self._writing) for source in sources]
            try:
                for source, future in zip(sources, running, strict=True):
                    made += future.result()
                    self.evolution.progress(source)
            except BaseException:
                self.stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
        return tuple(made)

    def _rewrite_elsewhere(self, schema: IcebergSchema, engine: Any) -> tuple[StagedFile, ...]:
        """The same on an engine whose workers are elsewhere."""
        attempt = f"{uuid.uuid4()}-"
        how = Rewriting.of(self.table, schema, self.evolution.target, self.evolution.convert, attempt)
        self._writing(how.everything)
        by_path = {source.path: source for source in self.evolution.rewrite}
        made: dict[str, list[StagedFile]] = {}
        for source, written in engine.map_unordered(how, self.evolution.rewrite):
            made[source] = written
            self.evolution.progress(by_path[source])
        kept = tuple(each for source in by_path for each in made[source])
        names = {each.path for each in kept}
        # A task that was run twice left files of its other run.
        with translated(self.where):
            others = [path for path in files_of(self.table.io, how.everything) if path not in names]
        if not delete_all(self.table.io, others):
            self.written.remove(how.everything)
        self.written += names
        return kept

    def _writing(self, path: str) -> None:
        self.written.append(path)
        self.evolution.writing(path)

    def _rows(self, source: DataFile) -> Iterator[pa.RecordBatch]:
        """A file's rows as they are to be, until another file has failed."""
        for batch in self.evolution.convert(source):
            if self.stopped.is_set():
                raise TableError("the rewrite was given up, since another file failed", where=source.path)
            yield batch

    # Checks: a plan is checked when it is made, and once more here, since nothing else stands before the commit. -----

    def _check_routes(self) -> None:
        for change, route in self.evolution.changes:
            now = self._capability(change)
            self.checked = self.checked or now.precondition is not None
            if route in ("external", "refuse") or now.route in ("external", "refuse"):
                raise UnsupportedTable(
                    f"a step cannot be run here: {now.reason}", where=change.path or "$", hint="plan again"
                )

    def _capability(self, change: Change) -> Capability:
        of = self.evolution
        return capability(self.facts, change, of.base, of.target, of.fills, of.renames)

    def _check_layout(self, evolved: Evolved) -> None:
        """Partitioning and order refer to columns by id, so these have to stay."""
        ids = evolved.schema.field_ids
        lost = [name for number, name in self.facts.partitioned.items() if number not in ids]
        if lost or self.facts.sorted_by - ids:
            raise UnsupportedTable(
                "a column that the table is partitioned or sorted by would be dropped or get another type",
                where=", ".join(lost) or "sort order",
                hint="replace the partition spec or the sort order first",
            )

    def _check_rewrite(self, evolved: Evolved) -> None:
        """Every live file has to hold what the new schema requires of it."""
        rewritten = {file.path for file in self.evolution.rewrite}
        needed = evolved.replaced | (evolved.added & evolved.required)
        routed = {change.path for change, route in self.evolution.changes if route in ("backfill", "rewrite")}
        if not needed and not routed:
            return
        left = [file.path for file in self.live if file.path not in rewritten and file.rows]
        if needed and left:
            raise TableError(
                f"{len(left)} live files are not among those to be rewritten, though {min(needed)} needs it",
                where=left[0],
                hint="list the files again and stage anew",
            )
