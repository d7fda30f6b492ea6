"""A SHA-256 over the rows of a file in their order: what evidence holds of each file.

It depends on the rows, the column names and the column types alone: not on how the rows are cut into batches, on what
lies under nulls, on the order of columns, on paths, formats, versions or machines. So two files whose rows read the
same have the same digest, and anybody can compute it anew from the values.

Each field is hashed by itself, in streams of little-endian bytes:

=========  ===========================================================================================================
stream     bytes
=========  ===========================================================================================================
nulls      the number of each value that is null (int64), counted from the field's first; a null is in no other stream
values     of a fixed width: the values themselves (a boolean is one byte); bytes and text: one after the other
lengths    bytes, text, lists and maps: how many bytes or items each has, one byte for each; 255 stands for 255 and more
more       the lengths of 255 and more (int32)
=========  ===========================================================================================================

A record's fields have as many values as the record itself, and are null where it is. The items of all lists follow
each other; a map is a list of records of key and value. The digest is the SHA-256 of canonical JSON that holds the
number of rows and, by name, each field's type and the SHA-256 of each stream that is not empty. A column without a
value is left out, as if it were missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.model.digest import json_digest
from lakeevolve.replaying.canonical import child_fields, counting, list_parts, normalise, type_text

#: The length that is not written as one byte any more.
_LONG: Final = 255

#: So many numbers of nulls are written out at once.
_AT_ONCE: Final = 1 << 16


class FileHash:
    """The digest of rows that come batch by batch.

    >>> import pyarrow as pa
    >>> one, two = FileHash(), FileHash()
    >>> one.update(pa.record_batch({"id": [1, 2], "name": ["a", None]}))
    >>> two.update(pa.record_batch({"name": ["a"], "id": [1]}))
    >>> two.update(pa.record_batch({"name": pa.array([None], pa.string()), "id": [2]}))
    >>> one.hex == two.hex
    True
    """

    __slots__ = ("_fields", "rows")

    def __init__(self) -> None:
        self._fields = _Fields()
        self.rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Take more rows, in any layout."""
        normal = normalise(batch)
        self._fields.update(self.rows, zip(normal.schema.names, normal.columns, strict=True))
        self.rows += normal.num_rows

    @property
    def hex(self) -> str:
        """The digest of the rows so far, as 64 hexadecimal digits."""
        return json_digest({"rows": self.rows, "fields": self._fields.to_json(self.rows)})

    def __reduce__(self) -> tuple[Any, ...]:
        # To another process goes the digest: it takes no more rows there.
        return _Closed, (self.rows, self.hex)


class _Closed(FileHash):
    """A digest that is finished."""

    __slots__ = ("_hex",)

    def __init__(self, rows: int, digest: str) -> None:
        super().__init__()
        self.rows = rows
        self._hex = digest

    def update(self, batch: pa.RecordBatch) -> None:
        raise TypeError("this digest is finished")

    @property
    def hex(self) -> str:
        return self._hex


class _Fields:
    """The fields of a record, by name; one that has had no value yet is not among them."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[str, _Field] = {}

    def update(self, before: int, columns: Iterable[tuple[str, pa.Array]]) -> None:
        """Take more values of fields that had *before* values so far."""
        for name, column in columns:
            if column.null_count == len(column):
                # The field makes up for it when its next value comes.
                continue
            field = self._fields.get(name)
            if field is None:
                field = self._fields[name] = _Field(column.type)
            field.update(before, column)

    def to_json(self, count: int) -> dict[str, Any]:
        return {name: field.to_json(count) for name, field in self._fields.items()}


class _Field:
    """The streams of a field."""

    __slots__ = ("_count", "_inner", "_items", "_streams", "_text")

    def __init__(self, type_: pa.DataType) -> None:
        t = pa.types
        kinds = {"record": t.is_struct, "list": t.is_list, "map": t.is_map}
        self._text = next((kind for kind, test in kinds.items() if test(type_)), None) or type_text(type_)
        self._streams: dict[str, Any] = {}
        self._inner = _Fields()
        self._count = self._items = 0

    def to_json(self, count: int) -> dict[str, Any]:
        """What the digest is taken over, once the field has had *count* values."""
        streams = {name: stream.copy() for name, stream in self._streams.items()}
        for places in _places(self._count, count):
            streams.setdefault("nulls", hashlib.sha256()).update(_bytes(places))
        found: dict[str, Any] = {"type": self._text, **{name: each.hexdigest() for name, each in streams.items()}}
        if self._text in ("record", "list", "map"):
            found["fields"] = self._inner.to_json(count if self._text == "record" else self._items)
        return found

    def update(self, before: int, array: pa.Array) -> None:
        for places in _places(self._count, before):
            self._feed("nulls", _bytes(places))
        self._count = before + len(array)
        nulls = array.null_count
        if nulls:
            places = pc.indices_nonzero(array.is_null())
            self._feed("nulls", _bytes(pc.add(places, pa.scalar(before, pa.uint64()))))
        t = pa.types
        if t.is_struct(array.type):
            self._inner.update(before, child_fields(array))
        elif t.is_list(array.type) or t.is_map(array.type):
            offsets, items = list_parts(array)
            self._lengths(offsets, array)
            self._inner.update(self._items, [("[]", items)])
            self._items += len(items)
        elif t.is_string(array.type) or t.is_binary(array.type):
            self._text_values(array)
        else:
            dense = array.drop_null() if nulls else array
            self._feed("values", _bytes(dense.cast(pa.uint8()) if t.is_boolean(array.type) else dense))

    def _text_values(self, array: pa.Array) -> None:
        bounds = _bounds(array)
        lengths = self._lengths(bounds, array)
        first, last = bounds[0].as_py(), bounds[-1].as_py()
        if array.null_count and pc.sum(lengths).as_py() != last - first:
            # Something lies under nulls.
            array = array.drop_null()
            bounds = _bounds(array)
            first, last = bounds[0].as_py(), bounds[-1].as_py()
        if last > first:
            self._feed("values", array.buffers()[2].slice(first, last - first))

    def _lengths(self, bounds: pa.Array, array: pa.Array) -> pa.Array:
        """Feed the lengths of what lies between *bounds* where the array is not null."""
        lengths = pc.subtract(bounds.slice(1), bounds.slice(0, len(array))).cast(pa.int32())
        if array.null_count:
            lengths = lengths.filter(array.is_valid())
        if (pc.max(lengths).as_py() or 0) < _LONG:
            self._feed("lengths", _bytes(lengths.cast(pa.uint8(), safe=False)))
        else:
            self._feed("more", _bytes(lengths.filter(pc.greater_equal(lengths, pa.scalar(_LONG, pa.int32())))))
            self._feed("lengths", _bytes(pc.min_element_wise(lengths, _LONG).cast(pa.uint8())))
        return lengths

    def _feed(self, name: str, data: Any) -> None:
        stream = self._streams.get(name)
        if stream is None:
            if not len(data):
                return
            stream = self._streams[name] = hashlib.sha256()
        stream.update(data)


def _places(start: int, end: int) -> Iterator[pa.Array]:
    """The numbers from *start* to *end*, some at a time."""
    for first in range(start, end, _AT_ONCE):
        count = min(_AT_ONCE, end - first)
        yield pc.add(counting(count), pa.scalar(first, pa.int64()))


def _bounds(array: pa.Array) -> pa.Array:
    """Where the bytes of each value of text or bytes begin, and where the last one's end."""
    return pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset)


def _bytes(array: pa.Array) -> Any:
    """The bytes of a fixed-width array without nulls."""
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    return b"" if buffer is None else buffer.slice(array.offset * width, len(array) * width)
