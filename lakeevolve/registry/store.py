"""The versions of a registry in a folder: ``SUBJECT/v1.avsc``, ``v2.avsc`` and so on.

A folder that someone wrote by hand is one, too; and each subject's folder is a source for every command. What is no
schema (ids, levels, what was deleted) stands in one file beside them. It is written after the schema, so that a crash
in between leaves a version that the next start takes for one that was written by hand.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, unquote

from lakeevolve.avro.parse import parse
from lakeevolve.errors import ConfigError, LakeEvolveError, SchemaError
from lakeevolve.model.types import Union
from lakeevolve.sources.folder import files_of, text_of
from lakeevolve.sources.references import parse_with
from lakeevolve.sources.registry import Reference
from lakeevolve.sources.registry.inline import normal
from lakeevolve.sources.size import refuse_large

INDEX: Final = ".registry.json"
_LOCK: Final = ".registry.lock"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One version: its number, its schema's id and text, what it refers to, and whether it is soft-deleted."""

    version: int
    id: int
    text: str
    references: tuple[Reference, ...] = ()
    deleted: bool = False
    file: str = ""


@dataclass(slots=True)
class Line:
    """A subject: its versions by number, and its own level and mode where it has them."""

    entries: dict[int, Entry] = field(default_factory=dict)
    level: str | None = None
    mode: str | None = None
    #: The highest number that was ever given, so that none is given twice.
    last: int = 0

    @property
    def every(self) -> list[Entry]:
        """Its versions by number, soft-deleted ones included."""
        return [entry for _, entry in sorted(self.entries.items())]

    @property
    def live(self) -> list[Entry]:
        return [entry for entry in self.every if not entry.deleted]


def identity(text: str, references: tuple[Reference, ...]) -> str:
    """What makes two schemas the same one: their JSON, however it is written, and what they refer to."""
    try:
        said = json.dumps(normal(json.loads(text)), sort_keys=True, separators=(",", ":"))
    except ValueError:
        # A bare name, as int.
        said = json.dumps(text.strip())
    return said + json.dumps([each.to_json() for each in references], sort_keys=True)


