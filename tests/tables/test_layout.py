"""Moving arrays between a table's Arrow types and the canonical layout of an Avro type."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_type
from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType
from lakeevolve.tables.layout import to_canonical, to_layout

UTC = dt.UTC


def avro(schema: Any) -> AvroType:
    return parse({"type": "record", "name": "Probe", "fields": [{"name": "value", "type": schema}]}).fields[0].type


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


INNER = {"type": "record", "name": "I", "fields": [{"name": "at", "type": logical("long", "timestamp-micros")}]}

RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "text", "type": ["null", "string"]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "prices", "type": ["null", {"type": "map", "values": ["null", "bytes"]}]},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "I",
                    "fields": [{"name": "at", "type": logical("long", "timestamp-micros")}],
                },
            ],
        },
    ],
}

SOME = {"at": dt.datetime(2024, 1, 2, tzinfo=UTC)}

NESTED = [
    {
        "text": "a",
        "tags": ["x", None],
        "prices": [("k", b"v"), ("l", None)],
        "inner": {"at": dt.datetime(2024, 1, 2, tzinfo=UTC)},
    },
    None,
    {"text": None, "tags": None, "prices": None, "inner": None},
    {"text": "", "tags": [], "prices": [], "inner": {"at": None}},
    {"text": "b", "tags": [None], "prices": [("k", None)], "inner": {"at": dt.datetime(1969, 12, 31, tzinfo=UTC)}},
]

#: Avro type, canonical values, and Arrow types that hold the same values.
REPRESENTATIONS: list[tuple[Any, list[Any], list[pa.DataType]]] = [
    ("string", ["a", None, ""], [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]),
    ("bytes", [b"a", None, b""], [pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())]),
    (
        {"type": "fixed", "name": "F", "size": 2},
        [b"ab", None],
        [pa.binary(), pa.large_binary(), pa.binary_view()],
    ),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["A", None, "B"], [pa.dictionary(pa.int32(), pa.string())]),
    (logical("long", "timestamp-millis"), [dt.datetime(2024, 1, 2, tzinfo=UTC), None],
     [pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in ("UTC", "+00:00", "Europe/Oslo")]),
    (logical("long", "local-timestamp-micros"), [dt.datetime(2024, 1, 2), None],
     [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]),
    (logical("int", "date"), [dt.date(1969, 12, 31), None], [pa.date64()]),
    (logical("int", "time-millis"), [dt.time(1, 2, 3, 4000), None],
     [pa.int32(), pa.int64(), pa.time32("ms"), pa.time64("ns")]),
    (logical("long", "time-micros"), [dt.time(1, 2, 3, 4005), None], [pa.int64(), pa.time64("ns")]),
    (logical("bytes", "decimal", precision=9, scale=2), [Decimal("1.23"), None, Decimal("-9999999.99")],
     [pa.decimal32(9, 2), pa.decimal64(12, 2), pa.decimal128(38, 2), pa.decimal256(50, 2)]),
    (logical("string", "uuid"), [str(uuid.UUID(int=5)), None, str(uuid.UUID(int=2**128 - 1))],
     [pa.uuid(), pa.binary(16), pa.large_string()]),
    ({"type": "array", "items": "string"}, [["a"], None, [], ["b", None]],
     [pa.large_list(pa.string()), pa.list_(pa.field("element", pa.large_string()))]),
    ({"type": "map", "values": "int"}, [[("a", 1)], None, [], [("b", None), ("b", 2)]],
     [pa.map_(pa.large_string(), pa.int32())]),
    (RECORD, NESTED, [
        pa.struct([
            ("inner", pa.struct([("at", pa.timestamp("ns", "UTC"))])),
            ("prices", pa.map_(pa.string_view(), pa.large_binary())),
            ("text", pa.large_string()),
            ("tags", pa.large_list(pa.string_view())),
        ]),
    ]),
]  # fmt: skip

CASES = [
    pytest.param(schema, values, other, id=f"{other}") for schema, values, others in REPRESENTATIONS for other in others
]


@pytest.mark.parametrize(("schema", "values", "other"), CASES)
def test_each_representation_and_the_canonical_layout_hold_the_same_values(
    schema: Any, values: list[Any], other: pa.DataType
) -> None:
    type_ = avro(schema)
    canonical = pa.array(values, arrow_type(type_, strict=False))
    there = to_layout(canonical, other) if not pa.types.is_dictionary(other) else canonical.dictionary_encode()
    there.validate(full=True)
    if not pa.types.is_dictionary(other):
        assert to_layout(canonical, other, type_).equals(there)
    back = to_canonical(there, type_)
    back.validate(full=True)
    assert back.type == arrow_type(type_, strict=False)
    assert back.equals(canonical)
    assert back.to_pylist() == values


@pytest.mark.parametrize(("schema", "values", "other"), CASES)
def test_slices_and_empty_arrays_are_moved_as_they_are(schema: Any, values: list[Any], other: pa.DataType) -> None:
    type_ = avro(schema)
    canonical = pa.array(values * 5, arrow_type(type_, strict=False))
    for start, length in ((0, 0), (1, 3), (len(values), 2), (3, len(values) * 5 - 3)):
        part = canonical.slice(start, length)
        there = to_layout(part, other) if not pa.types.is_dictionary(other) else part.dictionary_encode()
        assert to_canonical(there, type_).to_pylist() == (values * 5)[start : start + length]
        whole = to_layout(canonical, other) if not pa.types.is_dictionary(other) else canonical.dictionary_encode()
        assert to_canonical(whole.slice(start, length), type_).equals(part)


def test_a_uuid_on_a_fixed_becomes_text_and_back_where_the_avro_type_is_known() -> None:
    type_ = avro({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"})
    packed = pa.array([uuid.UUID(int=7).bytes, None], pa.binary(16))
    text = to_layout(packed, pa.string(), type_)
    assert text.to_pylist() == [str(uuid.UUID(int=7)), None]
    assert to_canonical(text, type_).equals(packed)
    with pytest.raises(TableError, match="no representation"):
        to_layout(packed, pa.string())


def test_chunked_arrays_are_joined() -> None:
    chunks = pa.chunked_array([["a"], [], [None, "b"]], pa.large_string())
    assert to_canonical(chunks, avro("string")).to_pylist() == ["a", None, "b"]
    assert to_canonical(pa.chunked_array([], pa.large_string()), avro("string")).to_pylist() == []


def test_every_list_type_becomes_a_list() -> None:
    type_ = avro({"type": "array", "items": "int"})
    values = [[1, 2], None, [3, 4]]
    for other in (
        pa.list_view(pa.int32()),
        pa.large_list_view(pa.int32()),
        pa.list_(pa.int32(), 2),
        pa.large_list(pa.int32()),
    ):
        assert to_canonical(pa.array(values, other).slice(1), type_).to_pylist() == [None, [3, 4]]
    assert to_layout(pa.array(values, pa.list_(pa.int32())), pa.list_(pa.int32(), 2)).to_pylist() == values


def test_a_list_of_key_and_value_becomes_a_map() -> None:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    array = pa.array([[{"key": "a", "value": 1}], None, []], pairs)
    assert to_canonical(array, avro({"type": "map", "values": "long"})).to_pylist() == [[("a", 1)], None, []]


def test_a_column_of_nothing_but_nulls_becomes_any_type() -> None:
    assert to_canonical(pa.nulls(2), avro(RECORD)).to_pylist() == [None, None]


def test_what_lies_beneath_null_lists_and_structs_is_left_out() -> None:
    values = pa.array(["a", "b", "c"], pa.large_string())
    lists = pa.Array.from_buffers(
        pa.list_(pa.large_string()),
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer((0).to_bytes(4, "little") + (2).to_bytes(4, "little") + b"\3\0\0\0")],
        children=[values],
    )
    moved = to_canonical(lists, avro({"type": "array", "items": "string"}))
    assert moved.to_pylist() == [None, ["c"]]
    assert len(moved.values) == 1
    struct = pa.StructArray.from_arrays([pa.array(["x", "y"])], ["text"], mask=pa.array([True, False]))
    record = avro({"type": "record", "name": "S", "fields": [{"name": "text", "type": "string"}]})
    strict = to_layout(struct, pa.struct([pa.field("text", pa.large_string())]))
    assert to_canonical(strict, record).field(0).to_pylist() == [None, "y"]


def test_records_without_fields_keep_their_number() -> None:
    empty = pa.array([{}, None, {}], pa.struct([]))
    assert to_canonical(empty, avro({"type": "record", "name": "N", "fields": []})).to_pylist() == [{}, None, {}]


@pytest.mark.parametrize(
    ("schema", "array"),
    [
        ("int", pa.array([1], pa.int64())),
        ("long", pa.array([1], pa.int32())),
        ("float", pa.array([1.0], pa.float64())),
        ("string", pa.array([b"a"])),
        ("bytes", pa.array(["a"])),
        ("string", pa.array([bytes(16)], pa.binary(16))),
        ("string", pa.array([1])),
        ("int", pa.array([dt.time(1)], pa.time32("ms"))),
        (logical("long", "timestamp-micros"), pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))),
        (logical("long", "local-timestamp-micros"), pa.array([0], pa.timestamp("us", "UTC"))),
        (logical("long", "timestamp-micros"), pa.array([0], pa.int64())),
        (logical("int", "date"), pa.array([0], pa.timestamp("us"))),
        (logical("bytes", "decimal", precision=9, scale=2), pa.array([Decimal("1.234")], pa.decimal128(9, 3))),
        ({"type": "array", "items": "int"}, pa.array([["a"]])),
        ({"type": "map", "values": "int"}, pa.array([[1]], pa.list_(pa.int32()))),
    ],
)
def test_another_type_is_no_representation(schema: Any, array: pa.Array) -> None:
    with pytest.raises(TableError, match="is no representation of"):
        to_canonical(array, avro(schema))


@pytest.mark.parametrize(
    ("schema", "array"),
    [
        (logical("long", "timestamp-micros"), pa.array([1001], pa.timestamp("ns", "UTC"))),
        (logical("long", "timestamp-nanos"), pa.array([2**62], pa.timestamp("us", "UTC"))),
        (logical("long", "time-micros"), pa.array([1001], pa.time64("ns"))),
        (logical("int", "date"), pa.array([1], pa.date64())),
        (logical("bytes", "decimal", precision=3, scale=2), pa.array([Decimal("12.34")], pa.decimal128(9, 2))),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab", b"abc"])),
        (logical("string", "uuid"), pa.array([b"too short"])),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_and_not_shown(schema: Any, array: pa.Array) -> None:
    with pytest.raises(TableError, match="without changing a value") as caught:
        to_canonical(array, avro(schema))
    assert not any(text in str(caught.value) for text in ("1001", "12.34", "abc", "too short"))


def test_a_time_finer_than_milliseconds_does_not_become_an_int() -> None:
    with pytest.raises(TableError, match="without changing a value"):
        to_layout(pa.array([1001], pa.time64("us")), pa.int32())


@pytest.mark.parametrize("text", [str(uuid.UUID(int=10)).upper(), uuid.UUID(int=10).hex, "", "no uuid at all"])
def test_only_the_canonical_text_of_a_uuid_becomes_bytes(text: str) -> None:
    with pytest.raises(TableError, match="lower-case"):
        to_layout(pa.array([None, text]), pa.uuid())


def test_other_fields_than_the_record_s_are_named() -> None:
    type_ = avro(
        {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}
    )
    with pytest.raises(TableError, match="lacks b and also has c"):
        to_canonical(pa.array([{"a": 1, "c": 1}]), type_)
    twice = pa.StructArray.from_arrays([pa.array([1], pa.int32())] * 3, ["a", "b", "a"])
    with pytest.raises(TableError, match="also has a"):
        to_canonical(twice, type_)


def test_errors_say_where() -> None:
    type_ = avro({"type": "record", "name": "S", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]})
    with pytest.raises(TableError) as caught:
        to_canonical(pa.array([{"a": ["x"]}]), type_)
    assert caught.value.where == "a[]"


def elsewhere(type_: pa.DataType, dice: random.Random) -> pa.DataType:
    """Another Arrow type that holds the same values."""
    if pa.types.is_struct(type_):
        fields = [pa.field(field.name, elsewhere(field.type, dice)) for field in type_]
        return pa.struct(dice.sample(fields, len(fields)))
    if pa.types.is_map(type_):
        return pa.map_(elsewhere(type_.key_type, dice), elsewhere(type_.item_type, dice))
    if pa.types.is_list(type_):
        return dice.choice((pa.list_, pa.large_list))(elsewhere(type_.value_type, dice))
    choices: dict[pa.DataType, list[pa.DataType]] = {
        pa.string(): [pa.string(), pa.large_string(), pa.string_view()],
        pa.binary(): [pa.binary(), pa.large_binary(), pa.binary_view()],
        pa.binary(3): [pa.binary(3), pa.binary(), pa.large_binary()],
        pa.timestamp("us", "UTC"): [pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ns", "UTC")],
        pa.time64("us"): [pa.time64("ns"), pa.int64()],
        pa.date32(): [pa.date32(), pa.date64()],
        pa.decimal128(9, 2): [pa.decimal256(40, 2), pa.decimal64(18, 2)],
    }
    return dice.choice(choices.get(type_, [type_]))


@pytest.mark.parametrize("seed", range(25))
def test_rows_of_every_shape_come_back_from_any_layout(seed: int, rows: Callable[[Schema, int, int], pa.Table]) -> None:
    inner = {
        "type": "record",
        "name": "I",
        "fields": [
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}},
            {"name": "t", "type": ["null", logical("long", "time-micros")]},
            {"name": "d", "type": ["null", logical("bytes", "decimal", precision=9, scale=2)]},
            {"name": "u", "type": ["null", "int", "string", {"type": "array", "items": "bytes"}]},
        ],
    }
    schema = parse(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": ["null", {"type": "array", "items": ["null", inner]}]},
                {"name": "m", "type": ["null", {"type": "map", "values": ["null", {"type": "array", "items": "I"}]}]},
                {"name": "i", "type": ["null", "I"]},
                {"name": "at", "type": ["null", logical("long", "timestamp-micros")]},
                {"name": "day", "type": ["null", logical("int", "date")]},
                {"name": "e", "type": ["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]},
            ],
        }
    )
    dice = random.Random(seed)
    whole = to_canonical(rows(schema, 40, seed).to_struct_array(), schema.root)
    part = whole.slice(dice.randrange(20), dice.randrange(20))
    there = to_layout(part, elsewhere(part.type, dice))
    there.validate(full=True)
    back = to_canonical(there, schema.root)
    back.validate(full=True)
    assert back.equals(part)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.none() | st.uuids(), max_size=20), st.integers(0, 20))
def test_uuids_come_back_from_their_bytes(ids: list[uuid.UUID | None], start: int) -> None:
    texts = pa.array([None if i is None else str(i) for i in ids], pa.string()).slice(start)
    packed = to_layout(texts, pa.uuid())
    assert [None if i is None else i.bytes for i in ids][start:] == packed.storage.to_pylist()
    assert to_canonical(packed, avro(logical("string", "uuid"))).equals(texts)
