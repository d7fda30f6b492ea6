"""Finding, reading and validating ``lakeevolve.yaml``. All faults of the file are told together, each with its line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeevolve.avro.parse.messages import json_kind
from lakeevolve.config.document import Document, Place, parse, read
from lakeevolve.config.find import NAME, find
from lakeevolve.config.project import (
    Limits,
    PolicyEntry,
    Project,
    ProjectEntry,
    RegistryEntry,
    Subject,
    TableOptions,
    WaiverEntry,
)
from lakeevolve.errors import ConfigError, InvalidConfig
from lakeevolve.redaction import public_uri

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Fault: TypeAlias = tuple[int, str, str | None]

#: How often a file is looked at again without what had faults before.
_ROUNDS: Final = 4
#: What stands in for a value that is missing while the rest is looked at.
_PLACEHOLDERS: Final[Mapping[str, Any]] = {
    "version": 1,
    "fingerprint": "0" * 16,
    "plan": "0" * 64,
    "until": "2000-01-01",
}

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGTP]i?)?B?\Z", re.IGNORECASE)
_UNITS: Final = {"": 1} | {
    (unit + binary).lower(): (1024 if binary else 1000) ** power
    for power, unit in enumerate("KMGTP", 1)
    for binary in ("", "i")
}
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}\Z")
_VARIABLE: Final = re.compile(r"\$\{?\w+")

#: What may stand at a place where several forms are allowed.
_FORMS: Final = {
    "old_rows": "default, null, or paths with default or null each",
    "not_renames": "pairs [old path, new path]",
    "max_rewrite_bytes": "a number of bytes, or a text such as 500 GiB",
}
#: What a YAML file calls otherwise than JSON does.
_YAML: Final = {"a boolean": "true or false", "an object": "a mapping"}
_KINDS: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping",
    "dataclass_exact_type": "a mapping",
}


def load_project(path: str | Path | None = None) -> Project:
    """Read a project's file.

    Parameters
    ----------
    path:
        The file; None for the nearest one, from the working directory upwards.

    Raises
    ------
    InvalidConfig
        The file holds faults, which are told together with their lines.
    ConfigError
        There is no such file, or it cannot be read.

    Examples
    --------
    >>> load_project("lakeevolve.yaml").entry.policy.fail_on  # doctest: +SKIP
    'error'
    """
    file = find() if path is None else Path(os.path.abspath(path))
    if file is None:
        raise ConfigError(
            f"there is no {NAME} here or in a folder above",
            where=str(Path.cwd()),
            hint="write one (docs/how-to/project-file.md), or name it with --config",
        )
    return _project(read(file), file)


def parse_project(text: str, file: str | Path = NAME) -> Project:
    """Read a project from a text; *file* is where it is taken to lie."""
    return _project(parse(text, str(file)), Path(file).absolute())


def _project(document: Document, file: Path) -> Project:
    entry = validated(ProjectEntry, document, prepare=_prepared, check=_checked)
    return Project(file, entry, document.lines)


def validated(
    kind: type[Any],
    document: Document,
    *,
    prepare: Callable[[Document], list[Fault]] = lambda _: [],
    check: Callable[[Any, Document], Iterator[Fault]] = lambda *_: iter(()),
) -> Any:
    """The document as a value of *kind*, or ``InvalidConfig`` with all faults.

    *prepare* may put the document's values right first and tell faults of its own; *check* looks at what was made.
    """
    from pydantic import ValidationError

    if not isinstance(document.value, dict):
        raise InvalidConfig(document.file, [(1, "the file holds no mapping", "write key: value lines")])
    faults = prepare(document)
    made = None
    taken: set[Place] = set()
    for _ in range(_ROUNDS):
        try:
            # mypy does not take a class for hashable (python/mypy#11470).
            made = _adapter(kind).validate_json(  # type: ignore[arg-type]
                json.dumps(document.value), strict=True
            )
            break
        except ValidationError as error:
            found = [each for each in error.errors(include_url=False) if tuple(each["loc"]) not in taken]
            faults += _told(kind, found, document)
            places = {_upto(tuple(each["loc"])) for each in error.errors(include_url=False)}
            if () in places:
                break
            taken |= {place for place in sorted(places, key=len) if _take_out(place, document)}
    if made is not None:
        faults += check(made, document)
    if faults or made is None:
        told = sorted({fault[:2]: fault for fault in faults}.values(), key=lambda fault: fault[:2])
        raise InvalidConfig(document.file, told)
    return made


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _take_out(place: Place, document: Document) -> bool:
    """Take out a value that has a fault, or put in one that is missing, so that the rest can be looked at as well.

    What goes is the innermost key: a list goes whole, so that the positions of the others stay theirs.
    """
    around, holder, key = document.value, None, place[-1]
    for part in place:
        if isinstance(around, dict):
            holder, key = around, part
            if part not in around:
                break
        elif not (isinstance(around, list) and isinstance(part, int) and part < len(around)):
            break
        around = around[part]
    if holder is None:
        return False
    if key in holder:
        del holder[key]
    else:
        holder[key] = _PLACEHOLDERS.get(str(key), "?")
    return True


def _upto(place: Place) -> Place:
    """The place without what pydantic adds for the forms that it tried."""
    ends = [at + 1 for at, part in enumerate(place) if part in _FORMS]
    return place[: ends[0]] if ends else place


# What pydantic found, in our words -----------------------------------------------------------------------------------


def _told(kind: type[Any], errors: list[Any], document: Document) -> Iterator[Fault]:
    for error in errors:
        place: Place = tuple(error["loc"])
        upto = _upto(place)
        if upto and upto[-1] in _FORMS:
            yield document.line(place), f"{_named(upto)} holds {_FORMS[str(upto[-1])]}", None
        else:
            yield _fault(kind, place, error, document)


def _fault(kind: type[Any], place: Place, error: Mapping[str, Any], document: Document) -> Fault:
    line = document.line(place)
    what, allowed = error["type"], error.get("ctx", {}).get("expected", "")
    match what:
        case "unexpected_keyword_argument" | "extra_forbidden":
            known = _keys(kind, place[:-1])
            return line, f"unknown key {_named(place)}", _nearest(str(place[-1]), known, "known keys: ")
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return line, f"{_named(place)} is missing", None
        case "literal_error" if place == ("version",):
            return line, "version is the version of the file's format", "write version: 1"
        case "literal_error":
            given = error["input"]
            words = re.findall(r"'([^']*)'", allowed)
            said = f"{given!r}" if isinstance(given, str | int | float) and len(str(given)) <= 60 else "this"
            return line, f"{_named(place)}: {said} is none of {', '.join(words)}", _nearest(str(given), words, "")
        case _ if what.startswith("date_"):
            return line, f"{_named(place)} is no day", "write it as 2027-01-31"
        case _ if what in _KINDS:
            return line, f"{_named(place)} is {_KINDS[what]}, not {_kind(error['input'])}", None
    return line, f"{_named(place)}: {error['msg'][:1].lower()}{error['msg'][1:]}", None


def _named(place: Place) -> str:
    text = ""
    for part in place:
        word = part if isinstance(part, int) or re.fullmatch(r"[\w-]+", part) else f"'{part}'"
        text += f"[{word}]" if isinstance(word, int) else f".{word}" if text else word
    return text or "the file"


def _kind(value: Any) -> str:
    kind = json_kind(value)
    return _YAML.get(kind, kind)


def _nearest(word: str, known: list[str], otherwise: str) -> str | None:
    by_fold = {each.casefold(): each for each in known}
    near = get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.5)
    if near:
        return f"did you mean {by_fold[near[0]]}?"
    return otherwise + ", ".join(known) if otherwise and known else None


def _keys(kind: type[Any], place: Place) -> list[str]:
    """The keys that may stand at a place of a document."""
    inner: Mapping[tuple[type[Any], str], tuple[type[Any], int]] = {
        (ProjectEntry, "subjects"): (Subject, 1),
        (ProjectEntry, "tables"): (TableOptions, 1),
        (ProjectEntry, "policy"): (PolicyEntry, 0),
        (ProjectEntry, "registry"): (RegistryEntry, 0),
        (TableOptions, "limits"): (Limits, 0),
        (PolicyEntry, "waivers"): (WaiverEntry, 1),
    }
    while place:
        found = inner.get((kind, str(place[0])))
        if found is None:
            return []
        kind, skipped = found
        place = place[1 + skipped :]
    return [each.name for each in fields(kind)]


# What lakeevolve.yaml means beyond its types ------------------------------------------------------------------------


def _prepared(document: Document) -> list[Fault]:
    """Take keys without a value for keys that are not there, ``null`` as a text under ``old_rows``, sizes as bytes."""
    faults: list[Fault] = []
    document.digits_as_text("fingerprint")
    for place in sorted(document.empty, key=len, reverse=True):
        if "old_rows" in place:
            faults.append((document.line(place), f"{_named(place)} has no value", "write default or null"))
        elif place and isinstance(place[-1], str):
            around = document.value
            for part in place[:-1]:
                around = around[part]
            around.pop(place[-1], None)
    tables = document.value.get("tables")
    for options in tables.values() if isinstance(tables, dict) else ():
        if not isinstance(options, dict):
            continue
        old_rows = options.get("old_rows", "default")
        options |= {"old_rows": _null_as_text(old_rows)} if "old_rows" in options else {}
        limits = options.get("limits")
        if isinstance(limits, dict) and isinstance(limits.get("max_rewrite_bytes"), str):
            limits["max_rewrite_bytes"] = _bytes(limits["max_rewrite_bytes"])
    return faults


def _null_as_text(old_rows: Any) -> Any:
    if isinstance(old_rows, dict):
        return {path: "null" if wanted is None else wanted for path, wanted in old_rows.items()}
    return "null" if old_rows is None else old_rows


def _bytes(text: str) -> int | str:
    match = _SIZE.match(text.strip())
    return text if match is None else int(float(match.group(1)) * _UNITS[(match.group(2) or "").lower()])


def _checked(entry: ProjectEntry, document: Document) -> Iterator[Fault]:
    yield from _texts(document)
    owners: dict[str, str] = {}
    formats = list(import_module("lakeevolve.tables").FORMATS)
    for name, subject in entry.subjects.items():
        for at, uri in enumerate(subject.tables):
            line = document.line(("subjects", name, "tables", at))
            scheme, colon, _ = uri.partition(":")
            if not colon or scheme not in formats:
                forms = " or ".join(f"{each}:..." for each in formats)
                yield line, f"{public_uri(uri)!r} is no URI of a table", f"write {forms}"
            same = _normal(uri)
            if same in owners:
                yield line, f"the table {public_uri(uri)} belongs to the subject {owners[same]} already", "keep one"
            owners.setdefault(same, name)
        if not subject.source.strip():
            yield document.line(("subjects", name, "source")), f"subjects.{name}.source is empty", "name the schema"
        yield from _renames(subject, name, document)
    if entry.registry is not None and not re.match(r"https?://[^/]", entry.registry.url):
        yield document.line(("registry", "url")), "registry.url is no URL", "write https://registry.example.com"
    for pattern, options in entry.tables.items():
        yield from _options(options, ("tables", pattern), document)
    yield from _policy(entry.policy, document)


def _normal(uri: str) -> str:
    """A URI whose path is written in one way."""
    scheme, colon, rest = uri.partition(":")
    return uri if "://" in uri else f"{scheme}{colon}{os.path.normpath(rest)}"


def _renames(subject: Subject, name: str, document: Document) -> Iterator[Fault]:
    from lakeevolve.model.renames import rename_pairs

    try:
        rename_pairs(subject.renames)
    except ConfigError as error:
        yield document.line(("subjects", name, "renames")), f"subjects.{name}.renames: {error}", error.hint


def _options(options: TableOptions, place: Place, document: Document) -> Iterator[Fault]:
    for at, pattern in enumerate(options.foreign):
        if not pattern.strip():
            yield document.line((*place, "foreign", at)), "a name under foreign is empty", "name a column, or kafka_*"
    for path, column in options.mapping.items():
        if not _is_path(path) or not (column == "$" or _is_path(column)):
            said = f"mapping holds a path in the schema and one in the table, not {path[:60]}: {column[:60]}"
            yield document.line((*place, "mapping", path)), said, "write orderId: order_id, or after: $ for the rows"
    for key, limit in options.limits.to_json().items():
        if limit < 0:
            yield document.line((*place, "limits", key)), f"{key} is less than nothing", "write 0 to allow no rewrite"


def _is_path(text: str) -> bool:
    from lakeevolve.model.path import parts

    try:
        return bool(parts(text))
    except ValueError:
        return False


def _policy(policy: PolicyEntry, document: Document) -> Iterator[Fault]:
    known = import_module("lakeevolve.rules.catalogue").RULES
    for rule in policy.severity:
        if rule not in known:
            hint = _nearest(rule, list(known), "") or "`lakeevolve rules` lists them"
            yield document.line(("policy", "severity", rule)), f"there is no rule {rule}", hint
    seen: set[str] = set()
    for at, waiver in enumerate(policy.waivers):
        place = ("policy", "waivers", at)
        for key in ("reason", "approver"):
            if not getattr(waiver, key).strip():
                yield document.line((*place, key)), f"the waiver's {key} is empty", None
        line = document.line((*place, "fingerprint"))
        if not _FINGERPRINT.match(waiver.fingerprint):
            yield line, f"{waiver.fingerprint[:40]!r} is no fingerprint", "it has 16 hex digits; --format json shows it"
        elif waiver.fingerprint in seen:
            yield line, f"the fingerprint {waiver.fingerprint} is waived twice", "keep one waiver"
        seen.add(waiver.fingerprint)


def _texts(document: Document) -> Iterator[Fault]:
    """What no text of the file may hold: a credential, or a variable that someone expects to be filled in."""
    for place, text in _walk(document.value, ()):
        key = place[-1] if place else ""
        line = document.line(place)
        if "://" in text and public_uri(text) != text:
            hint = "give it by the environment or in the catalog's own configuration"
            yield line, f"{_named(place[:-1])} holds a credential in a URI", hint
        elif (key in ("source", "state", "url") or "tables" in place[:-1]) and _VARIABLE.search(text):
            said = f"{_named(place)} holds a variable, and nothing is filled in from the environment"
            yield line, said, "write it out; for the state, LAKEEVOLVE_STATE may be set instead"


def _walk(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    match value:
        case str():
            yield place, value
        case dict():
            for key, inner in value.items():
                yield (*place, key), key
                yield from _walk(inner, (*place, key))
        case list():
            for at, inner in enumerate(value):
                yield from _walk(inner, (*place, at))


# For editors -------------------------------------------------------------------------------------------------------


def project_schema() -> dict[str, Any]:
    """The JSON Schema of ``lakeevolve.yaml``, for editors."""
    schema = _adapter(ProjectEntry).json_schema()
    made = schema["$defs"]
    size = {"type": "string", "pattern": r"^\d+(\.\d+)? ?([KMGTPkmgtp]i?)?B?$"}
    made["Limits"]["properties"]["max_rewrite_bytes"]["anyOf"].insert(1, size)
    made["TableOptions"]["properties"]["old_rows"]["anyOf"].append({"type": "null"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": NAME,
        **{key: value for key, value in schema.items() if key != "title"},
    }
