"""Changes: one typed step each from an old schema to a new one, reversible and JSON-able.

Changes are applied in order, and a change's ``path`` is valid at the moment it is applied: within one record, drops
come first (last field first), then renames (those that follow each other on the same record happen at once, so that
a swap is two renames), then moves, then adds (first field first), then what changes inside the fields that stayed.

A branch of a union goes by the name of its type. Where a change alters that name, ``after`` is the path once it is
made; everywhere else it is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from lakeevolve.model import path as paths
from lakeevolve.model.types import AvroType, Field, Json, NoDefault, Props
from lakeevolve.model.value import value


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddField:
    """A field appears. ``path`` is the new field's own path, ``position`` its index in the record."""

    path: str
    field: Field
    position: int

    def reverse(self) -> DropField:
        return DropField(self.path, self.field, self.position)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DropField:
    """A field disappears. ``position`` is its index in the record at that moment."""

    path: str
    field: Field
    position: int

    def reverse(self) -> AddField:
        return AddField(self.path, self.field, self.position)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RenameField:
    """A field keeps its data under a new name. ``path`` is the old path, ``name`` the new last segment.

    ``via`` says who declared it: an ``alias`` in the schema, or the owner's approved ``overlay``.
    """

    path: str
    name: str
    via: Literal["alias", "overlay"] = "alias"

    @property
    def new_path(self) -> str:
        return paths.child(paths.parent(self.path), self.name)

    def reverse(self) -> RenameField:
        return RenameField(self.new_path, paths.leaf(self.path), self.via)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MoveField:
    """A field changes place among its siblings: taken out at ``source``, put in at ``target``."""

    path: str
    source: int
    target: int

    def reverse(self) -> MoveField:
        return MoveField(self.path, self.target, self.source)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PromoteType:
    """A primitive becomes another that Avro may read it as (int to long, string to bytes, ...)."""

    path: str
    old: AvroType
    new: AvroType
    after: str | None = None

    def reverse(self) -> ReplaceType:
        return ReplaceType(self.after or self.path, self.new, self.old, self.path if self.after else None)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChangeLogicalType:
    """The logical type changes on the same underlying type (decimal scale, millis to micros, none to date, ...)."""

    path: str
    old: AvroType
    new: AvroType

    def reverse(self) -> ChangeLogicalType:
        return ChangeLogicalType(self.path, self.new, self.old)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplaceType:
    """A type becomes another that is no promotion of it."""

    path: str
    old: AvroType
    new: AvroType
    after: str | None = None

    def reverse(self) -> ReplaceType:
        return ReplaceType(self.after or self.path, self.new, self.old, self.path if self.after else None)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MakeOptional:
    """T becomes ``["null", T]`` (``null_first``) or ``[T, "null"]``."""

    path: str
    null_first: bool

    def reverse(self) -> MakeRequired:
        return MakeRequired(self.path, self.null_first)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MakeRequired:
    """``["null", T]`` (``null_first``) or ``[T, "null"]`` becomes T."""

    path: str
    null_first: bool

    def reverse(self) -> MakeOptional:
        return MakeOptional(self.path, self.null_first)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddBranch:
    """A real union gains a branch at ``position`` (``null`` included)."""

    path: str
    branch: AvroType
    position: int

    def reverse(self) -> DropBranch:
        return DropBranch(self.path, self.branch, self.position)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DropBranch:
    """A real union loses a branch."""

    path: str
    branch: AvroType
    position: int

    def reverse(self) -> AddBranch:
        return AddBranch(self.path, self.branch, self.position)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReorderBranches:
    """The branches of a union stand in another order: ``order[i]`` is the old index of the new i-th branch."""

    path: str
    order: tuple[int, ...]

    def reverse(self) -> ReorderBranches:
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return ReorderBranches(self.path, tuple(back))


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddSymbol:
    """An enum gains a symbol at ``position``."""

    path: str
    symbol: str
    position: int

    def reverse(self) -> DropSymbol:
        return DropSymbol(self.path, self.symbol, self.position)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DropSymbol:
    """An enum loses a symbol."""

    path: str
    symbol: str
    position: int

    def reverse(self) -> AddSymbol:
        return AddSymbol(self.path, self.symbol, self.position)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReorderSymbols:
    """The same symbols in another order, which changes nothing that a table holds."""

    path: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    def reverse(self) -> ReorderSymbols:
        return ReorderSymbols(self.path, self.new, self.old)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetEnumDefault:
    """An enum gets another default, or loses it (None)."""

    path: str
    old: str | None
    new: str | None

    def reverse(self) -> SetEnumDefault:
        return SetEnumDefault(self.path, self.new, self.old)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetDefault:
    """The default of a field that exists before and after; no stored row changes."""

    path: str
    old: Json | NoDefault
    new: Json | NoDefault

    def reverse(self) -> SetDefault:
        return SetDefault(self.path, self.new, self.old)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetDoc:
    """The doc of the field at ``path``, or of the named type that stands there (``on``)."""

    path: str
    old: str | None
    new: str | None
    on: Literal["field", "type"] = "field"

    def reverse(self) -> SetDoc:
        return SetDoc(self.path, self.new, self.old, self.on)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetAliases:
    """The aliases of the field at ``path``, or of the named type that stands there (``on``)."""

    path: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    on: Literal["field", "type"] = "field"

    def reverse(self) -> SetAliases:
        return SetAliases(self.path, self.new, self.old, self.on)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetProperties:
    """The JSON attributes outside Avro's own, of the field at ``path`` or of the type that stands there (``on``)."""

    path: str
    old: Props
    new: Props
    on: Literal["field", "type"] = "field"

    def reverse(self) -> SetProperties:
        return SetProperties(self.path, self.new, self.old, self.on)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetOrder:
    """The sort order attribute of a field."""

    path: str
    old: str | None
    new: str | None

    def reverse(self) -> SetOrder:
        return SetOrder(self.path, self.new, self.old)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RenameType:
    """A record, enum or fixed gets another full name; ``error`` records become plain ones or the reverse."""

    path: str
    old: str
    new: str
    old_error: bool = False
    new_error: bool = False
    after: str | None = None

    def reverse(self) -> RenameType:
        before = self.path if self.after else None
        return RenameType(self.after or self.path, self.new, self.old, self.new_error, self.old_error, before)


Change: TypeAlias = (
    AddField
    | DropField
    | RenameField
    | MoveField
    | PromoteType
    | ChangeLogicalType
    | ReplaceType
    | MakeOptional
    | MakeRequired
    | AddBranch
    | DropBranch
    | ReorderBranches
    | AddSymbol
    | DropSymbol
    | ReorderSymbols
    | SetEnumDefault
    | SetDefault
    | SetDoc
    | SetAliases
    | SetProperties
    | SetOrder
    | RenameType
)
