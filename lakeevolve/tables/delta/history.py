"""The versions that a table has had: those its marker names, and those that other tools made since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from lakeevolve.avro.parse import parse
from lakeevolve.errors import LakeEvolveError, TableError
from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.tables import marker
from lakeevolve.tables.base import Fill, MarkerEntry, Version
from lakeevolve.tables.delta.follow import follow
from lakeevolve.tables.delta.log import Commit, Metadata, Snapshot
from lakeevolve.tables.delta.schema import delta_type, derive
from lakeevolve.tables.delta.types import Struct, columns_of, same_type, shape


@dataclass(frozen=True, slots=True)
class View:
    """The versions, oldest first, with the Delta schema in force at each, and the newest one's foreign columns.

    ``coming`` is the version whose columns are there, and old rows do not yet read what it says.
    """

    versions: tuple[Version, ...]
    structs: tuple[Struct, ...]
    foreign: tuple[str, ...]
    coming: Version | None = None

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def at(self, commit: int | None) -> Version | None:
        """The version in force at a commit; None for a commit that is not known."""
        if commit is None:
            return None
        return next((v for v in reversed(self.versions) if v.commit is None or v.commit <= commit), self.versions[0])

    def struct(self, version: int) -> Struct:
        return self.structs[version - 1]


def marker_entries(snapshot: Snapshot, where: str) -> tuple[MarkerEntry, ...]:
    """What the table carries about its versions, from all three places.

    commitInfo is written with the evolution itself, and so is the metadata of a column; the copy in the configuration
    follows, and outlives the log. Where they differ (a table that went back and evolved anew), the newest commit wins.
    """
    found: dict[int, MarkerEntry] = {}
    sources: list[Mapping[str, Any]] = [c.metadata for c in columns_of(snapshot.metadata.struct)]
    sources.append(snapshot.metadata.configuration)
    sources.extend(c.properties for c in snapshot.commits)
    for source in sources:
        if any(key.startswith(marker.ENTRY) for key in source):
            found.update((e.number, e) for e in marker.from_properties(source, where))
    numbers = sorted(found)
    if numbers != list(range(1, len(numbers) + 1)):
        raise TableError(
            "the table's marker lacks a version",
            where=where,
            hint="restore the lakeevolve.* table properties from an earlier version of the table's metadata",
        )
    return tuple(found[n] for n in numbers)


#: In the commitInfo of the commit that adds columns which an UPDATE is to fill (``pending``), and of that (``done``).
UPDATE: Final = marker.PREFIX + "update"


def pending_plan(commits: Iterable[Commit]) -> str | None:
    """The plan whose columns are there and not yet filled."""
    now: str | None = None
    then: dict[int, str | None] = {}
    for commit in commits:
        said = commit.properties.get(UPDATE)
        if said is not None:
            now = commit.properties.get(marker.PLAN_DIGEST) if said == "pending" else None
        elif commit.restored is not None:
            now = then.get(commit.restored)
        then[commit.version] = now
    return now


def filling_commit(commits: Iterable[Commit], plan: str) -> int | None:
    """The commit that filled the columns which a plan had added in one before."""
    said = ((c.version, c.properties.get(UPDATE)) for c in commits if c.properties.get(marker.PLAN_DIGEST) == plan)
    return next((version for version, step in said if step == "done"), None)


def build(
    snapshot: Snapshot, *, name: str, where: str, hint: Schema | None = None, left_out: Sequence[str] = ()
) -> View:
    """Every version that the table has had. *left_out* holds names of columns that nobody owns, as patterns."""
    entries = marker_entries(snapshot, where)
    pending = pending_plan(snapshot.commits)
    hidden = [entry for entry in entries if pending is not None and entry.plan == pending]
    number = entries[-1].number if entries else 0
    # A version whose rows do not yet read what it says is not in force.
    entries = tuple(entry for entry in entries if entry not in hidden)
    changes = [c for c in snapshot.commits if c.metadata is not None]
    times = {c.version: c.at for c in snapshot.commits}
    if entries:
        history = _from_marker(entries, changes, times, where)
        history.left_out = left_out
        recorded = _recorded(snapshot, number)
    else:
        first = changes[0]
        struct = _metadata(first).struct
        derived = derive(struct, name=name, hint=hint, left_out=left_out)
        version = Version(1, derived.schema, derived=True, at=first.at if snapshot.complete else None)
        history = _History([version], [struct], set(derived.foreign), left_out)
        recorded = first.version
    history.struct = _in_force(changes, recorded) or history.structs[-1]
    if entries:
        owned = {f.name for f in history.versions[-1].schema.fields}
        history.foreign = {c.name for c in history.struct.columns} - owned
        if not snapshot.complete and not _reaches(changes, history.versions[-1].commit):
            history.catch_up(changes[0], name)
    for commit in changes:
        if commit.version > recorded:
            history.take(commit, name, hint if not entries else None)
    owned = {f.name for f in history.versions[-1].schema.fields}
    owned |= {field["name"] for entry in hidden for field in entry.schema["fields"]}
    foreign = tuple(c.name for c in snapshot.metadata.struct.columns if c.name not in owned)
    coming = _from_marker((hidden[-1],), changes, times, where).versions[0] if hidden else None
    return View(tuple(history.versions), tuple(history.structs), foreign, coming)


@dataclass(slots=True)
class _History:
    versions: list[Version]
    structs: list[Struct]
    foreign: set[str]
    left_out: Sequence[str] = ()
    struct: Struct | None = None

    def take(self, commit: Commit, name: str, hint: Schema | None) -> None:
        """Follow one change of the metadata that no marker covers."""
        struct, before, newest = _metadata(commit).struct, self.struct, self.versions[-1]
        assert before is not None
        self.struct = struct
        if commit.restored is not None:
            back = self._at(commit.restored)
            if back is not None and back.schema != newest.schema:
                again = Version(
                    newest.number + 1, back.schema, derived=True, commit=commit.version, restores=back.number
                )
                self._append(again, commit)
            return
        if shape(struct) == shape(before):
            self.structs[-1] = struct
            return
        derived = derive(
            struct,
            name=name,
            hint=hint or newest.schema,
            foreign=self.foreign,
            left_out=self.left_out,
            follow=hint is None,
        )
        self.foreign |= set(derived.foreign)
        if derived.schema == newest.schema:
            self.structs[-1] = struct
            return
        how = follow(before, struct)
        inner = {c.name for c in struct.columns} - set(derived.foreign)
        fills: dict[str, Fill] = {path: "null" for path in how.added if _top(path, inner)}
        self._append(
            Version(
                newest.number + 1,
                derived.schema,
                fills=fills,
                renames={new: old for new, old in how.renames.items() if _top(new, inner)},
                fresh=frozenset(path for path in how.fresh if _top(path, inner)),
                derived=True,
                commit=commit.version,
            ),
            commit,
        )

    def catch_up(self, first: Commit, name: str) -> None:
        """Follow what others changed in a part of the log that is gone: columns of the marker that are not there any
        more, or of another type. More columns than those of the marker are nobody's."""
        struct, newest = _metadata(first).struct, self.versions[-1]
        owned = Struct(tuple(c for c in struct.columns if c.name not in self.foreign))
        if same_type(owned, delta_type(newest.schema.root)):
            return
        derived = derive(struct, name=name, hint=newest.schema, foreign=self.foreign, follow=True)
        if derived.schema == newest.schema:
            return
        added = [c.path for c in diff(newest.schema, derived.schema).changes if isinstance(c, AddField)]
        fills: dict[str, Fill] = dict.fromkeys(added, "null")
        version = Version(newest.number + 1, derived.schema, fills=fills, derived=True, commit=first.version)
        self._append(version, first)

    def _append(self, version: Version, commit: Commit) -> None:
        self.versions.append(replace(version, at=commit.at))
        self.structs.append(_metadata(commit).struct)

    def _at(self, commit: int) -> Version | None:
        return next((v for v in reversed(self.versions) if v.commit is None or v.commit <= commit), None)


