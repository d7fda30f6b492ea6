"""Known faults of readers: what they get wrong although the files are right.

A mismatch that is one of these is reported as ``REPLAY-READER-FAULT``, a warning that names the reader; every other
mismatch is a mismatch. A fault is listed only where the reader alone shows it, without lakeevolve, and as narrowly as
it is: what it makes of rows is modelled, and any other answer is a mismatch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeevolve.redaction import public_path
from lakeevolve.replaying import canonical
from lakeevolve.replaying.compare import Difference

RULE: Final = "REPLAY-READER-FAULT"

#: A NULL list of structs, or map to structs, reads as empty (apache/iceberg-python#3833).
NULL_LIST_OF_STRUCTS: Final = "null-list-of-structs"

#: Under a filter on a field of a record that is NULL, the row is kept or lost wrongly. pyiceberg takes a required
#: field for one that is never null (as Java did, apache/iceberg#13328), and a default for one that is always there;
#: DataFusion compares what lies beneath the null (apache/datafusion#25120).
FILTER_BENEATH_NULL: Final = "filter-beneath-null-record"

#: A filter on a UUID column raises (apache/iceberg-python#2372).
FILTER_ON_UUID: Final = "filter-on-uuid"

#: A filter's value is bound to the type that the column has in the file: where the file still holds the narrower type
#: of before a promotion, `<` a value beyond it lets everything through, nulls and NaN included, a member of `in` beyond
#: it becomes that type's limit (apache/iceberg-python#3916), and a double is rounded to a float.
LITERAL_IN_FILE_TYPE: Final = "literal-in-file-type"

#: NaN in a file whose only other value of the column is one and the same, without nulls, reads as that value under a
#: filter on the column: statistics leave NaN out (apache/datafusion#24804).
NAN_BESIDE_ONE_VALUE: Final = "nan-beside-one-value"

#: An empty partition value of a column of text or bytes, which is null by the protocol, reads as empty
#: (delta-io/delta#7091).
EMPTY_PARTITION_VALUE: Final = "empty-partition-value"

#: In a file that lacks a column, a filter's value is compared with the column's `initial-default` as Python holds it:
#: a date, a time or an instant with a count of days or microseconds, which `=` and `in` never find equal and `<` fails
#: on, and a float with a double of the same digits.
DEFAULT_AS_PYTHON_HOLDS_IT: Final = "default-as-python-holds-it"

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "pyiceberg": frozenset(
        {
            NULL_LIST_OF_STRUCTS,
            FILTER_BENEATH_NULL,
            FILTER_ON_UUID,
            LITERAL_IN_FILE_TYPE,
            DEFAULT_AS_PYTHON_HOLDS_IT,
        }
    ),
    "delta-rs": frozenset({FILTER_BENEATH_NULL, NAN_BESIDE_ONE_VALUE, EMPTY_PARTITION_VALUE}),
    # polars reads Delta through the Delta kernel.
    "polars": frozenset({EMPTY_PARTITION_VALUE}),
}

TEXTS: Final[Mapping[str, str]] = {
    NULL_LIST_OF_STRUCTS: "a NULL list of structs, or map to structs, reads as empty (apache/iceberg-python#3833)",
    FILTER_BENEATH_NULL: "a filter on a field of a NULL record keeps or loses the row wrongly "
    "(apache/iceberg#13328, apache/datafusion#25120)",
    FILTER_ON_UUID: "a filter on a UUID column fails (apache/iceberg-python#2372)",
    LITERAL_IN_FILE_TYPE: "a filter compares in the narrower type that the file holds, and so keeps or loses the row "
    "wrongly (apache/iceberg-python#3916)",
    NAN_BESIDE_ONE_VALUE: "NaN reads as the only other value of the file under a filter on the column "
    "(apache/datafusion#24804)",
    EMPTY_PARTITION_VALUE: "an empty partition value, which is null by the Delta protocol, reads as empty; readers "
    "differ on it (delta-io/delta#7091)",
    DEFAULT_AS_PYTHON_HOLDS_IT: "a filter compares the metadata's default for old rows (initial-default) as Python "
    "holds it, and so fails, or keeps or loses the rows wrongly",
}


@dataclass(frozen=True, slots=True)
class ReaderFault:
    """A known fault of a reader, met while replaying: the file is right, this reader is not.

    ``rows`` counts the rows of ``file`` that it concerns at ``path``, ``row`` is the first of them.
    """

    reader: str
    fault: str
    file: str | None
    row: int | None
    path: str
    rows: int
    expected_type: str
    actual_type: str

    @property
    def rule(self) -> str:
        return RULE

    @property
    def reason(self) -> str:
        return TEXTS[self.fault]

    def __str__(self) -> str:
        where = public_path(self.file) if self.file is not None else "the table"
        if self.row is not None:
            where += f", row {self.row}"
        counted = "" if not self.rows else " (1 row)" if self.rows == 1 else f" ({self.rows} rows)"
        return f"{where}, {self.path}: {self.reader}: {self.reason}{counted}"

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": RULE,
            "reader": self.reader,
            "fault": self.fault,
            "file": None if self.file is None else public_path(self.file),
            "row": self.row,
            "path": self.path,
            "rows": self.rows,
            "expected_type": self.expected_type,
            "actual_type": self.actual_type,
            "reason": self.reason,
        }


def has(reader: str, fault: str) -> bool:
    """Whether a fault of the reader is listed."""
    return fault in KNOWN.get(reader, frozenset())


def fault_of(difference: Difference, reader: str) -> str | None:
    """The listed fault that a difference is, or None."""
    if difference.kind == "empty" and has(reader, NULL_LIST_OF_STRUCTS) and _of_structs(difference.expected.type):
        return NULL_LIST_OF_STRUCTS
    return None


def merged(found: Iterable[ReaderFault]) -> tuple[ReaderFault, ...]:
    """One of each reader, fault, file and path: that which concerns the most rows."""
    kept: dict[tuple[str, str, str | None, str], ReaderFault] = {}
    for fault in found:
        key = (fault.reader, fault.fault, fault.file, fault.path)
        if key not in kept or kept[key].rows < fault.rows:
            kept[key] = fault
    return tuple(kept[key] for key in sorted(kept, key=lambda k: (k[2] or "", k[3], k[0], k[1])))


@functools.lru_cache(maxsize=256)
def concerned(schema: pa.Schema) -> tuple[str, ...]:
    """The columns in which :data:`NULL_LIST_OF_STRUCTS` can show."""
    return tuple(field.name for field in schema if _holds(field.type))


def soften(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Normalised rows as a reader with :data:`NULL_LIST_OF_STRUCTS` gives them."""
    for name, column in softened(batch).items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def softened(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns that such a reader gives otherwise than they are, as it gives them."""
    found = {}
    for name in concerned(batch.schema):
        column = batch.column(name)
        soft = _soften(column)
        if soft is not column:
            found[name] = soft
    return found


def misread(batch: pa.RecordBatch, values: Mapping[str, Any]) -> dict[str, pa.Array]:
    """The columns of a file as a reader gives them that takes them for these values
    (:attr:`lakeevolve.tables.base.DataFile.misread`)."""
    found = {}
    for name, value in values.items():
        at = batch.schema.get_field_index(name)
        if at >= 0:
            held = batch.schema.field(at).type
            type_ = pa.scalar(value).type if pa.types.is_null(held) else held
            found[name] = pa.repeat(pa.scalar(value, type_), batch.num_rows)
    return found


def as_misread(batch: pa.RecordBatch, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows of a file as such a reader gives them."""
    for name, column in misread(batch, values).items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _soften(array: pa.Array) -> pa.Array:
    """The array as such a reader gives it: itself, where that is no other."""
    if not _holds(array.type):
        return array
    if pa.types.is_struct(array.type):
        before = array.flatten()
        children = [_soften(child) for child in before]
        if all(one is two for one, two in zip(before, children, strict=True)):
            return array
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=array.is_null())
    offsets, items = canonical.list_parts(array)
    inner = items.field(1) if pa.types.is_map(array.type) else items
    soft = _soften(inner)
    if soft is inner and not (_of_structs(array.type) and array.null_count):
        return array
    if pa.types.is_map(array.type):
        keys = items.field(0)
        items = pa.StructArray.from_arrays(
            [keys, soft], fields=[pa.field("key", keys.type, False), pa.field("value", soft.type)]
        )
    else:
        items = soft
    validity = None
    if not _of_structs(array.type) and array.null_count:
        validity = canonical.bitmap(array.is_valid())
    return pa.Array.from_buffers(
        array.type, len(array), [validity, offsets.cast(pa.int32()).buffers()[1]], children=[items]
    )


def _of_structs(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return bool(pa.types.is_struct(type_.item_type))
    return bool(pa.types.is_list(type_) and pa.types.is_struct(type_.value_type))


def _holds(type_: pa.DataType) -> bool:
    return _of_structs(type_) or any(_holds(type_.field(i).type) for i in range(type_.num_fields))
