"""Where a place of a new schema was in the old one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeevolve.model import path as paths
from lakeevolve.model.branches import pair_branches
from lakeevolve.model.match import match_fields
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names, without_null


def base_path(
    path: str,
    base: AvroType,
    target: AvroType,
    renames: Mapping[str, str],
    *,
    old_leaf: bool = False,
    fresh: Collection[str] = (),
) -> str | None:
    """The path in the base schema of a change's path, whose outer names are those of the target.

    Parameters
    ----------
    path:
        The place, as the target calls it. A branch of a union may go by its name on either side.
    base, target:
        The roots of the two schemas.
    renames, fresh:
        As in :func:`lakeevolve.model.match.match_fields`, besides the target's aliases.
    old_leaf:
        Whether the last name is the base's (a drop, a rename).

    Returns
    -------
    str or None
        None where the base has nothing there.

    Examples
    --------
    >>> from lakeevolve.model.types import Field, Primitive
    >>> old = Record("R", (Field("s", Record("S", (Field("e", Primitive("int")),))),))
    >>> new = Record("R", (Field("t", Record("S", (Field("k", Primitive("int"), aliases=("e",)),)), aliases=("s",)),))
    >>> base_path("t.k", old, new, {})
    's.e'
    """
    was, now = without_null(base), without_null(target)
    old = here = paths.ROOT
    segments = paths.parts(path)
    for at, segment in enumerate(segments):
        old, was = _entered(old, was, now)
        match was, now:
            case Record(), Record():
                named = segment
                if not (old_leaf and at == len(segments) - 1):
                    named = _old_name(was, now, segment, here, renames, fresh) or ""
                field, after = was.field(named), now.field(segment)
                if field is None:
                    return None
                old, here = paths.child(old, field.name), paths.child(here, segment)
                was, now = without_null(field.type), without_null((after or field).type)
            case Array(), Array() if segment == paths.ITEMS:
                old, here = paths.items(old), paths.items(here)
                was, now = without_null(was.items), without_null(now.items)
            case Map(), Map() if segment == paths.VALUES:
                old, here = paths.values(old), paths.values(here)
                was, now = without_null(was.values), without_null(now.values)
            case _, Union():
                found = _branches(was if isinstance(was, Union) else Union((was,)), now, segment)
                if found is None:
                    return None
                if isinstance(was, Union):
                    old = paths.branch(old, found[0])
                here += segment
                _, was, now = found
            case _:
                return None
    return _entered(old, was, now)[0]


def _entered(path: str, was: AvroType, now: AvroType) -> tuple[str, AvroType]:
    """The branch of a union that became the type that now stands in its place; else what stands there."""
    if isinstance(was, Union) and not isinstance(now, Union):
        pairs = pair_branches(was.values, (now,), {})
        if pairs:
            return paths.branch(path, branch_names(was)[pairs[0]]), was.values[pairs[0]]
    return path, was


def _old_name(
    was: Record, now: Record, name: str, path: str, renames: Mapping[str, str], fresh: Collection[str]
) -> str | None:
    pairs, _ = match_fields(was, now, path=path, renames=renames, fresh=fresh)
    for new, old in pairs:
        if now.fields[new].name == name:
            return was.fields[old].name if old is not None else None
    return name if was.field(name) is not None else None


def _branches(was: Union, now: Union, segment: str) -> tuple[str, AvroType, AvroType] | None:
    """The base's branch (its name first) and the target's that a segment names, by either name."""
    olds = dict(zip(map(id, was.values), branch_names(was), strict=True))
    news = dict(zip(map(id, now.values), branch_names(now), strict=True))
    for new, old in pair_branches(was.branches, now.branches, {}).items():
        before, after = was.branches[old], now.branches[new]
        if segment in (f"<{news.get(id(after))}>", f"<{olds.get(id(before))}>"):
            return olds[id(before)], before, after
    return None
