"""Which versions a table has had, which data files it holds, and which version each file was written for.

The marker holds the versions that lakeevolve made. What others changed since is read off the snapshots and the
current schema, by field id. A file belongs to the version of the schema that the snapshot which added it names; where
one schema served several versions, the order of snapshots decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform

from lakeevolve.errors import TableError
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.tables import marker
from lakeevolve.tables.base import DataFile, Fill, MarkerEntry, Version
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.derive import Derivation, Known, known_columns
from lakeevolve.tables.iceberg.mapping import mapping_for
from lakeevolve.tables.iceberg.raw import Handle, column_ids, footer, foreign_columns
from lakeevolve.tables.iceberg.shape import leaf_arrow
from lakeevolve.tables.iceberg.stale import Replaced, outdated, replaced


@dataclass(frozen=True, slots=True)
class Began:
    """When a version began: the snapshot that was current before it, and its sequence number where that counts."""

    snapshot: int | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class History:
    """The versions of a table, oldest first, when each began, and which columns they gave another field id."""

    versions: tuple[Version, ...]
    began: Mapping[int, Began]
    replaced: Replaced = field(default_factory=dict)


@dataclass(slots=True)
class _Order:
    """Which of two snapshots came first. Snapshots that were expired came before all that are left."""

    metadata: TableMetadata
    index: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        # v1 tables number no snapshots; metadata lists them in the order in which they were added.
        self.index = {snapshot.snapshot_id: at for at, snapshot in enumerate(self.metadata.snapshots)}

    def after(self, began: Began, snapshot: int | None, sequence: int | None) -> bool:
        """Whether a file that *snapshot* added was added after a version began."""
        if began.snapshot is None:
            return True
        if sequence and began.sequence:
            return sequence > began.sequence
        if began.snapshot not in self.index:
            return True
        return self.index.get(snapshot or 0, -1) > self.index[began.snapshot]


def schema_of(metadata: TableMetadata, schema_id: int | None) -> IcebergSchema:
    """A schema of the table by id; the current one where that schema was removed from the metadata."""
    found = metadata.schema_by_id(schema_id) if schema_id is not None else None
    return found if found is not None else metadata.schema()


def read_history(
    metadata: TableMetadata, name: str, where: str, hint: Schema | None = None, left_out: Sequence[str] = ()
) -> History:
    """The versions of a table. *name* is for a root record that nothing names; *hint* for columns that no version
    knows; *left_out* holds the names of those that nobody owns."""
    entries = marker.from_properties(metadata.properties, where)
    if not entries:
        first = Derivation(hint, left_out=left_out).schema(metadata.schema(), name)
        began = {1: Began(None, None)}
        return History((Version(1, first, derived=True, schema_id=metadata.current_schema_id),), began)
    if [entry.number for entry in entries] != list(range(1, len(entries) + 1)):
        raise TableError(
            "the marker does not hold every version of the table",
            where=where,
            hint="restore the lakeevolve.v.* properties from an earlier version of the table's metadata",
        )
    versions = [_recorded(entry, metadata) for entry in entries]
    starts = {entry.number: _began(entry) for entry in entries}
    reading = Derivation(hint, left_out=left_out)
    _derive_later(metadata, versions, _recorded_at(entries[-1]), starts, reading, name)
    return History(tuple(versions), starts, replaced(versions, lambda number: schema_of(metadata, number)))


def _recorded_at(entry: MarkerEntry) -> Began:
    """From where on others' changes are versions of their own: where the newest entry began, or, where a version that
    the table had long since was recorded, where that happened. What came before is part of that version."""
    seen = entry.origin.get("seen")
    return _began(entry) if seen is None else Began(seen, None)


def _began(entry: MarkerEntry) -> Began:
    origin = entry.origin
    snapshot = origin.get("snapshot", origin.get("commit"))
    return Began(snapshot, origin.get("sequence"))


def _recorded(entry: MarkerEntry, metadata: TableMetadata) -> Version:
    snapshot, at = _began(entry).snapshot, entry.origin.get("ms")
    return Version(
        entry.number,
        marker.schema_in(metadata.properties, entry),
        plan=entry.plan,
        fills=entry.fills,
        renames=entry.renames,
        fresh=entry.fresh,
        routes=entry.routes,
        derived=entry.plan is None,
        commit=snapshot,
        schema_id=entry.origin.get("schema_id"),
        at=datetime.fromtimestamp(at / 1000, UTC) if at else None,
        recorded=True,
        restores=entry.origin.get("restores"),
    )


def _derive_later(
    metadata: TableMetadata,
    versions: list[Version],
    since: Began,
    starts: dict[int, Began],
    reading: Derivation,
    name: str,
) -> None:
    """Add the versions that others made since the newest one was recorded."""
    order = _Order(metadata)
    recorded = {version.schema_id for version in versions}
    line = main_line(metadata)
    before: dict[int, Snapshot | None] = {}
    for at, snapshot in enumerate(line):
        before[snapshot.snapshot_id] = line[at - 1] if at else None
    later = [s for s in line if order.after(since, s.snapshot_id, s.sequence_number)]
    for snapshot in later:
        if snapshot.schema_id is not None and snapshot.schema_id not in recorded:
            previous = before[snapshot.snapshot_id]
            _derive_next(metadata, versions, starts, snapshot.schema_id, previous, reading, name)
            recorded.add(snapshot.schema_id)
    if metadata.current_schema_id != versions[-1].schema_id:
        # Others went back to a schema that a version had, or made one that nobody has written with yet.
        previous = line[-1] if line else None
        for snapshot in reversed(later):
            if snapshot.schema_id != metadata.current_schema_id:
                break
            previous = before[snapshot.snapshot_id]
        _derive_next(metadata, versions, starts, metadata.current_schema_id, previous, reading, name)


def main_line(metadata: TableMetadata) -> list[Snapshot]:
    """The snapshots that led to the current one, oldest first."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    line = []
    at = metadata.current_snapshot()
    while at is not None:
        line.append(at)
        at = known.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
    return line[::-1]


