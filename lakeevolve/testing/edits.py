"""A strategy for what becomes of a schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeevolve.avro.defaults import check_default
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
    Json,
    Map,
    NamedRef,
    NamedType,
    Primitive,
    Record,
    Union,
    is_null,
    is_optional,
    kind,
    without_null,
)
from lakeevolve.testing.schemas import DOCS, FIELDS, NAMES, NEW_FIELDS, PROPS, SYMBOLS, Maker, schemas

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


def evolutions(
    *, tables: bool = False, depth: int = 3, steps: int = 4, compatible: bool = False
) -> SearchStrategy[tuple[Schema, Schema]]:
    """A schema and what it became by one to *steps* edits such as people make.

    Parameters
    ----------
    tables, depth:
        As in :func:`schemas`.
    steps:
        The most edits. Each falls on every use of the type that it edits.
    compatible:
        Only edits after which a reader with the new schema can read what was written with the old one (fields added
        with a default or dropped, renames with an alias, promotions, nulls allowed, symbols and branches added).

    Returns
    -------
    SearchStrategy[tuple[Schema, Schema]]
        (old, new)
    """
    from hypothesis import strategies as st

    @st.composite
    def build(draw: DrawFn) -> tuple[Schema, Schema]:
        old = draw(schemas(tables=tables, depth=depth))
        root = old.root
        # A name that once was another field's would make readers take that field's values.
        used = (
            {f.name for t in _named(root).values() if isinstance(t, Record) for f in t.fields} if compatible else set()
        )
        for _ in range(draw(st.integers(1, steps))):
            root = _edit(draw, root, tables, compatible, used)
        return old, Schema(root)

    return build()


def _named(type_: AvroType) -> dict[str, NamedType]:
    """Every named type within the type, by full name."""
    found: dict[str, NamedType] = {}

    def walk(each: AvroType) -> None:
        match each:
            case Record() if each.name not in found:
                found[each.name] = each
                for field in each.fields:
                    walk(field.type)
            case Enum() | Fixed():
                found[each.name] = each
            case Array():
                walk(each.items)
            case Map():
                walk(each.values)
            case Union():
                for branch in each.branches:
                    walk(branch)

    walk(type_)
    return found


def _rebuild(type_: AvroType, name: str, made: Callable[[AvroType], AvroType], new_name: str) -> AvroType:
    """The type with each use of the named type *name* replaced."""

    def walk(each: AvroType) -> AvroType:
        match each:
            case Record():
                inner = replace(each, fields=tuple(replace(f, type=walk(f.type)) for f in each.fields))
                return made(inner) if each.name == name else inner
            case Enum() | Fixed():
                return made(each) if each.name == name else each
            case Array():
                return replace(each, items=walk(each.items))
            case Map():
                return replace(each, values=walk(each.values))
            case Union():
                return Union(tuple(walk(branch) for branch in each.branches))
            case NamedRef() if each.name == name:
                return NamedRef(new_name)
        return each

    return walk(type_)


def _edit(draw: DrawFn, root: AvroType, tables: bool, compatible: bool, used: set[str]) -> AvroType:
    """One edit of one named type; a root without any is left as it is."""
    known = _named(root)
    if not known:
        return root
    maker = Maker(draw, tables, tuple(known.values()))
    maker.closed.clear()
    maker.taken |= used
    target = known[maker.pick(sorted(known))]
    changed = _changed(maker, target, compatible, used)
    inside = _rebuild(changed, target.name, lambda type_: type_, changed.name)
    # The change is made once and laid over every use; what stands beneath a use is the same at each of them.
    return _mended(maker, _rebuild(root, target.name, lambda _: inside, changed.name))


def _mended(maker: Maker, root: AvroType) -> AvroType:
    """The type with a new default wherever an edit has made the old one no value of its type any more."""
    names = _named(root)
    chosen: dict[tuple[str, str], Json] = {}

    def field(record: Record, each: Field) -> Field:
        if not each.has_default or check_default(each.type, each.default, names=names) is None:
            return each
        # Every use of the record gets the same one.
        key = (record.name, each.name)
        if key not in chosen:
            chosen[key] = maker.default(each.type)
        return replace(each, default=chosen[key])

    def walk(each: AvroType) -> AvroType:
        match each:
            case Record():
                return replace(each, fields=tuple(field(each, replace(f, type=walk(f.type))) for f in each.fields))
            case Array():
                return replace(each, items=walk(each.items))
            case Map():
                return replace(each, values=walk(each.values))
            case Union():
                return Union(tuple(walk(branch) for branch in each.branches))
        return each

    return walk(root)


def _changed(maker: Maker, type_: NamedType, compatible: bool, used: set[str]) -> NamedType:
    if maker.chance(8):
        name = maker.name()
        if compatible:
            used.update((type_.name, name))
        if compatible or maker.chance(2):
            return replace(type_, name=name, aliases=(type_.name, *type_.aliases))
        return replace(type_, name=name)
    if maker.chance(8):
        return replace(type_, doc=maker.pick(DOCS), props=maker.pick(PROPS))
    match type_:
        case Fixed():
            return type_ if compatible else replace(type_, size=type_.size + 1, logical=None)
        case Enum():
            return _changed_enum(maker, type_, compatible)
        case Record():
            return replace(type_, fields=_changed_fields(maker, type_, compatible, used))


def _changed_enum(maker: Maker, enum: Enum, compatible: bool) -> Enum:
    symbols = list(enum.symbols)
    fresh = [symbol for symbol in SYMBOLS if symbol not in symbols]
    if not compatible and len(symbols) > 1 and maker.chance(2):
        symbols.remove(maker.pick(symbols))
    elif fresh:
        symbols.insert(maker.pick(range(len(symbols) + 1)), maker.pick(fresh))
    else:
        symbols.reverse()
    return replace(enum, symbols=tuple(symbols), default=maker.pick((None, *symbols)))


def _changed_fields(maker: Maker, record: Record, compatible: bool, used: set[str]) -> tuple[Field, ...]:
    fields = list(record.fields)
    names = [field.name for field in fields]
    fresh = [name for name in (*FIELDS, *NEW_FIELDS) if name not in names and name not in used]
    if compatible:
        used.update(names)
    edit = maker.pick(("add", "drop", "rename", "move", "type", "type", "null", "default", "doc"))
    if edit == "add" and fresh:
        made = maker.field(maker.pick(fresh), 1, names)
        if compatible:
            made = replace(made, aliases=())
            if not made.has_default:
                made = replace(made, type=Union((NULL, Primitive("string"))), default=None)
        fields.insert(maker.pick(range(len(fields) + 1)), made)
        return tuple(fields)
    at = maker.pick(range(len(fields)))
    field = fields[at]
    if edit == "drop" and len(fields) > 1:
        del fields[at]
    elif edit == "rename" and fresh:
        aliases = (field.name, *field.aliases) if compatible or maker.chance(2) else field.aliases
        fields[at] = replace(field, name=maker.pick(fresh), aliases=aliases)
    elif edit == "move":
        fields.insert(maker.pick(range(len(fields))), fields.pop(at))
    elif edit == "type":
        fields[at] = _changed_type(maker, field, compatible)
    elif edit == "null" and not isinstance(field.type, Union) and not is_null(field.type):
        fields[at] = replace(field, type=Union((NULL, field.type)), default=None)
    elif edit == "null" and is_optional(field.type) and not compatible:
        fields[at] = replace(field, type=without_null(field.type), default=NO_DEFAULT)
    elif edit == "default":
        fields[at] = replace(field, default=maker.default(field.type))
    elif edit == "doc":
        fields[at] = replace(field, doc=maker.pick(DOCS), props=maker.pick(PROPS), order=maker.pick((None, "ignore")))
    return tuple(fields)


def _changed_type(maker: Maker, field: Field, compatible: bool) -> Field:
    type_ = field.type
    optional = is_optional(type_)
    inner = without_null(type_)
    if isinstance(inner, Union):
        names = {kind(branch) for branch in inner.branches}
        # A type that a present branch promotes to would take over that branch's values in some readers.
        others = [n for n in NAMES if n not in names and not any(n in PROMOTIONS.get(name, ()) for name in names)]
        added = (Primitive(maker.pick(others)),) if others else ()
        return replace(field, type=Union((*inner.branches, *added)))
    plain = isinstance(inner, Primitive) and inner.logical is None
    wider = [n for n in NAMES if plain and n in PROMOTIONS.get(kind(inner), ())]
    made: AvroType
    if wider and (compatible or maker.chance(2)):
        made = Primitive(maker.pick(wider))
    elif compatible:
        return field
    else:
        made = maker.type(1, union=False)
        made = Primitive("string") if is_null(made) else made
    if optional and isinstance(type_, Union):
        made = Union(tuple(branch if is_null(branch) else made for branch in type_.branches))
    return replace(field, type=made, default=maker.default(made) if field.has_default else NO_DEFAULT)
