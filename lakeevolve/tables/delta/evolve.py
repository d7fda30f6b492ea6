"""What an evolution makes of a Delta schema, and which part of that delta-rs can do without touching a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField, Change, DropField, MakeRequired
from lakeevolve.model.types import (
    Array,
    AvroType,
    Field,
    Map,
    Record,
    Union,
    branch_names,
    without_null,
)
from lakeevolve.tables.base import Evolution, Fill
from lakeevolve.tables.delta.filling import defaulted
from lakeevolve.tables.delta.schema import ALIASES, AVRO_TYPE, column_texts, delta_type, new_column, nullable
from lakeevolve.tables.delta.types import COMMENT, Column, DeltaType, ListOf, MapOf, Struct, same_type, shape

#: Spark's note on a string column that it shows as CHAR(n) or VARCHAR(n).
_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The schema after an evolution. ``sources`` maps each top-level column to the one that it was."""

    struct: Struct
    sources: Mapping[str, str]


def evolve(struct: Struct, evolution: Evolution) -> Wanted:
    """The Delta schema after an evolution: the target's fields in its order, then the foreign columns."""
    evolving = _Evolving(evolution.renames, evolution.fills, [c for c, _ in evolution.changes])
    # Until they are filled, old rows have no value in these.
    evolving.lenient = {change.path for change in defaulted(evolution.changes, evolution.fills)}
    return evolving.run(struct, evolution.base.record, evolution.target.record)


class _Evolving:
    def __init__(self, renames: Mapping[str, str], fills: Mapping[str, Fill], changes: Sequence[Change]) -> None:
        self.renames = renames
        self.fills = fills
        self.lenient: set[str] = set()
        self.required = {c.path for c in changes if isinstance(c, MakeRequired)}
        dropped = {c.path for c in changes if isinstance(c, DropField)}
        self.fresh = {c.path for c in changes if isinstance(c, AddField) and c.path in dropped}

    def run(self, struct: Struct, base: Record, target: Record) -> Wanted:
        sources: dict[str, str] = {}
        columns = []
        for old, column in self.columns(struct, base, target, paths.ROOT):
            field = target.field(column.name)
            assert field is not None
            if old is not None:
                sources[column.name] = old.name
            columns.append(_with_type(column, field))
        owned = {f.name for f in base.fields}
        taken = set(sources.values()) | {c.name for c in columns}
        foreign = [c for c in struct.columns if c.name not in owned and c.name not in taken]
        sources.update((c.name, c.name) for c in foreign)
        return Wanted(Struct((*columns, *foreign)), sources)

    def columns(
        self, struct: Struct, base: Record | None, target: Record, at: str
    ) -> list[tuple[Column | None, Column]]:
        lenient = base is not None and sink_convention(struct, base)
        made: list[tuple[Column | None, Column]] = []
        for field in target.fields:
            here = paths.child(at, field.name)
            old = self.source(struct, here, field.name)
            if old is None:
                optional = lenient or self.fills.get(here) == "null" or here in self.lenient
                made.append((None, new_column(field, here, lenient=optional)))
                continue
            before = base.field(old.name) if base is not None else None
            type_ = self.type(old.type, before.type if before else None, field.type, here)
            optional = self.optional(old.nullable, field.type, here)
            metadata = _comment(old.metadata, before, field)
            if not same_type(old.type, type_):
                metadata.pop(_CHAR, None)
            made.append((old, Column(field.name, type_, optional, metadata)))
        return made

    def source(self, struct: Struct, here: str, name: str) -> Column | None:
        """The column that a field of the target was before."""
        if here in self.renames:
            return struct.column(paths.leaf(self.renames[here]))
        # The old name of a field that has been renamed away is free for a new one.
        parent = paths.parent(here)
        gone = {paths.leaf(old) for new, old in self.renames.items() if paths.parent(new) == parent}
        return None if here in self.fresh or name in gone else struct.column(name)

    def optional(self, before: bool, target: AvroType, here: str) -> bool:
        """A column that the table has optional stays so unless the plan says otherwise: sinks make them all so."""
        return nullable(target) or (before and here not in self.required)

    def type(self, old: DeltaType, base: AvroType | None, target: AvroType, here: str) -> DeltaType:
        before, after = (without_null(base) if base is not None else None), without_null(target)
        match old, after:
            case Struct(), Record():
                record = before if isinstance(before, Record) else None
                return Struct(tuple(c for _, c in self.columns(old, record, after, here)))
            case Struct(), Union():
                return self.union(old, before, after, here)
            case ListOf(), Array():
                inner, at = (before.items if isinstance(before, Array) else None), paths.items(here)
                items = self.type(old.element, inner, after.items, at)
                return ListOf(items, self.optional(old.contains_null, after.items, at))
            case MapOf(), Map():
                inner, at = (before.values if isinstance(before, Map) else None), paths.values(here)
                values = self.type(old.value, inner, after.values, at)
                return MapOf(old.key, values, self.optional(old.contains_null, after.values, at))
        return delta_type(target, here)

    def union(self, old: Struct, base: AvroType | None, target: Union, here: str) -> Struct:
        known = dict(zip(branch_names(base), base.values, strict=True)) if isinstance(base, Union) else {}
        columns = []
        for name, branch in zip(branch_names(target), target.values, strict=True):
            at = paths.branch(here, name)
            column = old.column(name) if name in known else None
            if column is None:
                columns.append(Column(name, delta_type(branch, at)))
            else:
                columns.append(replace(column, type=self.type(column.type, known[name], branch, at)))
        return Struct(tuple(columns))


