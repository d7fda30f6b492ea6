"""How one Delta schema follows from another of the same table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeevolve.model import path as paths
from lakeevolve.tables.delta.types import DeltaType, ListOf, MapOf, Struct


@dataclass(frozen=True, slots=True)
class Following:
    """How a schema follows from the one before where the columns say more than the names."""

    renames: Mapping[str, str]
    fresh: frozenset[str]
    added: tuple[str, ...]


def follow(old: Struct, new: Struct) -> Following:
    """Match the columns of two schemas of one table, by physical name."""
    renames: dict[str, str] = {}
    fresh: set[str] = set()
    added: list[str] = []

    def structs(old: Struct, new: Struct, old_at: str, new_at: str) -> None:
        before = {c.physical: c for c in old.columns}
        for column in new.columns:
            here = paths.child(new_at, column.name)
            match = before.get(column.physical)
            if match is None:
                added.append(here)
                if old.column(column.name) is not None:
                    fresh.add(here)
                continue
            there = paths.child(old_at, match.name)
            if match.name != column.name:
                renames[here] = there
            types(match.type, column.type, there, here)

    def types(old: DeltaType, new: DeltaType, old_at: str, new_at: str) -> None:
        match old, new:
            case Struct(), Struct():
                structs(old, new, old_at, new_at)
            case ListOf(), ListOf():
                types(old.element, new.element, paths.items(old_at), paths.items(new_at))
            case MapOf(), MapOf():
                types(old.value, new.value, paths.values(old_at), paths.values(new_at))

    structs(old, new, "", "")
    return Following(renames, frozenset(fresh), tuple(added))
