"""One atomic commit of schema, snapshot and marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate

from lakeevolve.errors import CatalogUnavailable, CommitConflict, LakeEvolveError, TableError
from lakeevolve.tables import marker
from lakeevolve.tables.base import MarkerEntry, Version
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.history import Began
from lakeevolve.tables.iceberg.mapping import NAMES
from lakeevolve.tables.iceberg.stage import StagedEvolution

#: How often a commit is tried whose requirements still hold: the catalog's own swap lost a race with an append.
ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class AssertMarker:
    """No other version was recorded meanwhile. Iceberg has no requirement on properties; catalogs whose requirements
    are checked on the client take this one."""

    version: str | None

    def validate(self, metadata: TableMetadata | None) -> None:
        found = metadata.properties.get(marker.VERSION) if metadata is not None else None
        if found != self.version:
            raise CommitFailedException("Requirement failed: the lakeevolve marker has changed")


def commit(
    catalog: Catalog,
    table: IcebergTable,
    staged: StagedEvolution,
    entries: Sequence[MarkerEntry],
    versions: Mapping[int, Version],
    began: Mapping[int, Began],
    where: str,
) -> None:
    """Commit what was staged together with the marker.

    *table* is freshly loaded; *versions* and *began* are those of the table so far. Raises ``CommitConflict``, with
    nothing committed, where the schema, the layout or the marker moved, or the data of a commit that depends on them.
    """
    if not entries:
        raise TableError("a commit needs the new version's marker entry", where=where, hint="pass its entry")
    for attempt in range(1, ATTEMPTS + 1):
        _refuse_moved(table, staged, where)
        wanted = _entries(entries, staged, table, versions, began, where)
        properties = marker.to_properties(wanted)
        if staged.names is not None:
            properties[f"{NAMES}{wanted[-1].number - 1}"] = staged.names
        updates = (*staged.updates, SetPropertiesUpdate(updates=properties))
        failure = _try(catalog, table, updates, staged, where)
        if failure is None:
            _settle(table, wanted, where)
            return
        table = _asked_again(catalog, table, failure, where)
        if _landed(table, wanted[-1]):
            # The answer was lost, not the commit.
            _settle(table, wanted, where)
            return
        if not isinstance(failure, CommitFailedException):
            with translated(where):
                raise failure
        if attempt == ATTEMPTS:
            with translated(where):
                raise failure


def _try(
    catalog: Catalog,
    table: IcebergTable,
    updates: tuple[TableUpdate, ...],
    staged: StagedEvolution,
    where: str,
) -> Exception | None:
    requirements: tuple[Any, ...] = staged.requirements()
    if isinstance(catalog, MetastoreCatalog):
        requirements = (*requirements, AssertMarker(staged.base.properties.get(marker.VERSION)))
    try:
        table._do_commit(updates, requirements)
    except LakeEvolveError:
        raise
    except Exception as error:
        return error
    return None


def _asked_again(catalog: Catalog, table: IcebergTable, failure: Exception, where: str) -> IcebergTable:
    """The table as it is after a commit that gave no answer, or a bad one."""
    try:
        with translated(where):
            return catalog.load_table(table.name())
    except LakeEvolveError as error:
        if isinstance(failure, CommitFailedException):
            raise
        raise CatalogUnavailable(
            "the catalog did not answer the commit and cannot be asked now, so nobody knows whether it landed",
            where=where,
            hint="apply the same plan again when it answers: it does nothing if the commit landed",
        ) from error


def _settle(table: IcebergTable, wanted: Sequence[MarkerEntry], where: str) -> None:
    """Correct the schema id in the marker where the catalog gave the new schema another one than was to be expected:
    a REST catalog numbers schemas itself."""
    newest, given = wanted[-1], table.metadata.current_schema_id
    if newest.origin["schema_id"] == given:
        return
    corrected = [*wanted[:-1], replace(newest, origin={**newest.origin, "schema_id": given})]
    with translated(where), table.transaction() as transaction:
        transaction.set_properties(marker.to_properties(corrected))


def _refuse_moved(table: IcebergTable, staged: StagedEvolution, where: str) -> None:
    """Raise where a requirement fails already, saying which."""
    now, base = table.metadata, staged.base
    reason = None
    if now.table_uuid != base.table_uuid:
        reason = "another table stands under the same name"
    elif now.current_schema_id != base.current_schema_id or now.last_column_id != base.last_column_id:
        reason = "another writer changed the schema first"
    elif now.properties.get(marker.VERSION) != base.properties.get(marker.VERSION):
        reason = "another version was recorded first"
    elif (now.default_spec_id, now.default_sort_order_id) != (base.default_spec_id, base.default_sort_order_id):
        reason = "another writer changed the partitioning or the sort order first"
    elif staged.checked and _head(now) != _head(base):
        reason = "another writer changed rows after they were checked or rewritten"
    if reason is not None:
        raise CommitConflict(f"{reason}; nothing of this commit landed", where=where, hint="plan again and retry")


def _head(metadata: TableMetadata) -> int | None:
    snapshot = metadata.current_snapshot()
    return snapshot.snapshot_id if snapshot is not None else None


def _entries(
    entries: Sequence[MarkerEntry],
    staged: StagedEvolution,
    table: IcebergTable,
    versions: Mapping[int, Version],
    began: Mapping[int, Began],
    where: str,
) -> tuple[MarkerEntry, ...]:
    """The marker to write: what the table has stays, versions that others made are recorded, the newest is placed."""
    held = {entry.number: entry for entry in marker.from_properties(table.metadata.properties, where)}
    found: dict[int, MarkerEntry] = {}
    newest = max(entries, key=lambda entry: entry.number)
    given = {entry.number: entry for entry in entries}
    for number in range(1, newest.number):
        if number in held:
            found[number] = held[number]
            continue
        version = versions.get(number)
        entry = given.get(number) or (_recorded(version) if version is not None else None)
        if entry is None:
            raise TableError(
                f"the marker would lack version {number}", where=where, hint="pass an entry for every version so far"
            )
        begun = began.get(number, Began(None, None))
        schema_id = version.schema_id if version is not None else staged.base.current_schema_id
        found[number] = replace(
            entry,
            origin={"snapshot": begun.snapshot, "schema_id": schema_id, "sequence": begun.sequence},
            fresh=version.fresh if version is not None else entry.fresh,
        )
    origin = staged.origin(table.metadata)
    if newest.number in versions:
        # A version that the table has is recorded: it began when it began.
        begun = began.get(newest.number, Began(None, None))
        origin |= {"seen": origin["snapshot"], "snapshot": begun.snapshot, "sequence": begun.sequence}
    found[newest.number] = replace(newest, origin=origin)
    return tuple(found[number] for number in sorted(found))


def _recorded(version: Version) -> MarkerEntry:
    return MarkerEntry(
        number=version.number,
        schema=version.schema.to_json(),
        digest=version.digest,
        plan=version.plan,
        origin={},
        fills=version.fills,
        renames=version.renames,
        routes=version.routes,
        fresh=version.fresh,
    )


def _landed(table: IcebergTable, newest: MarkerEntry) -> bool:
    found = {entry.number: entry for entry in marker.from_properties(table.metadata.properties, "")}
    mine = found.get(newest.number)
    return mine is not None and mine.plan == newest.plan and mine.digest == newest.digest and newest.plan is not None