class Store:
    """A folder of subjects, held by one process at a time.

    Raises ``ConfigError`` where the folder cannot be used, another process has it, or a schema in it is broken.
    """

    def __init__(self, folder: str | Path, *, read_only: bool = False) -> None:
        self.folder = Path(folder)
        self.read_only = read_only
        self.level = "BACKWARD"
        self.mode = "READONLY" if read_only else "READWRITE"
        self.subjects: dict[str, Line] = {}
        self.ids: dict[str, int] = {}
        self._next = 1
        self._held: IO[str] | None = None
        try:
            if not read_only:
                self.folder.mkdir(parents=True, exist_ok=True)
            elif not self.folder.is_dir():
                raise ConfigError("there is no such folder", where=str(folder), hint="check the path")
            self._hold()
            self._load()
        except OSError as error:
            self.close()
            raise ConfigError(
                f"the registry's folder cannot be used: {error.strerror}",
                where=str(folder),
                hint="choose another, or serve it with --read-only",
            ) from error
        except LakeEvolveError:
            self.close()
            raise

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _hold(self) -> None:
        if self.read_only:
            return
        self._held = (self.folder / _LOCK).open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                "another process serves this folder already", where=str(self.folder), hint="stop it, or choose another"
            ) from error

    # Reading --------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        index = self._index()
        self.level = index.get("compatibility", self.level)
        if not self.read_only:
            self.mode = index.get("mode", self.mode)
        self._next = int(index.get("next", 1))
        said: dict[str, Any] = index.get("subjects", {})
        for name, record in said.items():
            line = Line(level=record.get("compatibility"), mode=record.get("mode"), last=int(record.get("last", 0)))
            for each in record["versions"]:
                text = text_of(self._place(name) / each["file"])
                if text is None and (self._place(name) / _gone(each["file"])).exists():
                    continue
                if text is None:
                    raise self._broken(self._place(name) / each["file"], "the file of a version is gone")
                references = tuple(Reference(**reference) for reference in each.get("references", ()))
                entry = Entry(each["version"], each["id"], text, references, each.get("deleted", False), each["file"])
                line.entries[entry.version] = entry
                self.ids[identity(text, references)] = entry.id
            self.subjects[name] = line
        found = [self._adopt(folder) for folder in sorted(self.folder.iterdir()) if folder.is_dir()]
        if any(found) and not self.read_only:
            self.save()

    def _index(self) -> dict[str, Any]:
        text = text_of(self.folder / INDEX)
        if text is None:
            return {}
        try:
            record: dict[str, Any] = json.loads(text)
            if record["format_version"] != _FORMAT:
                raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            raise self._broken(self.folder / INDEX, "the registry's index is damaged, or of another version") from error
        return record

    def _adopt(self, folder: Path) -> bool:
        """Take the files of a folder that are no versions yet for the next ones, in their natural order."""
        if folder.name.startswith(".") or not any(each.suffix == ".avsc" for each in folder.iterdir()):
            return False
        name = unquote(folder.name)
        line = self.subjects.setdefault(name, Line())
        known = {entry.file for entry in line.entries.values()}
        new = [file for file in files_of(folder) if file.name not in known]
        for file in new:
            refuse_large(file.stat().st_size, str(file))
            text = text_of(file) or ""
            schema = parse_with(text, str(file), lambda sibling: text_of(folder / sibling), lenient=True)
            # Types of the files beside it would be unknown to whoever asks for this version alone.
            # A list is a union in a registry, and not a file of named types.
            alone = _parses_alone(text) and (text.lstrip()[:1] != "[" or isinstance(schema.root, Union))
            line.last += 1
            kept = text if alone else json.dumps(schema.to_json(), ensure_ascii=False)
            line.entries[line.last] = Entry(line.last, self.id_of(kept, ()), kept, file=file.name)
        return bool(new)

    def _broken(self, file: Path, what: str) -> ConfigError:
        return ConfigError(what, where=str(file), hint="restore it from a backup, or delete the index to start anew")

    # Writing --------------------------------------------------------------------------------------------------------

    def id_of(self, text: str, references: tuple[Reference, ...], wanted: int | None = None) -> int:
        """The id of a schema: the one it has, the one that is wanted, or the next one."""
        key = identity(text, references)
        if key not in self.ids:
            self.ids[key] = self._next if wanted is None else wanted
            self._next = max(self._next, self.ids[key] + 1)
        return self.ids[key]

    def add(self, subject: str, text: str, references: tuple[Reference, ...], id_: int, version: int) -> Entry:
        """Write a version."""
        line = self.subjects.setdefault(subject, Line())
        folder = self._place(subject)
        folder.mkdir(parents=True, exist_ok=True)
        file = f"v{version}.avsc"
        while (folder / file).exists():
            file = f"{file.removesuffix('.avsc')}-registered.avsc"
        _write(folder / file, text)
        entry = Entry(version, id_, text, references, file=file)
        line.entries[version] = entry
        line.last = max(line.last, version)
        self.save()
        return entry

    def delete(self, subject: str, versions: list[int], *, permanent: bool) -> None:
        line = self.subjects[subject]
        files = [line.entries[version].file for version in versions] if permanent else []
        for version in versions:
            if permanent:
                del line.entries[version]
            else:
                line.entries[version] = replace(line.entries[version], deleted=True)
        if not line.entries:
            del self.subjects[subject]
        # Neither a version whose file is gone nor a file that no version owns may be what a crash leaves.
        hidden = [(self._place(subject) / file, self._place(subject) / _gone(file)) for file in files]
        for file, aside in hidden:
            os.replace(file, aside)
        self.save()
        for _, aside in hidden:
            aside.unlink(missing_ok=True)

    def save(self) -> None:
        record = {
            "format_version": _FORMAT,
            "compatibility": self.level,
            "mode": self.mode,
            "next": self._next,
            "subjects": {name: _line_json(line) for name, line in sorted(self.subjects.items())},
        }
        _write(self.folder / INDEX, json.dumps(record, indent=1, ensure_ascii=False) + "\n")

    def _place(self, subject: str) -> Path:
        # A dot at the beginning would make it a hidden folder, or another one.
        name = quote(subject, safe=" @+=,$!()")
        return self.folder / (f"%2E{name[1:]}" if name.startswith(".") else name)

    def users(self, subject: str, version: int) -> Iterator[tuple[str, Entry]]:
        """The live versions that refer to a version of a subject."""
        for name, line in self.subjects.items():
            for entry in line.live:
                if any((each.subject, each.version) == (subject, version) for each in entry.references):
                    yield name, entry


def _gone(file: str) -> str:
    """The name of a file that is being deleted."""
    return f".{file}.deleted"


def _parses_alone(text: str) -> bool:
    try:
        return not any("unknown type" in warning for warning in parse(text, lenient=True).warnings)
    except SchemaError:
        return False


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "compatibility": line.level,
        "mode": line.mode,
        "last": line.last,
        "versions": [
            {
                "version": entry.version,
                "id": entry.id,
                "file": entry.file,
                "references": [each.to_json() for each in entry.references],
                "deleted": entry.deleted,
            }
            for entry in line.every
        ],
    }


def _write(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
