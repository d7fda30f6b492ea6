"""What changed between two schemas: typed changes, and suspected renames beside them.

A diff states facts and judges nothing. Its changes lead from the old schema to the new one exactly::

    apply_changes(diff(old, new).changes, old) == new
    apply_changes([change.reverse() for change in reversed(diff(old, new).changes)], new) == old

Named types that are used in several places are compared at each of them, so that every path a table may hold is
named. Recursive types end where a type is used inside its own definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Literal, TypeVar

from lakeevolve.model import path as paths
from lakeevolve.model.branches import branch_path, branches_of, distinct, pair_branches
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
from lakeevolve.model.match import match_fields
from lakeevolve.model.order import moves
from lakeevolve.model.renames import Renames, rename_pairs, renames_between
from lakeevolve.model.same import Seen, same_json, same_props, same_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.suspect import Suggestion, suspects
from lakeevolve.model.types import (
    NULL,
    PROMOTIONS,
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
    is_null,
    without_null,
)
from lakeevolve.model.value import value

#: The path of the type that stands at a place now. Only the path of a union's branch depends on the type.
_Place = Callable[[AvroType], str]
_Based = TypeVar("_Based", Primitive, Fixed)
_Headed = TypeVar("_Headed", Primitive, Fixed, Enum, Array, Map, Record)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Diff:
    """The difference of two schemas.

    ``changes`` lead from ``old`` to ``new``. ``suggestions`` are suspected renames, which no change holds.
    ``renames`` maps the new path of each renamed field to its old path. ``unused`` are the declared renames (old path,
    new path) that had nothing to rename: done before, or misspelt.
    """

    old: Schema
    new: Schema
    changes: tuple[Change, ...]
    suggestions: tuple[Suggestion, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[tuple[str, str], ...] = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("lakeevolve.report.notebook").shown(self))


def diff(old: Schema, new: Schema, renames: Renames = ()) -> Diff:
    """Compare two schemas.

    Parameters
    ----------
    old, new:
        Schemas with roots of any kind.
    renames:
        Renames that the owner approves although no alias declares them: a mapping from old path to new path, or
        (old path, new path) pairs. Each path is a whole path of its own schema (``address.zip``, ``address.postcode``).
        One that has nothing to rename is left out and listed in ``unused``, so a list of renames may be kept for
        ever; only a *swap* has to be taken off it once it was made, since nothing in the schemas shows that it was.

    Returns
    -------
    Diff
        Changes in the order that :mod:`lakeevolve.model.change` describes.

    Raises
    ------
    ConfigError
        ``renames`` is no such list, or renames two fields to one or one to two.

    Examples
    --------
    >>> old = Schema(Record("Order", (Field("id", Primitive("int")), Field("amount", Primitive("double")))))
    >>> new = Schema(Record("Order", (Field("id", Primitive("long")), Field("total", Primitive("double")))))
    >>> [type(change).__name__ for change in diff(old, new).changes]
    ['DropField', 'AddField', 'PromoteType']
    >>> diff(old, new).suggestions[0].fix
    'add "aliases": ["amount"] to the field total'
    >>> [type(change).__name__ for change in diff(old, new, {"amount": "total"}).changes]
    ['RenameField', 'PromoteType']
    """
    pairs = rename_pairs(renames)
    walk = _Walk(declared=renames_between(pairs, old, new))
    _compare(walk, old.root, new.root, lambda _: paths.ROOT, paths.ROOT, paths.ROOT)
    unused = tuple((was, is_) for was, is_ in pairs if is_ not in walk.used)
    return Diff(old, new, tuple(walk.changes), tuple(walk.suggestions), walk.renames, unused)


@dataclass(slots=True)
class _Walk:
    """What one comparison has found so far."""

    declared: Mapping[str, str]
    changes: list[Change] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    renames: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)
    seen: Seen = field(default_factory=set)


def _compare(walk: _Walk, old: AvroType, new: AvroType, at: _Place, old_path: str, new_path: str) -> None:
    """The changes from one type to another that stand at the same place."""
    if same_type(old, new, walk.seen):
        return
    if isinstance(old, Union) or isinstance(new, Union):
        _unions(walk, old, new, at, old_path, new_path)
        return
    match old, new:
        case Record(), Record():
            _records(walk, old, new, at, old_path, new_path)
        case Enum(), Enum():
            _enums(walk, old, new, at)
        case Fixed(), Fixed() if old.size == new.size:
            _logical(walk, _head(walk, old, new, at), new, at)
        case Array(), Array():
            inner = paths.items(at(_head(walk, old, new, at)))
            _compare(walk, old.items, new.items, lambda _: inner, paths.items(old_path), paths.items(new_path))
        case Map(), Map():
            inner = paths.values(at(_head(walk, old, new, at)))
            _compare(walk, old.values, new.values, lambda _: inner, paths.values(old_path), paths.values(new_path))
        case Primitive(), Primitive() if old.name == new.name:
            _head(walk, _logical(walk, old, new, at), new, at)
        case Primitive(), Primitive() if new.name in PROMOTIONS.get(old.name, ()):
            promoted = replace(new, props=old.props)
            walk.changes.append(PromoteType(at(old), old, promoted, _after(at, old, promoted)))
            _head(walk, promoted, new, at)
        case NamedRef(), NamedRef():
            walk.changes.append(RenameType(at(old), old.name, new.name, after=_after(at, old, new)))
        case _:
            walk.changes.append(ReplaceType(at(old), old, new, _after(at, old, new)))


def _after(at: _Place, old: AvroType, new: AvroType) -> str | None:
    return None if at(old) == at(new) else at(new)


def _head(walk: _Walk, old: _Headed, new: _Headed, at: _Place) -> _Headed:
    """The changes of a type's name, doc, aliases and properties; returns the type with them made."""
    here = old
    if isinstance(here, (Record, Enum, Fixed)) and isinstance(new, (Record, Enum, Fixed)):
        errors = (here.error, new.error) if isinstance(here, Record) and isinstance(new, Record) else (False, False)
        if here.name != new.name or errors[0] != errors[1]:
            renamed = replace(here, name=new.name)
            walk.changes.append(RenameType(at(here), here.name, new.name, *errors, _after(at, here, renamed)))
            walk.types[here.name] = new.name
            here = renamed
        if here.doc != new.doc:
            walk.changes.append(SetDoc(at(here), here.doc, new.doc, "type"))
        if here.aliases != new.aliases:
            walk.changes.append(SetAliases(at(here), here.aliases, new.aliases, "type"))
    if not same_props(here.props, new.props):
        walk.changes.append(SetProperties(at(here), here.props, new.props, "type"))
    return here


