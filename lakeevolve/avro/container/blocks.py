"""The blocks of an object container file, unpacked, and where batches of rows end in them."""

from __future__ import annotations

import binascii
import bz2
import lzma
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa

from lakeevolve.avro.container.header import DAMAGED, LONG, SYNC, Header, number, opened
from lakeevolve.errors import SourceError

try:  # refuses what zlib refuses, in two thirds of the time
    from zlib_ng import zlib_ng as zlib
except ImportError:
    import zlib  # type: ignore[no-redef]

#: Encoded bytes that one batch holds at most, whatever ``batch_size`` says.
HELD: Final = 32 << 20
#: Bytes of a block, unpacked, at most: a few packed ones can stand for any number of bytes.
LARGEST: Final = 1 << 30
#: Bytes that are read, or unpacked, at a time.
_PIECE: Final = 1 << 18


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
        packed = _Packed(file, header.start if at is None else at, header.sync)
        number = first
        while packed.at < packed.end:
            here = packed.at
            try:
                count, data = packed.take()
                block = Block(number, here, count, unpack(data))
            except Exception as error:
                raise damaged(name, number, error) from error
            yield block
            number += 1


class _Packed:
    """The blocks of a file as they stand in it, from byte *at* on, read by the piece: most blocks are small."""

    def __init__(self, file: IO[bytes], at: int, sync: bytes) -> None:
        self._file = file
        self._sync = sync
        self.at = at
        self.end = os.fstat(file.fileno()).st_size
        #: Bytes of the file, and where they begin in it.
        self._held, self._from = b"", at

    def take(self) -> tuple[int, bytes]:
        """The count and the bytes of the next block. Raises ``ValueError`` or ``IndexError`` where it is none."""
        here = self._hold(2 * LONG)
        count, first = number(self._held, here)
        size, first = number(self._held, first)
        self.at += first - here
        if count & 1 or size & 1 or self.at + (size >> 1) + SYNC > self.end:
            raise ValueError("the block's count or size is wrong")
        data = self._bytes(size >> 1)
        if self._bytes(SYNC) != self._sync:
            raise ValueError("the block does not end where it should")
        return count >> 1, data

    def _bytes(self, size: int) -> bytes:
        if size > _PIECE:
            self._file.seek(self.at)
            self.at += size
            return self._file.read(size)
        here = self._hold(size)
        self.at += size
        return self._held[here : here + size]

    def _hold(self, size: int) -> int:
        """Where among the bytes that are held the next ones stand; there are *size* of them, unless the file ends."""
        here = self.at - self._from
        if here + size > len(self._held):
            self._file.seek(self.at)
            self._held, self._from, here = self._file.read(_PIECE), self.at, 0
        return here


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
    stream = zlib.decompressobj(-15)
    unpacked = _fitting(stream.decompress(data, LARGEST + 1))
    if not stream.eof:
        raise ValueError("the block's packed bytes have no end")
    return unpacked


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
