"""Damaged bytes in container files: refused, or read as every other reader reads them.

A small decoder of this file's own says of each damaged file what the specification makes of it: the rows, or what is
wrong. ``read_avro`` has to agree in every case, whichever library decodes. fastavro and avro-python are asked as well.
Where they read what is refused here, the reason has to be one of ``LAX``.
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import fastavro
import pytest

from lakeevolve.avro.container import fast, read_avro
from lakeevolve.avro.parse import parse
from lakeevolve.errors import LakeEvolveError, SourceError

SYNC: Final = bytes(range(100, 116))

#: What others read although it is no encoding of a row, and what becomes of it there.
LAX: Final = {
    "fastavro": {
        "a number of more than 64 bits": "its upper bits are dropped",
        "an int of more than 32 bits": "it is read as the long that it is",
        "a negative branch": "the branches are counted from the last one",
        "a negative symbol": "the symbols are counted from the last one",
        "a byte that is no boolean": "it is read as true",
        "bytes behind the rows": "they are passed over",
        "a negative count": "the block is passed over",
    },
    "avro-python": {
        "an int of more than 32 bits": "it is read as the long that it is",
        "a byte that is no boolean": "it is read as false",
        # It decodes from the file, and does not look at how large a block is nor whether its mark follows.
        "bytes behind the rows": "they are passed over",
        "another mark": "it is passed over",
        "the bytes end early": "the rows go on behind the block",
        "a negative length": "a block's size is not looked at",
    },
}


class Wrong(Exception):
    """The bytes are no rows; the text says why."""


class Bytes:
    """The bytes of one block, read from the first to the last."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0:
            raise Wrong("a negative length")
        if self.at + size > len(self.data):
            raise Wrong("the bytes end early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        raw = b""
        while not raw or raw[-1] > 0x7F:
            raw += self.take(1)
        value = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(raw))
        if len(raw) > 10 or value >= 2**64:
            raise Wrong("a number of more than 64 bits")
        return -(value + 1) // 2 if value & 1 else value // 2


def decoded(schema: Any, data: Bytes, names: dict[str, Any]) -> Any:
    """One value. A union's branch is not told: those of the schemas here are told apart by their values."""
    if isinstance(schema, list):
        branch = data.number()
        if branch < 0:
            raise Wrong("a negative branch")
        if branch >= len(schema):
            raise Wrong("no such branch")
        return decoded(schema[branch], data, names)
    word = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and "name" in schema:
        names[schema["name"]] = schema
    match word:
        case "null":
            return None
        case "boolean":
            byte = data.take(1)[0]
            if byte > 1:
                raise Wrong("a byte that is no boolean")
            return byte == 1
        case "int" | "long":
            value = data.number()
            if word == "int" and not -(2**31) <= value < 2**31:
                raise Wrong("an int of more than 32 bits")
            return value
        case "float":
            return struct.unpack("<f", data.take(4))[0]
        case "double":
            return struct.unpack("<d", data.take(8))[0]
        case "bytes":
            return data.take(data.number())
        case "string":
            return text(data.take(data.number()))
        case "fixed":
            return data.take(schema["size"])
        case "enum":
            symbol = data.number()
            if symbol < 0:
                raise Wrong("a negative symbol")
            if symbol >= len(schema["symbols"]):
                raise Wrong("no such symbol")
            return schema["symbols"][symbol]
        case "array":
            return list(items(data, lambda: decoded(schema["items"], data, names)))
        case "map":
            pairs = items(data, lambda: (text(data.take(data.number())), decoded(schema["values"], data, names)))
            return dict(pairs)
        case "record":
            return {field["name"]: decoded(field["type"], data, names) for field in schema["fields"]}
    return decoded(names[word], data, names)


def items(data: Bytes, one: Callable[[], Any]) -> Iterator[Any]:
    while count := data.number():
        if count < 0:
            data.number()
        if abs(count) > len(data.data):
            raise Wrong("more items than bytes")
        for _ in range(abs(count)):
            yield one()


def text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Wrong("no text") from None


def expected(schema: Any, blocks: bytes) -> list[Any]:
    """The rows of a file without a codec, its header cut off."""
    file, rows = Bytes(blocks), []
    names: dict[str, Any] = {}
    while file.at < len(blocks):
        try:
            count = file.number()
        except Wrong as why:
            raise Wrong("the file ends in a number" if "early" in str(why) else str(why)) from None
        size = file.number()
        data = Bytes(file.take(size))
        if count < 0:
            raise Wrong("a negative count")
        if file.take(16) != SYNC:
            raise Wrong("another mark")
        if count > size:
            raise Wrong("more rows than bytes")
        rows += [decoded(schema, data, names) for _ in range(count)]
        if data.at < size:
            raise Wrong("bytes behind the rows")
    return rows


