"""What a reader with a listed fault gives of one file under one filter.

Where a filter's answer is not what the values say, each file is asked alone, and its answer is held against what the
fault would make of that very file: the same rows, no more and no fewer. Anything else is a mismatch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro import nodes
from lakeevolve.model import path as paths
from lakeevolve.model.find import find_type
from lakeevolve.model.types import AvroType, Primitive, Union, branch_names, is_null, without_null
from lakeevolve.replaying import faults, predicates
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.multiset import Rows
from lakeevolve.tables.base import DataFile, Predicate

#: The least and the greatest value of the types that Iceberg widens without touching files.
_INT: Final = (-(1 << 31), (1 << 31) - 1)
_FLOAT: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


class Modelled(NamedTuple):
    """A listed fault, and the rows of a file that a reader with it gives instead of those that satisfy the filter."""

    fault: str
    given: Callable[[Rows], Rows]


def modelled(
    reader: str, folds: Folds, file: DataFile, predicate: Predicate, read: Callable[[], Iterator[Rows]]
) -> Modelled | None:
    """What a listed fault of the reader would make of a file under a filter; None where none concerns it.

    Parameters
    ----------
    read:
        The file's rows as they must read without the filter.
    """
    if faults.has(reader, faults.EMPTY_PARTITION_VALUE) and predicate.path in file.misread:
        return _empty(file, predicate)
    if faults.has(reader, faults.DEFAULT_AS_PYTHON_HOLDS_IT):
        found = _defaulted(folds, file, predicate)
        if found is not None:
            return found
    if faults.has(reader, faults.LITERAL_IN_FILE_TYPE):
        return _narrowed(folds, file, predicate)
    if faults.has(reader, faults.NAN_BESIDE_ONE_VALUE):
        return _constant(folds, predicate, read)
    return None


# --- a literal that is bound to a file's own, narrower type ---------------------------------------------------------


def _narrowed(folds: Folds, file: DataFile, predicate: Predicate) -> Modelled | None:
    """pyiceberg binds a filter's value to the type that the column has in the file.

    A value beyond that type turns ``<`` into *everything*, nulls and NaN included, and a member of ``in`` into the
    type's own limit; a double is rounded to a float.
    """
    now = _plain(find_type(folds.newest.schema.root, predicate.path))
    then = origin(folds, file.version, predicate.path)
    if predicate.op == "is null" or now is None or then is None:
        return None
    match then, now:
        case "int", "long":
            bound: Callable[[Any], Any] = lambda value: min(max(value, _INT[0]), _INT[1])  # noqa: E731
            type_, low, high = pa.int32(), *_INT
        case "float", "double":
            bound, type_, low, high = _rounded, pa.float32(), -_FLOAT, _FLOAT
        case _:
            return None
    beyond = predicate.op == "<" and predicate.value > high
    if not beyond and predicate.op != "in" and not low <= predicate.value <= high:
        # Below the least value nothing is less, and nothing equals what the type does not hold: both are right.
        return None
    if predicate.op == "in":
        value: Any = sorted({bound(each) for each in predicate.value})
        same = value == sorted(set(predicate.value))
    else:
        value, same = bound(predicate.value), bound(predicate.value) == predicate.value
    if same and not beyond:
        return None

    def given(rows: Rows) -> Rows:
        if beyond:
            return rows
        held = predicates.column(rows.batch, predicate.path)
        held = held.cast(type_) if held is not None and not pa.types.is_null(held.type) else held
        asked = Predicate(predicate.path, predicate.op, value)
        return rows.filter(predicates.satisfied(held, asked, rows.batch.num_rows))

    return Modelled(faults.LITERAL_IN_FILE_TYPE, given)


def _rounded(value: float) -> float:
    found = pa.scalar(value, pa.float64()).cast(pa.float32()).as_py()
    return float(min(max(found, -_FLOAT), _FLOAT))


def _plain(type_: AvroType | None) -> str | None:
    """The name of a primitive type without a logical type; None for any other."""
    bare = without_null(type_) if type_ is not None else None
    return bare.name if isinstance(bare, Primitive) and bare.logical is None else None


def origin(folds: Folds, version: int, path: str) -> str | None:
    """The plain primitive type that a leaf of the newest version had at an earlier one; None where it was not one."""
    fold = folds(version)
    parts: Sequence[str] | None = paths.parts(path)
    for root in reversed(fold.resolution.roots if fold.resolution is not None else ()):
        parts = None if parts is None else _written(root, parts)
    if parts is None:
        return None
    return _plain(find_type(fold.writer.root, paths.join(tuple(parts))))


def _written(node: nodes.Node, parts: Sequence[str]) -> Sequence[str] | None:
    """Where the value of a leaf lies in what a step reads; None where it is not read from there."""
    match node:
        case nodes.Keep():
            return parts
        case nodes.Promote() if not parts:
            return parts
        case nodes.ToBranch() if node.reader.optional:
            return _written(node.node, parts)
        case nodes.Fields() if parts:
            read = next((part for part in node.fields if part.field.name == parts[0]), None)
            if not isinstance(read, nodes.ReadField):
                return None
            return _beneath(node.writer.fields[read.index].name, _written(read.node, parts[1:]))
        case nodes.FromUnion():
            return _from_union(node, parts)
    return None


def _from_union(node: nodes.FromUnion, parts: Sequence[str]) -> Sequence[str] | None:
    real = not node.writer.optional
    was = dict(zip(map(id, node.writer.values), branch_names(node.writer), strict=True))
    for writer, branch in zip(node.writer.branches, node.branches, strict=True):
        if is_null(writer):
            continue
        inner, rest = branch, parts
        if isinstance(branch, nodes.ToBranch):
            inner = branch.node
            if not branch.reader.optional:
                if not parts or parts[0] != paths.branch("", _name(branch.reader, branch.index)):
                    continue
                rest = parts[1:]
        found = _written(inner, rest)
        return _beneath(paths.branch("", was[id(writer)]), found) if real else found
    return None


def _name(union: Union, index: int) -> str:
    names = dict(zip(map(id, union.values), branch_names(union), strict=True))
    return names[id(union.branches[index])]


def _beneath(part: str, parts: Sequence[str] | None) -> Sequence[str] | None:
    return None if parts is None else (part, *parts)


# --- a default in the metadata that is compared as Python holds it ----------------------------------------------------

_COUNTED: Final = ("date", "time-", "timestamp-", "local-timestamp-")


def fails(reader: str, folds: Folds, file: DataFile, predicate: Predicate) -> bool:
    """Whether a reader with a listed fault fails on a file under a filter."""
    if predicate.op != "<" or not faults.has(reader, faults.DEFAULT_AS_PYTHON_HOLDS_IT):
        return False
    return predicate.path in file.defaulted and _counted(folds, predicate.path)


def _defaulted(folds: Folds, file: DataFile, predicate: Predicate) -> Modelled | None:
    """pyiceberg decides once for the whole of a file that lacks the column, by the default in Python's type."""
    value = file.defaulted.get(predicate.path)
    if value is None or predicate.op == "is null":
        return None
    if _counted(folds, predicate.path):
        all_ = False
    elif _plain(find_type(folds.newest.schema.root, predicate.path)) == "float":
        match predicate.op:
            case "=":
                all_ = value == predicate.value
            case "<":
                all_ = value < predicate.value
            case _:
                all_ = value in predicate.value
    else:
        return None
    return Modelled(faults.DEFAULT_AS_PYTHON_HOLDS_IT, lambda rows: rows if all_ else rows.filter(_none(rows)))


