"""What plan and verify say of a table that other tools have had their hands on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import TableProperties
from pyiceberg.types import DecimalType, IntegerType, LongType, StringType

import lakeevolve as le


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, *fields]}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


PLAIN = record(f("v", "int"))
MORE = record(f("v", "int"), f("n", ["null", "int"], default=None))


def said(table: Any, target: Any = PLAIN) -> list[tuple[str, str]]:
    """Rule and path of what both plan and verify find, which has to be the same."""
    table.refresh()
    planned = {(each.rule, each.path) for each in le.plan(table, target, mode="NONE").findings}
    verified = [(each.rule, each.path) for each in le.verify(table).findings]
    assert set(verified) <= planned
    return sorted(verified)


def test_a_table_that_nobody_touched_has_no_finding(workshop: Any) -> None:
    table = workshop.table(PLAIN, [{"id": 1, "v": 7}], mark=True)
    assert said(table) == []


def test_a_name_mapping_that_leads_past_a_column_is_found(workshop: Any) -> None:
    table = workshop.table(PLAIN, [{"id": 1, "v": 7}])
    stale = '[{"field-id": 1, "names": ["id"]}, {"field-id": 9, "names": ["v"]}]'
    with table.iceberg.transaction() as transaction:
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: stale})
    assert said(table) == [("TABLE-NAME-MAPPING", "v")]
    (found,) = le.verify(table).findings
    assert "field id 9" in found.message
    assert "field id 2" in found.fix


def test_a_default_in_the_metadata_is_found_and_a_backfill_takes_it_out(workshop: Any, read: Any) -> None:
    table = workshop.table(PLAIN, [{"id": 1, "v": 7}])
    with table.iceberg.update_schema() as update:
        update.add_column("c", StringType(), default_value="US")
        update.add_column("d", IntegerType(), required=True, default_value=3)
    there = record(f("v", "int"), f("c", ["string", "null"], default="US"), f("d", "int", default=3))
    assert said(table, there) == [("DEFAULT-IN-METADATA", "c"), ("DEFAULT-IN-METADATA", "d")]
    target = {**there, "fields": [*there["fields"], f("e", "int", default=4)]}
    assert le.apply(le.plan(table, target), allow={"backfill"}).ok
    got = read(workshop.reopen(table))
    assert got.ours == got.expected == got.duckdb == [{"id": 1, "v": 7, "c": "US", "d": 3, "e": 4}]
    assert said(table, target) == []
    schema = table.iceberg.schema()
    assert [field.initial_default for field in schema.columns] == [None] * 5
    assert len(table.iceberg.scan("c = 'US'").to_arrow()) == 1


def test_what_another_tool_changed_is_found_change_by_change_until_a_plan_takes_it_over(workshop: Any) -> None:
    table = workshop.table(PLAIN, [{"id": 1, "v": 7}], mark=True)
    with table.iceberg.update_schema() as update:
        update.rename_column("v", "w")
        update.add_column("x", LongType())
    table.refresh()
    theirs = record(f("w", "int", aliases=["v"]), f("x", ["null", "long"], default=None))
    found = le.verify(table).findings
    assert sorted((each.rule, each.path, each.versions) for each in found) == [
        ("DRIFT-SCHEMA-CHANGED", "v", (2,)),
        ("DRIFT-SCHEMA-CHANGED", "x", (2,)),
    ]
    assert all("another tool made version 2" in each.message for each in found)
    assert [version.derived for version in table.history()] == [True, True]
    le.apply(le.plan(table, theirs))
    assert said(table, theirs) == []


def test_columns_that_differ_in_case_only_are_found_and_stand_in_no_other_columns_way(workshop: Any, read: Any) -> None:
    table = workshop.table(record(f("v", "int"), f("s", {"type": "record", "name": "S", "fields": [f("a", "int")]})))
    with table.iceberg.update_schema(case_sensitive=True) as update:
        update.add_column("V", LongType())
        update.add_column(("s", "A"), LongType())
    table.refresh()
    inner = {"type": "record", "name": "S", "fields": [f("a", "int"), f("A", ["null", "long"], default=None)]}
    both = [f("v", "int"), f("s", inner), f("V", ["null", "long"], default=None)]
    assert said(table, record(*both)) == [("TABLE-COLUMNS-CLASH", "V"), ("TABLE-COLUMNS-CLASH", "s.A")]
    wider = record(*both, f("other", ["null", "int"], default=None))
    plan = le.plan(table, wider)
    assert plan.applicable
    assert le.apply(plan).ok
    for worse in (
        record(*both, f("OTHER", ["null", "int"], default=None), f("other", ["null", "int"], default=None)),
        record(*both, f("Other", ["null", "int"], aliases=["other"], default=None), f("other", "int", default=1)),
    ):
        plan = le.plan(table, worse, mode="NONE")
        assert not plan.applicable
        assert any(each.rule == "TABLE-NAMES-CLASH" for each in plan.failures)


def test_a_clash_of_names_may_be_ended(workshop: Any) -> None:
    table = workshop.table(PLAIN)
    with table.iceberg.update_schema(case_sensitive=True) as update:
        update.add_column("V", LongType())
    table.refresh()
    plan = le.plan(table, record(f("v", "int"), f("w", ["null", "long"], aliases=["V"], default=None)))
    assert plan.applicable
    le.apply(plan)
    assert not le.verify(table).findings


def test_a_dropped_column_that_files_are_partitioned_by_is_found(workshop: Any) -> None:
    table = workshop.table(PLAIN, [{"id": 1, "v": 7}], partition=["v"])
    with table.iceberg.update_spec() as update:
        update.remove_field("v")
    table.refresh()
    assert said(table) == []
    table.iceberg.refresh()
    with table.iceberg.update_schema() as update:
        update.delete_column("v")
    assert said(table, record()) == [("TABLE-PARTITION-SOURCE-GONE", "v")]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [("int", "double", ""), (["null", "int"], ["null", "double"], "v")],
    ids=["which nobody can read", "which read null"],
)
def test_rows_that_a_stale_writer_left_are_found(old: Any, new: Any, path: str, workshop: Any) -> None:
    table = workshop.table(record(f("v", old)), [{"id": 1, "v": 7}], mark=True)
    stale = workshop.reopen(table).iceberg
    le.apply(le.plan(table, record(f("v", new)), mode="NONE"), allow={"rewrite"})
    stale.append(pa.Table.from_pylist([{"id": 2, "v": 8}], schema=stale.schema().as_arrow()))
    result = le.verify(workshop.reopen(table))
    assert not result.ok
    (poisoned,) = (file for file in workshop.reopen(table).files() if file.version == 1)
    assert {(mismatch.file, mismatch.path) for mismatch in result.mismatches} == {(poisoned.path, path)}


@pytest.mark.parametrize("version", [1, 2])
def test_findings_are_the_same_on_every_format_version_that_is_written(version: int, workshop: Any) -> None:
    table = workshop.table(PLAIN, [{"id": 1, "v": 7}], mark=True, format_version=version)
    with table.iceberg.update_schema() as update:
        update.add_column("c", StringType(), default_value="US")
    there = record(f("v", "int"), f("c", ["string", "null"], default="US"))
    assert said(table, there) == [("DEFAULT-IN-METADATA", "c"), ("DRIFT-SCHEMA-CHANGED", "c")]


def test_a_decimal_that_another_tool_gave_more_digits_reads_on(workshop: Any, read: Any) -> None:
    def schema(precision: int, *more: Any) -> Any:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
        inner = {"type": "record", "name": "I", "fields": [f("x", decimal)]}
        return record(f("d", decimal), f("l", {"type": "array", "items": inner}), *more)

    row = {"id": 1, "d": Decimal("1.25"), "l": [{"x": Decimal("-0.5")}]}
    table = workshop.table(schema(9), [row], mark=True)
    with table.iceberg.update_schema() as update:
        update.update_column("d", field_type=DecimalType(30, 2))
        update.update_column("l.x", field_type=DecimalType(12, 2))
    table.refresh()
    assert [version.number for version in table.history()] == [1, 2]
    assert le.verify(table, readers=("duckdb",)).ok
    theirs = table.schema
    target = {**theirs.to_json(), "fields": [*theirs.to_json()["fields"], f("n", "int", default=4)]}
    assert le.apply(le.plan(table, target), allow={"backfill"}).ok
    got = read(workshop.reopen(table))
    assert got.ours == got.expected == got.duckdb == [{**row, "n": 4}]
