"""Reading a table's own log: which version added which file, which schema was in force when, and what each commit says.

delta-rs answers for the current version; this module answers for the past, which replay needs. Source: the Delta
protocol, "Delta Log Entries", "Checkpoints" and "Action Reconciliation".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.errors import TableError
from lakeevolve.redaction import without_secrets
from lakeevolve.tables.delta.store import guard, unanswered
from lakeevolve.tables.delta.types import Struct, parse_struct

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

LOG: Final = "_delta_log"

_COMMIT = re.compile(r"(\d{20})\.json\Z")
#: The count at the beginning of a file's statistics, where every writer puts it.
_RECORDS = re.compile(r'\{\s*"numRecords"\s*:\s*(\d+)\s*[,}]')
_LINES: Final = 512
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)\Z")


@dataclass(frozen=True, slots=True)
class Add:
    """One ``add`` action. ``path`` is as the log writes it: percent-encoded, relative to the table or absolute."""

    path: str
    partition: Mapping[str, str | None]
    size: int
    stats: str | None = None
    vector: Mapping[str, Any] | None = None
    modified: int = 0

    @property
    def rows(self) -> int | None:
        """``numRecords``, where the statistics say it."""
        if not self.stats:
            return None
        first = _RECORDS.match(self.stats)
        if first is not None:
            return int(first.group(1))
        found = json.loads(self.stats).get("numRecords")
        return None if found is None else int(found)

    @property
    def live(self) -> int | None:
        """The same without the rows that its deletion vector takes out, where both say how many."""
        deleted = self.vector.get("cardinality") if self.vector else 0
        return None if self.rows is None or deleted is None else self.rows - int(deleted)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition),
            "size": self.size,
            "modificationTime": self.modified,
            "dataChange": True,
        }
        if self.stats:
            found["stats"] = self.stats
        if self.vector:
            found["deletionVector"] = dict(self.vector)
        return found


@dataclass(frozen=True, slots=True)
class Metadata:
    """One ``metaData`` action."""

    id: str
    struct: Struct
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created: int | None = None

    @property
    def partition_physical(self) -> frozenset[str]:
        """The partition columns as data files and partition values call them."""
        return frozenset(c.physical for c in self.struct.columns if c.name in self.partition_columns)


@dataclass(frozen=True, slots=True)
class Protocol:
    reader: int
    writer: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"minReaderVersion": self.reader, "minWriterVersion": self.writer}
        if self.reader >= 3:
            found["readerFeatures"] = sorted(self.reader_features)
        if self.writer >= 7:
            found["writerFeatures"] = sorted(self.writer_features)
        return found


#: A writer that leaves no name in its commits.
UNNAMED: Final = "an engine that does not say its name"


@dataclass(frozen=True, slots=True)
class Commit:
    """What one version did besides its files.

    ``properties`` are the ``lakeevolve.*`` entries of its commitInfo; ``restored`` is the version that it went back
    to, if it did. ``engine`` is who made it, by the commit's own word.
    """

    version: int
    at: datetime | None
    operation: str | None
    properties: Mapping[str, str]
    metadata: Metadata | None
    restored: int | None = None
    engine: str = UNNAMED


@dataclass(frozen=True, slots=True)
class Live:
    """A live file. ``added`` is the version that brought its rows; None where the log no longer says so."""

    add: Add
    added: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table at one version. ``complete`` says that the log still begins with version 0."""

    version: int
    protocol: Protocol
    metadata: Metadata
    files: Mapping[str, Live]
    commits: tuple[Commit, ...]
    complete: bool


def read_snapshot(fs: pa_fs.FileSystem, version: int, where: str) -> Snapshot:
    """Replay the log up to a version.

    Parameters
    ----------
    fs:
        A file system whose root is the table.
    version:
        The version to stop at.
    where:
        The table's URI, for messages.

    Raises
    ------
    TableError
        Where commits are missing and no checkpoint stands in for them, or the log cannot be read.
    """
    commits, checkpoints = _listing(fs, where)
    first = _first(commits, version)
    replay = _Replay(where)
    if first > 0:
        usable = [v for v in checkpoints if first - 1 <= v <= version]
        if not usable:
            raise TableError(
                f"the log of version {version} is not complete",
                where=where,
                hint="restore the missing files of _delta_log, or open a version that a checkpoint covers",
            )
        base = min(usable)
        replay.checkpoint(_checkpoint(fs, checkpoints[base], where), base)
    else:
        base = -1
    for number in range(first, version + 1):
        replay.commit(number, _lines(fs, commits[number], where), counts=number > base)
    return replay.snapshot(version, complete=first == 0)


