"""Applying changes to a schema: the inverse of :mod:`lakeevolve.model.diff`.

A change names what it replaces, and is applied only where exactly that stands. A list that was made for another
schema, or was reordered, therefore fails instead of giving a schema that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeVar, assert_never

from lakeevolve.errors import PlanError
from lakeevolve.model import path as paths
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    AddSymbol,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropField,
    DropSymbol,
    MakeOptional,
    MakeRequired,
    MoveField,
    PromoteType,
    RenameField,
    RenameType,
    ReorderBranches,
    ReorderSymbols,
    ReplaceType,
    SetAliases,
    SetDefault,
    SetDoc,
    SetEnumDefault,
    SetOrder,
    SetProperties,
)
from lakeevolve.model.same import same_field, same_json, same_props, same_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NULL,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
    without_null,
)

_Edit = Callable[[AvroType], AvroType]
_T = TypeVar("_T")


def apply_changes(changes: Sequence[Change], old: Schema) -> Schema:
    """The schema that *old* becomes by *changes*, applied in their order.

    Parameters
    ----------
    changes:
        What :func:`lakeevolve.model.diff.diff` found, or the reverse of each in reversed order.
    old:
        The schema that they start from.

    Returns
    -------
    Schema
        Without source and line numbers, since it was read from nowhere.

    Raises
    ------
    PlanError
        A change does not fit: what it replaces is not there.

    Examples
    --------
    >>> from lakeevolve.model.types import Field, Primitive, Record
    >>> old = Schema(Record("Order", (Field("id", Primitive("long")),)))
    >>> added = AddField("note", Field("note", Primitive("string"), default=""), 1)
    >>> [field.name for field in apply_changes([added], old).fields]
    ['id', 'note']
    >>> apply_changes([added, added.reverse()], old) == old
    True
    """
    root = old.root
    at = 0
    while at < len(changes):
        change = changes[at]
        if isinstance(change, RenameField):
            batch = _renames_at_once(changes, at)
            root = _edit(root, paths.parts(batch[0].path)[:-1], partial(_rename, batch), batch[0].path)
            at += len(batch)
        else:
            root = _apply(root, change)
            at += 1
    return Schema(_shared(root))


def _renames_at_once(changes: Sequence[Change], at: int) -> list[RenameField]:
    batch: list[RenameField] = []
    for change in changes[at:]:
        if not isinstance(change, RenameField):
            break
        if batch and paths.parent(change.path) != paths.parent(batch[0].path):
            break
        batch.append(change)
    return batch


def _misfit(why: str, path: str) -> NoReturn:
    raise PlanError(
        f"a change does not fit the schema: {why}",
        where=path or "$",
        hint="make the diff again from the schema as it is now",
    )


def _apply(root: AvroType, change: Change) -> AvroType:
    segments = paths.parts(change.path)
    if isinstance(change, (AddField, DropField, MoveField)):
        return _edit(root, segments[:-1], lambda t: _fields(t, change), change.path)
    if isinstance(change, (SetDefault, SetOrder)) or (
        isinstance(change, (SetDoc, SetAliases, SetProperties)) and change.on == "field"
    ):
        setting = change
        return _edit(root, segments[:-1], lambda t: _one_field(t, segments[-1], setting), change.path)
    return _edit(root, segments, lambda t: _type(t, change), change.path)


def _edit(type_: AvroType, segments: tuple[str, ...], edit: _Edit, path: str) -> AvroType:
    """The type with *edit* applied to what stands at *segments* beneath it."""
    if not segments:
        return edit(type_)
    head, rest = segments[0], segments[1:]
    if isinstance(type_, Union):
        if type_.optional:
            return _inside(type_, _edit(without_null(type_), segments, edit, path))
        names = dict(zip(branch_names(type_), (i for i, b in enumerate(type_.branches) if not is_null(b)), strict=True))
        index = names.get(head[1:-1]) if head.startswith("<") else None
        if index is None:
            _misfit(f"the union has no branch {head}", path)
        return Union(_put(type_.branches, index, _edit(type_.branches[index], rest, edit, path)))
    if isinstance(type_, Array) and head == paths.ITEMS:
        return replace(type_, items=_edit(type_.items, rest, edit, path))
    if isinstance(type_, Map) and head == paths.VALUES:
        return replace(type_, values=_edit(type_.values, rest, edit, path))
    if isinstance(type_, Record):
        at = _index(type_, head, path)
        field = type_.fields[at]
        return replace(type_, fields=_put(type_.fields, at, replace(field, type=_edit(field.type, rest, edit, path))))
    _misfit(f"{describe(type_)} has nothing called {head}", path)


def _index(record: Record, name: str, path: str) -> int:
    found = next((i for i, field in enumerate(record.fields) if field.name == name), None)
    if found is None:
        _misfit(f"the record {record.name} has no field {name}", path)
    return found


def _record(type_: AvroType, path: str) -> Record:
    inner = without_null(type_)
    if not isinstance(inner, Record):
        _misfit(f"a record is expected, and {describe(type_)} stands there", path)
    return inner


def _rename(batch: Sequence[RenameField], type_: AvroType) -> AvroType:
    record = _record(type_, batch[0].path)
    fields = list(record.fields)
    for change in batch:
        at = _index(record, paths.leaf(change.path), change.path)
        fields[at] = replace(record.fields[at], name=change.name)
    if len({field.name for field in fields}) < len(fields):
        _misfit("two fields would have one name", batch[0].path)
    return _inside(type_, replace(record, fields=tuple(fields)))


def _fields(type_: AvroType, change: AddField | DropField | MoveField) -> AvroType:
    record = _record(type_, change.path)
    fields = record.fields
    name = paths.leaf(change.path)
    if isinstance(change, AddField):
        if record.field(name) is not None:
            _misfit("the field is there already", change.path)
        if change.field.name != name or not 0 <= change.position <= len(fields):
            _misfit(f"no field {change.field.name} can be added at position {change.position}", change.path)
        fields = (*fields[: change.position], change.field, *fields[change.position :])
    else:
        at = _index(record, name, change.path)
        rest = (*fields[:at], *fields[at + 1 :])
        if isinstance(change, DropField):
            if at != change.position or not same_field(fields[at], change.field):
                _misfit("the field to drop is not the one that was there", change.path)
            fields = rest
        else:
            if at != change.source or not 0 <= change.target <= len(rest):
                _misfit("the field to move stands elsewhere", change.path)
            fields = (*rest[: change.target], fields[at], *rest[change.target :])
    return _inside(type_, replace(record, fields=fields))


def _one_field(
    type_: AvroType, name: str, change: SetDefault | SetOrder | SetDoc | SetAliases | SetProperties
) -> AvroType:
    record = _record(type_, change.path)
    at = _index(record, name, change.path)
    field = record.fields[at]
    match change:
        case SetDefault():
            fits, changed = same_json(field.default, change.old), replace(field, default=change.new)
        case SetOrder():
            fits, changed = field.order == change.old, replace(field, order=change.new)
        case SetDoc():
            fits, changed = field.doc == change.old, replace(field, doc=change.new)
        case SetAliases():
            fits, changed = field.aliases == change.old, replace(field, aliases=change.new)
        case SetProperties():
            fits, changed = same_props(field.props, change.old), replace(field, props=change.new)
        case _:
            assert_never(change)
    if not fits:
        _misfit("the field has another value there than the one to be replaced", change.path)
    return _inside(type_, replace(record, fields=_put(record.fields, at, changed)))


def _type(type_: AvroType, change: Change) -> AvroType:
    """The type with a change applied that concerns the type itself."""
    match change:
        case PromoteType() | ChangeLogicalType() | ReplaceType():
            if same_type(type_, change.old):
                return change.new
            if not isinstance(change.new, Union) and same_type(without_null(type_), change.old):
                return _inside(type_, change.new)
            _misfit(f"{describe(change.old)} is expected, and {describe(type_)} stands there", change.path)
        case MakeOptional():
            if isinstance(type_, Union) or is_null(type_):
                _misfit(f"{describe(type_)} cannot be made optional", change.path)
            return Union((NULL, type_) if change.null_first else (type_, NULL))
        case MakeRequired():
            if not isinstance(type_, Union) or not type_.optional or type_.null_first != change.null_first:
                _misfit(f"{describe(type_)} cannot be made required", change.path)
            return without_null(type_)
        case AddBranch() | DropBranch() | ReorderBranches():
            return _union(type_, change)
        case AddSymbol() | DropSymbol() | ReorderSymbols() | SetEnumDefault():
            return _inside(type_, _enum(without_null(type_), change))
        case RenameType() | SetDoc() | SetAliases() | SetProperties():
            return _inside(type_, _attribute(without_null(type_), change))
    raise AssertionError(f"not a change of a type: {type(change).__name__}")


def _union(type_: AvroType, change: AddBranch | DropBranch | ReorderBranches) -> Union:
    if not isinstance(type_, Union):
        _misfit(f"a union is expected, and {describe(type_)} stands there", change.path)
    branches = type_.branches
    match change:
        case AddBranch() if 0 <= change.position <= len(branches):
            return Union((*branches[: change.position], change.branch, *branches[change.position :]))
        case DropBranch() if change.position < len(branches) and same_type(branches[change.position], change.branch):
            return Union((*branches[: change.position], *branches[change.position + 1 :]))
        case ReorderBranches() if sorted(change.order) == list(range(len(branches))):
            return Union(tuple(branches[i] for i in change.order))
    _misfit("the union has other branches", change.path)


def _enum(type_: AvroType, change: AddSymbol | DropSymbol | ReorderSymbols | SetEnumDefault) -> Enum:
    if not isinstance(type_, Enum):
        _misfit(f"an enum is expected, and {describe(type_)} stands there", change.path)
    symbols = type_.symbols
    match change:
        case AddSymbol() if 0 <= change.position <= len(symbols):
            return replace(type_, symbols=(*symbols[: change.position], change.symbol, *symbols[change.position :]))
        case DropSymbol() if symbols[change.position : change.position + 1] == (change.symbol,):
            return replace(type_, symbols=(*symbols[: change.position], *symbols[change.position + 1 :]))
        case ReorderSymbols() if symbols == change.old and sorted(change.old) == sorted(change.new):
            return replace(type_, symbols=change.new)
        case SetEnumDefault() if type_.default == change.old:
            return replace(type_, default=change.new)
    _misfit("the enum has other symbols or another default", change.path)


def _attribute(type_: AvroType, change: RenameType | SetDoc | SetAliases | SetProperties) -> AvroType:
    match change, type_:
        case RenameType(), Record() if (type_.name, type_.error) == (change.old, change.old_error):
            return replace(type_, name=change.new, error=change.new_error)
        case RenameType(), Enum() | Fixed() | NamedRef() if type_.name == change.old:
            return replace(type_, name=change.new)
        case SetDoc(), Record() | Enum() | Fixed() if type_.doc == change.old:
            return replace(type_, doc=change.new)
        case SetAliases(), Record() | Enum() | Fixed() if type_.aliases == change.old:
            return replace(type_, aliases=change.new)
        case SetProperties(), Primitive() | Fixed() | Enum() | Array() | Map() | Record() if same_props(
            type_.props, change.old
        ):
            return replace(type_, props=change.new)
    _misfit(f"{describe(type_)} has another value there than the one to be replaced", change.path)


def _inside(type_: AvroType, inner: AvroType) -> AvroType:
    """*inner* in place of *type_*, or of T where *type_* is ``["null", T]``."""
    if isinstance(type_, Union) and type_.optional:
        return Union(tuple(b if is_null(b) else inner for b in type_.branches))
    return inner


def _put(items: tuple[_T, ...], index: int, item: _T) -> tuple[_T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _shared(root: AvroType) -> AvroType:
    """The type with equal uses of one named type being one object again, which keeps later work small."""
    done: dict[int, AvroType] = {}
    known: dict[str, list[AvroType]] = {}

    def once(type_: AvroType) -> AvroType:
        found = next((t for t in known.setdefault(type_.name, []) if same_type(t, type_)), None)  # type: ignore[union-attr]
        if found is None:
            known[type_.name].append(type_)  # type: ignore[union-attr]
        return found or type_

    def walk(type_: AvroType) -> AvroType:
        if id(type_) in done:
            return done[id(type_)]
        made: AvroType
        match type_:
            case Array():
                items = walk(type_.items)
                made = type_ if items is type_.items else replace(type_, items=items)
            case Map():
                values = walk(type_.values)
                made = type_ if values is type_.values else replace(type_, values=values)
            case Union():
                branches = tuple(walk(b) for b in type_.branches)
                same = all(x is y for x, y in zip(branches, type_.branches, strict=True))
                made = type_ if same else Union(branches)
            case Record():
                fields = tuple(_with_type(f, walk(f.type)) for f in type_.fields)
                same = all(x is y for x, y in zip(fields, type_.fields, strict=True))
                made = once(type_ if same else replace(type_, fields=fields))
            case Enum() | Fixed():
                made = once(type_)
            case _:
                made = type_
        done[id(type_)] = made
        return made

    return walk(root)


def _with_type(field: Field, type_: AvroType) -> Field:
    return field if type_ is field.type else replace(field, type=type_)
