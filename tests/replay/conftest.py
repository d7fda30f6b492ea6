"""A table in memory, whose reader can be made to fail in every way that a real one has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError
from lakeevolve.model.schema import Schema
from lakeevolve.replay.fold import fold
from lakeevolve.tables.base import DataFile, Evolution, Predicate, StagedFile, State, Version

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

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        return tuple(self.states[-1 if position is None else position])

    def landed(self, version: Version) -> tuple[int | None, int] | None:
        return self.landings.get(version.number)

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
                part = part.filter(_mask(part, predicate))
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
