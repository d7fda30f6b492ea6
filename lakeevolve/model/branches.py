"""The branches of two unions: which continues which, and what they are called on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lakeevolve.model import path as paths
from lakeevolve.model.match import name_rank
from lakeevolve.model.same import same_type
from lakeevolve.model.types import (
    PROMOTIONS,
    AvroType,
    Enum,
    Fixed,
    NamedRef,
    Record,
    Union,
    branch_names,
    is_null,
    kind,
)


def branches_of(type_: AvroType) -> tuple[AvroType, ...]:
    return type_.branches if isinstance(type_, Union) else (type_,)


def branches_at(union: Union, at: str) -> Iterator[tuple[AvroType, str]]:
    """The branches other than ``null`` of a union at *at*, each with its path: the union's own where it is alone."""
    names = branch_names(union)
    for name, branch in zip(names, union.values, strict=True):
        yield branch, at if len(names) == 1 else paths.branch(at, name)


def branch_path(path: str, branches: Sequence[AvroType], index: int) -> str:
    if is_null(branches[index]):
        return path
    union = Union(tuple(branches))
    return paths.branch(path, branch_names(union)[sum(not is_null(b) for b in branches[:index])])


def distinct(between: Sequence[AvroType], after: Sequence[AvroType] | None = None) -> bool:
    """Whether no two branches ever go by one name while each in turn becomes what it is to be."""
    after = between if after is None else after
    for done in range(len(between) + 1):
        names = branch_names(Union((*after[:done], *between[done:])))
        if len(set(names)) < len(names):
            return False
        if after is between:
            break
    return True


def pair_branches(old: Sequence[AvroType], new: Sequence[AvroType], renamed: Mapping[str, str]) -> dict[int, int]:
    """Which branch of the old union each branch of the new one continues: new index to old index.

    No pair but what a reader chooses (Avro 1.12, "Schema Resolution"): the same type first, of named types the one
    whose name is closest; then a promotion. Where several old branches become one new one, the closest continues it.
    *renamed* maps old full names to new ones, for branches that are uses of a type inside its own definition.
    """
    found: dict[int, int] = {}
    names = {branch.name for branch in old if isinstance(branch, _NAMED)}
    chosen: list[tuple[int, int, int]] = []
    for i, branch in enumerate(old):
        ranks = [(rank, j) for j, other in enumerate(new) if (rank := _rank(branch, other, renamed)) is not None]
        if ranks:
            rank, j = min(ranks)
            # Where the new name is an old branch's too, the two would go by one name for a while.
            if not rank or getattr(new[j], "name", "") not in names:
                chosen.append((rank, i, j))
    for _, i, j in sorted(chosen):
        found.setdefault(j, i)
    paired = set(found.values())
    for i, branch in enumerate(old):
        if i in paired or isinstance(branch, _NAMED):
            continue
        wider = PROMOTIONS.get(kind(branch), frozenset())
        target = next((j for j, other in enumerate(new) if kind(other) in wider), None)
        if target is not None:
            found.setdefault(target, i)
    return found


_NAMED: Final = (Record, Enum, Fixed, NamedRef)


def _rank(old: AvroType, new: AvroType, renamed: Mapping[str, str]) -> int | None:
    """How closely a branch is the same type as another; None where it is another type."""
    if is_null(old) or is_null(new):
        return 0 if same_type(old, new) else None
    if not isinstance(old, _NAMED) or not isinstance(new, _NAMED):
        return 0 if kind(old) == kind(new) else None
    if isinstance(old, NamedRef) or isinstance(new, NamedRef):
        if old.name == new.name:
            return 0
        both = isinstance(old, NamedRef) and isinstance(new, NamedRef)
        return 1 if both and renamed.get(old.name) == new.name else None
    return name_rank(old.name, new.name, new.aliases) if kind(old) == kind(new) else None
