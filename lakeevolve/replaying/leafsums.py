"""Whether a filter let the right rows through, seen from its leaf alone: how many, and a sum over their values.

Whole rows are compared without filters, value by value. Under one, a reader can only give too many or too few of them
or the wrong ones, and each that it gives has to satisfy the filter: so the count and two sums tell, at a fraction of
what digests cost. Where they differ, digests are taken and the rows are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.replaying import predicates
from lakeevolve.replaying.canonical import normalise_array
from lakeevolve.replaying.digests import Digests, Sum
from lakeevolve.replaying.predicates import Filter
from lakeevolve.replaying.sides import Job, actual_rows
from lakeevolve.tables.base import DataFile

_MASK: Final = (1 << 64) - 1
_WIDTHS: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@dataclass(frozen=True, slots=True)
class LeafSum:
    """The count of rows and of those whose leaf is not null, and two sums over its values, modulo 2**64."""

    count: int = 0
    there: int = 0
    first: int = 0
    second: int = 0
    stray: bool = False

    def __add__(self, other: LeafSum) -> LeafSum:
        return LeafSum(
            self.count + other.count,
            self.there + other.there,
            (self.first + other.first) & _MASK,
            (self.second + other.second) & _MASK,
            self.stray or other.stray,
        )


def numbers_of(values: pa.Array | None) -> pa.Array | None:
    """What is summed of a leaf's values: 64-bit numbers of them, or of the lengths of text; itself for other types."""
    if values is None or pa.types.is_null(values.type):
        return None
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return pc.binary_length(values).cast(pa.int64())
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8()).cast(pa.int64())
    if pa.types.is_primitive(values.type) and values.type.bit_width in _WIDTHS:
        return values.view(_WIDTHS[values.type.bit_width]).cast(pa.int64())
    return values


def leaf_sum(values: pa.Array | None, rows: int, mask: pa.Array | None = None) -> LeafSum:
    """The sums over a leaf's values, or over those that a mask lets through.

    *values* may be what :func:`numbers_of` made of them, once for several masks.

    >>> import pyarrow as pa
    >>> leaf_sum(pa.array([1, 2, None]), 3)
    LeafSum(count=3, there=2, first=3, second=5, stray=False)
    """
    numbers: Any = numbers_of(values)
    if mask is not None:
        rows = mask.true_count
        numbers = None if numbers is None or rows == 0 else numbers if rows == len(mask) else numbers.filter(mask)
    if numbers is None or numbers.null_count == len(numbers):
        return LeafSum(rows)
    there = len(numbers) - numbers.null_count
    if not pa.types.is_int64(numbers.type):
        found = Sum.of(Digests(pa.record_batch({"leaf": numbers.drop_null()}), ()).rows())
        return LeafSum(rows, there, found.a & _MASK, found.b & _MASK)
    first, second = (pc.sum(each).as_py() or 0 for each in (numbers, pc.multiply(numbers, numbers)))
    return LeafSum(rows, there, first & _MASK, second & _MASK)


def given(job: Job, file: DataFile | None, asked: Filter) -> LeafSum:
    """The sums of what the judged reader gives under a filter; ``stray`` where a row does not satisfy it.

    Raises ``Unreadable`` where it fails.
    """
    found = LeafSum()
    for batch in actual_rows(job, file, asked.predicate, asked.columns):
        values = predicates.column(batch, asked.path)
        values = None if values is None else normalise_array(values)
        mask = predicates.satisfied(values, asked.predicate, batch.num_rows)
        stray = batch.num_rows > 0 and not pc.all(mask).as_py()
        found += leaf_sum(values, batch.num_rows)
        if stray:
            return LeafSum(stray=True)
    return found
