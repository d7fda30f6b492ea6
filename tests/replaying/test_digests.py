"""The row digest against an implementation of its definition in plain Python."""

from __future__ import annotations

import hashlib
import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.errors import UnsupportedTable
from lakeevolve.replaying import canonical, digests, words
from lakeevolve.replaying.canonical import normalise, normalise_array, type_text
from lakeevolve.replaying.digests import Sum, row_digests

U64 = 2**64
fixed = settings(derandomize=True, max_examples=40, deadline=None)


# --- the definition, row by row


def number(*label: str) -> int:
    text = "".join(f"{len(part)}:{part}" for part in label)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


M1, M2 = number("mix 1") | 1, number("mix 2") | 1
P, Q = number("powers a") | 1, number("powers b") | 1
R, S = number("second in first") | 1, number("first in second") | 1

Pair = tuple[int, int]


def mix(x: int) -> int:
    x = x * M1 % U64
    return (x ^ x >> 32) * M2 % U64


def fold(x: int) -> int:
    return (x + (x >> 32)) % U64


def plus(one: Pair, two: Pair) -> Pair:
    return (one[0] + two[0]) % U64, (one[1] + two[1]) % U64


def times(pair: Pair, factor: int) -> Pair:
    return pair[0] * factor % U64, pair[1] * factor % U64


def segments(words: list[Pair], length: int) -> Pair:
    a = sum(pow(P, i, U64) * w[0] for i, w in enumerate(words)) + length * number("length a")
    b = sum(pow(Q, i, U64) * w[1] for i, w in enumerate(words)) + length * number("length b")
    return a % U64, b % U64


def pieces(data: bytes) -> list[Pair]:
    """The pairs of bytes."""
    found = []
    for start in range(0, min(len(data), 48), 12):
        piece = data[start : start + 12]
        head, rest = struct.unpack("<QQ", struct.pack("<I12s", len(piece), piece))
        found.append((fold(head), fold(rest)))
    if len(data) > 48:
        words = [mix(w) for (w,) in struct.iter_unpack("<Q", data + b"\0" * (-len(data) % 8))]
        found.append(segments([(w, w) for w in words], len(data)))
    return found


def sums(value: Any, type_: pa.DataType, *path: str) -> Pair:
    """Both sums over the words of one field."""
    if value is None:
        return 0, 0
    t = pa.types
    text = "struct" if t.is_struct(type_) else type_text(type_)
    found = (number("there", text, *path), 0)

    def factor(label: str, place: int) -> int:
        return number(label, str(place), text, *path) | 1

    pairs: list[Pair] = []
    if t.is_struct(type_):
        for f in type_:
            found = plus(found, sums(value[f.name], f.type, *path, f.name))
    elif t.is_list(type_) or t.is_map(type_):
        if t.is_map(type_):
            item = pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])
            items = [digest(sums({"key": k, "value": v}, item, "[]")) for k, v in value]
        else:
            items = [digest(sums(each, type_.value_type, "[]")) for each in value]
        a, b = segments(items, len(items))
        found = plus(found, (a * factor("list", 0), b * factor("list", 1)))
    elif t.is_string(type_):
        pairs = pieces(value.encode())
    elif t.is_binary(type_) or (t.is_fixed_size_binary(type_) and type_.byte_width != 16):
        pairs = pieces(value)
    elif t.is_fixed_size_binary(type_):
        pairs = [struct.unpack("<QQ", value)]
    elif t.is_decimal128(type_):
        pairs = [struct.unpack("<QQ", int(value.scaleb(type_.scale)).to_bytes(16, "little", signed=True))]
    else:
        word = single(value, type_) * factor("word", 0)
        found = plus(found, (0, word) if number("which sum", *path) & 1 else (word, 0))
    for place, pair in enumerate(pairs):
        found = plus(found, times(pair, factor("pair", place if place * 12 < 48 else 4)))
    return found


def digest(both: Pair) -> Pair:
    first, second = both[0] + number("row"), both[1]
    return mix((first + R * second) % U64), mix((second + S * first) % U64)


