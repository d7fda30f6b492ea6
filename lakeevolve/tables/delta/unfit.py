"""Which row it was, where the conversion of a batch failed: Arrow's kernels work on whole columns and do not say."""

from __future__ import annotations

from collections.abc import Callable

from lakeevolve.errors import TableError


def first_unfit(convert: Callable[[int, int], object], rows: int, error: TableError) -> tuple[int, TableError]:
    """The number of the first row that cannot be converted, and the error that it gives alone.

    Parameters
    ----------
    convert:
        Converts so many rows (its second argument) from a row on (its first), and raises ``TableError`` where one of
        them does not fit.
    rows, error:
        How many rows there are, and what converting them all gave.
    """
    first, end = 0, rows
    while end - first > 1:
        middle = (first + end) // 2
        try:
            convert(first, middle - first)
            first = middle
        except TableError as other:
            error, end = other, middle
    return first, error
