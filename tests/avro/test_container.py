"""Object container files: every type and codec, resolution while reading, bounded memory, damage."""

from __future__ import annotations

import binascii
import bz2
import datetime as dt
import gc
import io
import json
import logging
import lzma
import random
import tracemalloc
import uuid
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.container import fast, read_avro, read_header
from lakeevolve.avro.parse import parse
from lakeevolve.errors import ResolutionError, SchemaError, SourceError, SourceNotFound, ValueMismatch

UTC = dt.UTC
SYNC = bytes(range(16))


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields]}


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def block(data: bytes, count: int, sync: bytes = SYNC) -> bytes:
    return long(count) + long(len(data)) + data + sync


def header(schema: Any, **more: bytes) -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = {"avro.schema": text, **{f"avro.{key}": value for key, value in more.items()}}
    body = b"".join(long(len(key)) + key.encode() + long(len(value)) + value for key, value in pairs.items())
    return b"Obj\x01" + long(len(pairs)) + body + b"\0" + SYNC


@pytest.fixture(params=["polars-avro", "fastavro"], autouse=True)
def decoder(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[str]:
    """Which of the two decodes, where both can."""
    if request.param == "fastavro":
        monkeypatch.setattr(fast, "_problem", lambda: "the test says so")
    else:
        pytest.importorskip("polars_avro", reason="the extra lakeevolve[fast] is not installed")
    yield str(request.param)
    given_up = [entry.getMessage() for entry in caplog.get_records("call") if entry.levelno >= logging.WARNING]
    assert given_up == [], "polars-avro was to decode what it could not"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data.avro"


def write(file: Path, schema: Any, records: list[Any], **how: Any) -> None:
    with file.open("wb") as out:
        fastavro.writer(out, schema, records, **how)


def read(file: Path, reader: Any = None, **how: Any) -> list[Any]:
    table = read_avro(file, None if reader is None else parse(reader), **how).read_all()
    table.validate(full=True)
    schema = read_header(file).schema if reader is None else parse(reader)
    assert table.schema == arrow_schema(schema)
    rows: list[Any] = table.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("type_", "written", "expected"),
    [
        ("boolean", [True, False], None),
        ("int", [0, -1, 2**31 - 1, -(2**31)], None),
        ("long", [0, -1, 2**63 - 1, -(2**63)], None),
        ("float", [0.5, float("-inf")], None),
        ("double", [0.1, 1e300], None),
        ("bytes", [b"", b"\xff\x00"], None),
        ("string", ["", "é\0日"], None),
        (["null", "int"], [None, 1], None),
        (["string", "null"], [None, "a"], None),
        ({"type": "fixed", "name": "F", "size": 2}, [b"ab"], None),
        (
            {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"},
            [uuid.UUID(int=5).bytes],
            None,
        ),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, [bytes(range(12))], None),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["B", "A"], None),
        ({"type": "array", "items": ["null", "int"]}, [[], [1, None]], None),
        ({"type": "map", "values": "int"}, [{}, {"b": 1, "a": 2}], [[], [("b", 1), ("a", 2)]]),
        (
            logical("bytes", "decimal", precision=20, scale=2),
            [Decimal("-0.01"), Decimal("999999999999999999.99")],
            None,
        ),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2},
            [Decimal("-0.01"), Decimal("9999.99")],
            None,
        ),
        (logical("int", "date"), [dt.date(1969, 12, 31), dt.date(9999, 12, 31)], None),
        (logical("int", "time-millis"), [dt.time(23, 59, 59, 999_000)], None),
        (logical("long", "time-micros"), [dt.time(23, 59, 59, 999_999)], None),
        (logical("long", "timestamp-millis"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)], None),
        (logical("long", "timestamp-micros"), [dt.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)], None),
        (logical("long", "local-timestamp-millis"), [dt.datetime(2024, 1, 1, 0, 0, 0, 1000)], None),
        (logical("long", "local-timestamp-micros"), [dt.datetime(2024, 1, 1, 0, 0, 0, 1)], None),
        (logical("string", "uuid"), [uuid.UUID(int=5)], [str(uuid.UUID(int=5))]),
        (logical("string", "no such type"), ["a"], None),
        (
            ["null", "int", "long", "float", {"type": "enum", "name": "E", "symbols": ["A"]}, "string"],
            [None, 1, 2**40, ("E", "A"), "s"],
            [
                None,
                {"int": 1, "long": None, "float": None, "E": None, "string": None},
                {"int": None, "long": 2**40, "float": None, "E": None, "string": None},
                {"int": None, "long": None, "float": None, "E": "A", "string": None},
                {"int": None, "long": None, "float": None, "E": None, "string": "s"},
            ],
        ),
        (["int"], [1], [{"int": 1}]),
        (
            record(("x", ["null", record(("y", "int"), name="Inner")]), name="Outer"),
            [{"x": None}, {"x": {"y": 1}}],
            None,
        ),
        (record(name="Empty"), [{}, {}], None),
    ],
)
def test_each_type_is_read(file: Path, type_: Any, written: list[Any], expected: list[Any] | None) -> None:
    write(file, record(("value", type_)), [{"value": value} for value in written])
    assert [row["value"] for row in read(file)] == (written if expected is None else expected)
    nested = {"type": "array", "items": type_}
    write(file, record(("value", nested)), [{"value": []}, {"value": written}])
    assert [row["value"] for row in read(file)] == [[], written if expected is None else expected]


