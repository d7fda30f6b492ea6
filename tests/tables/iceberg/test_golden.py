"""Tables that other engines wrote: planned for, evolved as copies and read back, or refused by their cause's name."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.applying.past import past_of
from lakeevolve.errors import CatalogUnavailable, LakeEvolveError, UnsupportedTable
from lakeevolve.tables.iceberg import create_table, open_table
from lakeevolve.tables.iceberg.catalog import open_catalog, parse_uri
from tests.tables.shapes import Row, targets

GOLDEN = Path(__file__).resolve().parents[3].parent / "shared" / "golden"

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden tables are not here")

ALL = ("rewrite", "backfill", "drop", "protocol-upgrade")

#: table -> its newest metadata and the rows that it holds.
NEWEST = {
    "add_columns_with_defaults": ("default.db/add_columns_with_defaults/metadata/00003-3f1801a5", 3),
    "case_sensitive_names": ("default.db/case_sensitive_names/metadata/00001-a7a3a44c", 3),
    "name_mapping": ("warehouse_1/mydb/t1/metadata/v7.", 10_000),
    "hive_partitioned_table": ("metadata/v4.", 6),
    "uuid": ("metadata/00001-43fda1f4", 10),
    "timestamptz_ns": ("metadata/v1.", 0),
}

#: Metadata of the same tables as they once were -> the rows that they held.
EARLIER = [
    ("add_columns_with_defaults", "default.db/add_columns_with_defaults/metadata/00000-d099e962", 0),
    ("add_columns_with_defaults", "default.db/add_columns_with_defaults/metadata/00001-af871980", 2),
    ("add_columns_with_defaults", "default.db/add_columns_with_defaults/metadata/00002-2d907d9d", 2),
    ("case_sensitive_names", "default.db/case_sensitive_names/metadata/00000-c86b5eba", 0),
    ("name_mapping", "warehouse_1/mydb/t1/metadata/v4.metadata", 10_000),
    ("name_mapping", "warehouse_1/mydb/t1/metadata/v5.", 10_000),
    ("name_mapping", "warehouse_1/mydb/t1/metadata/v6.", 10_000),
    ("hive_partitioned_table", "metadata/v1.", 0),
    ("hive_partitioned_table", "metadata/v2.", 2),
    ("hive_partitioned_table", "metadata/v3.", 2),
    ("uuid", "metadata/00000-e8729e86", 0),
]

EQUALITY = [
    "warehouse/mydb/mytable/metadata/v7.",
    *(f"warehouse/mydb/mytable_partitioned/metadata/v{number}." for number in (4, 5, 6)),
]

#: change -> the route that it takes where nothing of the table stands against it.
ROUTES = {
    "add nullable": "metadata",
    "add with default": "backfill",
    "rename": "metadata",
    "drop": "metadata",
    "promote": "metadata",
}

#: (table, change) -> what the refusal, or the step for another engine, says.
ELSEWHERE = {
    ("hive_partitioned_table", "drop"): "partitioned by this column",
    ("timestamptz_ns", "add nullable"): "format version 3",
    ("timestamptz_ns", "add with default"): "format version 3",
    ("timestamptz_ns", "rename"): "format version 3",
    ("timestamptz_ns", "drop"): "partitioned by this column",
    ("timestamptz_ns", "promote"): "format version 3",
}

#: In a file that lacks a column with a default, pyiceberg compares the default as Python holds it with what it makes of
#: the filter's value: a date with a number of days, a double with a float. Such files cannot be read under ``<``, and
#: their rows are lost under ``=``, whatever lakeevolve did.
FAULTY_UNDER_FILTERS = ("col_date", "col_time", "col_timestamp", "col_timestamptz", "col_float")


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """A copy of a table, in a catalog of its own; its metadata names files relative to the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def copy(name: str, metadata: str) -> str:
        home = Path("data/persistent") / name
        shutil.copytree(GOLDEN / f"duckdb_iceberg__{name}", home, copy_function=shutil.copyfile)
        for place in (home, *home.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        (found,) = home.glob(f"{metadata}*")
        uri = f"iceberg:{tmp_path / 'lake'}/golden.{name}"
        catalog = open_catalog(parse_uri(uri), {}, create=True)
        catalog.create_namespace("golden")
        catalog.register_table(("golden", name), str(found))
        return uri

    return copy


def in_duckdb(duck: Any, uri: str) -> list[Row]:
    location = open_table(uri).iceberg.metadata_location.removeprefix("file://")
    found: list[Row] = duck.execute(f"SELECT * FROM iceberg_scan('{location}')").to_arrow_table().to_pylist()
    # DuckDB numbers the second of two columns that differ in case only.
    return [{name.replace("uSeR_Id_1", "uSeR_Id"): value for name, value in row.items()} for row in found]


def read(uri: str) -> list[Row]:
    return [row for batch in open_table(uri).read() for row in batch.to_pylist()]


def bag(rows: Iterable[Row]) -> Counter[tuple[tuple[str, str], ...]]:
    """Rows as a multiset of texts: DuckDB and pyarrow have different Python types for the same value."""
    return Counter(tuple(sorted((name, str(value)) for name, value in row.items())) for row in rows)


@pytest.mark.parametrize(("name", "metadata", "count"), [*((name, *told) for name, told in NEWEST.items()), *EARLIER])
def test_a_table_is_described_and_reads_as_duckdb_reads_it(
    name: str, metadata: str, count: int, copied: Any, duck: Any
) -> None:
    uri = copied(name, metadata)
    described = le.describe(uri).to_json()
    assert described["counts"]["rows"] == count
    assert {column["name"] for column in described["columns"]} == {f.name for f in open_table(uri).schema.fields}
    if name == "timestamptz_ns":
        # DuckDB has no type for it with nanoseconds here, and the table has no row.
        assert read(uri) == []
        return
    rows = read(uri)
    assert len(rows) == count
    assert bag(rows) == bag(in_duckdb(duck, uri))


@pytest.mark.parametrize("change", ROUTES)
@pytest.mark.parametrize("name", NEWEST)
def test_a_change_of_another_engines_table_is_proved_or_refused_by_its_cause(
    name: str, change: str, copied: Any, duck: Any
) -> None:
    uri = copied(name, NEWEST[name][0])
    wanted = {told: (target, what) for told, target, what in targets(open_table(uri).schema)}
    if change not in wanted:
        assert change in ("drop", "promote")
        return
    target, change_row = wanted[change]
    before = [] if name == "timestamptz_ns" else in_duckdb(duck, uri)
    files = {path: path.read_bytes() for path in Path("data").rglob("*") if path.is_file()}
    plan = le.plan(uri, target, mode="NONE")
    cause = ELSEWHERE.get((name, change))
    if cause is not None:
        told = [*(step.reason for step in plan.steps), *(f.rule for f in plan.failures)]
        assert any(cause in text for text in told), told
        with pytest.raises(le.errors.PlanBlocked) as caught:
            le.apply(plan, allow=ALL)
        assert len(caught.value.lines()) <= 3
        assert {path: path.read_bytes() for path in Path("data").rglob("*") if path.is_file()} == files
        return
    assert ROUTES[change] in {step.route for step in plan.steps}, [(s.route, s.reason) for s in plan.steps]
    done = le.apply(plan, allow=ALL)
    assert (done.status, done.ok) == ("applied", True)
    expected = bag(map(change_row, before))
    assert bag(read(uri)) == expected
    assert bag(in_duckdb(duck, uri)) == expected
    checked = le.verify(uri, full=True, columns="all")
    assert checked.rows == NEWEST[name][1]
    assert checked.mismatches == ()
    faulty = {f.path for f in checked.reader_faults if f.fault == "default-as-python-holds-it"}
    # A backfill writes every file anew, with all of its columns.
    faults_show = name == "add_columns_with_defaults" and change != "add with default"
    assert faulty == (set(FAULTY_UNDER_FILTERS) if faults_show else set())
    # What the earlier snapshots refer to is as it was.
    assert all(path.read_bytes() == content for path, content in files.items())


#: change of the column ``bir``, which no equality delete compares -> its field then, and what its rows are called by.
BESIDE_THE_KEY: Mapping[str, tuple[Row, str]] = {
    "rename": ({"name": "born", "aliases": ["bir"]}, "born"),
    "doc": ({"doc": "date of birth"}, "bir"),
    "default": ({"default": None}, "bir"),
}


def with_born(schema: le.Schema, **more: Any) -> Any:
    record = schema.to_json()
    return {**record, "fields": [{**each, **more} if each["name"] == "bir" else each for each in record["fields"]]}


def field_ids(uri: str) -> dict[int, str]:
    return {column.field_id: column.name for column in open_table(uri).iceberg.schema().columns}


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path("data").rglob("*") if path.is_file()}


