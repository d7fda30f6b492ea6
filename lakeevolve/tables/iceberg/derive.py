"""Reading an Avro schema off a table's columns.

What a table cannot say (names of records, symbols, aliases, which types of one column make a union) comes from a
schema that does: the *hint*, matched by name and alias, or the schema of an earlier version, matched by field id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StringType, StructType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros
from pyiceberg.utils.decimal import decimal_to_unscaled

from lakeevolve.avro.defaults import check_default
from lakeevolve.errors import UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.match import match_fields
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NO_DEFAULT,
    NULL,
    PROMOTIONS,
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
    is_null,
    kind,
    short_name,
    without_null,
)
from lakeevolve.tables.foreign import is_foreign
from lakeevolve.tables.iceberg.types import avro_leaf, below, by_name, children, leaf_type, nullable


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier version says of a column: its Avro field (a union's branch as one) and its table column."""

    field: Field
    column: NestedField
    path: str


def known_columns(schema: IcebergSchema, avro: Schema) -> dict[int, Known]:
    """Every column that an Avro schema owns, at every depth, by field id."""
    found: dict[int, Known] = {}
    _know(schema.as_struct(), avro.root, paths.ROOT, found)
    return found


def _know(column: IcebergType, type_: AvroType | None, path: str, found: dict[int, Known]) -> None:
    match column:
        case StructType():
            plain = without_null(type_) if type_ is not None else None
            fields = {each.name: each for each in plain.fields} if isinstance(plain, Record) else {}
            for name, inner, here in children(type_, column, path):
                inside = by_name(column, name)
                if inside is None or inner is None:
                    continue
                found[inside.field_id] = Known(fields.get(name, Field(name, inner)), inside, here)
                _know(inside.field_type, inner, here, found)
        case ListType() if below(type_) is not None:
            items = below(type_)
            assert items is not None
            found[column.element_id] = Known(Field("element", items), column.element_field, paths.items(path))
            _know(column.element_type, items, paths.items(path), found)
        case MapType() if below(type_) is not None:
            items = below(type_)
            assert items is not None
            found[column.value_id] = Known(Field("value", items), column.value_field, paths.values(path))
            _know(column.value_type, items, paths.values(path), found)


class Opaque(Exception):
    """The column has a type that Avro cannot say."""


