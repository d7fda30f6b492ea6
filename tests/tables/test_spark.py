"""One session of Spark reads tables of both formats."""

from __future__ import annotations

from typing import Any

import pytest

import lakeevolve as le
from tests.bugs.conftest import table_of
from tests.tables.shapes import f, row

pytestmark = pytest.mark.spark


def test_a_table_that_was_changed_is_read(lake: Any, spark: Any) -> None:
    uri = lake.create("t", le.load(row(f("v", "int"))), table_of(row(f("v", "int")), [{"id": 1, "v": 7}]), mark=True)
    assert le.apply(
        le.plan(uri, row(f("v", "double"), f("c", "string", default="x"))), allow=("rewrite", "backfill")
    ).ok
    table: Any = le.open_table(uri)
    iceberg = table.format == "iceberg"
    frame = spark.iceberg(table.iceberg.metadata_location) if iceberg else spark.delta(uri.removeprefix("delta:"))
    assert spark.rows(frame) == [{"id": 1, "v": 7.0, "c": "x"}]
