"""What pyiceberg accepts and then reads wrongly, or not at all: done right, or refused, or found."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

import lakeevolve as le
from lakeevolve.tables.iceberg import append
from lakeevolve.tables.iceberg.shape import leaf_arrow
from tests.tables.shapes import f, logical, rec, row

ALL = ("rewrite", "backfill", "drop")


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


DECIMAL = logical("bytes", "decimal", precision=9, scale=2)
INSTANT, LOCAL = logical("long", "timestamp-micros"), logical("long", "local-timestamp-micros")
DATE = logical("int", "date")

REFUSED = [
    ("int", "string"),
    ("int", DECIMAL),
    ("boolean", "int"),
    ("long", "int"),
    ("double", "float"),
    (fixed(2), "bytes"),
    (fixed(2), fixed(3)),
    (DECIMAL, logical("bytes", "decimal", precision=12, scale=4)),
    (DECIMAL, logical("bytes", "decimal", precision=9, scale=0)),
    (DECIMAL, logical("bytes", "decimal", precision=7, scale=2)),
    (INSTANT, LOCAL),
    (LOCAL, INSTANT),
    (DATE, INSTANT),
    (DATE, LOCAL),
    (INSTANT, logical("long", "timestamp-nanos")),
    ("string", rec("S", f("x", "int"))),
    (rec("S", f("x", "int")), "string"),
    ({"type": "array", "items": "int"}, "int"),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}),
]


@pytest.mark.parametrize(("old", "new"), REFUSED, ids=str)
def test_a_type_that_would_be_read_wrongly_is_refused_with_a_way_out(old: Any, new: Any, workshop: Any) -> None:
    table = workshop.table(row(f("v", old)), mark=True)
    (step,) = le.plan(table, row(f("v", new)), mode="NONE").steps
    assert step.route == "refuse"
    assert any(way in step.reason for way in ("another name", "new table", "use microseconds"))


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("string", "bytes", "x"), ("bytes", "string", b"x")],
)
def test_text_and_bytes_change_into_each_other_by_new_files_that_filters_find(
    old: str, new: str, value: Any, workshop: Any
) -> None:
    table = workshop.table(row(f("v", old)), [{"id": 1, "v": value}], mark=True)
    done = le.apply(le.plan(table, row(f("v", new))), allow=ALL)
    assert done.ok
    assert done.rewritten == 1
    assert le.verify(table.uri, columns="all", readers=("duckdb",)).ok


@pytest.mark.parametrize("kind", ["list", "map"])
def test_null_lists_and_maps_of_records_stay_null_in_the_files(kind: str, workshop: Any) -> None:
    inner = rec("S", f("x", "int"))
    made = {"type": "array", "items": inner} if kind == "list" else {"type": "map", "values": inner}
    schema = row(f("c", ["null", made], default=None), f("v", "int"))
    held = [{"x": 1}] if kind == "list" else [("k", {"x": 1})]
    rows = [{"id": 1, "c": None, "v": 1}, {"id": 2, "c": [], "v": 2}, {"id": 3, "c": held, "v": 3}]
    table = workshop.table(schema, rows, mark=True)
    target = row(f("c", ["null", made], default=None), f("v", "double"))
    done = le.apply(le.plan(table, target), allow=ALL)
    assert done.ok
    (file,) = workshop.reopen(table).files()
    found = [each for batch in workshop.reopen(table).raw(file) for each in batch.to_pylist()]
    assert [each["c"] for each in found] == [None, [], held]


@pytest.mark.parametrize(
    ("old", "forced", "value"),
    [
        (IntegerType(), DoubleType(), 7),
        (DecimalType(9, 2), DecimalType(12, 4), Decimal("1.25")),
    ],
    ids=str,
)
def test_what_another_tool_forced_upon_a_column_is_found(old: Any, forced: Any, value: Any, workshop: Any) -> None:
    types = {"int": "int", "decimal(9, 2)": DECIMAL}
    table = workshop.table(row(f("v", types[str(old)])), mark=True)
    arrow = table.iceberg.schema().as_arrow()
    table.iceberg.append(pa.table([pa.array([1], pa.int32()), pa.array([value], arrow.field("v").type)], arrow))
    with table.iceberg.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("v", field_type=forced)
    result = le.verify(table.uri, columns="all")
    assert not result.ok
    assert {mismatch.file for mismatch in result.mismatches} == {file.path for file in table.files()}
    assert "DRIFT-SCHEMA-CHANGED" in {finding.rule for finding in result.findings}


def test_a_filter_on_a_backfilled_field_passes_over_rows_whose_record_is_null(workshop: Any) -> None:
    old = row(f("s", ["null", rec("S", f("x", "int"))], default=None))
    table = workshop.table(old, [{"id": 1, "s": {"x": 1}}, {"id": 2, "s": None}], mark=True)
    new = row(f("s", ["null", rec("S", f("x", "int"), f("y", "int", default=9))], default=None))
    assert le.apply(le.plan(table, new), allow=ALL).ok
    found = workshop.reopen(table).iceberg.scan("s.y = 9").to_arrow()
    assert found.column("id").to_pylist() == [1]


def test_a_writer_that_forks_a_renamed_column_is_found(workshop: Any) -> None:
    table = workshop.table(row(f("b", "int")), [{"id": 1, "b": 7}], mark=True)
    le.apply(le.plan(table, row(f("b2", "int", aliases=["b"]))))
    table = workshop.reopen(table)
    # A producer of the old schema has its columns added by name: b comes back as another column.
    with table.iceberg.update_schema() as update:
        update.union_by_name(pa.schema([pa.field("b", pa.int32())]))
    found = le.verify(table.uri).findings
    assert [(each.rule, each.path) for each in found] == [("DRIFT-SCHEMA-CHANGED", "b")]
    assert [version.schema.fields[-1].name for version in workshop.reopen(table).history()] == ["b", "b2", "b"]


def test_dates_and_instants_beyond_the_calendar_of_python_are_rewritten(workshop: Any) -> None:
    table = workshop.table(row(f("v", "int"), f("t", INSTANT)), mark=True)
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table([pa.array([1], pa.int32()), pa.array([1], pa.int32()), far], ["id", "v", "t"])
    append(table, rows)
    assert le.apply(le.plan(table, row(f("v", "double"), f("t", INSTANT))), allow=ALL).ok
    (batch,) = workshop.reopen(table).read()
    assert batch.column("t").cast(pa.int64()).to_pylist() == [2**62]


@pytest.mark.parametrize(
    ("type_", "default", "value"),
    [
        (DateType(), "2020-01-02", dt.date(2021, 1, 1)),
        (TimestampType(), "2020-01-02T03:04:05", dt.datetime(2021, 1, 1)),
        (TimestamptzType(), "2020-01-02T03:04:05+00:00", dt.datetime(2021, 1, 1, tzinfo=dt.UTC)),
        (TimeType(), "03:04:05", dt.time(4)),
        (FloatType(), 0.1, 0.25),
    ],
    ids=str,
)
@pytest.mark.parametrize("spoilt", [False, True])
def test_a_default_in_the_metadata_that_is_compared_as_python_holds_it_is_a_fault_of_pyicebergs_and_nothing_else_is(
    type_: Any, default: Any, value: Any, spoilt: bool, workshop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = workshop.table(row(), [{"id": 1}, {"id": 2}])
    with table.iceberg.update_schema() as update:
        update.add_column("c", type_, default_value=default)
    table = workshop.reopen(table)
    append(table, pa.table({"id": pa.array([3], pa.int32()), "c": pa.array([value], leaf_arrow(type_))}))
    if spoilt:
        reading = type(table).read

        def losing(self: Any, file: Any = None, predicate: Any = None, columns: Any = None) -> Any:
            for batch in reading(self, file, predicate, columns):
                yield batch.slice(1) if predicate is not None and predicate.op == "=" and len(batch) == 1 else batch

        monkeypatch.setattr(type(table), "read", losing)
    checked = le.verify(table.uri, columns="all")
    assert checked.ok == (not spoilt)
    old = max(workshop.reopen(table).files(), key=lambda file: file.rows).path
    assert {(f.reader, f.fault, f.file, f.path) for f in checked.reader_faults} == {
        ("pyiceberg", "default-as-python-holds-it", old, "c")
    }
