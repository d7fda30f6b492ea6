"""Iceberg tables, through pyiceberg."""

from __future__ import annotations

import logging
from typing import Any

from pyiceberg.catalog import Catalog

from lakeevolve.tables.iceberg.catalog import load, open_catalog, parse_uri
from lakeevolve.tables.iceberg.create import append, create_table
from lakeevolve.tables.iceberg.table import IcebergHandle

# Where nobody set up logging, Python prints what libraries warn of. What matters of it is in our errors.
for _library in ("pyiceberg", "sqlalchemy", "urllib3", "botocore", "fsspec", "s3fs"):
    logging.getLogger(_library).addHandler(logging.NullHandler())

__all__ = ["IcebergHandle", "append", "create_table", "open_table"]


def open_table(uri: str, /, *, catalog: Catalog | None = None, **options: Any) -> IcebergHandle:
    """Open an Iceberg table.

    Parameters
    ----------
    uri:
        ``iceberg:CATALOG/ns.table[@SNAPSHOT]``. CATALOG is a folder with an embedded catalog (a SQLite file
        ``catalog.db``, the folder being the warehouse) or a catalog's name in pyiceberg's own configuration.
    catalog:
        pyiceberg's handle of the catalog, where the caller has one; CATALOG is then a name for people.
    options:
        Properties of the catalog, for pyiceberg.

    Raises
    ------
    TableNotFound, CatalogUnavailable, UnsupportedTable
        Nothing is there, the catalog does not answer, or the table's metadata cannot be handled.
    """
    location = parse_uri(uri)
    found = open_catalog(location, options) if catalog is None else catalog
    return IcebergHandle(location, found, load(found, location))
