"""Second readers: other engines that are asked for the whole table, to see whether they read the same.

Each is imported only when it is asked for (the extra ``readers``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from lakeevolve.errors import ConfigError
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import Table


class Reader(Protocol):
    """Another engine that reads tables."""

    name: str
    version: str

    def read(self, schema: Schema) -> Iterator[pa.RecordBatch]: ...


def open_reader(name: str, table: Table) -> Reader:
    raise ConfigError("x")
