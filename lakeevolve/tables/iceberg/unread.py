"""Changes of a table whose rows cannot be read: which are made all the same, and what is proved of them.

Equality deletes hide rows by the values of a key, and no Python library applies them (apache/iceberg-python#6568). So
nothing that depends on rows is done, the key stays as it is, and what remains is proved on the schema alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from lakeevolve.model import path as paths
from lakeevolve.model.change import (
    AddField,
    Change,
    ChangeLogicalType,
    DropField,
    PromoteType,
    RenameField,
    ReplaceType,
)
from lakeevolve.model.types import AvroType, without_null
from lakeevolve.tables.base import Capability, Evolution
from lakeevolve.tables.iceberg.facts import Facts
from lakeevolve.tables.iceberg.locate import base_path, locate, subtree
from lakeevolve.tables.iceberg.types import below, by_name, children, leaf_type, nullable


def unproved(
    facts: Facts, change: Change, found: Capability, column_at: Callable[[str, bool], NestedField | None]
) -> str | None:
    """Why a change that nothing else stands against is not made over equality deletes, or None.

    *column_at* tells the column of a path, and whether the path's last name is the base's.
    """
    if not facts.equality_deletes:
        return None
    if not facts.equality_ids:
        why = "and an equality delete file does not say which columns it compares"
    elif found.route != "metadata":
        why = "so its rows cannot be read exactly, and this change writes them anew"
    elif found.precondition is not None:
        why = "so its rows cannot be read exactly, and this change depends on what they hold"
    elif _of_the_key(facts, change, column_at):
        why = f"and they compare rows by {facts.equality_key} (the equality key), which has to stay as it is"
    else:
        return None
    return (
        f"the table holds equality deletes, which no Python library applies, {why}; compact it with Spark "
        "(rewrite_data_files) first"
    )


def _of_the_key(facts: Facts, change: Change, column_at: Callable[[str, bool], NestedField | None]) -> bool:
    """Whether a change is of a column that equality deletes compare, or of one above or beneath it."""
    if isinstance(change, AddField):
        return False
    path = change.path
    column = column_at(path, isinstance(change, (DropField, RenameField)))
    while column is None and path != paths.ROOT:
        # What has no column of its own is part of the nearest one that has.
        path = paths.parent(path)
        column = column_at(path, False)
    if column is None:
        return False
    inside = subtree(column)
    keys = [facts.schema.find_field(number) for number in facts.equality_ids & facts.schema.field_ids]
    return any(key.field_id in inside or column.field_id in subtree(key) for key in keys)


def wrong_in(staged: TableMetadata, base: TableMetadata, evolution: Evolution) -> Iterator[str]:
    """What staged metadata says otherwise than the plan, in words; nothing where all is as planned.

    Every column of the target has to be there with the type and nullability that the plan gives it, under the field id
    that it had; every column so far has to be left, but for those that the plan drops, and the rows, their layout and
    their identity untouched.
    """
    new, old = staged.schema(), base.schema()
    yield from _Comparison(new, old, base.last_column_id, base.format_version, evolution).run()
    owned = {each.name for each in evolution.base.fields}
    for column in old.columns:
        if column.name not in owned and by_name(new.as_struct(), column.name) != column:
            yield f"{column.name}: a column that no schema owns would change"
    let_go = _let_go(old, evolution)
    for number in sorted(let_go & new.field_ids):
        yield f"{new.find_column_name(number)}: the column would stay"
    for number in sorted(old.field_ids - new.field_ids - let_go):
        yield f"{old.find_column_name(number)}: the column would be lost"
    if set(new.identifier_field_ids) != set(old.identifier_field_ids):
        yield "the columns that identify rows would change"
    if (staged.current_snapshot_id, staged.default_spec_id, staged.default_sort_order_id) != (
        base.current_snapshot_id,
        base.default_spec_id,
        base.default_sort_order_id,
    ):
        yield "the rows or their layout would change"


def _let_go(old: IcebergSchema, evolution: Evolution) -> frozenset[int]:
    """The field ids of the columns that the plan drops."""
    base, target = evolution.base.root, evolution.target.root
    found: frozenset[int] = frozenset()
    for change, _ in evolution.changes:
        if isinstance(change, DropField):
            path = base_path(change.path, base, target, evolution.renames, old_leaf=True)
            column = locate(old, base, path) if path is not None else None
            found |= subtree(column) if column is not None else frozenset()
    return found


#: What a column lies in: one that was there, a new one, or one whose fields are optional (``types.loosened``).
_Above = Literal["kept", "new", "loose"]


def _beneath_list(above: _Above) -> _Above:
    return "new" if above == "loose" else above


@dataclass(slots=True)
class _Comparison:
    """The columns that a target asks for, held against those that are staged and those that were."""

    new: IcebergSchema
    old: IcebergSchema
    last_id: int
    format_version: int
    evolution: Evolution

    def run(self) -> Iterator[str]:
        yield from self._inside(self.new.as_struct(), self.evolution.target.root, paths.ROOT)

    def _inside(self, type_: IcebergType, avro: AvroType, path: str, above: _Above = "kept") -> Iterator[str]:
        match type_:
            case StructType():
                for name, inner, here in children(avro, type_, path):
                    column = by_name(type_, name)
                    if column is None or inner is None:
                        yield f"{here}: the column would be missing"
                    else:
                        yield from self._column(column, inner, here, above)
            case ListType() | MapType():
                items = below(avro)
                if items is None:
                    yield f"{path}: the column would be nested otherwise"
                elif isinstance(type_, ListType):
                    yield from self._column(type_.element_field, items, paths.items(path), _beneath_list(above))
                else:
                    yield from self._column(type_.value_field, items, paths.values(path), _beneath_list(above))

    def _column(self, column: NestedField, avro: AvroType, path: str, above: _Above = "kept") -> Iterator[str]:
        was = self._was(path)
        branch = paths.leaf(path).startswith("<")
        changed = True
        if was is None:
            if column.field_id <= self.last_id:
                yield f"{path}: a new column would have field id {column.field_id}, which another had"
            optional = above == "loose" or branch or nullable(avro) or self.evolution.fills.get(path) == "null"
            if above == "kept":
                above = "loose" if optional else "new"
        else:
            if column.field_id != was.field_id:
                yield f"{path}: field id {was.field_id} would become {column.field_id}"
            changed = any(c.path == path and isinstance(c, _TYPES) for c, _ in self.evolution.changes)
            optional = branch or nullable(avro) or not was.required
            above = "kept"
        if column.required == optional:
            yield f"{path}: the column would be {'required' if column.required else 'optional'}"
        if isinstance(column.field_type, PrimitiveType):
            same = was is not None and column.field_type == was.field_type
            if not same and (not changed or column.field_type != self._leaf(avro, path)):
                yield f"{path}: the column would be {column.field_type}"
        yield from self._inside(column.field_type, avro, path, above)

    def _leaf(self, avro: AvroType, path: str) -> IcebergType:
        return leaf_type(without_null(avro), path, self.format_version)

    def _was(self, path: str) -> NestedField | None:
        """The column that a path of the target continues."""
        of = self.evolution
        if any(isinstance(c, AddField) and paths.within(path, c.path) for c, _ in of.changes):
            return None
        old = base_path(path, of.base.root, of.target.root, of.renames)
        return locate(self.old, of.base.root, old) if old is not None else None


_TYPES: Final = (PromoteType, ChangeLogicalType, ReplaceType)
