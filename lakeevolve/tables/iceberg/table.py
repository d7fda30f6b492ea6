"""The handle of an Iceberg table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField

from lakeevolve.errors import LakeEvolveError, TableError
from lakeevolve.model.change import Change
from lakeevolve.model.schema import Schema
from lakeevolve.rules.findings import Finding
from lakeevolve.tables import marker
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
from lakeevolve.tables.iceberg import restore as restoring
from lakeevolve.tables.iceberg.capability import capability
from lakeevolve.tables.iceberg.catalog import Location, load
from lakeevolve.tables.iceberg.commit import commit
from lakeevolve.tables.iceberg.derive import Derivation
from lakeevolve.tables.iceberg.elsewhere import sent
from lakeevolve.tables.iceberg.facts import Facts, facts_of
from lakeevolve.tables.iceberg.findings import table_findings, unread
from lakeevolve.tables.iceberg.history import (
    Entries,
    History,
    data_files,
    main_line,
    read_entries,
    read_history,
    schema_of,
)
from lakeevolve.tables.iceberg.locate import initial_values
from lakeevolve.tables.iceberg.mapping import mapping_for, with_mapping_for
from lakeevolve.tables.iceberg.raw import footer, footer_ids, foreign_columns, live_rows, read_raw, stored
from lakeevolve.tables.iceberg.reading import Tasks, read_table
from lakeevolve.tables.iceberg.rewrite import files_to_rewrite
from lakeevolve.tables.iceberg.shape import has_ids
from lakeevolve.tables.iceberg.snapshot import REWRITE
from lakeevolve.tables.iceberg.stage import StagedEvolution, delete_all, stage
from lakeevolve.tables.iceberg.writers import writes
from lakeevolve.tables.lineage import in_force

if TYPE_CHECKING:
    import pyarrow as pa


class IcebergHandle:
    """A live Iceberg table; fulfils :class:`lakeevolve.tables.base.Table`."""

    format: Literal["iceberg"] = "iceberg"
    ordered = True

    def __init__(self, location: Location, catalog: Catalog, table: IcebergTable) -> None:
        self._location = location
        self._catalog = catalog
        self._left_out: tuple[str, ...] = ()
        self._take(table)

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(self._location, self._table, self._left_out)

    def _take(self, table: IcebergTable) -> None:
        self._table = table
        self._taken = table.metadata_location
        self._plain: bool | None = None
        #: What the table alone says, and the columns that were left out for it.
        self._alone: tuple[tuple[str, ...], Schema] | None = None
        self._held: dict[str, frozenset[int]] = {}
        self._histories: dict[str | None, History] = {}
        self._entries: dict[int | None, Entries] = {}
        self._tasks = Tasks()
        if self._location.snapshot is not None:
            self._snapshot(self._location.snapshot)

    @property
    def uri(self) -> str:
        return self._location.uri

    @property
    def iceberg(self) -> IcebergTable:
        """pyiceberg's own handle, as it was loaded last."""
        return self._table

    @property
    def schema(self) -> Schema:
        return self.history()[-1].schema

    @property
    def state(self) -> State:
        metadata = self._table.metadata
        current = self._snapshot(self._location.snapshot)
        return State(
            id=str(metadata.table_uuid),
            pin={
                "uuid": str(metadata.table_uuid),
                "format-version": metadata.format_version,
                "schema-id": metadata.current_schema_id,
                "spec-id": metadata.default_spec_id,
                "sort-order-id": metadata.default_sort_order_id,
                "identifier-ids": sorted(metadata.schema().identifier_field_ids),
            },
            position=current.snapshot_id if current is not None else None,
        )

    @property
    def foreign(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._foreign(None))

    def _foreign(self, hint: Schema | None) -> tuple[NestedField, ...]:
        newest = self.history(hint)[-1]
        return foreign_columns(schema_of(self._table.metadata, newest.schema_id), newest.schema)

    def refresh(self) -> None:
        table = load(self._catalog, self._location)
        if table.metadata_location != self._taken or self._table.metadata_location != self._taken:
            self._take(table)

    def leave_out(self, patterns: Sequence[str]) -> None:
        if tuple(patterns) != self._left_out:
            self._left_out = tuple(patterns)
            self._histories = {}

    def derived(self, hint: Schema | None = None, renames: Mapping[str, str] | None = None) -> Schema:
        if hint is not None or renames:
            return self._derived(hint, renames or {})
        if self._alone is None or self._alone[0] != self._left_out:
            self._alone = self._left_out, self._derived(None, {})
        return self._alone[1]

    def _derived(self, hint: Schema | None, renames: Mapping[str, str]) -> Schema:
        derivation = Derivation(hint, renames, left_out=self._left_out)
        return derivation.schema(self._current_schema(), self._location.identifier[-1])

    def _current_schema(self) -> Any:
        snapshot = self._snapshot(self._location.snapshot)
        if self._location.snapshot is not None and snapshot is not None:
            return schema_of(self._table.metadata, snapshot.schema_id)
        return self._table.metadata.schema()

    def history(self, hint: Schema | None = None) -> tuple[Version, ...]:
        versions = self._history(hint).versions
        pinned = self._location.snapshot
        if pinned is None or len(versions) == 1:
            return versions
        # The table as it was: up to the version that its snapshot was written for.
        snapshot = self._snapshot(pinned)
        at = [v.number for v in versions if snapshot is not None and v.schema_id == snapshot.schema_id]
        begun = {v.number for v in versions if v.commit is None or not self._later(v.commit, pinned)}
        until = max((number for number in at if number in begun), default=versions[-1].number)
        return versions[:until]

    def _later(self, one: int, other: int) -> bool:
        """Whether a snapshot is the other or came after it."""
        order = [snapshot.snapshot_id for snapshot in self._table.metadata.snapshots]
        return one in order and order.index(one) >= order.index(other)

    def _history(self, hint: Schema | None) -> History:
        key = hint.digest if hint is not None else None
        if key not in self._histories:
            name = self._location.identifier[-1]
            self._histories[key] = read_history(self._table.metadata, name, self.uri, hint, self._left_out)
        return self._histories[key]

    def _snapshot(self, position: int | None) -> Snapshot | None:
        if position is None:
            return self._table.metadata.current_snapshot()
        found = self._table.metadata.snapshot_by_id(position)
        if found is None:
            raise TableError(
                f"the table has no snapshot {position} (any more)",
                where=self.uri,
                hint="lakeevolve history lists the snapshots that are left",
            )
        return found

    def _entries_at(self, position: int | None) -> Entries:
        snapshot = self._snapshot(position if position is not None else self._location.snapshot)
        key = snapshot.snapshot_id if snapshot is not None else None
        if key not in self._entries:
            self._entries[key] = read_entries(self._table.metadata, self._table.io, snapshot, self.uri)
        return self._entries[key]

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        history = self._history(hint)
        lacking = self._defaulted(history.versions[-1])
        return data_files(self._entries_at(position), history, self._table.metadata, self._table.io, lacking)

    def _defaulted(self, newest: Version) -> Callable[[str], Mapping[str, Any]]:
        """What of a version a file lacks, by the file's path, that reads a default in the metadata."""
        metadata, io = self._table.metadata, self._table.io
        values = initial_values(schema_of(metadata, newest.schema_id), newest.schema.root)

        def of(path: str) -> Mapping[str, Any]:
            if path not in self._held:
                try:
                    held = footer_ids(io, path, metadata.name_mapping())
                except LakeEvolveError:
                    # Whoever reads the file says what is wrong with it.
                    return {}
                self._held[path] = frozenset(held)
            return dict(value for number, value in values.items() if number not in self._held[path])

        return of if values else lambda _path: {}

    def landed(self, version: Version) -> tuple[int | None, int] | None:
        began = self._history(None).began.get(version.number)
        if not {"rewrite", "backfill"} & set(version.routes.values()):
            # Several versions may begin at one snapshot, and the next one is of the version that wrote it.
            return None
        if began is None or version.plan is None or version.number not in in_force(self._history(None).versions):
            # The snapshots of what the table went back from are on no line that leads here.
            return None
        for snapshot in main_line(self._table.metadata):
            if snapshot.parent_snapshot_id == began.snapshot:
                wrote = snapshot.summary is not None and snapshot.summary.additional_properties.get(REWRITE) is not None
                return (began.snapshot, snapshot.snapshot_id) if wrote else None
        return None

    def live(self, file: DataFile) -> int | None:
        return live_rows(file.handle)

    def stored(self, file: DataFile) -> Stored:
        return stored(self._table.io, file.path)

    def raw(self, file: DataFile, hint: Schema | None = None) -> Iterator[pa.RecordBatch]:
        metadata = self._table.metadata
        version = self._history(hint).versions[file.version - 1]
        return read_raw(
            self._table.io,
            file.handle,
            schema_of(metadata, version.schema_id),
            version.schema,
            self._foreign(hint),
            mapping_for(metadata, version.number),
        )

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        newest = self.history()[-1]
        metadata, pinned = self._table.metadata, self._location.snapshot
        schema = schema_of(metadata, newest.schema_id)
        if pinned is not None:
            # pyiceberg binds a filter to the current schema, whatever snapshot is read.
            metadata = metadata.model_copy(update={"current_schema_id": schema.schema_id})
            metadata = with_mapping_for(metadata, newest.number)
        return read_table(
            metadata,
            self._table.io,
            schema,
            newest.schema,
            self.uri,
            snapshot=pinned,
            file=file,
            predicate=predicate,
            columns=columns,
            tasks=self._tasks,
        )

    @property
    def facts(self) -> Facts:
        """What decides about routes."""
        entries = self._entries_at(None)
        return facts_of(
            self._table.metadata,
            name=".".join(self._location.identifier),
            specs=entries.specs,
            equality_deletes=entries.equality_deletes,
            equality_ids=entries.equality_ids,
            formats=entries.formats,
            plain_files=self._plain_files,
        )

    def _plain_files(self) -> bool:
        """Whether a live file has no field ids."""
        if self._plain is None:
            files = (handle.file for _, handle in self._entries_at(None).files)
            parquet = (file.file_path for file in files if file.file_format == FileFormat.PARQUET)
            self._plain = any(not has_ids(list(footer(self._table.io, path))) for path in parquet)
        return self._plain

    def capability(
        self,
        change: Change,
        base: Schema,
        target: Schema,
        fills: Mapping[str, Fill],
        renames: Mapping[str, str] | None = None,
    ) -> Capability:
        return capability(self.facts, change, base, target, fills, renames)

    def combine(self, changes: Sequence[tuple[Change, Capability]]) -> Sequence[tuple[Change, Capability]]:
        """Every route of an Iceberg table lands in the same commit, so none has to give way to another."""
        return tuple(changes)

    def must_rewrite(
        self,
        evolution_routes: Sequence[tuple[Change, Route]],
        files: Iterable[DataFile],
        fills: Mapping[str, Fill] | None = None,
    ) -> tuple[DataFile, ...]:
        return files_to_rewrite(evolution_routes, tuple(files), self._table)

    def stage(self, evolution: Evolution) -> Staged:
        self._refuse_pinned()
        return stage(self._table, evolution, self.facts, self.files(hint=evolution.base), self.uri)

    def commit(self, staged: Staged, entries: Sequence[MarkerEntry]) -> State:
        self._refuse_pinned()
        if not isinstance(staged, StagedEvolution):
            raise TableError("this was not staged by an Iceberg table", where=self.uri, hint="stage it with this table")
        history = self._history(None)
        known = {v.number: replace(v, commit=history.began[v.number].snapshot) for v in history.versions}
        commit(self._catalog, load(self._catalog, self._location), staged, entries, known, history.began, self.uri)
        self.refresh()
        return self.state

    def around(self, version: Version) -> tuple[int | None, int | None]:
        return restoring.around(self._table.metadata, self.history(), version.number, self.landed(version))

    def restore(self, position: int | None, entries: Sequence[MarkerEntry]) -> State:
        self._refuse_pinned()
        restoring.restore(self._catalog, self._table, position, self._history(None), entries, self.uri)
        self.refresh()
        return self.state

    @property
    def retention(self) -> timedelta:
        return restoring.retention(self._table.metadata)

    def discard(self, paths: Iterable[str]) -> tuple[str, ...]:
        return delete_all(self._table.io, tuple(paths))

    def writes(self, limit: int = 5) -> tuple[Write, ...]:
        return writes(self._table.metadata, limit)

    def _refuse_pinned(self) -> None:
        if self._location.snapshot is not None:
            raise TableError(
                "a table opened at an old snapshot cannot be changed",
                where=self.uri,
                hint="open it without @SNAPSHOT",
            )

    def findings(self) -> tuple[Finding, ...]:
        entries = self._entries_at(None)
        return (
            *table_findings(self._table.metadata, entries.specs, self.uri),
            *(
                unread(self._table.metadata.schema(), entries.equality_ids, self.uri)
                if entries.equality_deletes
                else ()
            ),
        )

    def resume(self, plan_digest: str | None) -> None:
        """A plan is one commit, so that none has landed in part."""

    def progress_of(self, plan_digest: str) -> Literal["none", "partly", "done"]:
        entries = marker.from_properties(self._table.metadata.properties, self.uri)
        return "done" if any(entry.plan == plan_digest for entry in entries) else "none"

    def describe(self) -> Mapping[str, Any]:
        metadata = self._table.metadata
        entries = self._entries_at(None)
        state = self.state
        schema = self._current_schema()
        facts = self.facts
        described: dict[str, Any] = {
            "uri": self.uri,
            "format": self.format,
            "id": state.id,
            "pin": dict(state.pin),
            "schema": self.schema.to_json(),
            "versions": [_version_json(version) for version in self.history()],
            "columns": [json.loads(column.model_dump_json(by_alias=True)) for column in schema.columns],
            "foreign": list(self.foreign),
            "partitioning": [
                {
                    "name": each.name,
                    "transform": str(each.transform),
                    "column": schema.find_column_name(each.source_id),
                }
                for each in metadata.spec().fields
            ],
            "sort_order": [
                {
                    "column": schema.find_column_name(each.source_id),
                    "transform": str(each.transform),
                    "direction": each.direction.name.lower(),
                }
                for each in metadata.sort_order().fields
            ],
            "identifier": sorted(str(schema.find_column_name(number)) for number in schema.identifier_field_ids),
            "features": {
                "name_mapping": facts.mapping is not None,
                "equality_deletes": facts.equality_deletes,
                "position_deletes": any(handle.deletes for _, handle in entries.files),
                "branches": list(facts.branches),
                "file_formats": sorted(facts.formats),
                "specs_in_use": sorted(entries.specs),
            },
            "counts": {
                "files": len(entries.files),
                "rows": sum(handle.file.record_count for _, handle in entries.files),
                "bytes": sum(handle.file.file_size_in_bytes for _, handle in entries.files),
                "snapshots": len(metadata.snapshots),
                "schemas": len(metadata.schemas),
            },
        }
        return described


def _version_json(version: Version) -> dict[str, Any]:
    return {
        "number": version.number,
        "digest": version.digest,
        "schema": version.schema.to_json(),
        "plan": version.plan,
        "derived": version.derived,
        "commit": version.commit,
        "schema_id": version.schema_id,
        "at": version.at.isoformat() if version.at is not None else None,
    }
