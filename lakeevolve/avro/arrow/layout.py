"""Moving arrays between representations of the same values.

Tables and readers hold one and the same value in several Arrow types: ``large_string`` and ``dictionary`` for string,
other time units, 16 bytes for a UUID. Conversions here never change a value: what does not fit is an error.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import nested
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model import path as paths
from lakeevolve.model.types import Array, AvroType, Fixed, Map, Primitive, Record, Union, branch_names, without_null

# The canonical text of a UUID (RFC 9562 section 4); upper case would come back in lower case.
_UUID_TEXT: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_UUID_DASHES: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def convert(
    array: pa.Array,
    target: pa.DataType,
    type_: AvroType | None = None,
    *,
    error: type[LakeEvolveError],
    path: str = paths.ROOT,
    canonical: bool = False,
    widths: bool = False,
) -> pa.Array:
    """The same values as an array of the type *target*.

    ``type_`` is the Avro type, where known: only a UUID's 16 bytes may become text. ``canonical`` says that *target* is
    its canonical layout, in which no time is an integer. With ``widths``, numbers of another width are taken where each
    value fits exactly (pyarrow makes 64-bit columns of Python's numbers). Raises *error* where the types differ in more
    than representation or a value does not fit.
    """
    return _Conversion(error, canonical, widths).run(array, target, type_, path)


class _Conversion:
    def __init__(self, error: type[LakeEvolveError], canonical: bool, widths: bool) -> None:
        self.error = error
        self.canonical = canonical
        self.widths = widths

    def run(self, array: pa.Array, target: pa.DataType, type_: AvroType | None, path: str) -> pa.Array:
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
            array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
        type_ = without_null(type_) if type_ is not None else None
        source = array.type
        if source == target:
            return array
        if pa.types.is_null(source):
            return pa.nulls(len(array), target)
        if pa.types.is_dictionary(source):
            return self.run(array.dictionary_decode(), target, type_, path)
        if pa.types.is_run_end_encoded(source):
            return self.run(pc.run_end_decode(array), target, type_, path)
        if _is_struct(source) and _is_struct(target):
            return self._struct(array, target, type_, path)
        if pa.types.is_map(target):
            return self._map(array, target, type_, path)
        if _is_list(source) and _is_list(target):
            return self._list(array, target, type_, path)
        return self._leaf(array, target, type_, path)

    def _struct(self, array: pa.Array, target: pa.DataType, type_: AvroType | None, path: str) -> pa.Array:
        have, want = [field.name for field in array.type], [field.name for field in target]
        if sorted(have) != sorted(want):
            raise self._other_fields(have, want, path)
        children = dict(zip(have, nested.fields(array), strict=True))
        below = _children(type_)
        union = isinstance(type_, Union)
        return nested.struct(
            target,
            [
                self.run(
                    children[field.name],
                    field.type,
                    below.get(field.name),
                    paths.branch(path, field.name) if union else paths.child(path, field.name),
                )
                for field in target
            ],
            array,
        )

    def _list(self, array: pa.Array, target: pa.DataType, type_: AvroType | None, path: str) -> pa.Array:
        offsets, values = nested.lists(array)
        items = type_.items if isinstance(type_, Array) else None
        values = self.run(values, target.value_type, items, paths.items(path))
        if pa.types.is_list(target) or pa.types.is_large_list(target):
            return self._build(target, offsets, values, array, path)
        plain = pa.list_(pa.field("item", target.value_type))
        return self._cast(self._build(plain, offsets, values, array, path), target, path)

    def _map(self, array: pa.Array, target: pa.DataType, type_: AvroType | None, path: str) -> pa.Array:
        source = array.type
        pairs = _is_list(source) and _is_struct(source.value_type) and source.value_type.num_fields == 2
        if not pairs and not pa.types.is_map(source):
            raise self._unlike(source, target, path)
        offsets, entries = nested.lists(array)
        if pairs and [field.name for field in source.value_type] != ["key", "value"]:
            raise self._unlike(source, target, path)
        keys, values = nested.fields(entries)
        if keys.null_count:
            raise self.error("a key of the map is null", where=path or "$", hint="a map's keys have to be strings")
        keys = self.run(keys, target.key_type, None, paths.values(path))
        below = type_.values if isinstance(type_, Map) else None
        values = self.run(values, target.item_type, below, paths.values(path))
        return self._build(target, offsets, nested.entries(target, keys, values), array, path)

    def _build(self, target: pa.DataType, offsets: pa.Array, values: pa.Array, like: pa.Array, path: str) -> pa.Array:
        try:
            return nested.list_like(target, offsets, values, like)
        except pa.ArrowInvalid as error:
            raise self._unfit(like.type, target, path, "its lists hold more than 2^31 values together") from error

    def _leaf(self, array: pa.Array, target: pa.DataType, type_: AvroType | None, path: str) -> pa.Array:
        source = array.type
        if isinstance(source, pa.UuidType):
            array, source = array.storage, array.type.storage_type
            return self._leaf(self._text(array) if _is_string(target) else array, target, type_, path)
        if source == target:
            return array
        if isinstance(target, pa.UuidType):
            return pa.ExtensionArray.from_storage(target, self._leaf(array, target.storage_type, type_, path))
        if _is_string(source) and _is_string(target):
            return self._cast(array, target, path)
        if _is_binary(source) and _is_binary(target):
            return self._bytes(array, target, path)
        if _is_string(source) and target == pa.binary(16) and (type_ is None or _is_uuid(type_)):
            return self._uuid_bytes(array, path)
        if _is_binary(source) and _is_string(target) and type_ is not None and _is_uuid(type_):
            return self._cast(self._text(self._bytes(array, pa.binary(16), path)), target, path)
        if pa.types.is_decimal(source) and pa.types.is_decimal(target) and source.scale == target.scale:
            return self._cast(array, target, path)
        if pa.types.is_date(source) and pa.types.is_date(target):
            return self._date(array, target, path)
        if pa.types.is_timestamp(source) and pa.types.is_timestamp(target) and bool(source.tz) == bool(target.tz):
            return self._cast(array, target, path)
        if pa.types.is_time(source) and pa.types.is_time(target):
            return self._cast(array, target, path)
        if pa.types.is_time(target) and _counts_time(source):
            return self._cast(array.cast(_counts_time(source)), target, path)
        if pa.types.is_time(source) and _counts_time(target) and not self.canonical:
            return self._cast(array, _counts_time(target), path).cast(target)
        if self.widths and pa.types.is_integer(source) and pa.types.is_integer(target):
            return self._cast(array, target, path)
        if self.widths and pa.types.is_floating(source) and pa.types.is_floating(target):
            return self._float(array, target, path)
        raise self._unlike(source, target, path)

    def _float(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        made = array.cast(target, safe=False)
        exact = pc.or_(pc.equal(made.cast(array.type), array), pc.is_nan(array))
        if not pc.all(exact, min_count=0).as_py():
            raise self._unfit(array.type, target, path, "a value has more digits")
        return made

    def _cast(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        try:
            return array.cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            # Arrow's own message holds the value.
            raise self._unfit(array.type, target, path, "a value does not fit") from error

    def _date(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        made = self._cast(array, target, path)
        if not made.cast(array.type).equals(array):
            raise self._unfit(array.type, target, path, "a value is not a whole day")
        return made

    def _bytes(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        if not pa.types.is_fixed_size_binary(target):
            return self._cast(array, target, path)
        lengths = pc.binary_length(array.cast(pa.large_binary()))
        if not pc.all(pc.equal(lengths, target.byte_width), min_count=0).as_py():
            raise self._unfit(array.type, target, path, f"a value is not {target.byte_width} bytes long")
        return self._cast(array.cast(pa.binary()), target, path)

    def _text(self, array: pa.Array) -> pa.Array:
        """The text of UUIDs that stand as 16 bytes."""
        if array.null_count == len(array):
            return pa.nulls(len(array), pa.string())
        raw = memoryview(array.buffers()[1])[array.offset * 16 : (array.offset + len(array)) * 16]
        digits = pa.py_buffer(raw.hex().encode())
        wide = pa.Array.from_buffers(pa.binary(32), len(array), [nested.validity(array), digits], array.null_count)
        text = wide.cast(pa.binary()).cast(pa.string())
        return pc.binary_join_element_wise(*(pc.utf8_slice_codeunits(text, a, b) for a, b in _UUID_DASHES), "-")

    def _uuid_bytes(self, array: pa.Array, path: str) -> pa.Array:
        text = array.cast(pa.string())
        if not pc.all(pc.match_substring_regex(text, _UUID_TEXT), min_count=0).as_py():
            raise self._unfit(array.type, pa.uuid(), path, "a value is not a UUID in lower-case canonical text")
        digits = pc.fill_null(pc.replace_substring(text, "-", ""), "0" * 32).cast(pa.binary()).cast(pa.binary(32))
        raw = digits.buffers()[1]
        packed = pa.py_buffer(bytes.fromhex(raw[: 32 * len(array)].to_pybytes().decode()) if len(array) else b"")
        return pa.Array.from_buffers(pa.binary(16), len(array), [nested.validity(array), packed], array.null_count)

    def _unlike(self, source: pa.DataType, target: pa.DataType, path: str) -> LakeEvolveError:
        return self.error(
            f"a column of Arrow type {source} is no representation of {target}",
            where=path or "$",
            hint="the data and the schema it is said to have differ: compare the table's columns with the schema",
        )

    def _other_fields(self, have: list[str], want: list[str], path: str) -> LakeEvolveError:
        missing = [name for name in want if name not in have]
        found = [name for name in have if name not in want] or [name for name in have if have.count(name) > 1]
        reasons = [f"lacks {', '.join(missing[:5])}"] * bool(missing) + [f"also has {', '.join(found[:5])}"] * bool(
            found
        )
        return self.error(
            f"the data has not the fields of the schema: it {' and '.join(reasons)}",
            where=path or "$",
            hint="compare the data's fields with the schema that it is said to have",
        )

    def _unfit(self, source: pa.DataType, target: pa.DataType, path: str, why: str) -> LakeEvolveError:
        return self.error(
            f"{source} cannot be held as {target} without changing a value: {why}",
            where=path or "$",
            hint="use a type that holds every value, or mend the data first",
        )


def _children(type_: AvroType | None) -> dict[str, AvroType]:
    match type_:
        case Record():
            return {field.name: field.type for field in type_.fields}
        case Union():
            return dict(zip(branch_names(type_), type_.values, strict=True))
    return {}


def _is_uuid(type_: AvroType) -> bool:
    return isinstance(type_, (Primitive, Fixed)) and type_.logical is not None and type_.logical.name == "uuid"


def _counts_time(type_: pa.DataType) -> pa.DataType | None:
    """The time that an integer of this type counts: Avro's time-millis is an int, its time-micros a long."""
    return {pa.int32(): pa.time32("ms"), pa.int64(): pa.time64("us")}.get(type_)


def _is_struct(type_: pa.DataType) -> bool:
    return bool(pa.types.is_struct(type_))


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )


def _is_string(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )
