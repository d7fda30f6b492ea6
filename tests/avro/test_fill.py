"""Defaults for rows that a producer is about to append."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.errors import ResolutionError


def rec(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


ORDER = rec(
    "Order",
    f("id", "long"),
    f("country", "string", default="US"),
    f("amount", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, default="\u0001"),
    f("note", ["null", "string"], default=None),
    f("tags", {"type": "array", "items": "string"}, default=["new"]),
    f("ship", rec("Ship", f("zip", "string"), f("express", "boolean", default=False)), default={"zip": "0"}),
)


def test_what_rows_lack_gets_the_fields_defaults_in_the_order_of_the_schema() -> None:
    rows = pa.table({"extra": ["x", "y"], "id": [1, 2]})
    filled = le.fill_defaults(ORDER, rows)
    assert filled.column_names == ["id", "country", "amount", "note", "tags", "ship", "extra"]
    assert filled.to_pylist()[1] == {
        "id": 2,
        "country": "US",
        "amount": Decimal("0.01"),
        "note": None,
        "tags": ["new"],
        "ship": {"zip": "0", "express": False},
        "extra": "y",
    }


def test_what_rows_hold_is_not_touched() -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "country": pa.array(["DE"]).dictionary_encode()})
    filled = le.fill_defaults(rec("R", f("country", "string", default="US"), f("id", "long")), rows)
    assert filled.schema.field("country").type == rows.schema.field("country").type
    assert filled.to_pylist() == [{"country": "DE", "id": 1}]


def test_the_kind_of_the_data_stays() -> None:
    schema = rec("R", f("id", "int"), f("c", "int", default=3))
    batch = pa.record_batch({"id": pa.array([1], pa.int32())})
    assert isinstance(le.fill_defaults(schema, batch), pa.RecordBatch)
    none = le.fill_defaults(schema, pa.table({"id": pa.array([], pa.int32())}))
    assert isinstance(none, pa.Table)
    assert none.schema == pa.schema([("id", pa.int32()), ("c", pa.int32())])


def test_nested_fields_are_filled_and_nulls_stay_null() -> None:
    inner = rec("I", f("x", "int"), f("y", "int", default=9))
    schema = rec(
        "R",
        f("s", ["null", inner]),
        f("l", {"type": "array", "items": "I"}),
        f("m", {"type": "map", "values": ["null", "I"]}),
        f("u", ["string", "I", "boolean"]),
    )
    shape = pa.struct([("x", pa.int32())])
    rows = pa.table(
        {
            "s": pa.array([{"x": 1}, None], shape),
            "l": pa.array([[{"x": 1}, {"x": 2}], []], pa.large_list(shape)),
            "m": pa.array([[("k", {"x": 1}), ("j", None)], []], pa.map_(pa.string(), shape)),
            "u": pa.array([{"string": None, "I": {"x": 1}}, {"string": "t", "I": None}]),
        }
    )
    both = le.fill_defaults(schema, rows)
    assert both.to_pylist() == [
        {
            "s": {"x": 1, "y": 9},
            "l": [{"x": 1, "y": 9}, {"x": 2, "y": 9}],
            "m": [("k", {"x": 1, "y": 9}), ("j", None)],
            "u": {"string": None, "I": {"x": 1, "y": 9}, "boolean": None},
        },
        {"s": None, "l": [], "m": [], "u": {"string": "t", "I": None, "boolean": None}},
    ]
    assert both.slice(1).to_pylist() == le.fill_defaults(schema, rows.slice(1)).to_pylist()


def test_a_column_may_go_by_an_alias() -> None:
    schema = rec("R", f("amount", "int", aliases=["amt"]), f("rate", "double", default=1.0))
    assert le.fill_defaults(schema, pa.table({"amt": [5]})).to_pylist() == [{"amount": 5, "rate": 1.0}]


def test_a_field_without_a_default_has_to_be_there() -> None:
    with pytest.raises(ResolutionError, match=r"s\.x"):
        le.fill_defaults(
            rec("R", f("s", rec("S", f("x", "int"), f("y", "int")))), pa.table({"s": pa.array([{"y": 1}])})
        )


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_filled_rows_go_into_a_table(format_: str, tmp_path: Path) -> None:
    fields = [f("id", "long"), f("country", "string", default="US")]
    schema = le.load(rec("Order", *fields))
    rows = le.fill_defaults(schema, pa.table({"id": [1]}))
    uri = f"iceberg:{tmp_path / 'lake'}/shop.orders" if format_ == "iceberg" else f"delta:{tmp_path / 'orders'}"
    if format_ == "iceberg":
        from lakeevolve.tables.iceberg import append, create_table

        create_table(uri, schema, mark=True)
        append(uri, rows)
    else:
        from deltalake import write_deltalake

        write_deltalake(uri.removeprefix("delta:"), rows)
    table = le.open_table(uri)
    more = le.fill_defaults(table if format_ == "iceberg" else schema, pa.table({"id": [2]}))
    if format_ == "iceberg":
        append(uri, more)
    else:
        write_deltalake(uri.removeprefix("delta:"), more, mode="append")
    table.refresh()
    found = sorted((row for batch in table.read() for row in batch.to_pylist()), key=lambda row: row["id"])
    assert found == [{"id": 1, "country": "US"}, {"id": 2, "country": "US"}]
