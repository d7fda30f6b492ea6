"""Three schemas into one: what a plan wanted of a table, on top of what others made of it since.

Fields are the same field where they come from the same field of the base, whatever they are called now. What only one
side changed is taken; what both changed alike is taken once; what both changed otherwise is a conflict, and nobody
guesses. So a field that the other side added is never dropped because the plan did not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField, Change
from lakeevolve.model.same import same_json
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NULL,
    Array,
    AvroType,
    Enum,
    Field,
    Map,
    NoDefault,
    Record,
    Union,
    is_null,
    is_optional,
    without_null,
)

_Value = TypeVar("_Value")


class Conflict(Exception):
    """Both sides changed what stands at a path of the base (or added a field of that name), each in its own way."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two schemas that came of the base: ``renames`` maps new paths to the base's, ``fresh`` are the paths
    of new fields."""

    record: Record
    renames: Mapping[str, str]
    fresh: Collection[str]

    @classmethod
    def of(cls, schema: Schema, changes: Sequence[Change], renames: Mapping[str, str]) -> Side:
        return cls(schema.record, renames, {change.path for change in changes if isinstance(change, AddField)})

    def fields(self, record: Record, base: Record, at: str, base_at: str) -> tuple[dict[str, Field], list[Field]]:
        """The record's fields by the name that they have in the base, and those that are new."""
        kept, new = {}, []
        gone = {paths.leaf(old) for old in self.renames.values() if paths.parent(old) == base_at}
        for field in record.fields:
            here = paths.child(at, field.name)
            if here in self.renames:
                kept[paths.leaf(self.renames[here])] = field
            elif here in self.fresh or field.name in gone or base.field(field.name) is None:
                new.append(field)
            else:
                kept[field.name] = field
        return kept, new


def merge(base: Schema, ours: Side, theirs: Side) -> Schema:
    """The schema with what both sides changed. Raises :class:`Conflict`."""
    walk = _Merge(ours, theirs)
    return Schema(walk.record(base.record, ours.record, theirs.record, "", "", ""))


