"""Renames that an owner declares although no alias does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lakeevolve.errors import ConfigError
from lakeevolve.model import path as paths
from lakeevolve.model.find import find_field
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names, is_null

#: As a caller gives them: old path to new path, or (old path, new path) pairs.
Renames: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]


def rename_pairs(renames: Renames, *, denied: bool = False) -> tuple[tuple[str, str], ...]:
    """Declared renames as (old path, new path) pairs. Raises ``ConfigError`` where they are none or contradict.

    What is *denied* to be a rename may name a path any number of times.
    """
    shape: Any = renames
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise ConfigError(
            "renames are pairs of paths, old and new",
            where=repr(shape)[:80],
            hint='write renames as [("amount", "total")] or {"amount": "total"}',
        )
    given: list[Any] = list(renames.items()) if isinstance(renames, Mapping) else list(renames)
    for pair in given:
        sides = pair if isinstance(pair, (tuple, list)) else ()
        if len(sides) != 2 or not all(isinstance(side, str) and side for side in sides):
            raise ConfigError(
                "a rename is a pair of paths, old and new",
                where=str(pair),
                hint='write renames as [("amount", "total")] or {"amount": "total"}',
            )
    pairs = tuple(dict.fromkeys((was, is_) for was, is_ in given))
    for side, word in () if denied else ((0, "from"), (1, "to")):
        paths_ = [pair[side] for pair in pairs]
        if twice := sorted({path for path in paths_ if paths_.count(path) > 1}):
            raise ConfigError(
                f"two renames lead {word} one field", where=", ".join(twice), hint="keep one rename for each field"
            )
    return pairs


def renames_between(pairs: Sequence[tuple[str, str]], old: Schema, new: Schema) -> dict[str, str]:
    """The declared renames that apply between two schemas, new path to old path.

    A chain (a to b, b to c) is followed to the name that *old* has. A rename whose new name *old* already has was
    made before, unless that field is renamed itself, as in a swap.
    """
    back = {is_: was for was, is_ in pairs}
    leaving = {was for was, _ in pairs}
    found: dict[str, str] = {}
    for target in back:
        source, seen = back[target], {target}
        while find_field(old.root, source) is None and source in back and source not in seen:
            seen.add(source)
            source = back[source]
        if find_field(old.root, source) is None or find_field(new.root, target) is None:
            continue
        if find_field(old.root, target) is None or target in leaving:
            found[target] = source
    return found


def as_aliases(schema: Schema, renames: Renames) -> Schema:
    """The schema with declared renames written as aliases of its fields.

    What reads a table by a schema that it has never carried knows aliases only.
    """
    pairs = rename_pairs(renames)
    if not pairs:
        return schema
    return replace(schema, root=_aliased(schema.root, paths.ROOT, {new: paths.leaf(old) for old, new in pairs}))


def _aliased(type_: AvroType, path: str, old_names: Mapping[str, str]) -> AvroType:
    match type_:
        case Record():
            fields = []
            for field in type_.fields:
                at = paths.child(path, field.name)
                aliases = field.aliases
                if at in old_names and old_names[at] not in aliases:
                    aliases = (*aliases, old_names[at])
                fields.append(replace(field, type=_aliased(field.type, at, old_names), aliases=aliases))
            return replace(type_, fields=tuple(fields))
        case Array():
            return replace(type_, items=_aliased(type_.items, paths.items(path), old_names))
        case Map():
            return replace(type_, values=_aliased(type_.values, paths.values(path), old_names))
        case Union():
            if type_.optional:
                branches = tuple(_aliased(branch, path, old_names) for branch in type_.branches)
            else:
                names = iter(branch_names(type_))
                branches = tuple(
                    branch if is_null(branch) else _aliased(branch, paths.branch(path, next(names)), old_names)
                    for branch in type_.branches
                )
            return replace(type_, branches=branches)
        case _:
            return type_
