"""The canonical Arrow layout of Avro types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.avro.arrow import arrow_schema, arrow_type
from lakeevolve.avro.parse import parse
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType


def avro(schema: Any) -> AvroType:
    return parse({"type": "record", "name": "Probe", "fields": [{"name": "value", "type": schema}]}).fields[0].type


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        (["null", "int"], pa.int32()),
        (["string", "null"], pa.string()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        (fixed(7), pa.binary(7)),
        (logical("bytes", "decimal", precision=9, scale=2), pa.decimal128(9, 2)),
        (logical("bytes", "decimal", precision=38), pa.decimal128(38, 0)),
        (logical("bytes", "decimal", precision=39, scale=3), pa.decimal256(39, 3)),
        (fixed(9, logicalType="decimal", precision=20, scale=3), pa.decimal128(20, 3)),
        (logical("int", "date"), pa.date32()),
        (logical("int", "time-millis"), pa.time64("us")),
        (logical("long", "time-micros"), pa.time64("us")),
        (logical("long", "timestamp-millis"), pa.timestamp("us", "UTC")),
        (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC")),
        (logical("long", "timestamp-nanos"), pa.timestamp("ns", "UTC")),
        (logical("long", "local-timestamp-millis"), pa.timestamp("us")),
        (logical("long", "local-timestamp-micros"), pa.timestamp("us")),
        (logical("long", "local-timestamp-nanos"), pa.timestamp("ns")),
        (logical("string", "uuid"), pa.string()),
        (fixed(16, logicalType="uuid"), pa.binary(16)),
        (fixed(12, logicalType="duration"), pa.binary(12)),
        (logical("string", "a type that nobody knows"), pa.string()),
    ],
)
def test_each_type_has_its_column(schema: Any, expected: pa.DataType) -> None:
    assert arrow_type(avro(schema)) == expected
    assert arrow_type(avro(schema), strict=False) == expected


NESTED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "sizes", "type": ["null", {"type": "array", "items": "int"}]},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
        {"name": "at", "type": ["null", {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}]},
        {"name": "one", "type": ["int", {"type": "enum", "name": "E", "symbols": ["A"]}]},
        {"name": "maybe", "type": ["int", "null", "P"]},
    ],
}


def test_a_strict_schema_is_nullable_where_avro_allows_null() -> None:
    required = {"nullable": False}
    point = pa.struct([pa.field("x", pa.int32(), **required)])
    assert arrow_schema(parse(NESTED)) == pa.schema(
        [
            pa.field("id", pa.int64(), **required),
            pa.field("tags", pa.list_(pa.field("item", pa.string())), **required),
            pa.field("sizes", pa.list_(pa.field("item", pa.int32(), **required))),
            pa.field("prices", pa.map_(pa.string(), pa.field("value", pa.float64(), **required)), **required),
            pa.field("at", point),
            pa.field("one", pa.struct([("int", pa.int32()), ("E", pa.string())]), **required),
            pa.field("maybe", pa.struct([("int", pa.int32()), ("P", point)])),
        ]
    )


def test_a_loose_schema_is_nullable_everywhere() -> None:
    point = pa.struct([("x", pa.int32())])
    assert arrow_schema(parse(NESTED), strict=False) == pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("sizes", pa.list_(pa.int32())),
            ("prices", pa.map_(pa.string(), pa.float64())),
            ("at", point),
            ("one", pa.struct([("int", pa.int32()), ("E", pa.string())])),
            ("maybe", pa.struct([("int", pa.int32()), ("P", point)])),
        ]
    )


def test_branches_of_one_short_name_go_by_their_full_names() -> None:
    cats = [{"type": "record", "name": f"{place}.Cat", "fields": []} for place in ("zoo.a", "zoo.b")]
    assert [field.name for field in arrow_type(avro([*cats, "int"]))] == ["zoo_a_Cat", "zoo_b_Cat", "int"]


@pytest.mark.parametrize(
    ("schema", "path", "what"),
    [
        ("null", "value", "null alone"),
        (["null"], "value", "a union without a branch"),
        ({"type": "array", "items": "null"}, "value[]", "null alone"),
        ({"type": "map", "values": {"type": "array", "items": "null"}}, "value{}[]", "null alone"),
        (
            {
                "type": "record",
                "name": "Node",
                "fields": [{"name": "below", "type": {"type": "array", "items": ["null", "Node"]}}],
            },
            "value.below[]",
            "the record Node contains itself",
        ),
        (
            ["null", "int", {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}],
            "value<N>.n",
            "null",
        ),
        (logical("bytes", "decimal", precision=77), "value", "more digits than Arrow holds"),
    ],
)
def test_what_has_no_table_form_is_refused_with_its_path(schema: Any, path: str, what: str) -> None:
    whole = parse({"type": "record", "name": "Probe", "fields": [{"name": "value", "type": schema}]})
    for strict in (True, False):
        with pytest.raises(SchemaError, match=what) as caught:
            arrow_schema(whole, strict=strict)
        assert caught.value.where == path
        assert caught.value.hint


def test_a_schema_whose_root_is_no_record_has_no_columns() -> None:
    with pytest.raises(SchemaError, match="not a record"):
        arrow_schema(Schema(avro("int")))