@dataclass(slots=True)
class Derivation:
    """One reading of a table's columns."""

    hint: Schema | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[int, Known] = field(default_factory=dict)
    #: Columns that no schema owns although their names do not begin with "_".
    foreign: frozenset[int] = frozenset()
    #: Names of columns that no schema owns, as patterns.
    left_out: Sequence[str] = ()
    #: Definitions of the records made so far, since one name may not mean two things.
    _records: dict[str, Record] = field(default_factory=dict)

    def schema(self, schema: IcebergSchema, name: str, head: Record | None = None) -> Schema:
        """The schema of the whole table. *head* is what the root record is called, where that is known; *name* is for
        one that nothing names."""
        model = self.hint.root if self.hint is not None else None
        model = model if isinstance(model, Record) else None
        root = self._record(schema.as_struct(), model, "", "", _typed(name), top=True)
        if head is not None:
            root = replace(head, fields=root.fields)
        if not root.fields:
            raise UnsupportedTable("the table has no column that Avro has a type for", hint="nothing can be evolved")
        return Schema(root)

    def _record(
        self, struct: StructType, model: Record | None, path: str, new_path: str, name: str, *, top: bool = False
    ) -> Record:
        fields = []
        names = {column.name for column in struct.fields}
        models = self._models(struct, model, new_path)
        for column in struct.fields:
            here = paths.child(path, column.name)
            like = models.get(column.name)
            if top and (column.field_id in self.foreign or (like is None and is_foreign(column.name, self.left_out))):
                continue
            there = paths.child(new_path, like.name if like is not None else column.name)
            try:
                made_of = self._field(column, like, here, there, name)
                if column.field_id not in self.known:
                    # An alias that names a column which is there says what is yet to be renamed: taken over, it would
                    # say that this has happened, and a swap would be lost.
                    left = tuple(alias for alias in made_of.aliases if alias not in names)
                    made_of = replace(made_of, aliases=left)
                fields.append(made_of)
            except Opaque:
                if not top:
                    raise
        made = Record(
            model.name if model is not None else name,
            tuple(fields),
            aliases=model.aliases if model is not None else (),
            doc=model.doc if model is not None else None,
            error=model.error if model is not None else False,
            props=model.props if model is not None else {},
        )
        return self._distinct(made)

    def _distinct(self, record: Record) -> Record:
        name, number = record.name, 2
        while self._records.setdefault(name, replace(record, name=name)) != replace(record, name=name):
            name = f"{record.name}_{number}"
            number += 1
        return self._records[name]

    def _models(self, struct: StructType, model: Record | None, new_path: str) -> dict[str, Field]:
        """The field that says what a column means, by the column's name: the one that will continue it."""
        found: dict[str, Field] = {}
        if model is not None:
            columns = Record("Columns", tuple(Field(column.name, NULL) for column in struct.fields))
            pairs, _ = match_fields(columns, model, path=new_path, renames=self.renames)
            found = {columns.fields[old].name: model.fields[new] for new, old in pairs if old is not None}
        found.update((c.name, self.known[c.field_id].field) for c in struct.fields if c.field_id in self.known)
        return found

    def _field(self, column: NestedField, like: Field | None, path: str, new_path: str, owner: str) -> Field:
        known = self.known.get(column.field_id)
        type_ = self._type(column, like.type if like is not None else None, path, new_path, f"{owner}_{column.name}")
        doc = like.doc if like is not None else column.doc
        if known is not None and column.doc != known.column.doc:
            doc = column.doc
        default: Any = NO_DEFAULT
        if like is not None and like.has_default and check_default(type_, like.default) is None:
            default = like.default
        if column.initial_default is not None and default is NO_DEFAULT:
            # Rows older than the column read this value (v3): that is what an Avro default says.
            type_, default = _with_initial(type_, column.initial_default)
        return Field(
            column.name,
            type_,
            default,
            doc,
            tuple(a for a in like.aliases if a != column.name) if like is not None else (),
            like.order if like is not None else None,
            like.props if like is not None else {},
        )

    def _type(self, column: NestedField, like: AvroType | None, path: str, new_path: str, name: str) -> AvroType:
        """The Avro type of a column (or of a list's element or a map's value), nullability included."""
        known = self.known.get(column.field_id)
        plain = self._plain(column.field_type, without_null(like) if like is not None else None, path, new_path, name)
        if like is None:
            null = column.optional
        elif known is not None:
            null = nullable(like) if column.required == known.column.required else column.optional
        else:
            null = column.optional and nullable(like)
        if isinstance(plain, Union):
            branches = tuple(plain.branches)
            has = plain.nullable
            if null and not has:
                branches = (NULL, *branches)
            if has and not null:
                branches = plain.values
            return Union(branches)
        if not null:
            return plain
        first = not isinstance(like, Union) or like.null_first
        return Union((NULL, plain) if first else (plain, NULL))

    def _plain(self, column: IcebergType, like: AvroType | None, path: str, new_path: str, name: str) -> AvroType:
        match column:
            case StructType():
                if isinstance(like, Union):
                    union = self._union(column, like, path, new_path, name)
                    if union is not None:
                        return union
                return self._record(column, like if isinstance(like, Record) else None, path, new_path, _typed(name))
            case ListType():
                model = like if isinstance(like, Array) else None
                inner = self._inside(column.element_field, model.items if model else None)
                items = self._type(column.element_field, inner, paths.items(path), paths.items(new_path), name)
                return Array(items, model.props if model else {})
            case MapType() if isinstance(column.key_type, StringType):
                like_map = like if isinstance(like, Map) else None
                inner = self._inside(column.value_field, like_map.values if like_map else None)
                values = self._type(column.value_field, inner, paths.values(path), paths.values(new_path), name)
                return Map(values, like_map.props if like_map else {})
            case PrimitiveType():
                if _holds(column, like):
                    assert like is not None
                    return like
                leaf = avro_leaf(column, like.name if isinstance(like, Fixed) else _typed(name))
                if leaf is not None:
                    return leaf
        raise Opaque

    def _inside(self, column: NestedField, like: AvroType | None) -> AvroType | None:
        known = self.known.get(column.field_id)
        return known.field.type if known is not None else like

    def _union(self, struct: StructType, like: Union, path: str, new_path: str, name: str) -> Union | None:
        """A real union whose branches are the struct's columns, or None where they are not.

        Each column has to hold a branch of *like*, under its name or an alias of it, or a branch that goes by its own
        name (what *like* promotes, or lacks); and one at least has to be of *like*.
        """
        records = dict(self._records)
        found = [self._branch(column, like, path, new_path, name) for column in struct.fields]
        branches = [each for each in found if each is not None]
        if len(branches) == len(found) and any(place < len(like.values) for place, _ in branches):
            made: list[AvroType] = [type_ for _, type_ in sorted(branches, key=lambda each: each[0])]
            if like.nullable:
                null = next(at for at, branch in enumerate(like.branches) if is_null(branch))
                made.insert(min(null, len(made)), NULL)
            union = Union(tuple(made))
            if not union.optional and set(branch_names(union)) == {column.name for column in struct.fields}:
                return union
        self._records.clear()
        self._records.update(records)
        return None

    def _branch(
        self, column: NestedField, like: Union, path: str, new_path: str, name: str
    ) -> tuple[int, AvroType] | None:
        """The branch that a column is, and its place among those of *like*; None where it is none."""
        if column.required:
            return None
        names = branch_names(like)
        here = paths.branch(path, column.name)
        for at, (called, branch) in enumerate(zip(names, like.values, strict=True)):
            alias = next((each for each in getattr(branch, "aliases", ()) if short_name(each) == column.name), None)
            if called == column.name or (alias is not None and column.name not in names):
                there = paths.branch(new_path, called)
                made = self._plain(column.field_type, without_null(branch), here, there, f"{name}_{called}")
                if called != column.name and alias is not None and isinstance(made, (Record, Enum, Fixed)):
                    made = replace(made, name=alias, aliases=())
                return at, made
        own = self._plain(column.field_type, None, here, paths.branch(new_path, column.name), column.name)
        if (own.name if isinstance(own, (Record, Fixed)) else kind(own)) != column.name:
            return None
        wider = PROMOTIONS.get(kind(own), frozenset())
        return next((at for at, each in enumerate(like.values) if kind(each) in wider), len(names)), own


