"""Where records are kept: a folder, or a prefix in an object store. Names are relative, with slashes.

A record can be put *once*: of several writers of one name exactly one succeeds, in this process, in others and on
other machines, and nothing that is there is ever overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lakeevolve.errors import ConfigError, StateUnavailable
from lakeevolve.redaction import public_uri, without_secrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: How long an object store may take to answer before it counts as down.
_PATIENCE: Final = timedelta(seconds=30)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


class Store(Protocol):
    """A place for records."""

    def where(self, name: str) -> str:
        """The path or URL of a record, fit to be shown."""
        ...

    def put(self, name: str, content: bytes, *, once: bool = False) -> bool:
        """Write a record whole or not at all; with *once*, False where one of that name is there already."""
        ...

    def get(self, name: str) -> bytes | None:
        """What a record holds, or None where there is none."""
        ...

    def names(self, prefix: str) -> tuple[str, ...]:
        """The records directly below a prefix, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Take a record away, if it is there."""
        ...


def store_at(place: str | Path) -> Store:
    """The store at a folder's path or an object store's URL (``s3://``, ``gs://``, ``az://``, ``abfss://``, ...)."""
    text = str(place)
    if text.startswith("file://"):
        from urllib.parse import unquote, urlparse

        return Folder(Path(unquote(urlparse(text).path)))
    return Objects.at(text) if "://" in text else Folder(Path(place))


class Folder:
    """Records as files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def where(self, name: str) -> str:
        return str(self.root / name)

    def put(self, name: str, content: bytes, *, once: bool = False) -> bool:
        target = self.root / name
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if once:
                return self._linked(part, target, content)
            os.replace(part, target)
        except OSError as error:
            raise _unwritable(str(target), error) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        return True

    def _linked(self, part: Path, target: Path, content: bytes) -> bool:
        try:
            # A link appears at once with all that the file holds, and never over another file.
            os.link(part, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            try:
                with target.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                return False
        return True

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(self.where(name), error) from error

    def names(self, prefix: str) -> tuple[str, ...]:
        folder = self.root / prefix
        try:
            found = [each.name for each in os.scandir(folder) if each.is_file() and not each.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _unreadable(str(folder), error) from error
        return tuple(sorted(found))

    def delete(self, name: str) -> None:
        try:
            (self.root / name).unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise _unwritable(self.where(name), error) from error


class Objects:
    """Records as objects. Credentials come from the environment, as obstore and delta-rs read it."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self.store = store
        self.url = public_uri(url).rstrip("/")

    @classmethod
    def at(cls, url: str) -> Objects:
        try:
            from obstore.store import from_url
        except ImportError as error:
            raise ConfigError(
                "the state lies in an object store, and obstore is not installed",
                where=public_uri(url),
                hint="pip install 'lakeevolve[store]'",
            ) from error
        with _answering(url):
            made = from_url(url, retry_config={"max_retries": 3, "retry_timeout": _PATIENCE})
        return cls(made, url)

    def where(self, name: str) -> str:
        return f"{self.url}/{name}"

    def put(self, name: str, content: bytes, *, once: bool = False) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _answering(self.where(name)):
            try:
                obstore.put(self.store, name, content, mode="create" if once else "overwrite")
            except AlreadyExistsError:
                # A put whose answer was lost is sent again and then finds its own object.
                return self.get(name) == content
        return True

    def get(self, name: str) -> bytes | None:
        import obstore

        with _answering(self.where(name)):
            try:
                return bytes(obstore.get(self.store, name).bytes())
            except FileNotFoundError:
                return None

    def names(self, prefix: str) -> tuple[str, ...]:
        import obstore

        with _answering(self.where(prefix)):
            found = obstore.list_with_delimiter(self.store, f"{prefix.rstrip('/')}/")["objects"]
        names = [str(each["path"]).rpartition("/")[2] for each in found]
        return tuple(sorted(name for name in names if not name.startswith(".")))

    def delete(self, name: str) -> None:
        import obstore

        with _answering(self.where(name)), contextlib.suppress(FileNotFoundError):
            obstore.delete(self.store, name)


@contextmanager
def _answering(where: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        reason = _REASONS.get(type(error).__name__)
        kind = StateUnavailable if reason is None else ConfigError
        raise kind(
            f"the state cannot be kept there: {reason or 'it did not answer'}",
            where=public_uri(where),
            hint="check the URL, the network and the credentials in the environment",
        ) from without_secrets(error)


_REASONS: Final[dict[str, str]] = {
    "PermissionDeniedError": "permission denied",
    "UnauthenticatedError": "the store does not know the credentials",
    "NotFoundError": "there is no such bucket",
    "FileNotFoundError": "there is no such bucket",
    "NotSupportedError": "the store cannot put an object only if it is absent",
    "InvalidPathError": "the path is none that the store takes",
    "UnknownConfigurationKeyError": "the store's configuration is wrong",
    "ValueError": "the URL is none of an object store",
}


def _unwritable(path: str, error: OSError) -> ConfigError:
    reason = error.strerror or "permission denied"
    return ConfigError(
        f"the state folder cannot be written: {reason}", where=path, hint="set LAKEEVOLVE_STATE to a writable folder"
    )


def _unreadable(path: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"the state folder cannot be read: {error.strerror}", where=path, hint="check the folder and its permissions"
    )
