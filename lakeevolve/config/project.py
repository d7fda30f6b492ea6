"""What ``lakeevolve.yaml`` says, as values: subjects, what holds for which table, and the policy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase, translate
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from lakeevolve.config.find import shown
from lakeevolve.errors import ConfigError

#: How pydantic reads these classes: nothing unknown, nothing converted, docstrings as descriptions in the JSON Schema.
_STRICT: Final[Mapping[str, Any]] = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}

Mode = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
OldRows = Literal["default", "null"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+-]+):(?!//)")
#: Schemes whose rest is a path on this disk, where it names no store.
_PATHS: Final = frozenset({"file", "delta", "parquet", "arrow", "avro", "folder"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A named line of schema versions, and the tables that follow it."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    source: str
    """Where the schema comes from: a path or a source URI, or a folder of versions, of which the last one counts. Paths
    are relative to this file."""
    mode: Mode = "BACKWARD"
    """The compatibility mode that a new version has to keep."""
    tables: tuple[str, ...] = ()
    """The URIs of the tables that hold this subject's rows."""
    contracts: tuple[str, ...] = ()
    """Files in which consumers say what they read."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Renames that the owner approves although no alias declares them: old path to new path."""
    not_renames: tuple[tuple[str, str], ...] = ()
    """Suspected renames that are none: [old path, new path]."""
    registry: str | None = None
    """The subject of the schema registry that this schema is registered under, where the source does not say it."""
    streams: bool = False
    """Whether a Kafka Streams application reads it, which needs a mode with BACKWARD in it."""

    @property
    def registered_as(self) -> str | None:
        """The subject in the schema registry: the one that is named, or the one that the source is."""
        if self.registry is not None or not self.source.startswith("registry:"):
            return self.registry
        return re.sub(r"@(latest|\*|\d+)\Z", "", self.source.removeprefix("registry:").partition("#")[0]) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a plan may write anew. A plan over a limit is refused."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    max_rewrite_bytes: int | None = None
    """The most bytes of stored files that may be written anew: a number, or a text such as 500 GiB."""
    max_files: int | None = None
    """The most files that may be written anew."""

    def to_json(self) -> dict[str, int]:
        """The limits that are set."""
        return {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What holds for the tables whose URI a pattern matches."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    mode: Mode | None = None
    """The compatibility mode that a new version has to keep for these tables, in place of the subject's."""
    old_rows: OldRows | Mapping[str, OldRows] | None = None
    """What rows older than an added field read in it: default (a backfill) or null; or per path, * for the rest."""
    routes: Mapping[str, Literal["metadata", "backfill", "rewrite", "external"]] = field(default_factory=dict)
    """Per path, the route to insist on. A change that would take another one is refused."""
    limits: Limits = field(default_factory=Limits)
    pin: Literal["schema", "data"] | None = None
    """What makes a plan stale: a change of the schema, or also any write to the data."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Where the table's columns have other names than the schema's fields: path in the schema to path in the table, as
    orderId: order_id; or after: $ where the rows are a record inside the schema."""
    foreign: tuple[str, ...] = ()
    """Top-level columns that no schema owns, by name or pattern, as kafka_*: they are kept as they are. Those whose
    names begin with _ are foreign anyway."""

    def over(self, other: TableOptions) -> TableOptions:
        """These options, and the others' where these say nothing. Routes and limits go together key by key."""
        mine, theirs = self.limits, other.limits
        old_rows = other.old_rows if self.old_rows is None else self.old_rows
        if isinstance(self.old_rows, Mapping) and isinstance(other.old_rows, Mapping):
            old_rows = {**other.old_rows, **self.old_rows}
        return TableOptions(
            mode=other.mode if self.mode is None else self.mode,
            old_rows=old_rows,
            routes={**other.routes, **self.routes},
            limits=Limits(
                max_rewrite_bytes=theirs.max_rewrite_bytes
                if mine.max_rewrite_bytes is None
                else mine.max_rewrite_bytes,
                max_files=theirs.max_files if mine.max_files is None else mine.max_files,
            ),
            pin=other.pin if self.pin is None else self.pin,
            mapping={**other.mapping, **self.mapping},
            foreign=tuple(dict.fromkeys((*other.foreign, *self.foreign))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverEntry:
    """Someone's decision to let one finding pass."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    fingerprint: str
    """Which finding: the 16 hex digits that it is printed with in JSON."""
    reason: str
    """Why it may pass."""
    approver: str
    """Who says so."""
    until: date | None = None
    """The last day on which the waiver holds, as 2027-01-31; without it, it has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """How findings are weighed."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    severity: Mapping[str, Literal["error", "warning", "info", "off"]] = field(default_factory=dict)
    """Rule id to the severity that its findings have here; off drops them."""
    fail_on: Literal["error", "warning", "info", "never"] = "error"
    """The lowest severity that fails a check or a plan."""
    waivers: tuple[WaiverEntry, ...] = ()
    """Findings that are let pass. One that has run out or waives nothing is a finding itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """Where the schema registry is. Credentials come from the environment alone."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    url: str
    """The registry's address, as https://registry.example.com; LAKEEVOLVE_REGISTRY_URL comes before it."""
    ca: str | None = None
    """The file of the authority that signed the registry's certificate, relative to this file; without it, the usual
    authorities count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectEntry:
    """The file ``lakeevolve.yaml``."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    version: Literal[1]
    """The version of this file's format."""
    state: str | None = None
    """Where plans, journal, evidence and ledger are kept: a folder, relative to this file, or an object store's URL."""
    registry: RegistryEntry | None = None
    """The schema registry that ``registry:`` sources are read from."""
    subjects: Mapping[str, Subject] = field(default_factory=dict)
    """Name to what is judged and planned under it."""
    tables: Mapping[str, TableOptions] = field(default_factory=dict)
    """Patterns of table URIs (* and ?) to what holds there. All that match apply; a later one wins, key by key."""
    policy: PolicyEntry = field(default_factory=PolicyEntry)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def _located(root: Path, here: Path, uri: str) -> str:
    if root == here or "://" in uri:
        return uri
    match = _SCHEME.match(uri)
    scheme, rest = (match.group(1).lower(), uri[match.end() :]) if match else ("", uri)
    if not scheme:
        return str(root / uri)
    if scheme == "git":
        revision, colon, path = rest.partition(":")
        # git reads a path as relative to the working directory.
        return f"git:{revision}:{os.path.relpath(root / path, here)}" if colon else uri
    if scheme == "iceberg":
        catalog, slash, name = rest.rpartition("/")
        is_folder = slash and (catalog.startswith(".") or "/" in catalog or (root / catalog).is_dir())
        return f"iceberg:{root / catalog}/{name}" if is_folder else uri
    return f"{scheme}:{root / rest}" if scheme in _PATHS else uri


@dataclass(frozen=True, slots=True)
class Project:
    """A project: what its ``lakeevolve.yaml`` says, and where that lies.

    ``lines`` holds the line of each place in the file, by its keys from the root on.
    """

    file: Path
    entry: ProjectEntry
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def root(self) -> Path:
        """The folder of the file, which its paths are relative to."""
        return self.file.parent

    @property
    def shown(self) -> str:
        """The file's path as it is shown: from the working directory, where it lies there."""
        return shown(self.file)

    @property
    def state(self) -> str | None:
        """Where the state lies, if the file says so: a path from here, or a URL."""
        return None if self.entry.state is None else self.located(self.entry.state)

    def located(self, uri: str) -> str:
        """A path or URI of the file as it reads from the working directory.

        Where that is the file's own folder, the text stays as it is, so that it is the same on every machine.
        """
        return _located(self.root, Path.cwd(), uri)

    def subjects(self, chosen: Sequence[str] = ()) -> dict[str, Subject]:
        """The subjects whose name one of the patterns matches, in the file's order; all without patterns.

        Raises ``ConfigError`` where a pattern matches none.
        """
        every = self.entry.subjects
        for pattern in chosen:
            if not any(fnmatchcase(name, pattern) for name in every):
                near = get_close_matches(pattern, every, n=1)
                raise ConfigError(
                    f"there is no subject {pattern!r}",
                    where=str(self.file),
                    hint=f"did you mean {near[0]}?" if near else "known subjects: " + (", ".join(every) or "none"),
                )
        return {
            name: subject
            for name, subject in every.items()
            if not chosen or any(fnmatchcase(name, pattern) for pattern in chosen)
        }

    def options(self, uri: str) -> TableOptions:
        """What holds for the table at a URI, given as the file has it or as it reads from the working directory."""
        found, names, here = TableOptions(), self._names(uri), Path.cwd()
        for pattern, options in self.entry.tables.items():
            if self._matches(pattern, names, here):
                found = options.over(found)
        return found

    def matches(self, pattern: str, uri: str) -> bool:
        """Whether a pattern of the file means the table at a URI."""
        return self._matches(pattern, self._names(uri), Path.cwd())

    def _names(self, uri: str) -> set[str]:
        from lakeevolve.redaction import public_uri

        return {uri, public_uri(uri), self.located(uri)}

    def _matches(self, pattern: str, names: Iterable[str], here: Path) -> bool:
        forms = {pattern} if self.root == here else {pattern, _located(self.root, here, pattern)}
        return any(_compiled(form).match(name) for name in names for form in forms)

    def unused_tables(self) -> tuple[str, ...]:
        """The patterns that match no table of any subject."""
        tables = [self._names(uri) for subject in self.entry.subjects.values() for uri in subject.tables]
        here = Path.cwd()
        return tuple(
            pattern for pattern in self.entry.tables if not any(self._matches(pattern, each, here) for each in tables)
        )

    def line(self, *place: str | int) -> int | None:
        return self.lines.get(place)

    def replaced(self, **changes: Any) -> Project:
        """The project with other values in its entry."""
        return replace(self, entry=replace(self.entry, **changes))
