"""Whether the bytes of a block are what Avro encodes (Avro 1.12, "Binary Encoding"), looked at before fastavro decodes.

fastavro believes what it reads: it takes the index -1 of a union for its last branch, drops the bits beyond the 64th of
a number, goes on for ever where items have no bytes, and ends the process where values are nested too deep for its
stack. So the structure is walked first: numbers, lengths, counts and branches, and that the rows end where the block
does. What the values are is looked at later, column by column.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from lakeevolve.avro.container.blocks import Block, Excess
from lakeevolve.avro.container.header import number
from lakeevolve.avro.container.spread import has_bytes
from lakeevolve.model.types import Array, AvroType, Enum, Fixed, Map, NamedRef, Primitive, Record, Union

#: Rows without bytes in a block at most: a few bytes may claim any number of them.
ROWS: Final = 10_000_000
#: The same of items of arrays, all those of a block together, which are held in memory.
ITEMS: Final = 1_000_000
#: Records, arrays and maps within each other at most; fastavro takes up to two kilobytes of the stack for each.
LEVELS: Final = 1_000

_SKIP, _NUMBER, _BYTES, _BRANCH, _GO, _ITEMS, _NEXT, _CALL, _RETURN = range(9)
_Step: TypeAlias = tuple[int, Any]
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class Walk:
    """The walk over rows of one type, as steps: what to pass over, and where to go on."""

    def __init__(self, type_: AvroType) -> None:
        self._has_bytes = has_bytes(type_)
        self._steps: list[_Step] = []
        #: Where the steps of each record begin, by its name.
        self._records: dict[str, int] = {}
        self._add(type_)
        self._steps.append((_RETURN, None))
        self._first = self._records[type_.name] if isinstance(type_, Record) else 0

    def _add(self, type_: AvroType) -> None:
        match type_:
            case Primitive(name="int" | "long") | Enum():
                self._steps.append((_NUMBER, None))
            case Primitive(name="string" | "bytes"):
                self._steps.append((_BYTES, None))
            case Primitive():
                self._skip(_SIZES[type_.name])
            case Fixed():
                self._skip(type_.size)
            case Array():
                self._items(type_.items, keyed=False)
            case Map():
                self._items(type_.values, keyed=True)
            case Union():
                self._union(type_)
            case Record():
                self._record(type_)
            case NamedRef():
                self._steps.append((_CALL, self._records[type_.name]))

    def _skip(self, size: int) -> None:
        if self._steps and self._steps[-1][0] == _SKIP:  # nothing goes on between two of them
            size += self._steps.pop()[1]
        if size:
            self._steps.append((_SKIP, size))

    def _items(self, type_: AvroType, *, keyed: bool) -> None:
        at = len(self._steps)
        self._steps.append((_ITEMS, None))
        if keyed:
            self._steps.append((_BYTES, None))
        if keyed or has_bytes(type_):
            self._add(type_)
        match self._steps[at + 1 :]:
            case []:
                self._steps[at] = (_ITEMS, (0, at + 1))
            case [(step, size)] if step == _SKIP:
                self._steps[at:] = [(_ITEMS, (size, at + 1))]
            case _:
                self._steps.append((_NEXT, at))
                self._steps[at] = (_ITEMS, (None, len(self._steps)))

    def _union(self, type_: Union) -> None:
        at = len(self._steps)
        self._steps.append((_BRANCH, None))
        begins, ends = [], []
        for branch in type_.branches:
            begins.append(len(self._steps))
            self._add(branch)
            ends.append(len(self._steps))
            self._steps.append((_GO, None))
        behind = len(self._steps)
        for end in ends:
            self._steps[end] = (_GO, behind)
        # A branch without bytes has no step but to go on.
        first = [behind if begin == end else begin for begin, end in zip(begins, ends, strict=True)]
        self._steps[at] = (_BRANCH, first)

    def _record(self, type_: Record) -> None:
        if type_.name not in self._records:
            at = len(self._steps)
            self._steps.append((_GO, None))
            self._records[type_.name] = at + 1
            for field in type_.fields:
                self._add(field.type)
            self._steps.append((_RETURN, None))
            self._steps[at] = (_GO, len(self._steps))
        self._steps.append((_CALL, self._records[type_.name]))

    def check(self, block: Block) -> None:
        """Walk over the rows of a block.

        Raises ``ValueError`` or ``IndexError`` where it does not hold them and nothing else.
        """
        count, size = block.count, len(block.data)
        if not self._has_bytes:
            if count > ROWS:
                raise Excess(f"the block has more than {ROWS:,} rows without a byte")
            count = 0
        if count > size:
            raise ValueError("the block holds fewer bytes than rows")
        if self._end(block.data, count) != size:
            raise ValueError("the block holds more or fewer bytes than its rows")

    def _end(self, data: bytes, count: int) -> int:
        """Where the rows end."""
        steps, size = self._steps, len(data)
        at = without = 0
        for _ in range(count):
            step = self._first
            # Behind a record, the step to go on with; within items, how many of them are left.
            back = [-1]
            while step >= 0:
                what, told = steps[step]
                step += 1
                if what == _NUMBER:
                    begun = at
                    while data[at] > 0x7F:
                        at += 1
                    at += 1
                    if at - begun > 9:
                        number(data, begun)
                elif what == _BYTES:
                    length = data[at]
                    at += 1
                    if length > 0x7F:
                        length, at = number(data, at - 1)
                    if length & 1:
                        raise ValueError("a length is negative")
                    at += length >> 1
                elif what == _SKIP:
                    at += told
                elif what == _BRANCH:
                    branch = data[at]
                    at += 1
                    if branch > 0x7F:
                        branch, at = number(data, at - 1)
                    if branch & 1 or branch >> 1 >= len(told):
                        raise ValueError("a union has no branch of that number")
                    step = told[branch >> 1]
                elif what == _GO:
                    step = told
                elif what == _CALL:
                    if len(back) > LEVELS:
                        raise Excess(f"the block has values that are nested more than {LEVELS:,} levels deep")
                    back.append(step)
                    step = told
                elif what == _RETURN:
                    step = back.pop()
                elif what == _NEXT:
                    if back[-1]:
                        back[-1] -= 1
                        step = told + 1
                    else:
                        back.pop()
                        step = told
                else:
                    items, at = number(data, at)
                    fixed, end = told
                    if not items:
                        step = end
                        continue
                    if items & 1:
                        # Negative, and then it is said how many bytes the items have; no reader of items asks.
                        _, at = number(data, at)
                        items += 1
                    items >>= 1
                    if fixed is None:
                        back.append(items - 1)
                    else:
                        at += items * fixed
                        step -= 1
                    if fixed == 0:
                        without += items
                        if without > ITEMS:
                            raise Excess(f"the block has more than {ITEMS:,} items without a byte")
                    elif items > size:
                        raise ValueError("a list holds more items than the block has bytes")
        return at