def single(value: Any, type_: pa.DataType) -> int:
    t = pa.types
    if t.is_floating(type_):
        wide = type_.bit_width == 64
        word = int.from_bytes(struct.pack("<d" if wide else "<f", value), "little")
        return fold(word) if wide else word
    if t.is_timestamp(type_):
        value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return int(value) % U64


def reference(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    found = []
    for row in batch.to_pylist():
        total = (0, 0)
        for f in batch.schema:
            total = plus(total, sums(row[f.name], f.type, f.name))
        found.append(digest(total))
    return found


def pairs(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    words = row_digests(batch)
    return list(zip(words.a.to_pylist(), words.b.to_pylist(), strict=True))


# --- random rows of a wide type

ITEM = pa.struct([pa.field("q", pa.float64()), pa.field("s", pa.string())])
LAYOUT = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("big", pa.int64()),
        pa.field("single", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("four", pa.binary(4)),
        pa.field("sixteen", pa.binary(16)),
        pa.field("forty", pa.binary(40)),
        pa.field("price", pa.decimal128(20, 3)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("lines", pa.list_(ITEM)),
        pa.field("deep", pa.list_(pa.list_(pa.int32()))),
        pa.field("map", pa.map_(pa.string(), ITEM)),
        pa.field("box", pa.struct({"x": pa.int64(), "in": pa.struct({"y": pa.string()})})),
    ]
)


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


item = nullable(st.fixed_dictionaries({"q": nullable(st.floats(allow_nan=False)), "s": nullable(st.text(max_size=20))}))
row = st.fixed_dictionaries(
    {
        "flag": nullable(st.booleans()),
        "small": nullable(st.integers(-(2**31), 2**31 - 1)),
        "big": nullable(st.integers(-(2**63), 2**63 - 1)),
        "single": nullable(st.floats(width=32, allow_nan=False)),
        "double": nullable(st.floats(allow_nan=False)),
        "text": nullable(st.text(max_size=40)),
        "data": nullable(st.one_of(st.binary(max_size=70), st.binary(min_size=40, max_size=200))),
        "four": nullable(st.binary(min_size=4, max_size=4)),
        "sixteen": nullable(st.binary(min_size=16, max_size=16)),
        "forty": nullable(st.binary(min_size=40, max_size=40)),
        "price": nullable(st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3))),
        "at": nullable(st.datetimes(datetime(1000, 1, 1), datetime(3000, 1, 1)).map(lambda d: d.replace(tzinfo=UTC))),
        "lines": nullable(st.lists(item, max_size=3)),
        "deep": nullable(st.lists(nullable(st.lists(nullable(st.integers(0, 9)), max_size=3)), max_size=3)),
        "map": nullable(st.lists(st.tuples(st.text(max_size=9), item), max_size=3)),
        "box": nullable(
            st.fixed_dictionaries(
                {
                    "x": nullable(st.integers(0, 9)),
                    "in": nullable(st.fixed_dictionaries({"y": nullable(st.text(max_size=3))})),
                }
            )
        ),
    }
)
rows = st.lists(row, max_size=8)


