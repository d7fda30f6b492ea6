"""The table's schema after a set of changes, made in one step and addressed by field id.

pyiceberg's ``UpdateSchema`` works by name and in phases, which swaps, a name used again and moves of new columns need
several of, each leaving a schema behind. Here the new schema is built as a whole, so that a table gets exactly one
schema per version.

A column keeps its id where the spec allows its new type in place. Where it does not, the data are written anew and
the nearest enclosing column gets a new id: the spec lets no id change its type otherwise, old snapshots keep reading
what they held, and a writer that still writes the old column cannot make the table unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from lakeevolve.errors import TableError
from lakeevolve.model import path as paths
from lakeevolve.model.branches import pair_branches
from lakeevolve.model.change import AddField, Change, RenameField
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    branch_names,
    without_null,
)
from lakeevolve.tables.base import Fill
from lakeevolve.tables.iceberg.types import by_name, iceberg_field, leaf_type, loosened, nullable, promotable


@dataclass(frozen=True, slots=True)
class Edits:
    """Of the changes, those that say which column a field continues. Paths are those of the target."""

    added: frozenset[str]
    #: Path in the target -> the field's old name.
    renamed: Mapping[str, str]
    fills: Mapping[str, Fill]

    @classmethod
    def of(cls, changes: Iterable[Change], fills: Mapping[str, Fill]) -> Edits:
        changes = list(changes)
        return cls(
            frozenset(change.path for change in changes if isinstance(change, AddField)),
            {change.new_path: paths.leaf(change.path) for change in changes if isinstance(change, RenameField)},
            fills,
        )


@dataclass(slots=True)
class Evolved:
    """``added`` and ``replaced`` are the paths (in the target) of columns that got an id of their own: new fields, and
    fields whose new type the spec does not allow in place. ``required`` are those that became required. ``moved`` tells
    the old id of each replaced column by its new one."""

    schema: IcebergSchema
    added: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    required: set[str] = field(default_factory=set)
    moved: dict[int, int] = field(default_factory=dict)


class _Replaced(Exception):
    """The type cannot change in place; the nearest enclosing column is to be replaced."""


def evolve(
    current: IcebergSchema,
    base: Schema,
    target: Schema,
    edits: Edits,
    *,
    last_id: int,
    format_version: int = 2,
) -> Evolved:
    """The schema that *current*, which holds *base*, becomes for *target*. Its id is left open.

    Columns that *base* does not own stay, each after the column that it stands after now.
    """
    return _Evolution(edits, count(last_id + 1).__next__, format_version).run(current, base.record, target.record)


def without_defaults(schema: IcebergSchema) -> IcebergSchema:
    """The schema without the defaults that old rows would get: for a table whose files hold every value."""
    struct = _plain(schema.as_struct())
    assert isinstance(struct, StructType)
    return IcebergSchema(*struct.fields, identifier_field_ids=list(schema.identifier_field_ids))


def _plain(type_: IcebergType) -> IcebergType:
    match type_:
        case StructType():
            return StructType(
                *[
                    NestedField(each.field_id, each.name, _plain(each.field_type), required=each.required, doc=each.doc)
                    for each in type_.fields
                ]
            )
        case ListType():
            return ListType(type_.element_id, _plain(type_.element_type), element_required=type_.element_required)
        case MapType():
            value = _plain(type_.value_type)
            return MapType(type_.key_id, type_.key_type, type_.value_id, value, value_required=type_.value_required)
    return type_


class _Evolution:
    def __init__(self, edits: Edits, fresh: Callable[[], int], format_version: int) -> None:
        self.edits = edits
        self.fresh = fresh
        self.format_version = format_version
        self.found = Evolved(IcebergSchema())

    def run(self, current: IcebergSchema, base: Record, target: Record) -> Evolved:
        struct = current.as_struct()
        owned = {each.name for each in base.fields}
        fields = self._fields(struct, base, target, paths.ROOT)
        stay = {each.field_id for each in fields}
        after: int | None = None
        for column in struct.fields:
            if column.name in owned:
                after = column.field_id if column.field_id in stay else after
                continue
            at = next((at + 1 for at, each in enumerate(fields) if each.field_id == after), 0)
            fields.insert(at, column)
            after = column.field_id
        self.found.schema = IcebergSchema(*fields)
        self._keep_identifiers(current)
        return self.found

    def _keep_identifiers(self, current: IcebergSchema) -> None:
        kept = sorted(current.identifier_field_ids)
        for number in kept:
            if number not in self.found.schema.field_ids:
                raise TableError(
                    "a column that identifies rows would be dropped or get another type",
                    where=current.find_column_name(number),
                    hint="take it out of the table's identifier fields first",
                )
        if kept:
            self.found.schema = IcebergSchema(*self.found.schema.columns, identifier_field_ids=kept)

    def _fields(self, struct: StructType, base: Record, target: Record, path: str) -> list[NestedField]:
        made = []
        columns = {each.name: each for each in struct.fields}
        for wanted in target.fields:
            here = paths.child(path, wanted.name)
            old = self.edits.renamed.get(here, wanted.name)
            was = None if here in self.edits.added else base.field(old)
            column = columns.get(old) if was is not None else None
            if was is None:
                self.found.added.add(here)
                made.append(self._new(wanted.name, wanted.type, here, doc=wanted.doc))
            elif column is None:
                raise TableError(
                    f"the table has no column {old!r} that its schema names",
                    where=here,
                    hint="the table was changed behind lakeevolve's back: plan again",
                )
            else:
                made.append(self._stays(column, was, wanted, here))
        return made

    def _new(
        self, name: str, type_: AvroType, path: str, *, optional: bool = False, doc: str | None = None
    ) -> NestedField:
        optional = optional or self.edits.fills.get(path) == "null"
        made = iceberg_field(name, type_, path, self.fresh, self.format_version, optional=optional, doc=doc)
        if made.required:
            self.found.required.add(path)
            return made
        return loosened(made)

    def _stays(self, column: NestedField, was: Field, wanted: Field, path: str) -> NestedField:
        doc = column.doc if was.doc == wanted.doc else wanted.doc
        return self._column(column, was.type, wanted.type, path, name=wanted.name, doc=doc)

    def _column(
        self, column: NestedField, was: AvroType, wanted: AvroType, path: str, *, name: str, doc: str | None
    ) -> NestedField:
        """A column of a struct: in place where that is possible, else a new one of its name."""
        required = self._required(column, was, wanted, path)
        try:
            type_ = self._type(column.field_type, without_null(was), without_null(wanted), path)
        except _Replaced:
            self.found.replaced.add(path)
            made = iceberg_field(name, wanted, path, self.fresh, self.format_version, optional=not required, doc=doc)
            if made.required:
                self.found.required.add(path)
            self.found.moved[made.field_id] = column.field_id
            return made
        if (name, required, doc) == (column.name, column.required, column.doc) and type_ == column.field_type:
            return column
        return NestedField(
            column.field_id,
            name,
            type_,
            required=required,
            doc=doc,
            initial_default=column.initial_default,
            write_default=column.write_default,
        )

    def _required(self, column: NestedField, was: AvroType, wanted: AvroType, path: str) -> bool:
        """A column that is optional although its Avro type is not (a sink made it) stays so unless that changes."""
        if nullable(wanted):
            return False
        if nullable(was):
            self.found.required.add(path)
            return True
        return bool(column.required)

    def _type(self, column: IcebergType, was: AvroType, wanted: AvroType, path: str) -> IcebergType:
        match column, was, wanted:
            case StructType(), Record(), Record():
                return StructType(*self._fields(column, was, wanted, path))
            case StructType(), Union(), Union():
                return self._union(column, was, wanted, path)
            case ListType(), Array(), Array():
                inner = self._inside(column.element_field, was.items, wanted.items, paths.items(path))
                return ListType(column.element_id, inner.field_type, element_required=inner.required)
            case MapType(), Map(), Map():
                inner = self._inside(column.value_field, was.values, wanted.values, paths.values(path))
                return MapType(
                    column.key_id, column.key_type, column.value_id, inner.field_type, value_required=inner.required
                )
            case PrimitiveType(), Primitive() | Fixed() | Enum(), Primitive() | Fixed() | Enum():
                new = leaf_type(wanted, path, self.format_version)
                if promotable(column, new):
                    return new
        raise _Replaced

    def _inside(self, column: NestedField, was: AvroType, wanted: AvroType, path: str) -> NestedField:
        """A list's element or a map's value, which cannot be replaced by itself."""
        type_ = self._type(column.field_type, without_null(was), without_null(wanted), path)
        return NestedField(column.field_id, column.name, type_, required=self._required(column, was, wanted, path))

    def _union(self, struct: StructType, was: Union, wanted: Union, path: str) -> StructType:
        names = dict(zip([id(b) for b in was.values], branch_names(was), strict=True))
        pairs = pair_branches(was.branches, wanted.branches, {})
        at = {id(branch): index for index, branch in enumerate(wanted.branches)}
        made = []
        for name, branch in zip(branch_names(wanted), wanted.values, strict=True):
            here = paths.branch(path, name)
            index = pairs.get(at[id(branch)])
            old = was.branches[index] if index is not None else None
            column = by_name(struct, names[id(old)]) if old is not None else None
            if old is None or column is None:
                self.found.added.add(here)
                made.append(self._new(name, branch, here, optional=True))
                continue
            moved = self._column(column, old, branch, here, name=name, doc=column.doc)
            # A branch is null in every row that holds another one.
            self.found.required.discard(here)
            made.append(NestedField(moved.field_id, name, moved.field_type, required=False, doc=moved.doc))
        return StructType(*made)
