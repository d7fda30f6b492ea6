"""A first ``lakeevolve.yaml``: the schemas and tables of a folder, and which table is of which schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakeevolve.config.find import NAME
from lakeevolve.config.load import parse_project
from lakeevolve.errors import ConfigError, LakeEvolveError, SourceNotFound
from lakeevolve.planning.candidates import Candidate, distinct, in_folder, is_own
from lakeevolve.planning.fit import best_fit
from lakeevolve.planning.proposal import options_lines, placed, subject_lines
from lakeevolve.tables import open_table
from lakeevolve.tables.listing import list_tables

#: What makes a folder a Delta table, and one an Iceberg catalog.
_LOG: Final = "_delta_log"
_CATALOG: Final = "catalog.db"


@dataclass(frozen=True, slots=True)
class Owned:
    """A table that was found, with the columns that are named otherwise and those that are nobody's."""

    uri: str
    mapping: dict[str, str] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detected:
    """What a folder holds: subjects with their tables, and what is said of the rest."""

    folder: Path
    subjects: tuple[tuple[Candidate, tuple[Owned, ...]], ...]
    notes: tuple[str, ...] = ()

    def without(self, names: Iterable[str]) -> Detected:
        left_out = set(names)
        kept = tuple(pair for pair in self.subjects if pair[0].name not in left_out)
        return Detected(self.folder, kept, self.notes)

    def to_yaml(self, mode: str = "BACKWARD") -> str:
        """The file, which ``check`` and ``plan`` take as it is."""
        lines = ["# Made by lakeevolve init.", "version: 1", "", "subjects:"]
        for line, tables in self.subjects:
            uris = [placed(each.uri, self.folder) for each in tables]
            head, source, *rest = subject_lines(line.name, placed(line.source, self.folder), uris)
            lines += [head, source, f"    mode: {mode}", *rest]
        options = [
            text
            for _, tables in self.subjects
            for each in tables
            for text in options_lines(placed(each.uri, self.folder), each.mapping, each.foreign)
        ]
        lines += ["", "tables:", *options] if options else []
        lines += ["", *(f"# {' '.join(note.split())}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def write(self, mode: str = "BACKWARD") -> Path:
        """Write ``lakeevolve.yaml`` into the folder, never over one that is there."""
        file = self.folder / NAME
        text = self.to_yaml(mode)
        parse_project(text, file)
        try:
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
        except FileExistsError as error:
            raise there_already(file) from error
        except OSError as error:
            raise ConfigError(
                f"the file cannot be written: {error.strerror}", where=str(file), hint="choose a writable folder"
            ) from error
        return file


def there_already(file: Path) -> ConfigError:
    return ConfigError("the file is there already", where=str(file), hint="edit it; init begins a project and no more")


def detect(folder: Path) -> Detected:
    """Find the schemas and tables of a folder. Reads metadata alone and writes nothing.

    Raises
    ------
    SourceNotFound
        The folder is none, or holds no schema of a record.
    """
    if not folder.is_dir():
        raise SourceNotFound("there is no such folder", where=str(folder), hint="check the path")
    notes: list[str] = []

    def broken(file: Path, error: LakeEvolveError) -> None:
        notes.append(f"{placed(str(file), folder)} was left out: {error.what}")

    lines = distinct(in_folder(folder, broken))
    if not lines:
        raise SourceNotFound(
            "the folder holds no schema of a record",
            where=str(folder),
            hint="; ".join(notes) or "schemas are *.avsc files; lakeevolve describe TABLE shows the schema of a table",
        )
    tables: dict[str, list[Owned]] = {line.name: [] for line in lines}
    for uri in _tables(folder, notes):
        try:
            fit = best_fit(open_table(uri), lines)
        except LakeEvolveError as error:
            notes.append(f"{placed(uri, folder)} was left out: {error.what}")
            continue
        if fit is None or fit.kind == "unmatched":
            notes.append(f"{placed(uri, folder)} was left out: it is of none of these schemas")
        else:
            tables[fit.candidate.name].append(Owned(uri, dict(fit.mapping), fit.foreign))
    return Detected(folder, tuple((line, tuple(tables[line.name])) for line in lines), tuple(notes))


def _tables(folder: Path, notes: list[str]) -> Iterator[str]:
    for root, inside, files in os.walk(folder):
        # From the working directory, without ./ before it.
        path = os.path.normpath(root)
        if _LOG in inside:
            inside[:] = []
            yield f"delta:{path}"
            continue
        inside[:] = sorted(filter(is_own, inside))
        if _CATALOG in files:
            try:
                yield from list_tables(f"iceberg:{path if os.sep in path else f'./{path}'}/*")
            except LakeEvolveError as error:
                notes.append(f"{placed(path, folder)} was left out: {error.what}")
