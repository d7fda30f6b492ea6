"""The Confluent REST API over a folder of versions, without the HTTP.

What is not here: Protobuf and JSON Schema, contexts, metadata and rule sets, associations.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from lakeevolve.errors import LakeEvolveError
from lakeevolve.model.schema import Schema
from lakeevolve.registry import faults
from lakeevolve.registry.store import Entry, Line, Store, identity
from lakeevolve.registry.verdict import messages
from lakeevolve.rules.modes import MODES
from lakeevolve.sources.registry import Reference
from lakeevolve.sources.registry.inline import schema_of
from lakeevolve.sources.size import MAX_BYTES

Query: TypeAlias = Mapping[str, str]
Answer: TypeAlias = Any

MODES_OF_WRITING: Final = ("READWRITE", "READONLY", "IMPORT")
_LARGEST: Final = 2**31 - 1
_CHANGES: Final = frozenset({"PUT", "DELETE"})


class Api:
    """The answers to requests. One at a time, so that a version is judged against what it comes after."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._routes = [(method, re.compile(pattern + r"\Z"), answer) for method, pattern, answer in self._all()]

    def answer(self, method: str, path: str, query: Query, body: Any = None) -> Answer:
        """The JSON that a request is answered with. Raises ``Refused``."""
        found = False
        for wanted, pattern, answer in self._routes:
            match = pattern.match(path)
            if match is None:
                continue
            found = True
            if wanted == method:
                with self._lock:
                    return answer(*map(unquote, match.groups()), **self._given(method, query, body))
        raise (
            faults.Refused(405, 405, "HTTP 405 Method Not Allowed")
            if found
            else faults.Refused(404, 404, "HTTP 404 Not Found")
        )

    def _given(self, method: str, query: Query, body: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"query": query}
        if method in ("POST", "PUT"):
            if not isinstance(body, dict):
                raise faults.bad_request("the body has to be a JSON object")
            given["body"] = body
        return given

    def _all(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        subject = "/subjects/([^/]+)"
        version = f"{subject}/versions/([^/]+)"
        return [
            ("GET", "/", lambda query: {}),
            ("GET", "/subjects", self._subjects),
            ("POST", subject, self._look_up),
            ("DELETE", subject, self._delete_subject),
            ("GET", f"{subject}/versions", self._versions),
            ("POST", f"{subject}/versions", self._register),
            ("GET", version, self._version),
            ("DELETE", version, self._delete_version),
            ("GET", f"{version}/schema", lambda s, v, query: _parsed(self._entry(s, v, query).text)),
            ("GET", f"{version}/referencedby", self._referred_by),
            ("GET", "/schemas", self._schemas),
            ("GET", "/schemas/types", lambda query: ["AVRO"]),
            ("GET", "/schemas/ids/([^/]+)", self._schema),
            ("GET", "/schemas/ids/([^/]+)/schema", lambda i, query: _parsed(self._by_id(i)[0][1].text)),
            ("GET", "/schemas/ids/([^/]+)/subjects", self._subjects_of),
            ("GET", "/schemas/ids/([^/]+)/versions", self._versions_of),
            ("POST", "/compatibility/subjects/([^/]+)/versions", self._compatible),
            ("POST", "/compatibility/subjects/([^/]+)/versions/([^/]+)", self._compatible),
            ("GET", "/config", lambda query: {"compatibilityLevel": self.store.level}),
            ("PUT", "/config", self._set_level),
            ("DELETE", "/config", self._reset_level),
            ("GET", "/config/([^/]+)", self._level),
            ("PUT", "/config/([^/]+)", self._set_level_of),
            ("DELETE", "/config/([^/]+)", self._reset_level_of),
            ("GET", "/mode", lambda query: {"mode": self.store.mode}),
            ("PUT", "/mode", self._set_mode),
            ("GET", "/mode/([^/]+)", self._mode),
            ("PUT", "/mode/([^/]+)", self._set_mode_of),
            ("DELETE", "/mode/([^/]+)", self._reset_mode_of),
        ]

    # Subjects and versions ------------------------------------------------------------------------------------------

    def _subjects(self, *, query: Query) -> Answer:
        prefix, (live, gone) = query.get("subjectPrefix", ""), _which(query)
        return sorted(
            name
            for name, line in self.store.subjects.items()
            if name.startswith(prefix) and line.entries and ((live and line.live) or (gone and not line.live))
        )

    def _versions(self, subject: str, *, query: Query) -> Answer:
        live, gone = _which(query)
        line = self._line(subject, deleted=gone)
        return [entry.version for entry in line.every if (gone if entry.deleted else live)]

    def _version(self, subject: str, version: str, *, query: Query) -> Answer:
        return _told(subject, self._entry(subject, version, query))

    def _entry(self, subject: str, version: str, query: Query) -> Entry:
        deleted = _flag(query, "deleted")
        line = self._line(subject, deleted=deleted)
        number = _number(version)
        found = next(reversed(line.live), None) if number is None else line.entries.get(number)
        if found is None or (found.deleted and not deleted):
            raise faults.no_version(version)
        return found

    def _line(self, subject: str, *, deleted: bool) -> Line:
        line = self.store.subjects.get(subject)
        if line is None or not line.entries or not (line.live or deleted):
            raise faults.no_subject(subject)
        return line

    def _referred_by(self, subject: str, version: str, *, query: Query) -> Answer:
        number = self._entry(subject, version, query).version
        return sorted({entry.id for _, entry in self.store.users(subject, number)})

    def _look_up(self, subject: str, *, query: Query, body: dict[str, Any]) -> Answer:
        line = self._line(subject, deleted=_flag(query, "deleted"))
        text, references, _ = self._candidate(body)
        wanted = identity(text, references)
        for entry in reversed(line.every):
            if identity(entry.text, entry.references) == wanted and (not entry.deleted or _flag(query, "deleted")):
                return _told(subject, entry)
        raise faults.no_schema()

    def _register(self, subject: str, *, query: Query, body: dict[str, Any]) -> Answer:
        if subject.strip() in ("", ".", "..") or len(subject.encode()) > 200 or "\0" in subject or "\x7f" in subject:
            raise faults.invalid_subject(subject)
        mode = self._mode_of(subject)
        if mode == "READONLY":
            raise faults.not_permitted(f"Subject {subject} is in read-only mode")
        importing = mode == "IMPORT"
        if not importing and (_whole(body.get("id")) or 0) > 0:
            raise faults.not_permitted(f"Subject {subject} is not in import mode")
        text, references, schema = self._candidate(body)
        line = self.store.subjects.get(subject, Line())
        for entry in line.live:
            if identity(entry.text, entry.references) == identity(text, references):
                return {"id": entry.id}
        if not importing:
            said = messages(schema, self._judged(line), line.level or self.store.level)
            if said:
                raise faults.incompatible(subject, said)
        version, id_ = self._numbers(line, body, text, references, importing)
        return {"id": self.store.add(subject, text, references, id_, version).id}

    def _numbers(
        self, line: Line, body: dict[str, Any], text: str, references: tuple[Reference, ...], importing: bool
    ) -> tuple[int, int]:
        version, id_ = _whole(body.get("version")), _whole(body.get("id"))
        if not importing:
            if version not in (None, 0, -1, line.last + 1):
                raise faults.not_permitted(f"The next version is {line.last + 1}, not {version}")
            return line.last + 1, self.store.id_of(text, references)
        if version is not None and version > 0 and version in line.entries:
            raise faults.not_permitted(f"Version {version} is there already, with another schema")
        if id_ is not None and id_ > 0:
            known = self.store.ids.get(identity(text, references))
            taken = any(other == id_ for key, other in self.store.ids.items() if key != identity(text, references))
            if taken or known not in (None, id_):
                raise faults.id_differs(f"The id {id_} is another schema's, or this schema has another id")
            self.store.id_of(text, references, id_)
        return version if version and version > 0 else line.last + 1, self.store.id_of(text, references)

    def _candidate(self, body: dict[str, Any]) -> tuple[str, tuple[Reference, ...], Schema]:
        kind, text = body.get("schemaType") or "AVRO", body.get("schema")
        if kind != "AVRO":
            raise faults.invalid_schema(f"the type {kind} is not kept here, AVRO alone is")
        if not isinstance(text, str) or not text.strip():
            raise faults.invalid_schema("it is empty")
        if len(text) > MAX_BYTES:
            raise faults.too_large(len(text))
        references = tuple(_reference(each) for each in body.get("references") or ())
        for each in references:
            line = self.store.subjects.get(each.subject)
            entry = None if line is None else line.entries.get(each.version)
            if entry is None or entry.deleted:
                raise faults.invalid_schema(f"it refers to {each.subject} version {each.version}, which is not there")
        return text, references, self._schema_of(text, references)

    def _schema_of(self, text: str, references: tuple[Reference, ...], *, lenient: bool = False) -> Schema:
        try:
            return schema_of(text, self._texts(references), lenient=lenient)
        except LakeEvolveError as error:
            raise faults.invalid_schema(str(error)) from error

    def _texts(self, references: tuple[Reference, ...]) -> list[str]:
        """The texts that references lead to. There is no circle: a version refers only to what was there before it."""
        found: dict[tuple[str, int], str] = {}
        todo = list(references)
        while todo:
            each = todo.pop()
            if (each.subject, each.version) not in found:
                entry = self.store.subjects[each.subject].entries[each.version]
                found[each.subject, each.version] = entry.text
                todo += entry.references
        return list(found.values())

    def _judged(self, line: Line) -> list[tuple[int, Schema]]:
        return [(each.version, self._schema_of(each.text, each.references, lenient=True)) for each in line.live]

    # Deleting -------------------------------------------------------------------------------------------------------

    def _delete_subject(self, subject: str, *, query: Query) -> Answer:
        permanent = _flag(query, "permanent")
        line = self._line(subject, deleted=True)
        if permanent and line.live:
            raise faults.subject_not_deleted(subject)
        if not permanent and not line.live:
            raise faults.subject_deleted(subject)
        versions = sorted(line.entries) if permanent else [entry.version for entry in line.live]
        return self._delete(subject, versions, permanent)

    def _delete_version(self, subject: str, version: str, *, query: Query) -> Answer:
        permanent = _flag(query, "permanent")
        entry = self._entry(subject, version, {"deleted": "true"})
        if permanent and not entry.deleted:
            raise faults.version_not_deleted(subject, entry.version)
        if not permanent and entry.deleted:
            raise faults.version_deleted(subject, entry.version)
        return self._delete(subject, [entry.version], permanent)[0]

    def _delete(self, subject: str, versions: list[int], permanent: bool) -> list[int]:
        self._writable(subject)
        for version in versions:
            for by, entry in self.store.users(subject, version):
                if by != subject or entry.version not in versions:
                    raise faults.referred_to(subject, version, f"{by} version {entry.version}")
        self.store.delete(subject, versions, permanent=permanent)
        return versions

    # Ids ------------------------------------------------------------------------------------------------------------

    def _by_id(self, id_: str) -> list[tuple[str, Entry]]:
        number = int(id_) if id_.isdecimal() else -1
        found = [
            (name, entry)
            for name, line in sorted(self.store.subjects.items())
            for entry in line.every
            if entry.id == number
        ]
        if not found:
            raise faults.no_schema(id_)
        return found

    def _schema(self, id_: str, *, query: Query) -> Answer:
        entry = self._by_id(id_)[0][1]
        return {"schema": entry.text, **_referring(entry)}

    def _subjects_of(self, id_: str, *, query: Query) -> Answer:
        return sorted({name for name, entry in self._by_id(id_) if not entry.deleted or _flag(query, "deleted")})

    def _versions_of(self, id_: str, *, query: Query) -> Answer:
        return [
            {"subject": name, "version": entry.version}
            for name, entry in self._by_id(id_)
            if not entry.deleted or _flag(query, "deleted")
        ]

    def _schemas(self, *, query: Query) -> Answer:
        found = []
        for name, line in sorted(self.store.subjects.items()):
            entries = line.every if _flag(query, "deleted") else line.live
            if name.startswith(query.get("subjectPrefix", "")):
                found += [_told(name, entry) for entry in (entries[-1:] if _flag(query, "latestOnly") else entries)]
        return found

    # Compatibility --------------------------------------------------------------------------------------------------

    def _compatible(self, subject: str, version: str | None = None, *, query: Query, body: dict[str, Any]) -> Answer:
        _, _, schema = self._candidate(body)
        line = self.store.subjects.get(subject, Line())
        judged = self._judged(line)
        level = line.level or self.store.level
        if version is not None:
            number = self._entry(subject, version, {}).version
            judged = [each for each in judged if each[0] == number]
        said = messages(schema, judged, level)
        answer: dict[str, Any] = {"is_compatible": not said}
        if _flag(query, "verbose"):
            answer["messages"] = said
        return answer

    def _set_level(self, *, query: Query, body: dict[str, Any]) -> Answer:
        self._writable(None)
        self.store.level = _level_in(body)
        self.store.save()
        return {"compatibility": self.store.level}

    def _reset_level(self, *, query: Query) -> Answer:
        self._writable(None)
        before, self.store.level = self.store.level, "BACKWARD"
        self.store.save()
        return {"compatibilityLevel": before}

    def _level(self, subject: str, *, query: Query) -> Answer:
        line = self.store.subjects.get(subject)
        if line is not None and line.level is not None:
            return {"compatibilityLevel": line.level}
        if _flag(query, "defaultToGlobal"):
            return {"compatibilityLevel": self.store.level}
        raise faults.no_level(subject)

    def _set_level_of(self, subject: str, *, query: Query, body: dict[str, Any]) -> Answer:
        self._writable(subject)
        level = _level_in(body)
        self.store.subjects.setdefault(subject, Line()).level = level
        self.store.save()
        return {"compatibility": level}

    def _reset_level_of(self, subject: str, *, query: Query) -> Answer:
        self._writable(subject)
        line = self.store.subjects.get(subject)
        if line is None or line.level is None:
            raise faults.no_level(subject)
        before, line.level = line.level, None
        self.store.save()
        return {"compatibilityLevel": before}

    # Modes of writing -----------------------------------------------------------------------------------------------

    def _mode_of(self, subject: str | None) -> str:
        if self.store.read_only:
            return "READONLY"
        line = None if subject is None else self.store.subjects.get(subject)
        return self.store.mode if line is None or line.mode is None else line.mode

    def _writable(self, subject: str | None) -> None:
        if self._mode_of(subject) == "READONLY":
            raise faults.not_permitted(f"{'The registry' if subject is None else f'Subject {subject}'} is read-only")

    def _set_mode(self, *, query: Query, body: dict[str, Any]) -> Answer:
        self._not_served_read_only()
        self.store.mode = _mode_in(body)
        self.store.save()
        return {"mode": self.store.mode}

    def _mode(self, subject: str, *, query: Query) -> Answer:
        line = self.store.subjects.get(subject)
        if line is not None and line.mode is not None:
            return {"mode": line.mode}
        if _flag(query, "defaultToGlobal"):
            return {"mode": self.store.mode}
        raise faults.no_mode(subject)

    def _set_mode_of(self, subject: str, *, query: Query, body: dict[str, Any]) -> Answer:
        self._not_served_read_only()
        mode = _mode_in(body)
        self.store.subjects.setdefault(subject, Line()).mode = mode
        self.store.save()
        return {"mode": mode}

    def _reset_mode_of(self, subject: str, *, query: Query) -> Answer:
        self._not_served_read_only()
        line = self.store.subjects.get(subject)
        if line is None or line.mode is None:
            raise faults.no_mode(subject)
        before, line.mode = line.mode, None
        self.store.save()
        return {"mode": before}

    def _not_served_read_only(self) -> None:
        if self.store.read_only:
            raise faults.not_permitted("The registry is served read-only")


def _which(query: Query) -> tuple[bool, bool]:
    """Whether live and whether soft-deleted ones are asked for."""
    only = _flag(query, "deletedOnly") or _flag(query, "deleted_only")
    return not only, only or _flag(query, "deleted")


def _flag(query: Query, name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _number(version: str) -> int | None:
    """The number of a version; None for the newest."""
    if version in ("latest", "-1"):
        return None
    if not version.isdecimal() or not 1 <= int(version) <= _LARGEST:
        raise faults.invalid_version(version)
    return int(version)


def _whole(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= _LARGEST:
        raise faults.bad_request("id and version are whole numbers")
    return value


def _reference(given: Any) -> Reference:
    match given:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, version)
    raise faults.invalid_schema("a reference has a name, a subject and a version")


def _level_in(body: dict[str, Any]) -> str:
    level = str(body.get("compatibility") or body.get("compatibilityLevel")).upper()
    if level not in MODES:
        raise faults.invalid_level(body.get("compatibility"))
    return level


def _mode_in(body: dict[str, Any]) -> str:
    mode = str(body.get("mode")).upper()
    if mode not in MODES_OF_WRITING:
        raise faults.invalid_mode(body.get("mode"))
    return mode


def _referring(entry: Entry) -> dict[str, Any]:
    return {"references": [each.to_json() for each in entry.references]} if entry.references else {}


def _told(subject: str, entry: Entry) -> dict[str, Any]:
    about = {"subject": subject, "version": entry.version, "id": entry.id, "schemaType": "AVRO"}
    return {**about, "schema": entry.text, **_referring(entry)}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
