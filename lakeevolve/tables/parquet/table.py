"""A folder of Parquet files, or Arrow data in memory, as a table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from lakeevolve.errors import CommitConflict, TableError, TableNotFound
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
from lakeevolve.tables.parquet import capability as routes
from lakeevolve.tables.parquet.derive import Derived, derive, loose
from lakeevolve.tables.parquet.folder import digest_of
from lakeevolve.tables.parquet.parts import Part, Source, columns_of, text_of
from lakeevolve.tables.parquet.rows import canonical_rows, read_rows
from lakeevolve.tables.parquet.stage import ParquetStaged

_WRITING: Final = ("rewrite", "backfill")


class Table:
    """See :class:`lakeevolve.tables.base.Table`.

    After an evolution the handle is that of the new folder or object; ``arrow`` is the data of one in memory.
    """

    format: Literal["parquet"] = "parquet"
    ordered = True

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left_out: tuple[str, ...] = ()
        self._begin()

    def _begin(self) -> None:
        self._entries = marker.from_properties(self._source.properties, self._source.uri)
        self._versions: dict[str | None, tuple[Version, ...]] = {}

    def __repr__(self) -> str:
        return f"<Parquet table {self.uri}>"

    @property
    def uri(self) -> str:
        return self._source.uri

    @property
    def arrow(self) -> Any:
        """The data of a table in memory.

        Raises ``TableError`` for a folder, which is read as one.
        """
        data = getattr(self._source, "data", None)
        if data is None:
            raise TableError("the table is a folder", where=self.uri, hint="read it with read()")
        return data

    # Reading --------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        self._source = self._source.again()
        self._begin()

    def leave_out(self, patterns: Sequence[str]) -> None:
        self._left_out = tuple(patterns)
        self._versions.clear()

    @property
    def schema(self) -> Schema:
        return self.history()[-1].schema

    @property
    def foreign(self) -> tuple[str, ...]:
        return self._foreign(None)

    def _foreign(self, hint: Schema | None) -> tuple[str, ...]:
        """The columns that no version of the files that have them owns."""
        if not self._entries:
            return self._derive(hint).foreign
        versions = self.history(hint)
        found: dict[str, None] = {}
        for part in self._source.parts:
            if part.schema is not None:
                owned = {each.name for each in versions[self._version_of(part, versions)[0] - 1].schema.fields}
                found.update(dict.fromkeys(name for name in part.schema.names if name not in owned))
        return tuple(found)

    @property
    def state(self) -> State:
        shapes = sorted({_shape(part.schema) for part in self._source.parts if part.schema is not None})
        pin = {"columns": digest_of("\n".join(shapes)), "version": self._entries[-1].number if self._entries else None}
        return State(self._source.id, pin, digest_of(self._source.listing))

    def _derive(self, hint: Schema | None, renames: Mapping[str, str] | None = None) -> Derived:
        columns = columns_of(self._source.parts, self.uri)
        return derive(columns, _name(self._source.name), hint, renames, self._left_out)

    def derived(self, hint: Schema | None = None, renames: Mapping[str, str] | None = None) -> Schema:
        return self._derive(hint, renames).schema

    def history(self, hint: Schema | None = None) -> tuple[Version, ...]:
        key = None if hint is None else hint.digest
        if key not in self._versions:
            made = [_version(entry, self._source.properties) for entry in self._entries]
            self._versions[key] = tuple(made) or (Version(1, self.derived(hint), derived=True),)
        return self._versions[key]

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        versions = self.history(hint)
        source, parts = self._source, self._source.parts
        if position is not None and position != self.state.position:
            number, last = divmod(position, 2)
            source, versions = self._at(number), versions[:number]
            written = [part for part in source.parts if part.recorded]
            parts = source.parts if last or not written else written
        return tuple(_file(source, part, *self._version_of(part, versions)) for part in parts)

    def _at(self, number: int) -> Source:
        if number == self.history()[-1].number:
            return self._source
        found = self._source.earlier(number)
        if found is None:
            raise TableNotFound(f"the folder of version {number} is not there any more", where=self.uri)
        return found

    @staticmethod
    def _began(version: Version) -> tuple[int | None, int]:
        """The positions around a version's beginning: each has two, when it came and when the next one did."""
        return (2 * version.number - 1 if version.number > 1 else None, 2 * version.number)

    def _version_of(self, part: Part, versions: Sequence[Version]) -> tuple[int, bool]:
        """The version that a part was written for, and whether that had to be inferred."""
        if part.version is not None and 1 <= part.version <= versions[-1].number:
            return part.version, False
        if part.schema is None or len(versions) == 1:
            return versions[-1].number, part.version is None and bool(self._entries)
        held = {column.name: text_of(column) for column in part.schema}
        best, distance = versions[-1].number, -1
        for version in reversed(versions):
            meant = {each.name: str(loose(each.type)) for each in version.schema.fields}
            found = len(set(meant.items()) ^ set(held.items()))
            if distance < 0 or found < distance:
                best, distance = version.number, found
        return best, True

    def landed(self, version: Version) -> tuple[int | None, int] | None:
        wrote = version.plan is not None and set(_WRITING) & set(version.routes.values())
        return self._began(version) if wrote else None

    def live(self, file: DataFile) -> int | None:
        return file.rows

    def stored(self, file: DataFile) -> Stored:
        source, part = file.handle
        found: Stored = source.stored(part)
        return found

    def raw(self, file: DataFile, hint: Schema | None = None) -> Iterator[pa.RecordBatch]:
        source, part = file.handle
        version = self.history(hint)[file.version - 1]
        yield from canonical_rows(source.batches(part), version.schema, self._foreign(hint))

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        source, parts = (self._source, self._source.parts) if file is None else (file.handle[0], [file.handle[1]])
        yield from read_rows(source, parts, self.schema, self.foreign, predicate, columns)

    # Planning -------------------------------------------------------------------------------------------------------

    def capability(
        self,
        change: Change,
        base: Schema,
        target: Schema,
        fills: Mapping[str, Fill],
        renames: Mapping[str, str] | None = None,
    ) -> Capability:
        return routes.capability(change, target, fills, self._source.goes_to(self.history()[-1].number + 1))

    def combine(self, changes: Sequence[tuple[Change, Capability]]) -> Sequence[tuple[Change, Capability]]:
        return list(changes)

    def must_rewrite(
        self,
        evolution_routes: Sequence[tuple[Change, Route]],
        files: Iterable[DataFile],
        fills: Mapping[str, Fill] | None = None,
    ) -> tuple[DataFile, ...]:
        """All files, if any change rewrites: they go into one new folder together."""
        return tuple(files) if any(route in _WRITING for _, route in evolution_routes) else ()

    # Evolving -------------------------------------------------------------------------------------------------------

    def stage(self, evolution: Evolution) -> Staged:
        hint = evolution.target
        newest = self.history(hint)[-1].number
        number = newest + 1 if evolution.changes else newest
        target = self._source.target(number)
        staged = ParquetStaged(target, evolution, self._foreign(hint), number, self._source.listing)
        try:
            staged.write(self.files(hint=hint))
        except BaseException:
            target.abandon()
            raise
        return staged

    def commit(self, staged: Staged, entries: Sequence[MarkerEntry]) -> State:
        assert isinstance(staged, ParquetStaged)
        if self._source.again().listing != staged.listing:
            raise CommitConflict(
                "files came or went while the new folder was written", where=self.uri, hint="run it again"
            )
        self._source = staged.target.finish(marker.to_properties(self._placed(entries)), entries[-1].number)
        self._begin()
        return self.state

    def _placed(self, entries: Sequence[MarkerEntry]) -> tuple[MarkerEntry, ...]:
        """The entries with the time at which the newest came: what the table holds already stays word for word."""
        held = {entry.number: entry for entry in self._entries}
        now = {**entries[-1].origin, "at": int(time.time() * 1000)}
        return (*(held.get(each.number, each) for each in entries[:-1]), replace(entries[-1], origin=now))

    def around(self, version: Version) -> tuple[int | None, int | None]:
        return self._began(version)

    def restore(self, position: int | None, entries: Sequence[MarkerEntry]) -> State:
        """A new folder that holds the files of an earlier one."""
        if position is None:
            raise TableError("the table had no version before its first", where=self.uri, hint="delete the folder")
        target = self._source.target(entries[-1].number)
        try:
            for file in self.files(position):
                target.copy(file.handle[1], file.version)
            self._source = target.finish(marker.to_properties(self._placed(entries)), entries[-1].number)
        except BaseException:
            target.abandon()
            raise
        self._begin()
        return self.state

    @property
    def retention(self) -> timedelta:
        """Nobody promises how long the folder of an earlier version stays."""
        return timedelta(0)

    def discard(self, paths: Iterable[str]) -> tuple[str, ...]:
        return self._source.discard(tuple(paths))

    def writes(self, limit: int = 5) -> tuple[Write, ...]:
        places = [part.place for part in self._source.parts if isinstance(part.place, Path) and part.place.exists()]
        times = sorted({int(place.stat().st_mtime) for place in places}, reverse=True)[:limit]
        return tuple(Write(datetime.fromtimestamp(at, UTC), "file written", "unknown") for at in times)

    def findings(self) -> tuple[Finding, ...]:
        return ()

    def resume(self, plan_digest: str | None) -> None:
        """Nothing to do: a new folder appears whole or not at all."""

    def progress_of(self, plan_digest: str) -> Literal["none", "partly", "done"]:
        if any(entry.plan == plan_digest for entry in self._entries):
            return "done"
        newest = self.history()[-1].number
        for number in (newest + 1, newest):
            found = self._source.successor(number)
            entries = () if found is None else marker.from_properties(found.properties, found.uri)
            if found is not None and any(entry.plan == plan_digest for entry in entries):
                self._source = found
                self._begin()
                return "done"
        return "none"

    # Describing -----------------------------------------------------------------------------------------------------

    def describe(self) -> Mapping[str, Any]:
        files, state = self.files(), self.state
        try:
            columns = columns_of(self._source.parts, self.uri)
        except TableError:
            columns = next(part.schema for part in self._source.parts if part.schema is not None)
        return {
            "uri": self.uri,
            "format": self.format,
            "id": state.id,
            "pin": dict(state.pin),
            "position": state.position,
            "name": self._source.name,
            "schema": self.schema.to_json(),
            "foreign": list(self.foreign),
            "versions": [
                {
                    "version": version.number,
                    "digest": version.digest,
                    "plan": version.plan,
                    "derived": version.derived,
                    "commit": version.commit,
                    "at": version.at.isoformat() if version.at else None,
                }
                for version in self.history()
            ],
            "columns": [{"name": each.name, "type": str(each.type), "nullable": each.nullable} for each in columns],
            "partitioning": [],
            "features": {},
            "counts": {
                "files": len(files),
                "rows": sum(file.rows for file in files),
                "bytes": sum(file.bytes for file in files),
            },
        }


def _file(source: Source, part: Part, version: int, inferred: bool) -> DataFile:
    # The folder's name tells the files of one version from those of another.
    path = f"{source.name}/{part.name}" if isinstance(part.place, Path) else part.name
    return DataFile(path, part.rows, part.bytes, version, inferred, None, (source, part))


def _version(entry: MarkerEntry, properties: Mapping[str, str]) -> Version:
    at = entry.origin.get("at")
    return Version(
        entry.number,
        marker.schema_in(properties, entry),
        entry.plan,
        entry.fills,
        entry.renames,
        entry.fresh,
        entry.routes,
        derived=entry.plan is None and entry.origin.get("restores") is None,
        at=None if at is None else datetime.fromtimestamp(at / 1000, UTC),
        recorded=True,
        restores=entry.origin.get("restores"),
    )


def _name(text: str) -> str:
    plain = "".join(each if each.isalnum() or each == "_" else "_" for each in text)
    return plain if plain and plain.isascii() and not plain[0].isdigit() else "Row"


def _shape(schema: pa.Schema) -> str:
    return str([(column.name, str(column.type), column.nullable) for column in schema])
