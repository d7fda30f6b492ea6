"""Avro schemas and resolutions over Arrow: what a schema looks like in columns, and how columns are read as another.

The *canonical layout* is :func:`arrow_type`. A *strict* schema is nullable exactly where Avro allows null; the *loose*
form, in which tables travel, is nullable everywhere.
"""

from lakeevolve.avro.arrow.read import execute, to_arrow
from lakeevolve.avro.arrow.types import arrow_schema, arrow_type

__all__ = ["arrow_schema", "arrow_type", "execute", "to_arrow"]
