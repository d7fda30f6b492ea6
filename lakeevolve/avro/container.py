"""Avro object container files as Arrow (Avro 1.12, "Object Container Files").

fastavro decodes, and is handed an equivalent schema in place of the file's own: the bytes of a value depend on the
structure alone, so logical types are left out, texts are decoded as bytes, symbols as their numbers, maps as arrays of
key and value, and each branch of a union as a record with one field, which adds no byte and says which branch it is.
What comes out goes into Arrow as it is, and the meaning is put back column by column.
"""

from __future__ import annotations

import binascii
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, Final

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import arrow_schema, arrow_type, nested
from lakeevolve.avro.arrow.failures import Failures, Rows
from lakeevolve.avro.arrow.layout import convert
from lakeevolve.avro.arrow.promote import text
from lakeevolve.avro.arrow.prune import Pruned, prune
from lakeevolve.avro.arrow.raw import from_plain, without, without_logical
from lakeevolve.avro.arrow.read import batch_of, checked, read_array
from lakeevolve.avro.arrow.types import root_type
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import SchemaError, SourceError, SourceNotFound
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
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
    describe,
    is_null,
)

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
#: A header of more bytes than this is taken for damage.
_LARGEST_HEADER: Final = 64 << 20
#: Rows that are decoded before the size of what is held is looked at again.
_PIECE: Final = 1024
#: Encoded bytes that are held as Python objects at most, whatever ``batch_size`` says.
_HELD: Final = 32 << 20

_MEND: Final = "write the file again without such values"
_DAMAGED: Final = "copy the file again from where it came from, or write it anew"


