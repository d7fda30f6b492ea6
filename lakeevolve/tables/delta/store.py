"""Where a Delta table lies, and the one place where delta-rs is opened and its errors become ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlparse

from lakeevolve.errors import (
    CatalogUnavailable,
    CommitConflict,
    LakeEvolveError,
    SourceError,
    TableError,
    TableNotFound,
    UnsupportedTable,
)
from lakeevolve.redaction import public_uri, without_secrets

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs
    from deltalake import DeltaTable

_VERSION = re.compile(r"@v(\d+)\Z")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: What object_store calls the errors of its stores; delta-rs's own begin alike.
_STORE = re.compile(r"Generic (?!delta|Delta|LocalFileSystem)\w+ error")
#: What arrow-rs says of a null struct in a list that holds a struct with a required field; the data is right.
_UNMASKED: Final = "Found unmasked nulls for non-nullable StructArray field"
_LOCAL: Final = "Generic LocalFileSystem error"
_UNANSWERED: Final = "the store did not answer as it should"
#: What stands in the causes where a store's client found nothing to sign in with.
_ANONYMOUS: Final = ("loading credentials", "no credentials found", "token request", "must be specified")
#: What object_store says of 403 and of 401.
_DENIED: Final = ("lacked the necessary privileges", "lacked valid authentication credentials")
_FEATURES: Final = ("Unsupported", "not supported", "not yet supported", "Invalid protocol")
_MISSING: Final = ("No files in log segment", "not a Delta table", "Not a Delta table", "No such file or directory")


@dataclass(frozen=True, slots=True)
class Address:
    """A table's place. ``path`` is a local path or the URL of an object store, ``version`` what ``@vN`` asked for.

    Both ``path`` and ``options`` may hold credentials; ``uri`` holds none.
    """

    path: str = field(repr=False)
    version: int | None
    options: Mapping[str, str] = field(repr=False)

    @property
    def uri(self) -> str:
        return f"delta:{public_uri(self.path)}" + ("" if self.version is None else f"@v{self.version}")

    @property
    def public(self) -> str:
        """The table's path, whole where it is local, and without credentials."""
        local = self.local
        return str(local) if local is not None else public_uri(self.path)

    @property
    def local(self) -> Path | None:
        """The folder, for a table on a local disk."""
        parsed = urlparse(self.path)
        if parsed.scheme == "file":
            return Path(unquote(parsed.path))
        return None if "://" in self.path else Path(self.path).absolute()

    @property
    def root(self) -> str:
        """The table's URL, with a slash at its end."""
        local = self.local
        if local is not None:
            return f"file://{quote(str(local))}/"
        scheme, _, rest = self.path.partition("://")
        return f"{scheme}://{quote(rest.rstrip('/'), safe='/%')}/"

    def open(self, version: int | None = None) -> DeltaTable:
        """A delta-rs handle, at the newest version if none is given."""
        local = self.local
        try:
            if local is not None and not local.is_dir():
                raise TableNotFound(
                    "there is no such folder", where=self.uri, hint="check the path: delta:PATH, with @vN for a version"
                )
            return self.open_other(str(local) if local is not None else self.path, version)
        except TableError as error:
            self._explain(version, error)
            raise

    def _explain(self, version: int | None, error: TableError) -> None:
        """Raise what is wrong with the version that was asked for, if that is it."""
        if version is not None:
            known = self._versions()
            if known is not None and not known[0] <= version <= known[1]:
                gone = "; earlier ones went with the log's clean-up" if known[0] else ""
                raise TableNotFound(
                    f"the table has no version {version}",
                    where=self.uri,
                    hint=f"it has {_range(known)}{gone}: name one of these, or leave out @v{version} for the newest",
                ) from error
        before, at, suffix = self.path.rpartition("@")
        if version is None and at and "/" not in suffix and isinstance(error, TableNotFound):
            known = Address(before, None, self.options)._versions()
            if known is not None:
                raise TableNotFound(
                    f"@{suffix} names no version of a table",
                    where=self.uri,
                    hint=f"versions are numbers: @v{known[1]} is the newest of {_range(known)}",
                ) from error

    def _versions(self) -> tuple[int, int] | None:
        """The oldest version that can be opened and the newest; None where no table can."""
        from lakeevolve.tables.delta.log import oldest_version

        local = self.local
        if local is not None and not local.is_dir():
            return None
        try:
            handle = self.open_other(str(local) if local is not None else self.path)
            return oldest_version(self.files(handle), handle.version(), self.uri), handle.version()
        except TableError:
            return None

    def open_other(self, path: str, version: int | None = None) -> DeltaTable:
        """A delta-rs handle of another table in the same store."""
        from deltalake import DeltaTable

        with guard(self.uri):
            return DeltaTable(path, version=version, storage_options=dict(self.options) or None)

    def files(self, handle: DeltaTable) -> pa_fs.FileSystem:
        """A file system whose root is the table."""
        import pyarrow.fs as pa_fs

        local = self.local
        if local is not None:
            return pa_fs.SubTreeFileSystem(str(local), pa_fs.LocalFileSystem())
        from lakeevolve.tables.delta.objects import ObjectStore

        return pa_fs.PyFileSystem(ObjectStore.from_table(handle._table, dict(self.options) or None))


