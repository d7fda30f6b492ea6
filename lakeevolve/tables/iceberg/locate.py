"""Which column of the table a path of a change means."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakeevolve.model import path as paths
from lakeevolve.model.branches import pair_branches
from lakeevolve.model.match import match_fields
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names, without_null
from lakeevolve.tables.iceberg.types import below, by_name, children, inner_fields


def locate(schema: IcebergSchema, root: AvroType | None, path: str) -> NestedField | None:
    """The column at a path of the Avro type that the schema holds (or, without one, of the columns' own names); None
    where there is none."""
    struct: IcebergType = schema.as_struct()
    type_ = root
    found: NestedField | None = None
    here = paths.ROOT
    for segment in paths.parts(path):
        match struct:
            case StructType():
                name = segment[1:-1] if segment.startswith("<") else segment
                found = by_name(struct, name)
                inner = [each for called, each, _ in children(type_, struct, here) if called == name]
                type_ = inner[0] if inner else None
            case ListType() if segment == paths.ITEMS:
                found, type_ = struct.element_field, below(type_)
            case MapType() if segment == paths.VALUES:
                found, type_ = struct.value_field, below(type_)
            case _:
                return None
        if found is None:
            return None
        struct = found.field_type
    return found


def subtree(column: NestedField) -> frozenset[int]:
    """The ids of a column and of everything beneath it."""
    found = {column.field_id}
    for inner in inner_fields(column.field_type):
        found |= subtree(inner)
    return frozenset(found)


def base_path(path: str, base: AvroType, target: AvroType, renames: Mapping[str, str], *, old_leaf: bool) -> str | None:
    """The path in the base schema of a change's path, whose outer names are those of the target.

    *old_leaf*: the last name is the base's (a drop, a rename). None where the base has nothing there.
    """
    was, now = without_null(base), without_null(target)
    old = here = paths.ROOT
    segments = paths.parts(path)
    for at, segment in enumerate(segments):
        match was, now:
            case Record(), Record():
                name: str | None = segment
                if not (old_leaf and at == len(segments) - 1):
                    name = _old_name(was, now, segment, here, renames)
                field, after = (was.field(name) if name is not None else None), now.field(segment)
                if field is None:
                    return None
                old, here = paths.child(old, field.name), paths.child(here, segment)
                was, now = without_null(field.type), without_null((after or field).type)
            case Array(), Array() if segment == paths.ITEMS:
                old, here = paths.items(old), paths.items(here)
                was, now = without_null(was.items), without_null(now.items)
            case Map(), Map() if segment == paths.VALUES:
                old, here = paths.values(old), paths.values(here)
                was, now = without_null(was.values), without_null(now.values)
            case Union(), Union():
                branches = _branches(was, now, segment)
                if branches is None:
                    return None
                (name, was), now = branches
                old, here = paths.branch(old, name), here + segment
            case _:
                return None
    return old


def _old_name(was: Record, now: Record, name: str, path: str, renames: Mapping[str, str]) -> str | None:
    pairs, _ = match_fields(was, now, path=path, renames=renames)
    for new, old in pairs:
        if now.fields[new].name == name:
            return was.fields[old].name if old is not None else None
    return name if was.field(name) is not None else None


def _branches(was: Union, now: Union, segment: str) -> tuple[tuple[str, AvroType], AvroType] | None:
    """The base's branch (with its name) and the target's that a segment names, by either name."""
    olds = dict(zip(map(id, was.values), branch_names(was), strict=True))
    news = dict(zip(map(id, now.values), branch_names(now), strict=True))
    for new, old in pair_branches(was.branches, now.branches, {}).items():
        before, after = was.branches[old], now.branches[new]
        if segment in (f"<{news.get(id(after))}>", f"<{olds.get(id(before))}>"):
            return (olds[id(before)], before), after
    return None
