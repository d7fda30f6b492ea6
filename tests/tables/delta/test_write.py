"""Statistics that never hide a row, and predicates that find it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.errors import TableError
from lakeevolve.tables import delta
from lakeevolve.tables.base import Predicate
from lakeevolve.tables.delta.scan import sql
from lakeevolve.tables.delta.types import Column, ListOf, MapOf, Struct
from lakeevolve.tables.delta.write import Statistics, refuse_nulls, write_file

from .conftest import evolve, field, record, stage

UTC = dt.UTC


def stats(column: Column, array: pa.Array, indexed: int = 32) -> dict[str, Any]:
    found = Statistics([column], indexed)
    found.add(pa.record_batch([array], names=[column.name]))
    record_: dict[str, Any] = json.loads(found.to_json())
    return record_


def bounds(type_: Any, array: pa.Array) -> tuple[Any, Any]:
    found = stats(Column("c", type_), array)
    return found["minValues"].get("c"), found["maxValues"].get("c")


def test_a_full_disk_is_said_to_be_and_not_raised_as_it_comes() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device of this system is always full")
    batches = iter([pa.record_batch([pa.array([1], pa.int64())], names=["c"])])
    with pytest.raises(TableError, match="a data file cannot be written"):
        write_file(pa_fs.LocalFileSystem(), "/dev/full", [Column("c", "long")], batches)


def test_bounds_of_plain_values() -> None:
    assert bounds("long", pa.array([3, None, -(2**63)])) == (-(2**63), 3)
    assert bounds("string", pa.array(["b", "a", None])) == ("a", "b")
    assert bounds("date", pa.array([dt.date(2024, 1, 2)])) == ("2024-01-02", "2024-01-02")
    assert bounds("decimal(9,2)", pa.array([Decimal("1.50"), Decimal("-2.25")])) == (-2.25, 1.5)


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("double", pa.array([1.0, float("nan")])),
        ("binary", pa.array([b"a"])),
        ("boolean", pa.array([True])),
        ("decimal(38,2)", pa.array([Decimal("1.50")], pa.decimal128(38, 2))),
        ("string", pa.array([None], pa.string())),
    ],
)
def test_bounds_that_a_reader_could_misread_are_left_out(type_: str, array: pa.Array) -> None:
    assert bounds(type_, array) == (None, None)


def test_a_nan_in_any_batch_takes_the_bounds_away() -> None:
    found = Statistics([Column("c", "float")])
    for values in ([1.0], [float("nan")], [5.0]):
        found.add(pa.record_batch([pa.array(values, pa.float32())], names=["c"]))
    assert json.loads(found.to_json())["maxValues"] == {}


def test_infinities_zeros_and_long_texts_give_half_a_bound() -> None:
    assert bounds("double", pa.array([1.0, float("inf")])) == (1.0, None)
    low, high = bounds("double", pa.array([0.0, -0.0]))
    assert (str(low), str(high)) == ("-0.0", "0.0")
    assert bounds("string", pa.array(["x" * 40])) == ("x" * 32, None)


def test_instants_are_cut_so_that_the_bounds_stay_outside() -> None:
    late = dt.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert bounds("timestamp", pa.array([late], pa.timestamp("us", "UTC"))) == (
        "2024-01-01T00:00:00.123Z",
        "2024-01-01T00:00:00.124Z",
    )
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    assert bounds("timestamp_ntz", far) == (None, None)


def test_nulls_are_counted_through_null_structs() -> None:
    struct = Struct((Column("a", "long"), Column("l", ListOf("long"))))
    array = pa.array(
        [{"a": 1, "l": []}, None, {"a": None, "l": None}], pa.struct([("a", pa.int64()), ("l", pa.list_(pa.int64()))])
    )
    found = stats(Column("c", struct), array)
    assert found["nullCount"] == {"c": {"a": 2}}
    assert found["minValues"] == {"c": {"a": 1}}
    assert found["numRecords"] == 3


def test_no_more_columns_than_the_table_asks_for_have_statistics() -> None:
    struct = Struct((Column("a", "long"), Column("b", "long")))
    array = pa.array([{"a": 1, "b": 2}])
    assert stats(Column("c", struct), array, indexed=1)["nullCount"] == {"c": {"a": 0}}
    assert stats(Column("c", struct), array, indexed=0)["nullCount"] == {}
    assert stats(Column("c", struct), array, indexed=-1)["nullCount"] == {"c": {"a": 0, "b": 0}}


@pytest.mark.parametrize(
    ("array", "type_", "said"),
    [
        (pa.array([[1, None]]), ListOf("long", contains_null=False), r"c\[\]"),
        (pa.array([{"a": None}], pa.struct([("a", pa.int64())])), Struct((Column("a", "long", False),)), r"c\.a"),
        (
            pa.array([[("k", None)]], pa.map_(pa.string(), pa.int64())),
            MapOf("string", "long", contains_null=False),
            r"c\{\}",
        ),
    ],
)
def test_a_null_that_must_not_be_is_found_at_every_depth(array: pa.Array, type_: Any, said: str) -> None:
    with pytest.raises(TableError, match=said):
        refuse_nulls(array, type_, True, "c")


def test_a_required_field_beneath_a_null_is_no_null() -> None:
    array = pa.array([None, {"a": 1}], pa.struct([("a", pa.int64())]))
    refuse_nulls(array, Struct((Column("a", "long", False),)), True, "c")


TYPES = record(
    field("i", "int"),
    field("l", "long"),
    field("f", "float"),
    field("d", "double"),
    field("s", "string"),
    field("b", "bytes"),
    field("flag", "boolean"),
    field("day", {"type": "int", "logicalType": "date"}),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}),
    field("lt", {"type": "long", "logicalType": "local-timestamp-micros"}),
    field("tm", {"type": "int", "logicalType": "time-millis"}),
    field("tu", {"type": "long", "logicalType": "time-micros"}),
    field("dec", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}),
    field("uid", {"type": "fixed", "name": "Uid", "size": 16, "logicalType": "uuid"}),
    field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    field(
        "st", ["null", {"type": "record", "name": "St", "fields": [field("x", ["null", "int"]), field("t", "string")]}]
    ),
    field("u", ["null", "int", "string"]),
)

ROW = {
    "i": -(2**31),
    "l": -(2**63),
    "f": 1.5,
    "d": -1e-300,
    "s": 'it\'s "é" \\ ; --',
    "b": b"\x00\xff'",
    "flag": True,
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "lt": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    "tm": dt.time(1, 2, 3, 4000),
    "tu": dt.time(1, 2, 3, 4),
    "dec": Decimal("1234567890123456789.12"),
    "uid": bytes(range(16)),
    "e": "A",
    "st": {"x": 3, "t": "a''b"},
    "u": {"int": 5, "string": None},
}


@pytest.fixture
def table(tmp_path: Path) -> delta.Table:
    from lakeevolve.avro.arrow import arrow_schema

    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, TYPES, mark=True)
    other = {
        **ROW,
        "i": 5,
        "l": 5,
        "f": 9.5,
        "d": 9.5,
        "s": "z",
        "b": b"",
        "flag": False,
        "st": None,
        "u": None,
        "e": "B",
    }
    other |= {
        "day": dt.date(2030, 1, 1),
        "at": dt.datetime(2030, 1, 1, tzinfo=UTC),
        "tm": dt.time(5),
        "tu": dt.time(5),
        "lt": dt.datetime(2030, 1, 1),
    }
    other |= {"dec": Decimal("2234567890123456789.12"), "uid": bytes(16)}
    for row in (ROW, other):
        delta.append(uri, pa.Table.from_pylist([row], schema=arrow_schema(TYPES)))
    return delta.open(uri)


@pytest.mark.parametrize("rewritten", [False, True])
def test_every_type_is_found_by_equality_and_by_order(table: delta.Table, rewritten: bool) -> None:
    if rewritten:
        evolve(table.uri, record(*TYPES.to_json()["fields"], field("added", "int", default=0)))  # type: ignore[index]
        table = delta.open(table.uri)
    for name in ("i", "l", "f", "d", "s", "b", "flag", "day", "at", "lt", "tm", "tu", "dec", "uid", "e"):
        value = ROW[name]
        assert _count(table, Predicate(name, "=", value)) == 1, name
        assert _count(table, Predicate(name, "in", [value])) == 1, name
        assert _count(table, Predicate(name, "is null")) == 0, name
    for name in ("i", "l", "f", "d", "s", "day", "at", "lt", "tm", "tu", "dec"):
        assert _count(table, Predicate(name, "<", ROW[name])) == 0, name
    assert _count(table, Predicate("st.x", "=", 3)) == 1
    assert _count(table, Predicate("st.t", "=", "a''b")) == 1
    assert _count(table, Predicate("st.x", "is null")) == 1
    assert _count(table, Predicate("u<int>", "=", 5)) == 1
    assert _count(table, Predicate("u<string>", "is null")) == 2
    one = [sum(b.num_rows for b in table.read(f, Predicate("l", "=", ROW["l"]))) for f in table.files()]
    assert sorted(one) == [0, 1]


@pytest.mark.parametrize("value", ["\U0010ffff" * 3, "\U00100000", "a\U0010fffe", "\U0001f389", "\uffff", "\ue000"])
def test_a_text_of_the_last_characters_is_found_in_what_is_to_be(value: str, tmp_path: Path) -> None:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, record(field("id", "long"), field("s", "string"), field("p", "string")), partition_by=["p"])
    delta.append(uri, pa.table({"id": pa.array([1, 2]), "s": [value, "a"], "p": [value, value]}))
    target = record(field("id", "long"), field("t", "string", aliases=["s"]), field("p", "string"))
    attempt = stage(uri, target)
    for path, op, count in (("t", "=", 1), ("p", "=", 2), ("t", "<", 1)):
        found = sum(b.num_rows for b in attempt.staged.read(predicate=Predicate(path, op, value)))  # type: ignore[arg-type]
        assert found == count, (path, op)
    attempt.commit()
    table = delta.open(uri)
    assert _count(table, Predicate("t", "=", value)) == 1
    assert sum(b.num_rows for f in table.files() for b in table.read(f, Predicate("t", "=", value))) == 1


def _count(table: delta.Table, predicate: Predicate) -> int:
    return sum(b.num_rows for b in table.read(predicate=predicate))


@pytest.mark.parametrize("path", ["", "nothing", "st.nothing"])
def test_a_filter_on_no_column_is_an_error(table: delta.Table, path: str) -> None:
    with pytest.raises(TableError):
        list(table.read(predicate=Predicate(path, "is null")))


def test_a_filter_into_a_list_is_an_error() -> None:
    schema = record(field("l", {"type": "array", "items": "int"}), field("m", {"type": "map", "values": "int"}))
    for path in ("l[]", "m{}"):
        with pytest.raises(TableError, match="no filter"):
            sql(Predicate(path, "=", 1), schema, "t")


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(width=64)), min_size=1, max_size=6))
def test_float_bounds_hold_every_value(values: list[float | None]) -> None:
    low, high = bounds("double", pa.array(values, pa.float64()))
    for value in values:
        if value is None or value != value:
            continue
        assert low is None or low <= value
        assert high is None or high >= value


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_text_bounds_hold_every_value(values: list[str]) -> None:
    low, high = bounds("string", pa.array(values))
    for value in values:
        assert low.encode() <= value.encode()
        assert high is None or high.encode() >= value.encode()