def parse_address(path: str, options: Mapping[str, str] | None = None) -> Address:
    """``PATH[@vN]``, with or without ``delta:`` before it."""
    text = path.removeprefix("delta:")
    found = _VERSION.search(text)
    if found is None:
        return Address(text, None, dict(options or {}))
    return Address(text[: found.start()], int(found.group(1)), dict(options or {}))


def _range(known: tuple[int, int]) -> str:
    oldest, newest = known
    return f"version {newest} alone" if oldest == newest else f"versions {oldest} to {newest}"


@contextmanager
def guard(where: str, doing: str = "the table cannot be opened") -> Iterator[None]:
    """Turn what delta-rs raises into errors of our tree. Its messages may quote values, so only known ones pass."""
    from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError

    try:
        yield
    except LakeEvolveError:
        raise
    except TableNotFoundError as error:
        raise TableNotFound(
            "there is no Delta table", where=where, hint="check the path, and that it holds a _delta_log folder"
        ) from without_secrets(error)
    except CommitFailedError as error:
        raise CommitConflict(
            "another writer committed to the table first; nothing was changed",
            where=where,
            hint="plan again, or apply again: the table is as the other writer left it",
        ) from without_secrets(error)
    except (DeltaError, DeltaProtocolError, OSError, ValueError) as error:
        raise _translated(error, where, doing) from without_secrets(error)
    except Exception as error:
        # Scans report through the Arrow C interface, as a bare Exception.
        if type(error) is not Exception:
            raise
        raise _translated(error, where, doing) from without_secrets(error)


def unanswered(error: Exception, where: str, doing: str) -> CatalogUnavailable | None:
    """The error that a failed access is, where the store is to blame and not what lies in it."""
    found = _translated(error, where, doing)
    return found if isinstance(found, CatalogUnavailable) else None


def may_still_land(error: LakeEvolveError) -> bool:
    """Whether a store may yet carry out what it was asked, although the client had this error of it."""
    return isinstance(error, CatalogUnavailable) and _UNANSWERED in error.what


def _translated(error: Exception, where: str, doing: str) -> SourceError | TableError:
    whole = _ANSI.sub("", str(error)).strip()
    text = whole.partition("\n")[0]
    if any(mark in whole for mark in _ANONYMOUS):
        return CatalogUnavailable(
            f"{doing}: no credentials for the store were found",
            where=where,
            hint="set them in the environment (AWS_*, AZURE_*, GOOGLE_*), or pass storage_options",
        )
    if "catalog-managed" in text:
        return UnsupportedTable(
            f"{doing}: a catalog manages its commits (the feature catalogManaged), so its log alone does not say what "
            "it holds",
            where=where,
            hint="change it with an engine that knows that catalog",
        )
    if any(mark in text for mark in _FEATURES):
        return UnsupportedTable(
            f"{doing}: {_short(text)}", where=where, hint="use an engine that supports the feature, or disable it"
        )
    if any(mark in text for mark in _DENIED):
        return CatalogUnavailable(
            f"{doing}: the store refuses access", where=where, hint="check the credentials and what they permit"
        )
    if _UNMASKED in whole:
        return UnsupportedTable(
            f"{doing}: it takes a null struct in a list for a null in a required field of a struct within",
            where=where,
            hint="make the fields of the inner struct optional in the schema; or read the table with another engine",
        )
    if "Object at location" in text and "not found" in text:
        return TableError(
            f"{doing}: a data file that the table lists is missing",
            where=where,
            hint="it was deleted behind the table's back: restore it, or repair the table with FSCK",
        )
    if any(mark in text for mark in _MISSING):
        return TableNotFound(f"{doing}: there is no such table or version", where=where, hint="check path and version")
    if _LOCAL in text:
        return TableError(f"{doing}: its folder cannot be read", where=where, hint="check the permissions")
    if _STORE.search(text):
        return CatalogUnavailable(f"{doing}: {_UNANSWERED}", where=where, hint="check bucket, credentials and network")
    if "Kernel error" in text or "delta log" in text:
        return TableError(f"{doing}: {_short(text)}", where=where, hint="repair the table's log")
    name = type(error).__name__
    return TableError(f"{doing}: delta-rs reports {name}", where=where, hint="run with --debug for more")


def _short(text: str) -> str:
    return text.removeprefix("Kernel error: ")[:160].partition(": ParsedLogPath")[0]
