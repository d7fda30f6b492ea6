"""What has to be true of the live rows before a step may run, checked on the raw files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro import nodes
from lakeevolve.avro.arrow import execute
from lakeevolve.avro.arrow.promote import misfits
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import PlanError, ResolutionError, TableError, ValueMismatch
from lakeevolve.model import path as paths
from lakeevolve.model import types as avro
from lakeevolve.model.change import Change, ChangeLogicalType, DropBranch, DropSymbol, PromoteType, ReplaceType
from lakeevolve.model.schema import Schema
from lakeevolve.redaction import public_path
from lakeevolve.replaying import canonical
from lakeevolve.replaying.compare import owners
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.sides import (
    RAW_READER,
    Job,
    Unreadable,
    expected_rows,
)
from lakeevolve.tables.assumed import Assumption, assumptions, by_precondition
from lakeevolve.tables.base import DataFile, Fill, Precondition, Table

#: RFC 9562 text, in either case.
_UUID: Final = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
#: Microseconds of a day.
_DAY: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Broken:
    """A precondition that the data does not meet.

    ``path`` is the column as it is called now. ``rows`` counts the rows that stand against it, ``file`` and ``row``
    (zero-based among the file's live rows) are the first of them.
    """

    change: Change | None
    precondition: Precondition
    path: str
    rows: int
    file: str
    row: int

    @property
    def message(self) -> str:
        """What stands against the step, with its path."""
        return f"{self.path or '$'} {self.told}"

    @property
    def told(self) -> str:
        """What stands against the step, without its path."""
        counted = "1 row" if self.rows == 1 else f"{self.rows} rows"
        match self.precondition:
            case "no-nulls":
                return f"is null in {counted}"
            case "symbol-unused":
                symbol = self.change.symbol if isinstance(self.change, DropSymbol) else ""
                return f"holds the symbol {symbol} in {counted}"
            case "branch-unused":
                return f"holds the branch {_branch_name(self.change)} in {counted}"
            case "symbols-known":
                return f"holds a text that is no symbol of its enum in {counted}"
            case "values-valid":
                return f"holds a value that its logical type does not have in {counted}"
            case "resolves":
                return f"holds a value that does not resolve in {counted}"

    @property
    def way_out(self) -> str:
        """What the owner can do about it."""
        match self.precondition:
            case "no-nulls":
                return 'make the field nullable in the schema (["null", ...]), or repair the rows'
            case "symbol-unused" | "branch-unused":
                return "keep it in the schema, or repair the rows"
            case "symbols-known":
                return "add the symbols to the enum, make the field a string, or repair the rows"
            case "values-valid":
                way = "take the logical type off the field, or repair the rows"
                if isinstance(self.change, ChangeLogicalType | PromoteType | ReplaceType) and _is_uuid(self.change.new):
                    way += "; UUIDs are in lower case"
                return way
            case "resolves":
                return "keep the wider type, or repair the rows"

    @property
    def where(self) -> str:
        """The first row that stands against the step."""
        return f"{public_path(self.file)}, row {self.row}"

    def to_json(self) -> dict[str, Any]:
        return {
            "change": None if self.change is None else type(self.change).__name__,
            "precondition": self.precondition,
            "path": self.path,
            "rows": self.rows,
            "file": public_path(self.file),
            "row": self.row,
        }


@dataclass(slots=True)
class _Check:
    change: Change | None
    precondition: Precondition
    path: str
    mask: Callable[[pa.RecordBatch, int], pa.Array]
    rows: int = 0
    first: tuple[str, int] | None = None


def check_preconditions(
    table: Table,
    checks: Sequence[tuple[Change | None, Precondition]],
    files: Sequence[DataFile] | None = None,
    *,
    target: Schema | None = None,
    hint: Schema | None = None,
    renames: Mapping[str, str] | None = None,
    fills: Mapping[str, Fill] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Broken, ...]:
    """Check what changes demand of the live rows, in one reading of the raw files.

    Parameters
    ----------
    table:
        The table as it is.
    checks:
        Changes with their preconditions. Their paths are those of *target*. A check without a change is one of what
        the table is taken for (:func:`lakeevolve.tables.assumed.assumptions`): it asks at every such place.
    files:
        The live files; by default those that the table lists now.
    target:
        The schema that the changes lead to; by default the hint, else the table's own schema.
    hint:
        The schema that columns of a table without a marker take their Avro types from.
    renames:
        Approved renames, new path to old path, besides the target's aliases.
    fills:
        What old rows read in added fields, by path.
    progress:
        Called with the number of files done and of files in all.

    Returns
    -------
    tuple of Broken
        Those that the data does not meet; empty where all are met.

    Raises
    ------
    PlanError
        Where a path is not in the table, so that nothing could be checked.
    TableError
        Where a live file cannot be read.

    Examples
    --------
    >>> check_preconditions(table, [(MakeRequired("note", True), "no-nulls")])  # doctest: +SKIP
    ()
    """
    folds = Folds(table.history(hint))
    base = folds.newest.schema
    goal = target or hint or base
    resolution = resolve(base, goal, renames=renames or {}, fills=fills or {})
    taken = by_precondition(assumptions(table.derived(), base)) if any(change is None for change, _ in checks) else {}
    found = [
        check
        for change, precondition in checks
        for check in (
            [_check(change, precondition, base, resolution, fills or {})]
            if change is not None
            else _assumed(precondition, taken.get(precondition, ()), base)
        )
    ]
    if not found:
        return ()
    job = Job(folds, lambda file: table.raw(file, hint), table.read, RAW_READER, True, table.foreign)
    live = table.files(hint=hint) if files is None else files
    for done, file in enumerate(live, 1):
        offset = 0
        try:
            for rows in expected_rows(job, file):
                for check in found:
                    _take(check, rows.batch, file.path, offset)
                offset += rows.batch.num_rows
        except Unreadable as error:
            raise TableError(
                error.mismatch.reason, where=file.path, hint="lakeevolve verify names every file that is damaged"
            ) from error
        if progress is not None:
            progress(done, len(live))
    return tuple(
        Broken(check.change, check.precondition, check.path, check.rows, *check.first)
        for check in found
        if check.first is not None
    )


def _take(check: _Check, batch: pa.RecordBatch, file: str, offset: int) -> None:
    rows = check.mask(batch, offset)
    if len(rows):
        check.rows += len(rows)
        if check.first is None:
            check.first = (file, offset + rows[0].as_py())


def _assumed(precondition: Precondition, places: Sequence[Assumption], base: Schema) -> Iterator[_Check]:
    for place in places:
        type_ = avro.without_null(type_at(base.root, place.path))
        yield _Check(None, precondition, place.path, _where(place.path, base, _unfit(precondition, type_)))


def _where(
    path: str, base: Schema, unwanted: Callable[[pa.Array], pa.Array]
) -> Callable[[pa.RecordBatch, int], pa.Array]:
    def mask(batch: pa.RecordBatch, _offset: int) -> pa.Array:
        rows, values = reach(batch, path, base)
        return pc.unique(rows.filter(unwanted(values)))

    return mask


def _unfit(precondition: Precondition, type_: avro.AvroType) -> Callable[[pa.Array], pa.Array]:
    """Which values the type does not have that a table is taken to hold."""
    if precondition == "no-nulls":
        return lambda values: values.is_null()
    if isinstance(type_, avro.Enum):
        symbols = pa.array(type_.symbols, pa.string())
        return lambda values: pc.and_(values.is_valid(), pc.invert(pc.is_in(values, value_set=symbols)))
    if _is_uuid(type_):
        return lambda values: pc.fill_null(pc.invert(pc.match_substring_regex(values, _UUID)), False)
    return _no_time


def _outside(values: pa.Array, type_: avro.AvroType) -> pa.Array:
    """Which plain texts are no UUID, and which plain numbers are no time of day."""
    logical = type_.logical.name if isinstance(type_, avro.Primitive) and type_.logical is not None else ""
    if logical.startswith("time-") and pa.types.is_integer(values.type):
        end = _DAY if logical == "time-micros" else _DAY // 1000
        return pc.fill_null(pc.or_(pc.less(values, 0), pc.greater_equal(values, end)), False)
    if logical == "uuid" and pa.types.is_string(values.type):
        # Iceberg has the number alone and gives it back in lower case, and a change alters no value in any format.
        return pc.fill_null(pc.invert(pc.match_substring_regex(values, _UUID.replace("A-F", ""))), False)
    return pa.repeat(False, len(values))


def _is_uuid(type_: avro.AvroType) -> bool:
    bare = avro.without_null(type_)
    return isinstance(bare, avro.Primitive) and bare.logical is not None and bare.logical.name == "uuid"


def _no_time(values: pa.Array) -> pa.Array:
    micros = values.cast(pa.time64("us")).cast(pa.int64())
    return pc.fill_null(pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY)), False)


def _check(
    change: Change, precondition: Precondition, base: Schema, resolution: Resolution, fills: Mapping[str, Fill]
) -> _Check:
    narrows = isinstance(change, ReplaceType | ChangeLogicalType) and fills.get(change.path) == "narrow"
    if precondition == "resolves" and not narrows:
        return _Check(change, precondition, change.path, _resolves(resolution))
    path = base_path(resolution, change.path)
    if path is None:
        raise PlanError(
            f"{change.path or '$'} is no column of the table, so the data cannot be checked for this step",
            hint="plan again; an approved rename has to be named",
        )
    type_ = type_at(base.root, path)

    def unwanted(values: pa.Array) -> pa.Array:
        match precondition:
            case "resolves" if isinstance(change, ReplaceType | ChangeLogicalType):
                return misfits(values, avro.without_null(change.old), avro.without_null(change.new))
            case "no-nulls":
                return values.is_null()
            case "symbol-unused" if isinstance(change, DropSymbol):
                return pc.fill_null(pc.equal(values, pa.scalar(change.symbol)), False)
            case "branch-unused" if isinstance(change, DropBranch):
                return _in_branch(values, change, type_)
            case "values-valid" if isinstance(change, ChangeLogicalType | PromoteType | ReplaceType):
                return _outside(values, avro.without_null(change.new))
        raise PlanError(f"the precondition {precondition} does not fit {type(change).__name__}", where=change.path)

    return _Check(change, precondition, path, _where(path, base, unwanted))


def _resolves(resolution: Resolution) -> Callable[[pa.RecordBatch, int], pa.Array]:
    wrong = [i for i in resolution.incompatibilities if not i.value_level]
    if wrong:
        raise ResolutionError(wrong[0].message, where=wrong[0].path or "$", hint="plan again")

    names = [f.name for f in resolution.writer.record.fields]

    def mask(batch: pa.RecordBatch, _offset: int) -> pa.Array:
        found = []
        start = 0
        rows = batch.select(names)
        # The execution stops at the first row that offends: go on behind it.
        while start < rows.num_rows:
            try:
                execute(resolution, rows.slice(start), partial=True)
                break
            except ValueMismatch as error:
                found.append(start + error.row)
                start += error.row + 1
        return pa.array(found, pa.int64())

    return mask


def _in_branch(values: pa.Array, change: DropBranch, type_: avro.AvroType) -> pa.Array:
    if avro.is_null(change.branch):
        return values.is_null()
    plain = avro.without_null(type_)
    if not isinstance(plain, avro.Union):
        # The other branch of ["null", T]: every value that is there.
        return values.is_valid()
    name = _branch_name(change)
    for field_name, branch in zip(avro.branch_names(plain), plain.values, strict=True):
        if branch == change.branch or field_name == name:
            return dict(canonical.child_fields(values))[field_name].is_valid()
    raise PlanError(f"the union has no branch {name}", where=change.path, hint="plan again")


def _branch_name(change: Change | None) -> str:
    if not isinstance(change, DropBranch):
        return ""
    if avro.is_null(change.branch):
        return "null"
    return avro.branch_names(avro.Union((change.branch,)))[0]


def reach(batch: pa.RecordBatch, path: str, schema: Schema) -> tuple[pa.Array, pa.Array]:
    """The values at a path wherever what holds them is there, with the number of the row that each belongs to."""
    rows = canonical.counting(batch.num_rows)
    segments = paths.parts(path)
    if not segments:
        return rows, pa.StructArray.from_arrays(batch.columns, names=batch.schema.names)
    array = batch.column(segments[0])
    type_ = _field(schema.root, segments[0])
    for segment in segments[1:]:
        if array.null_count:
            there = array.is_valid()
            rows, array = rows.filter(there), array.filter(there)
        plain = avro.without_null(type_)
        if isinstance(plain, avro.Array | avro.Map):
            items = canonical.items_of(array)
            rows = rows.take(owners(canonical.lengths_of(array), len(items)))
            is_map = isinstance(plain, avro.Map)
            array = dict(canonical.child_fields(items))["value"] if is_map else items
        else:
            name = segment[1:-1] if isinstance(plain, avro.Union) else segment
            array = dict(canonical.child_fields(array))[name]
            if isinstance(plain, avro.Union):
                # The branches that a value is not of are null and hold nothing.
                there = array.is_valid()
                rows, array = rows.filter(there), array.filter(there)
        type_ = _below(plain, segment)
    return rows, array


def type_at(root: avro.AvroType, path: str) -> avro.AvroType:
    """The type at a path of a schema."""
    type_ = root
    for segment in paths.parts(path):
        type_ = _below(avro.without_null(type_), segment)
    return type_


def _below(type_: avro.AvroType, segment: str) -> avro.AvroType:
    match type_:
        case avro.Record():
            return _field(type_, segment)
        case avro.Array():
            return type_.items
        case avro.Map():
            return type_.values
        case avro.Union():
            return dict(zip(avro.branch_names(type_), type_.values, strict=True))[segment[1:-1]]
    raise PlanError(f"there is nothing beneath {avro.describe(type_)}", where=segment)


def _field(type_: avro.AvroType, name: str) -> avro.AvroType:
    found = type_.field(name) if isinstance(type_, avro.Record) else None
    if found is None:
        raise PlanError("the table has no such column", where=name)
    return found.type


def base_path(resolution: Resolution, path: str) -> str | None:
    """The writer's path of what stands at a reader's path; None where it is new."""
    segments = paths.parts(path)
    node: nodes.Node = resolution.root
    found: list[str] = []
    for segment in segments:
        node = _entered(_through(node), found)
        match node:
            case nodes.Fields():
                part = next((p for p in node.fields if p.field.name == segment), None)
                if not isinstance(part, nodes.ReadField):
                    return None
                found.append(node.writer.fields[part.index].name)
                node = part.node
            case nodes.Items() | nodes.Values():
                found.append(segment)
                node = node.node
            case nodes.FromUnion():
                inner = _branch(node, segment)
                if inner is None:
                    return None
                name, node = inner
                found.append(f"<{name}>")
            case nodes.ToBranch() if segment.startswith("<"):
                if not _is_branch(node, segment):
                    return None
                node = node.node
            case _:
                # Beneath here nothing is renamed: the rest stands as it is.
                found.append(segment)
    _entered(_through(node), found)
    return paths.join(tuple(found))


def _entered(node: nodes.Node, found: list[str]) -> nodes.Node:
    """The node of the branch that a union became, which is put to the path; any other node as it is."""
    if not isinstance(node, nodes.FromUnion) or (isinstance(node.reader, avro.Union) and not node.reader.optional):
        return node
    taken = next((pair for pair in _named(node) if not isinstance(pair[1], nodes.Fail)), None)
    if taken is None:
        return node
    found.append(f"<{taken[0]}>")
    return _through(taken[1])


def _branch(union: nodes.FromUnion, segment: str) -> tuple[str, nodes.Node] | None:
    """The writer's branch that the reader's goes by, with its name: by the reader's name, else by the writer's."""
    for name, node in _named(union):
        if isinstance(node, nodes.ToBranch) and _is_branch(node, segment):
            return name, node.node
    return next(((name, node) for name, node in _named(union) if f"<{name}>" == segment), None)


def _named(union: nodes.FromUnion) -> list[tuple[str, nodes.Node]]:
    """The nodes of a union's branches other than null, with their names in the writer."""
    kept = [n for n, t in zip(union.branches, union.writer.branches, strict=True) if not avro.is_null(t)]
    return list(zip(avro.branch_names(union.writer), kept, strict=True))


def _is_branch(node: nodes.ToBranch, segment: str) -> bool:
    branch = node.reader.branches[node.index]
    names = dict(zip(map(id, node.reader.values), avro.branch_names(node.reader), strict=True))
    return segment == f"<{names.get(id(branch))}>"


def _through(node: nodes.Node) -> nodes.Node:
    """The node of the value itself behind ``["null", T]`` on either side."""
    while True:
        match node:
            case nodes.ToBranch() if node.reader.optional:
                node = node.node
            case nodes.FromUnion() if node.writer.optional:
                rest = [b for b, t in zip(node.branches, node.writer.branches, strict=True) if not avro.is_null(t)]
                node = rest[0]
            case _:
                return node
