"""Which of a table's versions led to what it is now."""

from __future__ import annotations

from collections.abc import Sequence

from lakeevolve.tables.base import Version


def in_force(versions: Sequence[Version]) -> list[int]:
    """The versions that led to the newest one, the one that it is or restores first: what a table went back from is
    not among them."""
    line, at = [], versions[-1].number
    while at > 0:
        restores = versions[at - 1].restores
        if restores is not None:
            at = restores
            continue
        line.append(at)
        at -= 1
    return line
