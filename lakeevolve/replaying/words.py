"""Values as 64-bit words, and the arithmetic of :mod:`lakeevolve.replaying.digests` over them.

Everything here is a handful of Arrow kernels per batch. Text and bytes are read through Arrow's view layout, in which
values of up to 12 bytes lie side by side, each padded with zeros: copying and padding them one by one costs several
times as much.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.errors import UnsupportedTable

_U64: Final = pa.uint64()
MASK: Final = 2**64 - 1

#: What a view holds of a value, and how many such pieces are taken one by one.
_PIECE: Final = 12
_PIECES: Final = 4

#: Long values are hashed in parts of at most this many bytes together, which bounds the scratch memory.
_PART: Final = 1 << 22


# --- constants ----------------------------------------------------------------------------------------------------


def number(*label: str) -> int:
    """The constant of a label."""
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    text = "".join(f"{len(part)}:{part}" for part in label)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def word(value: int) -> Any:
    """A word as a scalar."""
    return pa.scalar(value, _U64)


def odd(*label: str) -> Any:
    """The constant of a label with its last bit set, so that multiplying by it loses nothing."""
    return word(number(*label) | 1)


ZERO: Final = word(0)
_M1: Final = odd("mix 1")
_M2: Final = odd("mix 2")
_S32: Final = word(32)
_P: Final = number("powers a") | 1
_Q: Final = number("powers b") | 1
_LENGTH_A: Final = word(number("length a"))
_LENGTH_B: Final = word(number("length b"))
_NOTHING: Final = pa.scalar(b"", pa.binary())


def ones(mask: pa.Array) -> pa.Array:
    """1 where the mask (without nulls) is true, 0 elsewhere: multiplying by it is quicker than choosing."""
    return mask.cast(pa.uint8()).cast(_U64)


def zeros(rows: int) -> pa.Array:
    """As many words of 0."""
    return pa.repeat(ZERO, rows)


# --- arithmetic ---------------------------------------------------------------------------------------------------


def mix(x: pa.Array) -> pa.Array:
    """A bijection of words that no sum undoes: multiply, xor-shift, multiply."""
    x = pc.multiply(x, _M1)
    return pc.multiply(pc.bit_wise_xor(x, pc.shift_right(x, _S32)), _M2)


def fold(x: pa.Array) -> pa.Array:
    """The words with their high bits added to the low ones: in a product, they would reach few other bits."""
    return pc.add(x, pc.shift_right(x, _S32))


def segments(a: pa.Array, b: pa.Array, starts: pa.Array, lengths: pa.Array | None = None) -> tuple[pa.Array, pa.Array]:
    """Per row, the sums of ``P**i a_i`` and ``Q**i b_i`` over the row's words, plus the length's share.

    ``starts`` says where each row's words begin, and where the last row's end; ``lengths`` defaults to their count.
    """
    first = starts.slice(0, len(starts) - 1)
    if lengths is None:
        lengths = pc.subtract(starts.slice(1), first)
    lengths = lengths.cast(_U64)
    found = []
    for words, base, share in ((a, _P, _LENGTH_A), (b, _Q, _LENGTH_B)):
        powers, inverses = _powers(base, len(words) + 1)
        terms = pc.multiply(words, powers.slice(0, len(words)))
        sums = pc.cumulative_sum(pa.concat_arrays([_ONE_ZERO, terms])).take(starts)
        part = pc.subtract(sums.slice(1), sums.slice(0, len(first)))
        part = pc.multiply(part, inverses.take(first))
        found.append(pc.add(part, pc.multiply(lengths, share)))
    return found[0], found[1]


_ONE_ZERO: Final = pa.array([0], _U64)


class _Growing:
    """An array of which ever longer beginnings are asked for: made anew, twice as long, when it is too short."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._made: Any = None
        self._lock = threading.Lock()

    def __call__(self, count: int) -> pa.Array:
        made = self._made
        if made is None or len(made) < count:
            with self._lock:
                made = self._made
                if made is None or len(made) < count:
                    made = self._made = self._make(1 << max(12, (count - 1).bit_length()))
        return made.slice(0, count)


def _power_table(base: int, size: int) -> pa.Array:
    return pc.cumulative_prod(pa.concat_arrays([pa.array([1], _U64), pa.repeat(word(base), size - 1)]))


_TABLES: Final = {
    base: _Growing(functools.partial(_power_table, base)) for each in (_P, _Q) for base in (each, pow(each, -1, 2**64))
}


def _powers(base: int, count: int) -> tuple[pa.Array, pa.Array]:
    """*count* powers of *base*, and of its inverse, from the zeroth on."""
    return _TABLES[base](count), _TABLES[pow(base, -1, 2**64)](count)


# --- the words of leaves ------------------------------------------------------------------------------------------


def single(array: pa.Array) -> pa.Array | None:
    """Values of at most eight bytes as one word each, whatever for a null; None for values of another size."""
    t = pa.types
    type_ = array.type
    if t.is_boolean(type_):
        return dense(array).cast(pa.uint8()).cast(_U64)
    if t.is_string(type_) or _in_bytes(type_):
        return None
    width = type_.bit_width
    array = dense(array)
    if width == 64:
        words = array.view(_U64)
        return fold(words) if t.is_floating(type_) else words
    if t.is_floating(type_):
        return array.view(pa.uint16() if width == 16 else pa.uint32()).cast(_U64)
    if t.is_unsigned_integer(type_):
        return array.cast(_U64)
    signed = {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}[width]
    return array.view(signed).cast(pa.int64()).view(_U64)