def _logical(walk: _Walk, here: _Based, new: _Based, at: _Place) -> _Based:
    if here.logical == new.logical:
        return here
    changed = replace(here, logical=new.logical)
    walk.changes.append(ChangeLogicalType(at(here), here, changed))
    return changed


# Records ------------------------------------------------------------------------------------------------------------


def _records(walk: _Walk, old: Record, new: Record, at: _Place, old_path: str, new_path: str) -> None:
    path = at(_head(walk, old, new, at))
    matched, _ = match_fields(old, new, path=new_path, renames=walk.declared)
    kept = {j: i for j, i in matched if i is not None}
    walk.suggestions += suspects(old, new, kept, old_path, new_path)

    back = {i: j for j, i in kept.items()}
    for i in reversed(range(len(old.fields))):
        if i not in back:
            walk.changes.append(DropField(paths.child(path, old.fields[i].name), old.fields[i], i))
    for i in sorted(back):
        _rename(walk, old.fields[i], new.fields[back[i]], path, old_path, new_path)
    for j, source, target in moves([back[i] for i in sorted(back)]):
        walk.changes.append(MoveField(paths.child(path, new.fields[j].name), source, target))
    for j, added in enumerate(new.fields):
        if j not in kept:
            walk.changes.append(AddField(paths.child(path, added.name), added, j))
    for j, i in sorted(kept.items()):
        _field(walk, old.fields[i], new.fields[j], path, old_path, new_path)


def _rename(walk: _Walk, old: Field, new: Field, path: str, old_path: str, new_path: str) -> None:
    if old.name == new.name:
        return
    here = paths.child(new_path, new.name)
    walk.renames[here] = paths.child(old_path, old.name)
    if paths.leaf(walk.declared.get(here, "")) == old.name:
        walk.used.add(here)
    via: Literal["alias", "overlay"] = "alias" if old.name in new.aliases else "overlay"
    walk.changes.append(RenameField(paths.child(path, old.name), new.name, via))


def _field(walk: _Walk, old: Field, new: Field, path: str, old_path: str, new_path: str) -> None:
    here = paths.child(path, new.name)
    if old.doc != new.doc:
        walk.changes.append(SetDoc(here, old.doc, new.doc))
    if old.aliases != new.aliases:
        walk.changes.append(SetAliases(here, old.aliases, new.aliases))
    if not same_props(old.props, new.props):
        walk.changes.append(SetProperties(here, old.props, new.props))
    if old.order != new.order:
        walk.changes.append(SetOrder(here, old.order, new.order))
    was, is_ = paths.child(old_path, old.name), paths.child(new_path, new.name)
    _compare(walk, old.type, new.type, lambda _: here, was, is_)
    if not same_json(old.default, new.default):
        walk.changes.append(SetDefault(here, old.default, new.default))


# Enums --------------------------------------------------------------------------------------------------------------