def _derive_next(
    metadata: TableMetadata,
    versions: list[Version],
    starts: dict[int, Began],
    schema_id: int | None,
    before: Snapshot | None,
    reading: Derivation,
    name: str,
) -> None:
    past = versions[-1]
    old, new = schema_of(metadata, past.schema_id), schema_of(metadata, schema_id)
    known: dict[int, Known] = {}
    for version in versions:
        # A column that comes back (a rollback by others) means what it meant last.
        known.update(known_columns(schema_of(metadata, version.schema_id), version.schema))
    foreign = {column.field_id for column in foreign_columns(old, past.schema)}
    schema = replace(reading, known=known, foreign=frozenset(foreign - known.keys()), _records={}).schema(
        new, name, head=past.schema.record
    )
    before_, after = known_columns(old, past.schema), known_columns(new, schema)
    renames, fresh = follow(before_, after)
    number = past.number + 1
    snapshot = before.snapshot_id if before is not None else None
    sequence = before.sequence_number if before is not None else None
    starts[number] = Began(snapshot, sequence or None)
    versions.append(
        Version(
            number,
            schema,
            fills=_unfilled(before_, after),
            renames=renames,
            fresh=fresh,
            derived=True,
            commit=snapshot,
            schema_id=schema_id,
            at=datetime.fromtimestamp(before.timestamp_ms / 1000, UTC) if before is not None else None,
        )
    )


def follow(old: Mapping[int, Known], new: Mapping[int, Known]) -> tuple[dict[str, str], frozenset[str]]:
    """Renames (new path to old path) and fresh paths between two versions, from the field ids alone."""
    was = {known.path: number for number, known in old.items()}
    renames, fresh = {}, set()
    for number, known in new.items():
        above = paths.parent(known.path)
        if number in old:
            before = old[number].path
            if paths.leaf(before) != paths.leaf(known.path):
                renames[known.path] = before
        elif paths.join((*paths.parts(_back(above, renames)), paths.leaf(known.path))) in was:
            fresh.add(known.path)
    return renames, frozenset(fresh)


def _unfilled(old: Mapping[int, Known], new: Mapping[int, Known]) -> dict[str, Fill]:
    """What older rows read in columns that others added: their initial default where they have one (v3), else NULL."""
    paths_ = {known.path for number, known in new.items() if number not in old}
    return {
        known.path: "null" if known.column.initial_default is None else "default"
        for number, known in new.items()
        if number not in old and paths.parent(known.path) not in paths_
    }


def _back(path: str, renames: Mapping[str, str]) -> str:
    """The old path of a path whose ancestors may have been renamed."""
    if not path:
        return path
    if path in renames:
        return renames[path]
    return paths.join((*paths.parts(_back(paths.parent(path), renames)), paths.leaf(path)))


# Files --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entries:
    """The live files of one snapshot with what concerns each, and what else is there to know of them."""

    files: tuple[tuple[ManifestEntry, Handle], ...]
    equality_deletes: bool
    formats: frozenset[str]
    specs: frozenset[int]
    #: The columns that equality delete files compare; none where one of them does not say, which the format forbids.
    equality_ids: frozenset[int] = frozenset()


