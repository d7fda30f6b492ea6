"""One form for rows that mean the same.

*Normalising* takes away what is representation only: ``large_`` and view and dictionary kinds, the spelling of UTC,
the names of list items and map entries, nullability, extension wrappers, field metadata. It never touches a value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.errors import UnsupportedTable

MAP_ENTRY: Final = ("key", "value")


# --- normalising --------------------------------------------------------------------------------------------------


def normal_type(type_: pa.DataType) -> pa.DataType:
    """The type without what is representation only.

    Raises ``UnsupportedTable`` for a type that rows cannot be compared in (Arrow unions, intervals).

    >>> import pyarrow as pa
    >>> str(normal_type(pa.large_list(pa.field("element", pa.large_string(), nullable=False))))
    'list<item: string>'
    """
    t = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return normal_type(type_.storage_type)
    if t.is_dictionary(type_):
        return normal_type(type_.value_type)
    if t.is_run_end_encoded(type_):
        return normal_type(type_.value_type)
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_):
        return pa.binary()
    if t.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if t.is_map(type_):
        return pa.map_(normal_type(type_.key_type), normal_type(type_.item_type))
    if (
        t.is_list(type_)
        or t.is_large_list(type_)
        or t.is_fixed_size_list(type_)
        or t.is_list_view(type_)
        or t.is_large_list_view(type_)
    ):
        return pa.list_(normal_type(type_.value_type))
    if t.is_struct(type_):
        return pa.struct([pa.field(f.name, normal_type(f.type)) for f in type_])
    if t.is_union(type_) or t.is_interval(type_):
        raise UnsupportedTable(
            f"rows cannot be compared in the Arrow type {type_}", hint="leave the column out of the table's reads"
        )
    return type_


def normalise_array(array: pa.Array) -> pa.Array:
    """The array in its :func:`normal_type`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        return normalise_array(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return normalise_array(pc.run_end_decode(array))
    target = normal_type(array.type)
    if array.type.equals(target):
        return array
    if _nested_wrapper(array.type):
        return _rebuild(array)
    return array.cast(target)


def normalise(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with every column in its normal type, nullable and without metadata."""
    if _is_normal(batch.schema):
        return batch
    columns = [normalise_array(column) for column in batch.columns]
    fields = [pa.field(name, column.type) for name, column in zip(batch.schema.names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)) if fields else batch


@functools.lru_cache(maxsize=256)
def _is_normal(schema: pa.Schema) -> bool:
    return schema.metadata is None and all(
        field.nullable and field.metadata is None and field.type.equals(normal_type(field.type)) for field in schema
    )


def _nested_wrapper(type_: pa.DataType) -> bool:
    """Whether the type holds one that Arrow cannot cast where it stands, or not soundly."""
    t = pa.types
    if isinstance(type_, pa.BaseExtensionType) or t.is_run_end_encoded(type_):
        return True
    if t.is_list_view(type_) or t.is_large_list_view(type_):
        # pyarrow 26 casts these to lists whose offsets lack their last entry.
        return True
    if pa.types.is_dictionary(type_):
        return pa.types.is_nested(type_.value_type) or isinstance(type_.value_type, pa.BaseExtensionType)
    return any(_nested_wrapper(type_.field(i).type) for i in range(type_.num_fields))


def _rebuild(array: pa.Array) -> pa.Array:
    t = pa.types
    if t.is_dictionary(array.type):
        return normalise_array(array.dictionary.take(array.indices))
    if t.is_struct(array.type):
        fields = [normalise_array(child) for child in array.flatten()]
        names = [pa.field(f.name, child.type) for f, child in zip(array.type, fields, strict=True)]
        return pa.StructArray.from_arrays(fields, fields=names, mask=array.is_null())
    offsets, items = list_parts(array)
    if t.is_map(array.type):
        keys, values = (normalise_array(child) for child in items.flatten())
        entries = pa.StructArray.from_arrays(
            [keys, values], fields=[pa.field("key", keys.type, False), pa.field("value", values.type)]
        )
        target: pa.DataType = pa.map_(keys.type, values.type)
    else:
        entries = normalise_array(items)
        target = pa.list_(entries.type)
    validity = None if array.null_count == 0 else bitmap(array.is_valid())
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets.cast(pa.int32()).buffers()[1]], children=[entries]
    )


def bitmap(valid: pa.Array) -> Any:
    """A boolean array's bits as a buffer that begins at bit 0."""
    return pa.concat_arrays([pa.array([], pa.bool_()), pc.and_(valid, valid)]).buffers()[1]


# --- taking nested arrays apart -----------------------------------------------------------------------------------


def list_parts(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Of a list or map array: its ``len + 1`` offsets, and the items of the lists that are not null.

    Slices and items that lie under null lists are gone; the items of a map are its key and value structs.
    """
    if pa.types.is_map(array.type):
        array = _as_list(array)
    if pa.types.is_list(array.type):
        offsets = array.offsets
        first, count = offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
        if array.null_count == 0 or (pc.sum(pc.list_value_length(array)).as_py() or 0) == count:
            return pc.subtract(offsets, offsets[0]) if first else offsets, array.values.slice(first, count)
    lengths = lengths_of(array)
    return with_zero(pc.cumulative_sum(lengths)), items_of(array)


def lengths_of(array: pa.Array) -> pa.Array:
    """The number of items of each list or map (int64), 0 for a null one."""
    if pa.types.is_fixed_size_list(array.type):
        size = pa.scalar(array.type.list_size, pa.int64())
        return pc.if_else(array.is_valid(), size, pa.scalar(0, pa.int64()))
    if pa.types.is_map(array.type):
        array = _as_list(array)
    return pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())


def items_of(array: pa.Array) -> pa.Array:
    """The items of a list or map array, without those under null lists."""
    if pa.types.is_map(array.type):
        array = _as_list(array)
    return array.flatten()


def _as_list(array: pa.Array) -> pa.Array:
    """A map array seen as the list of its key and value structs that it is."""
    keys, items = array.keys, array.items
    fields = [pa.field(MAP_ENTRY[0], keys.type), pa.field(MAP_ENTRY[1], items.type)]
    entries = pa.StructArray.from_arrays([keys, items], fields=fields)
    return pa.Array.from_buffers(
        pa.list_(entries.type), len(array), array.buffers()[:2], offset=array.offset, children=[entries]
    )


def with_zero(sums: pa.Array) -> pa.Array:
    """Running sums with the 0 that stands before the first."""
    return pa.concat_arrays([pa.array([0], sums.type), sums])


def child_fields(array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The fields of a struct array; a field is null where the struct is."""
    # Flattening carries the struct's nulls over to its fields.
    children = array.flatten() if array.null_count else map(array.field, range(array.type.num_fields))
    return zip((f.name for f in array.type), children, strict=True)


def counting(count: int) -> pa.Array:
    """0, 1, 2, ... as int64."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), pa.scalar(1, pa.int64()))


# --- names --------------------------------------------------------------------------------------------------------


def type_text(type_: pa.DataType) -> str:
    """A normal type in words of our own, which no library version changes.

    >>> import pyarrow as pa
    >>> type_text(pa.struct([pa.field("at", pa.timestamp("us", "UTC")), pa.field("n", pa.list_(pa.int64()))]))
    'struct<at: timestamp(us, UTC), n: list<int64>>'
    """
    t = pa.types
    for test, text in _SIMPLE:
        if test(type_):
            return text
    if t.is_struct(type_):
        return "struct<" + ", ".join(f"{f.name}: {type_text(f.type)}" for f in type_) + ">"
    if t.is_map(type_):
        return f"map<{type_text(type_.key_type)}, {type_text(type_.item_type)}>"
    if t.is_list(type_):
        return f"list<{type_text(type_.value_type)}>"
    if t.is_decimal(type_):
        return f"decimal{type_.bit_width}({type_.precision},{type_.scale})"
    if t.is_timestamp(type_):
        return f"timestamp({type_.unit})" if type_.tz is None else f"timestamp({type_.unit}, {type_.tz})"
    if t.is_time(type_):
        return f"time({type_.unit})"
    if t.is_duration(type_):
        return f"duration({type_.unit})"
    if t.is_fixed_size_binary(type_):
        return f"fixed({type_.byte_width})"
    return str(type_)


_SIMPLE: Final = (
    (pa.types.is_null, "null"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "int8"),
    (pa.types.is_int16, "int16"),
    (pa.types.is_int32, "int32"),
    (pa.types.is_int64, "int64"),
    (pa.types.is_uint8, "uint8"),
    (pa.types.is_uint16, "uint16"),
    (pa.types.is_uint32, "uint32"),
    (pa.types.is_uint64, "uint64"),
    (pa.types.is_float16, "float16"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_date32, "date"),
    (pa.types.is_date64, "date(ms)"),
)
