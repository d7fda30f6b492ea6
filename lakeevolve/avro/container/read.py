"""Reading an object container file: who decodes it, and batches of resolved rows."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.arrow.layout import convert
from lakeevolve.avro.arrow.prune import Pruned, prune
from lakeevolve.avro.arrow.read import batch_of, checked, read_array
from lakeevolve.avro.arrow.types import root_type
from lakeevolve.avro.container import fast
from lakeevolve.avro.container.blocks import HELD, Block, Cuts, blocks, unpacker
from lakeevolve.avro.container.columns import columns
from lakeevolve.avro.container.header import Header, read_header
from lakeevolve.avro.container.rows import Rows
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import SourceError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType

#: Rows and encoded bytes that polars-avro decodes at a time, once there is a batch.
_ROWS: Final = 1 << 17
_BYTES: Final = 8 << 20

_log = logging.getLogger("lakeevolve.avro")


def read_avro(
    path: str | os.PathLike[str], reader: Schema | None = None, batch_size: int = 65_536
) -> pa.RecordBatchReader:
    """Read an Avro object container file as Arrow.

    With the extra ``fast`` it is decoded by polars-avro, unless a type in it is one that polars-avro does not know;
    otherwise by fastavro, which takes about ten times as long. The logger ``lakeevolve.avro`` tells (INFO) which of
    the two it is, and why.

    Parameters
    ----------
    path:
        A local file of any codec that Avro specifies.
    reader:
        The schema to read it as; None for the file's own. Fields that it leaves out may be of types that have no
        table form.
    batch_size:
        Rows per batch at most. Batches are shorter where rows are large: memory does not grow with the file.

    Returns
    -------
    pyarrow.RecordBatchReader
        With the schema ``arrow_schema(reader)``. The file is read as the batches are consumed. A file that was cut
        off exactly where a block ends is a valid, shorter file; nothing in it tells.

    Raises
    ------
    SourceNotFound, SourceError, SchemaError
        As :func:`read_header`; and, while batches are consumed, ``SourceError`` for a file that is cut off or
        damaged, with the number of the block (from 1).
    ResolutionError
        The file's schema cannot be read as *reader*; ``ValueMismatch``, while batches are consumed, for a value.

    Examples
    --------
    >>> import tempfile, fastavro
    >>> schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    >>> with tempfile.NamedTemporaryFile(suffix=".avro") as file:
    ...     fastavro.writer(file, schema, [{"id": 1}, {"id": 2}])
    ...     file.flush()
    ...     read_avro(file.name).read_all().to_pylist()
    [{'id': 1}, {'id': 2}]
    """
    if batch_size < 1:
        raise SourceError("a batch holds at least one row", where=f"batch_size={batch_size}")
    name = os.fspath(path)
    header = read_header(name)
    pruned = None if reader is None else prune(checked(resolve(header.schema, reader)))
    written = header.schema if pruned is None else pruned.writer
    schema = arrow_schema(header.schema if reader is None else reader)
    root_type(written)  # raises for what is read and has no table form
    unpacker(name, header.codec)
    file = _File(name, header, written.root)
    return pa.RecordBatchReader.from_batches(schema, _batches(file, pruned, schema, batch_size))


class _File:
    """One file, and who decodes it."""

    def __init__(self, name: str, header: Header, read: AvroType) -> None:
        self.name = name
        self.header = header
        self.read = read
        self.rows = Rows(name, header.schema.root, read)
        self.fast: fast.Decoder | None = None
        try:
            self.fast = fast.decoder(header.schema.root, read)
        except fast.Unsuited as why:
            _log.info("%s is decoded by fastavro: %s", name, why)
        else:
            _log.info("%s is decoded by polars-avro, which knows all its types", name)

    def decoded(self, batch_size: int) -> Iterator[list[pa.Array]]:
        """The rows in the wire layout, one list of arrays for each batch."""
        cuts = Cuts(batch_size)
        if self.fast is None:
            return self.rows.decode(blocks(self.name, self.header), cuts, [])
        return self._fast(self.fast, cuts)

    def _fast(self, decoder: fast.Decoder, cuts: Cuts) -> Iterator[list[pa.Array]]:
        source = blocks(self.name, self.header)
        begun: list[pa.Array] = []
        more = True
        while more:
            damage: SourceError | None = None
            rows, held = cuts.rows, cuts.held
            group: list[Block] = []
            pieces: list[tuple[int, bool]] = []
            try:
                more = _gather(source, cuts, group, pieces)
            except SourceError as error:
                # The batches that end before the damage come before the error.
                damage = error
            if group:
                try:
                    array = decoder.decode(group)
                except fast.Undecodable:
                    cuts.rows, cuts.held = rows, held
                    rest = blocks(self.name, self.header, group[0].number, group[0].at)
                    yield from self.rows.decode(rest, cuts, begun)
                    _log.warning(
                        "%s: polars-avro could not decode what fastavro could, from block %d on",
                        self.name,
                        group[0].number,
                    )
                    return
                first = last = 0
                for count, ends in pieces:
                    last += count
                    if ends:
                        yield [*begun, array.slice(first, last - first)]
                        begun, first = [], last
                if last > first:
                    begun = [*begun, array.slice(first)]
            if damage is not None:
                raise damage
        if begun:
            yield begun


def _gather(source: Iterator[Block], cuts: Cuts, group: list[Block], pieces: list[tuple[int, bool]]) -> bool:
    """Take blocks that are worth decoding together. Returns whether there may be more."""
    ended = False
    rows = held = 0
    while not (ended and (rows >= max(_ROWS, cuts.batch_size) or held >= _BYTES)) and held < HELD:
        block = next(source, None)
        if block is None:
            return False
        if not block.count and not block.data:
            continue
        group.append(block)
        found = list(cuts.cut(block))
        pieces += found
        ended = ended or any(ends for _, ends in found)
        rows += block.count
        held += len(block.data)
    return True


def _batches(file: _File, pruned: Pruned | None, schema: pa.Schema, batch_size: int) -> Iterator[pa.RecordBatch]:
    strict = pa.struct(list(schema))
    first = 0
    for parts in file.decoded(batch_size):
        row, made = first, []
        for part in parts:
            made.append(columns(part, file.read, file.name, row))
            row += len(part)
        array = made[0] if len(made) == 1 else pa.concat_arrays(made)
        if pruned is None:
            array = convert(array, strict, file.read, error=SourceError, canonical=True)
        else:
            array = read_array(pruned, array, partial=False, strict=True, row_offset=first, valid=True)
        first = row
        yield batch_of(array, schema)
