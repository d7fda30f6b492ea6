"""Whether two sides hold the same rows whatever their order, and if not, which rows and where in them.

Two sums per side answer the first question in constant memory. The second is asked only when they differ, and takes
three more readings: which columns differ as a whole, which of 65,536 buckets of rows differ, and the rows of some of
those buckets. What stays in memory is bounded by :data:`ROWS_HELD`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.model.types import Record
from lakeevolve.replaying.canonical import counting
from lakeevolve.replaying.compare import REASONS, Hidden, Kind, Mismatch, differences, mismatches
from lakeevolve.replaying.digests import Digests, Sum, Words

#: At most this many rows of either side are held while faults are located.
ROWS_HELD: Final = 50_000

#: At most this many rows that one side lacks are paired with rows that the other lacks.
ROWS_PAIRED: Final = 200

#: At most this many buckets are looked into.
_BUCKETS: Final = 64
_BUCKET_SHIFT: Final = pa.scalar(48, pa.uint64())


class Rows(NamedTuple):
    """Some rows of one side, normalised, with where they come from.

    ``start`` is the number of the first row in ``file``, and ``picked`` the number of each (int64) where they do not
    follow each other; rows of which both are None have no numbers.
    """

    batch: pa.RecordBatch
    file: str | None = None
    start: int | None = None
    picked: pa.Array | None = None

    @property
    def numbers(self) -> pa.Array | None:
        """Each row's number in the file (int64)."""
        if self.picked is not None or self.start is None:
            return self.picked
        return pc.add(counting(self.batch.num_rows), pa.scalar(self.start, pa.int64()))

    def filter(self, mask: pa.Array) -> Rows:
        """The rows that the mask lets through."""
        numbers = self.numbers
        return Rows(self.batch.filter(mask), self.file, None, None if numbers is None else numbers.filter(mask))


Side = Callable[[], Iterable[Rows]]


@dataclass(frozen=True, slots=True)
class Located:
    """The mismatches that were found; ``more`` tells whether there may be others."""

    mismatches: tuple[Mismatch, ...] = ()
    more: bool = False


def locate(
    expected: Side,
    actual: Side,
    record: Record | None = None,
    *,
    label: Literal["expected", "actual"] = "expected",
    reader: str = "",
    file: str | None = None,
    beside: Side | None = None,
) -> Located:
    """Name the rows by which two multisets differ.

    Parameters
    ----------
    expected, actual:
        Each call reads the side anew.
    record:
        The rows' Avro type, which names the branches of unions.
    label:
        Whose files and row numbers a mismatch names.
    reader:
        Who read the actual side.
    file:
        Named where a row brings no file of its own.
    beside:
        Where the expected side is a part of something, all of it: a row that is there and not expected is named as
        such.

    Returns
    -------
    Located
        Nothing where the multisets are equal.
    """
    one, two = _Columns.read(expected), _Columns.read(actual)
    if one.rows == two.rows:
        return Located()
    key = _key(one, two)
    first, second = _Buckets.read(expected, key), _Buckets.read(actual, key)
    by_key = key is not None and first.keys == second.keys
    if not by_key:
        key = None
    differing = first.differing(second, by_key)
    chosen = _choose(differing, max(one.rows.count, two.rows.count))
    held = [_Held.read(side, key, chosen) for side in (expected, actual)]
    more = len(chosen) < len(differing) or any(h.full for h in held)
    return _match(held[0], held[1], record, label, reader, file, more, beside)


@dataclass(slots=True)
class _Columns:
    """First reading: the sums over whole rows and over each column."""

    rows: Sum = field(default_factory=Sum)
    columns: dict[str, Sum] = field(default_factory=dict)

    @classmethod
    def read(cls, side: Side) -> _Columns:
        found = cls()
        for rows in side():
            names = rows.batch.schema.names
            made = Digests(rows.batch, names)
            for name in names:
                found.columns[name] = found.columns.get(name, Sum()) + Sum.of(made.rows((name,)))
            found.rows += Sum.of(made.rows())
        return found


def _key(one: _Columns, two: _Columns) -> frozenset[str] | None:
    """The columns that hold the same values on both sides: what pairs a changed row with what it should be.

    None where there are no such columns, or only such (then values changed places between rows).
    """
    if one.rows.count != two.rows.count:
        return None
    names = one.columns.keys() | two.columns.keys()
    same = frozenset(name for name in names if one.columns.get(name) == two.columns.get(name))
    return same if same and same != names else None


def _keys(made: Digests, key: frozenset[str] | None) -> Words | None:
    return None if key is None else made.rows(key)


