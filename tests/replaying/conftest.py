"""A table in memory, whose reader can be made to fail in every way that a real one has."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.fold import fold
from lakeevolve.tables.base import DataFile, Evolution, Predicate, StagedFile, State, Stored, Version

Change = Callable[[str, pa.Table], pa.Table]


def schema(*fields: Mapping[str, Any], name: str = "Order") -> Schema:
    return parse(json.dumps({"type": "record", "name": name, "fields": list(fields)}))


def version(number: int, of: Schema, **more: Any) -> Version:
    return Version(number, of, **more)


@dataclass
class FakeTable:
    """Rows by file, versions, and states; ``wrong`` spoils what the reader gives of a file."""

    versions: list[Version]
    ordered: bool = True
    format: str = "iceberg"
    uri: str = "iceberg:test/shop.orders"
    foreign: tuple[str, ...] = ()
    foreign_types: dict[str, pa.DataType] = field(default_factory=dict)
    rows: dict[str, pa.Table] = field(default_factory=dict)
    states: list[list[DataFile]] = field(default_factory=lambda: [[]])
    wrong: Change | None = None
    wrong_filtered: Callable[[Predicate, pa.Table], pa.Table] | None = None
    spoil_filtered: Callable[[Predicate, str, pa.Table, pa.Table], pa.Table] | None = None
    unreadable: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    landings: dict[int, tuple[int, int]] = field(default_factory=dict)
    chunk: int = 3

    # --- making

    def layout(self, number: int) -> pa.Schema:
        found = arrow_schema(self.versions[number - 1].schema, strict=False)
        for name in self.foreign:
            found = found.append(pa.field(name, self.foreign_types[name]))
        return found

    def append(self, rows: Sequence[Mapping[str, Any]] | pa.Table, path: str | None = None) -> DataFile:
        number = self.versions[-1].number
        data = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=self.layout(number))
        name = path or f"f{len(self.rows)}.parquet"
        file = DataFile(name, data.num_rows, data.nbytes, number, added=len(self.states))
        self.rows[file.path] = data
        self.states.append([*self.states[-1], file])
        return file

    def evolve(self, new: Schema, *, rewrite: bool = False, **more: Any) -> Version:
        """The next version; with *rewrite* every file is written anew."""
        routes = {"": "rewrite" if rewrite else "metadata"}
        after = Version(self.versions[-1].number + 1, new, commit=len(self.states), routes=routes, **more)
        self.versions.append(after)
        if not rewrite:
            return after
        made = []
        for file in self.states[-1]:
            run = fold(self.versions, file.version, after.number)
            data = pa.Table.from_batches([run(b) for b in self.rows[file.path].to_batches()], self.layout(after.number))
            path = f"{file.path}.v{after.number}"
            self.rows[path] = data
            made.append(DataFile(path, data.num_rows, data.nbytes, after.number, added=len(self.states)))
        self.landings[after.number] = (len(self.states) - 1, len(self.states))
        self.states.append(made)
        return after

    # --- the protocol

    @property
    def schema(self) -> Schema:
        return self.versions[-1].schema

    @property
    def state(self) -> State:
        return State("id-1", {}, len(self.states) - 1)

    def refresh(self) -> None: ...

    def history(self, hint: Schema | None = None) -> tuple[Version, ...]:
        return tuple(self.versions)

    def derived(self, hint: Schema | None = None, renames: Mapping[str, str] | None = None) -> Schema:
        return self.schema

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        return tuple(self.states[-1 if position is None else position])

    def landed(self, version: Version) -> tuple[int | None, int] | None:
        return self.landings.get(version.number)

    def findings(self) -> tuple[Any, ...]:
        return ()

    def live(self, file: DataFile) -> int | None:
        return file.rows

    def stored(self, file: DataFile) -> Stored:
        held = self.rows.get(file.path)
        return Stored(None, None) if held is None else Stored(file.bytes, held.num_rows)

    def raw(self, file: DataFile, hint: Schema | None = None) -> Iterator[pa.RecordBatch]:
        if file.path in self.damaged or file.path not in self.rows:
            raise pa.ArrowInvalid("Could not open Parquet file: secret-value-in-a-message")
        yield from self.rows[file.path].to_batches(max_chunksize=5)

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        return only(self.reading(self.states[-1], file, predicate), columns)

    def reading(
        self,
        files: Iterable[DataFile],
        file: DataFile | None,
        predicate: Predicate | None,
        versions: Sequence[Version] | None = None,
        wrong: Change | None = None,
    ) -> Iterator[pa.RecordBatch]:
        wrong = wrong or self.wrong
        chain = versions or self.versions
        parts = []
        for one in [file] if file is not None else files:
            if one.path in self.unreadable or one.path in self.damaged:
                raise ValueError("secret-value-in-a-message")
            run = fold(chain, one.version, chain[-1].number)
            batches = [run(b) for b in self.rows[one.path].to_batches()]
            part = pa.Table.from_batches(batches) if batches else None
            if part is None:
                continue
            if wrong is not None:
                part = wrong(one.path, part)
            if predicate is not None:
                everything, part = part, part.filter(_mask(part, predicate))
                if self.spoil_filtered is not None:
                    part = self.spoil_filtered(predicate, one.path, everything, part)
                if self.wrong_filtered is not None:
                    part = self.wrong_filtered(predicate, part)
            parts.append(part)
        if not parts:
            return
        whole = pa.concat_tables(parts).combine_chunks()
        if not self.ordered:
            whole = whole.take(pa.array(range(whole.num_rows - 1, -1, -1), pa.int64()))
        yield from whole.to_batches(max_chunksize=self.chunk)


def _mask(table: pa.Table, predicate: Predicate) -> pa.Array:
    """The filter row by row in Python: an implementation of its own."""
    found = []
    for row in table.select([predicate.path.split(".")[0].split("<")[0]]).to_pylist():
        value: Any = row
        for name in predicate.path.replace("<", ".").replace(">", "").split("."):
            value = None if value is None else value[name]
        match predicate.op:
            case "is null":
                found.append(value is None)
            case "=":
                found.append(value is not None and value == predicate.value)
            case "in":
                found.append(value is not None and value in predicate.value)
            case _:
                found.append(value is not None and value < predicate.value)
    return pa.array(found, pa.bool_())


@dataclass
class FakeStaged:
    """A staged evolution of a FakeTable: what is staged can be spoiled too."""

    table: FakeTable
    evolution: Evolution
    versions: Sequence[Version]
    files: list[StagedFile] = field(default_factory=list)
    wrong: Change | None = None

    def __post_init__(self) -> None:
        for source in self.evolution.rewrite:
            path = f"staged-{source.path}"
            self.table.rows[path] = pa.Table.from_batches(
                list(self.evolution.convert(source)), arrow_schema(self.evolution.target, strict=False)
            )
            self.files.append(StagedFile(path, source.rows, 0, (source.path,)))

    def raw(self, file: StagedFile) -> Iterator[pa.RecordBatch]:
        yield from self.table.rows[file.path].to_batches(max_chunksize=4)

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        gone = {f.path for f in self.evolution.rewrite}
        number = self.versions[-1].number
        live = [f for f in self.table.states[-1] if f.path not in gone]
        live += [DataFile(f.path, f.rows, 0, number) for f in self.files]
        yield from only(self.table.reading(live, file, predicate, self.versions, self.wrong), columns)

    def abandon(self) -> tuple[str, ...]:
        return ()


def only(batches: Iterable[pa.RecordBatch], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if columns is None else batch.select(list(columns))


def spoil(table: pa.Table, row: int, change: Callable[[dict[str, Any]], None]) -> pa.Table:
    """The table with one row changed in Python."""
    rows = table.to_pylist()
    change(rows[row])
    return pa.Table.from_pylist(rows, schema=table.schema)


def without_rows(table: pa.Table, *rows: int) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(pa.array(range(table.num_rows)), pa.array(rows, pa.int64()))))


def error(what: str) -> TableError:
    return TableError(what)


# --- tables on disk


@dataclass
class OnDisk:
    """A table of one format in a folder, with ways to damage it behind its back."""

    format: str
    uri: str
    append: Callable[[pa.Table], Any]
    folder: Path

    def open(self) -> Any:
        return le.open_table(self.uri)

    def add(self, fields: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> None:
        layout = arrow_schema(schema(*fields), strict=False)
        self.append(pa.Table.from_pylist(list(rows), schema=layout))

    def evolve(self, fields: Sequence[Mapping[str, Any]], **more: Any) -> Any:
        plan = le.plan(self.uri, {"type": "record", "name": "Order", "fields": list(fields)}, **more)
        done = le.apply(plan, allow=plan.permits)
        assert done.status == "applied"
        return done

    def path(self, file: str) -> Path:
        if file.startswith("file://"):
            return Path(file.removeprefix("file://"))
        return Path(file) if os.path.isabs(file) else self.folder / file

    def overwrite(self, file: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the rows of a data file, keeping everything else of the file."""
        path = self.path(file)
        before = path.stat().st_size
        data = pq.read_table(path)
        pq.write_table(change(data).cast(data.schema), path)
        if self.format == "delta":
            # delta-rs finds the footer by the size that the log holds.
            after = path.stat().st_size
            for log in (self.folder / "_delta_log").glob("*.json"):
                log.write_text(log.read_text().replace(f'"size":{before}', f'"size":{after}'))

    def change(self, file: str, row: int, **values: Any) -> None:
        """Change one row of a data file."""
        self.overwrite(file, lambda data: spoil(data, row, lambda old: old.update(values)))

    def edit_log(self, change: Callable[[dict[str, Any]], None], only: str | None = None) -> None:
        """Change the ``add`` actions of a Delta log, or the one of a file."""
        for log in (self.folder / "_delta_log").glob("*.json"):
            actions = [json.loads(line) for line in log.read_text().splitlines()]
            for action in actions:
                if "add" in action and (only is None or action["add"]["path"] == only):
                    change(action["add"])
            log.write_text("\n".join(json.dumps(action) for action in actions) + "\n")

    def edit_manifests(self, change: Callable[[dict[str, Any]], None], only: str | None = None) -> None:
        """Change the files of an Iceberg table's current manifests, or the one of that path."""
        table = self.open().iceberg
        for manifest in table.current_snapshot().manifests(table.io):
            path = self.path(manifest.manifest_path)
            with path.open("rb") as stream:
                reader = fastavro.reader(stream)
                layout, metadata = reader.writer_schema, reader.metadata
                entries = list(reader)
            for entry in entries:
                if only is None or entry["data_file"]["file_path"] == only:
                    change(entry["data_file"])
            kept = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
            with path.open("wb") as stream:
                fastavro.writer(stream, layout, entries, metadata=kept)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OnDisk]:
    """Makes tables: of a format, with these fields."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def build(format_: str, fields: Sequence[Mapping[str, Any]], name: str = "orders") -> OnDisk:
        if format_ == "iceberg":
            from lakeevolve.tables import iceberg

            uri = f"iceberg:{tmp_path / 'lake'}/shop.{name}"
            iceberg.create_table(uri, schema(*fields), mark=True)
            return OnDisk("iceberg", uri, lambda data: iceberg.append(uri, data), tmp_path)
        from lakeevolve.tables.delta import create

        uri = f"delta:{tmp_path / name}"
        create.create_table(uri, schema(*fields), mark=True)
        return OnDisk("delta", uri, lambda data: create.append(uri, data), tmp_path / name)

    return build


@pytest.fixture(scope="session")
def make() -> Any:
    """The helpers of this folder under one name."""

    class Make:
        table = FakeTable
        staged = FakeStaged
        schema = staticmethod(schema)
        version = staticmethod(version)
        spoil = staticmethod(spoil)
        without_rows = staticmethod(without_rows)

    return Make