def batch_of(values: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(values, schema=LAYOUT)


@fixed
@given(rows)
def test_the_digest_is_what_its_definition_says(values: list[dict[str, Any]]) -> None:
    batch = batch_of(values)
    assert pairs(batch) == reference(batch)


@fixed
@given(rows, st.integers(0, 7), st.integers(1, 4))
def test_slices_and_pieces_change_no_digest(values: list[dict[str, Any]], start: int, piece: int) -> None:
    batch = batch_of(values)
    whole = pairs(batch)
    assert pairs(batch.slice(start)) == whole[start:]
    assert pairs(batch.slice(0, start)) == whole[:start]
    before = digests._ITEMS, words._PART
    digests._ITEMS = words._PART = piece
    try:
        assert pairs(batch) == whole
    finally:
        digests._ITEMS, words._PART = before


@fixed
@given(rows)
def test_representation_changes_no_digest(values: list[dict[str, Any]]) -> None:
    batch = batch_of(values)
    other = {
        "text": pa.large_string(),
        "data": pa.large_binary(),
        "lines": pa.large_list(
            pa.field("element", pa.struct([pa.field("q", pa.float64()), pa.field("s", pa.large_string())]))
        ),
        "at": pa.timestamp("us", "+00:00"),
    }
    columns = {
        name: column.cast(other[name]) if name in other else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    turned = pa.RecordBatch.from_pydict(dict(reversed(columns.items())))
    assert pairs(turned) == pairs(batch)
    assert normalise(turned).select(batch.schema.names).equals(normalise(batch))


@fixed
@given(rows, st.randoms(use_true_random=False))
def test_a_sum_knows_no_order(values: list[dict[str, Any]], random: Any) -> None:
    mixed = list(values)
    random.shuffle(mixed)
    half = len(mixed) // 2
    parts = Sum.of(row_digests(batch_of(mixed[:half]))) + Sum.of(row_digests(batch_of(mixed[half:])))
    assert parts == Sum.of(row_digests(batch_of(values)))


# --- single traps


def one(value: Any, type_: pa.DataType) -> tuple[int, int]:
    return pairs(pa.RecordBatch.from_arrays([pa.array([value], type_)], names=["c"]))[0]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([None, [], [None], [[]], [[None]], [[0]]], pa.list_(pa.list_(pa.int32()))),
        ([None, {"a": None}, {"a": {"b": None}}, {"a": {"b": 0}}], pa.struct({"a": pa.struct({"b": pa.int64()})})),
        ([None, [], [("k", None)], [("k", 0)], [("j", 0)]], pa.map_(pa.string(), pa.int64())),
        ([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int64())),
        ([None, "", "\0", "\0\0", "a", "a\0"], pa.string()),
        ([b"", b"\0" * 8, b"\0" * 16, b"\0" * 15], pa.binary()),
        ([0.0, -0.0, math.inf, -math.inf, None], pa.float64()),
        ([["a", "bc"], ["ab", "c"], ["abc"], ["abc", ""]], pa.list_(pa.string())),
        ([Decimal("1.00"), Decimal("-1.00"), Decimal("0.01"), None], pa.decimal128(9, 2)),
    ],
)
def test_values_that_are_easily_confused_have_digests_of_their_own(values: list[Any], type_: pa.DataType) -> None:
    found = [one(value, type_) for value in values]
    assert len(set(found)) == len(values)


def test_nan_payloads_and_the_sign_of_nan_count() -> None:
    bits = [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001]
    batch = pa.RecordBatch.from_arrays([pa.array(bits, pa.uint64()).view(pa.float64())], names=["c"])
    assert len(set(pairs(batch))) == 4


def test_the_same_number_in_another_type_or_column_is_another_row() -> None:
    found = {one(1, pa.int32()), one(1, pa.int64()), one(1, pa.date32()), one(1, pa.timestamp("us"))}
    found |= {one(1, pa.timestamp("us", "UTC")), one(1, pa.timestamp("ms")), one(1, pa.time64("us"))}
    found.add(pairs(pa.RecordBatch.from_arrays([pa.array([1])], names=["d"]))[0])
    assert len(found) == 8


def test_values_that_change_places_between_columns_or_rows_change_the_sum() -> None:
    straight = pa.record_batch({"a": [1, 2], "b": [3, 4]})
    crossed = pa.record_batch({"a": [1, 2], "b": [4, 3]})
    swapped = pa.record_batch({"a": [3, 4], "b": [1, 2]})
    assert len({Sum.of(row_digests(b)) for b in (straight, crossed, swapped)}) == 3


