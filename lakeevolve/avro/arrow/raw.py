"""Between an Avro logical type's column and the plain value that Avro encodes: the number, the bytes.

The plain form of ``timestamp-millis`` is its long, of a ``decimal`` its two's-complement bytes (Avro 1.12, "Logical
Types"). A value that has no counterpart becomes null and is reported; the caller decides what to raise.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import nested
from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.model.types import Array, AvroType, Field, Fixed, Map, Primitive, Record, Union

#: Told which values (a boolean array) have no counterpart, and why.
Report = Callable[[pa.Array, str], None]

#: Avro's unit in the column's unit, for those that differ.
_MILLIS: Final = frozenset({"time-millis", "timestamp-millis", "local-timestamp-millis"})

_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}

# Bytes that only repeat the sign: what precedes the first byte of which the highest bit is the sign already.
_PADDING: Final = r"^(?:\x00*([\x00-\x7f])|\xff*([\x80-\xff]))"

_MAX_LONG: Final = 2**63 - 1


def without_logical(type_: AvroType) -> AvroType:
    """The type without its logical types, at every depth."""
    match type_:
        case Primitive():
            return Primitive(type_.name)
        case Fixed():
            return Fixed(type_.name, type_.size)
        case Array():
            return Array(without_logical(type_.items))
        case Map():
            return Map(without_logical(type_.values))
        case Union():
            return Union(tuple(without_logical(branch) for branch in type_.branches))
        case Record():
            return Record(type_.name, tuple(Field(f.name, without_logical(f.type)) for f in type_.fields))
    return type_


def from_plain(array: pa.Array, type_: Primitive | Fixed, report: Report) -> pa.Array:
    """The column of a primitive or fixed type from its plain values."""
    target = arrow_type(type_)
    if array.type == target:
        return array
    if pa.types.is_decimal(target):
        return _to_decimal(array, target, report)
    name = type_.logical.name if type_.logical is not None else ""
    if name in _DAY:
        array = within(array, 0, _DAY[name] - 1, "it is no time of a day", report)
    if name in _MILLIS:
        return _scaled(array.cast(pa.int64()), 1000, report).view(target)
    return array.view(target)


def to_plain(array: pa.Array, type_: Primitive | Fixed, report: Report) -> pa.Array:
    """The plain values of a column of a primitive or fixed type."""
    plain = arrow_type(without_logical(type_))
    if array.type == plain:
        return array
    if pa.types.is_decimal(array.type):
        return _from_decimal(array, plain, report)
    if type_.logical is not None and type_.logical.name in _MILLIS:
        return divided(array.view(pa.int64()), 1000, report).cast(plain)
    return array.view(plain)


def _scaled(numbers: pa.Array, factor: int, report: Report) -> pa.Array:
    """Numbers times *factor*, 64 bits wide."""
    limit = _MAX_LONG // factor
    return pc.multiply(
        within(numbers, -limit, limit, "it lies outside of what 64 bits hold in the finer unit", report), factor
    )


def rescaled(array: pa.Array, target: pa.DataType, report: Report) -> pa.Array:
    """A time or timestamp in another unit, where no digit is lost."""
    have, want = _ticks(array.type), _ticks(target)
    numbers = array.view(pa.int64())
    if want > have:
        numbers = _scaled(numbers, want // have, report)
    elif want < have:
        numbers = divided(numbers, have // want, report)
    return numbers.view(target)


def whole(array: pa.Array, type_: Primitive | Fixed, report: Report) -> pa.Array:
    """Times or timestamps with null in the place of those that are none of a coarser type, whose unit Arrow may not
    have: both millis and micros are microseconds there."""
    unit = "" if type_.logical is None else type_.logical.name.rpartition("-")[2]
    step = _ticks(array.type) // _PER_SECOND[unit]
    numbers = array.view(pa.int64())
    rest = pc.not_equal(pc.multiply(pc.divide(numbers, step), step), numbers)
    return without(array, rest, "it has more digits than the coarser unit holds", report)


_PER_SECOND: Final = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


def divided(numbers: pa.Array, by: int, report: Report) -> pa.Array:
    """Numbers divided by *by*, where they are multiples of it."""
    whole = pc.divide(numbers, by)
    rest = pc.not_equal(pc.multiply(whole, by), numbers)
    return without(whole, rest, "it has more digits than the coarser unit holds", report)


def without(array: pa.Array, bad: pa.Array, why: str, report: Report) -> pa.Array:
    """The array with null in the place of what is *bad*, which is reported."""
    if not pc.any(bad, min_count=0).as_py():
        return array
    report(bad, why)
    return pc.if_else(pc.fill_null(bad, False), pa.scalar(None, array.type), array)


def within(numbers: pa.Array, least: int, most: int, why: str, report: Report) -> pa.Array:
    """The numbers with null in the place of what is less than *least* or more than *most*, which is reported."""
    found = _range(numbers)
    if least <= found[0] and found[1] <= most:
        return numbers
    return without(numbers, pc.or_(pc.less(numbers, least), pc.greater(numbers, most)), why, report)


def _ticks(type_: pa.DataType) -> int:
    return {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]


def _to_decimal(array: pa.Array, target: pa.DataType, report: Report) -> pa.Array:
    width = target.byte_width
    if pa.types.is_fixed_size_binary(array.type) and array.type.byte_width == width:
        bits, numbers = width * 8, _mirrored(array)
    else:
        raw = array.cast(pa.binary())
        least, most = _range(pc.binary_length(raw))
        if not least:
            raw = without(raw, pc.equal(pc.binary_length(raw), 0), "a decimal has at least one byte", report)
        if most > width:
            raw = pc.replace_substring_regex(raw, _PADDING, r"\1\2")
            raw = without(raw, pc.greater(pc.binary_length(raw), width), f"it has more digits than {target}", report)
        array, bits, numbers = raw, min(most, width) * 8, _numbers(raw, target)
    made = pa.Array.from_buffers(target, len(array), [nested.validity(array), numbers], array.null_count)
    return made if 2 ** (bits - 1) <= 10**target.precision - 1 else within_precision(made, target, report)


def _numbers(raw: pa.Array, target: pa.DataType) -> pa.Buffer:
    """The values of a decimal array from two's-complement numbers, the highest byte first, of no more bytes than its.

    A null among them becomes zero.
    """
    raw = pc.fill_null(raw, b"\x00")
    backwards = pc.binary_reverse(raw).view(pa.string())

    def padded(byte: bytes) -> pa.Array:
        # Arrow pads texts only; it does not look at their bytes.
        values = pc.ascii_rpad(backwards, target.byte_width, byte).view(pa.binary())
        return pa.Array.from_buffers(target, len(raw), [None, _values(values, target.byte_width)], 0)

    numbers = padded(b"\x00")
    negative = pc.greater_equal(_first_bytes(raw), 0x80)
    if pc.any(negative, min_count=0).as_py():
        numbers = pc.if_else(negative, padded(b"\xff"), numbers)
    return numbers.buffers()[1]


def _first_bytes(raw: pa.Array) -> pa.Array:
    """The first byte of each of some bytes, of which there is at least one each."""
    offsets = pa.Array.from_buffers(pa.int32(), len(raw), [None, raw.buffers()[1]], 0, raw.offset)
    data = raw.buffers()[2]
    return pa.Array.from_buffers(pa.uint8(), data.size if data else 0, [None, data], 0).take(offsets)


def _values(array: pa.Array, width: int) -> pa.Buffer:
    """The bytes of a binary array of which each value has *width*, without the offsets."""
    first = pa.Array.from_buffers(pa.int32(), 1, [None, array.buffers()[1]], 0, array.offset)[0].as_py()
    return array.buffers()[2].slice(first, len(array) * width)


def _from_decimal(array: pa.Array, plain: pa.DataType, report: Report) -> pa.Array:
    width = array.type.byte_width
    numbers = pa.Array.from_buffers(pa.binary(width), len(array), array.buffers(), array.null_count, array.offset)
    whole = pa.Array.from_buffers(
        pa.binary(width), len(array), [nested.validity(array), _mirrored(numbers)], array.null_count
    )
    shortest = pc.replace_substring_regex(whole.cast(pa.binary()), _PADDING, r"\1\2")
    if not pa.types.is_fixed_size_binary(plain):
        return shortest
    size = plain.byte_width
    fitting = without(
        whole.cast(pa.binary()),
        pc.greater(pc.binary_length(shortest), size),
        f"it has more digits than {size} bytes hold",
        report,
    )
    if size <= width:
        return pc.binary_slice(fitting, -size).cast(plain)
    pads = pa.array([b"\x00" * (size - width), b"\xff" * (size - width)], pa.binary())
    negative = pc.greater_equal(pc.binary_slice(fitting, 0, 1), b"\x80")
    return pc.binary_join_element_wise(pads.take(negative.cast(pa.int32())), fitting, b"").cast(plain)


def within_precision(array: pa.Array, target: pa.DataType, report: Report) -> pa.Array:
    """The decimals of the type *target* with null in the place of those of more digits, which are reported."""
    most = Decimal(10**target.precision - 1).scaleb(-target.scale, Context(prec=80))
    limit, least = pa.scalar(most, target), pa.scalar(most.copy_negate(), target)
    found = pc.min_max(array)
    if not pc.or_kleene(pc.greater(found["max"], limit), pc.less(found["min"], least)).as_py():
        return array
    return without(
        array,
        pc.or_(pc.greater(array, limit), pc.less(array, least)),
        f"it has more digits than {target}",
        report,
    )


def _mirrored(array: pa.Array) -> pa.Buffer:
    """The bytes of a fixed_size_binary array with each value back to front; a null is zeros."""
    width = array.type.byte_width
    return _values(pc.binary_reverse(pc.fill_null(array, bytes(width)).cast(pa.binary())), width)


def _range(numbers: pa.Array) -> tuple[int, int]:
    """The least and the greatest of some numbers; zeros where there is none."""
    found = pc.min_max(numbers).as_py()
    return found["min"] or 0, found["max"] or 0
