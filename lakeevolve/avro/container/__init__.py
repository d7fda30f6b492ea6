"""Avro object container files as Arrow (Avro 1.12, "Object Container Files").

A decoder is handed an equivalent schema in place of the file's own: the bytes of a value depend on the structure
alone, so logical types are left out and named types renamed, and what the bytes mean is put back column by column.
polars-avro decodes where it is installed and knows every type; fastavro decodes the rest, and says what is wrong with a
file that polars-avro cannot decode. Which of the two it is never shows in the result.
"""

from lakeevolve.avro.container.header import Header, read_header
from lakeevolve.avro.container.read import read_avro

__all__ = ["Header", "read_avro", "read_header"]