def test_garbage_under_nulls_is_not_seen() -> None:
    valid = pa.array([True, False, True], pa.bool_()).buffers()[1]
    for type_, junk in ((pa.int64(), [1, 99, 3]), (pa.float64(), [1.5, -7.0, 3.5])):
        clean = pa.array([junk[0], None, junk[2]], type_)
        dirty = pa.Array.from_buffers(type_, 3, [valid, pa.array(junk, type_).buffers()[1]])
        assert pairs(pa.record_batch({"c": dirty})) == pairs(pa.record_batch({"c": clean}))
    texts = pa.array(["a", "hidden", "c"])
    dirty = pa.Array.from_buffers(pa.string(), 3, [valid, *texts.buffers()[1:]])
    assert pairs(pa.record_batch({"c": dirty})) == pairs(pa.record_batch({"c": pa.array(["a", None, "c"])}))
    offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [valid, offsets], children=[pa.array([1, 8, 9, 2])])
    assert pairs(pa.record_batch({"c": lists})) == pairs(pa.record_batch({"c": pa.array([[1], None, [2]])}))
    inner = pa.array([1, 77, 3])
    structs = pa.Array.from_buffers(pa.struct({"x": pa.int64()}), 3, [valid], children=[inner])
    assert pairs(pa.record_batch({"c": structs})) == pairs(pa.record_batch({"c": pa.array([{"x": 1}, None, {"x": 3}])}))


def test_a_missing_column_is_a_column_of_nulls_of_any_type() -> None:
    typed = pa.record_batch({"a": [1], "b": pa.array([None], pa.string())})
    untyped = pa.record_batch({"a": [1], "b": pa.nulls(1)})
    assert pairs(typed) == pairs(untyped)


NESTED = (
    pa.array([[b"a" * 16], None, [], [None]], pa.list_(pa.binary(16))),
    pa.array([{"u": b"a" * 16}, None, {"u": None}], pa.struct({"u": pa.binary(16)})),
    pa.array([[("k", b"a" * 16)], None, []], pa.map_(pa.string(), pa.binary(16))),
)


@pytest.mark.parametrize(
    ("array", "plain"),
    [
        (pa.array(["x", None, "x"]).dictionary_encode(), pa.array(["x", None, "x"])),
        (pa.array(["x", None], pa.string_view()), pa.array(["x", None])),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), pa.array([[1, 2], None], pa.list_(pa.int64()))),
        (pa.array([[1], None, []], pa.list_view(pa.int64())), pa.array([[1], None, []], pa.list_(pa.int64()))),
        (pa.array([{"v": [1]}, None], pa.struct({"v": pa.list_view(pa.int64())})), pa.array([{"v": [1]}, None])),
        (pa.array([b"a" * 16, None], pa.uuid()), pa.array([b"a" * 16, None], pa.binary(16))),
        (NESTED[0].cast(pa.list_(pa.uuid())), NESTED[0]),
        (NESTED[1].cast(pa.struct({"u": pa.uuid()})), NESTED[1]),
        (NESTED[2].cast(pa.map_(pa.string(), pa.uuid())), NESTED[2]),
    ],
)
def test_wrappers_are_taken_off_at_every_depth(array: pa.Array, plain: pa.Array) -> None:
    assert normalise_array(array).equals(plain)
    assert normalise_array(array.slice(1)).equals(plain.slice(1))
    assert pairs(pa.record_batch({"c": array.slice(1)})) == pairs(pa.record_batch({"c": plain}))[1:]


def test_what_cannot_be_compared_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(UnsupportedTable):
        canonical.normal_type(union.type)


def test_the_digests_of_these_rows_stay_what_they_are() -> None:
    """Both sides of a comparison may be digested on machines of their own."""
    batch = batch_of(
        [
            {
                "flag": True,
                "small": -1,
                "big": 2**40,
                "single": 1.5,
                "double": -0.0,
                "text": "grün, 12 bytes and more",
                "data": b"\0\xff" * 30,
                "four": b"abcd",
                "sixteen": bytes(range(16)),
                "forty": bytes(range(40)),
                "price": Decimal("-12.345"),
                "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
                "lines": [{"q": 1.0, "s": "a"}, None, {"q": None, "s": ""}],
                "deep": [[1, None], None, []],
                "map": [("k", {"q": 2.0, "s": None}), ("j", None)],
                "box": {"x": 1, "in": {"y": None}},
            },
            dict.fromkeys(LAYOUT.names),
        ]
    )
    assert [f"{a:016x}{b:016x}" for a, b in pairs(batch)] == [
        "f81e82d5b83557dfebedf740303f7a31",
        "a09354280b42550718269756f0a73f31",
    ]
    assert Sum.of(row_digests(batch)) == Sum(2, 0x98B1D6FDC377ACE6, 0x04148E9720E6B962)
