"""Columns that a table lets be null and its schema does not: old rows may be, and what is appended may not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from tests.tables.shapes import f, rec, row

OLD = row(f("s", ["null", rec("S", f("x", "int"))], default=None))
NEW = row(*OLD["fields"][1:], f("m", "int", default=5))


def loose(schema: Any) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in le.arrow_schema(schema)])


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_nulls_that_are_appended_to_a_column_whose_old_rows_read_null_are_mismatches(lake: Any) -> None:
    uri = lake.create("t", le.load(OLD), pa.Table.from_pylist([{"id": 1}], schema=le.arrow_schema(OLD)), mark=True)
    assert le.apply(le.plan(uri, NEW, old_rows="null")).ok
    lake.append(uri, pa.Table.from_pylist([{"id": 2, "m": 3}], schema=le.arrow_schema(NEW)))
    assert le.verify(uri, full=True, columns="all").ok
    table: Any = le.open_table(uri)
    # A producer that asks nobody.
    rows = [{"id": 3, "m": 4}, {"id": 4}, {"id": 5}]
    table.iceberg.append(pa.Table.from_pylist(rows, schema=table.iceberg.schema().as_arrow()))
    checked = le.verify(uri)
    assert [(m.path, m.row, m.reader) for m in checked.mismatches] == [("m", 1, "raw file")]
    assert "the schema says that there is a value" in str(checked.mismatches[0])
    assert not checked.ok


def test_old_rows_may_be_null_wherever_a_rewrite_puts_them(lake: Any) -> None:
    uri = lake.create("t", le.load(OLD), pa.Table.from_pylist([{"id": 1}], schema=le.arrow_schema(OLD)), mark=True)
    assert le.apply(le.plan(uri, NEW, old_rows="null")).ok
    again = row(*NEW["fields"][1:], f("n", "string", default="q"))
    assert le.apply(le.plan(uri, again), allow=("backfill", "rewrite")).ok
    assert le.verify(uri, full=True, columns="all").ok


def test_a_table_that_a_sink_made_optional_is_held_to_its_schema_once_it_has_a_marker(lake: Any) -> None:
    free = row(f("s", ["null", rec("S", f("x", ["null", "int"]))], default=None), f("m", ["null", "int"], default=None))
    held = [{"id": 1, "s": {"x": 1}, "m": 1}, {"id": 2, "s": None, "m": 2}]
    uri = lake.create("t", le.load(free), pa.Table.from_pylist(held, schema=le.arrow_schema(free)))
    assert le.apply(le.plan(uri, NEW, mode="NONE")).ok
    assert le.verify(uri).ok
    lake.append(uri, pa.Table.from_pylist([{"id": 3, "s": {"x": None}, "m": None}], schema=loose(free)))
    checked = le.verify(uri)
    assert {(m.path, m.row) for m in checked.mismatches} == {("m", 0), ("s.x", 0)}