def _none(rows: Rows) -> pa.Array:
    return pa.repeat(pa.scalar(False), rows.batch.num_rows)


def _counted(folds: Folds, path: str) -> bool:
    """Whether a leaf of the newest version is a date, a time or an instant."""
    type_ = find_type(folds.newest.schema.root, path)
    bare = without_null(type_) if type_ is not None else None
    return isinstance(bare, Primitive) and bare.logical is not None and bare.logical.name.startswith(_COUNTED)


# --- partition values that are empty ---------------------------------------------------------------------------------


def _empty(file: DataFile, predicate: Predicate) -> Modelled:
    """delta-rs takes an empty partition value for an empty text, and filters by that."""

    def given(rows: Rows) -> Rows:
        batch = faults.as_misread(rows.batch, file.misread)
        return rows._replace(batch=batch).filter(predicates.matches(batch, predicate))

    return Modelled(faults.EMPTY_PARTITION_VALUE, given)


# --- statistics that leave NaN out ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """What a file has in one column of floats."""

    nulls: int = 0
    nans: int = 0
    values: set[float] | None = None

    def take(self, values: pa.Array) -> None:
        self.nulls += values.null_count
        there = values.drop_null()
        nan = pc.is_nan(there)
        self.nans += pc.sum(nan).as_py() or 0
        if self.values is None:
            self.values = set()
        if len(self.values) < 2:
            self.values.update(pc.unique(there.filter(pc.invert(nan))).slice(0, 2).to_pylist())


def _constant(folds: Folds, predicate: Predicate, read: Callable[[], Iterator[Rows]]) -> Modelled | None:
    """DataFusion takes a column whose least and greatest value are the same for a constant; they leave NaN out.

    So the NaN of a file that holds one other value besides, and no null, reads as that value, before it is filtered.
    """
    if len(paths.parts(predicate.path)) != 1 or predicate.op == "is null":
        return None
    if _plain(find_type(folds.newest.schema.root, predicate.path)) not in ("float", "double"):
        return None
    seen = _Seen()
    for rows in read():
        values = predicates.column(rows.batch, predicate.path)
        if values is None or not pa.types.is_floating(values.type):
            return None
        seen.take(values)
    if seen.nulls or not seen.nans or seen.values is None or len(seen.values) != 1:
        return None
    (only,) = seen.values

    def given(rows: Rows) -> Rows:
        at = rows.batch.schema.get_field_index(paths.parts(predicate.path)[0])
        type_ = rows.batch.schema.field(at).type
        batch = rows.batch.set_column(
            at, rows.batch.schema.field(at).name, pa.repeat(pa.scalar(only, type_), rows.batch.num_rows)
        )
        return rows._replace(batch=batch).filter(predicates.matches(batch, predicate))

    return Modelled(faults.NAN_BESIDE_ONE_VALUE, given)
