"""Tables by pattern: which there are, without opening any."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from lakeevolve.errors import ConfigError, TableNotFound, UnknownScheme
from lakeevolve.tables import FORMATS

#: The formats whose tables can be looked for.
_LISTED: Final = ("iceberg", "delta")

#: What makes a name a pattern.
_PATTERN: Final = frozenset("*?[")


def list_tables(pattern: str, /, **options: Any) -> tuple[str, ...]:
    """The URIs of the tables that a pattern means, in the order of their names.

    Parameters
    ----------
    pattern:
        ``delta:PATH`` with ``*``, ``?`` and ``**`` as in a shell, on a disk; ``iceberg:CATALOG/ns.table`` with ``*``
        and ``?``, which stand for dots, too. A URI without any of these is itself.
    options:
        Passed to the catalog, as by :func:`lakeevolve.tables.open_table`.

    Raises
    ------
    UnknownScheme
        The pattern names no table format.
    ConfigError
        Tables of its format are not looked for.
    TableNotFound
        No table is meant by it.
    CatalogUnavailable
        The catalog does not answer.

    Examples
    --------
    >>> list_tables("delta:lake/orders")
    ('delta:lake/orders',)
    """
    scheme, colon, rest = pattern.partition(":")
    if not colon or scheme not in FORMATS:
        raise UnknownScheme(
            "a pattern of tables begins with the format's name",
            where=pattern,
            hint="write " + " or ".join(f"{name}:..." for name in FORMATS),
        )
    if not _PATTERN & set(rest):
        return (pattern,)
    if scheme not in _LISTED:
        raise ConfigError(
            f"tables of the format {scheme} are not looked for by a pattern",
            where=pattern,
            hint="name each one; patterns are for " + " and ".join(f"{name}:..." for name in _LISTED),
        )
    found: tuple[str, ...] = import_module(f"{FORMATS[scheme]}.listing").list_tables(pattern, **options)
    if not found:
        raise TableNotFound("the pattern means no table", where=pattern, hint="check the folder, or name a table")
    return found
