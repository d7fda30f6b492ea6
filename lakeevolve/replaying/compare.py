"""Whether two sides hold the same rows in the same order, and where they do not: row by row, leaf by leaf.

*Equal* means the same count, the same type, the same null at every level, the same bytes, the same bits of each float
and the same instant. What is representation only does not count (:mod:`lakeevolve.replaying.canonical`).
"""

from __future__ import annotations

import functools
import hmac
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.model import path as paths
from lakeevolve.model import types as avro
from lakeevolve.redaction import public_path
from lakeevolve.replaying import canonical

#: How many rows of one file are named for one path and reason; the rest are counted.
ROWS_NAMED: Final = 10

RULE: Final = "REPLAY-MISMATCH"

Kind = Literal[
    "value",
    "lost",
    "gained",
    "empty",
    "length",
    "key",
    "type",
    "missing",
    "doubled",
    "extra",
    "kept",
    "unreadable",
    "count",
    "changed",
]

REASONS: Final[Mapping[str, str]] = {
    "value": "another value",
    "lost": "null where a value is expected",
    "gained": "a value where null is expected",
    "empty": "empty where null is expected",
    "length": "another number of items",
    "key": "other keys",
    "type": "another type",
    "missing": "the row is missing",
    "doubled": "the row is there once too often",
    "extra": "a row that is in no file",
    "kept": "the row does not meet the filter",
}


#: Digests of hidden values are keyed, since a value of which there are few would be found by trying. With a key of
#: one's own they compare between runs.
_KEY: Final = os.environ.get("LAKEEVOLVE_DIGEST_KEY", "").encode() or secrets.token_bytes(32)


