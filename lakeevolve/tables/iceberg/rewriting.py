"""Writing a file anew, here or in another process.

Whoever runs the tasks of a cluster may run one twice, and the other run may be alive still. So every file has a name
of its own that begins with the attempt's, only what came back as a result becomes part of the table, and what else
bears the attempt's name is deleted afterwards.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider

from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import DataFile, StagedFile
from lakeevolve.tables.iceberg.raw import Handle
from lakeevolve.tables.iceberg.write import new_path, write_files
from lakeevolve.tables.unfit import unfit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile as TheirFile

#: Between the folder that an attempt's files lie under and the attempt's name.
_BELOW: Final = "/**/"

Rows = Callable[[DataFile], Iterator["pa.RecordBatch"]]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How the files of one attempt are written anew. Plain data: it may go to another process."""

    io: FileIO
    place: str
    properties: Mapping[str, str]
    specs: Mapping[int, PartitionSpec]
    schema: IcebergSchema
    target: Schema
    convert: Rows
    attempt: str = ""

    @classmethod
    def of(
        cls, table: IcebergTable, schema: IcebergSchema, target: Schema, convert: Rows, attempt: str = ""
    ) -> Rewriting:
        base = table.metadata
        return cls(table.io, base.location, dict(base.properties), base.specs(), schema, target, convert, attempt)

    def __call__(self, source: DataFile) -> tuple[str, list[StagedFile]]:
        """What a source became, with its path."""
        return source.path, self.rewrite(source, self.convert(source), lambda _path: None)

    def rewrite(
        self, source: DataFile, rows: Iterable[pa.RecordBatch], writing: Callable[[str], None]
    ) -> list[StagedFile]:
        """One file written anew: a file of the same partition, more where that grows beyond the target size, or none
        where no row is left. *writing* is told of each file before it is there."""
        theirs: TheirFile = source.handle.file
        spec = self.specs[theirs.spec_id or 0]
        folder = spec.partition_to_path(theirs.partition, self.schema) if len(theirs.partition) else ""
        provider = load_location_provider(self.place, dict(self.properties))

        def path() -> str:
            made_up = new_path(provider, folder, self.attempt)
            writing(made_up)
            return made_up

        made = write_files(
            self.io,
            path,
            self.schema,
            self.target,
            rows,
            self.properties,
            partition=theirs.partition,
            spec_id=theirs.spec_id or 0,
            sort_order_id=theirs.sort_order_id,
            unfit=partial(unfit, source),
        )
        return [
            StagedFile(each.file.file_path, each.rows, each.file.file_size_in_bytes, (source.path,), Handle(each.file))
            for each in made
        ]

    @property
    def everything(self) -> str:
        """All files that the attempt may write, as one name that :func:`files_of` takes."""
        data = self.properties.get(TableProperties.WRITE_DATA_PATH, posixpath.join(self.place, "data"))
        return f"{data.rstrip('/')}{_BELOW}{self.attempt}"


def files_of(io: FileIO, name: str) -> list[str]:
    """The file of this name; of an attempt's (:attr:`Rewriting.everything`), those that are there."""
    folder, below, attempt = name.partition(_BELOW)
    return list(_of_attempt(io, folder, attempt)) if below else [name]


def _of_attempt(io: FileIO, folder: str, attempt: str) -> Iterator[str]:
    import pyarrow.fs as pa_fs

    if not isinstance(io, PyArrowFileIO):
        io = PyArrowFileIO(io.properties)
    scheme, netloc, path = io.parse_location(folder, io.properties)
    listed: Any = io.fs_by_scheme(scheme, netloc).get_file_info(
        pa_fs.FileSelector(path, allow_not_found=True, recursive=True)
    )
    for info in listed:
        if info.type == pa_fs.FileType.File and posixpath.basename(info.path).startswith(attempt):
            yield f"{folder}/{posixpath.relpath(info.path, path)}"
