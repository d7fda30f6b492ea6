"""Finding a table, and turning what pyiceberg raises into our own errors.

Nothing of a catalog's own message is passed on: it may hold a connection's URI with its password, or a row's value.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyiceberg import exceptions as theirs
from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.utils.config import Config

from lakeevolve.errors import (
    CatalogUnavailable,
    CommitConflict,
    ConfigError,
    LakeEvolveError,
    TableError,
    TableNotFound,
)
from lakeevolve.errors import UnsupportedTable as Unsupported
from lakeevolve.redaction import public_uri, without_secrets

#: The file that makes a folder an embedded catalog.
CATALOG_FILE: Final = "catalog.db"
DEFAULT_NAME: Final = "lakeevolve"

_SNAPSHOT = re.compile(r"@(\d+)\Z")
_FORM = "iceberg:CATALOG/namespace.table[@SNAPSHOT]"


@dataclass(frozen=True, slots=True)
class Location:
    """A table's URI, without credentials, taken apart. ``catalog`` is a folder's path or a name in pyiceberg's
    configuration."""

    uri: str
    catalog: str = field(repr=False)
    identifier: tuple[str, ...]
    snapshot: int | None

    @property
    def folder(self) -> Path:
        return Path(self.catalog).expanduser()

    @property
    def plain(self) -> bool:
        """Whether ``catalog`` may be a name as well as a folder."""
        return "/" not in self.catalog and not self.catalog.startswith((".", "~"))


def parse_uri(uri: str) -> Location:
    """Take ``iceberg:CATALOG/ns.table[@SNAPSHOT]`` apart."""
    rest = uri.removeprefix("iceberg:")
    if "?" in rest:
        raise ConfigError(
            "an Iceberg table's URI takes no options",
            where=uri,
            hint="credentials and options go into .pyiceberg.yaml, PYICEBERG_CATALOG__* or the options of the call",
        )
    pinned = _SNAPSHOT.search(rest)
    if pinned:
        rest = rest[: pinned.start()]
    catalog, slash, table = rest.rpartition("/")
    identifier = tuple(table.split("."))
    if not (slash and catalog and len(identifier) > 1 and all(identifier)):
        raise TableNotFound("the URI does not name an Iceberg table", where=uri, hint=f"write {_FORM}")
    return Location(public_uri(uri), catalog, identifier, int(pinned.group(1)) if pinned else None)


def open_catalog(location: Location, options: Mapping[str, Any], *, create: bool = False) -> Catalog:
    """The catalog that a URI names; *create* makes a missing embedded one."""
    folder = location.folder
    if not (folder / CATALOG_FILE).is_file():
        named = location.catalog in list_catalogs() or any(key in options for key in ("type", "uri", "py-catalog-impl"))
        if location.plain and (named or not (create or folder.is_dir())):
            return _configured(location, options)
        if "://" in location.catalog:
            raise TableNotFound(
                "an address names no Iceberg catalog: tables are found through their catalog",
                where=location.uri,
                hint=f"write {_FORM}, where CATALOG is a folder with a {CATALOG_FILE} or a name in .pyiceberg.yaml",
            )
        if not create:
            raise TableNotFound(
                f"the folder {location.catalog} is no embedded catalog: it holds no {CATALOG_FILE}",
                where=location.uri,
                hint=f"write {_FORM}, where CATALOG is a folder with a {CATALOG_FILE} or a name in .pyiceberg.yaml",
            )
    if create:
        folder.mkdir(parents=True, exist_ok=True)
    root = folder.resolve()
    properties = {"uri": f"sqlite:///{root / CATALOG_FILE}", "warehouse": root.as_uri()}
    made = _embedded(location.uri)
    with translated(location.uri):
        catalog: Catalog = made(_only_name(root / CATALOG_FILE), **{**properties, **options})
        return catalog


def _embedded(where: str) -> Any:
    """The class of embedded catalogs. SQLAlchemy is loaded with it: catalogs of other kinds need none, and some
    programs that use those are bound to a version of it that is too old."""
    try:
        from lakeevolve.tables.iceberg.embedded import Embedded
    except ImportError as error:
        raise CatalogUnavailable(
            "an embedded catalog needs SQLAlchemy 2, which is not installed here",
            where=where,
            hint="pip install 'pyiceberg[sql-sqlite]', or name a catalog of another kind in .pyiceberg.yaml",
        ) from without_secrets(error)
    return Embedded


def _configured(location: Location, options: Mapping[str, Any]) -> Catalog:
    try:
        catalog = load_catalog(location.catalog, **options)
        engine = getattr(catalog, "engine", None)
        if engine is not None:
            from lakeevolve.tables.iceberg.embedded import show_only_what_landed

            show_only_what_landed(engine)
        return catalog
    except LakeEvolveError:
        raise
    except theirs.NotInstalledError as error:
        raise CatalogUnavailable(
            f"the catalog {location.catalog!r} is of a kind whose library is not installed",
            where=location.uri,
            hint="install what the kind needs: pip install 'pyiceberg[hive]', [glue], [dynamodb] or [sql-postgres]",
        ) from without_secrets(error)
    except _unreachable(OSError) as error:
        raise CatalogUnavailable(
            f"the catalog {location.catalog!r} did not answer ({type(error).__name__})",
            where=location.uri,
            hint="check that it runs, its address and its credentials",
        ) from without_secrets(error)
    except Exception as error:
        raise CatalogUnavailable(
            f"the catalog {location.catalog!r} cannot be opened ({type(error).__name__})",
            where=location.uri,
            hint=f"configure it in .pyiceberg.yaml or PYICEBERG_CATALOG__*, or name a folder: {_FORM}",
        ) from without_secrets(error)


def configured_properties() -> dict[str, Any]:
    """What pyiceberg's configuration says of every catalog, credentials among it: not for showing."""
    config = Config()
    return {name: dict(config.get_catalog_config(name) or {}) for name in config.get_known_catalogs()}


