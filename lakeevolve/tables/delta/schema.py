"""Between Avro and Delta: what a Delta schema is in Avro, and which Delta type an Avro type becomes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakeevolve.avro.parse import parse
from lakeevolve.errors import SchemaError, UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.digest import canonical_json, type_json
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
    Logical,
    Map,
    NamedRef,
    NamedType,
    Primitive,
    Record,
    Union,
    branch_names,
    is_null,
    is_optional,
    kind,
    short_name,
    without_null,
)
from lakeevolve.tables.delta.types import COMMENT, Column, DeltaType, ListOf, MapOf, Struct, decimal_of
from lakeevolve.tables.foreign import is_foreign, matches

#: Column metadata that holds the Avro type of a leaf column whose Delta type says less (enum, fixed, uuid, time, ...).
AVRO_TYPE: Final = "lakeevolve.type"
#: Column metadata that holds the aliases of a top-level field, as a JSON list.
ALIASES: Final = "lakeevolve.aliases"

_TO_DELTA: Final = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_FROM_DELTA: Final[Mapping[str, Primitive]] = {
    "boolean": Primitive("boolean"),
    "integer": Primitive("int"),
    "long": Primitive("long"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "binary": Primitive("bytes"),
    "string": Primitive("string"),
    "date": Primitive("int", Logical("date")),
    "timestamp": Primitive("long", Logical("timestamp-micros")),
    "timestamp_ntz": Primitive("long", Logical("local-timestamp-micros")),
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}
#: What Delta holds of a decimal.
MAX_PRECISION: Final = 38


def nullable(type_: AvroType) -> bool:
    """Whether Avro allows null where this type stands."""
    return is_null(type_) or (isinstance(type_, Union) and type_.nullable)


def delta_type(type_: AvroType, path: str = paths.ROOT) -> DeltaType:
    """The Delta type that holds values of an Avro type; nullable exactly where Avro allows null.

    Raises ``UnsupportedTable`` for what Delta cannot hold, with the path.
    """
    match type_:
        case Primitive() | Fixed():
            return _leaf(type_, path)
        case Enum():
            return "string"
        case Array():
            return ListOf(delta_type(type_.items, paths.items(path)), nullable(type_.items))
        case Map():
            return MapOf("string", delta_type(type_.values, paths.values(path)), nullable(type_.values))
        case Record():
            if not type_.fields:
                raise _no_delta("a record without fields", path, "give the record a field")
            return Struct(tuple(new_column(f, paths.child(path, f.name)) for f in type_.fields))
        case Union():
            if type_.optional:
                return delta_type(without_null(type_), path)
            if not type_.values:
                raise _no_delta("a union without a branch other than null", path, "give the field a type")
            return Struct(
                tuple(
                    Column(name, delta_type(branch, paths.branch(path, name)))
                    for name, branch in zip(branch_names(type_), type_.values, strict=True)
                )
            )
        case NamedRef():
            raise _no_delta("a recursive type", path, "store the part that recurs as bytes or string")


def _leaf(type_: Primitive | Fixed, path: str) -> str:
    logical = type_.logical
    if logical is not None and logical.name in _LOGICAL:
        return _LOGICAL[logical.name]
    if logical is not None and logical.name == "decimal":
        if (logical.precision or 0) > MAX_PRECISION:
            raise _no_delta(f"{logical}", path, f"use a precision of at most {MAX_PRECISION} digits")
        return f"decimal({logical.precision},{logical.scale or 0})"
    if logical is not None and logical.name.endswith("timestamp-nanos"):
        raise _no_delta(logical.name, path, f"use {logical.name.replace('nanos', 'micros')}: Delta counts microseconds")
    if isinstance(type_, Fixed):
        return "binary"
    if type_.name == "null":
        raise _no_delta("null alone", path, "drop the field or give it a type")
    return _TO_DELTA[type_.name]


def _no_delta(what: str, path: str, hint: str) -> UnsupportedTable:
    return UnsupportedTable(f"Delta has no type for {what}", where=path or "$", hint=hint)


def new_column(field: Field, path: str, *, lenient: bool = False) -> Column:
    """The column of a field that the table does not have yet; ``lenient`` makes it optional whatever its type."""
    metadata = {} if field.doc is None else {COMMENT: field.doc}
    return Column(field.name, delta_type(field.type, path), lenient or nullable(field.type), metadata)


def column_texts(field: Field) -> dict[str, str]:
    """What a top-level column says of its field besides the comment: the Avro type where Delta's says less, and the
    aliases."""
    found = {}
    says = _avro_metadata(field)
    if says is not None:
        found[AVRO_TYPE] = says
    if field.aliases:
        found[ALIASES] = canonical_json(list(field.aliases))
    return found


def _avro_metadata(field: Field) -> str | None:
    """The value of :data:`AVRO_TYPE` for a top-level field; None where there is none.

    Only leaf columns have it. What stands within a struct, list or map changes with every field that is added, and
    the marker says it anyway.
    """
    bare = without_null(field.type)
    if isinstance(bare, Primitive) and (bare.logical is None or bare in _FROM_DELTA.values()):
        return None
    if isinstance(bare, Primitive) and bare.logical is not None and bare.logical.name == "decimal":
        return None
    return canonical_json(type_json(field.type)) if isinstance(bare, (Primitive, Fixed, Enum)) else None


@dataclass(frozen=True, slots=True)
class Derived:
    """A schema read off a table. ``foreign`` are the top-level columns that it leaves out."""

    schema: Schema
    foreign: tuple[str, ...]


def derive(
    struct: Struct,
    *,
    name: str,
    hint: Schema | None = None,
    renames: Mapping[str, str] | None = None,
    foreign: Collection[str] = (),
    left_out: Sequence[str] = (),
    follow: bool = False,
) -> Derived:
    """The Avro schema that a Delta schema amounts to.

    Parameters
    ----------
    struct:
        The table's schema.
    name:
        The record's name where there is no hint.
    hint, renames:
        As in :meth:`lakeevolve.tables.base.Table.derived`.
    foreign:
        Top-level columns to leave out whatever their names.
    left_out:
        Names of top-level columns that nobody owns, as patterns.
    follow:
        Whether the hint is the schema just before: then its order of fields stays, since Delta finds fields by name.
    """
    root = hint.root if hint is not None and isinstance(hint.root, Record) else None
    return _Derivation(dict(renames or {}), follow, left_out).run(struct, root, name, foreign)


@dataclass(slots=True)
class _Derivation:
    renames: dict[str, str]
    follow: bool
    left_out: Sequence[str] = ()
    names: dict[str, NamedType] = field(default_factory=dict)
    #: What was matched, with the two sides, which have to stay alive for their identities to be keys.
    matched: dict[Any, tuple[Struct, Record, Mapping[str, Field]]] = field(default_factory=dict)

    def run(self, struct: Struct, hint: Record | None, name: str, foreign: Collection[str]) -> Derived:
        left = []
        kept = []
        for column in struct.columns:
            unmatched = hint is not None and self._match(column, struct, hint, "", "") is None
            alone = hint is None and matches(column.name, self.left_out)
            nobodys = is_foreign(column.name, self.left_out) if unmatched else alone
            if column.name in foreign or nobodys or _opaque(column.type):
                left.append(column.name)
            else:
                kept.append(column)
        for column in kept:
            own = without_null(self._own_type(column) or NULL) if not self.follow else NULL
            if isinstance(own, (Enum, Fixed)):
                self._register(own)
        root, _ = self._record(Struct(tuple(kept)), hint, _avro_name(name), "", "")
        return Derived(Schema(root), tuple(left))

    def _match(self, column: Column, struct: Struct, hint: Record, at: str, hint_at: str) -> Field | None:
        """The hint's field for a column: by name, as the renames say, or by alias."""
        if not self.follow:
            return self._matches(struct, hint, at, hint_at).get(column.name)
        here = paths.child(at, column.name)
        for candidate in hint.fields:
            if self.renames.get(paths.child(hint_at, candidate.name)) == here:
                return candidate
        found = hint.field(column.name)
        if found is not None:
            return found if paths.child(hint_at, column.name) not in self.renames else None
        for candidate in hint.fields:
            if column.name in candidate.aliases and struct.column(candidate.name) is None:
                return candidate
        return None

    def _matches(self, struct: Struct, hint: Record, at: str, hint_at: str) -> Mapping[str, Field]:
        """The hint's field for each column, as a reader by that hint would find it: names that change places by alias
        are yet to do so."""
        key = (id(struct), id(hint), hint_at)
        if key not in self.matched:
            columns = Record("columns", tuple(Field(column.name, NULL) for column in struct.columns))
            renames = {new: old for new, old in self.renames.items() if paths.parent(old) == at}
            pairs, _ = match_fields(columns, hint, path=hint_at, renames=renames)
            found = {struct.columns[old].name: hint.fields[new] for new, old in pairs if old is not None}
            self.matched[key] = (struct, hint, found)
        return self.matched[key][2]

    def _record(self, struct: Struct, hint: Record | None, name: str, at: str, hint_at: str) -> tuple[Record, bool]:
        exact = hint is not None
        made: list[tuple[int, Field]] = []
        for position, column in enumerate(struct.columns):
            match = self._match(column, struct, hint, at, hint_at) if hint is not None else None
            own = self._own_type(column) if at == paths.ROOT and not self.follow else None
            wanted = own or (match.type if match is not None else None)
            type_, fits = self._type(
                column.type,
                column.nullable,
                wanted,
                paths.child(at, column.name),
                paths.child(hint_at, match.name if match is not None else column.name),
            )
            if match is None or hint is None:
                exact = False
                # Only a schema that came before keeps its own order, with what is new behind it.
                last = len(hint.fields) if hint is not None and self.follow else 0
                made.append((last + position, self._plain(column, type_, struct)))
                continue
            renamed = match.name != column.name
            exact = exact and fits and not renamed
            default = match.default if fits and (own is None or own == match.type) else NO_DEFAULT
            aliases = () if renamed else match.aliases
            if not self.follow:
                # An alias that names a column which is there says what is yet to be renamed: taken over, it would say
                # that this has happened, and a swap would be lost.
                aliases = tuple(alias for alias in aliases if struct.column(alias) is None)
            order = hint.fields.index(match) if self.follow else position
            made.append((order, replace(match, name=column.name, type=type_, default=default, aliases=aliases)))
        fields = tuple(f for _, f in sorted(made, key=lambda pair: pair[0]))
        exact = exact and hint is not None and len(fields) == len(hint.fields)
        record = replace(hint, fields=fields) if hint is not None else Record(name, fields)
        named = self._register(record)
        assert isinstance(named, Record)
        return named, exact

    def _own_type(self, column: Column) -> AvroType | None:
        """The Avro type that the column itself carries, where its Delta type still is what that amounts to."""
        text = column.metadata.get(AVRO_TYPE)
        if not isinstance(text, str):
            return None
        try:
            fields = [{"name": "value", "type": json.loads(text)}]
            own = parse({"type": "record", "name": "column", "fields": fields}).fields[0].type
        except (ValueError, SchemaError):
            return None  # another tool's doing: the Delta type alone still says how to read
        _, fits = _Derivation({}, follow=False)._type(column.type, column.nullable, own, "", "")
        return own if fits else None

    def _plain(self, column: Column, type_: AvroType, struct: Struct) -> Field:
        comment = column.metadata.get(COMMENT)
        own = () if self.follow else _own_aliases(column)
        aliases = tuple(alias for alias in own if struct.column(alias) is None)
        return Field(column.name, type_, doc=str(comment) if comment else None, aliases=aliases)

    def _type(
        self, type_: DeltaType, optional: bool, hint: AvroType | None, at: str, hint_at: str
    ) -> tuple[AvroType, bool]:
        bare = without_null(hint) if hint is not None else None
        found, fits = self._bare(type_, bare, at, hint_at)
        if isinstance(found, Union):  # a real union, which the hint gave
            if found.nullable and not optional:
                return Union(found.values), False
            return found, fits
        if hint is None:
            return (Union((NULL, found)), False) if optional else (found, False)
        if not optional:
            return found, fits and not nullable(hint)
        if not nullable(hint):
            return found, fits
        first = not isinstance(hint, Union) or hint.null_first
        return Union((NULL, found) if first else (found, NULL)), fits and is_optional(hint)

    def _bare(self, type_: DeltaType, hint: AvroType | None, at: str, hint_at: str) -> tuple[AvroType, bool]:
        match type_:
            case Struct():
                if isinstance(hint, Union):
                    union = self._union(type_, hint, at, hint_at)
                    if union is not None:
                        return union, type_json(union) == type_json(hint)
                    hint = None
                record = hint if isinstance(hint, Record) else None
                return self._record(type_, record, _avro_name(at), at, hint_at)
            case ListOf():
                below = hint.items if isinstance(hint, Array) else None
                items, fits = self._type(
                    type_.element, type_.contains_null, below, paths.items(at), paths.items(hint_at)
                )
                return Array(items, hint.props if isinstance(hint, Array) else {}), fits
            case MapOf():
                below = hint.values if isinstance(hint, Map) else None
                values, fits = self._type(
                    type_.value, type_.contains_null, below, paths.values(at), paths.values(hint_at)
                )
                return Map(values, hint.props if isinstance(hint, Map) else {}), fits
        if isinstance(hint, (Primitive, Fixed, Enum)) and not is_null(hint) and _fits(hint, type_):
            return (hint if isinstance(hint, Primitive) else self._register(hint)), True
        decimal = decimal_of(type_)
        if decimal is not None:
            return Primitive("bytes", Logical("decimal", *decimal)), False
        if type_ == "decimal":
            return Primitive("bytes", Logical("decimal", 10, 0)), False
        return _FROM_DELTA[type_], False

    def _union(self, struct: Struct, hint: Union, at: str, hint_at: str) -> Union | None:
        """The union that a struct is, with the hint's types for branches; None where it is none.

        Each column has to be an optional one that holds a branch of the hint, by its name or an alias of it and however
        it is to change inside; or a branch that goes by its own name; or a record that the hint no longer has. Where
        all branches of the hint are there, a text may be an enum that it no longer has, whose symbols nobody knows.
        """
        names = branch_names(hint)
        whole = set(names) <= {column.name for column in struct.columns}
        found: list[tuple[int, AvroType]] = []
        matched = False
        for column in struct.columns:
            place, branch = _branch_of(hint, column.name)
            there = paths.branch(hint_at, names[place] if branch is not None else column.name)
            here = paths.branch(at, column.name)
            probe, _ = _Derivation(self.renames, self.follow)._bare(column.type, branch, here, there)
            like = branch is not None and type(probe) is type(branch) and not isinstance(probe, Primitive)
            gone = whole and branch is None and column.type == "string" and kind(probe) != column.name
            if not column.nullable or not (like or gone or kind(probe) == column.name or isinstance(probe, Record)):
                return None
            type_, _ = self._bare(column.type, branch, here, there)
            if gone:
                type_ = self._register(Enum(_avro_name(column.name), ()))
            matched = matched or like or kind(probe) == column.name
            found.append((place, _called(type_, column.name, at)))
        if not matched:
            return None
        branches = [type_ for _, type_ in sorted(found, key=lambda pair: pair[0])]
        if hint.nullable:
            branches.insert(min(next(i for i, b in enumerate(hint.branches) if is_null(b)), len(branches)), NULL)
        union = Union(tuple(branches))
        return union if set(branch_names(union)) == {c.name for c in struct.columns} else None

    def _register(self, type_: NamedType) -> NamedType:
        """The type under its own name, or under another where that name already stands for something else.

        An enum or a fixed has one meaning per schema: the first one stays.
        """
        known = self.names.get(type_.name)
        if isinstance(type_, (Enum, Fixed)) and isinstance(known, type(type_)):
            return known
        name, number = type_.name, 1
        while name in self.names and self.names[name] != replace(type_, name=name):
            number += 1
            name = f"{type_.name}_{number}"
        return self.names.setdefault(name, replace(type_, name=name))


