"""How each change reaches an Iceberg table: our own rules, since acceptance by a library proves nothing.

pyiceberg lets a decimal change its scale, a string become bytes and a default be set on a v2 table, and every one of
these is later read wrongly, or not at all, by some reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyiceberg.table.name_mapping import MappedField
from pyiceberg.types import IcebergType, NestedField, StructType

from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import LakeEvolveError, UnsupportedTable
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
from lakeevolve.model.types import (
    AvroType,
    Enum,
    Fixed,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
    without_null,
)
from lakeevolve.tables.base import Capability, Fill, Precondition
from lakeevolve.tables.iceberg.facts import Facts, elsewhere, unreadable, within_reach
from lakeevolve.tables.iceberg.locate import base_path, locate, subtree
from lakeevolve.tables.iceberg.spark import statement
from lakeevolve.tables.iceberg.types import iceberg_type, leaf_type, promotable
from lakeevolve.tables.iceberg.unread import unproved
from lakeevolve.tables.narrowing import holding, narrowing, narrows


def capability(
    facts: Facts,
    change: Change,
    base: Schema,
    target: Schema,
    fills: Mapping[str, Fill],
    renames: Mapping[str, str] | None = None,
) -> Capability:
    """The route of one change.

    ``renames`` (new path to old path) serves to find columns beneath a record whose rename no alias declares.
    """
    rules = _Rules(facts, base, target, fills, renames or {})
    found = rules.of(change)
    if found.route == "refuse":
        return found
    if facts.format_version >= 3:

        def existed(path: str) -> bool:
            return base_path(path, base.root, target.root, renames or {}, old_leaf=False) is not None

        return _external(facts, found, statement(change, found, target, facts.name, existed))
    reason = unreadable(facts) or unproved(facts, change, found, rules.column)
    if reason is None and (found.route != "metadata" or found.precondition is not None):
        reason = elsewhere(facts)
    return found if reason is None else _refuse(reason)


def _external(facts: Facts, found: Capability, sql: str | None) -> Capability:
    return Capability(
        "external",
        "Spark SQL" if sql is None else f"Spark SQL: {sql}",
        f"the table has format version {facts.format_version}, which no Python library writes yet "
        "(apache/iceberg-python#1551); there this would be: "
        + (f"{found.via}, since {found.reason}" if found.route == "backfill" else found.via),
        permit=found.permit,
        irreversible=found.irreversible,
        readers=found.readers,
        precondition=found.precondition,
    )


def _refuse(reason: str) -> Capability:
    return Capability("refuse", "none", reason)


def _marker(reason: str) -> Capability:
    return Capability("metadata", "table properties", reason)


#: Columns that readers add to a table, under these names (Iceberg spec, "Reserved Field IDs").
RESERVED: Final = frozenset(
    {
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"),
        *("_change_type", "_change_ordinal", "_commit_snapshot_id"),
    }
)

_MARKER_ONLY: Final = "no column changes; the new schema is recorded in the table's properties"


class _Rules:
    def __init__(
        self,
        facts: Facts,
        base: Schema,
        target: Schema,
        fills: Mapping[str, Fill],
        renames: Mapping[str, str],
    ) -> None:
        self.facts = facts
        self.base = base
        self.target = target
        self.fills = fills
        self.renames = renames

    def of(self, change: Change) -> Capability:
        match change:
            case AddField():
                return self._add(change)
            case DropField():
                return self._drop(change)
            case RenameField():
                return self._rename(change)
            case MoveField():
                return Capability("metadata", "reorder columns", "columns are read by field id, so their order is free")
            case PromoteType() | ChangeLogicalType() | ReplaceType():
                return self._retype(change)
            case MakeOptional():
                return self._make_optional(change.path)
            case MakeRequired():
                return self._make_required()
            case AddBranch():
                return self._add_branch(change)
            case DropBranch():
                return self._drop_branch(change)
            case ReorderBranches():
                return Capability("metadata", "reorder columns", "the order of a union's branches says nothing")
            case DropSymbol():
                return self._drop_symbol(change)
            case SetDoc():
                on_column = change.on == "field"
                via = "column comment" if on_column else "table properties"
                return Capability("metadata", via, "a comment changes no row")
            case AddSymbol():
                return _marker("an enum is a string column, which holds any symbol; " + _MARKER_ONLY)
            case SetDefault():
                return _marker("the default of a field that exists changes no stored row; " + _MARKER_ONLY)
            case RenameType() if paths.leaf(change.path).startswith("<"):
                found = Capability("metadata", "rename column", "a branch's column is called as its type is")
                return within_reach(change.path, found)
            case ReorderSymbols() | SetEnumDefault() | SetAliases() | SetProperties() | SetOrder() | RenameType():
                return _marker(_MARKER_ONLY)

    # Fields ---------------------------------------------------------------------------------------------------------

    def _add(self, change: AddField) -> Capability:
        reason = self._untyped(change.field.type, change.path) or self._name_taken(change.path)
        if reason is not None:
            return _refuse(reason)
        optional = "add optional column"
        if self.fills.get(change.path) == "null":
            return Capability(
                "metadata",
                optional,
                "rows older than the column read NULL, as asked (old_rows: null)",
                readers=("the column is optional whatever its Avro type says",),
            )
        if not change.field.has_default:
            return _refuse(
                "rows older than the field would have no value, since it has no default; give it a default, set "
                "old_rows to null for it, or start a new table"
            )
        if change.field.default is None:
            return Capability("metadata", optional, "rows older than the column read NULL, which is its default")
        return Capability(
            "backfill",
            "add column and rewrite files",
            f"rows older than the column have to read its default, and {self._no_default()}: the files are written "
            "anew with it; or set old_rows to null",
            permit="backfill",
        )

    def _no_default(self) -> str:
        """Why the metadata's default for old rows is not used."""
        if self.facts.format_version < 3:
            return f"Iceberg v{self.facts.format_version} keeps no default for them"
        return (
            "the one that Iceberg v3 could keep in its metadata (initial-default, through the Java API) is shown and "
            "found by no filter (apache/iceberg#16690)"
        )

    def _drop(self, change: DropField) -> Capability:
        column = self.column(change.path, old_leaf=True)
        reason = self._in_use(column, "dropped")
        parent = find_type(self.target.root, paths.parent(change.path))
        record = without_null(parent) if parent is not None else None
        if reason is None and isinstance(record, Record) and not record.fields:
            reason = "a struct without a field cannot be written; drop the record itself, or keep one of its fields"
        if reason is not None:
            return _refuse(reason)
        return Capability(
            "metadata",
            "drop column",
            "the column leaves the schema; its values stay in the files, out of reach of every later schema",
            permit="drop",
            irreversible=True,
            readers=("queries that name the column fail", *self._noticed(column)),
        )

    def _noticed(self, column: NestedField | None) -> tuple[str, ...]:
        old = sorted(
            name for number, name in self.facts.past.items() if column is not None and number in subtree(column)
        )
        return tuple(
            f"pyiceberg cannot list the table's files (inspect) while the metadata keeps the partition field {name}"
            for name in old
        )

    def _rename(self, change: RenameField) -> Capability:
        reason = self._name_taken(change.new_path, self.column(change.path, old_leaf=True))
        if reason is not None:
            return _refuse(reason)
        found = Capability(
            "metadata",
            "rename column",
            "columns are found by field id, which stays",
            readers=("queries that use the old name fail",),
        )
        return within_reach(change.new_path, found)

    def _name_taken(self, path: str, renamed: NestedField | None = None) -> str | None:
        """Why a column cannot get the name at the end of *path* (in the target), or None."""
        name, parent = paths.leaf(path), paths.parent(path)
        top = parent == paths.ROOT
        if top and name in RESERVED:
            return f"{name} is a metadata column of every Iceberg table for its readers; give the field another name"
        if top:
            owned = {each.name for each in self.base.fields}
            foreign = [column.name for column in self.facts.schema.columns if column.name not in owned]
            if name in foreign:
                return f"the table already has a column {name} that no schema owns; give the field another name"
            identity = self.facts.partition_names.get(name, -1)
            if identity is None or (identity != -1 and (renamed is None or renamed.field_id != identity)):
                return f"a partition field is called {name}; give the field another name"
        else:
            foreign = []
        record = find_type(self.target.root, parent)
        record = without_null(record) if record is not None else None
        beside = [each.name for each in record.fields] if isinstance(record, Record) else []
        alike = [other for other in (*beside, *foreign) if other != name and other.casefold() == name.casefold()]
        if alike:
            return (
                f"{alike[0]} and {name} differ in case only, and engines that ignore case read one for the other; "
                "choose names that differ otherwise"
            )
        return self._name_mapped(path, name, renamed)

    def _name_mapped(self, path: str, name: str, renamed: NestedField | None) -> str | None:
        """Files without field ids find their columns by name, so there no name may be used for a second column."""
        mapping: Iterable[MappedField] = self.facts.mapping or ()
        own = renamed.field_id if renamed is not None else None
        for segment in self._mapped_segments(paths.parent(path)):
            mapping = next((each.fields for each in mapping if segment in each.names), ())
        taken = any(name in each.names and each.field_id != own for each in mapping)
        if not taken or not self.facts.plain_files():
            return None
        return (
            f"the table holds files without field ids (it has a name mapping), in which {name} is another column; "
            "rewrite these files first, or choose another name"
        )

    def _mapped_segments(self, path: str) -> Iterator[str]:
        old = base_path(path, self.base.root, self.target.root, self.renames, old_leaf=False)
        for segment in paths.parts(old or path):
            yield {paths.ITEMS: "element", paths.VALUES: "value"}.get(segment, segment.strip("<>"))

    # Types ----------------------------------------------------------------------------------------------------------

    def _retype(self, change: PromoteType | ChangeLogicalType | ReplaceType) -> Capability:
        reason = self._untyped(change.new, change.path)
        if reason is not None:
            return _refuse(reason)
        old, new = without_null(change.old), without_null(change.new)
        if _digits(old) and _digits(new) and _digits(old) != _digits(new):
            return _refuse(
                f"Avro reads a decimal only as one of the same precision and scale, so {describe(change.old)} cannot "
                f"become {describe(change.new)}, though Iceberg could hold it; keep the digits, add a field of another "
                "name, or start a new table"
            )
        found = resolve(holding(change.old), holding(change.new), fills=narrowing(self.fills, change.path))
        hard = [each for each in found.incompatibilities if not each.value_level]
        if hard:
            return _refuse(
                f"Avro cannot read {describe(change.old)} as {describe(change.new)}; keep the wider type, add a field "
                "of another name, or start a new table"
            )
        precondition: Precondition | None = "resolves" if found.incompatibilities else None
        if precondition is None and narrows(change.old, change.new):
            precondition = "values-valid"
        if isinstance(old, _LEAF) and isinstance(new, _LEAF):
            held, wanted = self._leaf(old), self._leaf(new)
            if held == wanted:
                via = "table properties"
                return Capability("metadata", via, f"{held} holds both", precondition=precondition)
            if promotable(held, wanted):
                return Capability("metadata", "promote column", f"Iceberg promotes {held} to {wanted} in place")
        reason = self._in_use(self.column(change.path), "written anew with another type")
        if reason is not None:
            return _refuse(reason)
        readers = ["queries have to expect the new type"]
        if self.facts.mapping is not None:
            # The name goes to the new column, so that files without ids which are added later are read right.
            readers.append(
                "readers of earlier snapshots no longer find this column in files without field ids: the name mapping "
                "leads to the new one"
            )
        return Capability(
            "rewrite",
            "new column and rewrite files",
            f"Iceberg does not promote {describe(change.old)} to {describe(change.new)}: the files are written anew",
            permit="rewrite",
            readers=tuple(readers),
            precondition=precondition,
        )

    def _leaf(self, type_: AvroType) -> IcebergType:
        return leaf_type(type_, "", max(self.facts.format_version, 2))

    def _make_optional(self, path: str) -> Capability:
        column = self.column(path)
        if column is not None and self.facts.identifiers & subtree(column):
            return _refuse(
                "the column identifies rows, and Iceberg wants such columns required; take it out of the table's "
                "identifier fields first"
            )
        return Capability("metadata", "make column optional", "every row so far has a value, which it keeps")

    def _make_required(self) -> Capability:
        return Capability(
            "metadata",
            "make column required",
            "the live rows are checked for nulls before the commit, and no write may land in between",
            readers=("writers that leave the column out fail",),
            precondition="no-nulls",
        )

    # Unions and enums -------------------------------------------------------------------------------------------------

    def _add_branch(self, change: AddBranch) -> Capability:
        if is_null(change.branch):
            return self._make_optional(change.path)
        reason = self._untyped(change.branch, change.path)
        if reason is not None:
            return _refuse(reason)
        return Capability("metadata", "add optional column", "a branch is an optional column of the union's struct")

    def _drop_branch(self, change: DropBranch) -> Capability:
        if is_null(change.branch):
            return self._make_required()
        column = self._branch_column(change)
        reason = self._in_use(column, "dropped")
        if reason is not None:
            return _refuse(reason)
        union = find_type(self.target.root, change.path)
        if union is not None and resolve(holding(change.branch), holding(union)).compatible:
            return Capability(
                "rewrite",
                "drop column and rewrite files",
                f"values of the branch {describe(change.branch)} read as another branch: the files are written anew",
                permit="rewrite",
            )
        return Capability(
            "metadata",
            "drop column",
            "a branch can go where no row uses it, which is checked before the commit",
            readers=("queries that name the branch's column fail",),
            precondition="branch-unused",
        )

    def _branch_column(self, change: DropBranch) -> NestedField | None:
        union = self.column(change.path)
        if union is None or not isinstance(union.field_type, StructType):
            return None
        old = base_path(change.path, self.base.root, self.target.root, self.renames, old_leaf=False)
        was = find_type(self.base.root, old) if old is not None else None
        if not isinstance(was, Union):
            return None
        at = next((i for i, branch in enumerate(was.values) if branch == change.branch), None)
        return locate(self.facts.schema, self.base.root, paths.branch(old or "", _branch_name(was, at)))

    def _drop_symbol(self, change: DropSymbol) -> Capability:
        enum = find_type(self.target.root, change.path)
        enum = without_null(enum) if enum is not None else None
        column = self.column(change.path)
        if isinstance(enum, Enum) and enum.default is not None and self._in_use(column, "") is None:
            return Capability(
                "rewrite",
                "rewrite files that hold the symbol",
                f"rows that hold {change.symbol} have to read the enum's default {enum.default}: the files that hold "
                "it are written anew; where none does, nothing is",
                permit="rewrite",
            )
        return Capability(
            "metadata",
            "table properties",
            "a symbol can go where no row holds it, which is checked before the commit; with a default on the enum, "
            "rows that hold it could be written anew",
            precondition="symbol-unused",
        )

    # Columns ----------------------------------------------------------------------------------------------------------

    def column(self, path: str, old_leaf: bool = False) -> NestedField | None:
        old = base_path(path, self.base.root, self.target.root, self.renames, old_leaf=old_leaf)
        return locate(self.facts.schema, self.base.root, old) if old is not None else None

    def _in_use(self, column: NestedField | None, verb: str) -> str | None:
        """Why a column cannot lose what it holds, or None."""
        if column is None:
            return None
        inside = subtree(column)
        for number, name in self.facts.partitioned.items():
            if number in inside:
                return (
                    f"the table is partitioned by this column (partition field {name}), so it cannot be {verb}; "
                    "replace the partition field and rewrite the files that use it first"
                )
        if inside & self.facts.sorted_by:
            return f"the table is sorted by this column, so it cannot be {verb}; replace the sort order first"
        if inside & self.facts.identifiers:
            return f"the column identifies rows, so it cannot be {verb}; take it out of the identifier fields first"
        return None

    def _untyped(self, type_: AvroType, path: str) -> str | None:
        """Why no Iceberg column holds this type, or None."""
        try:
            iceberg_type(type_, path, lambda: 1, max(self.facts.format_version, 2))
        except UnsupportedTable as error:
            return f"{error.what}; {error.hint}" if error.hint else error.what
        except LakeEvolveError as error:
            return error.what
        return None


_LEAF: Final = (Primitive, Fixed, Enum)


def _branch_name(union: Union, at: int | None) -> str:
    return branch_names(union)[at] if at is not None else ""


def _digits(type_: AvroType) -> tuple[int | None, int | None] | None:
    """Precision and scale of a decimal; None for every other type."""
    logical = type_.logical if isinstance(type_, (Primitive, Fixed)) else None
    return (logical.precision, logical.scale or 0) if logical is not None and logical.name == "decimal" else None
