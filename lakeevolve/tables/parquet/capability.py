"""How each change reaches a folder of Parquet files, or Arrow data in memory.

There is no metadata that readers of a folder share, so every change that they are to see writes the rows anew, into a
new folder. What no reader of the files sees (docs, defaults, aliases, symbols) is recorded in the marker beside files
that are copied as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakeevolve.avro.resolution import resolve
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
from lakeevolve.model.types import AvroType, Enum, Record, describe, is_null, without_null
from lakeevolve.tables.base import Capability, Fill, Permit, Precondition
from lakeevolve.tables.narrowing import holding, narrowing
from lakeevolve.tables.parquet.derive import loose

_OLD_STAYS: Final = "what the rows come from stays as it is, and whoever reads that goes on reading it"
_MARKER_ONLY: Final = "no row changes: it is recorded in the marker of the new folder or object"


def capability(change: Change, target: Schema, fills: Mapping[str, Fill], via: str) -> Capability:
    """The route of one change. *via* says where the rows go."""
    match change:
        case AddField():
            return _add(change, fills, via)
        case DropField():
            return _drop(change, target, via)
        case RenameField():
            found = _rewrite(via, "files find their columns by name, so they are written anew")
            return replace(found, readers=("queries that use the old name fail", via, _OLD_STAYS))
        case PromoteType() | ChangeLogicalType() | ReplaceType():
            return _retype(change, fills, via)
        case MakeOptional():
            return _rewrite(via, "the files may say that the column holds no null, so they are written anew")
        case MakeRequired():
            return _required(via)
        case AddBranch():
            if is_null(change.branch):
                return _rewrite(via, "the files may say that the column holds no null, so they are written anew")
            return _untyped(change.branch) or _rewrite(via, "a branch is a field of the union's struct")
        case DropBranch():
            return _drop_branch(change, target, via)
        case DropSymbol():
            return _drop_symbol(change, target, via)
        case RenameType() if change.after is not None and change.after != change.path:
            return _rewrite(via, "a union's branch is a field that goes by the type's name")
        case (
            MoveField()
            | ReorderBranches()
            | AddSymbol()
            | ReorderSymbols()
            | SetEnumDefault()
            | RenameType()
            | SetDefault()
            | SetDoc()
            | SetAliases()
            | SetProperties()
            | SetOrder()
        ):
            return _marker()


def _refuse(reason: str) -> Capability:
    return Capability("refuse", "none", reason)


def _marker(precondition: Precondition | None = None) -> Capability:
    return Capability("metadata", "marker", _MARKER_ONLY, precondition=precondition)


def _rewrite(
    via: str, reason: str, *, precondition: Precondition | None = None, permit: Permit = "rewrite"
) -> Capability:
    return Capability("rewrite", via, reason, permit=permit, readers=(via, _OLD_STAYS), precondition=precondition)


def _untyped(type_: AvroType) -> Capability | None:
    if loose(type_) is None:
        return _refuse(f"no Arrow column holds {describe(type_)}; leave it out, or give it another type")
    return None


def _add(change: AddField, fills: Mapping[str, Fill], via: str) -> Capability:
    refused = _untyped(change.field.type)
    if refused is not None:
        return refused
    null = fills.get(change.path) == "null"
    if not null and not change.field.has_default:
        return _refuse(
            "rows older than the field would have no value, since it has no default; give it a default, set old_rows "
            "to null for it, or start a new folder"
        )
    if not null and change.field.default is not None:
        return Capability(
            "backfill",
            via,
            "rows older than the column have to read its default, and a Parquet file knows none: the files are written "
            "anew with it; or set old_rows to null",
            permit="backfill",
            readers=(via, _OLD_STAYS),
        )
    return _rewrite(
        via,
        "rows older than the column read NULL; readers of a folder take the columns of one of its files, so every file "
        "has to have it",
    )


def _drop(change: DropField, target: Schema, via: str) -> Capability:
    parent = find_type(target.root, paths.parent(change.path))
    record = without_null(parent) if parent is not None else None
    if isinstance(record, Record) and not record.fields:
        return _refuse("a record without a field cannot be written; drop the record itself, or keep one of its fields")
    found = _rewrite(via, "the files are written without the column; the old folder keeps it", permit="drop")
    return replace(found, readers=("queries that name the column fail", via, _OLD_STAYS))


def _retype(change: PromoteType | ChangeLogicalType | ReplaceType, fills: Mapping[str, Fill], via: str) -> Capability:
    refused = _untyped(change.new)
    if refused is not None:
        return refused
    narrower = narrowing(fills, change.path)
    found = resolve(holding(change.old), holding(change.new), fills=narrower)
    if any(not each.value_level for each in found.incompatibilities):
        return _refuse(
            f"Avro cannot read {describe(change.old)} as {describe(change.new)}; keep the wider type, add a field of "
            "another name, or start a new folder"
        )
    precondition: Precondition | None = "resolves" if found.incompatibilities else None
    if precondition is None and narrower:
        precondition = "values-valid"
    reason = f"files hold {describe(change.old)}, and readers of a folder convert in ways of their own"
    return _rewrite(via, reason, precondition=precondition)


def _required(via: str) -> Capability:
    return _rewrite(
        via, "the rows are checked for nulls, and files are written that say there is none", precondition="no-nulls"
    )


def _drop_branch(change: DropBranch, target: Schema, via: str) -> Capability:
    if is_null(change.branch):
        return _required(via)
    union = find_type(target.root, change.path)
    if union is not None and resolve(holding(change.branch), holding(union)).compatible:
        reason = f"values of the branch {describe(change.branch)} read as another branch"
        return _rewrite(via, reason, permit="drop")
    reason = "a branch can go where no row uses it, which is checked before anything is written"
    return _rewrite(via, reason, precondition="branch-unused", permit="drop")


def _drop_symbol(change: DropSymbol, target: Schema, via: str) -> Capability:
    found = find_type(target.root, change.path)
    enum = without_null(found) if found is not None else None
    if isinstance(enum, Enum) and enum.default is not None:
        return _rewrite(via, f"rows that hold {change.symbol} have to read the enum's default {enum.default}")
    return _marker("symbol-unused")
