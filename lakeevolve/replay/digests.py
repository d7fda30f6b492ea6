"""A 128-bit digest per row of its canonical form.

The digest is two 64-bit words, computed column by column with Arrow kernels and no code per row. It depends on the
values, the column names and the column types alone: not on batch boundaries, slices, garbage under nulls, column
order, machine or library version. All arithmetic is modulo 2**64; constants are the first eight bytes (little endian)
of BLAKE2b over a label.

==================  ==================================================================================================
value               two words ``(a, b)``
==================  ==================================================================================================
up to 8 bytes       ``(w, w)``: integers sign-extended, floats and the rest by their bits (NaN payload and -0.0 count)
bytes, text, wider  ``(sum P**i mix(w_i) + n L, sum Q**i mix(w_i) + n M)`` over the zero-padded little-endian 8-byte
                    words ``w_i`` of the ``n`` bytes
list                the same sums over the linked items in place of ``mix(w_i)``, ``n`` the number of items
map                 as a list of its entries in stored order: another order is another value
struct              the sums of its linked fields
null                a pair that the field's name alone gives: a column that is missing is a column of nulls, and null,
                    empty and all-null differ at each level
==================  ==================================================================================================

*Linking* a field gives ``(mix(a + c), mix(b + d))``, or ``(mix(w + c), q mix(w + c))`` for ``(w, w)``, where c, d and
q come from the field's name and type. A row's digest is ``(mix(sum of a), mix(sum of b))`` over its linked columns.

The digest finds faults; it is no defence against a forger who picks values for it. :mod:`lakeevolve.replay.evidence`
seals with SHA-256.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.errors import UnsupportedTable
from lakeevolve.replay.canonical import (
    child_fields,
    counting,
    lengths_of,
    list_parts,
    normalise_array,
    type_text,
    with_zero,
)

_U64: Final = pa.uint64()
_MASK: Final = 2**64 - 1

#: Strings and lists are hashed in pieces of at most this many bytes or items, which bounds the scratch memory.
_PIECE: Final = 1 << 19



class Words(NamedTuple):
    """One pair of words per row. ``b is a`` where one word says everything."""

    a: pa.Array
    b: pa.Array

    def filter(self, mask: pa.Array) -> Words:
        """The words of the rows that the mask lets through."""
        return Words(self.a.filter(mask), self.b.filter(mask))


@dataclass(frozen=True, slots=True)
class Sum:
    """The digest of a multiset of rows: how many, and the sums of their words. The order of rows does not count."""

    count: int = 0
    a: int = 0
    b: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.count + other.count, (self.a + other.a) & _MASK, (self.b + other.b) & _MASK)

    @classmethod
    def of(cls, words: Words) -> Sum:
        """The sum over rows."""
        return cls(len(words.a), pc.sum(words.a).as_py() or 0, pc.sum(words.b).as_py() or 0)

    @property
    def hex(self) -> str:
        """The two sums as 32 hexadecimal digits."""
        return f"{self.a:016x}{self.b:016x}"


def row_digests(batch: pa.RecordBatch) -> Words:
    """The digest of every row.

    Parameters
    ----------
    batch:
        Rows in any layout; they are normalised first.

    >>> import pyarrow as pa
    >>> one = row_digests(pa.record_batch({"id": [1, 2], "name": ["a", None]}))
    >>> two = row_digests(pa.record_batch({"name": pa.array([None, "a"], pa.large_string()), "id": [2, 1]}))
    >>> one.a[0] == two.a[1], one.a[0] == two.a[0]
    (True, False)
    """
    return rows_of(column_digests(batch), batch.num_rows)


def column_digests(batch: pa.RecordBatch) -> dict[str, Words]:
    """The linked words of every column, by name."""
    return {
        name: _link(normalise_array(column), name)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def rows_of(columns: dict[str, Words], rows: int) -> Words:
    """The digests of rows that consist of these linked columns."""
    a, b = _total(list(columns.values()), rows)
    return Words(_mix(a), _mix(b))


def _link(array: pa.Array, name: str) -> Words:
    """The words of a field, nulls included; see the module's text."""
    described = type_text(array.type)
    a, b = _value(array)
    linked_a = _mix(pc.add(a, _word("link a", name, described)))
    if b is a:
        linked_b = pc.multiply(linked_a, _odd("link q", name, described))
    else:
        linked_b = _mix(pc.add(b, _word("link b", name, described)))
    if pa.types.is_null(array.type):
        empty = pa.scalar(False)
        valid: Any = pa.repeat(empty, len(array))
    elif array.null_count == 0:
        return Words(linked_a, linked_b)
    else:
        valid = array.is_valid()
    return Words(
        pc.if_else(valid, linked_a, _word("null a", name)),
        pc.if_else(valid, linked_b, _word("null b", name)),
    )