def _only_name(file: Path) -> str:
    """The name under which the catalog's tables are filed, where the file knows exactly one."""
    if not file.is_file():
        return DEFAULT_NAME
    names: set[str] = set()
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            for table in ("iceberg_tables", "iceberg_namespace_properties"):
                names.update(row[0] for row in connection.execute(f"SELECT DISTINCT catalog_name FROM {table}"))
    except sqlite3.Error:
        # Not a catalog yet, or not readable: opening it properly says which.
        return DEFAULT_NAME
    return names.pop() if len(names) == 1 else DEFAULT_NAME


def load(catalog: Catalog, location: Location) -> IcebergTable:
    """Load the table's newest metadata."""
    with translated(location.uri):
        table = catalog.load_table(location.identifier)
    _refuse_unsound(table.metadata, location.uri)
    return table


def _refuse_unsound(metadata: TableMetadata, where: str) -> None:
    """The library takes metadata whose parts point nowhere, and stumbles over it later."""
    lacks = [
        f"{name} {wanted}"
        for name, wanted, held in (
            ("current-schema-id", metadata.current_schema_id, [each.schema_id for each in metadata.schemas]),
            ("default-spec-id", metadata.default_spec_id, [each.spec_id for each in metadata.partition_specs]),
            ("default-sort-order-id", metadata.default_sort_order_id, [o.order_id for o in metadata.sort_orders]),
        )
        # Sort order 0 is that of no order, whether it is listed or not.
        if wanted not in held and (wanted or "sort" not in name)
    ]
    if lacks:
        raise Unsupported(
            f"the table's metadata is damaged: there is no {' and no '.join(lacks)} in it",
            where=where,
            hint="roll the table back to earlier metadata, or mend the file",
        )
    try:
        metadata.name_mapping()
    except ValueError as error:
        raise Unsupported(
            "the table's name mapping (the property schema.name-mapping.default) is not one",
            where=where,
            hint="set the property anew, or remove it where every data file has field ids",
        ) from without_secrets(error)
    if "encryption.key-id" in metadata.properties:
        raise Unsupported(
            "the table is encrypted (encryption.key-id), and no Python library decrypts Iceberg tables",
            where=where,
            hint="change it with Spark, which holds the keys",
        )


_MISSING: Final = (theirs.NoSuchTableError, theirs.NoSuchNamespaceError, theirs.NoSuchIdentifierError)
_UNREACHABLE: Final = (
    theirs.RESTError,
    theirs.OAuthError,
    theirs.DynamoDbError,
    theirs.SignError,
    theirs.WaitingForLockException,
    theirs.NotInstalledError,
    theirs.NoSuchPropertyException,
    ConnectionError,
    TimeoutError,
)


def _unreachable(*others: type[Exception]) -> tuple[type[Exception], ...]:
    loaded = sys.modules.get("sqlalchemy.exc")
    return (*_UNREACHABLE, *others, *(() if loaded is None else (loaded.SQLAlchemyError,)))


