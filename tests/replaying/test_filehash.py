"""The digest of a file's rows: what counts, what does not, and an implementation of its definition in plain Python."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.replaying import filehash
from lakeevolve.replaying.filehash import FileHash

fixed = settings(derandomize=True, max_examples=40, deadline=None)

ITEM = pa.struct([pa.field("q", pa.float64()), pa.field("s", pa.string())])
LAYOUT = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("big", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("sixteen", pa.binary(16)),
        pa.field("lines", pa.list_(ITEM)),
        pa.field("deep", pa.list_(pa.list_(pa.int32()))),
        pa.field("map", pa.map_(pa.string(), ITEM)),
        pa.field("box", pa.struct({"x": pa.int64(), "in": pa.struct({"y": pa.string()})})),
    ]
)


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


item = nullable(st.fixed_dictionaries({"q": nullable(st.floats(allow_nan=False)), "s": nullable(st.text(max_size=5))}))
row = st.fixed_dictionaries(
    {
        "flag": nullable(st.booleans()),
        "small": nullable(st.integers(-(2**31), 2**31 - 1)),
        "big": nullable(st.integers(-(2**63), 2**63 - 1)),
        "text": nullable(st.text(max_size=9)),
        "data": nullable(st.one_of(st.binary(max_size=9), st.binary(min_size=250, max_size=260))),
        "sixteen": nullable(st.binary(min_size=16, max_size=16)),
        "lines": nullable(st.lists(item, max_size=3)),
        "deep": nullable(st.lists(nullable(st.lists(nullable(st.integers(0, 9)), max_size=3)), max_size=3)),
        "map": nullable(st.lists(st.tuples(st.text(max_size=9), item), max_size=3)),
        "box": nullable(
            st.fixed_dictionaries(
                {"x": nullable(st.integers(0, 9)), "in": nullable(st.fixed_dictionaries({"y": nullable(st.text())}))}
            )
        ),
    }
)
rows = st.lists(row, max_size=8)


def batch_of(values: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(values, schema=LAYOUT)


def digest(*batches: pa.RecordBatch) -> str:
    found = FileHash()
    for batch in batches:
        found.update(batch)
    return found.hex


# --- the definition, value by value


def reference(values: list[Any], type_: pa.DataType) -> dict[str, Any]:
    t = pa.types
    there = [value for value in values if value is not None]
    streams = {"nulls": b"".join(struct.pack("<q", i) for i, value in enumerate(values) if value is None)}
    found: dict[str, Any] = {}
    if t.is_struct(type_):
        fields = {f.name: ([None if v is None else v[f.name] for v in values], f.type) for f in type_}
        found = {"type": "record", "fields": of_fields(fields)}
    elif t.is_list(type_) or t.is_map(type_):
        streams |= lengths([len(value) for value in there])
        items, kind = [each for value in there for each in value], type_.value_type if t.is_list(type_) else None
        if kind is None:
            kind = pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])
            items = [{"key": key, "value": value} for key, value in items]
        found = {"type": "map" if t.is_map(type_) else "list", "fields": of_fields({"[]": (items, kind)})}
    elif t.is_string(type_) or t.is_binary(type_):
        content = [value.encode() if isinstance(value, str) else value for value in there]
        streams |= {"values": b"".join(content), **lengths([len(value) for value in content])}
        found = {"type": "string" if t.is_string(type_) else "binary"}
    else:
        form, name = {
            pa.bool_(): ("<?", "boolean"),
            pa.int32(): ("<i", "int32"),
            pa.int64(): ("<q", "int64"),
            pa.float64(): ("<d", "double"),
            pa.binary(16): ("16s", "fixed(16)"),
        }[type_]
        streams["values"] = b"".join(struct.pack(form, value) for value in there)
        found = {"type": name}
    return {**found, **{name: hashlib.sha256(data).hexdigest() for name, data in streams.items() if data}}


def lengths(found: list[int]) -> dict[str, bytes]:
    long = b"".join(struct.pack("<i", each) for each in found if each >= 255)
    return {"lengths": bytes(min(each, 255) for each in found), "more": long}


def of_fields(fields: dict[str, tuple[list[Any], pa.DataType]]) -> dict[str, Any]:
    return {
        name: reference(values, type_)
        for name, (values, type_) in fields.items()
        if any(value is not None for value in values)
    }


@fixed
@given(rows)
def test_the_digest_is_what_its_definition_says(values: list[dict[str, Any]]) -> None:
    fields = of_fields({f.name: ([each[f.name] for each in values], f.type) for f in LAYOUT})
    text = json.dumps({"rows": len(values), "fields": fields}, sort_keys=True, separators=(",", ":"))
    assert digest(batch_of(values)) == hashlib.sha256(text.encode()).hexdigest()


# --- what does not count


@fixed
@given(rows, st.lists(st.integers(1, 4), min_size=8, max_size=8))
def test_how_rows_are_cut_into_batches_does_not_count(values: list[dict[str, Any]], sizes: list[int]) -> None:
    batch = batch_of(values)
    at_once = filehash._AT_ONCE
    filehash._AT_ONCE = 2
    try:
        assert digest(*cut(batch, sizes)) == digest(batch)
        assert digest(*(batch_of(part.to_pylist()) for part in cut(batch, sizes))) == digest(batch)
    finally:
        filehash._AT_ONCE = at_once


def cut(batch: pa.RecordBatch, sizes: list[int]) -> Iterator[pa.RecordBatch]:
    start = 0
    for size in sizes:
        yield batch.slice(start, size)
        start += size


@fixed
@given(rows)
def test_representation_and_the_order_of_columns_do_not_count(values: list[dict[str, Any]]) -> None:
    batch = batch_of(values)
    other = {"text": pa.large_string(), "data": pa.large_binary(), "deep": pa.large_list(pa.list_(pa.int32()))}
    columns = {
        name: column.cast(other[name]) if name in other else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    assert digest(pa.RecordBatch.from_pydict(dict(reversed(columns.items())))) == digest(batch)


def test_a_column_without_a_value_is_a_missing_column() -> None:
    plain = pa.record_batch({"a": [1, 2]})
    assert digest(plain.append_column("b", pa.nulls(2))) == digest(plain)
    assert digest(plain.append_column("b", pa.nulls(2, pa.string()))) == digest(plain)
    assert digest(plain.append_column("b", pa.array([None, ""]))) != digest(plain)


def test_garbage_under_nulls_does_not_count() -> None:
    valid = pa.array([True, False, True]).buffers()[1]
    for type_, junk in ((pa.int64(), [1, 99, 3]), (pa.float64(), [1.5, -7.0, 3.5])):
        dirty = pa.Array.from_buffers(type_, 3, [valid, pa.array(junk, type_).buffers()[1]])
        clean = pa.array([junk[0], None, junk[2]], type_)
        assert digest(pa.record_batch({"c": dirty})) == digest(pa.record_batch({"c": clean}))
    dirty = pa.Array.from_buffers(pa.string(), 3, [valid, *pa.array(["a", "hidden", "c"]).buffers()[1:]])
    assert digest(pa.record_batch({"c": dirty})) == digest(pa.record_batch({"c": pa.array(["a", None, "c"])}))
    offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
    dirty = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [valid, offsets], children=[pa.array([1, 8, 9, 2])])
    assert digest(pa.record_batch({"c": dirty})) == digest(pa.record_batch({"c": pa.array([[1], None, [2]])}))
    dirty = pa.Array.from_buffers(pa.struct({"x": pa.int64()}), 3, [valid], children=[pa.array([1, 77, 3])])
    clean = pa.array([{"x": 1}, None, {"x": 3}])
    assert digest(pa.record_batch({"c": dirty})) == digest(pa.record_batch({"c": clean}))


# --- what counts


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([[1, 2], [2, 1]], pa.int64()),
        ([[None, 1], [1, None], [1, 0]], pa.int64()),
        ([[0.0], [-0.0], [None]], pa.float64()),
        ([["ab", "c"], ["a", "bc"], ["abc", ""], ["abc", None], [None, "abc"]], pa.string()),
        ([[[1], [2]], [[1, 2], []], [[1, 2], None], [[], [1, 2]]], pa.list_(pa.int64())),
        ([[None], [{"x": None}], [{"x": 0}]], pa.struct({"x": pa.int64()})),
        ([["a" * 254], ["a" * 255], ["a" * 256]], pa.string()),
    ],
)
def test_values_that_are_easily_confused_have_digests_of_their_own(values: list[Any], type_: pa.DataType) -> None:
    found = {digest(pa.RecordBatch.from_arrays([pa.array(value, type_)], names=["c"])) for value in values}
    assert len(found) == len(values)


def test_names_and_types_count() -> None:
    found = {digest(pa.record_batch({"c": pa.array([1], type_)})) for type_ in (pa.int32(), pa.int64(), pa.uint64())}
    found.add(digest(pa.record_batch({"d": [1]})))
    found.add(digest(pa.record_batch({"c": pa.array([1], pa.timestamp("us"))})))
    found.add(digest(pa.record_batch({"c": pa.array([1], pa.timestamp("us", "UTC"))})))
    assert len(found) == 6


def test_the_digest_of_these_rows_stays_what_it_is() -> None:
    """Evidence outlives releases: a change here needs a new name in ``evidence.DIGEST``."""
    values = [
        {
            "flag": True,
            "small": -1,
            "big": 2**40,
            "text": "grün",
            "data": b"\0\xff" * 200,
            "sixteen": bytes(range(16)),
            "lines": [{"q": 1.0, "s": "a"}, None, {"q": None, "s": ""}],
            "deep": [[1, None], None, []],
            "map": [("k", {"q": -0.0, "s": None}), ("j", None)],
            "box": {"x": 1, "in": {"y": None}},
        },
        dict.fromkeys(LAYOUT.names),
    ]
    assert digest(batch_of(values)) == "d0d583c42e576ff661f7484e67806de2814f70b05a5c52a2ccf52dc24338f725"
