"""Writing the files of a Delta table anew, here one after the other or in other processes.

Whoever runs the tasks of a cluster may run one twice, and the other run may be alive still. So every file has a name
of its own that holds the attempt's, and only what came back as a result becomes part of the table.
"""

from __future__ import annotations

import posixpath
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from lakeevolve.tables.base import DataFile, Evolution, StagedFile
from lakeevolve.tables.delta.log import Add
from lakeevolve.tables.delta.store import Address
from lakeevolve.tables.delta.types import Column
from lakeevolve.tables.delta.write import Written, write_file
from lakeevolve.tables.unfit import unfit

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pa_fs

#: Before an attempt's name, where all of its files are meant.
_ANY: Final = "**/"


@dataclass(slots=True)
class Made:
    """What was written: the files, and their entries for the log."""

    files: list[StagedFile] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)

    def take(self, source: DataFile, path: str, written: Written | None, partition: Mapping[str, str | None]) -> None:
        if written is not None:
            self.files.append(StagedFile(path, written.rows, written.bytes, (source.path,)))
            now = int(time.time() * 1000)
            self.adds.append(Add(quote(path), partition, written.bytes, written.stats, None, now))


def write_anew(
    address: Address,
    fs: pa_fs.FileSystem,
    evolution: Evolution,
    columns: Sequence[Column],
    indexed: int,
    sources: Mapping[str, Add],
    writing: Callable[[str], None],
) -> Made:
    """Write every file of the evolution anew. *writing* is told of each file before it is there, or of all together."""
    attempt = str(uuid.uuid4())
    engine, made = evolution.engine, Made()
    if engine is None or not engine.remote:
        for number, file in enumerate(evolution.rewrite):
            path = _path(file, number, attempt)
            writing(path)
            written = write_file(fs, path, columns, evolution.convert(file), indexed, partial(unfit, file))
            made.take(file, path, written, sources[file.path].partition)
            evolution.progress(file)
        return made
    how = _Rewriting(address, tuple(columns), indexed, attempt, evolution.convert)
    writing(_ANY + attempt)
    answers: dict[int, tuple[str, Written | None]] = {}
    tasks = [_Task(number, file) for number, file in enumerate(evolution.rewrite)]
    for number, path, written in engine.map_unordered(how, tasks):
        answers[number] = path, written
        evolution.progress(evolution.rewrite[number])
    for number, file in enumerate(evolution.rewrite):
        path, written = answers[number]
        made.take(file, path, written, sources[file.path].partition)
    kept = {file.path for file in made.files}
    # A task that was run twice left the file of its other run.
    delete(fs, [path for path in files_of(fs, _ANY + attempt) if path not in kept])
    return made


@dataclass(frozen=True, slots=True)
class _Task:
    number: int
    file: DataFile

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def bytes(self) -> int:
        return self.file.bytes


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """How the files of one attempt are written anew in another process."""

    address: Address
    columns: tuple[Column, ...]
    indexed: int
    attempt: str
    convert: Callable[[DataFile], Iterator[pa.RecordBatch]]

    def __call__(self, task: _Task) -> tuple[int, str, Written | None]:
        path = _path(task.file, task.number, f"{self.attempt}-{uuid.uuid4().hex[:8]}")
        fs = _store(self.address.path, tuple(sorted(self.address.options.items())))
        rows = self.convert(task.file)
        return task.number, path, write_file(fs, path, self.columns, rows, self.indexed, partial(unfit, task.file))


@lru_cache(maxsize=8)
def _store(path: str, options: tuple[tuple[str, str], ...]) -> pa_fs.FileSystem:
    address = Address(path, None, dict(options))
    return address.files(address.open())


def _path(source: DataFile, number: int, name: str) -> str:
    """Where a file's successor goes: into the same partition's folder."""
    return posixpath.join(posixpath.dirname(source.path), f"part-{number:05d}-{name}-c000.snappy.parquet")


def files_of(fs: pa_fs.FileSystem, name: str) -> list[str]:
    """The file of this name; of an attempt, those that are there."""
    import pyarrow.fs as pa_fs

    if not name.startswith(_ANY):
        return [name]
    attempt = name.removeprefix(_ANY)
    there = fs.get_file_info(pa_fs.FileSelector("", recursive=True))
    return [i.path for i in there if i.type == pa_fs.FileType.File and attempt in posixpath.basename(i.path)]


def delete(fs: pa_fs.FileSystem, paths: Iterable[str]) -> tuple[str, ...]:
    """Delete files, and all that an attempt wrote; those that could not be are returned."""
    left = []
    for path in paths:
        try:
            for file in files_of(fs, path):
                _delete(fs, file)
        except OSError:
            left.append(path)
    return tuple(left)


def _delete(fs: pa_fs.FileSystem, path: str) -> None:
    try:
        fs.delete_file(path)
    except FileNotFoundError:
        return