def read_entries(metadata: TableMetadata, io: FileIO, snapshot: Snapshot | None, where: str) -> Entries:
    """The live files of a snapshot, from its manifests."""
    if snapshot is None:
        return Entries((), False, frozenset(), frozenset())
    data: list[ManifestEntry] = []
    deletes = DeleteFileIndex()
    keys: list[frozenset[int]] = []
    with translated(where):
        for manifest in snapshot.manifests(io):
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                content = entry.data_file.content
                if manifest.content == ManifestContent.DATA and content == DataFileContent.DATA:
                    data.append(entry)
                elif content == DataFileContent.EQUALITY_DELETES:
                    keys.append(frozenset(entry.data_file.equality_ids or ()))
                else:
                    deletes.add_delete_file(entry, partition_key=entry.data_file.partition)
    found = []
    for entry in data:
        theirs = entry.data_file
        applying = deletes.for_data_file(entry.sequence_number or 0, theirs, partition_key=theirs.partition)
        handle = Handle(
            theirs,
            tuple(sorted(applying, key=lambda delete: str(delete.file_path))),
            bool(keys),
            _identity_values(metadata, theirs),
            entry.sequence_number,
        )
        found.append((entry, handle))
    found.sort(key=lambda pair: (pair[0].sequence_number or 0, str(pair[0].data_file.file_path)))
    return Entries(
        tuple(found),
        bool(keys),
        frozenset(str(entry.data_file.file_format.value) for entry in data),
        frozenset(entry.data_file.spec_id or 0 for entry in data),
        frozenset[int]().union(*keys) if all(keys) else frozenset(),
    )


def _identity_values(metadata: TableMetadata, file: TheirFile) -> dict[int, Any]:
    """The values of identity partitions by source column: files of other tools may leave such columns out."""
    spec: PartitionSpec | None = metadata.specs().get(file.spec_id or 0)
    if spec is None:
        return {}
    return {
        each.source_id: file.partition[at]
        for at, each in enumerate(spec.fields)
        if isinstance(each.transform, IdentityTransform) and at < len(file.partition) and file.partition[at] is not None
    }


def data_files(
    entries: Entries,
    history: History,
    metadata: TableMetadata,
    io: FileIO,
    defaulted: Callable[[str], Mapping[str, Any]] = lambda _path: {},
) -> tuple[DataFile, ...]:
    """The files with the version that each was written for. *defaulted* tells of a file, by its path, which leaves it
    lacks that read a default in the metadata."""
    order = _Order(metadata)
    ids = cache(lambda schema_id: frozenset(schema_of(metadata, schema_id).field_ids))
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    found = []
    for entry, handle in entries.files:
        theirs = handle.file
        snapshot = snapshots.get(entry.snapshot_id) if entry.snapshot_id is not None else None
        sequence = entry.file_sequence_number or entry.sequence_number or None
        begun = [
            version
            for version in history.versions
            if order.after(history.began[version.number], entry.snapshot_id, sequence)
        ] or [history.versions[0]]
        inferred = False
        if len(history.versions) == 1:
            version = history.versions[0]
        elif snapshot is not None and snapshot.schema_id is not None:
            version = _of_schema(history.versions, begun, snapshot.schema_id)
        else:
            inferred = True
            version = _of_footer(begun, metadata, io, theirs.file_path)
        older = outdated(theirs, version, ids(version.schema_id), history.replaced)
        if older is not None:
            inferred, version = True, history.versions[older - 1]
        found.append(
            DataFile(
                path=theirs.file_path,
                rows=theirs.record_count,
                bytes=theirs.file_size_in_bytes,
                version=version.number,
                inferred=inferred,
                added=entry.snapshot_id,
                handle=handle,
                defaulted=defaulted(theirs.file_path),
                appended=snapshot is not None
                and snapshot.summary is not None
                and snapshot.summary.operation == Operation.APPEND,
            )
        )
    return tuple(found)


def _of_schema(versions: Sequence[Version], begun: Sequence[Version], schema_id: int) -> Version:
    same = [version for version in begun if version.schema_id == schema_id]
    if same:
        return same[-1]
    known = [version for version in versions if version.schema_id == schema_id]
    if known:
        return known[0]
    # A schema from before the first version, or one that nobody had when the versions were recorded.
    older = [version for version in begun if (version.schema_id or 0) <= schema_id]
    return older[-1] if older else versions[0]


def _of_footer(begun: Sequence[Version], metadata: TableMetadata, io: FileIO, path: str) -> Version:
    """The newest version whose columns a file has exactly; else the newest that has all of the file's columns."""
    best = begun[-1]
    columns = footer(io, path)
    footers = {each.number: column_ids(columns, mapping_for(metadata, each.number), path) for each in begun}
    for exact in (False, True):
        for version in begun:
            schema, held = schema_of(metadata, version.schema_id), footers[version.number]
            ids = set(schema.field_ids)
            owned = set(held) == ids if exact else set(held) <= ids
            if owned and all(_same_leaf(schema, number, type_) for number, type_ in held.items()):
                best = version
    return best


def _same_leaf(schema: IcebergSchema, number: int, held: pa.DataType) -> bool:
    """Whether a column was not promoted since; other types than numbers have one representation too many."""
    column = schema.find_type(number)
    if not column.is_primitive:
        return True
    wanted = leaf_arrow(column)
    return bool(held == wanted or not (pa.types.is_integer(wanted) or pa.types.is_floating(wanted)))
