"""The sealed record of what was replayed, against what, by whom, and what came of it.

It holds schemas' digests, files' row digests, counts and verdicts. It holds no row value and no credential.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from lakeevolve._version import __version__
from lakeevolve.errors import ConfigError, SourceError, SourceNotFound
from lakeevolve.model.digest import json_digest
from lakeevolve.tables.base import Version

FORMAT_VERSION: Final = 1

#: How files are digested: their digests compare only within one such way.
DIGEST: Final = "lakeevolve rows in order, SHA-256, 1"

_LIBRARIES: Final = ("pyarrow", "pyiceberg", "deltalake", "fastavro")


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """One data file: the version its rows were written for, how many are live, and the digest of what they read now.

    ``digest`` is that of :class:`lakeevolve.replaying.filehash.FileHash`: files whose rows read the same in the same
    order have the same. ``sources`` are the files that a rewrite made it from.
    """

    path: str
    version: int
    inferred: bool
    rows: int
    digest: str
    sources: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "path": self.path,
            "version": self.version,
            "inferred": self.inferred,
            "rows": self.rows,
            "digest": self.digest,
        }
        if self.sources:
            found["sources"] = list(self.sources)
        return found


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one replay found.

    Parameters
    ----------
    table:
        ``uri`` (without credentials), ``format``, ``id`` and ``position``.
    from_, to:
        ``version`` and ``digest`` of the oldest version that live rows were written for, and of the one they were
        read at.
    versions:
        Every version with its digest, plan, fills, renames and where it came into force.
    files:
        The files whose rows were compared.
    mismatches:
        As :meth:`lakeevolve.replaying.compare.Mismatch.to_json` gives them.
    readers:
        ``name``, ``version`` and ``verdict`` of everyone who was asked.
    predicates:
        ``path``, ``op``, ``rows`` and ``verdict`` of each filter; never its value.
    oracle:
        Where the expected values come from.
    consumers:
        ``name`` and ``verdict`` of each contract.
    environment:
        Versions of Python and the libraries.
    seal:
        SHA-256 over all the rest.
    """

    table: Mapping[str, Any]
    from_: Mapping[str, Any]
    to: Mapping[str, Any]
    versions: Sequence[Mapping[str, Any]]
    files: Sequence[FileEvidence]
    mismatches: Sequence[Mapping[str, Any]] = ()
    readers: Sequence[Mapping[str, Any]] = ()
    predicates: Sequence[Mapping[str, Any]] = ()
    oracle: Mapping[str, Any] = field(default_factory=dict)
    consumers: Sequence[Mapping[str, Any]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION
    seal: str = ""

    def sealed(self) -> Evidence:
        """The same evidence with its seal."""
        return dataclasses.replace(self, seal=json_digest(self._record()))

    @property
    def intact(self) -> bool:
        """Whether the seal fits."""
        return bool(self.seal) and self.seal == json_digest(self._record())

    @property
    def digest(self) -> str:
        """One digest over the rows of all files: two tables whose files read the same have the same."""
        return json_digest(sorted(file.digest for file in self.files))

    def sources(self) -> dict[str, tuple[str, ...]]:
        """The map of a rewrite: each file it produced to the files it was made from."""
        return {file.path: file.sources for file in self.files if file.sources}

    def to_json(self) -> dict[str, Any]:
        return {**self._record(), "seal": self.seal}

    def _record(self) -> dict[str, Any]:
        return {
            "format_version": self.format_version,
            "table": dict(self.table),
            "from": dict(self.from_),
            "to": dict(self.to),
            "versions": [dict(v) for v in self.versions],
            "files": [f.to_json() for f in self.files],
            "mismatches": [dict(m) for m in self.mismatches],
            "readers": [dict(r) for r in self.readers],
            "predicates": [dict(p) for p in self.predicates],
            "oracle": dict(self.oracle),
            "consumers": [dict(c) for c in self.consumers],
            "environment": dict(self.environment),
        }

    def save(self, path: str | Path) -> Path:
        """Write the evidence as JSON, at once or not at all. Returns the path.

        Raises ``ConfigError`` where nothing can be written there.
        """
        try:
            return self._save(Path(path))
        except OSError as error:
            raise ConfigError(
                f"the evidence cannot be written: {error.strerror}",
                where=str(path),
                hint="give a path in a folder of yours",
            ) from error

    def _save(self, target: Path) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return target

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Evidence:
        """The inverse of :meth:`to_json`; the seal is not checked.

        Raises ``SourceError`` for what is no evidence, or of another format version.
        """
        try:
            version = record["format_version"]
            if version != FORMAT_VERSION:
                raise SourceError(
                    f"the evidence has format version {version}, and this release reads {FORMAT_VERSION}",
                    hint="read it with the release that wrote it",
                )
            return cls(
                table=record["table"],
                from_=record["from"],
                to=record["to"],
                versions=tuple(record["versions"]),
                files=tuple(FileEvidence(**{**f, "sources": tuple(f.get("sources", ()))}) for f in record["files"]),
                mismatches=tuple(record["mismatches"]),
                readers=tuple(record["readers"]),
                predicates=tuple(record["predicates"]),
                oracle=record["oracle"],
                consumers=tuple(record["consumers"]),
                environment=record["environment"],
                format_version=version,
                seal=record["seal"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            what = "the record is not lakeevolve evidence"
            raise SourceError(what, hint="give the file that verify wrote") from error


def load(path: str | Path) -> Evidence:
    """Read evidence from a file and check its seal.

    Raises ``SourceNotFound`` where there is no file, ``SourceError`` where it is no evidence or the seal does not fit.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise SourceNotFound("there is no evidence file", where=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError("the evidence file cannot be read", where=str(path)) from error
    return loads(text, str(path))


def loads(text: str | bytes, where: str) -> Evidence:
    """Evidence from a text that lies at *where*, its seal checked. Raises ``SourceError`` as :func:`load` does."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise SourceError("the evidence file is not JSON", where=where) from error
    found = Evidence.from_json(record)
    if not found.intact:
        raise SourceError(
            "the seal does not fit: the evidence was changed after it was written",
            where=where,
            hint="restore the file, or verify the table again",
        )
    return found


def version_record(version: Version) -> dict[str, Any]:
    """One table version as evidence holds it."""
    return {
        "number": version.number,
        "digest": version.digest,
        "plan": version.plan,
        "derived": version.derived,
        "fills": dict(version.fills),
        "renames": dict(version.renames),
        "fresh": sorted(version.fresh),
        "commit": version.commit,
        "schema_id": version.schema_id,
    }


def environment(extra: Iterable[str] = ()) -> dict[str, str]:
    """Versions of Python, lakeevolve and the libraries that read and compare, and nothing else of the machine."""
    found = {"python": platform.python_version(), "lakeevolve": __version__}
    for name in (*_LIBRARIES, *extra):
        version = installed(name)
        if version is not None:
            found[name] = version
    return found


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, without importing it."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
