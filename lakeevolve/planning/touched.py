"""What a line of work touches: the subjects, and so the tables, that the files which it changed reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeevolve import sources
from lakeevolve.config.find import shown
from lakeevolve.config.load import parse_project
from lakeevolve.config.project import Project, Subject
from lakeevolve.errors import ConfigError
from lakeevolve.redaction import public_uri
from lakeevolve.sources.git import changed_since, fork_point, text_at


@dataclass(frozen=True, slots=True)
class Touched:
    """What changed since a revision.

    ``files`` holds each changed file that reaches a subject, as it is shown, and the subjects that it reaches, by name
    with their tables. ``left_out`` names the subjects whose schema no file of the repository holds.
    """

    base: str
    files: Mapping[str, Mapping[str, tuple[str, ...]]]
    left_out: tuple[str, ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that are touched, each once."""
        return tuple(dict.fromkeys(name for reached in self.files.values() for name in reached))

    def to_json(self) -> dict[str, Any]:
        files = [
            {"file": file, "subjects": [{"subject": name, "tables": list(uris)} for name, uris in reached.items()]}
            for file, reached in self.files.items()
        ]
        return {"base": self.base, "files": files, "left_out": list(self.left_out)}


def touched(project: Project, subjects: Mapping[str, Subject], base: str) -> Touched:
    """The subjects that a line of work touches since it left a revision.

    A file reaches a subject whose schema it holds, or whose schema uses a type in it, at any depth; a contract reaches
    its subject; ``lakeevolve.yaml`` reaches the subjects of which it says something else.

    Raises ``SourceNotFound`` where the revision is not there.
    """
    changed = {each.resolve(): each for each in changed_since(base, project.root)}
    reaches = {name: _files(project, subject) for name, subject in subjects.items()}
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for real, file in sorted(changed.items()):
        by_file = [name for name, files in reaches.items() if real in files or _holds(files, real)]
        by_config = list(_said_of(project, subjects, base)) if real == project.file.resolve() else []
        names = [name for name in subjects if name in by_file or name in by_config]
        if names:
            tables = {name: tuple(public_uri(uri) for uri in subjects[name].tables) for name in names}
            found[shown(file)] = tables
    left_out = tuple(name for name, files in reaches.items() if not files)
    return Touched(base, found, tuple(name for name in left_out if not any(name in each for each in found.values())))


def _files(project: Project, subject: Subject) -> frozenset[Path]:
    files = sources.files_read(project.located(subject.source))
    contracts = {Path(project.located(file)).absolute() for file in subject.contracts} if files else set()
    return frozenset(each.resolve() for each in (*files, *contracts))


def _holds(files: frozenset[Path], file: Path) -> bool:
    """Whether a file is, or was, a version in a folder of versions."""
    return file.suffix == ".avsc" and file.parent in files


def _said_of(project: Project, subjects: Mapping[str, Subject], base: str) -> Iterator[str]:
    """The subjects of which the project's file says something else than it did."""
    text = text_at(fork_point(base, project.root), project.file)
    try:
        before = None if text is None else parse_project(text, project.file)
    except ConfigError:
        before = None
    for name, subject in subjects.items():
        if before is None or any(
            (
                before.entry.policy != project.entry.policy,
                before.entry.subjects.get(name) != subject,
                any(before.options(uri) != project.options(uri) for uri in subject.tables),
                subject.registered_as is not None and before.entry.registry != project.entry.registry,
            )
        ):
            yield name