def test_nanoseconds_and_far_years_are_read_exactly(file: Path) -> None:
    schema = record(("n", logical("long", "timestamp-nanos")), ("m", logical("long", "timestamp-micros")))
    far = 2**62 + 1
    file.write_bytes(header(schema) + block(long(far) + long(-far), 1))
    table = read_avro(file).read_all()
    assert [table[name].cast(pa.int64()).to_pylist() for name in ("n", "m")] == [[far], [-far]]


def test_union_branches_that_python_cannot_tell_apart_are_told_apart(file: Path) -> None:
    schema = record(("value", ["int", "long", "double", "float", "string", "bytes"]))
    encoded = [
        long(0) + long(5),
        long(2) + bytes(8),
        long(1) + long(5),
        long(3) + bytes(4),
        long(5) + long(0),
        long(4) + long(0),
    ]
    file.write_bytes(header(schema) + block(b"".join(encoded), len(encoded)))
    branches = [next(key for key, value in row["value"].items() if value is not None) for row in read(file)]
    assert branches == ["int", "double", "long", "float", "bytes", "string"]


def test_of_a_key_that_a_map_repeats_the_last_value_counts(file: Path) -> None:
    def pairs(*keys: str) -> bytes:
        return (
            (long(len(keys)) if keys else b"")
            + b"".join(long(len(k)) + k.encode() + long(at) for at, k in enumerate(keys))
            + b"\0"
        )

    given = [("a", "b", "a"), (), ("b",), ("a", "c", "c", "c", "a"), ("x", "b")]
    schema = record(
        ("value", {"type": "map", "values": "int"}),
        ("deep", {"type": "array", "items": {"type": "map", "values": "int"}}),
    )
    rows = [pairs(*keys) + long(2) + pairs("k") + pairs(*keys) + b"\0" for keys in given]
    file.write_bytes(header(schema) + block(b"".join(rows), len(rows)))
    expected: list[list[tuple[str, int]]] = [
        [("b", 1), ("a", 2)],
        [],
        [("b", 0)],
        [("c", 3), ("a", 4)],
        [("x", 0), ("b", 1)],
    ]
    assert read(file) == [{"value": one, "deep": [[("k", 0)], one]} for one in expected]
    with file.open("rb") as stream:
        assert [row["value"] for row in fastavro.reader(stream)] == [dict(one) for one in expected]


def test_maps_in_nullable_fields_and_branches_lose_repeated_keys_too(file: Path) -> None:
    maps = {"type": "map", "values": ["null", "string"]}
    schema = record(("o", ["null", maps]), ("u", ["null", "int", maps]))
    twice = long(2) + b"\x02k\x02\x02a" + b"\x02k\x00" + b"\0"
    rows = [long(0) + long(0), long(1) + twice + long(2) + twice, long(0) + long(1) + long(5)]
    file.write_bytes(header(schema) + block(b"".join(rows), 3))
    assert read(file) == [
        {"o": None, "u": None},
        {"o": [("k", None)], "u": {"int": None, "map": [("k", None)]}},
        {"o": None, "u": {"int": 5, "map": None}},
    ]


