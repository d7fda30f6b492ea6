"""Going back to an earlier snapshot with the schema that it had, in one commit that carries the marker.

pyiceberg's own rollback leaves the current schema as it is, so the old rows would be read by the new one
(apache/iceberg#5591).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from lakeevolve.errors import CommitConflict, TableError
from lakeevolve.tables import marker
from lakeevolve.tables.base import MarkerEntry, Version
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.commit import AssertMarker
from lakeevolve.tables.iceberg.history import Began, History, main_line
from lakeevolve.tables.iceberg.mapping import NAMES, mapping_for

_AGE: Final = "history.expire.max-snapshot-age-ms"
_AGE_DEFAULT: Final = 432_000_000


def around(
    metadata: TableMetadata, versions: Sequence[Version], number: int, landed: tuple[int | None, int] | None
) -> tuple[int | None, int | None]:
    """The snapshots right before and right after the commit that brought a version; None for no snapshot."""
    version = versions[number - 1]
    if version.restores is not None:
        return version.commit, versions[version.restores].commit
    return (version.commit, landed[1]) if landed is not None else (version.commit, version.commit)


def restore(
    catalog: Catalog,
    table: IcebergTable,
    position: int | None,
    history: History,
    entries: Sequence[MarkerEntry],
    where: str,
) -> None:
    """Make an earlier snapshot and the schema that was in force there the current ones.

    Raises
    ------
    CommitConflict
        The table moved meanwhile; nothing was changed.
    TableError
        The snapshot, or the schema, is no longer in the table's metadata.
    """
    metadata, began = table.metadata, history.began
    target = history.versions[(entries[-1].origin["restores"] or 1) - 1]
    if position is not None and position not in {snapshot.snapshot_id for snapshot in metadata.snapshots}:
        raise TableError(
            f"the table has no snapshot {position} any more: it was expired",
            where=where,
            hint="revert the plan instead, which needs no snapshot",
        )
    if target.schema_id is None or metadata.schema_by_id(target.schema_id) is None:
        raise TableError(
            f"the schema of version {target.number} is no longer in the table's metadata",
            where=where,
            hint="revert the plan instead",
        )
    updates: list[TableUpdate] = []
    if position is not None:
        updates.append(
            _made(SetSnapshotRefUpdate, ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=position)
        )
    elif metadata.current_snapshot() is not None:
        updates.append(_made(RemoveSnapshotRefUpdate, ref_name=MAIN_BRANCH))
    if target.schema_id != metadata.current_schema_id:
        updates.append(_made(SetCurrentSchemaUpdate, schema_id=target.schema_id))
    properties = marker.to_properties(_placed(entries, metadata, target, began))
    updates.append(SetPropertiesUpdate(updates={**_names(metadata, target, entries[-1].number - 1), **properties}))
    head = metadata.current_snapshot()
    requirements: list[Any] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        _made(AssertCurrentSchemaId, current_schema_id=metadata.current_schema_id),
        _made(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=head.snapshot_id if head is not None else None),
    ]
    if isinstance(catalog, MetastoreCatalog):
        requirements.append(AssertMarker(metadata.properties.get(marker.VERSION)))
    try:
        with translated(where):
            table._do_commit(tuple(updates), tuple(requirements))
    except CommitConflict:
        raise
    except CommitFailedException as error:
        raise CommitConflict(
            "another writer committed to the table first; nothing was changed", where=where, hint="try again"
        ) from error


def retention(metadata: TableMetadata) -> timedelta:
    """How old a snapshot gets, at the least, before an expiry takes it away."""
    text = str(metadata.properties.get(_AGE, _AGE_DEFAULT))
    return timedelta(milliseconds=int(text) if text.isdigit() else _AGE_DEFAULT)


def reachable(metadata: TableMetadata, position: int | None) -> bool:
    """Whether a snapshot led to the current one."""
    return position is None or position in {snapshot.snapshot_id for snapshot in main_line(metadata)}


def _placed(
    entries: Sequence[MarkerEntry], metadata: TableMetadata, target: Version, began: Mapping[int, Began]
) -> tuple[MarkerEntry, ...]:
    """The entries with where each begins: what the table holds stays word for word, the newest one begins now."""
    held = {entry.number: entry for entry in marker.from_properties(metadata.properties, "")}
    head = metadata.current_snapshot()
    made = []
    for entry in entries[:-1]:
        start = began.get(entry.number, Began(None, None))
        origin = {**entry.origin, "snapshot": start.snapshot, "sequence": start.sequence}
        made.append(held.get(entry.number, replace(entry, origin=origin)))
    origin = {
        **entries[-1].origin,
        "snapshot": head.snapshot_id if head is not None else None,
        "schema_id": target.schema_id,
        "sequence": getattr(metadata, "last_sequence_number", None) or None,
    }
    return (*made, replace(entries[-1], origin=origin))


def _names(metadata: TableMetadata, target: Version, newest: int) -> dict[str, str]:
    """The name mapping of the target's time, and beside it the one that the versions gone back from had."""
    now, then = metadata.name_mapping(), mapping_for(metadata, target.number)
    if now is None or then is None or now == then:
        return {}
    kept = f"{NAMES}{newest}"
    found = {TableProperties.DEFAULT_NAME_MAPPING: then.model_dump_json()}
    return found if kept in metadata.properties else {**found, kept: now.model_dump_json()}


def _made(kind: type[Any], **values: Any) -> Any:
    # pyiceberg's models take their fields by name, which their declared signatures (by alias) do not say.
    return kind(**values)