def _own_aliases(column: Column) -> tuple[str, ...]:
    """The aliases that the column itself carries."""
    text = column.metadata.get(ALIASES)
    try:
        found = json.loads(text) if isinstance(text, str) and text else []
    except ValueError:
        return ()  # another tool's doing
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def _branch_of(hint: Union, name: str) -> tuple[int, AvroType | None]:
    """The branch of a union that goes, or by an alias went, by a name, under that name; and the place among the
    branches of it or of what the name may be promoted to (else behind them all)."""
    names = branch_names(hint)
    for place, branch in enumerate(hint.values):
        if names[place] == name:
            return place, branch
    for place, branch in enumerate(hint.values):
        if isinstance(branch, (Record, Enum, Fixed)):
            alias = next((alias for alias in branch.aliases if short_name(alias) == name), None)
            if alias is not None:
                return place, replace(branch, name=alias, aliases=())
    wider = PROMOTIONS.get(name, frozenset())
    return next((place for place, branch in enumerate(hint.values) if kind(branch) in wider), len(names)), None


def _called(type_: AvroType, name: str, at: str) -> AvroType:
    """A record that is a union's branch under the name of its column: where another record has the same name, it gets
    a name space, since the column is called by the short name."""
    if isinstance(type_, Record) and short_name(type_.name) != name and _avro_name(name) == name:
        return replace(type_, name=f"{_avro_name(at)}.{name}")
    return type_


def _fits(hint: Primitive | Fixed | Enum, type_: DeltaType) -> bool:
    try:
        return delta_type(hint) == type_
    except UnsupportedTable:
        return False


def _opaque(type_: DeltaType) -> bool:
    """Whether Avro has no type for what stands here, or for something beneath it."""
    match type_:
        case Struct():
            return not type_.columns or any(_opaque(c.type) for c in type_.columns)
        case ListOf():
            return _opaque(type_.element)
        case MapOf():
            return type_.key != "string" or _opaque(type_.value)
    return type_ not in _FROM_DELTA and type_ != "decimal" and decimal_of(type_) is None


def _avro_name(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", text.replace("[]", "_item").replace("{}", "_value")).strip("_")
    return plain if re.match(r"[A-Za-z_]", plain) else f"r_{plain}"