@dataclass(frozen=True, slots=True)
class _Merge:
    ours: Side
    theirs: Side

    def record(self, base: Record, ours: Record, theirs: Record, at: str, our_at: str, their_at: str) -> Record:
        mine, my_new = self.ours.fields(ours, base, our_at, at)
        others, other_new = self.theirs.fields(theirs, base, their_at, at)
        made: dict[str, Field] = {}
        for old in base.fields:
            field = self._field(old, mine.get(old.name), others.get(old.name), at, our_at, their_at)
            if field is not None:
                made[old.name] = field
        added = {field.name: field for field in my_new}
        for field in other_new:
            if field.name in added and added[field.name] != field:
                raise Conflict(paths.child(at, field.name))
        fields = self._ordered(ours, theirs, mine, others, made, my_new, other_new)
        names = [field.name for field in fields]
        for name in names:
            if names.count(name) > 1:
                raise Conflict(paths.child(at, name))
        return replace(
            ours,
            name=_one(base.name, ours.name, theirs.name, at),
            fields=fields,
            aliases=_list(base.aliases, ours.aliases, theirs.aliases),
            doc=_one(base.doc, ours.doc, theirs.doc, at),
            error=_one(base.error, ours.error, theirs.error, at),
            props=_props(base.props, ours.props, theirs.props, at),
        )

    def _field(
        self, base: Field, mine: Field | None, other: Field | None, at: str, our_at: str, their_at: str
    ) -> Field | None:
        here = paths.child(at, base.name)
        if mine is None or other is None:
            left = mine or other
            # Dropped on one side: a conflict where the other side changed it meanwhile.
            if left is not None and left != base:
                raise Conflict(here)
            return None
        if other == base:
            return mine
        if mine == base:
            return other
        inner = paths.child(our_at, mine.name), paths.child(their_at, other.name)
        return Field(
            name=_one(base.name, mine.name, other.name, here),
            type=self._type(base.type, mine.type, other.type, here, *inner),
            default=_default(base.default, mine.default, other.default, here),
            doc=_one(base.doc, mine.doc, other.doc, here),
            aliases=_list(base.aliases, mine.aliases, other.aliases),
            order=_one(base.order, mine.order, other.order, here),
            props=_props(base.props, mine.props, other.props, here),
        )

    def _type(self, base: AvroType, mine: AvroType, other: AvroType, at: str, our_at: str, their_at: str) -> AvroType:
        if mine == other or other == base:
            return mine
        if mine == base:
            return other
        if any(isinstance(each, Union) and not is_optional(each) for each in (base, mine, other)):
            raise Conflict(at)
        bare = without_null(base), without_null(mine), without_null(other)
        plain = self._plain(bare[0], bare[1], bare[2], at, our_at, their_at)
        null = _one(_null(base), _null(mine), _null(other), at)
        return plain if null is None else Union((NULL, plain) if null == "first" else (plain, NULL))

    def _plain(self, base: AvroType, mine: AvroType, other: AvroType, at: str, our_at: str, their_at: str) -> AvroType:
        match base, mine, other:
            case Record(), Record(), Record():
                return self.record(base, mine, other, at, our_at, their_at)
            case Array(), Array(), Array():
                inner = [paths.items(each) for each in (at, our_at, their_at)]
                items = self._type(base.items, mine.items, other.items, inner[0], inner[1], inner[2])
                return Array(items, _props(base.props, mine.props, other.props, at))
            case Map(), Map(), Map():
                inner = [paths.values(each) for each in (at, our_at, their_at)]
                values = self._type(base.values, mine.values, other.values, inner[0], inner[1], inner[2])
                return Map(values, _props(base.props, mine.props, other.props, at))
            case Enum(), Enum(), Enum():
                return replace(
                    mine,
                    name=_one(base.name, mine.name, other.name, at),
                    symbols=_list(base.symbols, mine.symbols, other.symbols),
                    default=_one(base.default, mine.default, other.default, at),
                    aliases=_list(base.aliases, mine.aliases, other.aliases),
                    doc=_one(base.doc, mine.doc, other.doc, at),
                    props=_props(base.props, mine.props, other.props, at),
                )
        return _one(base, mine, other, at)

    def _ordered(
        self,
        ours: Record,
        theirs: Record,
        mine: Mapping[str, Field],
        others: Mapping[str, Field],
        made: Mapping[str, Field],
        my_new: Sequence[Field],
        other_new: Sequence[Field],
    ) -> tuple[Field, ...]:
        """Their order, or ours where we moved fields; a new field stands behind the one that it follows on its side."""
        added = {field.name: field for field in (*my_new, *other_new)}
        sides = [_keys(ours, mine), _keys(theirs, others)]
        moved = [key for key in sides[0] if key[0] == "old"] != [("old", old) for old in made if old in mine]
        first, second = sides if moved else sides[::-1]
        there = {("old", old) for old in made} | {("new", name) for name in added}
        order = [key for key in first if key in there]
        before: tuple[str, str] | None = None
        for key in second:
            if key in there and key not in order:
                order.insert(order.index(before) + 1 if before in order else 0, key)
            if key in order:
                before = key
        return tuple(made[name] if kind == "old" else added[name] for kind, name in order)


def _keys(record: Record, kept: Mapping[str, Field]) -> list[tuple[str, str]]:
    """The record's fields in their order: an old one by its name in the base, a new one by its own."""
    by_name = {field.name: old for old, field in kept.items()}
    return [("old", by_name[f.name]) if f.name in by_name else ("new", f.name) for f in record.fields]


def _one(base: _Value, mine: _Value, other: _Value, at: str, same: Callable[[Any, Any], bool] | None = None) -> _Value:
    """What came of one thing that cannot be taken apart."""
    equal = same or (lambda one, two: one == two)
    if equal(mine, other) or equal(other, base):
        return mine
    if equal(mine, base):
        return other
    raise Conflict(at)


def _default(base: Any, mine: Any, other: Any, at: str) -> Any:
    def same(one: Any, two: Any) -> bool:
        if isinstance(one, NoDefault) or isinstance(two, NoDefault):
            return one is two
        return same_json(one, two)

    return _one(base, mine, other, at, same)


def _list(base: Sequence[str], mine: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Names in our order, without those that the others took away, and with those that they added at the end."""
    kept = [name for name in mine if name in other or name not in base]
    return (*kept, *(name for name in other if name not in base and name not in kept))


def _props(base: Mapping[str, Any], mine: Mapping[str, Any], other: Mapping[str, Any], at: str) -> dict[str, Any]:
    nothing = object()

    def same(one: Any, two: Any) -> bool:
        return one is two if one is nothing or two is nothing else same_json(one, two)

    found = {}
    for key in dict.fromkeys((*mine, *other)):
        value = _one(base.get(key, nothing), mine.get(key, nothing), other.get(key, nothing), at, same)
        if value is not nothing:
            found[key] = value
    return found


def _null(type_: AvroType) -> str | None:
    """Where null stands in ``["null", T]``; None where it does not."""
    if not isinstance(type_, Union):
        return None
    return "first" if is_null(type_.branches[0]) else "last"
