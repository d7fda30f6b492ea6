"""Iceberg tables of a catalog, by pattern."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from pyiceberg.catalog import Catalog

from lakeevolve.errors import TableNotFound
from lakeevolve.redaction import public_uri
from lakeevolve.tables.iceberg.catalog import Location, open_catalog, translated


def list_tables(pattern: str, /, *, catalog: Catalog | None = None, **options: Any) -> tuple[str, ...]:
    """The URIs of the tables of a catalog whose names match ``iceberg:CATALOG/PATTERN``."""
    named, slash, names = pattern.removeprefix("iceberg:").rpartition("/")
    if not (slash and named):
        raise TableNotFound(
            "the pattern names no catalog", where=pattern, hint="write iceberg:CATALOG/namespace.table with * or ?"
        )
    location = Location(public_uri(pattern), named, (names,), None)
    opened = open_catalog(location, options) if catalog is None else catalog
    with translated(location.uri):
        found = [".".join(name) for space in _namespaces(opened, ()) for name in opened.list_tables(space)]
    return tuple(f"iceberg:{named}/{name}" for name in sorted(set(found)) if fnmatchcase(name, names))


def _namespaces(catalog: Catalog, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for space in catalog.list_namespaces(above):
        # Some catalogs list a namespace under itself.
        if len(space) > len(above):
            yield space
            yield from _namespaces(catalog, space)
