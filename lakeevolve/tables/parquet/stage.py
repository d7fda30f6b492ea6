"""An evolution that is written, and not there yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.errors import TableError
from lakeevolve.model import path as paths
from lakeevolve.model.change import Change, DropBranch, MakeRequired
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Union, is_null
from lakeevolve.tables.base import DataFile, Evolution, Predicate, StagedFile
from lakeevolve.tables.parquet.derive import kept, laid_out
from lakeevolve.tables.parquet.parts import FILE_VERSION, Part, Target
from lakeevolve.tables.parquet.rows import canonical_rows, read_rows


@dataclass(slots=True)
class ParquetStaged:
    """See :class:`lakeevolve.tables.base.Staged`: a new folder or object that is written and not there yet."""

    target: Target
    evolution: Evolution
    foreign: tuple[str, ...]
    number: int
    listing: str
    files: list[StagedFile] = field(default_factory=list)
    _copies: dict[str, Part] = field(default_factory=dict)

    def write(self, files: Sequence[DataFile]) -> None:
        anew = {file.path for file in self.evolution.rewrite}
        for file in files:
            _, part = file.handle
            place = getattr(self.target, "path", None)
            if place is not None:
                self.evolution.writing(str(place(part).absolute()))
            if file.path not in anew:
                self._copies[file.path] = self.target.copy(part, file.version)
                continue
            layout = self._layout(part)
            made = self.target.write(part, self._laid_out(self.evolution.convert(file), layout, file), layout)
            self.files.append(StagedFile(made.name, made.rows, made.bytes, (file.path,), made))
            self.evolution.progress(file)

    def _layout(self, part: Part) -> pa.Schema:
        """The columns of a new file: those that stay have the type that they had, in this very file."""
        there = part.schema if part.schema is not None else pa.schema([])
        required = {change.path for change, _ in self.evolution.changes if _requires(change)}
        fields = []
        for each in self.evolution.target.fields:
            path = paths.child(paths.ROOT, each.name)
            old = self.evolution.renames.get(path, path)
            before = self.evolution.base.record.field(paths.leaf(old)) if old in _tops(self.evolution.base) else None
            at = -1 if before is None else there.get_field_index(before.name)
            held = None if at < 0 else there.field(at)
            nullable = isinstance(each.type, Union) and each.type.nullable
            if before is not None and held is not None and before.type == each.type:
                fields.append(pa.field(each.name, kept(held.type, each.type), held.nullable))
            elif held is not None:
                stays = held.nullable and path not in required and old not in required
                fields.append(pa.field(each.name, arrow_type(each.type, strict=False), nullable or stays))
            else:
                nullable = nullable or self.evolution.fills.get(path) == "null" or before is not None
                fields.append(pa.field(each.name, arrow_type(each.type, strict=False), nullable))
        types = {column.name: column for column in there}
        fields += [types[name] if name in types else pa.field(name, pa.null()) for name in self.foreign]
        return pa.schema(fields, {FILE_VERSION: str(self.number).encode()})

    def _laid_out(
        self, batches: Iterator[pa.RecordBatch], layout: pa.Schema, file: DataFile
    ) -> Iterator[pa.RecordBatch]:
        types = {each.name: each.type for each in self.evolution.target.fields}
        row = 0
        for batch in batches:
            arrays = []
            for column in layout:
                at = batch.schema.get_field_index(column.name)
                array = pa.nulls(batch.num_rows, column.type) if at < 0 else batch.column(at)
                if column.name in types:
                    array = laid_out(array, column.type, types[column.name])
                if not column.nullable and array.null_count:
                    first = pc.index(array.is_null(), True).as_py()
                    raise TableError(
                        "a required column would hold a null", where=f"{file.path}, row {row + first}, {column.name}"
                    )
                arrays.append(array)
            yield pa.RecordBatch.from_arrays(arrays, schema=layout)
            row += batch.num_rows

    def raw(self, file: StagedFile) -> Iterator[pa.RecordBatch]:
        yield from canonical_rows(self.target.source().batches(file.handle), self.evolution.target, self.foreign)

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        source = self.target.source()
        parts = source.parts if file is None else [self._copies[file.path]]
        yield from read_rows(source, parts, self.evolution.target, self.foreign, predicate, columns)

    def abandon(self) -> tuple[str, ...]:
        return self.target.abandon()


def _tops(schema: Schema) -> set[str]:
    return {paths.child(paths.ROOT, each.name) for each in schema.fields}


def _requires(change: Change) -> bool:
    return isinstance(change, MakeRequired) or (isinstance(change, DropBranch) and is_null(change.branch))
