"""The two decoders of container files: who is chosen and why, and that nothing else differs."""

from __future__ import annotations

import bz2
import datetime as dt
import decimal
import json
import logging
import lzma
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.container import fast, read_avro
from lakeevolve.avro.parse import parse
from lakeevolve.errors import LakeEvolveError, SourceError, ValueMismatch
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, branch_names, is_null
from lakeevolve.testing import evolutions, rows

pytest.importorskip("polars_avro", reason="the extra lakeevolve[fast] is not installed")

PROPERTY = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
SYNC = bytes(range(16))
EPOCH = dt.datetime(1970, 1, 1)
CODECS = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "snappy": lambda data: pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields]}


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def long(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block(data: bytes, count: int, codec: str = "null") -> bytes:
    packed = CODECS[codec](data)
    return long(count) + long(len(packed)) + packed + SYNC


def header(schema: Any, codec: str = "null") -> bytes:
    pairs = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    body = b"".join(long(len(key)) + key + long(len(value)) + value for key, value in pairs.items())
    return b"Obj\x01" + long(len(pairs)) + body + b"\0" + SYNC


class Encoder:
    """Avro's binary encoding of rows, in every form that it allows."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def encode(self, type_: AvroType, value: Any) -> bytes:
        match type_:
            case Record():
                return b"".join(self.encode(field.type, value[field.name]) for field in type_.fields)
            case Array():
                return self.items([self.encode(type_.items, item) for item in value])
            case Map():
                return self.items([self.text(key) + self.encode(type_.values, item) for key, item in value])
            case Enum():
                return long(type_.symbols.index(value))
            case Union():
                return self.union(type_, value)
            case Fixed():
                return unscaled(value).to_bytes(type_.size, "big", signed=True) if is_decimal(type_) else value
            case Primitive():
                return self.primitive(type_, value)
        raise AssertionError(type_)

    def union(self, type_: Union, value: Any) -> bytes:
        if value is None:
            return long(next(at for at, branch in enumerate(type_.branches) if is_null(branch)))
        at, inner = 0, value
        if not type_.optional:
            [(at, inner)] = [(i, value[n]) for i, n in enumerate(branch_names(type_)) if value[n] is not None]
        branch = type_.values[at]
        return long(type_.branches.index(branch)) + self.encode(branch, inner)

    def items(self, encoded: list[bytes]) -> bytes:
        out = b""
        while encoded:
            count = self.dice.randint(1, len(encoded))
            data, encoded = b"".join(encoded[:count]), encoded[count:]
            out += (long(-count) + long(len(data)) if self.dice.random() < 0.3 else long(count)) + data
        return out + b"\0"

    def text(self, value: str) -> bytes:
        return long(len(value.encode())) + value.encode()

    def primitive(self, type_: Primitive, value: Any) -> bytes:
        match type_.name:
            case "boolean":
                return bytes([value])
            case "int" | "long":
                return long(value if type_.logical is None else number(type_.logical.name, value))
            case "float":
                return struct.pack("<f", value)
            case "double":
                return struct.pack("<d", value)
            case "string":
                return self.text(value)
            case "bytes":
                if is_decimal(type_):
                    whole = unscaled(value)
                    length = whole.bit_length() // 8 + 1 + self.dice.choice((0, 0, 0, 1, 12))
                    value = whole.to_bytes(length, "big", signed=True)
                return long(len(value)) + value
        raise AssertionError(type_)


def is_decimal(type_: Primitive | Fixed) -> bool:
    return type_.logical is not None and type_.logical.name == "decimal"


def unscaled(value: decimal.Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def number(name: str, value: Any) -> int:
    if name == "date":
        return (value - EPOCH.date()).days
    if name.startswith("time-"):
        since = dt.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
    else:
        since = value.replace(tzinfo=None) - EPOCH
    micros = since // dt.timedelta(microseconds=1)
    return micros // 1000 if name.endswith("millis") else micros * 1000 if name.endswith("nanos") else micros


@contextmanager
def only_fastavro() -> Iterator[None]:
    with mock.patch.object(fast, "_problem", return_value="the test says so"):
        yield


def outcome(file: Path, reader: Schema | None = None, batch_size: int = 65_536) -> tuple[list[Any], Any]:
    """The batches, and the error that ended them."""
    batches: list[Any] = []
    try:
        for batch in read_avro(file, reader, batch_size):
            batch.validate(full=True)
            # As texts: NaN is not equal to itself.
            batches.append((batch.schema, batch.num_rows, repr(batch.to_pylist())))
    except LakeEvolveError as error:
        return batches, (type(error), error.what, error.where, error.hint)
    return batches, None


def same_outcome(file: Path, reader: Schema | None = None, batch_size: int = 65_536) -> tuple[list[Any], Any]:
    found = outcome(file, reader, batch_size)
    with only_fastavro():
        assert outcome(file, reader, batch_size) == found
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data.avro"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "lakeevolve.avro")
    return caplog


# Both read the same


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, Schema, int, list[int]]:
    """A container file, a schema to read it as, a batch size, and where the blocks end."""
    old, new = draw(evolutions(tables=True, compatible=True))
    found = draw(st.lists(rows(old), min_size=1, max_size=12))
    encoder = Encoder(random.Random(draw(st.integers(0, 1000))))
    codec = draw(st.sampled_from(list(CODECS)))
    data = header(old.to_json(), codec)
    ends = [len(data)]
    encoded = [encoder.encode(old.root, row) for row in found]
    while encoded:
        count = draw(st.integers(1, len(encoded)))
        data += block(b"".join(encoded[:count]), count, codec)
        ends.append(len(data))
        encoded = encoded[count:]
    return data, draw(st.sampled_from([old, new])), draw(st.sampled_from([1, 2, 5, 1000])), ends


@PROPERTY
@given(made=files())
def test_both_decoders_read_the_same_batches(tmp_path: Path, made: tuple[bytes, Schema, int, list[int]]) -> None:
    data, reader, batch_size, _ = made
    file = tmp_path / "data.avro"
    file.write_bytes(data)
    warning = mock.Mock()
    with mock.patch("lakeevolve.avro.container.groups._log.warning", warning):
        batches, error = same_outcome(file, reader, batch_size)
    if error is not None:
        # Any bytes may be written, and not all of them are a string's.
        assert error[0] is ValueMismatch
        assert "not UTF-8" in error[1]
        return
    assert batches
    assert all(count == batch_size for _, count, _ in batches[:-1])
    warning.assert_not_called()


@PROPERTY
@given(made=files(), dice=st.randoms(use_true_random=False))
def test_both_decoders_say_the_same_of_damage(
    tmp_path: Path, made: tuple[bytes, Schema, int, list[int]], dice: random.Random
) -> None:
    data, reader, batch_size, ends = made
    file = tmp_path / "data.avro"
    for _ in range(6):
        spoiled = bytearray(data)
        for _ in range(dice.choice((1, 1, 1, 2, 5))):
            spoiled[dice.randrange(ends[0], len(data))] = dice.choice(
                (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, dice.randrange(256))
            )
        if dice.random() < 0.2:
            del spoiled[dice.randrange(ends[0], len(data)) :]
        file.write_bytes(spoiled)
        same_outcome(file, reader, batch_size)


WIDE = record(
    ("id", "long"),
    ("a", ["null", "int"]),
    ("b", ["string", "null"]),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("u", ["null", "boolean", "double", {"type": "array", "items": ["null", "long"]}]),
    ("m", {"type": "map", "values": ["null", logical("bytes", "decimal", precision=4, scale=2)]}),
    ("f", {"type": "fixed", "name": "F", "size": 3}),
    ("r", ["null", record(("x", "float"), ("y", ["null", logical("long", "timestamp-millis")]), name="Inner")]),
)


def test_each_byte_of_a_file_may_be_wrong(file: Path) -> None:
    root = parse(WIDE).root
    encoder = Encoder(random.Random(1))
    instant = dt.datetime(2024, 5, 6, 7, 8, 9, 10_000)
    found = [
        {
            "id": 1,
            "a": None,
            "b": "é",
            "e": "B",
            "u": None,
            "m": [("k", decimal.Decimal("1.23"))],
            "f": b"abc",
            "r": None,
        },
        {
            "id": -1,
            "a": 7,
            "b": None,
            "e": "A",
            "u": {"boolean": None, "double": None, "array": [1, None]},
            "m": [],
            "f": b"def",
            "r": {"x": 0.5, "y": instant},
        },
    ]
    data = header(WIDE)
    first = len(data)
    for _ in range(2):
        data += block(b"".join(encoder.encode(root, row) for row in found), 2)
    for at in range(first, len(data)):
        for bit in (0, 1, 2, 7):
            file.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            same_outcome(file, batch_size=3)


@pytest.mark.parametrize(
    "blocks",
    [
        [(b"\x02\x04\x06", 2)],
        [(b"\x02", 2)],
        [(b"\x02\x04\x06", 2), (b"\x08", 2)],
        [(b"\x02\x00", 1)],
        [(b"\x02\x00\x00", 1)],
        [(b"", 3)],
        [(b"\x02", 0)],
        [(b"\x00", 0), (b"\x02", 1)],
        [(b"\x80" * 9 + b"\x01", 1)],
        [(b"\x80" * 9 + b"\x02", 1)],
        [(b"\x80" * 10 + b"\x01", 1)],
        [(b"\x80\x00", 1)],
        [(b"", 2**40)],
    ],
)
def test_blocks_that_hold_more_or_less_than_they_say_are_damage_to_both(file: Path, blocks: list[Any]) -> None:
    good = block(b"\x02\x04", 2)
    for type_ in ("long", "int", {"type": "array", "items": "long"}):
        parts = b"".join(block(*each) for each in blocks)
        file.write_bytes(header(record(("id", type_))) + good + parts + good)
        same_outcome(file, batch_size=1)
        same_outcome(file)


def test_the_batches_before_the_damage_come_first_whatever_decodes(file: Path) -> None:
    one = block(b"".join(long(n) for n in range(100)), 100)
    file.write_bytes(header(record(("id", "long"))) + one * 3 + block(b"\x02", 2) + one)
    batches, error = same_outcome(file, batch_size=40)
    assert [count for _, count, _ in batches] == [40] * 7
    assert error == (
        SourceError,
        "the file is cut off or damaged",
        f"{file}, block 4",
        "copy the file again from where it came from, or write it anew",
    )


def test_batches_begin_and_end_within_blocks_of_any_size(file: Path) -> None:
    dice = random.Random(2)
    data, number = header(record(("id", "long"), ("text", ["null", "string"]))), 0
    for count in [1, 70_000, 5, 1000, 1, 1, 130_000, 3, 40_000, 40_000, *[30] * 400]:
        encoded = []
        for _ in range(count):
            encoded.append(long(number) + (b"\0" if dice.random() < 0.5 else b"\x02" + b"\x04ab"))
            number += 1
        data += block(b"".join(encoded), count)
    file.write_bytes(data)
    for batch_size in (65_536, 7_000, 1_000_000):
        ids = []
        for batch in read_avro(file, batch_size=batch_size):
            assert batch.num_rows == min(batch_size, number - len(ids))
            ids += batch.column(0).to_pylist()
        assert ids == list(range(number))


def test_what_polars_avro_wrongly_refuses_is_read_all_the_same(
    file: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = block(b"".join(long(n) for n in range(100)), 100)
    file.write_bytes(header(record(("id", "long"))) + one * 3)
    expected = outcome(file, batch_size=30)
    monkeypatch.setattr("lakeevolve.avro.container.groups._ROWS", 100)
    decode, calls = fast.Decoder.decode, []

    def refuse_the_second(self: fast.Decoder, blocks: Any) -> pa.Array:
        calls.append(blocks)
        if len(calls) == 2:
            raise fast.Undecodable
        return decode(self, blocks)

    monkeypatch.setattr(fast.Decoder, "decode", refuse_the_second)
    assert outcome(file, batch_size=30) == expected
    assert "does not decode what fastavro does" in log.text


def test_memory_does_not_grow_with_the_file(file: Path) -> None:
    row = long(5) + b"\x02" + long(1000) + bytes(1000)
    one = block(row * 5000, 5000, "deflate")
    program = (
        "import sys, resource\n"
        "from lakeevolve.avro.container import read_avro\n"
        "rows = sum(batch.num_rows for batch in read_avro(sys.argv[1]))\n"
        "print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform == 'darwin' else 1024))\n"
    )
    peaks = []
    for count in (20, 100):
        file.write_bytes(header(record(("id", "long"), ("blob", ["null", "bytes"])), "deflate") + one * count)
        done = subprocess.run(
            [sys.executable, "-c", program, str(file)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        found, peak = map(int, done.stdout.split())
        assert found == count * 5000
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 100, "400 MB more of rows may not take 100 MB more of memory"


# Who decodes

POINT = record(("x", "int"), ("tag", {"type": "fixed", "name": "Tag", "size": 2}), name="geo.Point")


@pytest.mark.parametrize(
    ("type_", "encoded", "expected"),
    [
        # As decoders written for data frames have got them wrong.
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, long(1), "B"),
        (["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}], long(1) + long(1), "B"),
        ({"type": "map", "values": "int"}, long(2) + b"\x02k\x02\x02j\x04\0", [("k", 1), ("j", 2)]),
        (["null", {"type": "map", "values": "int"}], long(0), None),
        (["null", "int", "string"], long(2) + b"\x02a", {"int": None, "string": "a"}),
        (["int"], long(0) + long(3), {"int": 3}),
        (["int", "long"], long(1) + long(3), {"int": None, "long": 3}),
        (
            logical("string", "uuid"),
            long(36) + b"0" * 8 + b"-0000" * 3 + b"-" + b"0" * 12,
            "00000000-0000-0000-0000-000000000000",
        ),
        (logical("bytes", "decimal", precision=38, scale=2), b"\x02\xff", decimal.Decimal("-0.01")),
        (logical("bytes", "decimal", precision=50, scale=2), b"\x02\xff", decimal.Decimal("-0.01")),
        (
            {**logical("fixed", "decimal", precision=4, scale=2), "name": "D", "size": 2},
            b"\xff\xff",
            decimal.Decimal("-0.01"),
        ),
        ({**logical("fixed", "duration"), "name": "D", "size": 12}, bytes(range(12)), bytes(range(12))),
        (logical("int", "date"), long(-1), dt.date(1969, 12, 31)),
        (logical("int", "time-millis"), long(1), dt.time(0, 0, 0, 1000)),
        (logical("long", "time-micros"), long(1), dt.time(0, 0, 0, 1)),
        (logical("long", "timestamp-millis"), long(-1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC)),
        (logical("long", "local-timestamp-micros"), long(1), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (["string", "null"], long(1), None),
        (["null", "string"], long(1) + b"\0", ""),
        ({"type": "array", "items": ["null", "int"]}, long(-2) + long(3) + b"\x02\x02\0\0", [1, None]),
        (["null", {"type": "array", "items": "int"}], long(1) + b"\0", []),
        (["null", record(("y", ["null", "boolean"]), name="I")], long(1) + long(1) + b"\x01", {"y": True}),
        (record(name="Empty"), b"", {}),
        ({"type": "fixed", "name": "None", "size": 0}, b"", b""),
        (
            record(("p", POINT), ("q", "geo.Point"), ("t", "geo.Tag"), name="geo.Two"),
            b"\x02ab\x04cdef",
            {"p": {"x": 1, "tag": b"ab"}, "q": {"x": 2, "tag": b"cd"}, "t": b"ef"},
        ),
    ],
)
def test_polars_avro_reads_each_type_as_fastavro_does(
    file: Path, log: pytest.LogCaptureFixture, type_: Any, encoded: bytes, expected: Any
) -> None:
    file.write_bytes(header(record(("id", "long"), ("value", type_))) + block(b"\x02" + encoded + b"\x04" + encoded, 2))
    same_outcome(file)
    assert read_avro(file).read_all().to_pylist() == [{"id": 1, "value": expected}, {"id": 2, "value": expected}]
    assert log.messages[0] == f"{file} is decoded by polars-avro, which knows all its types"
    assert "does not decode" not in log.text


@pytest.mark.parametrize(
    ("size", "precision"),
    [
        (size, precision)
        for size in (1, 8, 16, 17, 20, 32, 40)
        for precision in (1, 2, 18, 38, 39)
        if 10**precision < 2 ** (8 * size - 1)
    ],
)
def test_both_decoders_read_decimals_on_fixed_and_say_the_same_of_too_many_digits(
    file: Path, size: int, precision: int
) -> None:
    amount = {**logical("fixed", "decimal", precision=precision, scale=1), "name": "D", "size": size}
    schema = record(("value", amount), ("maybe", ["null", "D"]), ("list", {"type": "array", "items": "D"}))
    most = 2 ** (8 * size - 1) - 1
    for number in {0, 1, -1, 10**precision - 1, 1 - 10**precision, min(10**precision, most), -most - 1, most}:
        raw = number.to_bytes(size, "big", signed=True)
        file.write_bytes(header(schema) + block(raw + long(1) + raw + long(2) + raw + raw + long(0), 1))
        batches, error = same_outcome(file)
        assert (error is None) == (abs(number) < 10**precision) == bool(batches)
        if error is None:
            value = decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -1))
            assert read_avro(file).read_all().to_pylist() == [{"value": value, "maybe": value, "list": [value, value]}]


TREE = record(("value", "int"), ("below", {"type": "array", "items": "Tree"}), name="Tree")


def deep(levels: int) -> Any:
    return "int" if not levels else record(("x", deep(levels - 1)), name=f"L{levels}")


def doubled(levels: int) -> list[tuple[str, Any]]:
    """Fields whose types double with each level, by name."""
    fields: list[tuple[str, Any]] = [("d0", record(("a", "int"), ("b", "int"), name="D0"))]
    for level in range(1, levels):
        inner = f"D{level - 1}"
        fields.append((f"d{level}", record(("a", inner), ("b", inner), name=f"D{level}")))
    return fields


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([("skipped", TREE)], "polars-avro does not know the record Tree, which contains itself"),
        (
            [("skipped", {"type": "array", "items": "null"})],
            "polars-avro does not know null, of which no value has a byte",
        ),
        (
            [("skipped", ["int", record(name="Nothing")])],
            "polars-avro does not know record Nothing, of which no value has",
        ),
        ([("skipped", deep(45))], "its types are nested deeper than polars-avro goes"),
        (doubled(13), "it stands for more than 10000 types"),
    ],
)
def test_fastavro_decodes_what_polars_avro_does_not_know_and_the_log_says_why(
    file: Path, log: pytest.LogCaptureFixture, fields: list[tuple[str, Any]], why: str
) -> None:
    file.write_bytes(header(record(("id", "long"), *fields)))
    with mock.patch.object(fast.Decoder, "decode") as decode:
        assert list(read_avro(file, parse(record(("id", "long"))))) == []
    decode.assert_not_called()
    [said] = log.messages
    assert said.startswith(f"{file} is decoded by fastavro: {why}")


def test_rows_without_bytes_are_decoded_by_fastavro(file: Path, log: pytest.LogCaptureFixture) -> None:
    file.write_bytes(header(record(("nothing", "null"))) + block(b"", 3))
    assert same_outcome(file, parse(record()))[0][0][1] == 3
    assert "decoded by fastavro: polars-avro does not know record R, of which no value has a byte" in log.messages[0]


def test_what_is_left_out_may_be_anything_that_is_passed_over(file: Path, log: pytest.LogCaptureFixture) -> None:
    left_out = record(
        ("void", "null"), ("text", "string"), ("number", "int"), ("e", {"type": "enum", "name": "E", "symbols": []})
    )
    writer = record(("id", "long"), ("skipped", {"type": "map", "values": {**left_out, "name": "S"}}), ("last", "int"))
    # A text that is no text, and a number that is no int: nobody looks.
    odd = long(1) + b"\x02\xff" + b"\x02\xff" + long(2**40) + long(2**40) + b"\0"
    file.write_bytes(header(writer) + block(b"\x02" + odd + b"\x04", 1))
    batches, error = same_outcome(file, parse(record(("last", "int"), ("id", "long"))))
    assert (batches[0][2], error) == ("[{'last': 2, 'id': 1}]", None)
    assert "is decoded by polars-avro" in log.messages[0]
    assert "does not decode" not in log.text


def test_without_polars_avro_fastavro_decodes_and_the_log_says_what_to_install(
    file: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(header(record(("id", "long"))) + block(b"\x02", 1))
    fast._problem.cache_clear()
    monkeypatch.setitem(sys.modules, "polars_avro._avro_rs", None)
    try:
        assert read_avro(file).read_all().to_pylist() == [{"id": 1}]
    finally:
        fast._problem.cache_clear()
    [said] = log.messages
    assert said.startswith(f"{file} is decoded by fastavro: polars-avro, which is faster, is not installed")
    assert "lakeevolve[fast]" in said


def test_a_polars_avro_with_other_calls_is_not_used(
    file: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(header(record(("id", "long"))) + block(b"\x02", 1))
    fast._problem.cache_clear()
    monkeypatch.setattr("polars_avro._avro_rs.AvroSource", lambda sources: None)
    try:
        assert read_avro(file).read_all().to_pylist() == [{"id": 1}]
    finally:
        fast._problem.cache_clear()
    assert "does not know the version of polars-avro" in log.text


def test_an_interrupt_is_not_taken_for_damage(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(header(record(("id", "long"))) + block(b"\x02", 1))

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(fast, "wire", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_avro(file).read_all()


def test_a_panic_is_taken_for_damage_and_fastavro_decides(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def panic(*_: Any) -> Any:
        raise PanicException

    file.write_bytes(header(record(("id", "long"))) + block(b"\x02", 1))
    monkeypatch.setattr(fast, "wire", panic)
    assert read_avro(file).read_all().to_pylist() == [{"id": 1}]