def test_a_named_type_may_be_used_again(file: Path) -> None:
    point = record(("x", "int"), ("tag", {"type": "fixed", "name": "Tag", "size": 1}), name="geo.Point")
    schema = record(("a", point), ("b", ["null", "geo.Point"]), ("c", {"type": "array", "items": "geo.Tag"}))
    rows = [{"a": {"x": 1, "tag": b"t"}, "b": {"x": 2, "tag": b"u"}, "c": [b"v"]}]
    write(file, schema, rows)
    assert read(file) == rows


def test_a_list_in_the_header_is_a_union(file: Path) -> None:
    inner = record(("x", "int"), name="Inner")
    outer = record(("i", "Inner"), name="Outer")
    write(file, [inner, outer], [("Outer", {"i": {"x": 1}})])
    assert [type(branch).__name__ for branch in read_header(file).schema.root.branches] == ["Record", "Record"]  # type: ignore[union-attr]
    with pytest.raises(SchemaError, match="not a record"):
        read_avro(file)


def test_a_union_at_the_root_is_read_as_the_record_that_it_holds(file: Path) -> None:
    write(file, [record(("x", "int"))], [{"x": 1}, {"x": 2}])
    assert read(file, record(("x", "long"))) == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_each_codec_is_read_in_batches_across_blocks(file: Path, codec: str) -> None:
    rows = [{"id": n, "text": "x" * (n % 50)} for n in range(1000)]
    write(file, record(("id", "int"), ("text", "string")), rows, codec=codec, sync_interval=500)
    assert read(file) == rows
    sizes = [batch.num_rows for batch in read_avro(file, batch_size=300)]
    assert sizes == [300, 300, 300, 100]
    assert [batch.num_rows for batch in read_avro(file, batch_size=1)] == [1] * 1000


def snappy(data: bytes) -> bytes:
    """The simplest snappy encoding: one literal."""
    assert len(data) <= 60
    return bytes([len(data), (len(data) - 1) << 2]) + data + binascii.crc32(data).to_bytes(4, "big")


def test_a_snappy_block_is_held_against_its_checksum(file: Path) -> None:
    start = header(record(("id", "int")), codec=b"snappy")
    good = snappy(long(1) + long(2))
    file.write_bytes(start + block(good, 2))
    assert read(file) == [{"id": 1}, {"id": 2}]
    file.write_bytes(start + block(good[:-5] + long(3) + good[-4:], 2))
    with pytest.raises(SourceError, match="damaged"):
        read(file)


@pytest.mark.parametrize(("codec", "name"), [("snappy", "snappy"), ("zstandard", "zstd"), ("lz4", "lz4_raw")])
def test_a_codec_that_python_has_not_is_read(file: Path, codec: str, name: str) -> None:
    rows = [b"".join(long(n + i) for n in range(500)) for i in range(3)]
    packed = [pa.compress(row, codec=name, asbytes=True) for row in rows]
    if codec == "snappy":
        packed = [data + binascii.crc32(row).to_bytes(4, "big") for data, row in zip(packed, rows, strict=True)]
    elif codec == "lz4":
        packed = [len(row).to_bytes(4, "little") + data for data, row in zip(packed, rows, strict=True)]
    blocks = b"".join(block(data, 500) for data in packed)
    file.write_bytes(header(record(("id", "long")), codec=codec.encode()) + blocks)
    assert read(file) == [{"id": n + i} for i in range(3) for n in range(500)]
    file.write_bytes(header(record(("id", "long")), codec=codec.encode()) + block(packed[0][:40], 500))
    with pytest.raises(SourceError, match="damaged"):
        read(file)


def test_rows_are_resolved_to_the_reader(file: Path) -> None:
    writer = record(("id", "int"), ("name", "string"), ("state", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    write(file, writer, [{"id": 1, "name": "a", "state": "B"}, {"id": 2, "name": "b", "state": "A"}])
    reader = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "state", "type": {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}},
            {"name": "added", "type": ["null", "int"], "default": None},
            {"name": "key", "type": "double", "aliases": ["id"]},
        ],
    }
    assert read(file, reader) == [{"state": "A", "added": None, "key": 1.0}, {"state": "A", "added": None, "key": 2.0}]


