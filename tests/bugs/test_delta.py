"""Reports about Delta tables: column mapping, partition columns, constraints, the change data feed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeevolve as le
from lakeevolve.tables import delta

from .conftest import apply, column, read, record, refused, reports, routes, schema_of, table_of


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    return f"delta:{tmp_path / 't'}"


def first(uri: str, schema: Any, rows: Any, **options: Any) -> None:
    delta.create_table(uri, le.load(schema), mark=True, **options)
    if rows:
        delta.append(uri, table_of(schema, rows))


@reports("B024")
def test_a_rename_keeps_the_values_and_needs_no_column_mapping(report: Any, uri: str) -> None:
    before = schema_of(report("B024").before)
    old, new = report("B024").after["rename"]
    first(uri, before, report("B024").data["old"])
    after = record({**before["fields"][0], "name": new, "aliases": [old]})
    apply(uri, after)
    assert read(uri) == [{new: row[old]} for row in report("B024").data["old"]]
    protocol = DeltaTable(uri.removeprefix("delta:")).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    # A table that has column mapping already is left to Spark, with the statements.
    mapped = Path(f"{uri.removeprefix('delta:')}-mapped")
    configuration = {"delta.columnMapping.mode": "name"}
    write_deltalake(str(mapped), pa.table({"id": pa.array([0, 1], pa.int32())}), configuration=configuration)
    plan = le.plan(f"delta:{mapped}", after, mode="NONE")
    assert "external" in routes(plan)
    assert any("RENAME COLUMN `id` TO `id2`" in step.via for step in plan.steps)


@reports("B025")
def test_partition_values_under_column_mapping_are_part_of_what_is_verified(report: Any, uri: str) -> None:
    path = uri.removeprefix("delta:")
    rows = pa.table({"v": ["a"], "BATCH_ID": pa.array([1], pa.int32())})
    configuration = {"delta.columnMapping.mode": "name"}
    write_deltalake(path, rows, partition_by=["BATCH_ID"], configuration=configuration)
    assert read(uri) == [{"v": "a", "BATCH_ID": 1}]
    checked = le.verify(uri, full=True, columns="all")
    assert (checked.ok, checked.rows) == (True, 1)
    # DuckDB reads NULL for the partition column of such a table, silently: as a second reader it is found out.
    pytest.importorskip("duckdb_extensions")
    seen = le.verify(uri, full=True, columns="all", readers=("duckdb",))
    assert not seen.ok or seen.reader_faults
    assert ("duckdb", "BATCH_ID") in {(each.reader, each.path) for each in (*seen.mismatches, *seen.reader_faults)}


@reports("B064")
def test_a_column_of_a_constraint_is_not_renamed(report: Any, uri: str) -> None:
    fields = [
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        column({"name": "irradiance", "type": "float", "required": False}),
    ]
    first(uri, record(*fields), [])
    table = DeltaTable(uri.removeprefix("delta:"))
    table.alter.add_constraint(report("B064").before["constraints"])
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    delta.append(uri, table_of(record(*fields), [{"timestamp": moment, "irradiance": 1.5}]))
    renamed = record(fields[0], {**fields[1], "name": "irr", "aliases": ["irradiance"]})
    refused(uri, renamed, "irradiance_ge_0")
    # delta-rs takes no row for which the rule is NULL (delta-io/delta-rs#4183): none is made by a rewrite either.
    with pytest.raises(le.LakeEvolveError):
        delta.append(uri, table_of(record(*fields), [{"timestamp": moment, "irradiance": None}]))
    lot = {"name": "lot", "type": "int", "default": 7}
    apply(uri, record(*fields, lot))
    assert read(uri) == [{"timestamp": moment, "irradiance": 1.5, "lot": 7}]
    assert DeltaTable(uri.removeprefix("delta:")).metadata().configuration["delta.constraints.irradiance_ge_0"]


@reports("B072")
def test_values_of_a_new_column_are_there_in_every_partition(report: Any, uri: str) -> None:
    before = record(*map(column, report("B072").before["columns"]))
    old = [{"id": "A", "value": 0, "modified": "2020"}, {"id": "B", "value": 5, "modified": "2020"}]
    first(uri, before, old, partition_by=["id"])
    after = record(*before["fields"], column({"name": "vid", "type": "int", "required": False}))
    apply(uri, after)
    delta.append(uri, table_of(after, report("B072").data))
    found = {(row["id"], row["modified"]): row["vid"] for row in read(uri)}
    assert found == {("A", "2020"): None, ("B", "2020"): None, ("A", "2021"): 1}
    assert le.verify(uri, full=True, columns="all").ok


@reports("B113")
def test_the_names_of_the_change_data_feed_are_not_taken(report: Any, uri: str) -> None:
    before = record(*map(column, report("B113").before["columns"]))
    first(uri, before, [{"a": "x"}], configuration=report("B113").before["properties"])
    after = record(*before["fields"], column({"name": "_change_type", "type": "string", "required": False}))
    refused(uri, after, "_change_type")
    assert read(uri) == [{"a": "x"}]
