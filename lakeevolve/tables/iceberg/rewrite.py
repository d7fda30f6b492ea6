"""Which live files a set of changes makes anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import ListType, MapType, NestedField, StructType

from lakeevolve.avro.arrow import nested
from lakeevolve.model import path as paths
from lakeevolve.model.change import Change, DropBranch, DropSymbol, MakeRequired, RenameField
from lakeevolve.model.types import Union as AvroUnion
from lakeevolve.model.types import branch_names
from lakeevolve.tables.base import DataFile, Route
from lakeevolve.tables.iceberg.locate import locate, subtree
from lakeevolve.tables.iceberg.raw import footer_ids, opened_batches
from lakeevolve.tables.iceberg.shape import Reading

_Test = Callable[[pa.Array], bool]


def files_to_rewrite(
    routed: Sequence[tuple[Change, Route]], files: Sequence[DataFile], table: IcebergTable
) -> tuple[DataFile, ...]:
    """Of the live files, those that have to be written anew.

    A new type or a backfilled column concerns every file. A symbol that goes, and a branch whose values become
    another's, concern the files that hold it; for these, that one column is read. A column that becomes required
    concerns files without it: readers refuse them even where no live row is left.
    """
    renames = {change.new_path: paths.leaf(change.path) for change, _ in routed if isinstance(change, RenameField)}
    tests: list[tuple[NestedField, _Test]] = []
    for change, route in routed:
        if route not in ("rewrite", "backfill"):
            continue
        found = _held(change, renames, table)
        if found is None:
            return tuple(files)
        tests.append(found)
    required = [
        column
        for change, _ in routed
        if isinstance(change, MakeRequired)
        for column in [locate(table.schema(), None, _before(change.path, renames))]
        if column is not None
    ]
    return tuple(
        file
        for file in files
        if any(_holds(table, file, column, test) for column, test in tests)
        or (required and _lacks(table, file, required))
    )


def _held(change: Change, renames: Mapping[str, str], table: IcebergTable) -> tuple[NestedField, _Test] | None:
    """The column that tells whether a file is concerned, and how; None where every file is."""
    if isinstance(change, DropSymbol):
        column = locate(table.schema(), None, _before(change.path, renames))
        symbol = change.symbol
        return (column, lambda array: bool(pc.any(pc.equal(array, symbol)).as_py())) if column is not None else None
    if isinstance(change, DropBranch):
        name = branch_names(AvroUnion((change.branch,)))[0]
        column = locate(table.schema(), None, paths.branch(_before(change.path, renames), name))
        return (column, lambda array: array.null_count < len(array)) if column is not None else None
    return None


def _before(path: str, renames: Mapping[str, str]) -> str:
    """The path in the table as it is now of a change's path."""
    if not path:
        return path
    name = renames.get(path, paths.leaf(path))
    return paths.join((*paths.parts(_before(paths.parent(path), renames)), name))


def _holds(table: IcebergTable, file: DataFile, column: NestedField, test: _Test) -> bool:
    top = next(each for each in table.schema().columns if column.field_id in subtree(each))
    for fields, arrays, length in opened_batches(table.io, file.handle, table.name_mapping(), top.field_id):
        array = Reading(fields, file.path).column(arrays, length, top, None, paths.child("", top.name))
        if any(test(part) for part in _parts(array, top, column.field_id)):
            return True
    return False


def _parts(array: pa.Array, column: NestedField, number: int) -> list[pa.Array]:
    """The values of the column with this id within an array of an enclosing one."""
    if column.field_id == number:
        return [array]
    match column.field_type:
        case StructType() as struct:
            inside = list(zip(nested.fields(array), struct.fields, strict=True))
        case ListType() as list_:
            inside = [(nested.lists(array)[1], list_.element_field)]
        case MapType() as map_:
            inside = [(nested.fields(nested.lists(array)[1])[1], map_.value_field)]
        case _:
            return []
    return [found for part, inner in inside for found in _parts(part, inner, number)]


def _lacks(table: IcebergTable, file: DataFile, columns: Sequence[NestedField]) -> bool:
    held = footer_ids(table.io, file.path, table.name_mapping())
    parents = table.schema()._lazy_id_to_parent
    return any(
        column.field_id not in held and parents.get(column.field_id, None) in (None, *held) for column in columns
    )
