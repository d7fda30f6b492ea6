"""Reports about Iceberg tables: partitions, name mappings, defaults in the metadata, snapshots, concurrent writers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import exceptions as theirs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertCurrentSchemaId, SetCurrentSchemaUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, ListType, NestedField, StringType, StructType

import lakeevolve as le
from lakeevolve.tables.iceberg import append, create_table, open_table
from lakeevolve.tables.iceberg.catalog import open_catalog, parse_uri
from lakeevolve.tables.iceberg.findings import table_findings

from .conftest import ALL, apply, changes, column, read, record, refused, reports, routes, schema_of, table_of


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    return f"iceberg:{tmp_path / 'lake'}/shop.t"


def first(uri: str, schema: Any, rows: Any, **options: Any) -> Any:
    table = create_table(uri, le.load(schema), mark=True, **options)
    if rows:
        append(table, table_of(schema, rows))
    return table


@reports("B001")
def test_a_default_in_the_metadata_is_not_silently_kept_or_dropped(report: Any, uri: str) -> None:
    (told,) = report("B001").before["iceberg"]
    create_table(uri, le.load(record({"name": "id", "type": "int"})))
    append(uri, table_of(record({"name": "id", "type": "int"}), [{"id": 1}]))
    with open_table(uri).iceberg.update_schema() as update:
        update.add_column(told["name"], IntegerType(), default_value=told["initial-default"])
    assert read(uri) == [{"id": 1, "a": 5}]
    nullable = record({"name": "id", "type": "int"}, {"name": "a", "type": ["null", "int"], "default": None})
    plan = le.plan(uri, nullable)
    assert "DEFAULT-IN-METADATA" in {finding.rule for finding in plan.findings}
    # No step says that the metadata is changed, and a finding says that its default stands.
    assert routes(plan) <= {"metadata"}
    (finding,) = (f for f in plan.findings if f.path == "a" and "metadata" in f.message)
    assert finding.severity in ("warning", "error")
    assert le.apply(plan).ok
    assert open_table(uri).iceberg.schema().find_field("a").initial_default == 5
    assert read(uri) == [{"id": 1, "a": 5}]


@reports("B029", "B129")
def test_files_without_ids_and_a_mapping_that_does_not_cover_them_are_reported(report: Any, uri: str) -> None:
    schema = record({"name": "id", "type": "int"}, column({"name": "name", "type": "string", "required": False}))
    table = create_table(uri, le.load(schema))
    path = Path(table.iceberg.location().removeprefix("file://")) / "plain.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string())]
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["x"]}, schema=pa.schema(fields)), path)
    table.iceberg.add_files([f"file://{path}"])
    assert read(uri) == [{"id": 1, "name": "x"}]
    stale = report("B029").before["properties"]["schema.name-mapping.default"]
    with open_table(uri).iceberg.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": stale})
    added = record(*schema["fields"], column({"name": "age", "type": "int", "required": False}))
    plan = le.plan(uri, added)
    assert any("name mapping" in f.message and f.path == "name" for f in plan.findings), plan.findings
    checked = le.verify(uri)
    assert any("name mapping" in str(f) for f in checked.findings)
    with open_table(uri).iceberg.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": "[{"})
    with pytest.raises(le.errors.UnsupportedTable, match=r"schema\.name-mapping\.default"):
        open_table(uri)
    # Without any mapping nobody can read the file, and the cause is named.
    catalog = open_catalog(parse_uri(uri), {})
    with catalog.load_table(("shop", "t")).transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    cause = "no field ids, and the table no name mapping"
    checked = le.verify(uri)
    assert not checked.ok
    assert [cause in str(mismatch) for mismatch in checked.mismatches] == [True]
    with pytest.raises(le.LakeEvolveError, match=cause) as caught:
        le.apply(le.plan(uri, added))
    assert "defect" not in str(caught.value.hint)


@reports("B059")
def test_columns_are_found_by_path_whatever_ids_somebody_expected(report: Any, uri: str) -> None:
    catalog = open_catalog(parse_uri(uri), {}, create=True)
    catalog.create_namespace("shop")
    expected = Schema(
        NestedField(1, "tags", ListType(2, StringType(), False), False), NestedField(3, "x", IntegerType(), False)
    )
    made = catalog.create_table(("shop", "t"), expected)
    # The library numbered them itself.
    assert made.schema().find_field("x").field_id != 3
    append(uri, pa.table({"tags": [["a", None]], "x": pa.array([1], pa.int32())}))
    schema = open_table(uri).schema.to_json()
    note = {"name": "note", "type": ["null", "string"], "default": None}
    plan = apply(uri, {**schema, "fields": [*schema["fields"], note]})
    assert [path for kind, path in changes(plan) if kind == "AddField"] == ["note"]
    assert read(uri) == [{"tags": ["a", None], "x": 1, "note": None}]


@reports("B059")
def test_items_and_a_type_change_by_path_under_the_ids_that_the_catalog_gave(uri: str) -> None:
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}}
    table = first(uri, record(tags, {"name": "x", "type": "int"}), [])
    assert sorted(table.iceberg.schema().field_ids) == [1, 2, 3]
    loose = {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}}
    plan = apply(uri, record(loose, {"name": "x", "type": "long"}))
    assert {path for _, path in changes(plan)} == {"tags[]", "x"}


@reports("B067")
def test_a_source_of_an_earlier_partitioning_is_not_dropped(report: Any, uri: str) -> None:
    before = record(*map(column, report("B067").before["columns"]))
    table = first(uri, before, report("B067").data, partition=["bucket(8, trip_id)"])
    with table.iceberg.update_spec() as update:
        update.remove_field("trip_id_bucket")
        update.add_field("distance", BucketTransform(4), "distance_bucket")
    after = record(*(f for f in before["fields"] if f["name"] != "trip_id"))
    refused(uri, after, "partitioned", "rewrite the files")
    assert read(uri) == report("B067").data


@reports("B068", "B071")
@pytest.mark.parametrize(("number", "dropped"), [("B068", "p"), ("B071", "name")])
def test_a_source_of_the_partitioning_is_not_dropped(number: str, dropped: str, report: Any, uri: str) -> None:
    before = record(*map(column, report(number).before["columns"]))
    rows = report(number).data or [{"name": "n", "double": 1.5, "integer": 2}]
    first(uri, before, rows, partition=[dropped])
    words = ("partitioned by this column", f"partition field {dropped}", "replace the partition field and rewrite")
    refused(uri, record(*(f for f in before["fields"] if f["name"] != dropped)), *words)
    assert read(uri) == rows
    assert open_table(uri).iceberg.scan().to_arrow().num_rows == 1


@reports("B077")
def test_a_column_with_a_dot_and_a_record_of_that_path_are_two(report: Any, uri: str) -> None:
    catalog = open_catalog(parse_uri(uri), {}, create=True)
    catalog.create_namespace("shop")
    inside = StructType(NestedField(3, "B", IntegerType(), False))
    with pytest.raises(ValueError, match=r"A\.B"):
        # The library itself takes no such pair; the column with the dot alone it takes.
        catalog.create_table(
            ("shop", "both"), Schema(NestedField(1, "A", inside, False), NestedField(2, "A.B", IntegerType(), False))
        )
    table = catalog.create_table(("shop", "t"), Schema(NestedField(1, "A.B", IntegerType(), False)))
    table.append(pa.table({"A.B": pa.array([1], pa.int32())}))
    before = report("B077").before
    plan = le.plan(uri, before, mode="NONE")
    # The target cannot name the column, so it would go: said with its path, and only with the owner's permit.
    assert ("DropField", "`A.B`") in changes(plan)
    with pytest.raises(le.LakeEvolveError):
        le.apply(plan, allow=("rewrite", "backfill"))
    assert open_table(uri).iceberg.scan().to_arrow().to_pylist() == [{"A.B": 1}]


@reports("B077")
def test_a_record_changes_that_has_the_path_which_another_name_would_spell(report: Any, lake: Any) -> None:
    before = report("B077").before
    inside = before["fields"][0]
    uri = lake.create("t", le.load(before), table_of(before, [{"A": {"B": 2}}]), mark=True)
    with pytest.raises(le.errors.SchemaError, match="name"):
        le.load(record(inside, {"name": "A.B", "type": "int"}))
    apply(uri, record(inside, column({"name": "C", "type": "int", "required": False})))
    assert read(uri) == [{"A": {"B": 2}, "C": None}]


@reports("B079")
def test_a_column_with_a_dot_that_another_tool_made_is_one_column(uri: str) -> None:
    table = first(uri, record({"name": "id", "type": "int"}), [{"id": 1}])
    with table.iceberg.update_schema() as update:
        update.add_column(("a.b",), IntegerType())
    assert len(open_table(uri).iceberg.schema().columns) == 2
    kept = le.plan(uri, record({"name": "id", "type": "long"}), mode="NONE")
    assert "`a.b`" in {path for _, path in changes(kept)} or "a.b" in open_table(uri).foreign


@reports("B094")
def test_an_append_that_was_begun_before_a_change_does_not_take_it_back(report: Any, uri: str) -> None:
    before = schema_of(report("B094").before)
    stale = first(uri, before, [{"id": 1}]).iceberg
    apply(uri, record(*before["fields"], {"name": "x", "type": ["null", "int"], "default": None}))
    current = open_table(uri).iceberg.metadata.current_schema_id
    stale.append(pa.table({"id": pa.array([2], pa.int32())}))
    assert open_table(uri).iceberg.metadata.current_schema_id == current
    assert read(uri) == [{"id": 1, "x": None}, {"id": 2, "x": None}]
    assert le.verify(uri, full=True, columns="all").ok


@reports("B094")
def test_a_change_that_was_taken_back_is_found(report: Any, uri: str) -> None:
    before = schema_of(report("B094").before)
    first(uri, before, [])
    apply(uri, record(*before["fields"], {"name": "x", "type": ["null", "int"], "default": None}))
    open_table(uri).iceberg._do_commit((SetCurrentSchemaUpdate(schema_id=0),), ())
    assert [(each.rule, each.path) for each in le.verify(uri).findings] == [("DRIFT-SCHEMA-CHANGED", "x")]


@reports("B095")
def test_of_two_plans_that_are_applied_at_once_one_lands(uri: str) -> None:
    fields = [column({"name": name, "type": "int", "required": False}) for name in ("id", "b", "a")]
    first(uri, record(*fields[:2]), [])
    plans = [le.plan(uri, record(*fields)), le.plan(uri, record(fields[0]), mode="NONE")]
    ends: list[Any] = []

    def run(plan: Any) -> None:
        try:
            ends.append(le.apply(plan, allow=ALL).status)
        except (le.errors.StalePlan, le.errors.CommitConflict) as error:
            ends.append(error.exit_code)

    threads = [threading.Thread(target=run, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ends)) == ["4", "applied"]
    assert le.verify(uri).ok


@reports("B096")
def test_a_commit_that_never_goes_through_ends_in_an_error(
    report: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = schema_of(report("B096").before)
    first(uri, before, [{"id": 1}])
    tried = 0

    def fail(*_: Any, **__: Any) -> Any:
        nonlocal tried
        tried += 1
        raise theirs.CommitFailedException("Requirement failed: somebody was faster")

    plan = le.plan(uri, record(*before["fields"], {"name": "x", "type": "int", "default": 1}))
    monkeypatch.setattr(SqlCatalog, "commit_table", fail)
    with pytest.raises(le.errors.CommitConflict) as caught:
        le.apply(plan, allow=ALL)
    assert caught.value.exit_code == 4
    assert 1 < tried <= 12
    monkeypatch.undo()
    assert read(uri) == [{"id": 1}]
    assert [version.number for version in open_table(uri).history()] == [1]


@reports("B097")
def test_a_new_column_and_its_values_land_in_one_commit(report: Any, uri: str) -> None:
    schema = schema_of(report("B097").before)
    table = first(uri, schema, [{"idx": 1, "ts": None}])
    before = len(table.iceberg.metadata.metadata_log)
    after = record(*schema["fields"], {"name": "char", "type": "string", "default": "-"})
    apply(uri, after)
    assert read(uri) == [{"idx": 1, "ts": None, "char": "-"}]
    table = open_table(uri)
    assert len(table.iceberg.metadata.metadata_log) == before + 1
    assert len(table.iceberg.metadata.snapshots) == 2
    append(table, table_of(after, [{"idx": 2, "char": "a"}]))
    assert {row["char"] for row in read(uri)} == {"-", "a"}


@reports("B099")
def test_the_current_schema_is_the_one_that_the_metadata_says(report: Any, uri: str) -> None:
    create_table(uri, le.load(record({"name": "a", "type": "int"})))
    with open_table(uri).iceberg.update_schema() as update:
        update.add_column("b", IntegerType())
    transaction = open_table(uri).iceberg.transaction()
    transaction._apply((SetCurrentSchemaUpdate(schema_id=0),), (AssertCurrentSchemaId(current_schema_id=1),))
    transaction.commit_transaction()
    described = le.describe(uri).to_json()
    assert described["pin"]["schema-id"] == 0
    assert described["counts"]["schemas"] == 2
    assert [c["name"] for c in described["columns"]] == ["a"]
    assert [f.name for f in open_table(uri).schema.fields] == ["a"]


@reports("B106")
def test_schemas_that_pile_up_in_the_metadata_are_said(uri: str) -> None:
    fields = [column({"name": f"c{at}", "type": "int", "required": False}) for at in range(300)]
    first(uri, record(*fields[:200]), [])
    apply(uri, record(*fields))
    table = open_table(uri)
    assert not table.findings()
    schemas = table.iceberg.metadata.schemas * 300
    found = table_findings(table.iceberg.metadata.model_copy(update={"schemas": schemas}), (), uri)
    assert [each.rule for each in found] == ["TABLE-MANY-SCHEMAS"]


@reports("B116")
def test_the_metadata_tables_are_read_after_a_drop(report: Any, uri: str) -> None:
    before = schema_of(report("B116").before)
    first(uri, before, report("B116").data["old"], partition=["a"])
    apply(uri, record(before["fields"][0]))
    table = open_table(uri).iceberg
    assert table.inspect.files().num_rows == 1
    assert table.inspect.partitions().num_rows == 1
    assert table.inspect.entries().num_rows == 1
    assert read(uri) == [{"a": 1}]
