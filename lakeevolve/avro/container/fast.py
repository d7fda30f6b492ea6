"""Decoding with polars-avro, column by column.

polars-avro gives its input to arrow-avro, the Avro reader of Apache Arrow's Rust implementation, and gets Arrow batches
from it. That part is what is used here; it knows nothing of polars. arrow-avro believes the header and the blocks more
than a reader of damaged files may: it takes every index but 0 for the other branch of ``["null", T]`` and every byte
but 0 for true, never ends on a block that holds more bytes than its rows, and reads no rows where rows have no bytes.
So it gets blocks of ours, in which a block of the file is one record: the list of its rows, then a mark that nobody can
guess; unions of records, of which it checks the index; and booleans as bytes. Where a list is not as long as its block
says, or a mark not what it was, something in the block is not what it should be. What has no bytes is left out: Rust's
Arrow cannot tell how much of it there is.
"""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.container.blocks import Block
from lakeevolve.avro.container.header import SYNC, long, written
from lakeevolve.avro.container.spread import has_bytes, wire
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Json,
    Logical,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    describe,
    is_null,
    short_name,
)

#: Types that are written out for arrow-avro at most, each use of a named type being a type of its own.
_TYPES: Final = 10_000
#: Levels of JSON that serde_json, which reads the schema, takes at most (128), less the innermost.
_DEEPEST: Final = 120
#: Branches of a union at most: Arrow numbers them in eight bits.
_BRANCHES: Final = 127
#: Encoded bytes at a time at most: the offsets of Arrow's lists and texts have 32 bits.
_BYTES: Final = 1 << 30


class Unsuited(Exception):
    """polars-avro is not the decoder for the file; the text says why."""


class Undecodable(Exception):
    """polars-avro does not get from the blocks what they say they hold. Only fastavro can say what is wrong."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """polars-avro, set up for one file.

    ``type`` is that of the file's rows, ``read`` the part of it that is wanted.
    """

    type: AvroType
    read: AvroType
    head: bytes
    mark: bytes

    def decode(self, blocks: Sequence[Block]) -> pa.Array:
        """The rows of some blocks in the wire layout (see :func:`lakeevolve.avro.container.columns.columns`).

        Raises :class:`Undecodable`.
        """
        try:
            return self._rows(blocks)
        except Undecodable:
            raise
        except Exception as error:
            raise Undecodable from error
        except BaseException as error:
            # What a library written in Rust raises where another would crash.
            if type(error).__name__ != "PanicException":
                raise
            raise Undecodable from error

    def _rows(self, blocks: Sequence[Block]) -> pa.Array:
        batch = self._batch(blocks)
        lists, marks = batch.column(0), batch.column(1)
        counts = pa.array([block.count for block in blocks], pa.int32())
        if not pc.list_value_length(lists).equals(counts):
            raise Undecodable("a block holds other rows than it says")
        if not pc.all(pc.equal(marks, pa.scalar(self.mark, marks.type))).as_py():
            raise Undecodable("a block holds more or fewer bytes than its rows")
        return wire(lists.values, self.type, self.read)

    def _batch(self, blocks: Sequence[Block]) -> pa.RecordBatch:
        if sum(len(block.data) for block in blocks) > _BYTES:
            raise Undecodable("the blocks are too large for one batch")
        if not all(map(can_hold, blocks)):
            raise Undecodable("a block holds fewer bytes than rows")
        parts: list[bytes] = []
        size = 0
        between, end = b"", b"\x00" + self.mark
        for block in blocks:
            between += long(block.count)
            parts += (between, block.data)
            size += len(between) + len(block.data)
            between = end
        size += len(end)
        # Twice as many records as there are: where bytes were left over and no record to come, arrow-avro would turn
        # round for ever. It is asked for one batch of the right number, and then has to find the end.
        parts = [self.head + long(2 * len(blocks)) + long(size), *parts, end + bytes(SYNC)]
        batches = _open(_Source(parts), len(blocks))
        batch = pa.record_batch(next(batches))
        if batch.num_rows != len(blocks) or next(batches, None) is not None:
            raise Undecodable("the blocks hold more bytes than rows")
        return batch


def can_hold(block: Block) -> bool:
    """Whether a block may hold so many rows, of types that have bytes."""
    return block.count <= len(block.data)


def decoder(type_: AvroType, read: AvroType) -> Decoder:
    """polars-avro for a file with rows of a type.

    Parameters
    ----------
    type_, read:
        The type of the file's rows, and the part of it that is wanted.

    Raises
    ------
    Unsuited
        It does not know the type, or is not installed.
    """
    rows = _Schema().of(type_, read, 6)
    if problem := _problem():
        raise Unsuited(problem)
    mark = secrets.token_bytes(SYNC)
    last: Json = {"type": "fixed", "name": "mark", "size": len(mark)}
    schema = _record("block", [("rows", {"type": "array", "items": rows}), ("mark", last)])
    return Decoder(type_, read, written(json.dumps(schema), bytes(SYNC)), mark)


@functools.cache
def _problem() -> str | None:
    """What keeps polars-avro from being used, whatever the file."""
    try:
        import polars_avro._avro_rs as _  # noqa: F401
    except ImportError:
        return "polars-avro, which is faster, is not installed; the extra lakeevolve[fast] brings it"
    schema = _record("block", [("number", "long")])
    source = _Source([written(json.dumps(schema), bytes(SYNC)), b"\x02\x02\x08", bytes(SYNC)])
    try:
        known = [pa.record_batch(batch).to_pylist() for batch in _open(source, 1)] == [[{"number": 4}]]
    except Exception:  # whatever a version with other calls raises
        known = False
    return None if known else "lakeevolve does not know the version of polars-avro that is installed"


def _open(source: _Source, rows: int) -> Iterator[Any]:
    from polars_avro._avro_rs import AvroSource

    files: list[Any] = [source]
    batches: Iterator[Any] = AvroSource(files, False, False).batch_iter(rows, None)
    return batches


class _Source:
    """A file that polars-avro reads: what it opens, and what it gets from that."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = [part for part in parts if part]
        self._part = self._at = 0

    def __call__(self) -> _Source:
        return self

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts = []

    def read(self, size: int) -> bytes:
        if self._part >= len(self._parts):
            return b""
        whole = self._parts[self._part]
        part = whole[self._at : self._at + size] if self._at or len(whole) > size else whole
        self._at += len(part)
        if self._at == len(whole):
            self._part, self._at = self._part + 1, 0
        return part


