"""What a table that no marker describes is taken for without saying so itself, and its rows have to confirm.

A sink writes every column as optional, an enum as text, and Delta a UUID as text and a time of day as a number. The
schema that such a table is planned towards says more than its columns do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakeevolve.errors import UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_optional,
    without_null,
)
from lakeevolve.tables.base import Precondition, Table, Version


@dataclass(frozen=True, slots=True)
class Assumption:
    """One place where the schema says more than the table: its path there, what has to be true of every live row, and
    what the table and the schema say."""

    path: str
    precondition: Precondition
    table: str
    schema: str


def assumptions(table: Schema, taken_for: Schema) -> tuple[Assumption, ...]:
    """Where a table is taken for more than its columns say, in the order of the columns.

    Parameters
    ----------
    table:
        The schema read off the table alone.
    taken_for:
        The schema that it is taken for, with the table's own names.

    Examples
    --------
    >>> from lakeevolve.model.types import Field
    >>> text = Schema(Record("R", (Field("state", Primitive("string")),)))
    >>> enum = Schema(Record("R", (Field("state", Enum("State", ("NEW", "PAID"))),)))
    >>> [(one.path, one.precondition) for one in assumptions(text, enum)]
    [('state', 'symbols-known')]
    """
    return tuple(_at(table.root, taken_for.root, paths.ROOT))


def left_optional(table: Table, newest: Version) -> tuple[str, ...]:
    """The columns, by path, that may be null in a table although the schema which its marker holds says otherwise; none
    where no marker holds it: then :func:`assumptions` are asked of all rows."""
    if newest.derived and not newest.recorded:
        return ()
    try:
        found = assumptions(table.derived(), newest.schema)
    except UnsupportedTable:
        # Files that do not go together tell of no columns; each is judged by what it has.
        return ()
    return tuple(one.path for one in found if one.precondition == "no-nulls")


def by_precondition(found: tuple[Assumption, ...]) -> Mapping[Precondition, tuple[Assumption, ...]]:
    """The assumptions by what has to be true of the rows."""
    kinds = dict.fromkeys(one.precondition for one in found)
    return {kind: tuple(one for one in found if one.precondition == kind) for kind in kinds}


def _at(have: AvroType, want: AvroType, path: str) -> Iterator[Assumption]:
    if is_optional(have) and not (isinstance(want, Union) and want.nullable):
        yield Assumption(path, "no-nulls", "optional", "required")
    yield from _plain(without_null(have), without_null(want), path)


def _plain(have: AvroType, want: AvroType, path: str) -> Iterator[Assumption]:
    match have, want:
        case Record() as old, Record() as new:
            for field in old.fields:
                if (other := new.field(field.name)) is not None:
                    yield from _at(field.type, other.type, paths.child(path, field.name))
        case Record() as old, Union() as union:
            # A union is a struct with one optional column for each branch: that a branch is null says nothing.
            for name, branch in zip(branch_names(union), union.values, strict=True):
                if (column := old.field(name)) is not None:
                    yield from _plain(without_null(column.type), branch, paths.branch(path, name))
        case Array() as old, Array() as new:
            yield from _at(old.items, new.items, paths.items(path))
        case Map() as old, Map() as new:
            yield from _at(old.values, new.values, paths.values(path))
        case _, Enum():
            yield Assumption(path, "symbols-known", "text", "an enum")
        case ((Primitive() | Fixed()), (Primitive() | Fixed())) if _narrower(have, want):
            yield Assumption(path, "values-valid", describe(have), describe(want))


def _narrower(have: Primitive | Fixed, want: Primitive | Fixed) -> bool:
    logical = "" if want.logical is None else want.logical.name
    bare = have.logical is None
    return bare and isinstance(want, Primitive) and (logical == "uuid" or logical.startswith("time-"))
