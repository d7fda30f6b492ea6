"""How each change reaches a Delta table: our own rules, since acceptance by a library proves nothing.

What delta-rs 1.6 does by metadata alone and every reader then reads right: optional columns at every depth but under
map values, NOT NULL taken away at every depth, texts on columns. Everything else is one atomic rewrite of all files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import LakeEvolveError
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
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Enum, Record, Union, describe, is_null, without_null
from lakeevolve.tables.base import Capability, Fill, Precondition
from lakeevolve.tables.delta import features
from lakeevolve.tables.delta.filling import asked_for
from lakeevolve.tables.delta.log import Metadata, Protocol
from lakeevolve.tables.delta.retyping import named, same_structure
from lakeevolve.tables.delta.schema import delta_type
from lakeevolve.tables.delta.spark import statements
from lakeevolve.tables.delta.types import DeltaType, primitives_of, requires, same_type
from lakeevolve.tables.narrowing import holding, narrowing, narrows

_REWRITE_READERS: Final = ("whoever streams the table or reads its change feed sees every row removed and added",)
_FEED: Final = (
    "load_cdf of delta-rs reads earlier changes under the new schema, where columns of old names are NULL or fail: for "
    "those, open the table at the version before the rewrite"
)
_FEED_COLUMNS: Final = ("_change_type", "_commit_version", "_commit_timestamp")
_MARKER_ONLY: Final = "no column changes; the new schema is recorded in the table's marker"
_NTZ: Final = "timestampNtz"


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides about routes, apart from the change itself.

    ``name`` is the table as SQL names it. ``held`` says whether a live file may hold values of an earlier column of
    that path, ``uses`` whether a live row holds an enum's symbol, ``unevaluable`` which rule of the table cannot be
    checked, ``vectors`` whether a live file has a deletion vector: they look when they are asked. ``pending`` says that
    an apply stopped between two commits.
    """

    name: str
    protocol: Protocol
    metadata: Metadata
    foreign: tuple[str, ...]
    held: Callable[[str], bool]
    uses: Callable[[str, str], bool]
    unevaluable: Callable[[], str | None]
    vectors: Callable[[], bool]
    pending: bool = False


def capability(facts: Facts, change: Change, base: Schema, target: Schema, fills: Mapping[str, Fill]) -> Capability:
    """The route of one change."""
    reason = features.unwritable(facts.protocol, facts.metadata)
    if reason is None and facts.pending:
        reason = "an apply stopped between adding a column and filling it; apply that plan again with --resume first"
    if reason is not None:
        return _refuse(reason)
    found = _Rules(facts, base, target, fills).of(change)
    if features.mapped(facts.metadata) and found.route not in ("refuse", "external"):
        return _under_mapping(change, found, statements(change, found, base, target, facts.name))
    return found


def combine(routed: Sequence[tuple[Change, Capability]]) -> list[tuple[Change, Capability]]:
    """Where one change rewrites every file, the others land in the same commit."""
    if not any(can.route in ("rewrite", "backfill") for _, can in routed):
        return list(routed)
    return [
        (change, replace(can, via="the same commit as the rewrite") if can.route == "metadata" else can)
        for change, can in routed
    ]


def _refuse(reason: str) -> Capability:
    return Capability("refuse", "none", reason)


def _marker(reason: str, precondition: Precondition | None = None) -> Capability:
    return Capability("metadata", "marker", reason, precondition=precondition)


def _merge(reason: str, *readers: str) -> Capability:
    return Capability("metadata", "add_columns", reason, readers=readers)


def _rewrite(reason: str, *, precondition: Precondition | None = None) -> Capability:
    return Capability(
        "rewrite",
        "overwrite in one commit",
        reason,
        permit="rewrite",
        readers=_REWRITE_READERS,
        precondition=precondition,
    )


def _under_mapping(change: Change, found: Capability, sql: str | None) -> Capability:
    """delta-rs writes to tables with column mapping, and can change no column of theirs."""
    if found.via in ("marker", "set_column_metadata"):
        return found
    if isinstance(change, MakeOptional) and len(paths.parts(change.path)) == 1:
        return replace(found, via="drop_column_not_null")
    return Capability(
        "external",
        "Spark SQL" if sql is None else f"Spark SQL: {sql}",
        "the table uses column mapping, under which delta-rs cannot change columns (delta-io/delta-rs#930); "
        + ("Spark makes the change in steps of its own" if sql is None else f"in Spark SQL: {sql}"),
        permit=found.permit,
        irreversible=found.irreversible,
        precondition=found.precondition,
    )