@dataclass(slots=True)
class _Buckets:
    """Second reading: the sums over the rows of each bucket, by key and by whole row."""

    by_key: Any = None
    by_row: Any = None
    keys: Sum = field(default_factory=Sum)

    @classmethod
    def read(cls, side: Side, key: frozenset[str] | None) -> _Buckets:
        found = cls()
        waiting: list[tuple[Words, Words | None]] = []
        held = 0
        for rows in side():
            made = Digests(rows.batch, key or ())
            words = made.rows()
            keys = _keys(made, key)
            waiting.append((words, keys))
            if keys is not None:
                found.keys += Sum.of(keys)
            held += rows.batch.num_rows
            if held >= 1 << 19:
                found._add(waiting)
                waiting, held = [], 0
        found._add(waiting)
        return found

    def _add(self, waiting: Sequence[tuple[Words, Words | None]]) -> None:
        if not waiting:
            return
        whole = [words for words, _ in waiting]
        self.by_row = _grouped(self.by_row, whole, whole)
        keys = [words for _, words in waiting if words is not None]
        if keys:
            self.by_key = _grouped(self.by_key, keys, whole)

    def differing(self, other: _Buckets, by_key: bool) -> list[int]:
        """The buckets whose rows differ."""
        one = _totals(self.by_key if by_key else self.by_row)
        two = _totals(other.by_key if by_key else other.by_row)
        return sorted(bucket for bucket in one.keys() | two.keys() if one.get(bucket) != two.get(bucket))


def _grouped(table: Any, keys: Sequence[Words], words: Sequence[Words]) -> Any:
    new = pa.table(
        {
            "bucket": _bucket(pa.concat_arrays([k.a for k in keys])),
            "count": pa.repeat(pa.scalar(1, pa.int64()), sum(len(k.a) for k in keys)),
            "a": pa.concat_arrays([w.a for w in words]),
            "b": pa.concat_arrays([w.b for w in words]),
        }
    )
    both = new if table is None else pa.concat_tables([table, new])
    sums = both.group_by("bucket").aggregate([("count", "sum"), ("a", "sum"), ("b", "sum")])
    return sums.select(["bucket", "count_sum", "a_sum", "b_sum"]).rename_columns(["bucket", "count", "a", "b"])


def _bucket(words: pa.Array) -> pa.Array:
    return pc.shift_right(words, _BUCKET_SHIFT)


def _totals(table: Any) -> dict[int, tuple[int, int, int]]:
    if table is None:
        return {}
    columns = [table.column(name).to_pylist() for name in ("bucket", "count", "a", "b")]
    return {bucket: (count, a, b) for bucket, count, a, b in zip(*columns, strict=True)}


