"""Running the nodes of a resolution over arrays of values, whole columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import nested
from lakeevolve.avro.arrow.failures import Failures, Rows
from lakeevolve.avro.arrow.promote import promote
from lakeevolve.avro.arrow.types import arrow_type, nullable
from lakeevolve.avro.defaults import default_value
from lakeevolve.avro.nodes import (
    Again,
    Fail,
    Fields,
    FillField,
    FromUnion,
    Items,
    Keep,
    Node,
    Promote,
    ReadField,
    Symbols,
    ToBranch,
    Values,
)
from lakeevolve.errors import ResolutionError
from lakeevolve.model import path as paths
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Map,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
    is_optional,
    short_name,
    without_null,
)

_RULE_OUT: Final = "mend or delete those rows, or keep the wider type"


class Run:
    """One pass of a node tree over one array.

    Every array that goes in or comes out has the loose canonical layout. ``present`` says which values are there at
    all (None: every one): beneath a null struct, a null means nothing.
    """

    def __init__(self, failures: Failures, *, partial: bool, strict: bool) -> None:
        self.failures = failures
        self.partial = partial
        self.strict = strict

    def node(self, node: Node, array: pa.Array, present: pa.Array | None, rows: Rows, path: str) -> pa.Array:
        if unchanged(node):
            return array
        match node:
            case Keep():
                return array
            case Promote():
                return promote(array, node, rows, path, self.failures)
            case Symbols():
                return self._symbols(node, array, rows, path)
            case Items():
                offsets, values = nested.lists(array)
                read = self.node(node.node, values, None, rows.inside(offsets), paths.items(path))
                return nested.list_like(pa.list_(pa.field("item", read.type)), offsets, read, array)
            case Values():
                offsets, entries = nested.lists(array)
                keys, values = nested.fields(entries)
                read = self.node(node.node, values, None, rows.inside(offsets), paths.values(path))
                target = pa.map_(pa.string(), read.type)
                return nested.list_like(target, offsets, nested.entries(target, keys, read), array)
            case Fields():
                return self._fields(node, array, rows, path)
            case FromUnion():
                return self._from_union(node, array, present, rows, path)
            case ToBranch():
                return self._to_branch(node, array, present, rows, path)
            case Again():
                raise ResolutionError(
                    f"the record {short_name(node.reader)} contains itself, and a recursive type has no table form",
                    where=path or "$",
                    hint="store the part that recurs as bytes or string",
                )
            case Fail():
                raise ResolutionError(
                    "; ".join(i.message for i in node.incompatibilities) or "nothing can be read here",
                    where=path or "$",
                )

    def _symbols(self, node: Symbols, array: pa.Array, rows: Rows, path: str) -> pa.Array:
        symbols = pa.array(node.writer.symbols, pa.string())
        which = pc.index_in(array, value_set=symbols)
        unknown = pc.and_(pc.is_valid(array), pc.is_null(which))
        self.failures.where(
            unknown, rows, path, f"a symbol that {describe(node.writer)} does not have", "mend the data"
        )
        read = pa.array(node.read_as, pa.string()).take(which)
        if None in node.read_as:
            lost = pc.and_(pc.is_valid(which), pc.is_null(read))
            what = f"a symbol that {describe(node.reader)} neither has nor gives a default for"
            self.failures.where(lost, rows, path, what, "give the enum a default, or keep the symbol")
        return read

    def _fields(self, node: Fields, array: pa.Array, rows: Rows, path: str) -> pa.Array:
        children = nested.fields(array)
        present = pc.is_valid(array) if array.null_count else None
        made = []
        for part in node.fields:
            below = paths.child(path, part.field.name)
            if isinstance(part, ReadField):
                made.append(self.node(part.node, children[part.index], present, rows, below))
            else:
                made.append(_filled(part, len(array), present))
        type_ = pa.struct([pa.field(part.field.name, a.type) for part, a in zip(node.fields, made, strict=True)])
        return nested.struct(type_, made, array)

    def _from_union(
        self, node: FromUnion, array: pa.Array, present: pa.Array | None, rows: Rows, path: str
    ) -> pa.Array:
        valid = pc.is_valid(array)
        for branch, how in zip(node.writer.branches, node.branches, strict=True):
            if is_null(branch) and isinstance(how, Fail) and self.partial:
                missing = pc.invert(valid) if present is None else pc.and_(present, pc.invert(valid))
                what = f"a null cannot be read as {describe(node.reader)}"
                self.failures.where(missing, rows, path, what, "give those rows a value, or keep the field nullable")
        hows = [how for branch, how in zip(node.writer.branches, node.branches, strict=True) if not is_null(branch)]
        if node.writer.optional:
            if isinstance(hows[0], Fail):
                return self._lost(node, 0, array, valid, rows, path)
            return self.node(hows[0], array, valid, rows, path)
        children = nested.fields(array)
        chosen = [pc.is_valid(child) for child in children]
        self._one_branch(chosen, valid, rows, path)
        if isinstance(node.reader, Union) and not node.reader.optional:
            return self._to_union(node.reader, node, hows, array, children, chosen, rows, path)
        return _merged(
            [
                self._lost(node, at, child, there, rows, path)
                if isinstance(how, Fail)
                else self.node(how, child, there, rows, path)
                for at, (how, child, there) in enumerate(zip(hows, children, chosen, strict=True))
            ],
        )

    def _to_union(
        self,
        reader: Union,
        node: FromUnion,
        hows: Sequence[Node],
        array: pa.Array,
        children: Sequence[pa.Array],
        chosen: Sequence[pa.Array],
        rows: Rows,
        path: str,
    ) -> pa.Array:
        """Between real unions: each branch of the reader collects the writer's branches that become it."""
        columns: dict[int, list[pa.Array]] = {}
        names = _names(reader)
        for at, (how, child, there) in enumerate(zip(hows, children, chosen, strict=True)):
            if isinstance(how, ToBranch):
                below = paths.branch(path, names[how.index])
                columns.setdefault(how.index, []).append(self.node(how.node, child, there, rows, below))
            else:
                self._lost(node, at, child, there, rows, path)
        return _union(reader, {index: _merged(column) for index, column in columns.items()}, array)

    def _to_branch(self, node: ToBranch, array: pa.Array, present: pa.Array | None, rows: Rows, path: str) -> pa.Array:
        if node.reader.optional:
            return self.node(node.node, array, present, rows, path)
        below = paths.branch(path, _names(node.reader)[node.index])
        read = self.node(node.node, array, present, rows, below)
        return _union(node.reader, {node.index: read}, array)

    def _lost(self, node: FromUnion, at: int, child: pa.Array, chosen: pa.Array, rows: Rows, path: str) -> pa.Array:
        """Values of a branch that the reader does not have."""
        what = f"a value of the branch {describe(node.writer.values[at])} cannot be read as {describe(node.reader)}"
        self.failures.where(chosen, rows, path, what, _RULE_OUT)
        return pa.nulls(len(child), arrow_type(node.reader, strict=False))

    def _one_branch(self, chosen: Sequence[pa.Array], valid: pa.Array, rows: Rows, path: str) -> None:
        counts = chosen[0].cast(pa.int8())
        for more in chosen[1:]:
            counts = pc.add(counts, more.cast(pa.int8()))
        self.failures.where(
            pc.greater(counts, 1), rows, path, "a value of a union has more than one branch", "mend the data"
        )
        if self.strict:
            none = pc.and_(valid, pc.equal(counts, 0))
            self.failures.where(none, rows, path, "a value of a union has no branch", "mend the data")

    def require(self, array: pa.Array, type_: AvroType, present: pa.Array | None, rows: Rows, path: str) -> None:
        """Note what is no value of the type: a null where it allows none, a text that is no symbol."""
        if array.null_count and not nullable(type_):
            missing = pc.is_null(array) if present is None else pc.and_(present, pc.is_null(array))
            self.failures.where(missing, rows, path, f"a null where {describe(type_)} is required", "mend the data")
        inner = without_null(type_)
        match inner:
            case Record():
                there = pc.is_valid(array) if array.null_count else None
                for field, child in zip(inner.fields, nested.fields(array), strict=True):
                    self.require(child, field.type, there, rows, paths.child(path, field.name))
            case Enum():
                foreign = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, pa.array(inner.symbols, pa.string()))))
                self.failures.where(
                    foreign, rows, path, f"a text that is no symbol of {describe(inner)}", "mend the data"
                )
            case Array():
                if _restricts(inner.items):
                    offsets, values = nested.lists(array)
                    self.require(values, inner.items, None, rows.inside(offsets), paths.items(path))
            case Map():
                if _restricts(inner.values):
                    offsets, entries = nested.lists(array)
                    values = nested.fields(entries)[1]
                    self.require(values, inner.values, None, rows.inside(offsets), paths.values(path))
            case Union():
                children = nested.fields(array)
                self._one_branch([pc.is_valid(child) for child in children], pc.is_valid(array), rows, path)
                for name, branch, child in zip(branch_names(inner), inner.values, children, strict=True):
                    self.require(child, branch, pc.is_valid(child), rows, paths.branch(path, name))
            case _:
                pass


