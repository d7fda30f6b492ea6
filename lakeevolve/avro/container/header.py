"""The header of an object container file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import IO, Final

from lakeevolve.avro.parse import parse
from lakeevolve.errors import SchemaError, SourceError, SourceNotFound
from lakeevolve.model.schema import Schema

MAGIC: Final = b"Obj\x01"
SYNC: Final = 16
#: Bytes of a long at most.
LONG: Final = 10
DAMAGED: Final = "copy the file again from where it came from, or write it anew"
#: A header of more bytes than this is taken for damage.
_LARGEST: Final = 64 << 20


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
    with opened(name) as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise SourceError(
                "this is not an Avro object container file", where=name, hint="data without a header has no schema"
            )
        metadata = _metadata(file, name)
        sync = _exactly(file, SYNC, name)
        start = file.tell()
    if "avro.schema" not in metadata:
        raise SourceError("the file holds no schema", where=name, hint=DAMAGED)
    codec = metadata.get("avro.codec", b"null").decode("ascii", "replace")
    return Header(_schema(metadata["avro.schema"], name), codec, metadata, sync, start)


def opened(name: str) -> IO[bytes]:
    try:
        return open(name, "rb")
    except FileNotFoundError as error:
        raise SourceNotFound("there is no such file", where=name, hint="check the path") from error
    except OSError as error:
        raise SourceError(f"the file cannot be opened: {error.strerror}", where=name, hint="check the path") from error


def written(schema: str, sync: bytes) -> bytes:
    """The header of a file that is not compressed."""
    text = schema.encode()
    return b"".join((MAGIC, b"\x02", long(11), b"avro.schema", long(len(text)), text, b"\x00", sync))


def long(number: int) -> bytes:
    """A long that is not negative, as Avro encodes it."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(data: bytes, at: int) -> tuple[int, int]:
    """A long as it is encoded, twice itself or, where it is negative, odd; and where it ends.

    Raises ``IndexError`` where the bytes end before it, ``ValueError`` for one of more than 64 bits.
    """
    found = shift = 0
    while shift < LONG * 7:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            if found >> 64:
                break
            return found, at
        shift += 7
    raise ValueError("a number has more than 64 bits")


def signed(encoded: int) -> int:
    """The number that :func:`number` found."""
    return (encoded >> 1) ^ -(encoded & 1)


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
    data = file.read(LONG)
    try:
        found, end = number(data, 0)
        file.seek(end - len(data), os.SEEK_CUR)
        return signed(found)
    except IndexError:
        raise SourceError("the file's header is cut off or damaged", where=name, hint=DAMAGED) from None
    except ValueError as error:
        raise SourceError("the file's header is damaged", where=name, hint=DAMAGED) from error


def _exactly(file: IO[bytes], size: int, name: str) -> bytes:
    data = file.read(size) if 0 <= size <= _LARGEST else b""
    if len(data) != size:
        raise SourceError("the file's header is cut off or damaged", where=name, hint=DAMAGED)
    return data


def _schema(text: bytes, name: str) -> Schema:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SourceError("the schema in the file's header is not JSON", where=name, hint=DAMAGED) from error
    except RecursionError:
        raise SchemaError("the schema in the file's header is nested too deep", where=name, hint=DAMAGED) from None
    # Within a field, a list is a union; at the root, it might be taken for a file of named types.
    found = parse(
        {"type": "record", "name": "header", "fields": [{"name": "value", "type": document}]},
        source_name=name,
        lenient=True,
    )
    return Schema(found.fields[0].type, source=name, warnings=found.warnings)