def _value(array: pa.Array) -> Words:
    """The words of values; what stands where a value is null is of no meaning."""
    t = pa.types
    type_ = array.type
    if t.is_struct(type_):
        return Words(*_total([_link(child, name) for name, child in child_fields(array)], len(array)))
    if t.is_list(type_) or t.is_map(type_):
        return _in_pieces(array, _list_words, lengths_of(array))
    if t.is_string(type_) or t.is_binary(type_):
        return _in_pieces(array, _binary_words, pc.fill_null(pc.binary_length(array), 0))
    if t.is_fixed_size_binary(type_) or t.is_decimal128(type_) or t.is_decimal256(type_):
        return _fixed_words(array)
    word = _single(array)
    return Words(word, word)


def _single(array: pa.Array) -> pa.Array:
    """Values of at most eight bytes as one word each."""
    t = pa.types
    type_ = array.type
    if t.is_null(type_):
        return _zeros(len(array))
    if t.is_boolean(type_):
        return array.cast(pa.uint8()).cast(_U64)
    width = type_.bit_width
    if width == 64:
        return _dense(array.view(_U64))
    if t.is_floating(type_):
        return _dense(array.view(pa.uint16() if width == 16 else pa.uint32()).cast(_U64))
    if t.is_unsigned_integer(type_):
        return _dense(array.cast(_U64))
    signed = {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}[width]
    return _dense(array.view(signed).cast(pa.int64()).view(_U64))


def _dense(words: pa.Array) -> pa.Array:
    """The words without their validity: kernels are quicker, and nulls are dealt with by the link."""
    if words.null_count == 0:
        return words
    return pa.Array.from_buffers(_U64, len(words), [None, words.buffers()[1]], offset=words.offset)


