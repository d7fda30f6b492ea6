"""Committing: every commit is pinned to the version that it was made for and never retried by delta-rs.

A stale overwrite that delta-rs retries loses or corrupts rows that another writer appended (delta-io/delta-rs#3622).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.errors import CatalogUnavailable, CommitConflict, LakeEvolveError, PartlyApplied, TableError
from lakeevolve.tables import marker
from lakeevolve.tables.base import MarkerEntry
from lakeevolve.tables.delta import features
from lakeevolve.tables.delta.history import UPDATE, pending_plan
from lakeevolve.tables.delta.log import Add, Commit, Protocol, read_snapshot
from lakeevolve.tables.delta.raw import relative
from lakeevolve.tables.delta.scan import fill, identifier
from lakeevolve.tables.delta.stage import DeltaStaged, evaluate
from lakeevolve.tables.delta.store import Address, guard, may_still_land
from lakeevolve.tables.delta.types import (
    Column,
    DeltaType,
    ListOf,
    MapOf,
    Struct,
    column_json,
    parse_struct,
    primitives_of,
    shape,
    struct_json,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

#: In the commitInfo of a commit that is one of several: which one.
STEP: Final = marker.PREFIX + "step"
#: In the commitInfo of the commit that copies the marker to where it outlives the log.
COPY: Final = marker.PREFIX + "copy"

#: How the transaction of a plan begins; the plan's digest follows.
TRANSACTION: Final = "lakeevolve/"

_NTZ: Final = "timestampNtz"
#: The writer version from which a protocol lists features.
_FEATURES: Final = 7
#: How often a step is tried anew behind the commits of others, once the first one has landed.
_TRIES: Final = 10

Progress = Callable[[str], str]
Step = Callable[["DeltaTable", dict[str, str]], None]


def commit(staged: DeltaStaged, entries: Sequence[MarkerEntry], progress: Progress) -> tuple[MarkerEntry, ...]:
    """Commit what was staged, and return the entries as they were recorded.

    Raises
    ------
    CommitConflict
        Another writer committed first; nothing of ours landed.
    PartlyApplied
        Of several commits, not all landed.
    """
    if staged.alteration is None:
        return _overwrite(staged, entries, progress)
    return _alter(staged, entries, progress)


def _overwrite(staged: DeltaStaged, entries: Sequence[MarkerEntry], progress: Progress) -> tuple[MarkerEntry, ...]:
    from deltalake.transaction import RemoveAction

    recorded = _filled(entries, staged.position + 1)
    actions: list[AddAction | RemoveAction] = [_adding(add, staged.address.uri) for add in staged.adds]
    struct = _marked_first(staged.metadata.struct, marker.to_properties(recorded))

    def run(table: DeltaTable, properties: dict[str, str]) -> None:
        table.create_write_transaction(
            actions,
            "overwrite",
            _schema(struct),
            partition_by=list(staged.metadata.partition_columns),
            commit_properties=_properties(properties),
        )

    _once(staged, run, staged.position, marker.to_properties(recorded), recorded, progress)
    return recorded


def _alter(staged: DeltaStaged, entries: Sequence[MarkerEntry], progress: Progress) -> tuple[MarkerEntry, ...]:
    """Texts first, then everything that changes what readers see in one commit, which carries the marker."""
    steps = _steps(staged)
    plan = entries[-1].plan or ""
    position = staged.position
    fill_in = _replace if staged.filling else _update if staged.updates else None
    if fill_in is not None and not steps:
        # The columns are there: an earlier run stopped before it filled them.
        fill_in(staged, plan, position, entries)
        return tuple(entries)
    waits = {UPDATE: "pending"} if fill_in is not None else {}
    for number, step in enumerate(steps[:-1], start=1):
        done = {marker.PLAN_DIGEST: plan, STEP: f"{number} of {len(steps)}"}
        position = _step(staged, step, position, done, number == 1)
    tries = 1 if len(steps) == 1 else _TRIES
    for attempt in range(1, tries + 1):
        recorded = _filled(entries, position + 1)
        try:
            _once(staged, steps[-1], position, {**marker.to_properties(recorded), **waits}, recorded, progress)
            if fill_in is not None:
                fill_in(staged, plan, position + 1, recorded)
            return recorded
        except CommitConflict as conflict:
            if len(steps) == 1:
                raise
            if attempt == tries:
                raise _stopped(staged) from conflict
            position = _behind(staged, conflict)
    raise AssertionError("unreachable")


def _steps(staged: DeltaStaged) -> list[Step]:
    how = staged.alteration
    assert how is not None
    steps = [_set_texts(name, texts) for name, texts in how.texts.items()]
    if how.merge and features.mapped(staged.metadata):
        steps += [_relax(column.name) for column in how.merge]
    elif how.merge:
        steps.append(_add_columns(how.merge))
    return steps or ([] if staged.updates or staged.filling else [_keep])


def _update(staged: DeltaStaged, plan: str, position: int, entries: Sequence[MarkerEntry]) -> None:
    """Fill columns that are there in a commit of its own, behind the commits of others if need be.

    delta-rs counts rows that it did not change (a struct's field, a name that it reads otherwise), so the rows are
    looked at afterwards.
    """
    values = {name: fill(name, value) for name, value in staged.updates.items()}
    empty = " OR ".join(f"{identifier(name)} IS NULL" for name in values)
    done = {marker.PLAN_DIGEST: plan, UPDATE: "done"}
    for _ in range(_TRIES):
        table = _opened(staged, position)
        try:
            with guard(staged.address.uri, "the update failed"):
                table.update(updates=values, predicate=empty, commit_properties=_properties(done))
                if table.version() == position:
                    _put(table, marker.to_properties(entries), done)
            break
        except CommitConflict as conflict:
            position = _behind(staged, conflict)
    else:
        raise _stopped(staged)
    left = sum(evaluate(staged.address.open(), f"NOT ({empty})", "update", staged.address.uri))
    if left:
        raise PartlyApplied(
            f"{left} rows hold no value in a column that was to be filled",
            where=staged.address.uri,
            hint="run apply again with --resume",
        )


def _replace(staged: DeltaStaged, plan: str, position: int, entries: Sequence[MarkerEntry]) -> None:
    """Put files that hold the defaults in the place of those of before, behind the commits of others if need be."""
    from deltalake.transaction import RemoveAction

    done = {marker.PLAN_DIGEST: plan, UPDATE: "done"}
    uri, parted = staged.address.uri, list(staged.metadata.partition_columns)
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [_adding(add, uri) for add in staged.adds]
    actions += [
        RemoveAction(relative(add.path, uri), True, now, add.size, dict(add.partition)) for add in staged.replaced
    ]
    for _ in range(_TRIES):
        live = read_snapshot(staged.fs, position, uri)
        if pending_plan(live.commits) != plan:
            return  # it landed, and the answer was lost
        if any(add.path not in live.files or live.files[add.path].add.vector != add.vector for add in staged.replaced):
            raise _stopped(staged)
        table = _opened(staged, position)
        try:
            with guard(uri, "the columns cannot be filled"):
                if actions:
                    table.create_write_transaction(
                        actions, "append", table.schema(), partition_by=parted, commit_properties=_properties(done)
                    )
                else:
                    _put(table, marker.to_properties(entries), done)
            return
        except CommitConflict as conflict:
            position = _behind(staged, conflict)
        except LakeEvolveError:
            with suppress(LakeEvolveError):
                newest = read_snapshot(staged.fs, staged.address.open().version(), uri)
                if pending_plan(newest.commits) != plan:
                    return  # the same
            raise
    raise _stopped(staged)


def _adding(add: Add, uri: str) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(relative(add.path, uri), add.size, add.partition, add.modified, True, add.stats or "{}")


def _set_texts(name: str, texts: Mapping[str, str]) -> Step:
    def run(table: DeltaTable, properties: dict[str, str]) -> None:
        table.alter.set_column_metadata(name, dict(texts), commit_properties=_properties(properties))

    return run


def _relax(name: str) -> Step:
    def run(table: DeltaTable, properties: dict[str, str]) -> None:
        table.alter.drop_column_not_null(name, commit_properties=_properties(properties))

    return run


def _add_columns(merge: Sequence[Column]) -> Step:
    from deltalake import Field

    def run(table: DeltaTable, properties: dict[str, str]) -> None:
        before, held = parse_struct(table.schema().to_json(), ""), _put_before(table)
        mark = {key: text for key, text in properties.items() if _is_marker(key) and held.get(key) != text}
        fields = [Field.from_json(json.dumps(column_json(c))) for c in _marked_added(merge, before, mark)]
        table.alter.add_columns(fields, commit_properties=_properties(properties))

    return run


def _keep(table: DeltaTable, properties: dict[str, str]) -> None:
    """The commit of an evolution that changes no column: the marker alone."""
    _put(table, properties, properties)


def _put(table: DeltaTable, marks: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """Put the marker where it outlives the log: into the table's configuration.

    With table features (writer version 7), delta-rs 1.6 adds the reader feature variantType to the protocol whenever a
    property is set, which locks readers out; there the first column's metadata holds the marker instead.
    """
    if table.protocol().min_writer_version < _FEATURES:
        table.alter.set_table_properties(
            dict(marks), raise_if_not_exists=False, commit_properties=_properties(properties)
        )
    else:
        first = table.schema().fields[0].name
        table.alter.set_column_metadata(first, dict(marks), commit_properties=_properties(properties))


def _put_before(table: DeltaTable) -> Mapping[str, Any]:
    if table.protocol().min_writer_version < _FEATURES:
        return table.metadata().configuration
    return parse_struct(table.schema().to_json(), "").columns[0].metadata


def _once(
    staged: DeltaStaged,
    run: Step,
    position: int,
    properties: dict[str, str],
    entries: Sequence[MarkerEntry],
    progress: Progress,
) -> None:
    """Run the commit that carries the marker. An error after it landed (a lost answer, which looks like another
    writer's commit when it is asked for again; a checkpoint that failed) is none."""
    table = _opened(staged, position)
    try:
        with guard(staged.address.uri, "the commit failed"):
            run(table, properties)
    except TableError as error:
        plan = entries[-1].plan
        try:
            if plan is not None and progress(plan) == "done":
                return
            moved = not isinstance(error, CommitConflict) and staged.address.open().version() != position
        except CatalogUnavailable as gone:
            raise CatalogUnavailable(
                "the store did not answer the commit and cannot be asked now, so nobody knows whether it landed",
                where=staged.address.uri,
                hint="apply the same plan again when it answers: it does nothing if the commit landed",
            ) from gone
        if moved:
            raise CommitConflict(
                "another writer committed to the table first; nothing was changed", where=staged.address.uri
            ) from error
        if may_still_land(error):
            staged.sent = True
            raise CatalogUnavailable(
                "the store did not answer the commit, and may carry it out late; until then the table is as it was",
                where=staged.address.uri,
                hint="apply the same plan again in a minute: it does nothing if the commit landed",
            ) from error
        raise


def _step(staged: DeltaStaged, run: Step, position: int, properties: dict[str, str], first: bool) -> int:
    """Run one of several commits and return the version that it made."""
    for _ in range(_TRIES):
        table = _opened(staged, position)
        try:
            with guard(staged.address.uri, "the commit failed"):
                run(table, properties)
            return position + 1
        except CommitConflict as conflict:
            if first:
                raise
            position = _behind(staged, conflict)
    raise _stopped(staged)


def _opened(staged: DeltaStaged, position: int) -> DeltaTable:
    """The table at a version. Raises ``CommitConflict`` where another one has taken its place meanwhile."""
    table = staged.address.open(position)
    with guard(staged.address.uri):
        same = str(table.metadata().id) == staged.metadata.id
    if not same:
        raise CommitConflict(
            "another table stands in the place of the one that was staged; nothing was changed",
            where=staged.address.uri,
            hint="make the plan again",
        )
    return table


def _behind(staged: DeltaStaged, conflict: CommitConflict) -> int:
    """The newest version, if what others committed meanwhile leaves the schema as it is."""
    table = staged.address.open()
    with guard(staged.address.uri):
        struct = parse_struct(table.schema().to_json(), staged.address.uri)
    how = staged.alteration
    assert how is not None
    allowed = {shape(staged.before), shape(how.result)}
    if shape(struct) not in allowed:
        raise _stopped(staged) from conflict
    return table.version()


def _stopped(staged: DeltaStaged) -> PartlyApplied:
    return PartlyApplied(
        "the commits stopped part-way: other writers keep committing, or changed the schema",
        where=staged.address.uri,
        hint="run apply again with --resume when the table is quiet",
    )


def _properties(custom: Mapping[str, str]) -> Any:
    """Our own entries of a commitInfo. With the marker goes the transaction of its plan, so that other tools see that
    it ran; whether it did, the marker alone decides, since delta-rs commits one transaction twice
    (delta-io/delta-rs#2580)."""
    from deltalake import CommitProperties, Transaction

    plan, version = custom.get(marker.PLAN_DIGEST), custom.get(marker.VERSION)
    ran = [Transaction(TRANSACTION + plan, int(version))] if plan and version and STEP not in custom else None
    return CommitProperties(custom_metadata=dict(custom), max_commit_retries=0, app_transactions=ran)


def _schema(struct: Struct) -> Any:
    from deltalake import Schema

    return Schema.from_json(json.dumps(struct_json(struct)))


def _filled(entries: Sequence[MarkerEntry], version: int) -> tuple[MarkerEntry, ...]:
    """The entries with the newest one's origin, where it is a new version: the commit that brings it, and when, since
    the log forgets both."""
    newest = entries[-1]
    if "version" in newest.origin:
        return tuple(entries)
    began = {"version": version, "at": int(time.time() * 1000)}
    return (*entries[:-1], replace(newest, origin={**newest.origin, **began}))


def _marked_first(struct: Struct, properties: Mapping[str, str]) -> Struct:
    first, *rest = _unmarked(struct).columns
    return Struct((replace(first, metadata={**first.metadata, **properties}), *rest))


def _unmarked(struct: Struct) -> Struct:
    return Struct(tuple(_clean(c) for c in struct.columns))


def _clean(column: Column) -> Column:
    """The column without what an earlier marker left on it; the Avro type stays."""
    kept = {k: v for k, v in column.metadata.items() if not _is_marker(k)}
    return replace(column, type=_clean_type(column.type), metadata=kept)


def _clean_type(type_: DeltaType) -> DeltaType:
    match type_:
        case Struct():
            return _unmarked(type_)
        case ListOf():
            return replace(type_, element=_clean_type(type_.element))
        case MapOf():
            return replace(type_, value=_clean_type(type_.value))
    return type_


def _is_marker(key: str) -> bool:
    return key in (marker.VERSION, marker.SCHEMA_DIGEST, marker.PLAN_DIGEST) or key.startswith(marker.ENTRY)


def _marked_added(merge: Sequence[Column], before: Struct, properties: Mapping[str, str]) -> list[Column]:
    """The columns to merge with the marker on the first one that is new, at whatever depth."""
    left = dict(properties)

    def columns(parts: Iterable[Column], old: Struct | None) -> tuple[Column, ...]:
        return tuple(column(part, old.column(part.name) if old is not None else None) for part in parts)

    def column(part: Column, old: Column | None) -> Column:
        if old is None:
            made = replace(part, metadata={**part.metadata, **left})
            left.clear()
            return made
        return replace(part, type=type_(part.type, old.type))

    def type_(part: DeltaType, old: DeltaType) -> DeltaType:
        match part, old:
            case Struct(), Struct():
                return Struct(columns(part.columns, old))
            case ListOf(), ListOf():
                return replace(part, element=type_(part.element, old.element))
            case MapOf(), MapOf():
                return replace(part, value=type_(part.value, old.value))
        return part

    return list(columns(merge, before))


def copy_marker(address: Address, entries: Sequence[MarkerEntry]) -> bool:
    """Copy the marker to where it outlives the log; return whether it is there.

    The marker is complete without the copy, so another writer who keeps getting in between is no error: the next
    evolution copies everything again.
    """
    for _ in range(3):
        table = address.open()
        with guard(address.uri):
            held = _put_before(table)
        wanted = marker.to_properties(entries)
        missing = {k: v for k, v in wanted.items() if held.get(k) != v}
        if not missing:
            return True
        try:
            with guard(address.uri, "the marker cannot be copied"):
                _put(table, missing, {COPY: str(entries[-1].number)})
            return True
        except CommitConflict:
            continue
    return False


def restore(address: Address, version: int, position: int, entries: Sequence[MarkerEntry]) -> tuple[MarkerEntry, ...]:
    recorded = _filled(entries, version + 1)
    table = address.open()
    if table.version() != version:
        raise CommitConflict(
            "another writer committed to the table first; nothing was changed", where=address.uri, hint="try again"
        )
    with guard(address.uri, "the table cannot go back"):
        table.restore(position, commit_properties=_properties(marker.to_properties(recorded)))
    return recorded


def begun(commits: Iterable[Commit], plan_digest: str) -> bool:
    """Whether a commit of this plan is in the log that is not its last."""
    return any(c.properties.get(marker.PLAN_DIGEST) == plan_digest and STEP in c.properties for c in commits)


def protocol_after(protocol: Protocol, struct: Struct) -> Protocol:
    """The protocol that ``add_columns`` leaves: it adds what a local timestamp needs."""
    if "timestamp_ntz" not in primitives_of(struct) or _NTZ in protocol.writer_features:
        return protocol
    return Protocol(3, 7, protocol.reader_features | {_NTZ}, protocol.writer_features | {_NTZ})