def _enums(walk: _Walk, old: Enum, new: Enum, at: _Place) -> None:
    path = at(_head(walk, old, new, at))
    here, wanted = _numbered(old.symbols), _numbered(new.symbols)
    kept = set(here) & set(wanted)
    for position in reversed(range(len(here))):
        if here[position] not in kept:
            walk.changes.append(DropSymbol(path, here.pop(position)[0], position))
    ordered = [symbol for symbol in wanted if symbol in kept]
    if ordered != here:
        walk.changes.append(ReorderSymbols(path, tuple(s for s, _ in here), tuple(s for s, _ in ordered)))
    for position, symbol in enumerate(wanted):
        if symbol not in kept:
            walk.changes.append(AddSymbol(path, symbol[0], position))
    if old.default != new.default:
        walk.changes.append(SetEnumDefault(path, old.default, new.default))


def _numbered(symbols: Sequence[str]) -> list[tuple[str, int]]:
    """Each symbol with its count of earlier uses: old schemas that repeat a symbol exist."""
    uses: Counter[str] = Counter()
    found = []
    for symbol in symbols:
        found.append((symbol, uses[symbol]))
        uses[symbol] += 1
    return found


# Unions -------------------------------------------------------------------------------------------------------------


def _unions(walk: _Walk, old: AvroType, new: AvroType, at: _Place, old_path: str, new_path: str) -> None:
    if _is_real(old) or _is_real(new):
        if _is_real(old) and _is_real(new):
            _real_unions(walk, old, new, at, old_path, new_path)
        else:
            _to_or_from_union(walk, old, new, at, old_path, new_path)
        return
    inner = without_null(old), without_null(new)
    if any(is_null(t) for t in inner) or not same_type(_null_of(old), _null_of(new)):
        walk.changes.append(ReplaceType(at(old), old, new))
        return
    if not isinstance(old, Union):
        walk.changes.append(MakeOptional(at(old), isinstance(new, Union) and new.null_first))
    elif not isinstance(new, Union):
        walk.changes.append(MakeRequired(at(old), old.null_first))
    elif old.null_first != new.null_first:
        walk.changes.append(ReorderBranches(at(old), (1, 0)))
    _compare(walk, *inner, at, old_path, new_path)


def _null_of(type_: AvroType) -> AvroType:
    """The null branch, which may carry properties; the plain null for a type without one."""
    return next((b for b in branches_of(type_) if is_null(b)), NULL)


def _is_real(type_: AvroType) -> bool:
    return isinstance(type_, Union) and not type_.optional


def _to_or_from_union(walk: _Walk, old: AvroType, new: AvroType, at: _Place, old_path: str, new_path: str) -> None:
    """A real union becomes another type or the reverse: the wrapping changes first, then what is inside."""
    before, after = branches_of(old), branches_of(new)
    pairs = {j: i for j, i in pair_branches(before, after, walk.types).items() if not is_null(after[j])}
    between = tuple(before[pairs[j]] if j in pairs else branch for j, branch in enumerate(after))
    if not isinstance(new, Union):
        walk.changes.append(ReplaceType(at(old), old, between[0]))
        if pairs:
            _compare(walk, between[0], new, at, branch_path(old_path, before, pairs[0]), new_path)
        return
    if not distinct(between, after):
        walk.changes.append(ReplaceType(at(old), old, new))
        return
    walk.changes.append(ReplaceType(at(old), old, Union(between)))
    if new.optional:
        for j, i in pairs.items():
            _compare(walk, before[i], after[j], at, branch_path(old_path, before, i), new_path)
        return
    olds = {j: branch_path(old_path, before, i) if _is_real(old) else old_path for j, i in pairs.items()}
    _inside_union(walk, between, after, olds, at(new), new_path)


def _real_unions(walk: _Walk, old: AvroType, new: AvroType, at: _Place, old_path: str, new_path: str) -> None:
    before, after = branches_of(old), branches_of(new)
    path = at(old)
    pairs = pair_branches(before, after, walk.types)
    between = tuple(before[pairs[j]] if j in pairs else branch for j, branch in enumerate(after))
    if not distinct(before) or not distinct(between, after):
        walk.changes.append(ReplaceType(path, old, new))
        return
    staying = sorted(pairs.values())
    for i in reversed(range(len(before))):
        if i not in staying:
            walk.changes.append(DropBranch(path, before[i], i))
    order = tuple(staying.index(pairs[j]) for j in sorted(pairs))
    if list(order) != sorted(order):
        walk.changes.append(ReorderBranches(path, order))
    for j, branch in enumerate(after):
        if j not in pairs:
            walk.changes.append(AddBranch(path, branch, j))
    olds = {j: branch_path(old_path, before, i) for j, i in pairs.items() if not is_null(before[i])}
    _inside_union(walk, between, after, olds, path, new_path)


def _inside_union(
    walk: _Walk,
    between: Sequence[AvroType],
    after: Sequence[AvroType],
    olds: Mapping[int, str],
    path: str,
    new_path: str,
) -> None:
    """The changes inside the branches that stayed. A branch's path follows its name while that changes."""
    here = list(between)
    for j in sorted(olds):

        def place(now: AvroType, j: int = j) -> str:
            return branch_path(path, [*here[:j], now, *here[j + 1 :]], j)

        _compare(walk, between[j], after[j], place, olds[j], branch_path(new_path, after, j))
        here[j] = after[j]
