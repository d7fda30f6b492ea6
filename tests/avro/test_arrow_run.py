"""Running resolutions over Arrow: every kind of node, nulls at every level, and what cannot be read."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.avro.arrow import arrow_schema, arrow_type, execute, to_arrow
from lakeevolve.avro.nodes import Again, Fields, ReadField
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import ResolutionError, SchemaError, ValueMismatch
from lakeevolve.model.schema import Schema

UTC = dt.UTC


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """A record; a field is (name, type), (name, type, default) or a whole field."""
    made = []
    for field in fields:
        if isinstance(field, tuple):
            made.append(dict(zip(("name", "type", "default"), field, strict=False)))
        else:
            made.append(field)
    return {"type": "record", "name": name, "fields": made}


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def one(schema: Any) -> Schema:
    return parse(record(("value", schema)))


def read(writer: Any, reader: Any, values: list[Any], *, partial: bool = False, **how: Any) -> list[Any]:
    """Values of one type read as another: by ``to_arrow`` over a table, and equally by every other way."""
    old, new = one(writer), one(reader)
    found = resolve(old, new, **how)
    column = pa.array(values, arrow_type(old.fields[0].type))
    table = pa.Table.from_arrays([column], schema=arrow_schema(old))
    made = found.to_arrow(table, partial=partial)
    made.validate(full=True)
    assert made.schema == arrow_schema(new)
    again = found.to_arrow(table.to_struct_array(), partial=partial)
    assert again.type == pa.chunked_array([], arrow_type(new.root)).type
    assert again.equals(made.to_struct_array()) or "nan" in str(made)
    # A slice of something longer, with values before and behind it.
    longer = pa.concat_tables([table, table, table]).combine_chunks()
    part = found.to_arrow(longer.slice(len(values), len(values)), partial=partial)
    assert str(part.to_pylist()) == str(made.to_pylist())
    batch = pa.RecordBatch.from_arrays([column], names=["value"])
    loose = execute(found, batch, partial=partial)
    loose.validate(full=True)
    assert loose.schema == arrow_schema(new, strict=False)
    assert str(loose.to_pylist()) == str(made.to_pylist())
    return [row["value"] for row in made.to_pylist()]


# Promotions


@pytest.mark.parametrize(
    ("writer", "reader", "values", "expected"),
    [
        ("int", "long", [1, -(2**31)], [1, -(2**31)]),
        ("int", "double", [2**31 - 1, -1], [2147483647.0, -1.0]),
        ("int", "float", [16777217, 2**31 - 1], [16777216.0, 2147483648.0]),
        ("long", "float", [2**63 - 1, 16777219], [9223372036854775808.0, 16777220.0]),
        ("long", "double", [2**53 + 1, -(2**63)], [9007199254740992.0, -9223372036854775808.0]),
        ("float", "double", [0.1, float("inf")], [struct.unpack("<f", struct.pack("<f", 0.1))[0], float("inf")]),
        ("string", "bytes", ["é", ""], ["é".encode(), b""]),
        ("bytes", "string", ["é".encode(), b""], ["é", ""]),
        ("int", logical("long", "timestamp-millis"), [1500], [dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)]),
        (logical("int", "date"), "int", [dt.date(1970, 1, 3)], [2]),
        ("int", logical("int", "date"), [-1], [dt.date(1969, 12, 31)]),
        (logical("int", "time-millis"), "int", [dt.time(0, 0, 1)], [1000]),
        (logical("int", "time-millis"), logical("long", "time-micros"), [dt.time(0, 0, 1)], [dt.time(0, 0, 1)]),
        (
            logical("long", "timestamp-millis"),
            logical("long", "timestamp-micros"),
            [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)],
            [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)],
        ),
        (
            logical("bytes", "decimal", precision=4, scale=1),
            "bytes",
            [Decimal("12.8"), Decimal("-0.1"), Decimal("0.0")],
            [b"\x00\x80", b"\xff", b"\x00"],
        ),
        (
            "bytes",
            logical("bytes", "decimal", precision=4, scale=1),
            [b"\x00\x80", b"\xff"],
            [Decimal(128) / 10, Decimal(-1) / 10],
        ),
    ],
)
def test_values_are_promoted_at_every_depth(writer: Any, reader: Any, values: list[Any], expected: list[Any]) -> None:
    assert read(writer, reader, values) == expected
    assert [type(value) for value in read(writer, reader, values)] == [type(value) for value in expected]
    nullable = [None, *values, None]
    assert read(["null", writer], [reader, "null"], nullable) == [None, *expected, None]
    assert read(array(["null", writer]), array(["null", reader]), [nullable, [], [None]]) == [
        [None, *expected, None],
        [],
        [None],
    ]
    pairs = [[("a", value)] for value in values]
    assert read(mapping(writer), mapping(reader), [[], *pairs]) == [[], *([("a", value)] for value in expected)]
    inner = [{"x": value} for value in values]
    assert read(
        ["null", record(("x", writer), name="I")], ["null", record(("x", reader), name="I")], [None, *inner]
    ) == [
        None,
        *({"x": value} for value in expected),
    ]


def test_raw_numbers_are_read_anew_where_logical_types_are_ignored() -> None:
    millis, micros = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    instant = dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert read(millis, micros, [instant], logical="ignore") == [dt.datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)]
    cents, mills = (logical("bytes", "decimal", precision=6, scale=scale) for scale in (2, 3))
    assert read(cents, mills, [Decimal("4.82"), Decimal("-1.00")], logical="ignore") == [
        Decimal("0.482"),
        Decimal("-0.100"),
    ]
    assert read(logical("int", "date"), millis, [dt.date(1970, 1, 2)], logical="ignore") == [
        dt.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)
    ]


@pytest.mark.parametrize(
    ("writer", "reader", "values", "row"),
    [
        ("bytes", "string", [b"a", b"\xc3", b"\xa9"], 1),
        (logical("long", "timestamp-micros"), logical("long", "timestamp-nanos"), [0, -(2**62), 2**62], 1),
        ("long", logical("long", "timestamp-millis"), [1, 1, 2**62], 2),
        ("int", logical("int", "time-millis"), [0, 86_399_999, 86_400_000], 2),
        ("bytes", logical("bytes", "decimal", precision=2, scale=0), [b"\x63", b"\x9d", b"\x64"], 2),
        (
            "bytes",
            logical("bytes", "decimal", precision=2, scale=0),
            [b"\x00" * 20 + b"\x63", b"\x01" + b"\x00" * 20],
            1,
        ),
        ("bytes", logical("bytes", "decimal", precision=2, scale=0), [b"\x01", b""], 1),
    ],
)
def test_the_first_value_that_cannot_be_promoted_is_named(
    writer: Any, reader: Any, values: list[Any], row: int
) -> None:
    with pytest.raises(ValueMismatch) as caught:
        read(writer, reader, values)
    assert (caught.value.row, caught.value.path) == (row, "value")
    assert read(writer, reader, values[:row])


# Records


def test_fields_are_read_filled_renamed_and_reordered() -> None:
    writer = record(("id", "int"), ("gone", "string"), ("old", "int"))
    reader = record(
        ("added", ["null", "string"], None),
        {"name": "new", "type": "long", "aliases": ["old"]},
        ("id", "int"),
        ("price", logical("bytes", "decimal", precision=4, scale=2), "\u0001"),
        ("day", logical("int", "date"), 3),
        ("at", logical("long", "timestamp-millis"), 1500),
        ("tags", array("string"), ["a", "b"]),
        ("sizes", mapping("int"), {"s": 1}),
        ("inner", record(("x", "int"), ("y", "int", 7), name="I"), {"x": 1}),
        ("either", ["int", "string"], 5),
        ("symbol", enum("A", "B"), "B"),
    )
    data = pa.Table.from_pylist([{"id": 1, "gone": "x", "old": 2}] * 2, schema=arrow_schema(parse(writer)))
    made = resolve(parse(writer), parse(reader)).to_arrow(data)
    made.validate(full=True)
    assert made.schema == arrow_schema(parse(reader))
    assert (
        made.to_pylist()
        == [
            {
                "added": None,
                "new": 2,
                "id": 1,
                "price": Decimal("0.01"),
                "day": dt.date(1970, 1, 4),
                "at": dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
                "tags": ["a", "b"],
                "sizes": [("s", 1)],
                "inner": {"x": 1, "y": 7},
                "either": {"int": 5, "string": None},
                "symbol": "B",
            }
        ]
        * 2
    )


@pytest.mark.parametrize(
    ("type_", "default", "plain"),
    [
        (logical("int", "time-millis"), 5, 5000),
        (logical("long", "time-micros"), 5, 5),
        (logical("long", "local-timestamp-millis"), 5, 5000),
        (logical("long", "timestamp-nanos"), 5, 5),
        (logical("long", "local-timestamp-nanos"), -5, -5),
        (logical("string", "uuid"), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0000", b"\xff\x00"),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2},
            "\u00ff" * 4,
            Decimal("-0.01"),
        ),
        (logical("bytes", "decimal", precision=50, scale=3), "\u0001", Decimal("0.001")),
        ("bytes", "\u00ff", b"\xff"),
        ("float", 1, 1.0),
        ("float", 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("double", 1, 1.0),
        ("boolean", True, True),
        (array(["null", logical("int", "date")]), [None, 3], [None, dt.date(1970, 1, 4)]),
        (mapping(["null", "int", "string"]), {"a": None, "b": 1}, [("a", None), ("b", {"int": 1, "string": None})]),
        (["null", "int", record(("x", "int"), name="P")], {"x": 1}, {"int": None, "P": {"x": 1}}),
        (["null", "int"], None, None),
    ],
)
def test_each_type_s_default_is_filled_in_its_column(type_: Any, default: Any, plain: Any) -> None:
    new = parse(record(("value", "int"), ("more", type_, default)))
    made = resolve(one("int"), new).to_arrow(pa.table({"value": [1, 2, 3]}))
    made.validate(full=True)
    assert made.schema == arrow_schema(new)
    column = made["more"]
    if pa.types.is_time(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    assert column.to_pylist() == [plain] * 3


def test_a_null_record_stays_null_and_so_do_its_filled_fields() -> None:
    writer, reader = (
        record(("a", "int"), name="I"),
        record(("a", "long"), ("b", "int", 7), ("c", array("int"), [1]), name="I"),
    )
    assert read(["null", writer], ["null", reader], [None, {"a": 1}]) == [None, {"a": 1, "b": 7, "c": [1]}]
    schemas = [one(["null", schema]) for schema in (writer, reader)]
    made = resolve(*schemas).to_arrow(pa.table({"value": [None, {"a": 1}]}, schema=arrow_schema(schemas[0])))
    children = made["value"].combine_chunks().flatten()
    assert [child.to_pylist() for child in children] == [[None, 1], [None, 7], [None, [1]]]


def test_lists_of_records_keep_null_empty_and_long_lists() -> None:
    old = array(["null", record(("x", ["null", "int"]), name="I")])
    new = array(["null", record(("y", "string", "new"), ("x", ["null", "long"]), name="I")])
    values = [[{"x": 1}, None, {"x": None}], None, [], [None], [{"x": 2}]]
    assert read(["null", old], ["null", new], values) == [
        [{"y": "new", "x": 1}, None, {"y": "new", "x": None}],
        None,
        [],
        [None],
        [{"y": "new", "x": 2}],
    ]


def test_maps_keep_null_and_empty_maps_and_the_order_of_their_keys() -> None:
    old, new = mapping(["null", array("int")]), mapping(["null", array("double")])
    values = [[("b", [1]), ("a", None)], None, [], [("b", [])]]
    assert read(["null", old], ["null", new], values) == [[("b", [1.0]), ("a", None)], None, [], [("b", [])]]


def test_rows_survive_where_no_column_does() -> None:
    old, new = parse(record(("a", "int"))), parse(record())
    data = pa.table({"a": pa.array([1, 2, 3], pa.int32())}, schema=arrow_schema(old))
    assert resolve(old, new).to_arrow(data).num_rows == 3
    back = resolve(new, parse(record(("b", "int", 5)))).to_arrow(resolve(old, new).to_arrow(data))
    assert back.to_pylist() == [{"b": 5}] * 3


def test_tables_without_rows_or_batches_keep_the_schema() -> None:
    old, new = one("int"), one("double")
    found = resolve(old, new)
    assert found.to_arrow(arrow_schema(old).empty_table()).schema == arrow_schema(new)
    none = pa.RecordBatchReader.from_batches(arrow_schema(old), [])
    assert found.to_arrow(none).read_all().schema == arrow_schema(new)
    assert found.to_arrow(pa.chunked_array([], arrow_type(old.root))).type == arrow_type(new.root)
    assert found.to_arrow(pa.array([], arrow_type(old.root))).type == arrow_type(new.root)


# Enums


def test_symbols_read_as_themselves_or_as_the_default() -> None:
    writer, reader = enum("A", "B", "C"), enum("C", "A", default="A")
    assert read(["null", writer], ["null", reader], ["C", "B", None, "A"]) == ["C", "A", None, "A"]


def test_a_symbol_that_the_reader_lacks_raises_at_the_first_row_that_holds_it() -> None:
    writer, reader = one(array(enum("A", "B", "C"))), one(array(enum("A", "B")))
    found = resolve(writer, reader)
    good = pa.Table.from_pylist([{"value": ["A", "B"]}, {"value": []}], schema=arrow_schema(writer))
    with pytest.raises(ResolutionError, match="MISSING_ENUM_SYMBOLS"):
        found.to_arrow(good)
    assert found.to_arrow(good, partial=True).to_pylist() == good.to_pylist()
    bad = pa.Table.from_pylist([{"value": ["A"]}, {"value": []}, {"value": ["B", "C"]}], schema=arrow_schema(writer))
    with pytest.raises(ValueMismatch) as caught:
        found.to_arrow(bad, partial=True)
    assert (caught.value.row, caught.value.path) == (2, "value[]")
    assert "'C'" not in str(caught.value)


def test_a_text_that_is_no_symbol_of_the_writer_raises() -> None:
    with pytest.raises(ValueMismatch, match="does not have") as caught:
        read(enum("A", "B"), enum("A", default="A"), ["A", "X"])
    assert (caught.value.row, caught.value.path) == (1, "value")
    with pytest.raises(ValueMismatch, match="no symbol of"):
        read(array(["null", enum("A", "B")]), array(["null", enum("B", "A")]), [["A", None], ["X"]])


# Unions

BRANCHES = ["null", "int", "string", record(("x", "int"), name="P")]
UNION_VALUES = [None, {"int": 1}, {"string": "s"}, {"P": {"x": 2}}]


def test_a_type_becomes_nullable_and_back() -> None:
    assert read("int", ["null", "long"], [1, 2]) == [1, 2]
    assert read(["null", "int"], "long", [1, 2], partial=True) == [1, 2]


def test_a_type_becomes_a_branch_and_back() -> None:
    assert read("int", ["string", "long"], [1]) == [{"string": None, "long": 1}]
    assert read(["int", "string"], "long", [{"int": 1}, {"int": 2}], partial=True) == [1, 2]
    assert read(["int", "float"], "double", [{"int": 1}, {"float": 0.5}]) == [1.0, 0.5]
    assert read(["int", "null", "float"], ["null", "double"], [{"int": 1}, None, {"float": 0.5}]) == [1.0, None, 0.5]


def test_a_nullable_type_becomes_a_union_and_back() -> None:
    assert read(["null", "int"], ["long", "null", "string"], [None, 1]) == [None, {"long": 1, "string": None}]
    assert read(BRANCHES, ["null", "long"], [None, {"int": 1}], partial=True) == [None, 1]


def test_a_union_becomes_another_union() -> None:
    reader = [record(("x", "long"), ("y", "int", 3), name="P"), "string", "null", "double", "boolean"]
    assert read(BRANCHES, reader, UNION_VALUES) == [
        None,
        {"P": None, "string": None, "double": 1.0, "boolean": None},
        {"P": None, "string": "s", "double": None, "boolean": None},
        {"P": {"x": 2, "y": 3}, "string": None, "double": None, "boolean": None},
    ]
    assert read(array(["int", "float"]), array(["string", "double"]), [[{"int": 1}, {"float": 0.5}], []]) == [
        [{"string": None, "double": 1.0}, {"string": None, "double": 0.5}],
        [],
    ]


def test_a_renamed_branch_is_found_by_its_alias() -> None:
    reader = ["null", "int", "string", {**record(("x", "int"), name="Q"), "aliases": ["P"]}]
    assert read(BRANCHES, reader, UNION_VALUES)[3] == {"int": None, "string": None, "Q": {"x": 2}}


def test_a_union_of_one_branch_is_a_struct_of_one_field() -> None:
    assert read(["int"], ["long"], [{"int": 1}]) == [{"long": 1}]
    assert read(["int"], "long", [{"int": 1}]) == [1]
    assert read("int", ["long"], [1]) == [{"long": 1}]


@pytest.mark.parametrize(
    ("writer", "reader", "values", "row", "path"),
    [
        (["null", "int"], "int", [1, None, 2, None], 1, "value"),
        (array(["null", "int"]), array("long"), [[1], [], [2, None]], 2, "value[]"),
        (mapping(["null", "int"]), mapping("long"), [[("a", 1)], [("a", 1), ("b", None)]], 1, "value{}"),
        (BRANCHES, ["null", "int", "string"], UNION_VALUES, 3, "value"),
        (BRANCHES, BRANCHES[1:], [{"int": 1}, None], 1, "value"),
        (["int", "string"], "int", [{"int": 1}, {"int": 1}, {"string": "s"}], 2, "value"),
        (["int", "string"], ["null", "int"], [{"string": "s"}], 0, "value"),
        (["null", "int", "string"], ["null", "int"], [{"int": 1}, None, {"string": "s"}], 2, "value"),
        (["null", "int", enum("A", "B")], ["null", "int", enum("A")], [{"int": 1}, None, {"E": "B"}], 2, "value<E>"),
    ],
)
def test_values_that_a_narrower_reader_lacks_raise_at_their_row(
    writer: Any, reader: Any, values: list[Any], row: int, path: str
) -> None:
    old = one(writer)
    found = resolve(old, one(reader))
    assert all(fault.value_level for fault in found.incompatibilities)
    table = pa.Table.from_pylist([{"value": value} for value in values], schema=arrow_schema(old))
    with pytest.raises(ResolutionError) as refused:
        found.to_arrow(table)
    assert not isinstance(refused.value, ValueMismatch)
    assert "partial=True" in str(refused.value.hint)
    for run in (
        lambda: found.to_arrow(table, partial=True),
        lambda: found.to_arrow(table.to_batches()[0], partial=True),
        lambda: found.to_arrow(table.to_reader(max_chunksize=1), partial=True).read_all(),
        lambda: execute(found, table.to_batches()[0], partial=True),
    ):
        with pytest.raises(ValueMismatch) as caught:
            run()
        assert (caught.value.row, caught.value.path) == (row, path)
    with pytest.raises(ValueMismatch) as caught:
        execute(found, table.to_batches()[0], partial=True, row_offset=100)
    assert caught.value.row == 100 + row
    # The rows before it are read.
    assert found.to_arrow(table.slice(0, row), partial=True).num_rows == row


def test_the_first_row_is_raised_whichever_column_and_step_finds_it() -> None:
    first = parse(record(("a", ["null", "int"]), ("b", ["null", "int"]), ("c", "bytes")))
    second = parse(record(("a", "int"), ("b", ["null", "int"]), ("c", "bytes")))
    third = parse(record(("a", "int"), ("b", "int"), ("c", "string")))
    found = resolve(first, second).then(resolve(second, third))
    rows = [{"a": 1, "b": 1, "c": b""} for _ in range(4)]
    rows[3]["a"] = None
    rows[2]["b"] = None
    rows[1]["c"] = b"\xff"
    for row, path in ((1, "c"), (2, "b"), (3, "a")):
        table = pa.Table.from_pylist(rows, schema=arrow_schema(first))
        with pytest.raises(ValueMismatch) as caught:
            found.to_arrow(table, partial=True)
        assert (caught.value.row, caught.value.path) == (row, path)
        rows[row] = {"a": 1, "b": 1, "c": b""}


def test_a_null_beneath_a_null_record_or_list_is_no_mismatch() -> None:
    old = array(["null", record(("x", ["null", "int"]), name="I")])
    new = array(["null", record(("x", "int"), name="I")])
    values = [None, [None, {"x": 1}], []]
    assert read(["null", old], ["null", new], values, partial=True) == values


def test_leftovers_beneath_nulls_are_never_looked_at() -> None:
    old, new = one(["null", array("bytes")]), one(["null", array("string")])
    offsets = pa.array([0, 2, 3], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array([b"\xff", b"\xfe", b"good"]), mask=pa.array([True, False]))
    table = pa.table({"value": lists.cast(arrow_type(old.fields[0].type))})
    assert resolve(old, new).to_arrow(table)["value"].to_pylist() == [None, ["good"]]


def test_a_value_of_two_branches_or_none_is_not_a_value() -> None:
    old, new = one(["int", "string"]), one(["string", "int", "null"])
    found = resolve(old, new)
    both = pa.Table.from_pylist([{"value": {"int": 1}}, {"value": {"int": 1, "string": "s"}}], schema=arrow_schema(old))
    with pytest.raises(ValueMismatch, match="more than one branch") as caught:
        found.to_arrow(both)
    assert caught.value.row == 1
    with pytest.raises(ValueMismatch, match="more than one branch"):
        execute(found, both.to_batches()[0])
    none = pa.Table.from_pylist([{"value": {}}], schema=arrow_schema(old))
    with pytest.raises(ValueMismatch, match="no branch"):
        found.to_arrow(none)
    assert execute(found, none.to_batches()[0]).to_pylist() == [{"value": {"string": None, "int": None}}]


# Incompatible pairs, and data that is not the writer's


def test_an_incompatible_pair_is_refused_whatever_the_data() -> None:
    for partial in (False, True):
        with pytest.raises(ResolutionError, match="TYPE_MISMATCH") as caught:
            resolve(one("string"), one("int")).to_arrow(arrow_schema(one("string")).empty_table(), partial=partial)
        assert caught.value.where == "value"


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"value": pa.array([1, 2**31], pa.int64())}),
        pa.table({"value": pa.array([1.0])}),
        pa.table({"value": pa.array(["a"])}),
        pa.table({"other": pa.array([1], pa.int32())}),
        pa.table({"value": pa.array([1], pa.int32()), "more": [1]}),
    ],
)
def test_data_of_another_shape_is_refused(data: pa.Table) -> None:
    with pytest.raises(ResolutionError):
        resolve(one("int"), one("long")).to_arrow(data)


def test_what_is_not_arrow_is_refused() -> None:
    with pytest.raises(ResolutionError, match="is not Arrow data"):
        resolve(one("int"), one("long")).to_arrow([{"value": 1}])


def test_a_null_where_the_writer_allows_none_is_refused_by_to_arrow_alone() -> None:
    old, new = one(array(record(("x", "int"), name="I"))), one(array(record(("x", "long"), name="I")))
    table = pa.table({"value": [[{"x": 1}], [{"x": 2}, {"x": None}]]}).cast(arrow_schema(old, strict=False))
    with pytest.raises(ValueMismatch) as caught:
        resolve(old, new).to_arrow(table)
    assert (caught.value.row, caught.value.path) == (1, "value[].x")
    assert execute(resolve(old, new), table.to_batches()[0]).to_pylist() == table.to_pylist()


def test_other_representations_of_the_writer_are_taken() -> None:
    old = parse(record(("a", ["null", "string"]), ("b", enum("A", "B")), ("c", array("string"))))
    new = parse(record(("c", array("bytes")), ("b", enum("A", "B")), ("a", ["null", "bytes"])))
    table = pa.table(
        {
            "c": pa.array([["x"]], pa.large_list(pa.string_view())),
            "a": pa.array(["a"], pa.large_string()),
            "b": pa.array(["B"]).dictionary_encode(),
        }
    )
    assert resolve(old, new).to_arrow(table).to_pylist() == [{"c": [b"x"], "b": "B", "a": b"a"}]


def test_numbers_of_another_width_are_taken_where_all_fit() -> None:
    old = parse(record(("a", "int"), ("b", "float"), ("c", array("long"))))
    table = pa.table({"a": [1, -(2**31)], "b": [0.5, float("nan")], "c": pa.array([[1], []], pa.list_(pa.uint8()))})
    made = resolve(old, old).to_arrow(table)
    assert made.schema == arrow_schema(old)
    assert str(made.to_pylist()) == str(table.to_pylist())
    with pytest.raises(ResolutionError, match="without changing a value"):
        resolve(old, old).to_arrow(table.set_column(1, "b", pa.array([0.5, 0.1])))
    with pytest.raises(ResolutionError, match="no representation"):
        execute(resolve(old, old), table.to_batches()[0])


def test_a_root_of_another_type_is_read_from_an_array() -> None:
    found = resolve(parse("int"), parse("double"))
    assert found.to_arrow(pa.array([1, 2], pa.int32())).equals(pa.array([1.0, 2.0]))
    with pytest.raises(SchemaError, match="not a record"):
        found.to_arrow(pa.table({"value": [1]}))
    with pytest.raises(ResolutionError, match="a table holds records"):
        execute(found, pa.record_batch({"value": [1]}))


def test_a_recursive_type_has_no_table_form() -> None:
    tree = parse(record(("x", "int"), ("below", array("R"))))
    with pytest.raises(SchemaError, match="contains itself"):
        resolve(tree, tree).to_arrow(pa.table({"x": [1], "below": [[]]}))
    old, new = one("int"), one("long")
    node = Fields(old.record, new.record, (ReadField(new.fields[0], 0, Again("a.R", "b.R")),), ())
    with pytest.raises(ResolutionError, match="contains itself"):
        to_arrow(Resolution(old, new, (node,), ()), pa.table({"value": pa.array([1], pa.int32())}))


# The loose form


def test_nulls_pass_through_every_node_of_the_loose_form() -> None:
    old = parse(
        record(
            ("a", "int"), ("b", enum("A", "B")), ("c", array("int")), ("d", record(("x", "bytes"), name="I")),
            ("e", ["int", "string"]), ("f", mapping("int")), ("g", "int"),
        )
    )  # fmt: skip
    new = parse(
        record(
            ("a", "double"), ("b", enum("A", default="A")), ("c", array("long")),
            ("d", record(("x", "string"), name="I")),
            ("e", ["long", "null", "string"]), ("f", mapping("long")), ("g", ["null", "long"]), ("h", "int", 1),
        )
    )  # fmt: skip
    nulls = dict.fromkeys("abcdefg")
    some = {"a": 1, "b": "B", "c": [1, None], "d": {"x": None}, "e": {"int": 1}, "f": [("k", None)], "g": 1}
    batch = pa.RecordBatch.from_pylist([nulls, some], schema=arrow_schema(old, strict=False))
    made = execute(resolve(old, new), batch)
    made.validate(full=True)
    assert made.schema == arrow_schema(new, strict=False)
    assert made.to_pylist() == [
        {**nulls, "h": 1},
        {"a": 1.0, "b": "A", "c": [1, None], "d": {"x": None}, "e": {"long": 1, "string": None}, "f": [("k", None)],
         "g": 1, "h": 1},
    ]  # fmt: skip


def test_foreign_columns_follow_unchanged() -> None:
    old, new = one("int"), one("long")
    offsets = pa.array([10, 11], pa.uint16())
    batch = pa.record_batch({"_offset": offsets, "value": pa.array([1, 2], pa.int32()), "_topic": ["t", None]})
    made = execute(resolve(old, new), batch)
    assert made.schema == pa.schema([("value", pa.int64()), ("_offset", pa.uint16()), ("_topic", pa.string())])
    assert made.column("_offset").equals(offsets)
    assert made.to_pylist()[1] == {"value": 2, "_offset": 11, "_topic": None}


def test_a_field_that_takes_the_name_of_a_foreign_column_is_refused() -> None:
    found = resolve(one("int"), parse(record(("value", "int"), ("_offset", "long", 0))))
    with pytest.raises(ResolutionError, match="no schema owns"):
        execute(found, pa.record_batch({"value": pa.array([1], pa.int32()), "_offset": [1]}))


def test_a_column_that_the_owner_left_null_is_null() -> None:
    old = one("int")
    new = parse(record(("value", "int"), ("more", array("int"), [1]), ("at", record(("x", "int", 1), name="I"), {})))
    found = resolve(old, new, fills={"more": "null", "at": "null"})
    batch = pa.record_batch({"value": pa.array([1], pa.int32())})
    assert execute(found, batch).to_pylist() == [{"value": 1, "more": None, "at": None}]
    table = found.to_arrow(pa.table(batch))
    assert table.schema == arrow_schema(new, strict=False)
    assert table.to_pylist() == [{"value": 1, "more": None, "at": None}]
    widened = parse(
        record(("value", "int"), ("more", array("long"), [1]), ("at", record(("x", "int", 1), name="I"), {}))
    )
    assert execute(found.then(resolve(new, widened)), batch).to_pylist() == [{"value": 1, "more": None, "at": None}]


def test_many_columns_and_rows_are_read_in_pieces() -> None:
    old, new = one(array("int")), one(array("double"))
    table = pa.table({"value": pa.array([[1, 2], [], [3]] * 50_000, arrow_type(old.fields[0].type))})
    made = resolve(old, new).to_arrow(table)
    assert made.num_rows == 150_000
    assert made["value"].to_pylist()[-3:] == [[1.0, 2.0], [], [3.0]]
    bad = pa.concat_tables(
        [table, pa.table({"value": pa.array([[1, None]], pa.list_(pa.int32()))})], promote_options="permissive"
    )
    with pytest.raises(ValueMismatch) as caught:
        resolve(old, new).to_arrow(bad)
    assert caught.value.row == 150_000