class Hidden:
    """Row values that nothing shows unless it asks: ``repr``, ``str``, copies to JSON and ``asdict`` all pass by."""

    __slots__ = ("_values",)

    def __init__(self, expected: Any, actual: Any) -> None:
        self._values = (expected, actual)

    def reveal(self) -> tuple[Any, Any]:
        """The expected and the actual value, for a terminal whose user asked for them."""
        return self._values

    @property
    def digests(self) -> tuple[str, str]:
        """A keyed digest of each: the same for the same value, and telling nothing of it."""
        expected, actual = (
            hmac.new(_KEY, f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()
            for value in self._values
        )
        return expected[:16], actual[:16]

    def __repr__(self) -> str:
        return "<hidden>"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where what was read is not what is expected.

    Parameters
    ----------
    file:
        The data file, or None where no single file is to blame.
    row:
        Zero-based among the file's live rows in file order, or None where the whole file or column is concerned.
    path:
        The leaf (``address.zip``, ``lines[].qty``), or the empty text for the whole row.
    expected_type, actual_type:
        What stands there on either side: an Arrow type in our own words, ``null``, or nothing for a missing row.
    reason:
        What is wrong, without any row value.
    reader:
        Who read it.
    values:
        The two values themselves, shown only by :meth:`Hidden.reveal`.
    why:
        What made it, where the table's history tells.
    """

    file: str | None
    row: int | None
    path: str
    expected_type: str
    actual_type: str
    reason: str
    reader: str = ""
    kind: Kind = "value"
    values: Hidden | None = field(default=None, repr=False, compare=False)
    why: str = field(default="", compare=False)

    @property
    def rule(self) -> str:
        return RULE

    @property
    def expected_value(self) -> Any:
        """The value that is expected, for a terminal whose user asked for it; None where none was kept."""
        return None if self.values is None else self.values.reveal()[0]

    @property
    def actual_value(self) -> Any:
        """The value that was read, likewise."""
        return None if self.values is None else self.values.reveal()[1]

    def to_json(self) -> dict[str, Any]:
        """The mismatch without the values, and without those of the file's partition."""
        found = {
            "rule": RULE,
            "file": None if self.file is None else public_path(self.file),
            "row": self.row,
            "path": self.path,
            "expected_type": self.expected_type,
            "actual_type": self.actual_type,
            "reason": self.reason,
            "reader": self.reader,
            "why": self.why,
        }
        if self.values is not None:
            found["expected_digest"], found["actual_digest"] = self.values.digests
        return found

    def __str__(self) -> str:
        where = public_path(self.file) if self.file is not None else "the table"
        if self.row is not None:
            where += f", row {self.row}"
        if self.path:
            where += f", {self.path}"
        types = ""
        if self.expected_type or self.actual_type:
            types = f" (expected {self.expected_type or 'nothing'}, found {self.actual_type or 'nothing'})"
        return f"{where}: {self.reason}{types}{f'; {self.why}' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One path of one batch at which rows differ in one way.

    ``rows`` numbers the rows within the batch (int64, ascending); ``expected`` and ``actual`` hold what stands there
    for the first of them.
    """

    path: str
    kind: Kind
    rows: pa.Array
    expected: pa.Array
    actual: pa.Array
    expected_type: str
    actual_type: str


# --- types --------------------------------------------------------------------------------------------------------


def type_differences(
    expected: pa.DataType, actual: pa.DataType, path: str, type_: avro.AvroType | None = None
) -> Iterator[tuple[str, str, str]]:
    """The leaves at which two normal types differ: path, expected and actual type in words.

    A column that one side does not have at all comes as the null type and is a matter of values.
    """
    t = pa.types
    if expected.equals(actual) or t.is_null(expected) or t.is_null(actual):
        return
    if t.is_struct(expected) and t.is_struct(actual):
        there = {f.name: f.type for f in actual}
        for wanted in expected:
            below, child = _child(path, wanted.name, type_)
            if wanted.name in there:
                yield from type_differences(wanted.type, there.pop(wanted.name), below, child)
            else:
                yield below, canonical.type_text(wanted.type), ""
        for name, found in there.items():
            yield _child(path, name, type_)[0], "", canonical.type_text(found)
    elif t.is_list(expected) and t.is_list(actual):
        yield from type_differences(expected.value_type, actual.value_type, paths.items(path), _items(type_))
    elif t.is_map(expected) and t.is_map(actual):
        if not expected.key_type.equals(actual.key_type):
            yield path, canonical.type_text(expected), canonical.type_text(actual)
        yield from type_differences(expected.item_type, actual.item_type, paths.values(path), _values(type_))
    else:
        yield path, canonical.type_text(expected), canonical.type_text(actual)


def column_type(name: str, record: avro.Record | None) -> avro.AvroType | None:
    """The Avro type of a top-level column; None for a foreign one."""
    found = record.field(name) if record is not None else None
    return found.type if found is not None else None


def _child(path: str, name: str, type_: avro.AvroType | None) -> tuple[str, avro.AvroType | None]:
    plain = avro.without_null(type_) if type_ is not None else None
    if isinstance(plain, avro.Union):
        branches = dict(zip(avro.branch_names(plain), plain.values, strict=True))
        return paths.branch(path, name), branches.get(name)
    if isinstance(plain, avro.Record):
        found = plain.field(name)
        return paths.child(path, name), found.type if found else None
    return paths.child(path, name), None


def _items(type_: avro.AvroType | None) -> avro.AvroType | None:
    plain = avro.without_null(type_) if type_ is not None else None
    return plain.items if isinstance(plain, avro.Array) else None


def _values(type_: avro.AvroType | None) -> avro.AvroType | None:
    plain = avro.without_null(type_) if type_ is not None else None
    return plain.values if isinstance(plain, avro.Map) else None


# --- values -------------------------------------------------------------------------------------------------------


def differences(
    expected: pa.RecordBatch,
    actual: pa.RecordBatch,
    record: avro.Record | None = None,
    skip: Iterable[str] = (),
) -> list[Difference]:
    """Where two normalised batches of equally many rows differ.

    Columns are matched by name; one that a side lacks counts as all null there. Columns in *skip* (whose types
    differ) are left out. *record* names the branches of unions in paths.
    """
    found: list[Difference] = []
    rows: pa.Array | None = None
    left_out = frozenset(skip)
    names = [*expected.schema.names, *(n for n in actual.schema.names if n not in set(expected.schema.names))]
    for name in names:
        if name in left_out:
            continue
        one, two = _column(expected, name), _column(actual, name)
        if one is None or two is None:
            one = pa.nulls(expected.num_rows, two.type) if one is None and two is not None else one
            two = pa.nulls(expected.num_rows, one.type) if two is None and one is not None else two
        assert one is not None
        assert two is not None
        if equal(one, two):
            continue
        if rows is None:
            rows = canonical.counting(expected.num_rows)
        path, type_ = paths.child("", name), column_type(name, record)
        _differ(one, two, rows, path, type_, found)
    return found


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _differ(
    expected: pa.Array,
    actual: pa.Array,
    rows: pa.Array,
    path: str,
    type_: avro.AvroType | None,
    found: list[Difference],
    kind: Kind = "value",
) -> None:
    if equal(expected, actual):
        return
    if pa.types.is_null(expected.type) or pa.types.is_null(actual.type):
        # A column that one side lacks: null on that side.
        other = actual.type if pa.types.is_null(expected.type) else expected.type
        expected, actual = (a.cast(other) if pa.types.is_null(a.type) else a for a in (expected, actual))
    if _shape(expected.type) != _shape(actual.type):
        everywhere = pa.repeat(pa.scalar(True), len(expected))
        _note(found, path, "type", everywhere, expected, actual, rows)
        return
    is_list = pa.types.is_list(expected.type) or pa.types.is_map(expected.type)
    if expected.null_count or actual.null_count:
        there, read = expected.is_valid(), actual.is_valid()
        _note(found, path, "lost", pc.and_not(there, read), expected, actual, rows)
        gained = pc.and_not(read, there)
        if is_list:
            empty = pc.equal(canonical.lengths_of(actual), pa.scalar(0, pa.int64()))
            _note(found, path, "empty", pc.and_(gained, empty), expected, actual, rows)
            gained = pc.and_not(gained, empty)
        _note(found, path, "gained", gained, expected, actual, rows)
        both = pc.and_(there, read)
        expected, actual, rows = expected.filter(both), actual.filter(both), rows.filter(both)
    if len(expected) == 0:
        return
    if pa.types.is_struct(expected.type):
        theirs = dict(canonical.child_fields(actual))
        for name, ours in canonical.child_fields(expected):
            below, child = _child(path, name, type_)
            other = theirs[name] if name in theirs else pa.nulls(len(ours), ours.type)
            _differ(ours, other, rows, below, child, found, kind)
    elif is_list:
        lengths = canonical.lengths_of(expected)
        uneven = pc.not_equal(lengths, canonical.lengths_of(actual))
        if _note(found, path, "length", uneven, expected, actual, rows):
            even = pc.invert(uneven)
            expected, actual, rows = expected.filter(even), actual.filter(even), rows.filter(even)
            lengths = lengths.filter(even)
        ours, theirs_ = canonical.items_of(expected), canonical.items_of(actual)
        rows = rows.take(owners(lengths, len(ours)))
        if pa.types.is_map(expected.type):
            entries, other = dict(canonical.child_fields(ours)), dict(canonical.child_fields(theirs_))
            _differ(entries["key"], other["key"], rows, path, None, found, "key")
            _differ(entries["value"], other["value"], rows, paths.values(path), _values(type_), found)
        else:
            _differ(ours, theirs_, rows, paths.items(path), _items(type_), found, kind)
    else:
        _note(found, path, kind, pc.not_equal(_bits(expected), _bits(actual)), expected, actual, rows)


def _note(
    found: list[Difference],
    path: str,
    kind: Kind,
    mask: pa.Array,
    expected: pa.Array,
    actual: pa.Array,
    rows: pa.Array,
) -> bool:
    """Note the places that *mask* marks; whether there are any."""
    places = pc.indices_nonzero(mask)
    if len(places) == 0:
        return False
    numbers = rows.take(places)
    if len(numbers) > 1:
        # Several items of one row are one place; rows come in order.
        new = pc.not_equal(numbers.slice(1), numbers.slice(0, len(numbers) - 1))
        new = pa.concat_arrays([pa.array([True]), new])
        places, numbers = places.filter(new), numbers.filter(new)
    first = places.slice(0, ROWS_NAMED)
    text = canonical.type_text(expected.type)
    found.append(
        Difference(
            path,
            kind,
            numbers,
            expected.take(first),
            actual.take(first),
            "null" if kind in ("gained", "empty") else text,
            "null" if kind == "lost" else canonical.type_text(actual.type),
        )
    )
    return True


def owners(lengths: pa.Array, items: int) -> pa.Array:
    """For each item the index of the list it lies in."""
    offsets = canonical.with_zero(pc.cumulative_sum(lengths)).cast(pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.nulls(items, pa.null()))
    return pc.list_parent_indices(lists)


def _shape(type_: pa.DataType) -> str:
    """What two sides have to share so that their values can be compared at all."""
    if pa.types.is_struct(type_):
        return "struct"
    if pa.types.is_map(type_):
        return "map"
    return "list" if pa.types.is_list(type_) else canonical.type_text(type_)


def equal(one: pa.Array, two: pa.Array) -> bool:
    """Whether two normal arrays are of the same type and hold the same values, bit by bit, in the same order."""
    return bool(one.type.equals(two.type) and _bits(one).equals(_bits(two)))


def _bits(array: pa.Array) -> pa.Array:
    """Floats, at any depth, as the integers of the same bits: -0.0 is not 0.0, and each NaN is itself."""
    type_ = _bits_type(array.type)
    return array if type_ is None else array.view(type_)


@functools.lru_cache(maxsize=1024)
def _bits_type(type_: pa.DataType) -> pa.DataType | None:
    """The type with integers for floats; None where it holds none."""
    t = pa.types
    if t.is_floating(type_):
        return {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[type_.bit_width]
    inner = [_bits_type(type_.field(i).type) for i in range(type_.num_fields)]
    if all(each is None for each in inner):
        return None
    made = [type_.field(i).type if each is None else each for i, each in enumerate(inner)]
    if t.is_struct(type_):
        return pa.struct([pa.field(field.name, each) for field, each in zip(type_, made, strict=True)])
    if t.is_map(type_):
        entry = made[0]
        return pa.map_(entry.field(0).type, entry.field(1).type)
    return pa.list_(made[0])


# --- naming -------------------------------------------------------------------------------------------------------


def mismatches(
    difference: Difference,
    places: Sequence[tuple[str | None, int | None]],
    reader: str = "",
) -> list[Mismatch]:
    """The first rows of a difference as mismatches. ``places[i]`` names file and row of the i-th place."""
    found = []
    for index, (file, row) in enumerate(places[: len(difference.expected)]):
        found.append(
            Mismatch(
                file,
                row,
                difference.path,
                difference.expected_type,
                difference.actual_type,
                REASONS[difference.kind],
                reader,
                difference.kind,
                Hidden(_python(difference.expected, index), _python(difference.actual, index)),
            )
        )
    return found


def _python(array: pa.Array, index: int) -> Any:
    try:
        return array[index].as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        # Nanoseconds and years beyond 9999 have no Python value without pandas.
        return str(array[index].cast(pa.int64()))


def aligned(
    expected: Iterator[pa.RecordBatch], actual: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None]]:
    """Both sides cut to the same batches. Where one ends first, the rest of the other comes with None."""
    one = two = None
    while True:
        one = one if one is not None and one.num_rows else _next(expected)
        two = two if two is not None and two.num_rows else _next(actual)
        if one is None or two is None:
            break
        count = min(one.num_rows, two.num_rows)
        yield one.slice(0, count), two.slice(0, count)
        one, two = one.slice(count), two.slice(count)
    while one is not None:
        yield one, None
        one = _next(expected)
    while two is not None:
        yield None, two
        two = _next(actual)


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)
