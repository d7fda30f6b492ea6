"""What an owner declares of paths has to be about paths that exist: a misspelt one must not pass in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakeevolve.errors import ConfigError
from lakeevolve.model import path as paths
from lakeevolve.model.branches import branches_at
from lakeevolve.model.find import find_type
from lakeevolve.model.renames import Renames, rename_pairs
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Array, AvroType, Map, Record, Union


def check_renames(
    pairs: Renames,
    new: Schema,
    earlier: Sequence[Schema],
    *,
    what: str = "a rename",
    strict: bool = False,
    denied: bool = False,
) -> None:
    """Raise ``ConfigError`` for a declared pair (old path, new path) that cannot be about these schemas.

    The new path has to be in *new* or in a version before it, the old path in a version before it. A rename that was
    made before may stay declared: where a version has the new path already, the old one may be long gone, unless
    *strict*. *denied* pairs are said to be no renames, and may name a path any number of times.
    """
    for old, now in rename_pairs(pairs, denied=denied):
        if not _anywhere(now, (new, *earlier)):
            raise _nowhere(f"{what} leads to a field that does not exist: {now}", now, f"{old}={now}", [new])
        if not _anywhere(old, earlier) and (strict or not _anywhere(now, earlier)):
            raise _nowhere(f"{what} starts from a field that does not exist: {old}", old, f"{old}={now}", earlier[-1:])


def check_paths(wanted: Iterable[str], new: Schema, earlier: Sequence[Schema] = (), *, what: str) -> None:
    """Raise ``ConfigError`` for a path that no schema has; *what* tells who names it.

    >>> from lakeevolve.model.types import Field, Primitive
    >>> check_paths(["id"], Schema(Record("Order", (Field("id", Primitive("int")),))), what="old_rows")
    """
    for path in wanted:
        if not _anywhere(path, (new, *earlier)):
            raise _nowhere(f"{what} names a field that does not exist: {path}", path, path, [new])


def every_path(type_: AvroType, at: str = paths.ROOT) -> Iterator[str]:
    """The path of every field; nothing beneath a use of a record inside its own definition."""
    match type_:
        case Record():
            for field in type_.fields:
                here = paths.child(at, field.name)
                yield here
                yield from every_path(field.type, here)
        case Array():
            yield from every_path(type_.items, paths.items(at))
        case Map():
            yield from every_path(type_.values, paths.values(at))
        case Union():
            for branch, here in branches_at(type_, at):
                yield from every_path(branch, here)


def _anywhere(path: str, schemas: Iterable[Schema]) -> bool:
    try:
        paths.parts(path)
    except ValueError:
        return False
    return any(find_type(schema.root, path) is not None for schema in schemas)


def _nowhere(what: str, path: str, where: str, schemas: Sequence[Schema]) -> ConfigError:
    from difflib import get_close_matches

    known = list(dict.fromkeys(each for schema in schemas for each in every_path(schema.root)))
    near = get_close_matches(path, known, n=1, cutoff=0.5)
    some = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
    hint = f"did you mean {near[0]}?" if near else f"its fields are {some}" if known else None
    return ConfigError(what, where=where, hint=hint)