def ours(file: Path, schema: Any) -> list[Any]:
    table = read_avro(file).read_all()
    table.validate(full=True)
    return [told_apart(schema, row) for row in table.to_pylist()]


def told_apart(schema: Any, value: Any) -> Any:
    """A value without the names of the branches, maps as dictionaries."""
    if value is None:
        return None
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) == 1:
            return told_apart(branches[0], value)
        found = [(branch, inner) for branch, inner in zip(branches, value.values(), strict=True) if inner is not None]
        [(branch, inner)] = found
        return told_apart(branch, inner)
    match schema["type"] if isinstance(schema, dict) else schema:
        case "record":
            return {field["name"]: told_apart(field["type"], value[field["name"]]) for field in schema["fields"]}
        case "array":
            return [told_apart(schema["items"], item) for item in value]
        case "map":
            assert len(dict(value)) == len(value)
            return {key: told_apart(schema["values"], item) for key, item in value}
    return value


def by_fastavro(file: Path) -> list[Any]:
    with file.open("rb") as stream:
        return list(fastavro.reader(stream))


def by_avro_python(file: Path) -> list[Any]:
    from avro.datafile import DataFileReader
    from avro.io import DatumReader

    with file.open("rb") as stream:
        return list(DataFileReader(stream, DatumReader()))


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields]}


ENUM: Final = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
SCHEMAS: Final[dict[str, tuple[dict[str, Any], list[Any]]]] = {
    "numbers": (
        record(("i", "int"), ("l", "long"), ("d", "double"), ("f", "float"), ("b", "boolean")),
        [
            {"i": 5, "l": -3, "d": 0.5, "f": 2.0, "b": True},
            {"i": -(2**31), "l": 2**63 - 1, "d": 1.0, "f": 0, "b": False},
        ],
    ),
    "texts": (
        record(("s", "string"), ("b", "bytes"), ("x", {"type": "fixed", "name": "F", "size": 2}), ("e", ENUM)),
        [{"s": "é", "b": b"\x00\xff", "x": b"ab", "e": "C"}, {"s": "", "b": b"", "x": b"\x80\x00", "e": "A"}],
    ),
    "unions": (
        record(("o", ["null", "int"]), ("p", ["boolean", "null"]), ("u", ["null", "string", "long", "double"])),
        [{"o": None, "p": True, "u": "a"}, {"o": 7, "p": None, "u": 3}, {"o": 1, "p": False, "u": None}],
    ),
    "lists": (
        record(("a", {"type": "array", "items": ["null", "int"]}), ("m", {"type": "map", "values": "long"})),
        [{"a": [1, None], "m": {"k": 1, "j": 2}}, {"a": [], "m": {}}],
    ),
    "nested": (
        record(
            ("r", ["null", record(("x", "boolean"), ("e", ["null", ENUM]), name="Inner")]),
            ("l", {"type": "array", "items": record(("m", {"type": "map", "values": "bytes"}), name="Item")}),
        ),
        [{"r": {"x": True, "e": "B"}, "l": [{"m": {"k": b"v"}}, {"m": {}}]}, {"r": None, "l": []}],
    ),
}
#: Numbers that take the place of a byte, or go before it.
NUMBERS: Final = (
    b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"\x07", b"\x7f", b"\x80", b"\xff",
    b"\x80\x00", b"\x82\x80\x00", b"\x82\x80\x80\x80\x00", b"\x81\x80\x80\x80\x10", b"\x80\x80\x80\x80\x10",
    b"\xff" * 4 + b"\x0f", b"\xff" * 4 + b"\x1f", b"\xff" * 9 + b"\x01", b"\x80" * 9 + b"\x01",
    b"\x80" * 9 + b"\x00", b"\x80" * 9 + b"\x02", b"\xff" * 9 + b"\x03", b"\xff" * 9 + b"\x7f",
    b"\x80" * 10 + b"\x00", b"\x82" + b"\x80" * 9 + b"\x00", b"\xff" * 12, b"\x80" * 7 + b"\x20",
)  # fmt: skip


