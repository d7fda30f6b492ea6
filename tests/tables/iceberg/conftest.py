"""Evolving Iceberg tables in tests: the way that apply goes, without plans, proofs or journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, StructType

from lakeevolve.avro.arrow import arrow_schema, execute
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.model.change import AddField, Change
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import Capability, DataFile, Evolution, Fill, MarkerEntry, Staged, Version
from lakeevolve.tables.iceberg import IcebergHandle, append, create_table, open_table
from lakeevolve.tables.iceberg.catalog import open_catalog, parse_uri


@dataclass
class Evolved:
    """What one evolution did."""

    capabilities: list[tuple[Change, Capability]]
    staged: Staged
    evolution: Evolution

    def routes(self) -> set[str]:
        return {can.route for _, can in self.capabilities}


@dataclass
class Workshop:
    """An embedded catalog in a folder, and what is done to its tables."""

    folder: Path
    plans: Iterator[int] = field(default_factory=lambda: iter(range(1, 1000)))

    def uri(self, name: str = "t") -> str:
        return f"iceberg:{self.folder / 'lake'}/shop.{name}"

    def table(
        self, schema: Any, rows: Sequence[Mapping[str, Any]] = (), name: str = "t", **options: Any
    ) -> IcebergHandle:
        made = create_table(self.uri(name), parse(schema), **options)
        if rows:
            self.append(made, schema, rows)
        return made

    def append(self, table: IcebergHandle, schema: Any, rows: Sequence[Mapping[str, Any]]) -> int:
        return append(table, pa.Table.from_pylist(list(rows), schema=arrow_schema(parse(schema), strict=False)))

    def reopen(self, table: IcebergHandle) -> IcebergHandle:
        return open_table(table.uri)

    def prepare(
        self,
        table: IcebergHandle,
        target: Any,
        *,
        renames: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        fills: Mapping[str, Fill] | None = None,
        convert: Callable[[DataFile], Iterator[pa.RecordBatch]] | None = None,
    ) -> Evolved:
        wanted = target if isinstance(target, Schema) else parse(target)
        versions = table.history(hint=wanted)
        base = versions[-1].schema
        delta = diff(base, wanted, renames)
        filled: dict[str, Fill] = {c.path: "default" for c in delta.changes if isinstance(c, AddField)}
        filled.update(fills or {})
        found = [(c, table.capability(c, base, wanted, filled)) for c in delta.changes]
        found = list(table.combine(found))
        routed = [(change, can.route) for change, can in found]
        files = table.files(hint=wanted)
        after = Version(len(versions) + 1, wanted, fills=filled, renames=delta.renames)
        evolution = Evolution(
            base=base,
            target=wanted,
            changes=routed,
            renames=delta.renames,
            fills=filled,
            rewrite=table.must_rewrite(routed, files),
            convert=convert or (lambda file: fold(table, (*versions, after), file, wanted)),
        )
        return Evolved(found, table.stage(evolution), evolution)

    def commit(self, table: IcebergHandle, evolved: Evolved, plan: str | None = None) -> None:
        versions = table.history(hint=evolved.evolution.target)
        entry = MarkerEntry(
            number=len(versions) + 1,
            schema=evolved.evolution.target.to_json(),
            digest=evolved.evolution.target.digest,
            plan=plan or f"plan-{next(self.plans)}",
            origin={},
            fills=evolved.evolution.fills,
            renames=evolved.evolution.renames,
            routes={change.path: route for change, route in evolved.evolution.changes},
        )
        table.commit(evolved.staged, [*(_entry(version) for version in versions), entry])

    def fold(self, table: IcebergHandle, versions: Sequence[Version], file: DataFile) -> Iterator[pa.RecordBatch]:
        return fold(table, versions, file)

    def evolve(self, table: IcebergHandle, target: Any, **options: Any) -> Evolved:
        evolved = self.prepare(table, target, **options)
        self.commit(table, evolved)
        return evolved


def _entry(version: Version) -> MarkerEntry:
    return MarkerEntry(
        number=version.number,
        schema=version.schema.to_json(),
        digest=version.digest,
        plan=version.plan,
        origin={"commit": version.commit, "schema_id": version.schema_id},
        fills=version.fills,
        renames=version.renames,
        routes=version.routes,
        fresh=version.fresh,
    )


def fold(
    table: IcebergHandle, versions: Sequence[Version], file: DataFile, hint: Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """A file's raw rows as they have to read at the newest of *versions*."""
    steps = [
        resolve(old.schema, new.schema, renames=new.renames, fresh=new.fresh, fills=new.fills)
        for old, new in pairwise(versions[file.version - 1 :])
    ]
    for batch in table.raw(file, hint=hint):
        for step in steps:
            batch = execute(step, batch, partial=True)
        yield batch


@dataclass(frozen=True)
class Readings:
    """One table read in several ways, each as a list of rows in the order of ``id``."""

    ours: list[dict[str, Any]]
    expected: list[dict[str, Any]]
    duckdb: list[dict[str, Any]]