@dataclass(frozen=True, slots=True)
class Header:
    """What a container file says about itself: its schema, its codec, the other metadata, where the blocks begin."""

    schema: Schema
    codec: str
    metadata: dict[str, bytes]
    sync: bytes
    start: int


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read the header of an object container file.

    Raises
    ------
    SourceNotFound
        There is no such file.
    SourceError
        It cannot be read or is not an object container file; :class:`SchemaError` where its schema is not valid.
    """
    name = os.fspath(path)
    with _opened(name) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise SourceError(
                "this is not an Avro object container file", where=name, hint="data without a header has no schema"
            )
        metadata = _metadata(file, name)
        sync = _exactly(file, _SYNC, name)
        start = file.tell()
    if "avro.schema" not in metadata:
        raise SourceError("the file holds no schema", where=name, hint=_DAMAGED)
    codec = metadata.get("avro.codec", b"null").decode("ascii", "replace")
    return Header(_schema(metadata["avro.schema"], name), codec, metadata, sync, start)


def read_avro(
    path: str | os.PathLike[str], reader: Schema | None = None, batch_size: int = 65_536
) -> pa.RecordBatchReader:
    """Read an Avro object container file as Arrow.

    Parameters
    ----------
    path:
        A local file, of any codec that fastavro knows on this machine.
    reader:
        The schema to read it as; None for the file's own. Fields that it leaves out may be of types that have no
        table form.
    batch_size:
        Rows per batch at most. Batches are shorter where rows are large: memory does not grow with the file.

    Returns
    -------
    pyarrow.RecordBatchReader
        With the schema ``arrow_schema(reader)``. The file is read as the batches are consumed. A file that was cut
        off exactly where a block ends is a valid, shorter file; nothing in it tells.

    Raises
    ------
    SourceNotFound, SourceError, SchemaError
        As :func:`read_header`; and, while batches are consumed, ``SourceError`` for a file that is cut off or
        damaged, with the number of the block (from 1).
    ResolutionError
        The file's schema cannot be read as *reader*; ``ValueMismatch``, while batches are consumed, for a value.

    Examples
    --------
    >>> import tempfile, fastavro
    >>> schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    >>> with tempfile.NamedTemporaryFile(suffix=".avro") as file:
    ...     fastavro.writer(file, schema, [{"id": 1}, {"id": 2}])
    ...     file.flush()
    ...     read_avro(file.name).read_all().to_pylist()
    [{'id': 1}, {'id': 2}]
    """
    if batch_size < 1:
        raise SourceError("a batch holds at least one row", where=f"batch_size={batch_size}")
    name = os.fspath(path)
    header = read_header(name)
    pruned = None if reader is None else prune(checked(resolve(header.schema, reader)))
    written = header.schema if pruned is None else pruned.writer
    schema = arrow_schema(header.schema if reader is None else reader)
    root_type(written)  # raises for what is read and has no table form
    rows = _rows(name, header, _head(header), batch_size)
    return pa.RecordBatchReader.from_batches(schema, _batches(name, rows, written.root, pruned, schema))


def _batches(
    name: str, pieces: Iterator[list[Any]], written: AvroType, pruned: Pruned | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    wire, strict = _wire_type(written), pa.struct(list(schema))
    first = 0
    for rows in pieces:
        array = _columns(pa.array(rows, wire), written, name, first)
        if pruned is None:
            array = convert(array, strict, written, error=SourceError, canonical=True)
        else:
            array = read_array(pruned, array, partial=False, strict=True, row_offset=first)
        first += len(rows)
        yield batch_of(array, schema)


def _rows(name: str, header: Header, head: bytes, batch_size: int) -> Iterator[list[Any]]:
    """The decoded rows of the file, as many at a time as a batch holds."""
    rows: list[Any] = []
    held = number = 0
    with _opened(name) as file:
        spliced = _Spliced(file, head, header.start)
        end = spliced.skipped
        blocks: Iterator[Any] = iter(())
        while True:
            number += 1
            with _decoding(name, number):
                blocks = fastavro.block_reader(spliced) if number == 1 else blocks
                block = next(blocks, None)
                if block is None:
                    break
                _verify(block, spliced)
                records, at = iter(block), 0
                end = block.offset + block.size
            more = True
            while more:
                with _decoding(name, number):
                    wanted = min(_PIECE, batch_size - len(rows))
                    piece = list(islice(records, wanted))
                    held += block.bytes_.tell() - at
                    at = block.bytes_.tell()
                    more = len(piece) == wanted
                    if not more and block.bytes_.read(1):
                        raise ValueError("the block holds more bytes than records")
                rows += piece
                if len(rows) >= batch_size or held >= _HELD:
                    yield rows
                    rows, held = [], 0
        # fastavro takes a number that is cut off for the end of the file.
        if end != spliced.tell():
            raise _damaged(name, number)
    if rows:
        yield rows


@contextmanager
def _decoding(name: str, block: int) -> Iterator[None]:
    """Whatever fastavro, a codec or Python raises over damaged bytes, as an error of ours."""
    try:
        yield
    except Exception as error:
        if "you need to install" in str(error) or "Unrecognized codec" in str(error):
            hint = "install what the codec needs, or write the file with deflate"
            raise SourceError(f"the file's codec cannot be read: {error}", where=name, hint=hint) from error
        raise _damaged(name, block) from error


def _damaged(name: str, block: int) -> SourceError:
    return SourceError("the file is cut off or damaged", where=f"{name}, block {block}", hint=_DAMAGED)


def _verify(block: Any, spliced: _Spliced) -> None:
    if block.num_records < 0:
        raise ValueError("the block's count is negative")
    if block.codec == "snappy":
        # fastavro reads past the checksum that Avro puts behind a snappy block (big-endian CRC32 of what it held).
        checksum = int.from_bytes(spliced.recent[-_SYNC - 4 : -_SYNC], "big")
        if binascii.crc32(block.bytes_.getvalue()) != checksum:
            raise ValueError("the block's checksum is wrong")


class _Spliced:
    """A file with another header: what fastavro reads from."""

    def __init__(self, file: IO[bytes], head: bytes, start: int) -> None:
        file.seek(start)
        self._file, self._head, self._at = file, head, 0
        self.skipped = len(head)
        self.recent = b""

    def read(self, size: int = -1) -> bytes:
        """At most *size* bytes; fewer only at the end of the header or of the file."""
        data = self._head[self._at : self._at + size] if self._at < self.skipped else self._file.read(size)
        self._at += len(data)
        self.recent = (self.recent + data)[-_SYNC - 4 :] if len(data) < _SYNC + 4 else data[-_SYNC - 4 :]
        return data

    def tell(self) -> int:
        return self._at


def _head(header: Header) -> bytes:
    schema = json.dumps(_wire_json(header.schema.root, {})).encode()
    pairs = {b"avro.schema": schema, b"avro.codec": header.codec.encode()}
    blob = b"".join(_length(len(key)) + key + _length(len(value)) + value for key, value in pairs.items())
    return _MAGIC + _length(len(pairs)) + blob + b"\x00" + header.sync


def _length(number: int) -> bytes:
    """A long that is not negative, as Avro encodes it."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _opened(name: str) -> IO[bytes]:
    try:
        return open(name, "rb")
    except FileNotFoundError as error:
        raise SourceNotFound("there is no such file", where=name, hint="check the path") from error
    except OSError as error:
        raise SourceError(f"the file cannot be opened: {error.strerror}", where=name, hint="check the path") from error


def _metadata(file: IO[bytes], name: str) -> dict[str, bytes]:
    found = {}
    while count := _long(file, name):
        if count < 0:
            _long(file, name)  # the size of the block in bytes
        for _ in range(abs(count)):
            key = _exactly(file, _long(file, name), name).decode("utf-8", "replace")
            found[key] = _exactly(file, _long(file, name), name)
    return found


