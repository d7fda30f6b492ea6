"""Arrow arrays between a table's columns, found by field id, and the canonical layout of an Avro type.

What a file or a reader calls its columns does not count, only their ids; what it lacks reads as null, or as the
column's initial default where the table has one (Iceberg spec, "Column Projection").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

from lakeevolve.avro.arrow import arrow_type, nested
from lakeevolve.errors import TableError
from lakeevolve.model import path as paths
from lakeevolve.model.types import AvroType
from lakeevolve.tables.iceberg.types import below, children
from lakeevolve.tables.layout import to_canonical, to_layout

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField

ID_KEY: Final = b"PARQUET:field_id"


def field_id(field: pa.Field) -> int | None:
    """The field id that a Parquet file gives a column."""
    found = (field.metadata or {}).get(ID_KEY)
    return int(found) if found is not None else None


def has_ids(fields: Sequence[pa.Field]) -> bool:
    """Whether any column, at any depth, carries a field id."""
    return any(field_id(field) is not None or has_ids(_inner(field.type)) for field in fields)


def with_ids(fields: Sequence[pa.Field], mapping: Sequence[MappedField]) -> list[pa.Field]:
    """The columns with the ids that a name mapping gives their names."""
    named = {name: mapped for mapped in mapping for name in mapped.names}
    return [_with_id(field, named.get(field.name)) for field in fields]


def _with_id(field: pa.Field, mapped: MappedField | None) -> pa.Field:
    if mapped is None:
        return field.remove_metadata()
    type_ = field.type
    inside = {name: inner for inner in mapped.fields for name in inner.names}
    if pa.types.is_struct(type_):
        type_ = pa.struct(with_ids(list(type_), mapped.fields))
    elif pa.types.is_map(type_):
        type_ = pa.map_(_with_id(type_.key_field, inside.get("key")), _with_id(type_.item_field, inside.get("value")))
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        element = _with_id(type_.value_field, inside.get("element"))
        type_ = pa.large_list(element) if pa.types.is_large_list(type_) else pa.list_(element)
    ids = {} if mapped.field_id is None else {ID_KEY: str(mapped.field_id).encode()}
    return pa.field(field.name, type_, field.nullable, metadata=ids)


def _inner(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.value_field] if _is_list(type_) else []


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


@dataclass(frozen=True, slots=True)
class Level:
    """Fields that stand beside each other in a file, found by id, and the levels beneath each."""

    by_id: Mapping[int, int]
    inner: tuple[Level, ...]

    @classmethod
    def of(cls, fields: Sequence[pa.Field]) -> Level:
        ids = {number: at for at, field in enumerate(fields) if (number := field_id(field)) is not None}
        return cls(ids, tuple(cls.of(_inner(field.type)) for field in fields))


class Reading:
    """Turns one file's columns into the canonical layout.

    ``given`` holds, by field id, values that stand in the metadata for columns that the file does not hold (identity
    partitions).
    """

    def __init__(self, fields: Sequence[pa.Field], where: str, given: Mapping[int, Any] | None = None) -> None:
        self.level = Level.of(fields)
        self.where = where
        self.given = given or {}

    def column(
        self, arrays: Sequence[pa.Array], length: int, column: NestedField, type_: AvroType | None, path: str
    ) -> pa.Array:
        """One top-level column, of the canonical type or, without an Avro type, of the table's own Arrow type."""
        at = self.level.by_id.get(column.field_id)
        if at is None:
            return self._absent(column, type_, path, length)
        return self._convert(without_extensions(arrays[at]), self.level.inner[at], column.field_type, type_, path)

    def _absent(self, column: NestedField, type_: AvroType | None, path: str, length: int) -> pa.Array:
        value = self.given.get(column.field_id, column.initial_default)
        target = canonical_type(column.field_type, type_)
        if value is None:
            return pa.nulls(length, target)
        plain = pa.repeat(pa.scalar(_plain(value), leaf_arrow(column.field_type)), length)
        return to_canonical(plain, type_) if type_ is not None else to_layout(plain, target)

    def _convert(
        self, array: pa.Array, level: Level, column: IcebergType, type_: AvroType | None, path: str
    ) -> pa.Array:
        held = array.type
        match column:
            case StructType() if pa.types.is_struct(held):
                return self._struct(array, level, column, type_, path)
            case ListType() if _is_list(held):
                offsets, values = nested.lists(array)
                items = self._convert(values, level.inner[0], column.element_type, below(type_), paths.items(path))
                name = "item" if type_ is not None else "element"
                return nested.list_like(pa.list_(pa.field(name, items.type)), offsets, items, array)
            case MapType() if pa.types.is_map(held):
                offsets, entries = nested.lists(array)
                keys, values = nested.fields(entries)
                here = paths.values(path)
                keys = self._convert(keys, level.inner[0], column.key_type, None, here)
                values = self._convert(values, level.inner[1], column.value_type, below(type_), here)
                target = pa.map_(keys.type, pa.field("value", values.type))
                return nested.list_like(target, offsets, nested.entries(target, keys, values), array)
            case PrimitiveType():
                return self._leaf(array, column, type_, path)
        raise self._differs(f"the file holds {held} and the schema says {column}", path)

    def _struct(self, array: pa.Array, level: Level, column: StructType, type_: AvroType | None, path: str) -> pa.Array:
        parts = nested.fields(array)
        columns = {each.name: each for each in column.fields}
        made, names = [], []
        for name, inner, here in children(type_, column, path):
            if name not in columns:
                raise self._differs(f"the table has no column {name!r}", here)
            at = level.by_id.get(columns[name].field_id)
            if at is None:
                made.append(self._absent(columns[name], inner, here, len(array)))
            else:
                made.append(self._convert(parts[at], level.inner[at], columns[name].field_type, inner, here))
            names.append(name)
        target = pa.struct([pa.field(name, each.type) for name, each in zip(names, made, strict=True)])
        return nested.struct(target, made, array)

    def _leaf(self, array: pa.Array, column: PrimitiveType, type_: AvroType | None, path: str) -> pa.Array:
        held = array.type
        if pa.types.is_dictionary(held):
            array, held = array.dictionary_decode(), array.type.value_type
        wanted = leaf_arrow(column)
        try:
            array = self._widened(array, held, wanted, column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._differs(f"a value of the file's {held} does not fit the schema's {column}", path) from error
        try:
            return to_canonical(array, type_) if type_ is not None else to_layout(array, wanted)
        except TableError as error:
            raise TableError(error.what, where=f"{self.where}, {path or '$'}", hint=error.hint) from error

    def _widened(self, array: pa.Array, held: pa.DataType, wanted: pa.DataType, column: PrimitiveType) -> pa.Array:
        """Undo what a promotion or another writer's habits make of a column, all of it exactly."""
        number = (pa.types.is_integer(held) and pa.types.is_integer(wanted)) or (
            pa.types.is_floating(held) and pa.types.is_floating(wanted)
        )
        if number and held != wanted and held.bit_width <= wanted.bit_width:
            return array.cast(wanted)
        match column:
            case TimestamptzType() | TimestamptzNanoType() if pa.types.is_timestamp(held) and held.tz is None:
                # Files that were added as they are may hold instants without a zone; the table's type says UTC.
                return array.cast(pa.timestamp(held.unit, "UTC"))
            case TimestampType() | TimestampNanoType() if pa.types.is_timestamp(held) and held.tz is not None:
                return array.cast(pa.timestamp(held.unit, "UTC")).cast(pa.timestamp(held.unit))
            case BinaryType() if pa.types.is_string(held) or pa.types.is_large_string(held):
                return array.cast(pa.binary() if pa.types.is_string(held) else pa.large_binary())
            case StringType() if pa.types.is_binary(held) or pa.types.is_large_binary(held):
                return array.cast(pa.string() if pa.types.is_binary(held) else pa.large_string())
        if pa.types.is_decimal(held) and pa.types.is_decimal(wanted) and held.scale != wanted.scale:
            return array.cast(wanted)
        return array

    def _differs(self, what: str, path: str) -> TableError:
        return TableError(
            f"a data file does not fit its schema: {what}",
            where=f"{self.where}, {path or '$'}",
            hint="a writer with an outdated schema may have added it: rewrite that file, or take it out of the table",
        )


def leaf_arrow(type_: IcebergType) -> pa.DataType:
    """The Arrow type of a primitive column, with 32-bit offsets."""
    found = schema_to_pyarrow(type_, include_field_ids=False)
    if pa.types.is_large_string(found):
        return pa.string()
    if pa.types.is_large_binary(found):
        return pa.binary()
    return pa.binary(16) if isinstance(type_, UUIDType) else found


def canonical_type(column: IcebergType, type_: AvroType | None) -> pa.DataType:
    """The canonical Arrow type of an Avro type, or the table's own of a column that has none."""
    if type_ is not None:
        return arrow_type(type_, strict=False)
    match column:
        case StructType():
            return pa.struct([pa.field(f.name, canonical_type(f.field_type, None)) for f in column.fields])
        case ListType():
            return pa.list_(pa.field("element", canonical_type(column.element_type, None)))
        case MapType():
            key, value = canonical_type(column.key_type, None), canonical_type(column.value_type, None)
            return pa.map_(key, pa.field("value", value))
    return leaf_arrow(column)


def _plain(value: Any) -> Any:
    """A value of the metadata as pyarrow takes it."""
    return value.bytes if isinstance(value, UUID) else value


def file_field(column: NestedField) -> pa.Field:
    """The Arrow field that a data file gets for a column: the table's name and id, at every depth."""
    ids = {ID_KEY: str(column.field_id).encode()}
    return pa.field(column.name, _file_type(column.field_type), nullable=column.optional, metadata=ids)


def _file_type(type_: IcebergType) -> pa.DataType:
    match type_:
        case StructType():
            return pa.struct([file_field(field) for field in type_.fields])
        case ListType():
            return pa.list_(file_field(type_.element_field))
        case MapType():
            return pa.map_(file_field(type_.key_field), file_field(type_.value_field))
        case UUIDType():
            return pa.uuid()
    return leaf_arrow(type_)


def to_file(array: pa.Array, column: NestedField, target: pa.Field, type_: AvroType | None, path: str) -> pa.Array:
    """A canonical column (or, without an Avro type, one of the table's own type) as a data file holds it.

    *target* is the column's field in the file, which may spell names otherwise.

    Raises ``TableError`` where a required column would hold a null, or a value does not fit.
    """
    return _to_file(array, column, target, type_, path, 0)


def _to_file(
    array: pa.Array, column: NestedField, target: pa.Field, type_: AvroType | None, path: str, absent: int
) -> pa.Array:
    """*absent* is how many of the array's nulls stand for a null struct above."""
    if column.required and array.null_count > absent:
        raise TableError(
            "a required column would hold a null",
            where=path or "$",
            hint="give old rows a value (a default), or make the column optional",
        )
    made = _as_column(array, column.field_type, target.type, type_, path)
    return _solid(made) if column.required and made.null_count else made


def _as_column(
    array: pa.Array, column: IcebergType, wanted: pa.DataType, type_: AvroType | None, path: str
) -> pa.Array:
    match column:
        case StructType():
            parts = dict(zip([field.name for field in array.type], nested.fields(array), strict=True))
            paired = {name: (inner, here) for name, inner, here in children(type_, column, path)}
            made = []
            for at, below_ in enumerate(column.fields):
                inner, here = paired[below_.name]
                made.append(_to_file(parts[below_.name], below_, wanted.field(at), inner, here, array.null_count))
            return nested.struct(wanted, made, array)
        case ListType():
            offsets, values = nested.lists(array)
            items = _to_file(values, column.element_field, wanted.value_field, below(type_), paths.items(path), 0)
            return nested.list_like(wanted, offsets, items, array)
        case MapType():
            offsets, entries = nested.lists(array)
            keys, values = nested.fields(entries)
            keys = _to_file(keys, column.key_field, wanted.key_field, None, paths.values(path), 0)
            values = _to_file(values, column.value_field, wanted.item_field, below(type_), paths.values(path), 0)
            return nested.list_like(wanted, offsets, nested.entries(wanted, keys, values), array)
    try:
        return to_layout(array, wanted)
    except TableError as error:
        raise TableError(error.what, where=path or "$", hint=error.hint) from error


def _solid(array: pa.Array) -> pa.Array:
    """The array without its nulls, all of which stand beneath a null struct, where nothing is written anyway: the
    Parquet writer takes nulls in a required column for a fault wherever they stand."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, _solid(array.storage))
    if pa.types.is_struct(type_):
        inside = [array.field(at) for at in range(type_.num_fields)]
        return pa.Array.from_buffers(type_, len(array), [None], 0, children=inside)
    values = [array.values] if pa.types.is_map(type_) or pa.types.is_list(type_) else None
    buffers = array.buffers()[1:2] if values is not None else array.buffers()[1:]
    return pa.Array.from_buffers(type_, len(array), [None, *buffers], 0, array.offset, children=values)


def without_extensions(array: pa.Array) -> pa.Array:
    """The array with the storage of extension types (UUIDs), which pyarrow's kernels on lists and maps cannot carry."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return without_extensions(array.storage)
    if not _extended(type_):
        return array
    if pa.types.is_struct(type_):
        children = [without_extensions(array.field(at)) for at in range(type_.num_fields)]
        fields = [pa.field(f.name, c.type) for f, c in zip(type_, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    values = without_extensions(array.values)
    if pa.types.is_map(type_):
        made = pa.map_(values.type.field(0).with_nullable(False), values.type.field(1))
        fields = [made.key_field, made.item_field]
        values = pa.StructArray.from_arrays([values.field(0), values.field(1)], fields=fields)
    else:
        made = _list_of(type_, values.type)
    return pa.Array.from_buffers(
        made, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def _list_of(like: pa.DataType, values: pa.DataType) -> pa.DataType:
    inside = pa.field(like.value_field.name, values)
    return pa.large_list(inside) if pa.types.is_large_list(like) else pa.list_(inside)


def _extended(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType) or any(_extended(field.type) for field in _inner(type_))
