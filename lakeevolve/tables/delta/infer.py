"""Questions that only the data files answer: which version an old file is of, and whether a symbol is in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakeevolve.model import path as paths
from lakeevolve.model.find import find_field
from lakeevolve.model.origin import base_path
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import Version
from lakeevolve.tables.delta.history import View
from lakeevolve.tables.delta.log import Metadata
from lakeevolve.tables.delta.project import restrict
from lakeevolve.tables.delta.types import DeltaType, ListOf, MapOf, Struct

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeevolve.tables.delta.table import Table


def infer_version(view: View, footer: pa.Schema, oldest: int, metadata: Metadata) -> int:
    """The version that a file was written for, when the log no longer says which commit added it.

    Of the versions in force when the log began, the one whose columns are most like the file's; the newest of equals.
    """
    import pyarrow as pa

    have = frozenset(_arrow_leaves(pa.struct(list(footer)), ()))
    partition = metadata.partition_physical
    best, distance = 1, -1
    for version in view.versions:
        if version.commit is not None and version.commit > oldest:
            break
        owned = restrict(view.struct(version.number), version.schema.root, "")
        expected = {leaf for leaf in _leaves(owned, ()) if leaf[0] not in partition}
        found = len(have ^ expected)
        if distance < 0 or found <= distance:
            best, distance = version.number, found
    return best


def _leaves(type_: DeltaType, at: tuple[str, ...]) -> list[tuple[str, ...]]:
    match type_:
        case Struct():
            return [leaf for c in type_.columns for leaf in _leaves(c.type, (*at, c.physical))]
        case ListOf():
            return _leaves(type_.element, (*at, paths.ITEMS))
        case MapOf():
            return _leaves(type_.value, (*at, paths.VALUES))
    return [at]


def _arrow_leaves(type_: pa.DataType, at: tuple[str, ...]) -> list[tuple[str, ...]]:
    import pyarrow as pa

    if pa.types.is_struct(type_):
        return [leaf for f in type_ for leaf in _arrow_leaves(f.type, (*at, f.name))]
    if pa.types.is_map(type_):
        return _arrow_leaves(type_.item_type, (*at, paths.VALUES))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _arrow_leaves(type_.value_type, (*at, paths.ITEMS))
    return [at]


def uses_symbol(table: Table, path: str | None, symbol: str, hint: Schema) -> bool:
    """Whether any live row holds the symbol at a path of the newest version; None stands for a path it lacks."""
    places = dict(_places(table.history(hint), path))
    for file in table.files(hint=hint):
        place = places.get(file.version)
        if place is not None:
            top, *rest = paths.parts(place)
            if any(_holds(array, tuple(rest), symbol) for array in table.column(file, top, hint)):
                return True
    return False


def holds_column(table: Table, record: str | None, name: str, hint: Schema) -> bool:
    """Whether a live file was written when the table had an earlier column of that name in a record, which goes by a
    path of the newest version; None stands for a record that it lacks."""
    versions = table.history(hint)
    had = [
        number
        for number, place in _places(versions, record)
        if number < versions[-1].number
        and find_field(versions[number - 1].schema.root, paths.child(place, name)) is not None
    ]
    return bool(had) and any(file.version <= max(had) for file in table.files(hint=hint))


def _places(versions: Sequence[Version], path: str | None) -> Iterator[tuple[int, str]]:
    """Where what stands at a path of the newest version stood at each version that had it, the newest first."""
    for at in range(len(versions) - 1, -1, -1):
        if path is None:
            return
        yield versions[at].number, path
        if at:
            old, new = versions[at - 1], versions[at]
            path = base_path(path, old.schema.root, new.schema.root, new.renames, fresh=new.fresh)


def _holds(array: pa.Array, parts: tuple[str, ...], symbol: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    from lakeevolve.avro.arrow import nested

    for part in parts:
        if part == paths.ITEMS:
            array = nested.lists(array)[1]
        elif part == paths.VALUES:
            array = nested.fields(nested.lists(array)[1])[1]
        else:
            index = array.type.get_field_index(part[1:-1] if part.startswith("<") else part)
            if index < 0:
                return False  # a file of a version that had no such field yet
            array = nested.fields(array)[index]
    if not pa.types.is_string(array.type):
        return False
    return bool(pc.any(pc.equal(array, symbol)).as_py())