def log_end(fs: pa_fs.FileSystem, version: int) -> tuple[object, ...] | None:
    """What tells that the log still ends with the commit of a version, and that it is the same commit; None where the
    file system does not tell."""
    import pyarrow.fs as pa_fs

    try:
        last, beyond = fs.get_file_info([f"{LOG}/{v:020d}.json" for v in (version, version + 1)])
    except OSError:
        return None
    if last.type != pa_fs.FileType.File or beyond.type != pa_fs.FileType.NotFound:
        return None
    return last.size, last.mtime_ns


def oldest_version(fs: pa_fs.FileSystem, newest: int, where: str) -> int:
    """The oldest version from which the log leads to the newest: the first one, or one that a checkpoint holds."""
    commits, checkpoints = _listing(fs, where)
    first = _first(commits, newest)
    return min((v for v in checkpoints if first - 1 <= v <= newest), default=newest) if first else 0


def _first(commits: Mapping[int, str], version: int) -> int:
    """The first of the commits that lead to a version without a gap."""
    first = version + 1
    while first - 1 in commits:
        first -= 1
    return first


@dataclass(slots=True)
class _Replay:
    where: str
    files: dict[str, Live] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    protocol: Protocol | None = None
    metadata: Metadata | None = None

    def checkpoint(self, actions: Iterable[Mapping[str, Any]], version: int) -> None:
        for action in actions:
            if action.get("add"):
                add = _add(action["add"])
                self.files[add.path] = Live(add, None)
            elif action.get("metaData"):
                self.metadata = _metadata(action["metaData"], self.where)
            elif action.get("protocol"):
                self.protocol = _protocol(action["protocol"])
        if self.metadata is not None:
            self.commits.append(Commit(version, None, None, {}, self.metadata))

    def commit(self, version: int, actions: Iterable[Mapping[str, Any]], *, counts: bool) -> None:
        """Take in one commit. One that a checkpoint already covers (not ``counts``) only says when files came."""
        info: Mapping[str, Any] = {}
        metadata: Metadata | None = None
        removed: dict[str, Live | None] = {}
        adds: list[Add] = []
        for action in actions:
            if "add" in action:
                adds.append(_add(action["add"]))
            elif "remove" in action:
                path = action["remove"]["path"]
                removed[path] = self.files.pop(path, None) if counts else None
            elif "metaData" in action:
                metadata = metadata or _metadata(action["metaData"], self.where)
            elif "protocol" in action and counts:
                self.protocol = _protocol(action["protocol"])
            elif "commitInfo" in action:
                info = info or action["commitInfo"]
        for add in adds:
            if counts:
                # A new deletion vector or new statistics: the rows are as old as they were.
                before = self.files.get(add.path) or removed.get(add.path)
                again = before is not None or add.path in removed
                self.files[add.path] = Live(add, before.added if before else None if again else version)
            elif add.path in self.files and add.path not in removed and self.files[add.path].added is None:
                self.files[add.path] = Live(self.files[add.path].add, version)
        if metadata is not None and counts:
            self.metadata = metadata
        at = info.get("timestamp")
        self.commits.append(
            Commit(
                version,
                datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else None,
                info.get("operation"),
                {k: str(v) for k, v in info.items() if k.startswith("lakeevolve.")},
                metadata,
                _restored(info),
                str(info.get("engineInfo") or info.get("clientVersion") or UNNAMED),
            )
        )

    def snapshot(self, version: int, *, complete: bool) -> Snapshot:
        if self.metadata is None or self.protocol is None:
            raise TableError(
                "the table's log holds no schema or no protocol", where=self.where, hint="restore its first commits"
            )
        commits = tuple(sorted(self.commits, key=lambda c: c.version))
        return Snapshot(version, self.protocol, self.metadata, self.files, commits, complete)