def _choose(differing: Sequence[int], rows: int) -> list[int]:
    """As many of the buckets as keep the rows held within bounds, one at least."""
    per_bucket = max(1, rows >> 16)
    return list(differing[: max(1, min(_BUCKETS, ROWS_HELD // per_bucket))])


@dataclass(slots=True)
class _Held:
    """Third reading: the rows of the chosen buckets, each distinct row counted and its first few copies held."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    digests: list[tuple[int, int]] = field(default_factory=list)
    keys: list[tuple[int, int]] = field(default_factory=list)
    columns: list[dict[str, int]] = field(default_factory=list)
    places: list[tuple[str | None, int | None]] = field(default_factory=list)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    full: bool = False

    @classmethod
    def read(cls, side: Side, key: frozenset[str] | None, chosen: Sequence[int]) -> _Held:
        found = cls()
        wanted = pa.array(chosen, pa.uint64())
        for rows in side():
            made = Digests(rows.batch, rows.batch.schema.names)
            words = made.rows()
            keys = _keys(made, key) or words
            places = pc.indices_nonzero(pc.is_in(_bucket(keys.a), wanted))
            if len(places) == 0:
                continue
            kept = found._count(_pairs(words, places))
            if kept:
                found._hold(rows, made, words, keys, places.take(pa.array(kept, pa.int64())))
        return found

    def _count(self, read: Sequence[tuple[int, int]]) -> list[int]:
        """Count rows; the indexes of those that are to be held."""
        kept = []
        for index, digest in enumerate(read):
            before = self.counts.get(digest, 0)
            if before == 0 and len(self.counts) >= ROWS_HELD:
                self.full = True
                continue
            self.counts[digest] = before + 1
            if before < ROWS_PAIRED:
                kept.append(index)
        return kept

    def _hold(self, rows: Rows, made: Digests, words: Words, keys: Words, places: pa.Array) -> None:
        self.batches.append(rows.batch.take(places))
        self.digests += _pairs(words, places)
        self.keys += _pairs(keys, places)
        by_name = {name: made.rows((name,)).a.take(places).to_pylist() for name in rows.batch.schema.names}
        for index in range(len(places)):
            self.columns.append({name: values[index] for name, values in by_name.items()})
        own = rows.numbers
        numbers = [None] * len(places) if own is None else own.take(places).to_pylist()
        self.places += [(rows.file, number) for number in numbers]

    def row(self, index: int) -> pa.RecordBatch:
        for batch in self.batches:
            if index < batch.num_rows:
                return batch.slice(index, 1)
            index -= batch.num_rows
        raise IndexError(index)

    def surplus(self, other: _Held) -> tuple[list[int], bool]:
        """The held rows that *other* has fewer copies of, the last copies first to go; whether that is all of them."""
        left = self.counts - other.counts
        found = []
        for index in range(len(self.digests) - 1, -1, -1):
            if left[self.digests[index]] > 0:
                left[self.digests[index]] -= 1
                found.append(index)
        found.reverse()
        return found[:ROWS_PAIRED], len(found) <= ROWS_PAIRED and not any(left.values())


def _pairs(words: Words, places: pa.Array) -> list[tuple[int, int]]:
    return list(zip(words.a.take(places).to_pylist(), words.b.take(places).to_pylist(), strict=True))


def _match(
    expected: _Held,
    actual: _Held,
    record: Record | None,
    label: Literal["expected", "actual"],
    reader: str,
    file: str | None,
    more: bool,
    beside: Side | None,
) -> Located:
    lacking, all_lacking = expected.surplus(actual)
    beyond, all_beyond = actual.surplus(expected)
    more = more or not (all_lacking and all_beyond)
    pairs = _paired(expected, actual, lacking, beyond)
    found: list[Mismatch] = []

    def name(held: _Held, index: int) -> tuple[str | None, int | None]:
        place = held.places[index]
        return place if place[0] is not None else (file, place[1])

    for i, j in sorted(pairs.items()):
        place = name(expected, i) if label == "expected" else name(actual, j)
        for difference in differences(expected.row(i), actual.row(j), record):
            found += mismatches(difference, [place], reader)
    if found and (expected.full or actual.full):
        # What has no partner among the rows held may have one among those that are not.
        return Located(tuple(found), True)
    for i in lacking:
        if i not in pairs:
            found.append(_whole(name(expected, i), "missing", reader, expected.row(i), None))
    matched = set(pairs.values())
    left_over = [j for j in beyond if j not in matched]
    kept = _kept(beside, [actual.digests[j] for j in left_over if actual.digests[j] not in expected.counts])
    first_of = {digest: index for index, digest in reversed(list(enumerate(expected.digests)))}
    for j in left_over:
        waiting = kept.get(actual.digests[j])
        if waiting:
            found.append(_whole(waiting.pop(0), "kept", reader, None, actual.row(j)))
            continue
        original = first_of.get(actual.digests[j])
        place = name(actual, j)
        if original is not None and (label == "expected" or place[0] is None):
            place = name(expected, original)
        kind: Kind = "extra" if original is None else "doubled"
        found.append(_whole(place, kind, reader, None, actual.row(j)))
    return Located(tuple(found), more)


def _kept(beside: Side | None, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[Any]]:
    """Where the rows of these digests are, as often as they are asked for."""
    found: dict[tuple[int, int], list[Any]] = defaultdict(list)
    if beside is None or not wanted:
        return found
    left = Counter(wanted)
    firsts = pa.array([a for a, _ in left], pa.uint64())
    for rows in beside():
        words = Digests(rows.batch, ()).rows()
        places = pc.indices_nonzero(pc.is_in(words.a, firsts))
        numbers = rows.numbers
        for digest, at in zip(_pairs(words, places), places.to_pylist(), strict=True):
            if left[digest] > 0:
                left[digest] -= 1
                found[digest].append((rows.file, None if numbers is None else numbers[at].as_py()))
        if not any(left.values()):
            break
    return found


def _whole(
    place: tuple[str | None, int | None],
    kind: Kind,
    reader: str,
    expected: pa.RecordBatch | None,
    actual: pa.RecordBatch | None,
) -> Mismatch:
    values = Hidden(*(None if batch is None else batch.to_pylist()[0] for batch in (expected, actual)))
    ours, theirs = ("row" if batch is not None else "" for batch in (expected, actual))
    return Mismatch(*place, "", ours, theirs, REASONS[kind], reader, kind, values)


def _paired(expected: _Held, actual: _Held, lacking: Sequence[int], beyond: Sequence[int]) -> dict[int, int]:
    """Which row of the actual side each lacking row became: by the same key, else by most columns alike.

    A row that is a copy of one that belongs there has rather been read twice, unless a single column explains it. Rows
    that have nothing in common became each other only where there is a single column.
    """
    pairs: dict[int, int] = {}
    waiting = defaultdict(list)
    for j in beyond:
        waiting[actual.keys[j]].append(j)
    rest = []
    for i in lacking:
        same = waiting.get(expected.keys[i])
        if same:
            best = max(same, key=lambda j: _alike(expected.columns[i], actual.columns[j]))
            same.remove(best)
            pairs[i] = best
        else:
            rest.append(i)
    if pairs and (expected.full or actual.full):
        # The partners of the others may not have been held.
        return pairs
    taken = set(pairs.values())
    free = [j for j in beyond if j not in taken]
    copies = {j for j in free if actual.digests[j] in expected.counts}
    scored = [(j not in copies, _alike(expected.columns[i], actual.columns[j]), -i, -j) for i in rest for j in free]
    for original, alike, negative_i, negative_j in sorted(scored, reverse=True):
        i, j = -negative_i, -negative_j
        columns = len(expected.columns[i])
        least = min(1, columns - 1) if original else columns - 1
        if i not in pairs and j not in taken and alike >= least:
            pairs[i] = j
            taken.add(j)
    return pairs


def _alike(one: dict[str, int], two: dict[str, int]) -> int:
    return sum(two.get(name) == word for name, word in one.items())
