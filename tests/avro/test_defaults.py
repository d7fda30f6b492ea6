"""What a default means, judged value by value (Avro 1.12, "Complex Types")."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_type
from lakeevolve.avro.defaults import check_default, default_value
from lakeevolve.avro.parse import parse, walk
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record
from lakeevolve.testing import schemas

PROPERTY = settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


DECIMAL = logical("bytes", "decimal", precision=4, scale=2)
FIXED = {"type": "fixed", "name": "F", "size": 3}
FIXED_DECIMAL = {**FIXED, "logicalType": "decimal", "precision": 5, "scale": 1}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B"}
INTS = {"type": "array", "items": "int"}
INT_MAP = {"type": "map", "values": "int"}
INNER = record({"name": "x", "type": "int"}, {"name": "y", "type": "bytes", "default": "\u00ff\u0001"}, name="I")
UUID = "12345678-9abc-def0-1234-56789abcdef0"

VALID: list[tuple[Any, Any, Any]] = [
    ("boolean", False, False),
    ("int", -(2**31), -(2**31)),
    ("long", 2**63 - 1, 2**63 - 1),
    ("float", 1, 1.0),
    ("double", 3, 3.0),
    ("double", 1e300, 1e300),
    ("string", "", ""),
    ("bytes", "\u00ff\u0000a", b"\xff\x00a"),
    ("bytes", "", b""),
    (FIXED, "\u0080bc", b"\x80bc"),
    (ENUM, "A", "A"),
    (DECIMAL, "\u0001\u00e2", Decimal("4.82")),
    (DECIMAL, "\u00ff", Decimal("-0.01")),
    (FIXED_DECIMAL, "\u0000\u0000\u0007", Decimal("0.7")),
    (logical("bytes", "decimal", precision=38), "\u004b" + "\u0000" * 15, Decimal(75 << 120)),
    (logical("int", "date"), -1, -1),
    (logical("int", "time-millis"), 86_399_999, 86_399_999_000),
    (logical("long", "time-micros"), 7, 7),
    (logical("long", "timestamp-millis"), -5, -5000),
    (logical("long", "timestamp-micros"), -5, -5),
    (logical("long", "local-timestamp-nanos"), 5, 5),
    (logical("string", "uuid"), UUID, UUID),
    (INTS, [], []),
    (INTS, [1, 2], [1, 2]),
    (INT_MAP, {}, []),
    (INT_MAP, {"b": 1, "a": 2}, [("b", 1), ("a", 2)]),
    (INNER, {"x": 1}, {"x": 1, "y": b"\xff\x01"}),
    (INNER, {"x": 1, "y": "", "z": 9}, {"x": 1, "y": b""}),
    (["null", "int"], None, None),
    (["null", "int"], 5, 5),
    (["int", "null"], None, None),
    (["null", INNER], {"x": 2}, {"x": 2, "y": b"\xff\x01"}),
    (["string", "int"], 5, {"string": None, "int": 5}),
    (["double", "int"], 5, {"double": 5.0, "int": None}),
    (["null", "string", INTS], [1], {"string": None, "array": [1]}),
    ([INNER, INT_MAP], {"a": 1}, {"I": None, "map": [("a", 1)]}),
    ({"type": "array", "items": ["null", "string"]}, ["a", None], ["a", None]),
]

INVALID: list[tuple[Any, Any, str]] = [
    ("null", 0, "a number for null"),
    ("boolean", "true", "a text for boolean"),
    ("boolean", 1, "a number for boolean"),
    ("int", "7", "a text for int"),
    ("int", None, "null for int"),
    ("int", True, "a boolean for int"),
    ("int", 1.0, "a number for int"),
    ("int", 5_000_000_000, "a number outside the range of int"),
    ("int", -(2**31) - 1, "a number outside the range of int"),
    ("long", 2**63, "a number outside the range of long"),
    ("long", 1.5, "a number for long"),
    ("float", 1e300, "a number outside the range of float"),
    ("float", 10**400, "a number outside the range of float"),
    ("double", 10**400, "a number outside the range of double"),
    ("double", "NaN", "a text for double"),
    ("double", True, "a boolean for double"),
    ("string", 5, "a number for string"),
    ("string", None, "null for string"),
    ("bytes", "\u0100", "a text with a code point above 255"),
    ("bytes", [1], "a list for bytes"),
    (FIXED, "ab", "a text of 2 bytes for fixed(3)"),
    (FIXED, "ab\u0100", "a text with a code point above 255"),
    (ENUM, "C", "no symbol of enum E"),
    (ENUM, 1, "a number for enum E"),
    (DECIMAL, "", "an empty text for a decimal"),
    (DECIMAL, "\u0027\u0010", "more digits than decimal(4,2) holds"),
    (logical("int", "time-millis"), 86_400_000, "a number that is no time of a day"),
    (logical("long", "time-micros"), -1, "a number that is no time of a day"),
    (logical("long", "timestamp-millis"), 2**63 - 1, "a number outside the range of timestamp-millis"),
    (logical("string", "uuid"), "", "a text that is no UUID"),
    (INTS, None, "null for an array"),
    (INTS, ["a"], "an item: a text for int"),
    (INTS, {}, "an object for an array"),
    (INT_MAP, [], "a list for a map"),
    (INT_MAP, {"a": "b"}, "a value: a text for int"),
    (INNER, {}, "the field x is missing and has no default"),
    (INNER, {"x": "a"}, "x: a text for int"),
    (INNER, None, "null for a record"),
    (["null", "string"], 5, "a number for string"),
    (["null", INNER], {"x": None}, "x: null for int"),
    (["int", "string"], None, "null fits no branch of [int, string]"),
    ([], None, "null fits no branch of []"),
]


@pytest.mark.parametrize(("type_", "default", "value"), VALID)
def test_a_valid_default_has_its_value_and_fits_the_arrow_type(type_: Any, default: Any, value: Any) -> None:
    root = parse(type_).root
    assert check_default(root, default) is None
    found = default_value(root, default)
    assert found == value
    assert type(found) is type(value)
    target = arrow_type(root)
    assert pa.scalar(found, target).type == target


def test_nothing_but_null_is_a_null() -> None:
    assert check_default(parse("null").root, None) is None
    assert default_value(parse("null").root, None) is None


@pytest.mark.parametrize(("type_", "default", "reason"), INVALID)
def test_an_invalid_default_is_told_apart_with_its_reason(type_: Any, default: Any, reason: str) -> None:
    root = parse(type_).root
    assert check_default(root, default) == reason
    with pytest.raises(SchemaError, match="is not valid"):
        default_value(root, default)


def test_float_values_are_those_of_the_column() -> None:
    assert pa.scalar(default_value(parse("float").root, 16_777_217), pa.float32()).as_py() == 16_777_216.0


def test_a_value_shares_nothing_with_the_schema() -> None:
    default: list[Any] = [[1]]
    value = default_value(parse({"type": "array", "items": INTS}).root, default)
    value[0].append(2)
    assert default == [[1]]


def test_a_recursive_default_ends_or_is_invalid() -> None:
    ending = parse(record({"name": "v", "type": "int", "default": 0}, {"name": "next", "type": ["null", "R"]})).root
    assert default_value(ending, {"next": {"v": 1, "next": None}}) == {"v": 0, "next": {"v": 1, "next": None}}
    endless = parse(record({"name": "next", "type": "R", "default": {}})).root
    assert check_default(endless, {}) is not None
    assert "never ends" in str(check_default(endless, {}))
    grown = parse(record({"name": "all", "type": {"type": "array", "items": "R"}, "default": []})).root
    assert default_value(grown, {"all": [{}]}) == {"all": [{"all": []}]}


def test_a_use_of_an_enclosing_type_needs_its_definition() -> None:
    root = parse(record({"name": "next", "type": ["null", "R"], "default": None})).record
    optional = root.fields[0].type
    assert check_default(optional, {"next": None}) == "the type R is not known"
    assert check_default(optional, {"next": None}, names={"R": root}) is None
    assert default_value(optional, {}, names={"R": root}) == {"next": None}


def test_a_default_that_many_branches_might_take_is_judged_in_a_moment() -> None:
    either = record({"name": "x", "type": ["A", "B"]}, name="B")
    root = parse(record({"name": "x", "type": ["A", either]}, name="A")).root
    default: Any = "wrong"
    for _ in range(40):
        default = {"x": default}
    assert check_default(root, default) is not None


@PROPERTY
@given(schemas(tables=True))
def test_each_default_of_a_schema_is_a_value_of_its_column(schema: Schema) -> None:
    for type_ in walk(schema.root):
        for field in type_.fields if isinstance(type_, Record) else ():
            if field.has_default:
                value = default_value(field.type, field.default)
                column = pa.array([value], arrow_type(field.type, strict=False))
                assert column.null_count == (value is None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["A", "abc"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["x", "y", "a"]), below, max_size=2),
    max_leaves=5,
)
TYPES = [parse(type_).root for type_, _, _ in VALID]


@PROPERTY
@given(st.sampled_from(TYPES), JSON)
def test_any_json_is_a_value_of_a_type_or_is_told_why_not(type_: Any, default: Any) -> None:
    reason = check_default(type_, default)
    if reason is None:
        assert pa.array([default_value(type_, default)], arrow_type(type_)).validate() is None
    else:
        assert reason
        assert not isinstance(default, float) or not math.isnan(default) or "nan" not in reason