def test_what_the_reader_leaves_out_needs_no_table_form(file: Path) -> None:
    tree = record(("value", "int"), ("below", {"type": "array", "items": "Tree"}), name="Tree")
    item = record(("x", "int"), ("void", "null"), ("tree", "Tree"), name="Item")
    writer = record(
        ("tree", tree), ("items", {"type": "array", "items": item}), ("maybe", ["null", "Item"]), ("u", ["int", "Item"])
    )
    leaf = {"value": 1, "below": [{"value": 2, "below": []}]}
    one = {"x": 5, "void": None, "tree": leaf}
    write(file, writer, [{"tree": leaf, "items": [one, one], "maybe": one, "u": one}])
    with pytest.raises(SchemaError, match="contains itself"):
        read_avro(file)
    short = record(("x", "long"), name="Item")
    reader = record(("u", ["int", short]), ("maybe", ["null", "Item"]), ("items", {"type": "array", "items": "Item"}))
    assert read(file, reader) == [
        {"u": {"int": None, "Item": {"x": 5}}, "maybe": {"x": 5}, "items": [{"x": 5}, {"x": 5}]}
    ]
    assert read(file, record(), batch_size=1) == [{}]


def test_an_incompatible_reader_is_refused_before_any_row_is_read(file: Path) -> None:
    write(file, record(("id", "string")), [{"id": "a"}])
    with pytest.raises(ResolutionError, match="TYPE_MISMATCH"):
        read_avro(file, parse(record(("id", "int"))))


def test_a_value_that_cannot_be_read_names_its_row_in_the_file(file: Path) -> None:
    write(file, record(("id", "bytes")), [{"id": b"a"}] * 250 + [{"id": b"\xff"}], sync_interval=100)
    stream = read_avro(file, parse(record(("id", "string"))), batch_size=100)
    assert stream.read_next_batch().num_rows == 100
    assert stream.read_next_batch().num_rows == 100
    with pytest.raises(ValueMismatch) as caught:
        stream.read_next_batch()
    assert (caught.value.row, caught.value.path) == (250, "id")


