"""Filters on the columns that changed, and the rows that must come back under them.

Statistics, dictionaries and metadata defaults can make a filter lie where a full read is right, so every changed leaf
that a filter can reach is asked for a value that is present, for less than one, for one of some, and for null.

Whole rows are compared without a filter. What a filter may get wrong besides is which rows it lets through, and that
shows in the leaf's own column: how many there are, and their values. Only where these differ are whole rows asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro import nodes
from lakeevolve.model import path as paths
from lakeevolve.model.types import AvroType, Record, Union, branch_names, is_null, kind, without_null
from lakeevolve.tables.base import Predicate

#: What a filter may be asked to compare. UUIDs, durations and nanoseconds have no literal that all readers share.
_COMPARABLE: Final = frozenset({"boolean", "int", "long", "float", "double", "string", "enum", "bytes", "fixed"})


def leaves(record: Record) -> dict[str, AvroType]:
    """The leaf columns that a filter can reach: those that lie in no list and no map, by path."""
    return dict(_leaves(record, ""))


def _leaves(type_: AvroType, path: str) -> Iterator[tuple[str, AvroType]]:
    plain = without_null(type_)
    if isinstance(plain, Record):
        for f in plain.fields:
            yield from _leaves(f.type, paths.child(path, f.name))
    elif isinstance(plain, Union):
        for name, branch in zip(branch_names(plain), plain.values, strict=True):
            yield from _leaves(branch, paths.branch(path, name))
    elif kind(plain) not in ("array", "map", "ref") and not is_null(plain):
        yield path, plain


#: The fields of each node by name: a record is asked for each of its leaves.
_Index: TypeAlias = dict[int, Mapping[str, nodes.ReadField]]


def changed_leaves(roots: Sequence[nodes.Node], record: Record) -> tuple[str, ...]:
    """Of the leaves that a filter can reach, those that any of these steps renames, fills or converts, or something
    above them.

    Parameters
    ----------
    roots:
        The trees of the steps, in the order in which they run.
    record:
        What the last of them reads as.
    """
    index: _Index = {}
    return tuple(path for path in leaves(record) if not _kept(roots, path, index))


def _kept(roots: Sequence[nodes.Node], path: str, index: _Index) -> bool:
    parts: Sequence[str] | None = paths.parts(path)
    for root in reversed(roots):
        parts = None if parts is None else _written(root, parts, index)
    return parts is not None


def _written(node: nodes.Node, parts: Sequence[str], index: _Index) -> Sequence[str] | None:
    """Where a leaf lies in what a step reads; None where the step changes it or something above it."""
    match node:
        case nodes.Keep():
            return parts
        case nodes.Fields():
            if id(node) not in index:
                index[id(node)] = {part.field.name: part for part in node.fields if isinstance(part, nodes.ReadField)}
            read = index[id(node)].get(parts[0])
            if read is None or node.writer.fields[read.index].name != parts[0]:
                return None
            return _beneath(parts[0], _written(read.node, parts[1:], index))
        case nodes.FromUnion() if isinstance(node.reader, Union) and node.writer.optional == node.reader.optional:
            return _in_branch(node, node.reader, parts, index)
    return None


def _in_branch(node: nodes.FromUnion, reader: Union, parts: Sequence[str], index: _Index) -> Sequence[str] | None:
    """The same for a leaf in a union that stays one."""
    names = dict(zip(map(id, reader.values), branch_names(reader), strict=True))
    was = dict(zip(map(id, node.writer.values), branch_names(node.writer), strict=True))
    for writer, branch in zip(node.writer.branches, node.branches, strict=True):
        if is_null(writer) or not isinstance(branch, nodes.ToBranch):
            continue
        if reader.optional:
            return _written(branch.node, parts, index)
        name = names[id(reader.branches[branch.index])]
        if parts[0] == paths.branch("", name) and was[id(writer)] == name:
            return _beneath(parts[0], _written(branch.node, parts[1:], index))
    return None


def _beneath(part: str, parts: Sequence[str] | None) -> Sequence[str] | None:
    return None if parts is None else (part, *parts)


@dataclass(frozen=True, slots=True)
class Filter:
    """A predicate, and the top-level columns that are read and compared under it."""

    predicate: Predicate
    columns: tuple[str, ...]

    @property
    def path(self) -> str:
        return self.predicate.path


def filters(asked: Iterable[Predicate]) -> tuple[Filter, ...]:
    """The filters of these predicates, each with the column that its leaf lies in."""
    return tuple(Filter(p, (paths.parts(p.path)[0],)) for p in asked)


@dataclass(slots=True)
class Samples:
    """Values of leaf columns that were met: the first usable one, the largest, and the first of the last batch."""

    wanted: Mapping[str, AvroType]
    first: dict[str, Any] = field(default_factory=dict)
    largest: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)

    def look(self, batch: pa.RecordBatch, more: bool = False) -> None:
        """Take what the batch has for leaves that have no value yet, and with *more* for the others, too."""
        for path, type_ in self.wanted.items():
            if (path in self.first and not more) or not _comparable(type_):
                continue
            values = column(batch, path)
            if values is None:
                continue
            values = _usable(values)
            if len(values) == 0:
                continue
            one, largest = values[0].as_py(), _largest(values)
            self.last[path] = one
            if path in self.first:
                self.largest[path] = max(self.largest[path], largest)
            else:
                self.first[path], self.largest[path] = one, largest

    @property
    def missing(self) -> tuple[str, ...]:
        """The leaves that a value is still wanted for."""
        return tuple(p for p, t in self.wanted.items() if p not in self.first and _comparable(t))

    def predicates(self) -> tuple[Predicate, ...]:
        """What all leaves are asked for: null, and their values as far as there are any."""
        return tuple(one for path in self.wanted for one in (*self.compared(path), Predicate(path, "is null")))

    def compared(self, path: str) -> tuple[Predicate, ...]:
        """What a leaf is asked for by its values; nothing where none was met."""
        if path not in self.first:
            return ()
        first, largest = self.first[path], self.largest[path]
        found = (Predicate(path, "=", first),)
        if isinstance(first, bool):
            return found
        among = tuple(dict.fromkeys((first, largest, self.last[path])))
        return (*found, Predicate(path, "<", largest), Predicate(path, "in", among))

    def take(self, other: Samples) -> None:
        """Take the values that another has for leaves that have none yet."""
        for path, value in other.first.items():
            if path not in self.first:
                self.first[path], self.largest[path], self.last[path] = value, other.largest[path], other.last[path]


def _comparable(type_: AvroType) -> bool:
    logical = getattr(type_, "logical", None)
    if logical is not None:
        return logical.name in (
            "decimal",
            "date",
            "time-millis",
            "time-micros",
            "timestamp-millis",
            "timestamp-micros",
            "local-timestamp-millis",
            "local-timestamp-micros",
        )
    return kind(type_) in _COMPARABLE


def _usable(values: pa.Array) -> pa.Array:
    """Values that every reader compares alike: no null, no NaN, no infinity, no zero of either sign."""
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.and_(pc.is_finite(values), pc.not_equal(values, pa.scalar(0, values.type))))
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        # Python has the years 1 to 9999.
        low, high = _PYTHON_DAYS if pa.types.is_date(values.type) else _PYTHON_MICROS
        whole = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
        scalar = [pa.scalar(limit, whole.type) for limit in (low, high)]
        values = values.filter(pc.and_(pc.greater_equal(whole, scalar[0]), pc.less_equal(whole, scalar[1])))
    return values


_PYTHON_DAYS: Final = (-719162, 2932896)
_PYTHON_MICROS: Final = (-719162 * 86_400_000_000, 2932896 * 86_400_000_000)


def _largest(values: pa.Array) -> Any:
    if pa.types.is_boolean(values.type):
        return True
    return pc.max(values).as_py()


def column(batch: pa.RecordBatch, path: str) -> pa.Array | None:
    """The leaf at *path* with one value per row; null where it or anything above it is null. None: not there."""
    names = paths.parts(path)
    index = batch.schema.get_field_index(names[0])
    if index < 0:
        return None
    array = batch.column(index)
    for name in names[1:]:
        plain = name[1:-1] if name.startswith("<") and name.endswith(">") else name
        at = array.type.get_field_index(plain) if pa.types.is_struct(array.type) else -1
        if at < 0:
            return None
        array = pc.struct_field(array, at)
    return array


def above(batch: pa.RecordBatch, path: str) -> pa.Array | None:
    """Which rows have every record that the leaf at *path* lies in; None where it lies in none."""
    holder = paths.parent(path)
    found = column(batch, holder) if holder else None
    return None if found is None else found.is_valid()


def matches(batch: pa.RecordBatch, predicate: Predicate) -> pa.Array:
    """Which rows of a batch satisfy the filter, as SQL has it: a comparison with null is not satisfied."""
    return satisfied(column(batch, predicate.path), predicate, batch.num_rows)


def satisfied(values: pa.Array | None, predicate: Predicate, rows: int) -> pa.Array:
    """The same for the values of the filter's leaf; None stands for so many nulls."""
    if values is None or pa.types.is_null(values.type):
        return pa.repeat(pa.scalar(predicate.op == "is null"), rows)
    if predicate.op == "is null":
        return values.is_null()
    if predicate.op == "in":
        return pc.fill_null(pc.is_in(values, pa.array(list(predicate.value), values.type), skip_nulls=True), False)
    scalar = pa.scalar(predicate.value, values.type)
    compare = pc.equal if predicate.op == "=" else pc.less
    return pc.fill_null(compare(values, scalar), False)


def describe(predicate: Predicate) -> str:
    """The filter without its value."""
    return f"{predicate.path} is null" if predicate.op == "is null" else f"{predicate.path} {predicate.op} a value"