def _long(file: IO[bytes], name: str) -> int:
    number = shift = 0
    while True:
        byte = _exactly(file, 1, name)[0]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        if shift > 63:
            raise SourceError("the file's header is damaged", where=name, hint=_DAMAGED)


def _exactly(file: IO[bytes], size: int, name: str) -> bytes:
    data = file.read(size) if 0 <= size <= _LARGEST_HEADER else b""
    if len(data) != size:
        raise SourceError("the file's header is cut off or damaged", where=name, hint=_DAMAGED)
    return data


def _schema(text: bytes, name: str) -> Schema:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SourceError("the schema in the file's header is not JSON", where=name, hint=_DAMAGED) from error
    # Within a field, a list is a union; at the root, it might be taken for a file of named types.
    found = parse(
        {"type": "record", "name": "header", "fields": [{"name": "value", "type": document}]},
        source_name=name,
        lenient=True,
    )
    return Schema(found.fields[0].type, source=name, warnings=found.warnings)


def _wire_name(name: str) -> str:
    """A name that fastavro takes, whatever an old schema says."""
    return "f" + name.encode().hex()


def _wire_json(type_: AvroType, names: dict[str, str]) -> Json:
    """A schema of the same structure for fastavro. ``names`` holds the types that are defined already."""
    match type_:
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


def _columns(array: pa.Array, type_: AvroType, name: str, first: int) -> pa.Array:
    """Decoded rows in the loose canonical layout. ``first`` is the number of the first row, for messages."""
    failures = Failures()
    made = _Columns(failures).read(array, type_, Rows(), paths.ROOT)
    if failures.row is not None:
        where = f"{name}, row {first + failures.row}, {failures.path or '$'}"
        raise SourceError(failures.what, where=where, hint=failures.hint)
    return made


class _Columns:
    def __init__(self, failures: Failures) -> None:
        self.failures = failures

    def read(self, array: pa.Array, type_: AvroType, rows: Rows, path: str) -> pa.Array:
        match type_:
            case Primitive() | Fixed():
                return self._plain(array, type_, rows, path)
            case Enum():
                return self._symbols(array, type_, rows, path)
            case Array():
                offsets, values = nested.lists(array)
                read = self.read(values, type_.items, rows.inside(offsets), paths.items(path))
                return nested.list_like(pa.list_(pa.field("item", read.type)), offsets, read, array)
            case Map():
                offsets, entries = nested.lists(array)
                keys, values = nested.fields(entries)
                inside, below = rows.inside(offsets), paths.values(path)
                keys = text(keys, inside, below, self.failures)
                read = self.read(values, type_.values, inside, below)
                target = pa.map_(pa.string(), read.type)
                return nested.list_like(target, offsets, nested.entries(target, keys, read), array)
            case Record():
                fields = [(f.name, f.type, paths.child(path, f.name)) for f in type_.fields]
                return self._struct(array, fields, rows)
            case Union():
                if type_.optional:
                    return self.read(array, type_.values[0], rows, path)
                names = branch_names(type_)
                branches = [(n, b, paths.branch(path, n)) for n, b in zip(names, type_.values, strict=True)]
                return self._struct(array, branches, rows)
        raise AssertionError("arrow_type refuses recursive types")

    def _symbols(self, array: pa.Array, type_: Enum, rows: Rows, path: str) -> pa.Array:
        def report(bad: pa.Array, why: str) -> None:
            self.failures.where(bad, rows, path, why, _DAMAGED)

        far = pc.or_(pc.less(array, 0), pc.greater_equal(array, len(type_.symbols)))
        which = without(array, far, f"a number that is no symbol of {describe(type_)}", report)
        return pa.array(type_.symbols, pa.string()).take(which)

    def _struct(self, array: pa.Array, fields: list[tuple[str, AvroType, str]], rows: Rows) -> pa.Array:
        children = nested.fields(array)
        made = [self.read(child, type_, rows, path) for child, (_, type_, path) in zip(children, fields, strict=True)]
        struct = pa.struct([pa.field(name, a.type) for (name, _, _), a in zip(fields, made, strict=True)])
        return nested.struct(struct, made, array)

    def _plain(self, array: pa.Array, type_: Primitive | Fixed, rows: Rows, path: str) -> pa.Array:
        def report(bad: pa.Array, why: str) -> None:
            self.failures.where(bad, rows, path, f"a value of type {describe(type_)} cannot be read: {why}", _MEND)

        if type_.name == "int":
            far = pc.or_(pc.less(array, -(2**31)), pc.greater(array, 2**31 - 1))
            array = without(array, far, "it has more than 32 bits", report).cast(pa.int32())
        elif type_.name == "string":
            array = text(array, rows, path, self.failures)
        return from_plain(array, type_, report)
