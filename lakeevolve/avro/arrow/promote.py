"""One leaf type read as another, over a whole array."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import raw
from lakeevolve.avro.arrow.failures import Failures, Rows
from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.avro.nodes import Promote
from lakeevolve.errors import ResolutionError
from lakeevolve.model.types import AvroType, Fixed, Primitive, describe, narrower

_MEND: Final = "mend the data, or keep the writer's type"


def promote(array: pa.Array, node: Promote, rows: Rows, path: str, failures: Failures) -> pa.Array:
    """Values of the writer's type as values of the reader's; what cannot be read is noted and becomes null."""
    writer, reader = node.writer, node.reader
    if not isinstance(writer, (Primitive, Fixed)) or not isinstance(reader, (Primitive, Fixed)):
        raise ResolutionError(f"{describe(writer)} cannot be read as {describe(reader)}", where=path or "$")

    def report(bad: pa.Array, why: str) -> None:
        what = f"a value of type {describe(writer)} cannot be read as {describe(reader)}: {why}"
        failures.where(bad, rows, path, what, _MEND)

    if not node.raw and pa.types.is_decimal(array.type) and pa.types.is_decimal(arrow_type(reader)):
        # Of one scale, and with as many digits at least, unless it was declared that the values fit.
        if narrower(writer, reader):
            array = raw.without(array, _too_long(array, reader), "it has more digits", report)
        return array.cast(arrow_type(reader))
    if not node.raw and writer.logical is not None and reader.logical is not None:
        # Between units; resolution lets none pass that is coarser, unless it was declared that no digit is lost.
        if narrower(writer, reader):
            array = raw.whole(array, reader, report)
        return raw.rescaled(array, arrow_type(reader), report)
    plain = raw.to_plain(array, writer, report)
    target = arrow_type(raw.without_logical(reader))
    if plain.type != target:
        plain = _primitive(plain, target, writer, reader, rows, path, failures)
    return raw.from_plain(plain, reader, report)


def misfits(array: pa.Array, writer: AvroType, reader: AvroType) -> pa.Array:
    """Which values are none of a narrower type (:func:`~lakeevolve.model.types.narrower`); a null is one of any."""
    if not isinstance(writer, (Primitive, Fixed)) or not isinstance(reader, (Primitive, Fixed)):
        raise ResolutionError(f"{describe(writer)} is not wider than {describe(reader)}")
    found = [pa.repeat(False, len(array))]

    def report(bad: pa.Array, _why: str) -> None:
        found.append(pc.fill_null(bad, False))

    if pa.types.is_decimal(array.type):
        report(_too_long(array, reader), "")
    elif writer.logical is not None:
        raw.whole(array, reader, report)
    else:
        target = arrow_type(raw.without_logical(reader))
        changed = pc.fill_null(changed_by(array, target), False)
        report(changed, "")
        raw.from_plain(pc.if_else(changed, pa.scalar(None, array.type), array).cast(target), reader, report)
    mask = found[0]
    for each in found[1:]:
        mask = pc.or_(mask, each)
    return mask


def _too_long(array: pa.Array, reader: Primitive | Fixed) -> pa.Array:
    """Which decimals have more digits before the point than a type holds."""
    assert reader.logical is not None
    digits = (reader.logical.precision or 0) - (reader.logical.scale or 0)
    return pc.greater_equal(pc.abs(array), pa.scalar(Decimal(10) ** digits))


def _primitive(
    array: pa.Array,
    target: pa.DataType,
    writer: AvroType,
    reader: AvroType,
    rows: Rows,
    path: str,
    failures: Failures,
) -> pa.Array:
    if pa.types.is_string(target):
        return text(array, rows, path, failures)
    if narrower(raw.without_logical(writer), raw.without_logical(reader)):
        what = f"a value of type {describe(writer)} is none of {describe(reader)}"
        failures.where(changed_by(array, target), rows, path, what, _MEND)
        return array.cast(target, safe=False)
    if pa.types.is_floating(target) or (pa.types.is_integer(target) and target.bit_width >= array.type.bit_width):
        # Avro's promotions to float and double round to the nearest value.
        return array.cast(target, safe=False)
    if pa.types.is_binary(target) and pa.types.is_string(array.type):
        return array.cast(target)
    raise ResolutionError(f"{describe(writer)} cannot be read as {describe(reader)}", where=path or "$")


def changed_by(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Which numbers are others in a narrower type: out of its range, with digits that it has not, no number at all, or
    the zero below zero where the type has no sign for it. Null where there is none."""
    values, back = array, array.cast(target, safe=False).cast(array.type, safe=False)
    changed = pc.not_equal(back, values)
    if pa.types.is_floating(array.type):
        if pa.types.is_integer(target):
            lowest, beyond = -(2.0 ** (target.bit_width - 1)), 2.0 ** (target.bit_width - 1)
            inside = pc.and_(pc.greater_equal(values, lowest), pc.less(values, beyond))
            negative_zero = pc.less(pc.divide(pa.scalar(1.0, array.type), values), 0.0)
            negative_zero = pc.and_(pc.equal(values, 0.0), negative_zero)
            return pc.or_(pc.or_(changed, pc.invert(inside)), negative_zero)
        # A NaN stays one, and is equal to none.
        return pc.and_(changed, pc.invert(pc.is_nan(values)))
    return changed


def text(array: pa.Array, rows: Rows, path: str, failures: Failures) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        # The longest beginning that is text, by bisection: Arrow says that a value is wrong and not which.
        good, bad = 0, len(array)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                array.slice(good, middle - good).cast(pa.string())
                good = middle
            except pa.ArrowInvalid:
                bad = middle
        failures.at(good, rows, path, "the bytes are not UTF-8, so they cannot be read as string", _MEND)
        return pa.concat_arrays([array.slice(0, good).cast(pa.string()), pa.nulls(len(array) - good, pa.string())])
