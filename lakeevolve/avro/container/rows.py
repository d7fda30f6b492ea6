"""Decoding with fastavro, row by row: every type, and every reason why a block cannot be decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import fastavro
import pyarrow as pa

from lakeevolve.avro.arrow import arrow_type
from lakeevolve.avro.arrow.raw import without_logical
from lakeevolve.avro.container.blocks import Block, Cuts, damaged
from lakeevolve.avro.container.header import SYNC, long, written
from lakeevolve.avro.container.strict import Walk
from lakeevolve.errors import SchemaError
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Json,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    branch_names,
    is_null,
)

_MARK: Final = bytes(SYNC)


class Rows:
    """fastavro, set up for one file.

    Parameters
    ----------
    name:
        The file, for messages.
    type_, read:
        The type of the file's rows, and the part of it that is wanted.
    """

    def __init__(self, name: str, type_: AvroType, read: AvroType) -> None:
        self._name = name
        self._head = written(json.dumps(_wire_json(type_, {})), _MARK)
        self._wire = _wire_type(read)
        self._walk = Walk(type_)

    def decode(
        self, blocks: Iterator[Block], cuts: Cuts, begun: Sequence[pa.Array] = (), skip: int = 0
    ) -> Iterator[list[pa.Array]]:
        """The rows of the blocks in the wire layout, one list of arrays for each batch.

        Parameters
        ----------
        cuts:
            Where batches end, from the first block on.
        begun:
            The rows of the first batch that are decoded already.
        skip:
            Rows of the first block that are in earlier batches.

        Raises ``SourceError`` for damage, before any row of the block that has it.
        """
        stream = _Stream(self._head)
        reader = fastavro.block_reader(stream)
        rows: list[Any] = []
        for block in blocks:
            try:
                self._walk.check(block)
            except (ValueError, IndexError) as error:
                raise damaged(self._name, block.number, error) from error
            stream.give(long(block.count) + long(len(block.data)) + block.data + _MARK)
            records = iter(next(reader))
            for count, ends in cuts.cut(block):
                rows += islice(records, count)
                if skip:
                    rows, skip = [], skip - count
                elif ends:
                    yield [*begun, pa.array(rows, self._wire)]
                    rows, begun = [], []
        if rows:
            begun = [*begun, pa.array(rows, self._wire)]
        if begun:
            yield [*begun]


class _Stream:
    """What fastavro reads from: a header, then whatever block it is given."""

    def __init__(self, data: bytes) -> None:
        self.give(data)

    def give(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, size: int = -1) -> bytes:
        data = self._data[self._at : self._at + size]
        self._at += len(data)
        return data

    def tell(self) -> int:
        return self._at


def _wire_name(name: str) -> str:
    """A name that fastavro takes, whatever an old schema says."""
    return "f" + name.encode().hex()


def _wire_json(type_: AvroType, names: dict[str, str]) -> Json:
    """A schema of the same structure: texts and booleans are bytes, enums numbers, maps lists of key and value.

    Each branch of a union is a record with one field, which adds no byte and says which branch it is. ``names`` holds
    the types that are defined already.
    """
    match type_:
        case Primitive(name="boolean"):
            return {"type": "fixed", "name": _fresh(names), "size": 1}
        case Primitive():
            return {"int": "long", "string": "bytes"}.get(type_.name, type_.name)
        case Enum():
            return "long"
        case Fixed():
            return {"type": "fixed", "name": _fresh(names), "size": type_.size}
        case Array():
            return {"type": "array", "items": _wire_json(type_.items, names)}
        case Map():
            pair = [("key", "bytes"), ("value", _wire_json(type_.values, names))]
            return {"type": "array", "items": _wire_record(_fresh(names), pair)}
        case Union():
            if type_.optional:
                return [_wire_json(branch, names) for branch in type_.branches]
            labels = iter(branch_names(type_))
            return [
                "null"
                if is_null(branch)
                else _wire_record(_fresh(names), [(_wire_name(next(labels)), _wire_json(branch, names))])
                for branch in type_.branches
            ]
        case NamedRef():
            if type_.name not in names:
                hint = "write the file with a whole schema"
                raise SchemaError(f"the schema of the file does not define {type_.name}", hint=hint)
            return names[type_.name]
        case Record():
            if type_.name in names:
                return names[type_.name]
            names[type_.name] = label = _fresh(names)
            return _wire_record(label, [(_wire_name(f.name), _wire_json(f.type, names)) for f in type_.fields])


def _wire_record(name: str, fields: list[tuple[str, Json]]) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields]}


def _fresh(names: dict[str, str]) -> str:
    names[f"\0{len(names)}"] = label = f"t{len(names)}"
    return label


def _wire_type(type_: AvroType) -> pa.DataType:
    """What fastavro yields for :func:`_wire_json`, in Arrow. Fields that are not in *type_* are passed over."""
    match type_:
        case Primitive(name="int") | Enum():
            return pa.int64()
        case Primitive(name="string"):
            return pa.binary()
        case Primitive(name="boolean"):
            return pa.binary(1)
        case Array():
            return pa.list_(_wire_type(type_.items))
        case Map():
            return pa.list_(pa.struct([("key", pa.binary()), ("value", _wire_type(type_.values))]))
        case Record():
            return pa.struct([(_wire_name(f.name), _wire_type(f.type)) for f in type_.fields])
        case Union():
            if type_.optional:
                return _wire_type(type_.values[0])
            labels = branch_names(type_)
            return pa.struct([(_wire_name(n), _wire_type(b)) for n, b in zip(labels, type_.values, strict=True)])
    return arrow_type(without_logical(type_))
