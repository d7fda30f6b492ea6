"""Which columns no schema owns, of those that none has said anything of."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def is_foreign(name: str, patterns: Sequence[str] = ()) -> bool:
    """Whether a top-level column that no schema names is nobody's: by its name, or as the owner of the table says.

    >>> is_foreign("_offset"), is_foreign("kafka_offset"), is_foreign("kafka_offset", ["kafka_*"])
    (True, False, True)
    """
    return name.startswith("_") or matches(name, patterns)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a column has one of the names that the owner of the table gives to what is nobody's."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