def _top(path: str, names: set[str]) -> bool:
    return paths.parts(path)[0] in names


def _metadata(commit: Commit) -> Metadata:
    assert commit.metadata is not None
    return commit.metadata


def _from_marker(
    entries: tuple[MarkerEntry, ...], changes: list[Commit], times: Mapping[int, datetime | None], where: str
) -> _History:
    versions = []
    structs = []
    for entry in entries:
        commit = entry.origin.get("version")
        try:
            schema = parse(entry.schema, lenient=True)
        except LakeEvolveError as error:
            raise TableError(
                f"the schema of version {entry.number} in the table's marker cannot be read",
                where=where,
                hint="restore the lakeevolve.* table properties from an earlier version of the table's metadata",
            ) from error
        versions.append(
            Version(
                entry.number,
                schema,
                plan=entry.plan,
                fills=dict(entry.fills),
                renames=dict(entry.renames),
                fresh=entry.fresh,
                routes=dict(entry.routes),
                derived=entry.plan is None,
                commit=commit,
                at=_time(entry, times.get(commit or 0)),
                recorded=True,
                restores=entry.origin.get("restores"),
            )
        )
        structs.append(_in_force(changes, commit) or _likely(_metadata(changes[0]).struct, schema))
    return _History(versions, structs, set())


def _time(entry: MarkerEntry, logged: datetime | None) -> datetime | None:
    """When a version came into force: as the log says, else as the marker does."""
    recorded = entry.origin.get("at")
    return logged if logged is not None or recorded is None else datetime.fromtimestamp(recorded / 1000, UTC)


def _reaches(changes: list[Commit], commit: int | None) -> bool:
    """Whether the log reaches back to a commit."""
    return commit is not None and changes[0].version <= commit


def _likely(struct: Struct, schema: Schema) -> Struct:
    """The Delta schema that a version had of which the log no longer tells: the oldest one known, or where that lacks
    a column of the version, what its Avro schema amounts to."""
    wanted = delta_type(schema.root)
    assert isinstance(wanted, Struct)
    known = {c.name: c for c in struct.columns}
    if all(c.name in known and same_type(c.type, known[c.name].type) for c in wanted.columns):
        return struct
    return Struct(
        tuple(known[c.name] if c.name in known and same_type(c.type, known[c.name].type) else c for c in wanted.columns)
    )


def _in_force(changes: list[Commit], commit: int | None) -> Struct | None:
    """The Delta schema in force at a commit; None where the log does not reach back so far."""
    found = [_metadata(c).struct for c in changes if commit is not None and c.version <= commit]
    return found[-1] if found else None


def _recorded(snapshot: Snapshot, newest: int) -> int:
    """The commit that brought the newest version's marker, or the first one known to hold it."""
    key = f"{marker.ENTRY}{newest}"
    for commit in reversed(snapshot.commits):
        if key in commit.properties:
            return commit.version
    for commit in snapshot.commits:
        held = commit.metadata
        if held is not None and (key in held.configuration or any(key in c.metadata for c in columns_of(held.struct))):
            return commit.version
    return snapshot.version
