"""Second readers: other engines that are asked for a whole table, to see whether they read the same.

Each is imported only when it is asked for (the extra ``readers``), and each reads by itself: DuckDB through its
``iceberg`` and ``delta`` extensions, polars through its native Iceberg reader and the Delta kernel. They are asked for
the very state that the table's own reader gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa

from lakeevolve.errors import ConfigError, TableError
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.evidence import installed
from lakeevolve.tables.base import Table
from lakeevolve.tables.layout import to_canonical, to_layout

_ROWS: Final = 65_536

Scan = Callable[[Table], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Reader:
    """Another engine that reads tables, with the version of what is installed."""

    name: str
    version: str | None
    table: Table
    scan: Scan

    def read(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """All rows of the table: the canonical layout of *schema*, then the foreign columns.

        Raises ``TableError`` where the engine gives a column in a type that does not hold the schema's values.
        """
        foreign = _foreign_types(self.table)
        for batch in self.scan(self.table):
            yield _canonical(batch, schema, foreign, self.name)


def open_reader(name: str, table: Table) -> Reader:
    """A second reader for a table.

    Parameters
    ----------
    name:
        ``duckdb`` or ``polars``.
    table:
        An Iceberg or Delta table on a local disk.

    Raises
    ------
    ConfigError
        The reader is unknown or not installed, or the table is not one that it can be given.
    """
    scans = _SCANS.get(name)
    if scans is None:
        raise ConfigError(f"no reader is called {name!r}", hint="readers are " + " and ".join(sorted(_SCANS)))
    scan = scans.get(table.format)
    if scan is None:
        raise ConfigError(f"{name} is not asked for {table.format} tables", where=table.uri)
    for module in _MODULES[name, table.format]:
        try:
            import_module(module)
        except ImportError as error:
            raise ConfigError(
                f"the reader {name} is not installed: there is no module {module}",
                hint="pip install 'lakeevolve[readers]'",
            ) from error
    _local(table)
    return Reader(name, installed(name), table, scan)


_MODULES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("duckdb", "iceberg"): ("duckdb", "duckdb_extensions", "duckdb_extension_iceberg", "duckdb_extension_avro"),
    ("duckdb", "delta"): ("duckdb", "duckdb_extensions", "duckdb_extension_delta"),
    ("polars", "iceberg"): ("polars", "polars_iceberg"),
    ("polars", "delta"): ("polars", "polars_deltalake"),
}


def _duckdb(extensions: tuple[str, ...], sql: str, parameters: list[Any]) -> Iterator[pa.RecordBatch]:
    import duckdb
    from duckdb_extensions import import_extension

    with duckdb.connect(":memory:") as connection:
        for extension in extensions:
            # The wheels hold the extensions: nothing is fetched.
            import_extension(extension, con=connection)
            connection.load_extension(extension)
        connection.execute("SET TimeZone = 'UTC'")
        # Rows are compared as a multiset, and keeping their order costs memory.
        connection.execute("SET preserve_insertion_order = false")
        yield from connection.execute(sql, parameters).to_arrow_reader(_ROWS)


def _duckdb_iceberg(table: Table) -> Iterator[pa.RecordBatch]:
    if table.state.position is None:
        return iter(())
    earlier = _earlier_snapshot(table)
    sql = "SELECT * FROM iceberg_scan(?" + ("" if earlier is None else f", snapshot_from_id = {earlier:d}") + ")"
    return _duckdb(("avro", "iceberg"), sql, [_local(table)])


def _duckdb_delta(table: Table) -> Iterator[pa.RecordBatch]:
    return _duckdb(("delta",), f"SELECT * FROM delta_scan(?, version = {table.state.position:d})", [_local(table)])


def _polars_iceberg(table: Table) -> Iterator[pa.RecordBatch]:
    import polars

    if table.state.position is None:
        return iter(())
    scan = polars.scan_iceberg(_local(table), snapshot_id=_earlier_snapshot(table), reader_override="native")
    return _batches(scan)


def _earlier_snapshot(table: Table) -> int | None:
    """The snapshot that a table is opened at, where it is not the metadata's current one.

    A snapshot that is named is read by the schema of its own time (Iceberg spec, Snapshots, ``schema-id``); the
    current one that nobody names, by the table's current schema, which a change of metadata alone moves on.
    """
    handle: Any = table
    position = table.state.position
    return None if position == handle.iceberg.metadata.current_snapshot_id else position


def _polars_delta(table: Table) -> Iterator[pa.RecordBatch]:
    # The Delta kernel through polars' plugin: polars' own scan_delta goes through delta-rs, whose answer is judged.
    kernel = import_module("polars_deltalake")
    return _batches(kernel.scan_delta(_local(table), version=table.state.position))


def _batches(frame: Any) -> Iterator[pa.RecordBatch]:
    for part in frame.collect_batches(chunk_size=_ROWS, maintain_order=False):
        yield from part.to_arrow().to_batches()


_SCANS: Final[Mapping[str, Mapping[str, Scan]]] = {
    "duckdb": {"iceberg": _duckdb_iceberg, "delta": _duckdb_delta},
    "polars": {"iceberg": _polars_iceberg, "delta": _polars_delta},
}


def _local(table: Table) -> str:
    """The local path that an engine opens the table by: an Iceberg metadata file, a Delta folder.

    Raises ``ConfigError`` for a table elsewhere: credentials are not passed on to other engines.
    """
    handle: Any = table
    place = str(handle.iceberg.metadata_location if table.format == "iceberg" else handle.address.path)
    parsed = urlparse(place)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    if parsed.scheme and "://" in place:
        raise ConfigError(
            "second readers are asked for tables on a local disk only: credentials are not passed on to them",
            where=table.uri,
            hint="leave out `readers`, or ask on a local copy",
        )
    return place


def _foreign_types(table: Table) -> Mapping[str, pa.DataType]:
    """The types that the foreign columns have in the table's own reader: no schema tells them."""
    names = table.foreign
    first = next((batch.schema for batch in table.read()), None) if names else None
    return {} if first is None else {name: first.field(name).type for name in names if name in first.names}


def _canonical(
    batch: pa.RecordBatch, schema: Schema, foreign: Mapping[str, pa.DataType], reader: str
) -> pa.RecordBatch:
    names, arrays = [], []
    for field in schema.fields:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise TableError(f"{reader} gives no column of that name", where=field.name)
        names.append(field.name)
        arrays.append(to_canonical(batch.column(index), field.type))
    for name, type_ in foreign.items():
        index = batch.schema.get_field_index(name)
        if index >= 0:
            names.append(name)
            arrays.append(to_layout(batch.column(index), type_))
    return pa.RecordBatch.from_arrays(arrays, names=names)
