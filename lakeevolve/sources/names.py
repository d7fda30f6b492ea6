"""Names of schema files, and the order of the versions in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key under which numbers count as numbers.

    >>> sorted(["v10.avsc", "v9.avsc", "v1.avsc"], key=natural)
    ['v1.avsc', 'v9.avsc', 'v10.avsc']
    """
    stem = name.removesuffix(".avsc")
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in _DIGITS.split(stem) if part)


def in_order(names: Iterable[str]) -> list[str]:
    """The names in natural order; those that only zeros tell apart, by their text."""
    return sorted(names, key=lambda name: (natural(name), name))


def is_schema_file(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith(".avsc") and not last.startswith(".")
