"""Reading an object container file: who decodes it, and batches of resolved rows."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pyarrow as pa

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.arrow.layout import convert
from lakeevolve.avro.arrow.prune import Pruned, prune
from lakeevolve.avro.arrow.read import batch_of, checked, read_array
from lakeevolve.avro.arrow.types import root_type
from lakeevolve.avro.container import fast
from lakeevolve.avro.container.blocks import Cuts, blocks, unpacker
from lakeevolve.avro.container.columns import columns
from lakeevolve.avro.container.groups import by_groups
from lakeevolve.avro.container.header import Header, read_header
from lakeevolve.avro.container.rows import Rows
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import SourceError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType

_log = logging.getLogger("lakeevolve.avro")


def read_avro(
    path: str | os.PathLike[str], reader: Schema | None = None, batch_size: int = 65_536
) -> pa.RecordBatchReader:
    """Read an Avro object container file as Arrow.

    With the extra ``fast`` it is decoded by polars-avro, unless a type in it is one that polars-avro does not know;
    otherwise by fastavro, which takes more than ten times as long. The logger ``lakeevolve.avro`` tells (INFO) which of
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
    pieces = _decoded(name, header, written.root, batch_size)
    return pa.RecordBatchReader.from_batches(schema, _batches(name, pieces, written.root, pruned, schema))


def _decoded(name: str, header: Header, read: AvroType, batch_size: int) -> Iterator[list[pa.Array]]:
    """The rows in the wire layout, one list of arrays for each batch."""
    rows = Rows(name, header.schema.root, read)
    try:
        decoder = fast.decoder(header.schema.root, read)
    except fast.Unsuited as why:
        _log.info("%s is decoded by fastavro: %s", name, why)
        return rows.decode(blocks(name, header), Cuts(batch_size))
    _log.info("%s is decoded by polars-avro, which knows all its types", name)
    return by_groups(name, header, decoder, rows, batch_size)


def _batches(
    name: str, pieces: Iterator[list[pa.Array]], written: AvroType, pruned: Pruned | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    strict = pa.struct(list(schema))
    first = 0
    for parts in pieces:
        row, made = first, []
        for part in parts:
            made.append(columns(part, written, name, row))
            row += len(part)
        array = made[0] if len(made) == 1 else pa.concat_arrays(made)
        if pruned is None:
            array = convert(array, strict, written, error=SourceError, canonical=True)
        else:
            array = read_array(pruned, array, partial=False, strict=True, row_offset=first, valid=True)
        first = row
        yield batch_of(array, schema)
