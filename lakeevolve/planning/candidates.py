"""Lines of schema versions that tables may belong to: those of a folder, a source or a project's subjects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakeevolve import sources
from lakeevolve.config.project import Project, Subject
from lakeevolve.errors import LakeEvolveError, SourceNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record
from lakeevolve.sources.folder import files_of
from lakeevolve.sources.names import is_schema_file

#: How a file is called that is a version and no subject.
_VERSION: Final = re.compile(r"[vV]?\d+(?:[._-].*)?")
#: Folders that tools fill.
_TOOLS: Final = frozenset({"node_modules", "venv", "site-packages", "build", "dist", "target"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subject that a table may belong to. ``versions`` are oldest first, ``source`` is as it reads from the working
    directory, ``subject`` the project's entry, where it has one."""

    name: str
    source: str
    versions: tuple[Schema, ...] = field(repr=False)
    subject: Subject | None = None

    @property
    def newest(self) -> Schema:
        return self.versions[-1]


def candidates(against: Iterable[str], project: Project | None = None) -> tuple[Candidate, ...]:
    """The lines of versions that names of a project's subjects, folders and sources mean.

    Parameters
    ----------
    against:
        Names or patterns of the project's subjects; folders of schemas; or other sources of schemas. In a folder, the
        files of one record are the versions of one subject, and each folder inside is looked at by itself. Nothing
        stands for every subject of the project.

    Raises
    ------
    SourceNotFound
        There is no schema of a record.
    """
    found: list[Candidate] = []
    wanted = list(against)
    if not wanted and project is not None:
        found += _subjects(project, ())
    for each in wanted:
        if project is not None and _names_subjects(project, each):
            found += _subjects(project, (each,))
        elif Path(each.removeprefix("file:")).is_dir():
            found += in_folder(Path(each.removeprefix("file:")))
        else:
            versions = _records(sources.load(one, lenient=True) for one in sources.expand(each))
            found += [Candidate(_name(each, versions[-1]), each, versions)] if versions else []
    if not found:
        raise SourceNotFound(
            "there is no schema of a record to hold tables against",
            where=", ".join(wanted) or "lakeevolve.yaml",
            hint="name a folder of *.avsc files, a source, or a subject of lakeevolve.yaml",
        )
    return distinct(found)


def in_folder(folder: Path, broken: Callable[[Path, LakeEvolveError], None] | None = None) -> list[Candidate]:
    """The subjects of a folder and of those inside it, without hidden ones and those of tools.

    A schema that cannot be read raises its error, or is told to *broken* and left out.
    """
    found: list[Candidate] = []
    for root, inside, files in os.walk(folder):
        inside[:] = sorted(filter(is_own, inside))
        if any(is_schema_file(each) for each in files):
            found += _in_one(Path(root), broken)
    return found


def is_own(folder: str) -> bool:
    """Whether a folder of this name may hold what people keep there, and not what tools do."""
    return not folder.startswith((".", "_")) and folder not in _TOOLS


def _in_one(folder: Path, broken: Callable[[Path, LakeEvolveError], None] | None) -> Iterator[Candidate]:
    lines: dict[str, list[tuple[Path, Schema]]] = {}
    for file in files_of(folder):
        try:
            schema = sources.load(file, lenient=True)
        except LakeEvolveError as error:
            if broken is None:
                raise
            broken(file, error)
            continue
        if isinstance(schema.root, Record):
            lines.setdefault(schema.root.name, []).append((file, schema))
    for found in lines.values():
        newest, schema = found[-1]
        # A folder is a source of versions only where all of them are of one record.
        whole = len(lines) == 1 and (len(found) > 1 or _VERSION.fullmatch(newest.stem) is not None)
        source = folder if whole else newest
        name = folder.resolve().name if whole else newest.stem if len(found) == 1 else _simple(schema)
        yield Candidate(name, str(source), tuple(each for _, each in found))


def _subjects(project: Project, chosen: tuple[str, ...]) -> Iterator[Candidate]:
    for name, subject in project.subjects(chosen).items():
        source = project.located(subject.source)
        versions = _records(sources.load(one, lenient=True) for one in sources.expand(source))
        if versions:
            yield Candidate(name, source, versions, subject)


def _names_subjects(project: Project, pattern: str) -> bool:
    try:
        return bool(project.subjects((pattern,)))
    except LakeEvolveError:
        return False


def _records(schemas: Iterable[Schema]) -> tuple[Schema, ...]:
    return tuple(schema for schema in schemas if isinstance(schema.root, Record))


def _name(source: str, schema: Schema) -> str:
    stem = re.sub(r"\.\w+\Z", "", re.split(r"[/:]", source.rstrip("/"))[-1].partition("@")[0])
    return stem if re.fullmatch(r"[\w.-]+", stem) else _simple(schema)


def _simple(schema: Schema) -> str:
    assert isinstance(schema.root, Record)
    return schema.root.name.rpartition(".")[2].lower()


def distinct(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates with names of their own, one for each source."""
    kept: dict[str, Candidate] = {}
    for each in found:
        name, number = each.name, 2
        while name in kept and kept[name].source != each.source:
            name, number = f"{each.name}-{number}", number + 1
        kept.setdefault(name, each if name == each.name else Candidate(name, each.source, each.versions, each.subject))
    return tuple(kept.values())
