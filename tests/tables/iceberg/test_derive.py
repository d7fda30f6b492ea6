"""Avro schemas read off a table, with and without a hint."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeevolve.avro.parse import parse
from lakeevolve.errors import UnsupportedTable
from lakeevolve.model.path import child
from lakeevolve.tables.iceberg.derive import Derivation
from lakeevolve.tables.iceberg.types import iceberg_field

TYPES: list[tuple[Any, Any]] = [
    ("boolean", BooleanType()),
    ("int", IntegerType()),
    ("long", LongType()),
    ("float", FloatType()),
    ("double", DoubleType()),
    ("bytes", BinaryType()),
    ("string", StringType()),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}, DecimalType(38, 3)),
    ({"type": "int", "logicalType": "date"}, DateType()),
    ({"type": "int", "logicalType": "time-millis"}, TimeType()),
    ({"type": "long", "logicalType": "time-micros"}, TimeType()),
    ({"type": "long", "logicalType": "timestamp-millis"}, TimestamptzType()),
    ({"type": "long", "logicalType": "timestamp-micros"}, TimestamptzType()),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, TimestampType()),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, TimestampType()),
    ({"type": "string", "logicalType": "uuid"}, UUIDType()),
    ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, UUIDType()),
    ({"type": "fixed", "name": "F", "size": 5}, FixedType(5)),
    ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, FixedType(12)),
    (
        {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2},
        DecimalType(9, 2),
    ),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, StringType()),
    ({"type": "long", "logicalType": "unheard-of"}, LongType()),
]


def schema_of(*fields: Any) -> Any:
    return parse({"type": "record", "name": "Row", "fields": list(fields)}, lenient=True)


def columns_of(avro: Any) -> IcebergSchema:
    fresh = count(1).__next__
    return IcebergSchema(*[iceberg_field(f.name, f.type, child("", f.name), fresh) for f in avro.fields])


@pytest.mark.parametrize(("avro", "iceberg"), TYPES, ids=lambda each: str(each)[:60])
def test_each_type_has_its_column_and_comes_back_by_the_hint(avro: Any, iceberg: Any) -> None:
    schema = schema_of({"name": "v", "type": avro}, {"name": "o", "type": ["null", "string"]})
    columns = columns_of(schema)
    assert columns.find_field("v").field_type == iceberg
    assert columns.find_field("v").required
    assert not columns.find_field("o").required
    assert Derivation(schema).schema(columns, "t") == schema


@pytest.mark.parametrize(
    "avro",
    [
        "null",
        {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0},
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
    ],
    ids=str,
)
def test_what_no_column_holds_is_refused_with_its_path(avro: Any) -> None:
    with pytest.raises(UnsupportedTable) as caught:
        columns_of(schema_of({"name": "v", "type": avro}))
    assert str(caught.value.where).startswith("v")


def test_nested_types_without_a_hint_get_names_by_their_path() -> None:
    schema = schema_of(
        {
            "name": "a",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "X", "fields": [{"name": "b c", "type": "int"}]},
            },
        }
    )
    found = Derivation().schema(columns_of(schema), "2 orders").to_json()
    assert found["name"] == "_2_orders"  # type: ignore[index]
    assert found["fields"][0]["type"]["items"]["name"] == "_2_orders_a"  # type: ignore[index]


HINT = schema_of(
    {"name": "id", "type": "long", "default": 0, "doc": "the key", "aliases": ["key"]},
    {"name": "status", "type": {"type": "enum", "name": "shop.Status", "symbols": ["A", "B"]}},
    {"name": "note", "type": ["string", "null"], "default": "x"},
    {
        "name": "payload",
        "type": [
            "null",
            "string",
            {"type": "record", "name": "shop.Ping", "fields": [{"name": "at", "type": "long"}]},
            {"type": "record", "name": "shop.Pong", "fields": [{"name": "at", "type": "long"}]},
        ],
    },
)


def test_an_exact_column_takes_everything_from_the_hint() -> None:
    assert Derivation(HINT).schema(columns_of(HINT), "t") == HINT


def test_a_narrower_column_keeps_its_own_type() -> None:
    columns = IcebergSchema(NestedField(1, "id", IntegerType(), required=True))
    (field,) = Derivation(HINT).schema(columns, "t").fields
    assert field.type == parse("int").root
    assert field.doc == "the key"


def test_nullability_follows_the_hint_only_where_the_column_allows_it() -> None:
    columns = IcebergSchema(
        NestedField(1, "id", LongType(), required=False),  # a sink wrote it optional, the hint says long
        NestedField(2, "note", StringType(), required=True),  # never widened
        NestedField(3, "status", StringType(), required=False),
    )
    found = {f.name: f.type for f in Derivation(HINT).schema(columns, "t").fields}
    assert found["id"] == parse("long").root
    assert found["note"] == parse("string").root
    assert found["status"] == HINT.fields[1].type


def test_branches_that_the_table_has_not_are_left_out_of_a_union() -> None:
    columns = IcebergSchema(
        NestedField(
            1,
            "payload",
            StructType(
                NestedField(2, "Ping", StructType(NestedField(3, "at", LongType(), required=True)), required=False),
                NestedField(4, "string", StringType(), required=False),
            ),
            required=False,
        )
    )
    (field,) = Derivation(HINT).schema(columns, "t").fields
    assert [getattr(branch, "name", None) for branch in field.type.branches] == ["null", "string", "shop.Ping"]


def test_a_column_is_matched_to_a_renamed_field_of_the_hint() -> None:
    columns = IcebergSchema(
        NestedField(1, "key", LongType(), required=True), NestedField(2, "state", StringType(), required=True)
    )
    found = Derivation(HINT, {"status": "state"}).schema(columns, "t").fields
    assert [field.name for field in found] == ["key", "state"]
    assert found[0].doc == "the key"
    assert found[0].aliases == ()
    assert found[1].type == HINT.fields[1].type


def test_columns_of_the_ingest_are_foreign_unless_the_hint_has_them() -> None:
    columns = IcebergSchema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "_offset", LongType(), required=False),
        NestedField(3, "_kept", LongType(), required=False),
        NestedField(4, "other", LongType(), required=False),
    )
    hint = schema_of({"name": "id", "type": "long"}, {"name": "_kept", "type": ["null", "long"]})
    assert [f.name for f in Derivation(hint).schema(columns, "t").fields] == ["id", "_kept", "other"]


def test_columns_that_avro_cannot_say_are_foreign_as_a_whole() -> None:
    odd = MapType(3, IntegerType(), 4, StringType())
    columns = IcebergSchema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "m", odd, required=False),
        NestedField(5, "s", StructType(NestedField(6, "l", ListType(7, odd), required=False)), required=False),
    )
    assert [f.name for f in Derivation().schema(columns, "t").fields] == ["id"]


def test_one_name_never_means_two_records() -> None:
    point = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}
    hint = schema_of({"name": "a", "type": point}, {"name": "b", "type": "P"})
    columns = IcebergSchema(
        NestedField(1, "a", columns_of(hint).find_field("a").field_type, required=True),
        NestedField(9, "b", StructType(NestedField(10, "x", IntegerType(), required=True)), required=True),
    )
    found = Derivation(hint).schema(columns, "t")
    assert parse(found.to_json()) == found
    assert [field.type.name for field in found.fields] == ["P", "P_2"]


@pytest.mark.parametrize(
    ("type_", "value", "default"),
    [
        (StringType(), "US", "US"),
        (BooleanType(), False, False),
        (LongType(), 7, 7),
        (DoubleType(), 1.5, 1.5),
        (BinaryType(), b"\xff", "ÿ"),
        (FixedType(2), b"ab", "ab"),
        (DecimalType(9, 2), Decimal("-1.25"), (-125).to_bytes(1, "big", signed=True).decode("latin-1")),
        (DateType(), dt.date(1970, 1, 3), 2),
        (TimeType(), dt.time(0, 0, 1), 1_000_000),
        (TimestamptzType(), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 1_000_000),
        (UUIDType(), uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ],
    ids=str,
)
def test_an_initial_default_is_what_older_rows_read(type_: Any, value: Any, default: Any) -> None:
    columns = IcebergSchema(
        NestedField(1, "a", type_, required=True, initial_default=value),
        NestedField(2, "b", type_, required=False, initial_default=value),
    )
    one, other = Derivation().schema(columns, "t").fields
    assert one.default == other.default == default
    assert not other.type.null_first


def test_a_column_means_what_the_field_does_that_will_continue_it() -> None:
    columns = IcebergSchema(
        NestedField(
            1,
            "s",
            StructType(
                NestedField(2, "a", StringType(), required=True), NestedField(3, "b", StringType(), required=True)
            ),
            required=True,
        )
    )
    kind = {"type": "enum", "name": "E", "symbols": ["X"]}
    swapped = [{"name": "a", "type": "string", "aliases": ["b"]}, {"name": "b", "type": kind, "aliases": ["a"]}]
    hint = schema_of({"name": "s", "type": {"type": "record", "name": "S", "fields": swapped}})
    (found,) = Derivation(hint).schema(columns, "t").fields
    assert [(field.name, getattr(field.type, "symbols", None)) for field in found.type.fields] == [
        ("a", ("X",)),
        ("b", None),
    ]
