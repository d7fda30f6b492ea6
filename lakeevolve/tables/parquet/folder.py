"""A folder of Parquet files on a disk, with its marker in a file beside them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakeevolve.errors import CommitConflict, TableError, TableNotFound, UnsupportedTable
from lakeevolve.model.digest import text_digest
from lakeevolve.tables.base import Stored
from lakeevolve.tables.batches import batch_rows
from lakeevolve.tables.parquet.parts import FILE_VERSION, Part

#: The marker's file. Readers of a folder leave out names that begin with an underscore.
SIDECAR: Final = "_lakeevolve.json"
#: What a folder is called while it is written.
_PARTIAL: Final = ".lakeevolve-"
_SUFFIXES: Final = frozenset({".parquet", ".parq", ".pq"})

#: Rows are written in row groups of at most so many, or about so many bytes.
_GROUP_ROWS: Final = 1 << 20
_GROUP_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class Folder:
    """See :class:`lakeevolve.tables.parquet.parts.Source`."""

    path: Path
    into: Path | None
    id: str
    properties: Mapping[str, str]
    #: The folders that this one was made from, by version, relative to it.
    folders: Mapping[int, str]
    parts: tuple[Part, ...]
    given: str = ""

    @classmethod
    def open(cls, path: Path, into: Path | None = None, given: str | None = None) -> Folder:
        """Read the footers of a folder's files, and its marker."""
        where = f"parquet:{path if given is None else given}"
        if not path.is_dir():
            raise TableNotFound("there is no such folder", where=where, hint="a table is parquet:DIR")
        record = _sidecar(path, where)
        written: Mapping[str, Sequence[int]] = record.get("files", {})
        found = {str(file.relative_to(path)): file for file in _files(path, where)}
        names = sorted({*found, *written})
        if not names:
            raise TableNotFound("the folder holds no Parquet file", where=where, hint="files are *.parquet")
        parts = tuple(_part(path, name, written.get(name)) for name in names)
        identity = record.get("id") or text_digest(f"parquet:{path.resolve()}")[:32]
        folders = {int(number): str(folder) for number, folder in record.get("folders", {}).items()}
        return cls(path, into, identity, record.get("properties", {}), folders, parts, str(path))

    @property
    def uri(self) -> str:
        return f"parquet:{self.given}"

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def listing(self) -> str:
        said = []
        for part in self.parts:
            with suppress(OSError):
                at = part.place.stat()
                said.append(f"{part.name} {at.st_size} {at.st_mtime_ns}")
        return text_digest("\n".join(said))

    def again(self) -> Folder:
        return Folder.open(self.path, self.into)

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(part.place) as file:
            yield from file.iter_batches(batch_size=batch_rows(file.metadata))

    def scan(
        self, parts: Sequence[Part], schema: pa.Schema, condition: Any, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        files = [str(part.place) for part in parts]
        dataset = ds.dataset(files, schema=schema, format="parquet")
        names = schema.names if columns is None else [name for name in columns if name in schema.names]
        # Read ahead is what costs memory here, and files are read one beside the other anyway.
        yield from dataset.to_batches(columns=names, filter=condition, batch_readahead=2, fragment_readahead=1)

    def stored(self, part: Part) -> Stored:
        try:
            size = part.place.stat().st_size
        except OSError:
            return Stored(None, None)
        try:
            return Stored(size, pq.read_metadata(part.place).num_rows)
        except (OSError, pa.ArrowException):
            return Stored(size, None)

    def goes_to(self, version: int) -> str:
        return f"the rows go into the new folder {self._into(version).name}"

    def _into(self, version: int) -> Path:
        if self.into is not None:
            return self.into
        plain = self.path.resolve()
        stem, dot, number = plain.name.rpartition(".v")
        return self.path.parent / f"{stem if dot and number.isdigit() else plain.name}.v{version}"

    def target(self, version: int) -> FolderTarget:
        into = self._into(version)
        if into.exists():
            raise TableError(
                "the new folder is there already", where=str(into), hint="move it away, or name another one: into=DIR"
            )
        return FolderTarget(self, into, into.parent / f"{_PARTIAL}{into.name}-{uuid.uuid4().hex[:8]}")

    def successor(self, version: int) -> Folder | None:
        into = self._into(version)
        if not (into / SIDECAR).is_file():
            return None
        found = Folder.open(into)
        return found if found.id == self.id else None

    def earlier(self, version: int) -> Folder | None:
        relative = self.folders.get(version)
        if relative is None or not (self.path / relative).is_dir():
            return None
        found = Folder.open(self.path / relative)
        return found if found.id == self.id else None

    def discard(self, paths: Sequence[str]) -> tuple[str, ...]:
        left = []
        for each in paths:
            file = Path(each)
            try:
                file.unlink(missing_ok=True)
            except OSError:
                left.append(each)
            for folder in file.parents:
                # A folder that holds something stays.
                with suppress(OSError):
                    folder.rmdir()
                if folder.exists() or folder.name.startswith(_PARTIAL):
                    break
        return tuple(left)


@dataclass(slots=True)
class FolderTarget:
    """A folder under a name that nobody reads, until it is whole."""

    old: Folder
    into: Path
    partial: Path
    made: list[Part] = field(default_factory=list)

    def path(self, part: Part) -> Path:
        return self.partial / part.name

    def write(self, part: Part, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Part:
        file = self.path(part)
        with _writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(file, schema, compression=_compression(part)) as writer:
                for group in _groups(batches, schema):
                    writer.write_table(group, row_group_size=_GROUP_ROWS)
        return self._made(part)

    def copy(self, part: Part, version: int) -> Part:
        file = self.path(part)
        with _writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part.place, file)
        return self._made(part, version)

    def _made(self, part: Part, version: int | None = None) -> Part:
        found = _part(self.partial, part.name, None)
        if version is not None:
            found = replace(found, version=version)
        self.made.append(found)
        return found

    def source(self) -> Folder:
        return Folder(self.partial, None, self.old.id, {}, {}, tuple(self.made), str(self.into))

    def finish(self, properties: Mapping[str, str], version: int) -> Folder:
        # By names that do not depend on where the folders lie together.
        here = self.into.parent.resolve() / self.into.name
        folders = {number: self.old.path / folder for number, folder in self.old.folders.items()}
        folders[version - 1] = self.old.path
        record = {
            "format_version": "1.0",
            "id": self.old.id,
            "properties": dict(properties),
            "folders": {str(n): os.path.relpath(folder.resolve(), here) for n, folder in sorted(folders.items())},
            "files": {each.name: [each.rows, each.bytes, each.version] for each in sorted(self.made, key=_by_name)},
        }
        with _writing(self.partial / SIDECAR):
            self.partial.mkdir(parents=True, exist_ok=True)
            (self.partial / SIDECAR).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            _flush(self.partial)
        if self.into.exists():
            raise CommitConflict("the new folder is there by now", where=str(self.into), hint="see who made it")
        try:
            # A rename onto a folder that holds something fails.
            self.partial.rename(self.into)
        except OSError as error:
            raise CommitConflict(
                f"the new folder cannot appear: {error.strerror}", where=str(self.into), hint="nothing was changed"
            ) from error
        return Folder.open(self.into)

    def abandon(self) -> tuple[str, ...]:
        shutil.rmtree(self.partial, ignore_errors=True)
        return tuple(str(file) for file in self.partial.rglob("*") if file.is_file()) if self.partial.exists() else ()


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    """Turn what a disk refuses into an error of ours."""
    try:
        yield
    except OSError as error:
        raise TableError(
            f"the file cannot be written: {error.strerror or type(error).__name__}",
            where=str(file),
            hint="the folder that it was to come from is as it was",
        ) from error


def _flush(folder: Path) -> None:
    """Have the disk hold everything before the name that makes it count."""
    for file in [*(each for each in folder.rglob("*") if each.is_file()), folder]:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sidecar(path: Path, where: str) -> Mapping[str, Any]:
    file = path / SIDECAR
    if not file.exists():
        return {}
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if not str(record["format_version"]).startswith("1."):
            raise UnsupportedTable("the marker is of a later version of lakeevolve", where=where, hint="update it")
        return {**record, "properties": {str(k): str(v) for k, v in record["properties"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"the marker {SIDECAR} cannot be read", where=where, hint="restore it, or delete it to begin anew"
        ) from error


def _files(path: Path, where: str) -> Iterator[Path]:
    for at, folders, names in os.walk(path):
        here = Path(at)
        folders[:] = sorted(each for each in folders if not each.startswith((".", "_")))
        parted = next((each for each in folders if "=" in each), None)
        if parted is not None:
            raise UnsupportedTable(
                f"the folder is partitioned by its path: {parted.partition('=')[0]}=...",
                where=where,
                hint="name one partition's folder, or make it a Delta or Iceberg table",
            )
        for name in sorted(names):
            if Path(name).suffix.lower() in _SUFFIXES and not name.startswith((".", "_")):
                yield here / name


def _part(folder: Path, name: str, recorded: Sequence[int] | None) -> Part:
    file = folder / name
    schema, rows, size, version = None, 0, 0, None
    with suppress(OSError, pa.ArrowException):
        size = file.stat().st_size
        metadata = pq.read_metadata(file)
        schema, rows = metadata.schema.to_arrow_schema(), metadata.num_rows
        told = (schema.metadata or {}).get(FILE_VERSION, b"")
        version = int(told) if told.isdigit() else None
    if recorded is not None:
        rows, size, version = recorded
    return Part(name, rows, size, schema, version, file, recorded is not None)


def _by_name(part: Part) -> str:
    return part.name


def _compression(part: Part) -> str:
    """As the old file has it."""
    with suppress(OSError, pa.ArrowException):
        metadata = pq.read_metadata(part.place)
        if metadata.num_row_groups and metadata.num_columns:
            found: str = metadata.row_group(0).column(0).compression.lower()
            return {"uncompressed": "none", "lz4_raw": "lz4"}.get(found, found)
    return "zstd"


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches joined to what a row group may hold."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def digest_of(text: str) -> int:
    """A number for a text, that fits 63 bits."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
