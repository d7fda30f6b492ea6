"""A 128-bit digest per row of its canonical form.

The digest is two 64-bit words, computed column by column with Arrow kernels and no code per row. It depends on the
values, the column names and the column types alone: not on batch boundaries, slices, garbage under nulls, column
order, machine or library version. All arithmetic is modulo 2**64; constants are the first eight bytes (little endian)
of BLAKE2b over a label.

A leaf is one word or several, which :mod:`lakeevolve.replaying.words` takes from it:

=================  ===================================================================================================
value              words
=================  ===================================================================================================
up to 8 bytes      one: integers sign-extended, floats and the rest by their bits (NaN payload and -0.0 count); a double
                   is folded
16, 32 bytes       two for each 16 bytes
bytes, text        two, folded, for each of the first four pieces of 12 bytes: the piece's length with its first four
                   bytes, and its other eight; and of longer values two more, ``sum P**i mix(w_i) + n L`` over the
                   zero-padded little-endian 8-byte words ``w_i`` of all ``n`` bytes, and the same with Q and M
list               two: the same sums over the digests of the items, each of which is a row of its own
map                as a list of its entries in stored order: another order is another value
=================  ===================================================================================================

Of each row two sums are taken of ``word * c``, with c from the leaf's path, its type and the word's place. Where there
are two words, the first belongs to the first sum and the second to the second; single words belong to either, by their
path. Each row adds a constant to the first sum, and so does each value that is there, be it a leaf or a record; a null
adds nothing, and neither does what lies beneath it. So a column that is missing is a column of nulls, and null, empty
and all-null differ at each level. The digest is ``(mix(first + R second), mix(second + S first))``.

A row in which one word differs always has another digest, as multiplying by an odd constant loses nothing. The digest
finds faults; it is no defence against a forger who picks values for it, and evidence holds none of it
(:mod:`lakeevolve.replaying.filehash`).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.replaying import words as w
from lakeevolve.replaying.canonical import MAP_ENTRY, list_parts, normalise, normalise_array, type_text

#: Lists are hashed in parts of at most this many items, which bounds the scratch memory.
_ITEMS: Final = 1 << 19


class Words(NamedTuple):
    """One pair of words per row."""

    a: pa.Array
    b: pa.Array

    def filter(self, mask: pa.Array) -> Words:
        """The words of the rows that the mask lets through."""
        return Words(self.a.filter(mask), self.b.filter(mask))


@dataclass(frozen=True, slots=True)
class Sum:
    """The digest of a multiset of rows: how many, and the sums of their words. The order of rows does not count."""

    count: int = 0
    a: int = 0
    b: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.count + other.count, (self.a + other.a) & w.MASK, (self.b + other.b) & w.MASK)

    @classmethod
    def of(cls, words: Words) -> Sum:
        """The sum over rows."""
        return cls(len(words.a), pc.sum(words.a).as_py() or 0, pc.sum(words.b).as_py() or 0)

    @classmethod
    def under(cls, words: Words, mask: pa.Array) -> Sum:
        """The sum over the rows that the mask (without nulls) lets through."""
        count = mask.true_count
        if count == 0:
            return cls()
        return cls.of(words if count == len(mask) else words.filter(mask))


def row_digests(batch: pa.RecordBatch) -> Words:
    """The digest of every row.

    Parameters
    ----------
    batch:
        Rows in any layout; they are normalised first.

    >>> import pyarrow as pa
    >>> one = row_digests(pa.record_batch({"id": [1, 2], "name": ["a", None]}))
    >>> two = row_digests(pa.record_batch({"name": pa.array([None, "a"], pa.large_string()), "id": [2, 1]}))
    >>> one.a[0] == two.a[1], one.a[0] == two.a[0]
    (True, False)
    """
    return Digests(batch).rows()


class Digests:
    """The digests of a batch's rows, whole or of some of their columns.

    Parameters
    ----------
    batch:
        Rows in any layout; they are normalised first.
    keep:
        The columns that will be asked for by themselves, or replaced.
    """

    __slots__ = ("_kept", "_plan", "_total")

    def __init__(self, batch: pa.RecordBatch, keep: Collection[str] = ()) -> None:
        normal = normalise(batch)
        self._plan = _plan(normal.schema)
        self._kept: dict[str, _Sums] = {}
        self._total = _Sums(normal.num_rows)
        for name, column in zip(normal.schema.names, normal.columns, strict=True):
            if name in keep:
                self._kept[name] = self._column(name, column)
                self._total.plus(self._kept[name])
            else:
                self._plan[name].add(column, self._total)

    def _column(self, name: str, column: pa.Array) -> _Sums:
        sums = _Sums(len(column))
        self._plan[name].add(column, sums)
        return sums

    def rows(self, names: Collection[str] | None = None) -> Words:
        """The digests of whole rows, or of rows that consist of *names* alone (of those that were kept)."""
        if names is None:
            return self._total.mixed()
        total = _Sums(self._total.count)
        for name, sums in self._kept.items():
            if name in names:
                total.plus(sums)
        return total.mixed()

    def replaced(self, columns: Mapping[str, pa.Array]) -> Digests:
        """The digests of the same rows with other values, of the same types, in some of the kept columns."""
        made = Digests.__new__(Digests)
        made._plan, made._kept, made._total = self._plan, dict(self._kept), _Sums(self._total.count)
        made._total.plus(self._total)
        for name, column in columns.items():
            made._total.plus(self._kept[name], pc.subtract)
            made._kept[name] = self._column(name, normalise_array(column))
            made._total.plus(made._kept[name])
        return made


class _Sums:
    """Both sums of each row over some of its words, while they are gathered.

    Words that come in pairs lie side by side, and are told apart only in the end.
    """

    __slots__ = ("constant", "count", "pairs", "single")

    def __init__(self, count: int) -> None:
        self.count = count
        self.single: list[pa.Array | None] = [None, None]
        self.pairs: pa.Array | None = None
        #: What each row has in the first sum besides.
        self.constant = _ROW

    def add(self, at: int, terms: pa.Array) -> None:
        before = self.single[at]
        self.single[at] = terms if before is None else pc.add(before, terms)

    def add_pairs(self, terms: pa.Array) -> None:
        self.pairs = terms if self.pairs is None else pc.add(self.pairs, terms)

    def plus(self, other: _Sums, operation: Any = pc.add) -> None:
        """Add the sums over other words, or take them away."""
        for at, terms in enumerate(other.single):
            if terms is not None:
                before = self.single[at]
                self.single[at] = operation(w.ZERO if before is None else before, terms)
        if other.pairs is not None:
            self.pairs = operation(w.ZERO if self.pairs is None else self.pairs, other.pairs)
        constant = other.constant - _ROW
        self.constant += constant if operation is pc.add else -constant

    def mixed(self) -> Words:
        """The digests."""
        sums = [w.zeros(self.count) if terms is None else terms for terms in self.single]
        if self.pairs is not None:
            sums = [pc.add(terms, each) for terms, each in zip(sums, w.split(self.pairs), strict=True)]
        first, second = sums
        first = pc.add(first, w.word(self.constant & w.MASK))
        return Words(w.mix(pc.add(first, pc.multiply(second, _R))), w.mix(pc.add(second, pc.multiply(first, _S))))


_ROW: Final = w.number("row")
_R: Final = w.odd("second in first")
_S: Final = w.odd("first in second")


# --- a schema's plan ----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _plan(schema: pa.Schema) -> Mapping[str, _Node]:
    return {field.name: _node(field.type, (field.name,)) for field in schema}


def _node(type_: pa.DataType, path: tuple[str, ...]) -> _Node:
    t = pa.types
    if t.is_struct(type_):
        return _Struct(path, "struct", [_node(field.type, (*path, field.name)) for field in type_])
    text = type_text(type_)
    if t.is_list(type_):
        return _List(path, text, _node(type_.value_type, ("[]",)))
    if t.is_map(type_):
        entry = pa.struct([pa.field(MAP_ENTRY[0], type_.key_type), pa.field(MAP_ENTRY[1], type_.item_type)])
        return _List(path, text, _node(entry, ("[]",)))
    return _Leaf(path, text)


class _Node(ABC):
    """How the values at one path are digested."""

    __slots__ = ("_factors", "_path", "_text", "_there")

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        self._path, self._text = path, text
        self._there = w.number("there", text, *path)
        self._factors: dict[tuple[str, int], Any] = {}

    def factor(self, label: str, number: int) -> Any:
        """The constant of a word."""
        found = self._factors.get((label, number))
        if found is None:
            found = self._factors[label, number] = w.odd(label, str(number), self._text, *self._path)
        return found

    def add(self, array: pa.Array, sums: _Sums) -> None:
        """Add the words of a field to the sums of its rows."""
        nulls = array.null_count
        if nulls == len(array):
            # The null type, and no rows at all, too.
            return
        ones = w.ones(array.is_valid()) if nulls else None
        if ones is None:
            sums.constant += self._there
        else:
            sums.add(0, pc.multiply(ones, w.word(self._there)))
        self.values(array, ones, sums)

    @abstractmethod
    def values(self, array: pa.Array, ones: pa.Array | None, sums: _Sums) -> None:
        """Add the words of values; *ones* says which are not null, None that all are."""


class _Leaf(_Node):
    __slots__ = ("_at",)

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(path, text)
        self._at = w.number("which sum", *path) & 1

    def values(self, array: pa.Array, ones: pa.Array | None, sums: _Sums) -> None:
        single = w.single(array)
        if single is not None:
            present = single if ones is None else pc.multiply(single, ones)
            sums.add(self._at, pc.multiply(present, self.factor("word", 0)))
            return
        for index, pairs in w.pairs(array, ones):
            sums.add_pairs(pc.multiply(pairs, self.factor("pair", index)))


class _Struct(_Node):
    __slots__ = ("_fields",)

    def __init__(self, path: tuple[str, ...], text: str, fields: Sequence[_Node]) -> None:
        super().__init__(path, text)
        self._fields = fields

    def values(self, array: pa.Array, ones: pa.Array | None, sums: _Sums) -> None:
        children = array.flatten() if ones is not None else map(array.field, range(len(self._fields)))
        for node, child in zip(self._fields, children, strict=True):
            node.add(child, sums)


class _List(_Node):
    __slots__ = ("_item",)

    def __init__(self, path: tuple[str, ...], text: str, item: _Node) -> None:
        super().__init__(path, text)
        self._item = item

    def values(self, array: pa.Array, ones: pa.Array | None, sums: _Sums) -> None:
        # A null list has no items and the length 0, which adds nothing.
        for at, words in enumerate(self._parts(array)):
            sums.add(at, pc.multiply(words, self.factor("list", at)))

    def _parts(self, array: pa.Array) -> tuple[pa.Array, pa.Array]:
        offsets, items = list_parts(array)
        if len(array) < 2 or len(items) <= _ITEMS:
            digests = _Sums(len(items))
            self._item.add(items, digests)
            return w.segments(*digests.mixed(), offsets)
        middle = len(array) // 2
        one, two = self._parts(array.slice(0, middle)), self._parts(array.slice(middle))
        return pa.concat_arrays([one[0], two[0]]), pa.concat_arrays([one[1], two[1]])
