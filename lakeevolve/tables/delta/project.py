"""Choosing, naming and ordering columns at every depth: from a data file or a scan to the shape that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from lakeevolve.errors import TableError
from lakeevolve.model import path as paths
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names, without_null
from lakeevolve.tables.delta.types import Column, DeltaType, ListOf, MapOf, Struct, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

#: How a column is found: by the name in the data file, by the number in its footer, or by its own name.
By = Literal["physical", "id", "name"]

_FIELD_ID = b"PARQUET:field_id"


def restrict(type_: DeltaType, avro: AvroType, where: str) -> DeltaType:
    """The part of a Delta type that an Avro type owns, in the Avro type's order.

    Raises ``TableError`` where the Avro type has a field that the Delta type lacks.
    """
    return _restrict(type_, avro, paths.ROOT, where)


def _restrict(type_: DeltaType, avro: AvroType, path: str, where: str) -> DeltaType:
    bare = without_null(avro)
    match type_, bare:
        case Struct(), Record():
            members = [(f.name, f.type, paths.child(path, f.name)) for f in bare.fields]
        case Struct(), Union():
            names = zip(branch_names(bare), bare.values, strict=True)
            members = [(name, branch, paths.branch(path, name)) for name, branch in names]
        case ListOf(), Array():
            return replace(type_, element=_restrict(type_.element, bare.items, paths.items(path), where))
        case MapOf(), Map():
            return replace(type_, value=_restrict(type_.value, bare.values, paths.values(path), where))
        case _:
            return type_
    columns = []
    for name, member, here in members:
        column = type_.column(name)
        if column is None:
            raise TableError(
                "the schema has a field that the table has no column for",
                where=f"{where}, {here}",
                hint="another tool changed the table after its marker was written: plan against it anew",
            )
        columns.append(replace(column, type=_restrict(column.type, member, here, where)))
    return Struct(tuple(columns))


def align(array: pa.Array, type_: DeltaType, by: By, field: pa.Field | None = None) -> pa.Array:
    """The array with the columns of a Delta type: renamed, reordered, and null where the array has none.

    ``field`` is the array's own field, whose metadata holds the numbers that ``by="id"`` goes by.
    """
    import pyarrow as pa

    from lakeevolve.avro.arrow import nested

    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    match type_:
        case Struct() if pa.types.is_struct(array.type):
            have = list(array.type)
            children = nested.fields(array)
            place = positions(type_, have, by)
            made = [
                pa.nulls(len(array), arrow_type(column.type))
                if at is None
                else align(children[at], column.type, by, have[at])
                for column, at in ((c, place[c.name]) for c in type_.columns)
            ]
            struct = pa.struct([pa.field(c.name, m.type) for c, m in zip(type_.columns, made, strict=True)])
            return nested.struct(struct, made, array)
        case ListOf() if _is_list(array.type):
            if _leaf(type_.element):
                return array
            offsets, values = nested.lists(array)
            values = align(values, type_.element, by, array.type.value_field)
            return nested.list_like(pa.list_(pa.field("element", values.type)), offsets, values, array)
        case MapOf() if pa.types.is_map(array.type):
            if _leaf(type_.value) and _leaf(type_.key):
                return array
            offsets, entries = nested.lists(array)
            keys, values = nested.fields(entries)
            keys = align(keys, type_.key, by, array.type.key_field)
            values = align(values, type_.value, by, array.type.item_field)
            target = pa.map_(keys.type, pa.field("value", values.type))
            return nested.list_like(target, offsets, nested.entries(target, keys, values), array)
        case "timestamp" if pa.types.is_timestamp(array.type) and array.type.tz is None:
            # INT96 and files of old writers: the protocol says that a timestamp counts from the epoch in UTC.
            return array.cast(pa.timestamp(array.type.unit, tz="UTC"))
    return array


def positions(struct: Struct, have: list[pa.Field], by: By) -> Mapping[str, int | None]:
    """For each column, the index of the field that holds it; None where there is none."""
    if by == "id":
        numbered = {int(f.metadata[_FIELD_ID]): i for i, f in enumerate(have) if f.metadata and _FIELD_ID in f.metadata}
        if numbered:
            return {c.name: numbered.get(c.id) if c.id is not None else None for c in struct.columns}
    named = {f.name: i for i, f in enumerate(have)}
    return {c.name: named.get(c.name if by == "name" else c.physical) for c in struct.columns}


def canonical(array: pa.Array, column: Column, avro: AvroType | None, path: str, where: str) -> pa.Array:
    """An aligned array in the layout that rows travel in: canonical for a field, the table's own for a foreign column.

    Raises ``TableError`` where the data is not of the type that the schema says.
    """
    import pyarrow as pa

    from lakeevolve.tables.layout import to_canonical, to_layout

    if avro is not None:
        try:
            return to_canonical(array, avro)
        except TableError as error:
            inner = paths.parts(error.where) if error.where and error.where != "$" else ()
            at = paths.join(paths.parts(path) + inner)
            raise TableError(error.what, where=f"{where}, {at}", hint=error.hint) from error
    target = loose(arrow_type(column.type, column.name))
    if array.type == target:
        return array
    if pa.types.is_null(target):
        return pa.nulls(len(array))
    return to_layout(array, target)


def loose(type_: pa.DataType) -> pa.DataType:
    """The type with every field nullable."""
    import pyarrow as pa

    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, loose(f.type)) for f in type_])
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", loose(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(pa.field("key", loose(type_.key_type), False), pa.field("value", loose(type_.item_type)))
    return type_


def _leaf(type_: DeltaType) -> bool:
    return isinstance(type_, str) and type_ != "timestamp"


def _is_list(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )
