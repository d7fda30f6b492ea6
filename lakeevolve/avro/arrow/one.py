"""One record, written down as JSON, as a reader gets it."""

from __future__ import annotations

import pyarrow as pa

from lakeevolve.avro.arrow.types import arrow_schema
from lakeevolve.avro.defaults import default_value
from lakeevolve.avro.resolution import Resolution
from lakeevolve.errors import ValueMismatch
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Json


def first_difference(resolution: Resolution, record: Json, expected: Json) -> str | None:
    """The first field of the reader that a record reads otherwise in than is expected; None where there is none.

    Parameters
    ----------
    record, expected:
        What the writer wrote and the reader is to get, in JSON as Avro writes defaults: bytes as text, a union's value
        as it stands. A field that is left out holds its default.

    Raises
    ------
    SchemaError
        Either is no value of its schema.
    ValueMismatch
        The reader cannot read the record.
    """
    written, wanted = _rows(resolution.writer, record), _rows(resolution.reader, expected)
    read = resolution.to_arrow(written, partial=True)
    for at, name in enumerate(wanted.schema.names):
        if not read.column(at).cast(wanted.column(at).type).equals(wanted.column(at)):
            return str(name)
    return None


def readable(resolution: Resolution, record: Json) -> bool:
    """Whether the reader can read the record at all."""
    try:
        resolution.to_arrow(_rows(resolution.writer, record), partial=True)
    except ValueMismatch:
        return False
    return True


def _rows(schema: Schema, record: Json) -> pa.RecordBatch:
    layout = arrow_schema(schema, strict=False)
    row = default_value(schema.record, record)
    return pa.RecordBatch.from_arrays([pa.array([row[column.name]], column.type) for column in layout], schema=layout)