def unchanged(node: Node) -> bool:
    """Whether the node leaves every value, name and place as it is."""
    match node:
        case Keep():
            return True
        case Items() | Values():
            return unchanged(node.node)
        case Fields():
            return len(node.fields) == len(node.writer.fields) and all(
                isinstance(part, ReadField)
                and part.index == at
                and part.field.name == node.writer.fields[at].name
                and unchanged(part.node)
                for at, part in enumerate(node.fields)
            )
        case FromUnion():
            # A real union is always looked through: its branches may be renamed, and no value may have two.
            return (
                node.writer.optional
                and is_optional(node.reader)
                and all(
                    isinstance(how, ToBranch) and (how.index == _null_at(how.reader) or unchanged(how.node))
                    for how in node.branches
                )
            )
        case ToBranch():
            return node.reader.optional and unchanged(node.node)
    return False


def _null_at(union: Union) -> int:
    return next((at for at, branch in enumerate(union.branches) if is_null(branch)), -1)


def _restricts(type_: AvroType) -> bool:
    """Whether something in the type is less than what its column can hold: all but a nullable leaf is."""
    return not nullable(type_) or isinstance(without_null(type_), (Record, Array, Map, Union, Enum))


def _names(union: Union) -> dict[int, str]:
    """The name of each non-null branch by its index in the union."""
    indexes = [at for at, branch in enumerate(union.branches) if not is_null(branch)]
    return dict(zip(indexes, branch_names(union), strict=True))


def _union(reader: Union, columns: dict[int, pa.Array], like: pa.Array) -> pa.Array:
    """A struct of the reader's branches, null in those that have no column."""
    type_ = arrow_type(reader, strict=False)
    indexes = list(_names(reader))
    children = [
        columns[at] if at in columns else pa.nulls(len(like), field.type)
        for at, field in zip(indexes, type_, strict=True)
    ]
    return nested.struct(type_, children, like)


def _merged(columns: Sequence[pa.Array]) -> pa.Array:
    """The one value that is not null of each row."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


def _filled(part: FillField, length: int, present: pa.Array | None) -> pa.Array:
    type_ = arrow_type(part.field.type, strict=False)
    if part.null:
        return pa.nulls(length, type_)
    one = pa.array([default_value(part.field.type, part.value)], type_)
    if present is None and not pa.types.is_nested(type_):
        return pa.repeat(one[0], length)
    zeros = pa.repeat(pa.scalar(0, pa.int8()), length)
    if present is not None:
        zeros = pc.if_else(present, zeros, pa.scalar(None, pa.int8()))
    return one.take(zeros)