@dataclass(slots=True)
class _Schema:
    """The schema for arrow-avro: of the same structure, and every use of a named type a type of its own.

    What is not wanted is not looked at either: its texts are bytes, and its numbers have 64 bits. Of the logical types,
    only a decimal on fixed is told.
    """

    names: Iterator[str] = field(default_factory=lambda: (f"t{number}" for number in range(_TYPES)))

    def of(self, type_: AvroType, read: AvroType | None, level: int) -> Json:
        """``level`` is how deep in JSON the type stands."""
        if level > _DEEPEST:
            raise Unsuited("its types are nested deeper than polars-avro goes")
        if not has_bytes(type_):
            raise Unsuited(f"polars-avro does not know {describe(type_)}, of which no value has a byte, in every place")
        match type_:
            case Primitive(name="boolean") if read is not None:
                return {"type": "fixed", "name": self.name(), "size": 1}
            case Primitive():
                unread = {"int": "long", "string": "bytes"}
                return type_.name if read is not None else unread.get(type_.name, type_.name)
            case Enum():
                return "long" if read is None else "int"
            case Fixed():
                # A decimal on bytes is none here: arrow-avro reads no bytes at all as 0.
                meant = _decimal(type_.logical) if read is not None else {}
                return {"type": "fixed", "name": self.name(), "size": type_.size, **meant}
            case Array():
                items = read.items if isinstance(read, Array) else None
                return {"type": "array", "items": self.of(type_.items, items, level + 1)}
            case Map():
                key = "bytes" if read is None else "string"
                values = self.of(type_.values, read.values if isinstance(read, Map) else None, level + 4)
                return {"type": "array", "items": _record(self.name(), [("key", key), ("value", values)])}
            case Record():
                return self.record(type_, read, level)
            case Union():
                return self.union(type_, read, level)
            case NamedRef():
                raise Unsuited(f"polars-avro does not know the record {short_name(type_.name)}, which contains itself")

    def record(self, type_: Record, read: AvroType | None, level: int) -> Json:
        wanted = {field.name: field.type for field in read.fields} if isinstance(read, Record) else {}
        name = self.name()
        fields = [self.of(each.type, wanted.get(each.name), level + 3) for each in type_.fields if has_bytes(each.type)]
        return _record(name, [(f"f{at}", made) for at, made in enumerate(fields)])

    def union(self, type_: Union, read: AvroType | None, level: int) -> Json:
        if not 0 < len(type_.branches) <= _BRANCHES:
            raise Unsuited(f"polars-avro does not know a union of {len(type_.branches)} branches")
        wanted = read.branches if isinstance(read, Union) else [None] * len(type_.branches)
        branches = [
            "null" if is_null(b) else self.of(b, w, level + 4) for b, w in zip(type_.branches, wanted, strict=True)
        ]
        if type_.optional:
            # With a third branch, which no value has: otherwise no index would be wrong.
            return [*branches, {"type": "fixed", "name": self.name(), "size": 1}]
        return [made if made == "null" else _record(self.name(), [("value", made)]) for made in branches]

    def name(self) -> str:
        found = next(self.names, None)
        if found is None:
            raise Unsuited(f"it stands for more than {_TYPES} types")
        return found


def _decimal(logical: Logical | None) -> Json:
    if logical is None or logical.name != "decimal":
        return {}
    return {"logicalType": logical.name, "precision": logical.precision, "scale": logical.scale}


def _record(name: str, fields: list[tuple[str, Json]]) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields]}