def _binary_words(array: pa.Array) -> Words:
    data = array.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(data), 0)
    pads = _pads().take(pc.bit_wise_and(lengths, pa.scalar(7, pa.int32())))
    padded = pc.binary_join_element_wise(data, pads, _NOTHING, null_handling="replace", null_replacement=b"")
    _, offsets, content = padded.buffers()
    starts = pa.Array.from_buffers(pa.int32(), len(padded) + 1, [None, offsets], offset=padded.offset)
    words = _view_words(content, 0, starts[-1].as_py() // 8)
    mixed = _mix(words)
    return _segments(Words(mixed, mixed), pc.shift_right(starts, pa.scalar(3, pa.int32())), lengths)


def _fixed_words(array: pa.Array) -> Words:
    width = array.type.byte_width
    if width == 0 or width % 8:
        return _binary_words(array.cast(pa.binary()))
    per_row = width // 8
    words = _view_words(array.buffers()[1], array.offset * per_row, len(array) * per_row)
    mixed = _mix(words)
    starts = pc.multiply(counting(len(array) + 1), pa.scalar(per_row, pa.int64()))
    if per_row > 4:
        return _segments(Words(mixed, mixed), starts, pa.repeat(pa.scalar(width, pa.int64()), len(array)))
    # The same sums, quicker for the two words of a decimal or a uuid.
    places = starts.slice(0, len(array))
    found = []
    for base, label in ((_P, "length a"), (_Q, "length b")):
        part = pa.repeat(pa.scalar(_number(label) * width & _MASK, _U64), len(array))
        for index in range(per_row):
            word = mixed.take(pc.add(places, pa.scalar(index, pa.int64())))
            part = pc.add(part, pc.multiply(word, pa.scalar(pow(base, index, 2**64), _U64)))
        found.append(part)
    return Words(found[0], found[1])


def _view_words(buffer: Any, start: int, count: int) -> pa.Array:
    """A buffer's bytes as little-endian words."""
    if sys.byteorder != "little":  # pragma: no cover - pyarrow has no such wheels
        raise UnsupportedTable("row digests are implemented for little-endian machines")
    if count == 0:
        return pa.array([], _U64)
    return pa.Array.from_buffers(_U64, count, [None, buffer], offset=start)


def _list_words(array: pa.Array) -> Words:
    offsets, items = list_parts(array)
    return _segments(_link(items, "[]"), offsets, lengths_of(array))


def _segments(words: Words, starts: pa.Array, lengths: pa.Array) -> Words:
    """Per row, the sums of ``P**i w_i`` and ``Q**i w_i`` over the row's words, plus the length's share."""
    count = len(words.a)
    first = starts.slice(0, len(starts) - 1)
    found = []
    for word, base, label in ((words.a, _P, "length a"), (words.b, _Q, "length b")):
        powers, inverses = _powers(base, count + 1)
        sums = with_zero(pc.cumulative_sum(pc.multiply(word, powers.slice(0, count)))).take(starts)
        part = pc.subtract(sums.slice(1), sums.slice(0, len(first)))
        part = pc.multiply(part, inverses.take(first))
        found.append(pc.add(part, pc.multiply(lengths.cast(_U64), _word(label))))
    return Words(found[0], found[1])


def _in_pieces(array: pa.Array, function: Any, lengths: pa.Array) -> Words:
    """*function* over pieces of the array that hold at most ``_PIECE`` words together, or a single row."""
    if len(array) < 2 or (pc.sum(lengths).as_py() or 0) <= _PIECE:
        words: Words = function(array)
        return words
    middle = len(array) // 2
    one = _in_pieces(array.slice(0, middle), function, lengths.slice(0, middle))
    two = _in_pieces(array.slice(middle), function, lengths.slice(middle))
    return Words(pa.concat_arrays([one.a, two.a]), pa.concat_arrays([one.b, two.b]))


def _total(linked: Sequence[Words], rows: int) -> tuple[pa.Array, pa.Array]:
    if not linked:
        return _zeros(rows), _zeros(rows)
    a, b = linked[0]
    for words in linked[1:]:
        a, b = pc.add(a, words.a), pc.add(b, words.b)
    return a, b


def _mix(x: pa.Array) -> pa.Array:
    """A bijection of 64-bit words in which each bit of the input reaches all of the output (multiply, xor-shift)."""
    x = pc.multiply(x, _M1)
    x = pc.bit_wise_xor(x, pc.shift_right(x, _S32))
    x = pc.multiply(x, _M2)
    return pc.bit_wise_xor(x, pc.shift_right(x, _S29))


@functools.cache
def _word(*label: str) -> Any:
    return pa.scalar(_number(*label), _U64)


@functools.cache
def _odd(*label: str) -> Any:
    return pa.scalar(_number(*label) | 1, _U64)


def _number(*label: str) -> int:
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    text = "".join(f"{len(part)}:{part}" for part in label)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


_M1: Final = _odd("mix 1")
_M2: Final = _odd("mix 2")
_S32: Final = pa.scalar(32, _U64)
_S29: Final = pa.scalar(29, _U64)
_P: Final = _number("powers a") | 1
_Q: Final = _number("powers b") | 1
_NOTHING: Final = pa.scalar(b"", pa.binary())


@functools.cache
def _pads() -> pa.Array:
    return pa.array([b"\0" * (-length % 8) for length in range(8)], pa.binary())


def _zeros(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, _U64), rows)


def _powers(base: int, count: int) -> tuple[pa.Array, pa.Array]:
    """At least *count* powers of *base*, and of its inverse, from the zeroth on."""
    size = 1 << max(10, (count - 1).bit_length())
    return _power_table(base, size), _power_table(pow(base, -1, 2**64), size)


@functools.lru_cache(maxsize=16)
def _power_table(base: int, size: int) -> pa.Array:
    rest = pa.repeat(pa.scalar(base, _U64), size - 1)
    return pc.cumulative_prod(pa.concat_arrays([pa.array([1], _U64), rest]))