def _rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="session")
def duck() -> Any:
    """DuckDB with its Iceberg extension, from the extension's wheel."""
    duckdb = pytest.importorskip("duckdb")
    extensions = pytest.importorskip("duckdb_extensions")
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        extensions.import_extension(name, con=connection)
        connection.load_extension(name)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def read(duck: Any) -> Callable[[IcebergHandle], Readings]:
    """Read a table with pyiceberg, fold its raw files, and read it with DuckDB."""

    def run(table: IcebergHandle) -> Readings:
        versions = table.history()
        ours = _rows(table.read())
        expected = [row for file in table.files() for row in _rows(fold(table, versions, file))]
        found = duck.execute(
            f"SELECT * FROM iceberg_scan('{table.iceberg.metadata_location.removeprefix('file://')}')"
        ).to_arrow_table()
        return Readings(*(_sorted(rows) for rows in (ours, expected, found.to_pylist())))

    return run


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row.get("id")))


class _DeletesWriter(ManifestWriterV2):
    """A manifest of delete files, which the library writes none of."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: Any) -> IcebergSchema:
        """The library has field ids of equality deletes as longs, which Java does not read (Iceberg spec: int)."""
        entry = super()._with_partition(format_version)
        (data,) = (each for each in entry.fields if each.name == "data_file")
        ints = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        inside = [
            each.model_copy(update={"field_type": ints}) if each.name == "equality_ids" else each
            for each in data.field_type.fields
        ]
        whole = data.model_copy(update={"field_type": StructType(*inside)})
        return IcebergSchema(*(whole if each is data else each for each in entry.fields))


class _AddDeletes(_FastAppendFiles):
    """A snapshot that adds delete files."""

    deletes: list[Any]

    def _manifests(self) -> list[Any]:
        by_spec: dict[int, list[Any]] = {}
        for file in self.deletes:
            by_spec.setdefault(file.spec_id, []).append(file)
        made = []
        for spec_id, files in by_spec.items():
            spec, output = self.spec(spec_id), self.new_manifest_output()
            with _DeletesWriter(spec, self.schema(), output, self._snapshot_id, self._compression) as writer:
                for file in files:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self._snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
            made.append(writer.to_manifest_file())
        return [*made, *self._existing_manifests()]


@pytest.fixture
def delete_rows() -> Callable[[IcebergHandle, Mapping[str, Sequence[int]]], None]:
    """Delete rows by position, per data file, as engines that merge on read do."""

    def run(table: IcebergHandle, positions: Mapping[str, Sequence[int]]) -> None:
        iceberg = table.iceberg
        held = {file.path: file.handle.file for file in table.files()}
        made = []
        for path, rows in positions.items():
            where = path.replace(".parquet", f"-{len(rows)}-deletes.parquet")
            schema = pa.schema(
                [
                    pa.field("file_path", pa.string(), False, metadata={"PARQUET:field_id": "2147483546"}),
                    pa.field("pos", pa.int64(), False, metadata={"PARQUET:field_id": "2147483545"}),
                ]
            )
            content = pa.table([[path] * len(rows), list(rows)], schema=schema)
            with iceberg.io.new_output(where).create() as stream:
                pq.write_table(content, stream)
            file = TheirFile.from_args(
                content=DataFileContent.POSITION_DELETES,
                file_path=where,
                file_format=FileFormat.PARQUET,
                partition=held[path].partition,
                record_count=len(rows),
                file_size_in_bytes=len(iceberg.io.new_input(where)),
                lower_bounds={2147483546: path.encode()},
                upper_bounds={2147483546: path.encode()},
            )
            file.spec_id = held[path].spec_id
            made.append(file)
        _add_deletes(table, made)

    return run


def _add_deletes(table: IcebergHandle, made: list[TheirFile]) -> None:
    transaction = table.iceberg.transaction()
    producer = _AddDeletes(Operation.DELETE, transaction, table.iceberg.io)
    producer.deletes = made
    producer.commit()
    transaction.commit_transaction()
    table.refresh()


@pytest.fixture
def delete_equal() -> Callable[..., None]:
    """Delete the rows that hold given values in columns at the top, as engines that upsert do."""

    def run(table: IcebergHandle, ids: Sequence[int] | None = None, **values: Any) -> None:
        iceberg = table.iceberg
        schema = iceberg.schema().as_arrow()
        content = pa.Table.from_pylist([values], schema=pa.schema([schema.field(name) for name in values]))
        where = f"{iceberg.location()}/data/{'-'.join(values)}-{iceberg.metadata.last_sequence_number}-equal.parquet"
        with iceberg.io.new_output(where).create() as stream:
            pq.write_table(content, stream)
        named = [iceberg.schema().find_field(name).field_id for name in values]
        file = TheirFile.from_args(
            content=DataFileContent.EQUALITY_DELETES,
            file_path=where,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=len(iceberg.io.new_input(where)),
            equality_ids=named if ids is None else list(ids) or None,
        )
        file.spec_id = 0
        _add_deletes(table, [file])

    return run


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], IcebergHandle]:
    """Open a table of another project's test data by the part of its metadata's path that tells it."""
    root = Path(__file__).resolve().parents[3].parent / "shared" / "golden"
    monkeypatch.chdir(tmp_path)

    def run(name: str, metadata: str) -> IcebergHandle:
        source = root / f"duckdb_iceberg__{name}"
        if not source.is_dir():
            pytest.skip("the golden tables are not here")
        home = Path("data/persistent")
        home.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(source)
        uri = f"iceberg:{tmp_path / 'lake'}/golden.{name}"
        catalog = open_catalog(parse_uri(uri), {}, create=True)
        catalog.create_namespace("golden")
        catalog.register_table(("golden", name), str(home / name / metadata))
        return open_table(uri)

    return run
