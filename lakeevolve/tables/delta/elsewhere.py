"""A table in another process, at the version that it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakeevolve.tables.delta.store import Address

if TYPE_CHECKING:
    from lakeevolve.tables.delta.table import Table


def sent(address: Address, version: int, left_out: Sequence[str]) -> tuple[Any, ...]:
    """What of a table goes to another process, as ``__reduce__`` has it. Credentials of the store are part of it."""
    return _arrived, (address.path, tuple(sorted(address.options.items())), address.version, version, tuple(left_out))


@lru_cache(maxsize=8)
def _arrived(
    path: str, options: tuple[tuple[str, str], ...], asked: int | None, version: int, left_out: tuple[str, ...]
) -> Table:
    """The table for reading; one for all tasks of a process that concern it."""
    from lakeevolve.tables.delta.table import Table

    named = Address(path, asked, dict(options))
    made = Table(replace(named, version=version), uri=named.uri)
    made.leave_out(left_out)
    return made
