"""The blocks of an object container file, unpacked, and where batches of rows end in them."""

from __future__ import annotations

import binascii
import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa

from lakeevolve.avro.container.header import DAMAGED, SYNC, Header, opened, read_long
from lakeevolve.errors import SourceError

#: Encoded bytes that one batch holds at most, whatever ``batch_size`` says.
HELD: Final = 32 << 20
#: Bytes of a block, unpacked, at most: a few packed ones can stand for any number of bytes.
LARGEST: Final = 1 << 30
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its number (from 1), its place in the file, and its rows as Avro encodes them."""

    number: int
    at: int
    count: int
    data: bytes


def blocks(name: str, header: Header, first: int = 1, at: int | None = None) -> Iterator[Block]:
    """The blocks of a file from the one at byte *at*, which has the number *first*.

    Raises ``SourceError``, with the number of the block, where the file is cut off or damaged. A file that ends exactly
    where a block ends is a valid file.
    """
    unpack = unpacker(name, header.codec)
    with opened(name) as file:
        end = os.fstat(file.fileno()).st_size
        here = file.seek(header.start if at is None else at)
        number = first
        while here < end:
            try:
                count, packed, after = _block(file, here, end, header.sync)
                block = Block(number, here, count, unpack(packed))
            except Exception as error:
                raise damaged(name, number, error) from error
            yield block
            number, here = number + 1, after


def _block(file: IO[bytes], at: int, end: int, sync: bytes) -> tuple[int, bytes, int]:
    """The count and the packed bytes of the block at *at*, and where the next one begins; the file ends at *end*."""
    count, first = read_long(file)
    size, second = read_long(file)
    after = at + first + second + size + SYNC
    if count < 0 or size < 0 or after > end:
        raise ValueError("the block's count or size is wrong")
    packed = file.read(size)
    if file.read(SYNC) != sync:
        raise ValueError("the block does not end where it should")
    return count, packed, after


class Excess(ValueError):
    """More of something than is read of a block; the text says of what, for a user."""


def damaged(name: str, block: int, why: Exception | None = None) -> SourceError:
    """What is raised from whatever a decoder, a codec or Python raises over damaged bytes."""
    what = str(why) if isinstance(why, Excess) else "the file is cut off or damaged"
    return SourceError(what, where=f"{name}, block {block}", hint=DAMAGED)


@dataclass(slots=True)
class Cuts:
    """Where batches end: after ``batch_size`` rows, or earlier where rows are large.

    How many bytes a row has is told by its block as a whole, so that it does not matter who decodes it.
    """

    batch_size: int
    rows: int = 0
    held: int = 0

    def cut(self, block: Block) -> Iterator[tuple[int, bool]]:
        """The rows of the next block in pieces, each with whether a batch ends behind it."""
        count, size, done = block.count, len(block.data), 0
        while done < count:
            rows = min(self.batch_size - self.rows, count - done)
            if size:
                rows = min(rows, max(1, -(-(HELD - self.held) * count // size)))
            self.held += (done + rows) * size // count - done * size // count
            self.rows += rows
            done += rows
            ends = self.rows >= self.batch_size or self.held >= HELD
            if ends:
                self.rows = self.held = 0
            yield rows, ends


def unpacker(name: str, codec: str) -> Callable[[bytes], bytes]:
    """The inverse of a codec. Raises ``SourceError`` for one that is not known."""
    arrow = {"snappy": "snappy", "zstandard": "zstd", "lz4": "lz4_raw"}.get(codec, codec)
    if codec not in _CODECS or (codec in ("snappy", "zstandard", "lz4") and not pa.Codec.is_available(arrow)):
        raise SourceError(
            f"the file's codec cannot be read: {codec!r}", where=name, hint="write the file with the codec deflate"
        )
    return _CODECS[codec]


def _deflate(data: bytes) -> bytes:
    # Some writers leave the end of the zlib format behind the deflated bytes.
    return _fitting(zlib.decompressobj(-15).decompress(data, LARGEST + 1))


def _bzip2(data: bytes) -> bytes:
    return _streams(bz2.BZ2Decompressor, data)


def _xz(data: bytes) -> bytes:
    return _streams(lzma.LZMADecompressor, data)


def _streams(make: Callable[[], Any], data: bytes) -> bytes:
    """What packed streams hold that follow each other; what follows and is none is passed over."""
    parts: list[bytes] = []
    size = 0
    while data:
        stream = make()
        try:
            part = stream.decompress(data, LARGEST - size + 1)
        except (OSError, lzma.LZMAError):
            if parts:
                break
            raise
        parts.append(part)
        size += len(_fitting(part, size))
        if not stream.eof:
            raise ValueError("the block's packed bytes have no end")
        data = stream.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _fitting(data: bytes, before: int = 0) -> bytes:
    if before + len(data) > LARGEST:
        raise Excess(f"the block holds more than {LARGEST:,} bytes when it is unpacked")
    return data


def _snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > min(64 * len(data), LARGEST):  # at best, three bytes stand for 64
        raise ValueError("the block's size is wrong")
    unpacked: bytes = pa.decompress(data[:-4], size, "snappy", asbytes=True)
    # What Avro puts behind a block: the CRC32 of what it holds.
    if binascii.crc32(unpacked) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the block's checksum is wrong")
    return unpacked


def _zstandard(data: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(data), compression="zstd") as stream:
        parts: list[bytes] = []
        size = 0
        while part := stream.read(_PIECE):
            size += len(_fitting(part, size))
            parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _lz4(data: bytes) -> bytes:
    # No codec of the specification; what fastavro writes under the name: the size, then one block.
    size = int.from_bytes(data[:4], "little")
    if size > min(256 * len(data), LARGEST):
        raise ValueError("the block's size is wrong")
    unpacked: bytes = pa.decompress(data[4:], size, "lz4_raw", asbytes=True)
    return unpacked


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _deflate,
    "bzip2": _bzip2,
    "xz": _xz,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "lz4": _lz4,
}
