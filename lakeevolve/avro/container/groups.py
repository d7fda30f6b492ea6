"""Batches from polars-avro: blocks are decoded in groups, so that the work for each call is worth while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakeevolve.avro.container.blocks import Block, Cuts, blocks
from lakeevolve.avro.container.fast import Decoder, Undecodable, can_hold
from lakeevolve.avro.container.header import Header
from lakeevolve.avro.container.rows import Rows
from lakeevolve.errors import SourceError

#: Rows or encoded bytes of a group at least, unless the file ends; a batch ends in the last block of each.
_ROWS: Final = 1 << 16
_BYTES: Final = 4 << 20
#: Rows of a group for each row of a block that is decoded again at most.
_AGAIN: Final = 16

_log = logging.getLogger("lakeevolve.avro")


@dataclass(slots=True)
class _Group:
    """Blocks that are decoded together.

    ``pieces`` are the rows that are to come from them, cut where batches end; ``skip`` the rows of the first block
    that have come already; ``cut`` the state of the cuts before the first block.
    """

    cut: tuple[int, int]
    blocks: list[Block] = field(default_factory=list)
    pieces: list[tuple[int, bool]] = field(default_factory=list)
    skip: int = 0


def by_groups(name: str, header: Header, decoder: Decoder, rows: Rows, batch_size: int) -> Iterator[list[pa.Array]]:
    """The rows of a file in the wire layout, one list of arrays for each batch: what ``rows`` would give.

    Raises ``SourceError`` for damage, behind the batches that end before it.
    """
    source, cuts = blocks(name, header), Cuts(batch_size)
    begun: list[pa.Array] = []
    group = _Group((0, 0))
    damage: SourceError | None = None
    more = True
    while more:
        before = group.cut
        try:
            before, more = _fill(group, source, cuts)
        except SourceError as error:
            damage, more = error, False
        if not group.blocks:
            break
        try:
            array = decoder.decode(group.blocks)
        except Undecodable:
            first = group.blocks[0]
            rest = blocks(name, header, first.number, first.at)
            yield from rows.decode(rest, Cuts(batch_size, *group.cut), begun, group.skip)
            _log.warning("%s: from block %d on, polars-avro does not decode what fastavro does", name, first.number)
            return
        start = end = group.skip
        for count, ends in group.pieces:
            end += count
            if ends:
                yield [*begun, array.slice(start, end - start)]
                begun, start = [], end
        last, rest_of_last = group.blocks[-1], end - start
        group = _Group((cuts.rows, cuts.held))
        if more and 0 < rest_of_last < last.count and last.count * _AGAIN <= end:
            # A batch that begins within a block takes all its rows from one array, without a copy of them.
            group = _Group(before, [last], [(rest_of_last, False)], last.count - rest_of_last)
        elif rest_of_last:
            begun = [*begun, array.slice(start)]
    if damage is not None:
        raise damage
    if begun:
        yield begun


def _fill(group: _Group, source: Iterator[Block], cuts: Cuts) -> tuple[tuple[int, int], bool]:
    """Take blocks until the group is large enough.

    Returns the state of the cuts before the last block, and whether there may be more blocks.
    """
    before = group.cut
    count = held = 0
    for block in source:
        if not block.count and not block.data:
            continue
        before = cuts.rows, cuts.held
        group.blocks.append(block)
        if not can_hold(block):
            return before, True  # whatever it says, there are not so many pieces
        pieces = list(cuts.cut(block))
        group.pieces += pieces
        count += block.count
        held += len(block.data)
        if (count >= _ROWS or held >= _BYTES) and any(ends for _, ends in pieces):
            return before, True
    return before, False