@pytest.mark.parametrize(
    ("type_", "encoded", "what"),
    [
        ("string", long(1) + b"\xff", "not UTF-8"),
        ("int", long(2**31), "more than 32 bits"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1), "no symbol"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(-1), "no symbol"),
        ("boolean", b"\x07", "no boolean"),
        (["null", "boolean"], long(1) + b"\x80", "no boolean"),
        (logical("bytes", "decimal", precision=2), long(2) + b"\x7f\xff", "more digits"),
        (logical("long", "timestamp-millis"), long(2**60), "64 bits"),
        (logical("int", "time-millis"), long(86_400_000), "time of a day"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_named_by_row_and_path(
    file: Path, type_: Any, encoded: bytes, what: str
) -> None:
    schema = record(("value", {"type": "array", "items": type_}))
    rows = [b"\0", b"\0", long(1) + encoded + b"\0"]
    file.write_bytes(header(schema) + block(b"".join(rows), 3))
    with pytest.raises(SourceError, match=what) as caught:
        read(file)
    assert caught.value.where == f"{file}, row 2, value[]"


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "snappy": lambda data: pa.compress(data, codec="snappy", asbytes=True) + binascii.crc32(data).to_bytes(4, "big"),
    "lz4": lambda data: len(data).to_bytes(4, "little") + pa.compress(data, codec="lz4_raw", asbytes=True),
}


@pytest.mark.parametrize("codec", PACKED)
def test_a_block_that_unpacks_to_more_than_a_block_may_hold_is_refused_before_it_does(
    file: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeevolve.avro.container.blocks.LARGEST", 5_000_000)
    start = header(record(("id", "long"), ("data", "bytes")), codec=codec.encode())

    def one(size: int) -> bytes:
        return block(PACKED[codec](b"\x02" + long(size) + bytes(size)), 1)

    file.write_bytes(start + one(4_900_000) + one(10))
    assert [len(row["data"]) for row in read(file)] == [4_900_000, 10]
    file.write_bytes(start + one(10) + one(20_000_000))
    tracemalloc.start()
    with pytest.raises(SourceError, match="block 2"):
        read(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000


@pytest.mark.parametrize(("codec", "pack"), [("bzip2", bz2.compress), ("xz", lzma.compress)])
def test_packed_streams_may_follow_each_other_and_have_to_end(
    file: Path, codec: str, pack: Callable[[bytes], bytes]
) -> None:
    start = header(record(("id", "long")), codec=codec.encode())
    file.write_bytes(start + block(pack(long(1)) + pack(long(2)) + b"more" * 10, 2))
    assert read(file) == [{"id": 1}, {"id": 2}]
    file.write_bytes(start + block(pack(long(1)) + pack(long(2))[:-6], 2))
    with pytest.raises(SourceError, match="block 1"):
        read(file)


def test_a_deflated_block_has_to_end(file: Path) -> None:
    start = header(record(("id", "long")), codec=b"deflate")
    rows = b"".join(long(n % 7) for n in range(500))
    packing = zlib.compressobj(wbits=-15)
    unended = packing.compress(rows) + packing.flush(zlib.Z_SYNC_FLUSH)
    file.write_bytes(start + block(unended + packing.flush() + b"tail", 500))
    assert len(read(file)) == 500
    file.write_bytes(start + block(unended, 500))
    with pytest.raises(SourceError, match="block 1"):
        read(file)


@pytest.mark.parametrize("size", [1, 100, 70_000, 262_143, 262_144, 262_145, 600_000])
def test_blocks_of_any_size_follow_each_other(file: Path, size: int) -> None:
    one = block(long(size) + bytes(size), 1)
    count = 5000 if size < 1000 else 5
    file.write_bytes(header(record(("data", "bytes"))) + one * count)
    lengths = [len(row["data"]) for row in read(file)]
    assert lengths == [size] * count
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(SourceError) as caught:
        read(file)
    assert caught.value.where == f"{file}, block {count}"


def test_a_header_that_is_nested_without_end_is_refused(file: Path) -> None:
    file.write_bytes(header(b"[" * 200_000))
    with pytest.raises(SchemaError, match="nested too deep") as caught:
        read(file)
    assert caught.value.where == str(file)


def test_large_rows_make_shorter_batches(file: Path) -> None:
    write(file, record(("blob", "bytes")), [{"blob": bytes(1 << 20)} for _ in range(70)], codec="deflate")
    batches = [batch.num_rows for batch in read_avro(file)]
    assert sum(batches) == 70
    assert max(batches) < 40


def test_many_rows_of_no_bytes_come_in_batches(file: Path) -> None:
    file.write_bytes(header(record()) + block(b"", 200_000))
    assert [batch.num_rows for batch in read_avro(file)] == [65_536, 65_536, 65_536, 3_392]


def test_a_file_without_rows_has_a_schema(file: Path) -> None:
    write(file, record(("id", "int")), [])
    assert read(file) == []
    file.write_bytes(header(record(("id", "int"))) + block(b"", 0) + block(long(5), 1))
    assert read(file) == [{"id": 5}]


def test_the_header_is_told(file: Path) -> None:
    write(file, record(("id", "int")), [], codec="deflate", metadata={"made.by": "a test"})
    told = read_header(file)
    assert told.codec == "deflate"
    assert told.metadata["made.by"] == b"a test"
    assert told.schema == parse(record(("id", "int")))
    assert told.schema.source == str(file)


def test_a_header_may_be_written_in_sized_blocks_and_name_no_codec(file: Path) -> None:
    text = json.dumps(record(("id", "int"))).encode()
    pair = long(11) + b"avro.schema" + long(len(text)) + text
    sized = long(-1) + long(len(pair)) + pair
    file.write_bytes(b"Obj\x01" + sized + b"\0" + SYNC + block(long(5), 1))
    assert read(file) == [{"id": 5}]


def test_names_that_are_no_avro_names_are_read(file: Path) -> None:
    odd = record(("order-id", "int"), ("größe", ["int", "string"]))
    file.write_bytes(header(odd) + block(long(5) + long(0) + long(1), 1))
    assert read_avro(file).read_all().to_pylist() == [{"order-id": 5, "größe": {"int": 1, "string": None}}]


# Damage


@pytest.fixture
def sound(file: Path) -> tuple[Path, bytes, list[int]]:
    """A file of three blocks, its bytes, and the places where a block ends."""
    schema = record(("id", "long"), ("name", "string"), ("maybe", ["null", "double"]))
    rows = [{"id": n, "name": f"name {n}", "maybe": n / 3 if n % 2 else None} for n in range(12)]
    write(file, schema, rows, sync_interval=60, sync_marker=SYNC)
    data = file.read_bytes()
    ends = [at + 16 for at in range(len(data)) if data[at : at + 16] == SYNC]
    assert len(ends) > 3
    return file, data, ends


def test_a_file_cut_off_anywhere_is_an_error_unless_a_block_ends_there(sound: tuple[Path, bytes, list[int]]) -> None:
    file, data, ends = sound
    for size in range(len(data)):
        file.write_bytes(data[:size])
        if size in ends:
            assert len(read(file)) < 12
            continue
        with pytest.raises(SourceError) as caught:
            read(file)
        assert str(file) in str(caught.value.where)
        if size > ends[0]:
            number = sum(end <= size for end in ends)
            assert caught.value.where == f"{file}, block {number}"


def test_damage_is_an_error_or_changes_values_alone(sound: tuple[Path, bytes, list[int]]) -> None:
    file, data, ends = sound
    dice = random.Random(5)
    errors = 0
    for _ in range(400):
        spoiled = bytearray(data)
        spoiled[dice.randrange(ends[0], len(data))] ^= 1 << dice.randrange(8)
        file.write_bytes(spoiled)
        try:
            rows = len(read(file))
        except SourceError:
            errors += 1
        else:
            assert rows == 12
    assert errors > 100


def test_the_batches_before_the_damage_are_given_and_then_the_error(sound: tuple[Path, bytes, list[int]]) -> None:
    file, data, ends = sound
    file.write_bytes(data[: ends[2]] + b"\x02\x04")
    stream = read_avro(file, batch_size=1)
    for _ in range(2):
        stream.read_next_batch()
    with pytest.raises(SourceError, match="cut off or damaged"):
        stream.read_all()


@pytest.mark.parametrize(
    ("tail", "number"),
    [
        (block(long(1) + long(2), 1), 1),
        (block(long(1), 2), 1),
        (block(long(1), -1), 1),
        (block(long(1), 1, bytes(16)), 1),
        (block(long(1), 1) + b"\x80", 2),
        (block(long(1), 1) + long(1), 2),
        (block(long(1), 1) + bytes(3), 2),
        (long(1) + long(-5), 1),
        (long(1) + long(2**62), 1),
        (block(b"\xff" * 11, 1), 1),
        (block(b"\x80" * 9 + b"\x02", 1), 1),
        (b"\x82" + b"\x80" * 8 + b"\x02" + block(long(1), 1)[1:], 1),
    ],
)
def test_blocks_that_contradict_themselves_are_damage(file: Path, tail: bytes, number: int) -> None:
    file.write_bytes(header(record(("id", "long"))) + tail)
    with pytest.raises(SourceError, match="cut off or damaged") as caught:
        read(file)
    assert caught.value.where == f"{file}, block {number}"


@pytest.mark.parametrize(
    ("data", "error", "what"),
    [
        (b"", SourceError, "not an Avro object container file"),
        (b"PAR1", SourceError, "not an Avro object container file"),
        (b"Obj\x01", SourceError, "header is cut off"),
        (b"Obj\x01\x00" + SYNC, SourceError, "holds no schema"),
        (b"Obj\x01" + b"\xff" * 12, SourceError, "header is damaged"),
        (b"Obj\x01" + b"\x82" + b"\x80" * 8 + b"\x02", SourceError, "header is damaged"),
        (b"Obj\x01" + long(1) + long(2**40), SourceError, "header is cut off or damaged"),
        (header(b"{"), SourceError, "not JSON"),
        (header({"type": "record", "name": "R"}), SchemaError, "fields"),
        (header(record(("a", "Unknown"))), SchemaError, "does not define Unknown"),
        (header(record(("id", "int")), codec=b"lz77") + block(b"", 1), SourceError, "codec cannot be read"),
        (header("int") + block(long(1), 1), SchemaError, "not a record"),
    ],
)
def test_what_is_not_a_container_of_rows_is_refused(file: Path, data: bytes, error: type[Exception], what: str) -> None:
    file.write_bytes(data)
    with pytest.raises(error, match=what) as caught:
        read(file)
    assert str(file) in str(getattr(caught.value, "where", ""))


def test_a_missing_file_and_a_folder_are_errors_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="no such file"):
        read_avro(tmp_path / "nothing.avro")
    with pytest.raises(SourceError, match="cannot be opened"):
        read_avro(tmp_path)
    with pytest.raises(SourceError, match="at least one row"):
        read_avro(tmp_path / "nothing.avro", batch_size=0)


def test_a_reader_that_is_dropped_closes_the_file(file: Path) -> None:
    write(file, record(("id", "int")), [{"id": n} for n in range(10)])
    read_avro(file)
    stream = read_avro(file, batch_size=2)
    stream.read_next_batch()
    del stream
    gc.collect()  # an unclosed file would warn, and warnings are errors here