def _holds(column: PrimitiveType, like: AvroType | None) -> bool:
    if not isinstance(like, (Primitive, Fixed, Enum)):
        return False
    try:
        return leaf_type(like, "", 3) == column
    except UnsupportedTable:
        return False


def _typed(name: str) -> str:
    """A name for a type that nothing names."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return text if re.match(r"[A-Za-z_]", text) else f"_{text}"


def _with_initial(type_: AvroType, value: Any) -> tuple[AvroType, Any]:
    """The type with an initial default as its Avro default, where Avro can write it."""
    plain = without_null(type_)
    default = _json(plain, value)
    if default is NO_DEFAULT or check_default(plain, default) is not None:
        return type_, NO_DEFAULT
    return (Union((plain, NULL)) if isinstance(type_, Union) else type_), default


def _json(type_: AvroType, value: Any) -> Any:
    """A value of the table's metadata as an Avro default."""
    logical = type_.logical if isinstance(type_, (Primitive, Fixed)) else None
    match value:
        case bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("latin-1")
        case UUID():
            return str(value) if isinstance(type_, Primitive) else value.bytes.decode("latin-1")
        case Decimal():
            unscaled = decimal_to_unscaled(value)
            size = type_.size if isinstance(type_, Fixed) else (unscaled.bit_length() + 8) // 8
            return unscaled.to_bytes(size, "big", signed=True).decode("latin-1")
        case datetime():
            micros = datetime_to_micros(value)
        case date():
            return date_to_days(value)
        case time():
            micros = time_to_micros(value)
        case _:
            return NO_DEFAULT
    if logical is None or not logical.name.endswith("millis"):
        return micros
    return micros // 1000 if micros % 1000 == 0 else NO_DEFAULT
