"""Live tables: one protocol (:mod:`lakeevolve.tables.base`), one folder per format, opened by URI.

A format's library is loaded when its first table is opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from lakeevolve.errors import UnknownScheme

if TYPE_CHECKING:
    from lakeevolve.model.schema import Schema
    from lakeevolve.tables.base import Table

#: URI scheme -> the module whose ``open_table(uri, **options)`` opens such a table.
FORMATS: Final = {
    "iceberg": "lakeevolve.tables.iceberg",
    "delta": "lakeevolve.tables.delta",
    "parquet": "lakeevolve.tables.parquet",
}


def is_table(source: str) -> bool:
    """Whether a text is the URI of a table, by its scheme.

    >>> is_table("delta:lake/orders"), is_table("orders.avro")
    (True, False)
    """
    return source.partition(":")[0] in FORMATS and ":" in source


def open_table(uri: Any, /, **options: Any) -> Table:
    """Open a live table.

    Parameters
    ----------
    uri:
        ``iceberg:CATALOG/ns.table[@SNAPSHOT]``, ``delta:PATH[@vN]`` or ``parquet:DIR``; or a ``pyarrow.Table`` or a
        ``pyarrow.dataset.Dataset``. An open table is itself.
    options:
        Passed to the table's library: properties of the catalog and the store, credentials among them. They are kept
        in the handle alone. An Iceberg table takes ``catalog``, too: a catalog that pyiceberg has opened already. A
        Parquet folder takes ``into``: the new folder that an evolution of it writes.

    Raises
    ------
    UnknownScheme
        The URI names no table format.
    TableNotFound, CatalogUnavailable, UnsupportedTable
        No table is there, the catalog does not answer, or the table uses what lakeevolve does not handle.

    Examples
    --------
    >>> open_table("iceberg:lake/shop.orders").schema  # doctest: +SKIP
    """
    if hasattr(uri, "capability") and not options:
        return cast("Table", uri)
    if not isinstance(uri, str):
        return cast("Table", import_module(FORMATS["parquet"]).open_table(uri, **options))
    scheme, colon, _ = uri.partition(":")
    module = FORMATS.get(scheme) if colon else None
    if module is None:
        raise UnknownScheme(
            f"no table format is called {scheme!r}" if colon else "a table URI begins with the format's name",
            where=uri,
            hint="write " + " or ".join(f"{name}:..." for name in FORMATS),
        )
    return cast("Table", import_module(module).open_table(uri, **options))


def schema_of(uri: str, *, lenient: bool = False) -> Schema:
    """The Avro schema of the table at a URI, as a source of schemas; *lenient* changes nothing."""
    return open_table(uri).schema


def schemas_of(uri: str) -> list[Schema]:
    """The Avro schema of every version of the table at a URI, oldest first."""
    return [version.schema for version in open_table(uri).history()]