#: Libraries that speak with catalogs and stores, and whose errors pyiceberg lets through.
_CLIENTS: Final = frozenset(
    {"aiohttp", "azure", "boto3", "botocore", "google", "hive_metastore", "requests", "thrift", "urllib3"}
)
_DAMAGED: Final = re.compile(r"deserialize|thrift|flatbuffer|end of stream|corrupt|compress|parquet", re.IGNORECASE)
#: What pyiceberg says of metadata whose parts do not fit together: names and ids alone.
_POINTS_NOWHERE: Final = re.compile(r"[a-z-]+ -?\d+ can't be found(?: in the schemas)?\Z")
_UNREADABLE: Final = (
    theirs.ResolveError,
    theirs.ValidationError,
    NotImplementedError,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
)


def _fault(error: Exception) -> str:
    """What is wrong with the metadata, without any of its values."""
    # The library wraps what pydantic says, which tells the place and the kind of each fault.
    told = getattr(error.__cause__ or error, "errors", None)
    if told is not None:
        first = told(include_url=False, include_input=False)[0]
        kind, path = first["type"], ".".join(map(str, first["loc"][1:])) or "part"
        if kind == "json_invalid":
            return "its metadata is not JSON"
        if kind == "union_tag_invalid":
            return f"its format version is {first['ctx']['tag']}, and those known are 1, 2 and 3"
        return f"its metadata lacks {path}" if kind == "missing" else f"its metadata has an unknown {path}"
    if "equality deletes" in str(error):
        return "it holds equality deletes, which no Python library applies"
    if isinstance(error, theirs.ValidationError) and _POINTS_NOWHERE.match(str(error)):
        return f"in its metadata {error}"
    return type(error).__name__


@contextmanager
def translated(where: str, *, data: bool = False) -> Iterator[None]:
    """Raise what happens inside as one of our errors. *data*: a file's content is being read, which may be damaged.

    pyiceberg has no common base class and lets errors of pydantic (which are ``ValueError``), SQLAlchemy, pyarrow,
    struct and the standard library through, so everything is caught here.
    """
    try:
        yield
    except LakeEvolveError:
        raise
    except _MISSING as error:
        raise TableNotFound(
            "no such table in the catalog", where=where, hint="check the namespace and name"
        ) from without_secrets(error)
    except (theirs.CommitFailedException, theirs.ValidationException) as error:
        raise CommitConflict(
            "another writer committed first; nothing of this commit landed", where=where, hint="plan again and retry"
        ) from without_secrets(error)
    except _unreachable() as error:
        raise CatalogUnavailable(
            f"the catalog or the store did not answer ({type(error).__name__})",
            where=where,
            hint="check the connection, the credentials and that the catalog's extra of pyiceberg is installed",
        ) from without_secrets(error)
    except FileNotFoundError as error:
        raise TableError(
            "a file that the table's metadata names is missing",
            where=where,
            hint="it was deleted behind the table's back: restore it, or roll the table back",
        ) from without_secrets(error)
    except OSError as error:
        if data and error.errno is None and (where.startswith(("file:", "/")) or _DAMAGED.search(str(error))):
            # pyarrow has no error of its own for bytes that are no Parquet page; what a disk or a store fails with
            # has a number, or speaks of no format.
            raise TableError(
                "a data file cannot be read: its bytes are damaged",
                where=where,
                hint="restore the file, or roll the table back",
            ) from without_secrets(error)
        raise CatalogUnavailable(
            f"the store did not answer ({type(error).__name__})",
            where=where,
            hint="check the store and its credentials",
        ) from without_secrets(error)
    except _UNREADABLE as error:
        if data:
            raise TableError(
                f"a data file cannot be read as the table's schema says ({type(error).__name__})",
                where=where,
                hint="it is damaged, or a writer with an outdated schema added it: rewrite it or take it out",
            ) from without_secrets(error)
        raise Unsupported(
            f"pyiceberg cannot handle this table: {_fault(error)}",
            where=where,
            hint="the metadata or a data file uses what it does not know, or contradicts the schema",
        ) from without_secrets(error)
    except Exception as error:
        if type(error).__module__.partition(".")[0] in _CLIENTS:
            raise CatalogUnavailable(
                f"the catalog or the store did not answer ({type(error).__name__})",
                where=where,
                hint="check the connection, the credentials and what they permit",
            ) from without_secrets(error)
        raise TableError(
            f"pyiceberg failed ({type(error).__module__}.{type(error).__name__})",
            where=where,
            hint="run again with --debug for the traceback",
        ) from without_secrets(error)