@pytest.mark.parametrize("metadata", EQUALITY)
def test_a_table_with_equality_deletes_refuses_what_needs_its_rows_or_changes_its_key(
    metadata: str, copied: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = copied("equality_deletes", metadata)
    assert le.describe(uri).to_json()["features"]["equality_deletes"] is True
    schema, files = open_table(uri).schema, contents()
    wanted = {told: target for told, target, _ in targets(schema) if told not in ("add nullable", "drop")}
    tighter = {"name": "bir", "type": {"type": "int", "logicalType": "date"}}
    because = {
        "rename": "compare rows by id, name (the equality key)",
        "promote": "compare rows by id, name (the equality key)",
        "add with default": "writes them anew",
    }
    assert because.keys() == wanted.keys()
    fields = schema.to_json()["fields"]
    wanted["drop the key"] = {**schema.to_json(), "fields": fields[1:]}
    because["drop the key"] = because["rename"]
    for told, target in wanted.items():
        plan = le.plan(uri, target, mode="NONE")
        refused = [step.reason for step in plan.steps if step.route == "refuse"]
        assert refused, told
        assert all("equality deletes" in reason and because[told] in reason for reason in refused), (told, refused)
        with pytest.raises(le.errors.PlanBlocked, match="equality deletes"):
            le.apply(plan, allow=ALL)
    # No marker says that the column is required, so rows would have to confirm it.
    plan = le.plan(uri, {**schema.to_json(), "fields": [*fields[:-1], tighter]}, mode="NONE")
    assert [(step.route, step.precondition) for step in plan.steps] == [("refuse", None)]
    assert "cannot be read" in plan.steps[0].reason
    with pytest.raises(le.errors.PlanBlocked, match="cannot be read"):
        le.apply(plan, allow=ALL)
    for reading in (lambda: le.verify(uri), lambda: read(uri)):
        with pytest.raises(UnsupportedTable, match="equality deletes"):
            reading()
    capsys.readouterr()
    assert main(["verify", uri]) == 2
    assert "equality deletes" in capsys.readouterr().err
    assert contents() == files


@pytest.mark.parametrize("metadata", EQUALITY)
def test_a_column_is_added_over_equality_deletes_and_nothing_is_said_to_be_replayed(
    metadata: str, copied: Any, duck: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = copied("equality_deletes", metadata)
    before, ids, files = in_duckdb(duck, uri), field_ids(uri), contents()
    assert before
    target = {told: target for told, target, _ in targets(open_table(uri).schema)}["add nullable"]
    Path("target.avsc").write_text(json.dumps(target))
    assert main(["plan", uri, "target.avsc", "--mode", "NONE", "--out", "plan.json"]) == 0
    assert "TABLE-ROWS-UNREADABLE" in capsys.readouterr().out
    assert main(["apply", "plan.json", "--yes"]) == 0
    printed = capsys.readouterr().out
    assert "was replayed" in printed
    assert "equality key: id, name" in printed
    assert "equal," not in printed
    assert bag(in_duckdb(duck, uri)) == bag({**row, "note": None} for row in before)
    assert field_ids(uri) == {**ids, max(ids) + 1: "note"}
    assert all(path.read_bytes() == content for path, content in files.items())
    again = le.apply("plan.json")
    assert (again.status, again.replay) == ("already-applied", None)
    assert main(["verify", uri]) == 2


@pytest.mark.parametrize("metadata", EQUALITY)
def test_a_column_beside_the_equality_key_is_dropped_by_metadata_alone(metadata: str, copied: Any, duck: Any) -> None:
    uri = copied("equality_deletes", metadata)
    before, ids, files = in_duckdb(duck, uri), field_ids(uri), contents()
    target = {told: target for told, target, _ in targets(open_table(uri).schema)}["drop"]
    plan = le.plan(uri, target, mode="NONE")
    with pytest.raises(le.errors.PermitMissing):
        le.apply(plan)
    done = le.apply(plan, allow=("drop",))
    assert (done.status, done.replay) == ("applied", None)
    assert [each.rule for each in done.findings] == ["TABLE-ROWS-UNREADABLE"]
    assert bag(in_duckdb(duck, uri)) == bag({k: v for k, v in row.items() if k != "bir"} for row in before)
    assert field_ids(uri) == {number: name for number, name in ids.items() if name != "bir"}
    assert all(path.read_bytes() == content for path, content in files.items())


@pytest.mark.parametrize("change", BESIDE_THE_KEY)
@pytest.mark.parametrize("metadata", EQUALITY)
def test_a_column_beside_the_equality_key_is_changed_by_metadata_alone(
    metadata: str, change: str, copied: Any, duck: Any
) -> None:
    uri = copied("equality_deletes", metadata)
    before, ids, files = in_duckdb(duck, uri), field_ids(uri), contents()
    more, name = BESIDE_THE_KEY[change]
    # What a table that nobody has recorded lacks in words is taken from the schema: so it is recorded first.
    assert le.apply(le.plan(uri, open_table(uri).schema, mode="NONE")).status == "applied"
    plan = le.plan(uri, with_born(open_table(uri).schema, **more), mode="NONE")
    assert {step.route for step in plan.steps} == {"metadata"}, [step.reason for step in plan.steps]
    (found,) = [each for each in plan.findings if each.rule == "TABLE-ROWS-UNREADABLE"]
    assert found.severity == "warning"
    done = le.apply(plan)
    assert (done.status, done.proof, done.replay, done.evidence) == ("applied", None, None, None)
    assert [each.rule for each in done.findings] == ["TABLE-ROWS-UNREADABLE"]
    assert done.to_json()["findings"][0]["rule"] == "TABLE-ROWS-UNREADABLE"
    assert le.apply(plan).status == "already-applied"
    assert field_ids(uri) == {number: name if was == "bir" else was for number, was in ids.items()}
    assert open_table(uri).iceberg.schema().find_field(name).doc == more.get("doc")
    renamed = [{name if key == "bir" else key: value for key, value in row.items()} for row in before]
    assert bag(in_duckdb(duck, uri)) == bag(renamed)
    assert all(path.read_bytes() == content for path, content in files.items())
    # The marker is there now: the next plan begins from it, and the way back says that nothing was replayed, too.
    assert open_table(uri).history()[-1].plan == plan.digest
    entry = past_of(open_table(uri)).steps[-1].entry
    assert entry is not None
    assert entry["replay"] is None
    back = le.rollback(uri, 1)
    assert (back.status, back.replay) == ("rolled-back", None)
    assert [each.rule for each in back.findings] == ["TABLE-ROWS-UNREADABLE"]
    assert (field_ids(uri), bag(in_duckdb(duck, uri))) == (ids, bag(before))


def test_the_schema_that_a_table_has_is_recorded_over_equality_deletes(copied: Any, duck: Any) -> None:
    uri = copied("equality_deletes", EQUALITY[0])
    before = in_duckdb(duck, uri)
    plan = le.plan(uri, open_table(uri).schema, mode="NONE")
    assert [step.via for step in plan.steps] == ["adopt"]
    assert le.apply(plan).status == "applied"
    assert open_table(uri).history()[-1].recorded
    assert bag(in_duckdb(duck, uri)) == bag(before)


def test_a_table_from_before_its_equality_deletes_can_be_changed(copied: Any, duck: Any) -> None:
    uri = copied("equality_deletes", "warehouse/mydb/mytable_partitioned/metadata/v2.")
    before = in_duckdb(duck, uri)
    assert before
    target = {told: target for told, target, _ in targets(open_table(uri).schema)}["add with default"]
    done = le.apply(le.plan(uri, target, mode="NONE"), allow=ALL)
    assert done.ok
    expected = bag({**row, "lot": 7} for row in before)
    assert bag(read(uri)) == bag(in_duckdb(duck, uri)) == expected


#: metadata -> what is said of it; None: it can be opened.
METADATA: Mapping[str, str | None] = {
    "iceberg__table_metadata_json/TableMetadataPartitionStatisticsFiles.json": None,
    "iceberg__table_metadata_json/TableMetadataStatisticsFiles.json": "statistics",
    "iceberg__table_metadata_json/TableMetadataUnsupportedVersion.json": "format version is 42",
    "iceberg__table_metadata_json/TableMetadataV1MissingSchemaType.json": None,
    "iceberg__table_metadata_json/TableMetadataV1Valid.json": None,
    "iceberg__table_metadata_json/TableMetadataV2CurrentSchemaNotFound.json": "current-schema-id 2",
    "iceberg__table_metadata_json/TableMetadataV2MissingLastPartitionId.json": None,
    "iceberg__table_metadata_json/TableMetadataV2MissingPartitionSpecs.json": "default-spec-id 0",
    "iceberg__table_metadata_json/TableMetadataV2MissingSchemas.json": "current-schema-id 0",
    "iceberg__table_metadata_json/TableMetadataV2MissingSortOrder.json": None,
    "iceberg__table_metadata_json/TableMetadataV2Valid.json": None,
    "iceberg__table_metadata_json/TableMetadataV2ValidMinimal.json": None,
    "iceberg__table_metadata_json/TableMetadataV3ValidMinimal.json": None,
    "iceberg_rust__table_metadata/TableMetadataUnsupportedVersion.json": "current-schema-id 0",
    "iceberg_rust__table_metadata/TableMetadataV1Compat.json": "lacks schema",
    "iceberg_rust__table_metadata/TableMetadataV1NoValidSchema.json": "lacks schema",
    "iceberg_rust__table_metadata/TableMetadataV1PartitionSpecsWithoutDefaultId.json": "default-spec-id 0",
    "iceberg_rust__table_metadata/TableMetadataV1SchemasWithoutCurrentId.json": None,
    "iceberg_rust__table_metadata/TableMetadataV1Valid.json": None,
    "iceberg_rust__table_metadata/TableMetadataV2CurrentSchemaNotFound.json": "current-schema-id 2",
    "iceberg_rust__table_metadata/TableMetadataV2MissingLastPartitionId.json": None,
    "iceberg_rust__table_metadata/TableMetadataV2MissingPartitionSpecs.json": "default-spec-id 0",
    "iceberg_rust__table_metadata/TableMetadataV2MissingSchemas.json": "current-schema-id 0",
    "iceberg_rust__table_metadata/TableMetadataV2MissingSortOrder.json": None,
    "iceberg_rust__table_metadata/TableMetadataV2Valid.json": None,
    "iceberg_rust__table_metadata/TableMetadataV2ValidMinimal.json": None,
    "iceberg_rust__table_metadata/TableMetadataV3ValidEncryption.json": "encrypted",
    "iceberg_rust__table_metadata/TableMetadataV3ValidMinimal.json": None,
    "duckdb_iceberg__bad_data/bad_iceberg_metadata.json": "not JSON",
}

#: The snapshots of these lie in a store that is not there.
AWAY = ("V2Valid.json", "PartitionStatisticsFiles.json")


def test_every_metadata_file_is_judged() -> None:
    folders = ("iceberg__table_metadata_json", "iceberg_rust__table_metadata", "duckdb_iceberg__bad_data")
    assert {f"{p.parent.name}/{p.name}" for f in folders for p in (GOLDEN / f).glob("*.json")} == set(METADATA)


@pytest.mark.parametrize("file", METADATA)
def test_metadata_is_opened_or_its_fault_is_named(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # Port 9 of the loopback address: nothing of ours listens there.
    nowhere = {
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "us-east-1",
        "s3.connect-timeout": "1",
    }
    uri = f"iceberg:{tmp_path / 'lake'}/shop.t"
    create_table(uri, le.load({"type": "record", "name": "t", "fields": [{"name": "x", "type": "long"}]}))
    with closing(sqlite3.connect(tmp_path / "lake" / "catalog.db")) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (str(GOLDEN / file),))
        connection.commit()
    said = METADATA[file]
    if said is not None:
        with pytest.raises(UnsupportedTable, match=said) as caught:
            open_table(uri)
        assert type(caught.value) is UnsupportedTable
        assert main(["describe", uri]) == 2
        printed = capsys.readouterr()
        assert said in printed.err
        assert 1 <= len(printed.err.strip().splitlines()) <= 3
        return
    table = open_table(uri, **nowhere)
    record = json.loads((GOLDEN / file).read_text())
    assert table.state.id == record["table-uuid"]
    assert table.state.pin["format-version"] == record["format-version"]
    assert table.schema.fields[0].name == "x"
    target = table.schema.to_json()
    target["fields"].append({"name": "note", "type": ["null", "string"], "default": None})
    if file.endswith(AWAY):
        with pytest.raises(CatalogUnavailable):
            table.describe()
        with pytest.raises(LakeEvolveError) as refused:
            le.plan(table, target)
        assert type(refused.value) is CatalogUnavailable
        return
    assert table.describe()["counts"]["rows"] == 0
    (step,) = le.plan(table, target).steps
    assert step.route == ("external" if record["format-version"] == 3 else "metadata")