def sink_convention(struct: Struct, base: Record) -> bool:
    """Whether a writer made every column of a struct optional although the schema says otherwise."""
    stricter = [
        column
        for field in base.fields
        if not nullable(field.type) and (column := struct.column(field.name)) is not None
    ]
    return bool(stricter) and all(c.nullable for c in stricter)


def _comment(metadata: Mapping[str, Any], before: Field | None, after: Field) -> dict[str, Any]:
    """The column's metadata with the field's doc as its comment; a comment that no schema wrote stays."""
    found = dict(metadata)
    if after.doc is not None:
        found[COMMENT] = after.doc
    elif before is not None and before.doc is not None and found.get(COMMENT) == before.doc:
        del found[COMMENT]
    return found


def _with_type(column: Column, field: Field) -> Column:
    rest = {k: v for k, v in column.metadata.items() if k not in (AVRO_TYPE, ALIASES)}
    return replace(column, metadata={**rest, **column_texts(field)})


@dataclass(frozen=True, slots=True)
class Alteration:
    """A metadata evolution in delta-rs's terms: new texts on columns, then one merge of columns."""

    texts: Mapping[str, Mapping[str, str]]
    merge: tuple[Column, ...]
    result: Struct


def alteration(old: Struct, new: Struct) -> Alteration | None:
    """How to get from one schema to another by metadata alone; None where that is impossible.

    ``add_columns`` of delta-rs 1.6 merges: it adds columns at every depth, makes existing ones optional at every
    depth and adds metadata, in one commit. It cannot change a text that is there, which ``set_column_metadata`` does,
    for top-level columns. Nested comments that would have to change are left: the marker holds the new ones.
    """
    texts: dict[str, dict[str, str]] = {}
    merge = []
    for column in new.columns:
        before = old.column(column.name)
        if before is None:
            merge.append(column)
            continue
        changed = _changed(before.metadata, column.metadata)
        if changed:
            texts[column.name] = changed
        part = _part(before, column)
        if part is not None:
            merge.append(replace(part, metadata={}))
    result = merged(old, merge)
    kept = {c.name for c in new.columns}
    wanted = Struct((*new.columns, *(c for c in old.columns if c.name not in kept)))
    if shape(result) != shape(wanted) or len(kept) < len(old.columns):
        return None
    return Alteration(texts, tuple(merge), result)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Texts to set; one that has to go becomes empty, since delta-rs cannot remove it."""
    keys = (COMMENT, AVRO_TYPE, ALIASES)
    return {k: str(new.get(k, "")) for k in keys if new.get(k, "") != old.get(k, "")}


def _part(old: Column, new: Column) -> Column | None:
    """The part of a column that a merge has to bring; None where nothing changes."""
    below = _type_part(old.type, new.type)
    relaxed = new.nullable and not old.nullable
    if below is None and not relaxed:
        return None
    return Column(new.name, below if below is not None else _bare(old.type), new.nullable)


def _type_part(old: DeltaType, new: DeltaType) -> DeltaType | None:
    match old, new:
        case Struct(), Struct():
            columns = []
            for column in new.columns:
                before = old.column(column.name)
                part = column if before is None else _part(before, column)
                if part is not None:
                    columns.append(part)
            return Struct(tuple(columns)) if columns else None
        case ListOf(), ListOf():
            below = _type_part(old.element, new.element)
            if below is None and new.contains_null == old.contains_null:
                return None
            return ListOf(below if below is not None else _bare(old.element), new.contains_null)
        case MapOf(), MapOf():
            below = _type_part(old.value, new.value)
            if below is None and new.contains_null == old.contains_null:
                return None
            return MapOf(old.key, below if below is not None else _bare(old.value), new.contains_null)
    return None


def _bare(type_: DeltaType) -> DeltaType:
    """The type as a merge partner that changes nothing: without metadata."""
    match type_:
        case Struct():
            return Struct(tuple(replace(c, type=_bare(c.type), metadata={}) for c in type_.columns))
        case ListOf():
            return replace(type_, element=_bare(type_.element))
        case MapOf():
            return replace(type_, value=_bare(type_.value))
    return type_


def merged(old: Struct, parts: Collection[Column]) -> Struct:
    """What ``add_columns`` makes of a schema and columns: theirs added, nullability widened, metadata joined."""
    columns = list(old.columns)
    for part in parts:
        at = next((i for i, c in enumerate(columns) if c.name == part.name), None)
        if at is None:
            columns.append(part)
            continue
        before = columns[at]
        columns[at] = Column(
            before.name,
            _merged_type(before.type, part.type),
            before.nullable or part.nullable,
            {**before.metadata, **part.metadata},
        )
    return Struct(tuple(columns))


def _merged_type(old: DeltaType, part: DeltaType) -> DeltaType:
    match old, part:
        case Struct(), Struct():
            return merged(old, part.columns)
        case ListOf(), ListOf():
            return ListOf(_merged_type(old.element, part.element), old.contains_null or part.contains_null)
        case MapOf(), MapOf():
            return MapOf(old.key, _merged_type(old.value, part.value), old.contains_null or part.contains_null)
    return old
