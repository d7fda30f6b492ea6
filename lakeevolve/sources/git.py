"""Schemas as they stood at git revisions: ``git:REF:path``, and ``git:REF:path@*`` for every version up to there.

Every version is read by its own URI, so a finding names the commit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakeevolve.errors import SourceError, SourceNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.sources.names import in_order, is_schema_file
from lakeevolve.sources.references import parse_with, versions_among
from lakeevolve.sources.size import refuse_large

ALL = "@*"


@dataclass(frozen=True, slots=True)
class Location:
    """``REF:path`` taken apart. A path that begins with ``/`` starts at the top of the repository."""

    revision: str
    path: str

    @property
    def uri(self) -> str:
        return f"git:{self.revision}:{self.path}"

    @property
    def object(self) -> str:
        return f"{self.revision}:{self.path[1:] if self.path.startswith('/') else f'./{self.path}'}"

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    def beside(self, name: str) -> Location:
        folder, slash, _ = self.path.rpartition("/")
        return Location(self.revision, f"{folder}{slash}{name}")


def read(location: str, *, lenient: bool = False) -> Schema:
    """The schema at ``REF:path``, read from the repository of the working directory.

    Raises ``SourceNotFound`` where the revision or the path does not exist, ``SourceError`` where git is missing.
    """
    place = _location(location)
    if place.path.endswith(ALL):
        raise SourceError(
            "this names every version of a file, where one is wanted",
            where=place.uri,
            hint=f"leave out {ALL}, or use it in the history of check",
        )
    return _read(place, lenient)


def expand(location: str) -> list[str]:
    """The URIs of every version, oldest first, that ``REF:path@*`` or a folder names; of a file, its own."""
    place = _location(location)
    if place.path.endswith(ALL):
        return _history(Location(place.revision, place.path.removesuffix(ALL)))
    if _kind(place) != "tree":
        return [place.uri]
    folder = place.path.rstrip("/") + "/"
    names = [line for line in _git("ls-tree", "--name-only", "-z", place.object, at=place).decode().split("\0") if line]
    files = in_order(name.rpartition("/")[2] for name in names if is_schema_file(name))
    if not files:
        raise SourceNotFound("the folder holds no schema", where=place.uri, hint="schemas are *.avsc files")
    texts = {name: _sibling(Location(place.revision, folder + name)) for name in files}
    return [Location(place.revision, folder + name).uri for name in versions_among(texts)]


def _location(location: str) -> Location:
    revision, colon, path = location.partition(":")
    if not (revision and colon and path) or revision.startswith("-"):
        raise SourceError("a git source is git:REF:path", where=f"git:{location}", hint="e.g. git:main:orders.avsc")
    return Location(revision, path)


def _read(place: Location, lenient: bool) -> Schema:
    _kind(place)
    refuse_large(int(_git("cat-file", "-s", place.object, at=place)), place.uri)
    text = _git("show", place.object, at=place)
    return parse_with(text, place.uri, lambda name: _sibling(place.beside(name)), lenient=lenient)


def _sibling(place: Location) -> str | None:
    try:
        return _git("show", place.object, at=place).decode("utf-8-sig")
    except (SourceError, UnicodeDecodeError):
        return None


def _history(place: Location) -> list[str]:
    """Each version of one file along the first parents, followed through renames; equal neighbours count once."""
    if _kind(place) == "tree":
        raise SourceError(f"{ALL} is for a file", where=place.uri, hint=f"name a file, or the folder without {ALL}")
    _refuse_shallow(place)
    pathspec = f":/{place.path[1:]}" if place.path.startswith("/") else place.path
    options = ("--first-parent", "--follow", "--name-only", "--diff-filter=d", "-z", "--format=%x01%H")
    log = _git("log", *options, place.revision, "--", pathspec, at=place).decode(errors="surrogateescape")
    found: list[str] = []
    before = b""
    for commit, path in reversed(list(_commits(log))):
        version = Location(commit, f"/{path}")
        blob = _git("rev-parse", version.object, at=version)
        if blob != before:
            found.append(version.uri)
        before = blob
    return found


def _commits(log: str) -> Iterator[tuple[str, str]]:
    for entry in log.split("\x01")[1:]:
        commit, _, rest = entry.partition("\0")
        commit, _, more = commit.partition("\n")
        path = (more or rest).strip("\n\0")
        if path:
            yield commit.strip(), path


def changed_since(base: str, folder: Path) -> frozenset[Path]:
    """The files, by their full paths, that differ from where this line of work left a revision.

    What was not committed yet counts, too, and so do new files and deleted ones.

    Parameters
    ----------
    folder:
        A folder of the repository.

    Raises
    ------
    SourceNotFound
        The revision is not there, or has no commit in common with this one.
    """
    place = Location(base, str(folder))
    fork = fork_point(base, folder)
    top = Path(_git("-C", str(folder), "rev-parse", "--show-toplevel", at=place).decode().rstrip("\n"))
    listed = _git("-C", str(top), "diff", "--name-only", "--no-renames", "-z", fork, "--", at=place)
    listed += _git("-C", str(top), "ls-files", "--others", "--exclude-standard", "-z", at=place)
    return frozenset(top / name for name in listed.decode(errors="surrogateescape").split("\0") if name)


def fork_point(base: str, folder: Path) -> str:
    """The newest commit that a revision and the checked-out one have in common."""
    place = Location(base, str(folder))
    if not base or base.startswith("-"):
        raise SourceError("this is no revision of git", where=base, hint="name a branch, a tag or a commit")
    _git("-C", str(folder), "rev-parse", "--git-dir", at=place)
    _revision(place, "-C", str(folder))
    try:
        return _git("-C", str(folder), "merge-base", base, "HEAD", at=place).decode().strip()
    except SourceError as error:
        hint = _DEEPEN if _shallow(str(folder)) else "name the branch that the work will be merged into"
        raise SourceNotFound(
            f"{base} and the checked-out revision have no commit in common here", where=str(folder), hint=hint
        ) from error


def text_at(revision: str, file: Path) -> str | None:
    """A file as it stood at a revision; None where it did not."""
    place = Location(revision, f"./{file.name}")
    try:
        return _git("-C", str(file.parent), "show", f"{revision}:./{file.name}", at=place).decode("utf-8-sig")
    except (SourceError, UnicodeDecodeError):
        return None


def _kind(place: Location) -> str:
    """``blob`` or ``tree``: what stands there, with an error that says what is missing."""
    _git("rev-parse", "--git-dir", at=place)
    bare = Location(place.revision, place.path.removesuffix(ALL))
    _revision(place)
    try:
        return _git("cat-file", "-t", bare.object, at=place).decode().strip()
    except SourceError as error:
        raise SourceNotFound(
            f"there is no {bare.path} at the revision {place.revision}",
            where=place.uri,
            hint="paths are relative to the working directory; one that begins with / to the repository's top",
        ) from error


def _revision(place: Location, *where: str) -> None:
    """Find out whether the revision is there; *where* may be ``-C`` and a folder."""
    try:
        _git(*where, "rev-parse", "--verify", "--quiet", f"{place.revision}^{{commit}}", at=place)
    except SourceError as error:
        if _shallow(*where[1:]):
            raise SourceNotFound(
                f"this is a shallow clone, which lacks the revision {place.revision}", where=place.uri, hint=_DEEPEN
            ) from error
        raise SourceNotFound(
            f"git knows no revision {place.revision}",
            where=place.uri,
            hint="check its name; a remote branch is origin/NAME",
        ) from error


_DEEPEN = "fetch the revision first: git fetch --unshallow, or fetch-depth: 0 in actions/checkout"


def _refuse_shallow(place: Location) -> None:
    if _shallow():
        raise SourceNotFound(
            "this is a shallow clone, which does not hold every version", where=place.uri, hint=_DEEPEN
        )


def _shallow(folder: str = ".") -> bool:
    done = subprocess.run(
        ["git", "-C", folder, "rev-parse", "--is-shallow-repository"], capture_output=True, check=False
    )
    return done.stdout.strip() == b"true"


def _git(*args: str, at: Location) -> bytes:
    try:
        done = subprocess.run(["git", "--no-pager", *args], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise SourceError("git is not installed", where=at.uri, hint="install git") from error
    if done.returncode != 0:
        if b"not a git repository" in done.stderr:
            raise SourceNotFound(
                "the working directory is in no git repository", where=at.uri, hint="run it inside of the repository"
            )
        raise SourceNotFound("git finds no such thing", where=at.uri, hint="check revision and path")
    return done.stdout