def _in_bytes(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_binary(type_) or t.is_fixed_size_binary(type_) or _wide_decimal(type_))


def _wide_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(type_) or pa.types.is_decimal256(type_))


def dense(array: pa.Array) -> pa.Array:
    """A flat array without its validity: kernels are quicker, and what is null is dealt with by the caller."""
    if array.null_count == 0:
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], offset=array.offset)


def pairs(array: pa.Array, ones: pa.Array | None) -> Iterator[tuple[int, pa.Array]]:
    """The pairs of words of wider values: the pair's number, and the two words of each value side by side.

    *ones* says which values are not null; the words of nulls are 0.
    """
    if _wide_decimal(array.type) or (pa.types.is_fixed_size_binary(array.type) and array.type.byte_width == 16):
        yield from _sixteens(array, ones)
        return
    array = array.cast(pa.binary())
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    for index in range(min(_PIECES, -(-longest // _PIECE))):
        piece = array
        if longest > _PIECE:
            piece = pc.binary_slice(array, index * _PIECE, (index + 1) * _PIECE)
        # The view of a null is all zeros.
        views = piece.cast(pa.binary_view())
        yield index, fold(_view_words(views.buffers()[1], views.offset * 2, len(views) * 2))
    if longest > _PIECE * _PIECES:
        yield _PIECES, _long(array)


def _sixteens(array: pa.Array, ones: pa.Array | None) -> Iterator[tuple[int, pa.Array]]:
    count, per_row = len(array), array.type.byte_width // 8
    words = _view_words(array.buffers()[1], array.offset * per_row, count * per_row)
    for index in range(per_row // 2):
        found = words if per_row == 2 else words.take(_pairs_of(per_row, index * 2, count))
        yield index, found if ones is None else pc.multiply(found, ones.take(_doubled(count * 2)))


def split(pairs: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The first and the second words of pairs that lie side by side."""
    count = len(pairs) // 2
    return pairs.take(_evens(count)), pairs.take(_odds(count))


def _long(array: pa.Array) -> pa.Array:
    """The pairs of the bytes that the pieces do not cover; 0 for shorter ones."""
    longer = pc.fill_null(pc.greater(pc.binary_length(array), pa.scalar(_PIECE * _PIECES, pa.int32())), False)
    words = pa.concat_arrays(_polynomials(array.filter(longer)))
    count = len(words) // 2
    woven = words.take(pc.add(_doubled(count * 2), pc.multiply(_parity(count * 2), pa.scalar(count, pa.int64()))))
    return pc.replace_with_mask(zeros(len(array) * 2), longer.take(_doubled(len(array) * 2)), woven)


def _polynomials(data: pa.Array) -> tuple[pa.Array, pa.Array]:
    lengths = pc.binary_length(data)
    if len(data) > 1 and pc.sum(lengths).as_py() > _PART:
        middle = len(data) // 2
        one, two = _polynomials(data.slice(0, middle)), _polynomials(data.slice(middle))
        return pa.concat_arrays([one[0], two[0]]), pa.concat_arrays([one[1], two[1]])
    pads = _pads().take(pc.bit_wise_and(lengths, pa.scalar(7, pa.int32())))
    padded = pc.binary_join_element_wise(data, pads, _NOTHING)
    _, offsets, content = padded.buffers()
    starts = pa.Array.from_buffers(pa.int32(), len(padded) + 1, [None, offsets], offset=padded.offset)
    mixed = mix(_view_words(content, 0, starts[-1].as_py() // 8))
    return segments(mixed, mixed, pc.shift_right(starts, pa.scalar(3, pa.int32())), lengths)


def _view_words(buffer: Any, start: int, count: int) -> pa.Array:
    """A buffer's bytes as little-endian words."""
    if sys.byteorder != "little":  # pragma: no cover - pyarrow has no such wheels
        raise UnsupportedTable("row digests are implemented for little-endian machines")
    if count == 0:
        return pa.array([], _U64)
    return pa.Array.from_buffers(_U64, count, [None, buffer], offset=start)


@functools.cache
def _pads() -> pa.Array:
    return pa.array([b"\0" * (-length % 8) for length in range(8)], pa.binary())


# --- places -------------------------------------------------------------------------------------------------------


def _counted(step: int, start: int, size: int) -> pa.Array:
    """start, start + step, ... as int64."""
    return pc.add(pc.cumulative_sum(pa.repeat(pa.scalar(step, pa.int64()), size)), pa.scalar(start - step, pa.int64()))


def _halved(size: int) -> pa.Array:
    return pc.shift_right(_counted(1, 0, size), pa.scalar(1, pa.int64()))


_evens: Final = _Growing(functools.partial(_counted, 2, 0))
_odds: Final = _Growing(functools.partial(_counted, 2, 1))
#: 0, 0, 1, 1, 2, 2, ...
_doubled: Final = _Growing(_halved)


_parity: Final = _Growing(lambda size: pc.bit_wise_and(_counted(1, 0, size), pa.scalar(1, pa.int64())))


def _pairs_of(per_row: int, start: int, count: int) -> pa.Array:
    """The places of two words of each row, *start* and the next, where a row has *per_row*."""
    rows = pc.multiply(_doubled(count * 2), pa.scalar(per_row, pa.int64()))
    return pc.add(pc.add(rows, _parity(count * 2)), pa.scalar(start, pa.int64()))