def written(schema: Any, rows: list[Any]) -> tuple[bytes, int]:
    """A file of two blocks, and where they begin."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], sync_marker=SYNC)
    first = out.tell()
    for some in (rows, rows[:1]):
        one = io.BytesIO()
        fastavro.writer(one, schema, some, sync_marker=SYNC)
        out.write(one.getvalue()[first:])
    return out.getvalue(), first


def damages(data: bytes, first: int, dice: random.Random, count: int | None) -> Iterator[bytes]:
    """Files with something else in the place of a byte, before it, or cut off there: *count* of them, or all."""
    all_ = [
        (at, number, length)
        for at in range(first, len(data))
        for number in (*NUMBERS, b"", None)
        for length in (0, 1)
        if number != b"" or length
    ]
    for at, number, length in all_ if count is None else dice.sample(all_, count):
        yield data[: at + length] if number is None else data[:at] + number + data[at + length :]


def outcome(read: Callable[[], list[Any]]) -> list[Any] | str:
    try:
        # NaN is not equal to itself.
        return [json.dumps(row, default=bytes.hex, sort_keys=True) for row in read()]
    except LakeEvolveError as error:
        return f"{type(error).__name__}" if error.where else "an error without a place"
    except Wrong as why:
        return str(why)


def rows_of(read: Callable[[Path], list[Any]], file: Path) -> list[Any] | None:
    """What another library reads; None where it raises whatever it raises."""
    try:
        return read(file)
    except Exception:
        return None


def asked(read: Callable[[Path], list[Any]], file: Path) -> list[Any] | None:
    found = rows_of(read, file)
    return None if found is None else [json.dumps(row, default=bytes.hex, sort_keys=True) for row in found]


@pytest.fixture(params=["polars-avro", "fastavro"])
def decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "polars-avro":
        pytest.importorskip("polars_avro", reason="the extra lakeevolve[fast] is not installed")
        yield request.param
        return
    with mock.patch.object(fast, "_problem", return_value="the test says so"):
        yield request.param


def compare(schema: Any, data: bytes, first: int, file: Path) -> None:
    """Hold one damaged file against the specification and against the others."""
    file.write_bytes(data)
    right = outcome(lambda: expected(schema, data[first:]))
    found = outcome(lambda: ours(file, schema))
    if isinstance(right, list):
        assert found == right
    else:
        assert found == "SourceError", right
    for name, read in (("fastavro", by_fastavro), ("avro-python", by_avro_python)):
        other = asked(read, file)
        if isinstance(right, list):
            assert other is None or other == right, name
        elif other is not None:
            assert right in LAX[name], (name, right)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_damaged_file_is_refused_or_read_as_it_is_written(name: str, decoder: str, tmp_path: Path) -> None:
    schema, rows = SCHEMAS[name]
    data, first = written(schema, rows)
    for damaged in damages(data, first, random.Random(name), 150):
        compare(schema, damaged, first, tmp_path / "data.avro")


@pytest.mark.parametrize(
    ("type_", "rows", "reason", "elsewhere"),
    [
        ("long", b"\x80" * 9 + b"\x02", "a number of more than 64 bits", {"fastavro": 0}),
        ("long", b"\x82" + b"\x80" * 9 + b"\x00", "a number of more than 64 bits", {"fastavro": 1}),
        ("int", b"\x80\x80\x80\x80\x10", "an int of more than 32 bits", {"fastavro": 2**31, "avro-python": 2**31}),
        (["null", "int"], b"\x01\x0a", "a negative branch", {"fastavro": 5}),
        (ENUM, b"\x01", "a negative symbol", {"fastavro": "C"}),
        ("boolean", b"\x07", "a byte that is no boolean", {"fastavro": True, "avro-python": False}),
        ("int", b"\x02\x04", "bytes behind the rows", {"fastavro": 1}),
    ],
)
def test_what_other_readers_make_of_what_is_no_value(
    decoder: str, tmp_path: Path, type_: Any, rows: bytes, reason: str, elsewhere: dict[str, Any]
) -> None:
    file, schema = tmp_path / "data.avro", record(("value", type_))
    claimed(file, schema, rows, 1)
    assert outcome(lambda: expected(schema, file.read_bytes()[len(head(schema)) :])) == reason
    with pytest.raises(SourceError):
        read_avro(file).read_all()
    readers = {"fastavro": by_fastavro, "avro-python": by_avro_python}
    found = {name: given[0]["value"] for name, read in readers.items() if (given := rows_of(read, file)) is not None}
    assert found == elsewhere
    assert all(reason in LAX[name] for name in elsewhere)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x02\x02\x06" + SYNC[1:] + b"!", "another mark"),
        (b"\x02\x00" + SYNC, "more rows than bytes"),
        (b"\x01\x02\x06" + SYNC, "a negative count"),
        (b"\x02\x01\x06" + SYNC, "a negative length"),
    ],
)
def test_a_block_that_is_none_is_refused_whatever_others_make_of_it(
    decoder: str, tmp_path: Path, tail: bytes, reason: str
) -> None:
    file, schema = tmp_path / "data.avro", record(("value", "int"))
    file.write_bytes(head(schema) + tail)
    assert outcome(lambda: expected(schema, tail)) == reason
    with pytest.raises(SourceError, match="cut off or damaged") as caught:
        read_avro(file).read_all()
    assert caught.value.where == f"{file}, block 1"


# What a few bytes claim


def long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def head(schema: Any) -> bytes:
    data, first = written(schema, [])
    return data[:first]


def claimed(file: Path, schema: Any, data: bytes, count: int) -> None:
    """A file of one block, which claims to hold so many rows."""
    file.write_bytes(head(schema) + long(count) + long(len(data)) + data + SYNC)


NOTHING: Final = record(name="Nothing")


def test_rows_without_bytes_are_read_up_to_a_limit(decoder: str, tmp_path: Path) -> None:
    file = tmp_path / "data.avro"
    claimed(file, record(("nothing", NOTHING)), b"", 100_000)
    assert read_avro(file).read_all().num_rows == 100_000
    for count in (10_000_001, 2**60, 2**63 - 1):
        claimed(file, record(("nothing", NOTHING)), b"", count)
        with pytest.raises(SourceError, match="more than 10,000,000 rows without a byte") as caught:
            next(read_avro(file))
        assert caught.value.where == f"{file}, block 1"


def test_items_without_bytes_are_read_up_to_a_limit(decoder: str, tmp_path: Path) -> None:
    file = tmp_path / "data.avro"
    schema = record(("list", {"type": "array", "items": NOTHING}))
    claimed(file, schema, long(3) + long(2) + b"\0", 1)
    assert read_avro(file).read_all().to_pylist() == [{"list": [{}] * 5}]
    for items in (long(2**60) + b"\0", long(600_000) * 2 + b"\0", long(-(2**60)) + b"\0\0"):
        claimed(file, schema, items, 1)
        with pytest.raises(SourceError, match="more than 1,000,000 items without a byte") as caught:
            read_avro(file).read_all()
        assert caught.value.where == f"{file}, block 1"


@pytest.mark.parametrize(
    ("type_", "encoded"),
    [
        ({"type": "array", "items": "int"}, long(2**62) + long(1) + b"\0"),
        ({"type": "array", "items": "double"}, long(2**61) + bytes(8) + b"\0"),
        ({"type": "array", "items": "double"}, long(-(2**63)) + long(8) + bytes(8) + b"\0"),
        ({"type": "map", "values": NOTHING}, long(2**60) + long(1) + b"k\0"),
        ({"type": "array", "items": ["null", "int"]}, long(2**60) + bytes(9)),
        ("bytes", long(2**62) + b"a"),
        ("string", long(-1)),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"a"),
    ],
)
def test_lengths_and_counts_that_no_block_can_hold_are_damage(
    decoder: str, tmp_path: Path, type_: Any, encoded: bytes
) -> None:
    file = tmp_path / "data.avro"
    claimed(file, record(("value", type_)), encoded, 1)
    with pytest.raises(SourceError, match="cut off or damaged") as caught:
        read_avro(file).read_all()
    assert caught.value.where == f"{file}, block 1"


def test_values_that_are_nested_too_deep_for_a_stack_are_refused(decoder: str, tmp_path: Path) -> None:
    file = tmp_path / "data.avro"
    node = record(("v", "int"), ("next", ["null", "Node"]), name="Node")
    reader = parse(record(("id", "int")))
    schema = record(("id", "int"), ("list", node))
    claimed(file, schema, b"\x02" + b"\x02\x02" * 900 + b"\x02\x00", 1)
    assert read_avro(file, reader).read_all().to_pylist() == [{"id": 1}]
    claimed(file, schema, b"\x02" + b"\x02\x02" * 2000 + b"\x02\x00", 1)
    with pytest.raises(SourceError, match="nested more than 1,000 levels deep"):
        read_avro(file, reader).read_all()
    # Without end: a record that cannot stop.
    claimed(file, record(("id", "int"), ("me", record(("me", "Endless"), name="Endless"))), b"\x02", 1)
    with pytest.raises(SourceError, match="nested more than 1,000 levels deep"):
        read_avro(file, reader).read_all()


def test_no_row_of_a_damaged_block_is_given(decoder: str, tmp_path: Path) -> None:
    file = tmp_path / "data.avro"
    schema = record(("id", "long"))
    data, _ = written(schema, [{"id": n} for n in range(50)])
    wrong = b"".join(long(n) for n in range(50)) + b"\x80" * 9 + b"\x02"
    file.write_bytes(data + long(51) + long(len(wrong)) + wrong + SYNC)
    stream = read_avro(file, batch_size=3)
    assert [stream.read_next_batch().num_rows for _ in range(17)] == [3] * 17
    with pytest.raises(SourceError) as caught:
        stream.read_next_batch()
    assert caught.value.where == f"{file}, block 3"
