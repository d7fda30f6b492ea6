"""The writer schema of an Avro object container file: ``avro:file.avro``."""

from __future__ import annotations

from lakeevolve.avro.container import read_header
from lakeevolve.model.schema import Schema


def read(path: str, *, lenient: bool = False) -> Schema:
    """The schema that the file was written with.

    A file that exists was readable to its writer, so it is read as leniently as the container's reader does; *lenient*
    changes nothing.
    """
    return read_header(path).schema