def _listing(fs: pa_fs.FileSystem, where: str) -> tuple[dict[int, str], dict[int, list[str]]]:
    import pyarrow.fs as pa_fs

    with guard(where, "the table's log cannot be listed"):
        found = fs.get_file_info(pa_fs.FileSelector(LOG, allow_not_found=True))
    commits: dict[int, str] = {}
    parts: dict[int, list[tuple[int, str]]] = {}
    for info in found:
        name = info.path.rpartition("/")[2]
        commit = _COMMIT.match(name)
        checkpoint = _CHECKPOINT.match(name)
        if commit:
            commits[int(commit.group(1))] = f"{LOG}/{name}"
        elif checkpoint:
            count = int(checkpoint.group(3) or 1)
            parts.setdefault(int(checkpoint.group(1)), []).append((count, f"{LOG}/{name}"))
    return commits, {v: chosen for v, candidates in parts.items() if (chosen := _whole(candidates))}


def _whole(candidates: list[tuple[int, str]]) -> list[str]:
    """The files of one checkpoint that is all there: a version may have several, and half-written ones."""
    for count in sorted({c for c, _ in candidates}):
        files = sorted(path for c, path in candidates if c == count)
        if count == 1:
            return files[:1]
        if len(files) == count:
            return files
    return []


def _lines(fs: pa_fs.FileSystem, path: str, where: str) -> Iterator[Mapping[str, Any]]:
    try:
        with fs.open_input_stream(path) as stream:
            lines = stream.read().splitlines()
        # Some at a time: one call for each line costs as much as its parsing.
        for start in range(0, len(lines), _LINES):
            filled = [line for line in lines[start : start + _LINES] if line and not line.isspace()]
            yield from json.loads(b"[" + b",".join(filled) + b"]")
    except (OSError, ValueError) as error:
        told = "a commit of the table cannot be read"
        raise unanswered(error, where, told) or TableError(
            told, where=f"{where}/{path}", hint="restore the file from a backup"
        ) from without_secrets(error)


def _checkpoint(fs: pa_fs.FileSystem, files: list[str], where: str) -> Iterator[Mapping[str, Any]]:
    for path in files:
        for action in _checkpoint_file(fs, path, where):
            if action.get("sidecar"):
                side = action["sidecar"]["path"]
                yield from _checkpoint_file(fs, side if "/" in side else f"{LOG}/_sidecars/{side}", where)
            else:
                yield action


def _checkpoint_file(fs: pa_fs.FileSystem, path: str, where: str) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.endswith(".json"):
        yield from _lines(fs, path, where)
        return
    try:
        with pq.ParquetFile(fs.open_input_file(path)) as file:
            wanted = [n for n in ("add", "metaData", "protocol", "sidecar") if n in file.schema_arrow.names]
            for batch in file.iter_batches(columns=wanted, batch_size=4096):
                yield from ({k: v for k, v in action.items() if v is not None} for action in batch.to_pylist())
    except (OSError, pa.ArrowException) as error:
        told = "a checkpoint of the table cannot be read"
        raise unanswered(error, where, told) or TableError(
            told, where=f"{where}/{path}", hint="write a new checkpoint"
        ) from without_secrets(error)


def _restored(info: Mapping[str, Any]) -> int | None:
    if info.get("operation") != "RESTORE":
        return None
    version = (info.get("operationParameters") or {}).get("version")
    return int(version) if version is not None and str(version).isdigit() else None


def _add(found: Mapping[str, Any]) -> Add:
    vector = found.get("deletionVector")
    return Add(
        path=found["path"],
        partition=dict(found.get("partitionValues") or {}),
        size=int(found.get("size") or 0),
        stats=found.get("stats") or None,
        vector={k: v for k, v in vector.items() if v is not None} if vector else None,
        modified=int(found.get("modificationTime") or 0),
    )


def _metadata(found: Mapping[str, Any], where: str) -> Metadata:
    return Metadata(
        id=found["id"],
        struct=parse_struct(found["schemaString"], where),
        partition_columns=tuple(found.get("partitionColumns") or ()),
        configuration=dict(found.get("configuration") or {}),
        name=found.get("name"),
        description=found.get("description"),
        created=found.get("createdTime"),
    )


def _protocol(found: Mapping[str, Any]) -> Protocol:
    return Protocol(
        int(found["minReaderVersion"]),
        int(found["minWriterVersion"]),
        frozenset(found.get("readerFeatures") or ()),
        frozenset(found.get("writerFeatures") or ()),
    )
