"""The fewest moves from one order to another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def moves(order: Sequence[int]) -> list[tuple[int, int, int]]:
    """The fewest moves that sort *order*, as (item, source, target), each valid after those before it.

    >>> moves([2, 0, 1])
    [(2, 0, 2)]
    """
    stay = _longest_rising(order)
    here = list(order)
    found = []
    before: int | None = None
    for item in sorted(order):
        if item not in stay:
            source = here.index(item)
            here.pop(source)
            target = 0 if before is None else here.index(before) + 1
            here.insert(target, item)
            found.append((item, source, target))
        before = item
    return found


def _longest_rising(order: Sequence[int]) -> set[int]:
    tails: list[int] = []
    previous: dict[int, int | None] = {}
    for item in order:
        at = bisect_left(tails, item)
        previous[item] = tails[at - 1] if at else None
        tails[at : at + 1] = [item]
    found: set[int] = set()
    item_ = tails[-1] if tails else None
    while item_ is not None:
        found.add(item_)
        item_ = previous[item_]
    return found
