"""Taking nested Arrow arrays apart and putting them together again, whatever their offsets, slices and nulls.

Arrow lets a null list or struct have anything beneath it. What is taken apart here never shows such leftovers: they
are values of no row.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def fields(array: pa.StructArray) -> list[pa.Array]:
    """The children of a struct array, null where the struct is null."""
    if array.type.num_fields == 0:
        return []
    children: list[pa.Array] = array.flatten()
    return children


def struct(type_: pa.DataType, children: Sequence[pa.Array], like: pa.Array) -> pa.StructArray:
    """A struct array with the length and the nulls of *like*."""
    return pa.Array.from_buffers(type_, len(like), [validity(like)], like.null_count, children=list(children))


def lists(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The offsets (int64, one more than there are lists, beginning with 0) and the values of a list-like array.

    Of a map, the values are structs of key and value. A null list has the length 0 and no values.
    """
    if pa.types.is_map(array.type):
        # Not by keys and items, which pass over an offset of the entries. A cast to fields that allow no null fails
        # where such a field stands beneath a null.
        entry = pa.struct([("key", _loose(array.type.key_type)), ("value", _loose(array.type.item_type))])
        array = array.cast(pa.list_(entry))
    lengths = pc.fill_null(pc.list_value_length(array).cast(pa.int64()), 0)
    zero = pa.array([0], pa.int64())
    offsets = pa.concat_arrays([zero, pc.cumulative_sum(lengths)]) if len(lengths) else zero
    return offsets, array.flatten()


def _loose(type_: pa.DataType) -> pa.DataType:
    """The type with every field nullable."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _loose(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_loose(type_.key_type), _loose(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(_loose(type_.value_type))
    if pa.types.is_large_list(type_):
        return pa.large_list(_loose(type_.value_type))
    return type_


def list_like(type_: pa.DataType, offsets: pa.Array, values: pa.Array, like: pa.Array) -> pa.Array:
    """A list, large_list or map array with the nulls of *like*; of a map, *values* are structs of key and value."""
    wide = offsets if pa.types.is_large_list(type_) else offsets.cast(pa.int32())
    buffers = [validity(like), wide.buffers()[1]]
    return pa.Array.from_buffers(type_, len(like), buffers, like.null_count, children=[values])


def entries(type_: pa.MapType, keys: pa.Array, values: pa.Array) -> pa.StructArray:
    """The structs of key and value that a map of this type consists of."""
    return pa.Array.from_buffers(
        pa.struct([type_.key_field, type_.item_field]), len(keys), [None], 0, children=[keys, values]
    )


def validity(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap, shifted to begin at bit 0; None where there is no null."""
    if array.null_count == 0:
        return None
    bits = pc.is_valid(array)
    if bits.offset:  # is_valid may hand out a view of the bitmap it was given
        bits = pc.invert(pc.invert(bits))
    return bits.buffers()[1]
