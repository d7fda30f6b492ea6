"""The branches of two unions: which continues which, and what they are called on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakeevolve.model import path as paths
from lakeevolve.model.match import names_match
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

    As a reader chooses (Avro 1.12, "Schema Resolution"): the same type first, for named types the full name before
    the short name and aliases; then a promotion, where the first branch that could take the values is a new one.
    *renamed* maps old full names to new ones, for branches that are uses of a type inside its own definition.
    """
    found: dict[int, int] = {}
    free = dict(enumerate(old))

    def pair(test: Callable[[AvroType, AvroType], bool]) -> None:
        for j, branch in enumerate(new):
            if j not in found:
                i = next((i for i, other in free.items() if test(other, branch)), None)
                if i is not None:
                    found[j] = i
                    del free[i]

    names = {branch.name for branch in old if isinstance(branch, (Record, Enum, Fixed, NamedRef))}
    pair(_same_branch)
    # Where the new name is an old branch's too, the two would go by one name for a while.
    pair(lambda o, n: _renamed_branch(o, n, renamed) and getattr(n, "name", "") not in names)
    for i, branch in list(free.items()):
        wider = PROMOTIONS.get(kind(branch), frozenset())
        target = next((j for j, other in enumerate(new) if kind(other) in wider), None)
        if target is not None and target not in found:
            found[target] = i
            del free[i]
    return found


def _same_branch(old: AvroType, new: AvroType) -> bool:
    if is_null(old) or is_null(new):
        return same_type(old, new)
    named = (Record, Enum, Fixed, NamedRef)
    if isinstance(old, named) and isinstance(new, named):
        refs = isinstance(old, NamedRef) or isinstance(new, NamedRef)
        return old.name == new.name and (refs or kind(old) == kind(new))
    return kind(old) == kind(new) and not isinstance(old, named)


def _renamed_branch(old: AvroType, new: AvroType, renamed: Mapping[str, str]) -> bool:
    if isinstance(old, NamedRef) and isinstance(new, NamedRef):
        return renamed.get(old.name) == new.name
    if isinstance(old, (Record, Enum, Fixed)) and isinstance(new, (Record, Enum, Fixed)):
        return kind(old) == kind(new) and names_match(old.name, new.name, new.aliases)
    return False