class _Rules:
    def __init__(self, facts: Facts, base: Schema, target: Schema, fills: Mapping[str, Fill]) -> None:
        self.facts = facts
        self.base = base
        self.target = target
        self.fills = fills
        self.bound = features.bound_columns(facts.metadata)

    def of(self, change: Change) -> Capability:
        match change:
            case AddField():
                return self._add(change)
            case DropField():
                return self._drop(change)
            case RenameField():
                return self._rename(change)
            case MoveField():
                return _marker(
                    "columns are found by name, so their order is free; the new order is recorded, and taken on when "
                    "the table is next rewritten"
                )
            case PromoteType() | ChangeLogicalType() | ReplaceType():
                return self._retype(change)
            case MakeOptional():
                return _merge("every row so far has a value, which it keeps")
            case MakeRequired():
                return self._make_required(change.path)
            case AddBranch():
                return self._add_branch(change)
            case DropBranch():
                return self._drop_branch(change)
            case ReorderBranches():
                return _marker("the order of a union's branches says nothing; " + _MARKER_ONLY)
            case DropSymbol():
                return self._drop_symbol(change)
            case RenameType():
                return self._rename_type(change)
            case SetDoc():
                if change.on == "field" and len(paths.parts(change.path)) == 1:
                    return Capability("metadata", "set_column_metadata", "a comment changes no row")
                return _marker(
                    "a comment changes no row; delta-rs sets those of top-level columns alone, so this one is recorded "
                    "in the table's marker"
                    + (", and reaches the column when the table is next rewritten" if change.on == "field" else "")
                )
            case SetAliases() if change.on == "field" and len(paths.parts(change.path)) == 1:
                return Capability("metadata", "set_column_metadata", "an alias changes no row; the column carries it")
            case AddSymbol() | ReorderSymbols() | SetEnumDefault():
                return self._texts(change.path, "an enum is a string column, which holds any symbol")
            case SetDefault():
                return _marker("the default of a field that exists changes no stored row; " + _MARKER_ONLY)
            case SetAliases() | SetProperties() | SetOrder():
                return _marker(_MARKER_ONLY)

    def _texts(self, path: str, reason: str) -> Capability:
        via = "set_column_metadata" if len(paths.parts(path)) == 1 else "marker"
        return Capability("metadata", via, f"{reason}; {_MARKER_ONLY}")

    # Fields ---------------------------------------------------------------------------------------------------------

    def _add(self, change: AddField) -> Capability:
        reason = self._untyped(change.field.type, change.path) or self._name_taken(change.path)
        if reason is not None:
            return _refuse(reason)
        null = self.fills.get(change.path) == "null"
        if not null and not change.field.has_default:
            return _refuse(
                "rows older than the field would have no value, since it has no default; give it a default, set "
                "old_rows to null for it, or start a new table"
            )
        if not null and change.field.default is not None:
            found = self._rewriting(
                change.path,
                change.field.type,
                Capability(
                    "backfill",
                    "overwrite in one commit",
                    "rows older than the column have to read its default, and Delta applies defaults to later writes "
                    "only: all files are written anew with it; or set old_rows to null",
                    permit="backfill",
                    readers=_REWRITE_READERS,
                ),
                new=True,
            )
            return self._or_update(change, found)
        why = "as asked (old_rows: null)" if null else "which is its default"
        if paths.VALUES in paths.parts(change.path):
            return self._rewriting(
                change.path,
                change.field.type,
                _rewrite(
                    f"rows older than the column read NULL, {why}; DataFusion cannot read a struct of a map's values "
                    "that lacks a field (apache/datafusion#23914), so the files are written anew"
                ),
                new=True,
            )
        if self.facts.held(change.path):
            return self._rewriting(
                change.path,
                change.field.type,
                _rewrite(
                    "files still hold the values of an earlier column of that name, which was dropped without a "
                    "rewrite and would come back: the files are written anew"
                ),
                new=True,
            )
        found = _merge(f"rows older than the column read NULL, {why}")
        if null:
            found = replace(found, readers=("the column is optional whatever its Avro type says",))
        return self._metadata(change.field.type, found)

    def _or_update(self, change: AddField, found: Capability) -> Capability:
        """The route of a default, with the two commits that an owner may prefer to a rewrite."""
        if found.route != "backfill":
            return found
        held, vectors = self.facts.held(change.path), self.facts.vectors()
        other = asked_for(change, held=held, vectors=vectors, readers=_REWRITE_READERS)
        return replace(found, instead={"metadata": other})

    def _drop(self, change: DropField) -> Capability:
        parent = find_type(self.target.root, paths.parent(change.path))
        record = without_null(parent) if parent is not None else None
        if isinstance(record, Record) and not record.fields:
            return _refuse(
                "a struct without a field cannot be written; drop the record itself, or keep one of its fields"
            )
        parted = self.facts.metadata.partition_columns
        if all(name in parted for name in (*(f.name for f in self.target.fields), *self.facts.foreign)):
            return _refuse(
                "no column is left that is not a partition column, and a data file has to hold one; keep one"
            )
        return self._rewriting(
            change.path,
            None,
            Capability(
                "rewrite",
                "overwrite in one commit",
                "without column mapping, a column that leaves the schema alone would come back with its old values "
                "when the name is used again: all files are written without it",
                permit="drop",
                irreversible=True,
                readers=("queries that name the column fail", *_REWRITE_READERS),
            ),
        )

    def _rename(self, change: RenameField) -> Capability:
        reason = self._name_taken(change.new_path, renamed=change.path)
        if reason is not None:
            return _refuse(reason)
        found = _rewrite("without column mapping, files find their columns by name: all files are written anew")
        return self._rewriting(
            change.path, None, replace(found, readers=("queries that use the old name fail", *_REWRITE_READERS))
        )

    def _name_taken(self, path: str, renamed: str | None = None) -> str | None:
        """Why a column cannot get the name at the end of *path*, or None."""
        name, parent = paths.leaf(path), paths.parent(path)
        if parent == paths.ROOT:
            if name.lower() in _FEED_COLUMNS and features.change_feed(self.facts.metadata):
                return (
                    f"{name} is a column of the table's change data feed (delta.enableChangeDataFeed); give the field "
                    "another name"
                )
            foreign = next((f for f in self.facts.foreign if f.lower() == name.lower()), None)
            if foreign is not None:
                return f"the table already has a column {foreign} that no schema owns; give the field another name"
        found = find_type(self.target.root, parent)
        record = without_null(found) if found is not None else None
        beside = [f.name for f in record.fields] if isinstance(record, Record) else []
        alike = [other for other in beside if other != name and other.lower() == name.lower()]
        if alike:
            return f"{alike[0]} and {name} differ in case only, which Delta does not tell apart; choose another name"
        return None

    # Types ----------------------------------------------------------------------------------------------------------

    def _retype(self, change: PromoteType | ChangeLogicalType | ReplaceType) -> Capability:
        reason = self._untyped(change.new, change.path)
        if reason is not None:
            return _refuse(reason)
        found = resolve(holding(change.old), holding(change.new), fills=narrowing(self.fills, change.path))
        if any(not each.value_level for each in found.incompatibilities):
            untold = isinstance(without_null(change.old), Record) and isinstance(without_null(change.new), Union)
            return _refuse(
                f"Avro cannot read {describe(change.old)} as {describe(change.new)}; keep the wider type, add a field "
                "of another name, or start a new table"
                + ("; or, if its fields are branches of a union, plan that union first, which records it" * untold)
            )
        precondition: Precondition | None = "resolves" if found.incompatibilities else None
        if precondition is None and narrows(change.old, change.new):
            precondition = "values-valid"
        held = self._delta(change.old)
        wanted = delta_type(change.new)
        if held is not None and same_type(held, wanted) and same_structure(change.old, change.new):
            return replace(self._texts(change.path, f"Delta's {named(wanted)} holds both"), precondition=precondition)
        return self._rewriting(
            change.path,
            change.new,
            _rewrite(
                f"Delta keeps {describe(change.old)} and {describe(change.new)} in different types, and readers of "
                "delta-rs and polars know no type widening: all files are written anew",
                precondition=precondition,
            ),
        )

    def _delta(self, type_: AvroType) -> DeltaType | None:
        try:
            return delta_type(type_)
        except LakeEvolveError:
            return None

    def _make_required(self, path: str) -> Capability:
        found = _rewrite(
            "delta-rs cannot set NOT NULL on a column that exists; the live rows are checked for nulls, and all files "
            "are written anew",
            precondition="no-nulls",
        )
        return self._rewriting(
            path, None, replace(found, readers=("writers that leave the column out fail", *_REWRITE_READERS))
        )

    # Unions and enums -----------------------------------------------------------------------------------------------

    def _add_branch(self, change: AddBranch) -> Capability:
        if is_null(change.branch):
            return _merge("every row so far has a value, which it keeps")
        reason = self._untyped(change.branch, change.path)
        if reason is not None:
            return _refuse(reason)
        if paths.VALUES in paths.parts(change.path):
            found = _rewrite(
                "DataFusion cannot read a struct of a map's values that lacks a field (apache/datafusion#23914), so "
                "the files are written anew"
            )
            return self._rewriting(change.path, change.branch, found)
        return self._metadata(change.branch, _merge("a branch is an optional column of the union's struct"))

    def _drop_branch(self, change: DropBranch) -> Capability:
        if is_null(change.branch):
            return self._make_required(change.path)
        union = find_type(self.target.root, change.path)
        if union is not None and resolve(holding(change.branch), holding(union)).compatible:
            found = _rewrite(
                f"values of the branch {describe(change.branch)} read as another branch: all files are written anew"
            )
        else:
            found = _rewrite(
                "a branch can go where no row uses it, which is checked before the commit; all files are written "
                "without its column",
                precondition="branch-unused",
            )
        return self._rewriting(change.path, None, replace(found, permit="drop", irreversible=True))

    def _drop_symbol(self, change: DropSymbol) -> Capability:
        found = find_type(self.target.root, change.path)
        enum = without_null(found) if found is not None else None
        if isinstance(enum, Enum) and enum.default is not None and self.facts.uses(change.path, change.symbol):
            return self._rewriting(
                change.path,
                None,
                _rewrite(
                    f"rows that hold {change.symbol} have to read the enum's default {enum.default}: all files are "
                    "written anew"
                ),
            )
        return replace(
            self._texts(change.path, "a symbol can go where no row holds it, which is checked before the commit"),
            precondition="symbol-unused",
        )

    def _rename_type(self, change: RenameType) -> Capability:
        if change.after is not None and change.after != change.path:
            return self._rewriting(
                change.path,
                None,
                _rewrite("a union's branch is a column that goes by the type's name: all files are written anew"),
            )
        return _marker(_MARKER_ONLY)

    # What a route needs ---------------------------------------------------------------------------------------------

    def _metadata(self, type_: AvroType, found: Capability) -> Capability:
        """A metadata route that brings a type; it may have to raise the table's protocol."""
        if not self._new_ntz(type_):
            return found
        if self.facts.protocol.writer < 7 and requires(self.facts.metadata.struct):
            # Measured: delta-rs leaves `invariants` behind, and NOT NULL is no longer enforced.
            return _refuse(
                "a local timestamp needs the feature timestampNtz, and with the protocol that brings it delta-rs "
                "gives up the table's NOT NULL columns; add the feature with Spark first"
            )
        return replace(
            found,
            permit="protocol-upgrade",
            irreversible=True,
            readers=(*found.readers, "readers have to know the feature timestampNtz (reader version 3)"),
        )

    def _rewriting(self, path: str, type_: AvroType | None, found: Capability, *, new: bool = False) -> Capability:
        """A route that writes every file anew; *type_* is what the change brings, *path* the column it touches."""
        if features.append_only(self.facts.metadata):
            return _refuse(
                "the table is append-only (delta.appendOnly), and this needs its files written anew; set the property "
                "to false first"
            )
        if features.identity_columns(self.facts.metadata):
            return _refuse("the table has identity columns, which delta-rs does not keep up; use Spark")
        top = paths.parts(path)[0] if paths.parts(path) else ""
        by = None if new and len(paths.parts(path)) == 1 else self.bound.get(top.lower())
        if by is not None:
            return _refuse(
                f"the column is bound by the table's {by}; remove that first, change the column, and set it up again"
            )
        unchecked = self.facts.unevaluable()
        if unchecked is not None:
            return _refuse(unchecked)
        if features.change_feed(self.facts.metadata):
            found = replace(found, readers=(*found.readers, _FEED))
        if type_ is not None and self._new_ntz(type_):
            return _refuse(
                "a local timestamp needs the feature timestampNtz, which a rewrite through delta-rs cannot add; add "
                "an optional local timestamp in a change of its own first, or add the feature with Spark"
            )
        return found

    def _new_ntz(self, type_: AvroType) -> bool:
        return _NTZ not in self.facts.protocol.writer_features and "timestamp_ntz" in primitives_of(delta_type(type_))

    def _untyped(self, type_: AvroType, path: str) -> str | None:
        """Why no Delta column holds this type, or None."""
        try:
            delta_type(type_, path)
        except LakeEvolveError as error:
            return f"{error.what}; {error.hint}" if error.hint else error.what
        return None
