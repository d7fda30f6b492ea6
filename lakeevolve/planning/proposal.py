"""An adoption as YAML that people review: a project's file by itself, or to be merged into one."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeevolve.redaction import public_uri

if TYPE_CHECKING:
    from lakeevolve.planning.adoption import Adopted, Adoption
    from lakeevolve.planning.candidates import Candidate

_PLAIN: Final = re.compile(r"[A-Za-z./][\w./+@-]*(?::[\w./+@-]+)*\Z")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_PATHS: Final = re.compile(r"((?:file|delta|parquet|avro|arrow):)?(?!/|[A-Za-z][A-Za-z0-9+-]+:)(.+)\Z")
_LAKE: Final = re.compile(r"iceberg:(?!/)(.+)/([^/]+)\Z")

_HEAD: Final = """\
# Made by lakeevolve adopt. Review it: what is said of a table holds once it stands in lakeevolve.yaml, or when this
# file is named with --config. Then `lakeevolve adopt --apply` writes the markers of tables that are a version exactly.
"""


def text(word: str) -> str:
    """A text as YAML has it.

    >>> text("delta:lake/orders"), text("null"), text("$"), text("a: b")
    ('delta:lake/orders', '"null"', '"$"', '"a: b"')
    """
    return word if _PLAIN.match(word) and word.lower() not in _WORDS else json.dumps(word, ensure_ascii=False)


def placed(uri: str, folder: Path) -> str:
    """A path or URI as it reads from a folder, in place of the working directory, without credentials."""
    root, here = folder.resolve(), Path.cwd()
    if root == here.resolve() or "://" in uri:
        return public_uri(uri)
    lake = _LAKE.match(uri)
    if lake:
        catalog, name = lake.groups()
        return f"iceberg:{os.path.relpath(catalog, root)}/{name}" if Path(catalog).is_dir() else uri
    found = _PATHS.match(uri)
    return uri if found is None else f"{found[1] or ''}{os.path.relpath(found[2], root)}"


def subject_lines(
    name: str, source: str, tables: Iterable[str], comments: Mapping[str, str] | None = None
) -> list[str]:
    """One subject's entry."""
    lines = [f"  {text(name)}:", f"    source: {text(source)}"]
    found = [f"      - {text(uri)}{_comment((comments or {}).get(uri, ''))}" for uri in tables]
    return [*lines, "    tables:", *found] if found else lines


def proposal(adoption: Adoption, folder: Path) -> str:
    from lakeevolve.planning.adoption import by_subject

    lines = {line.name: line for line in adoption.lines}
    parts = [_HEAD, "version: 1", ""]
    groups = list(by_subject(adoption.tables))
    if groups:
        parts.append("subjects:")
    for name, found in groups:
        parts += _subject(lines[name], found, folder)
    options = [line for each in adoption.tables for line in _options(each, folder)]
    parts += ["", "tables:", *options] if options else []
    parts += _waivers(adoption)
    left = [each for each in adoption.tables if each.subject is None and each.kind != "managed"]
    if left:
        parts += ["", "# Of no subject:"]
        parts += [f"#   {placed(each.uri, folder)}: {each.kind}; {_line(each.reasons)}" for each in left]
    return "\n".join(parts) + "\n"


def _subject(line: Candidate, found: Iterable[Adopted], folder: Path) -> Iterator[str]:
    comments = {placed(each.uri, folder): _told(each) for each in found}
    subject = line.subject
    own = [] if subject is None else list(subject.tables)
    head, source, *tables = subject_lines(
        line.name, placed(line.source, folder), dict.fromkeys((*own, *comments)), comments
    )
    yield from (head, source)
    if subject is not None:
        yield f"    mode: {subject.mode}"
        if subject.contracts:
            yield f"    contracts: [{', '.join(map(text, subject.contracts))}]"
        if subject.renames:
            yield f"    renames: {_mapping(subject.renames)}"
        if subject.not_renames:
            yield f"    not_renames: {json.dumps([list(pair) for pair in subject.not_renames])}"
    yield from tables


def _told(each: Adopted) -> str:
    of = f"version {each.version} of {each.newest}"
    return f"{each.kind}: {of}{f'; {_line(each.reasons)}' if each.reasons else ''}"


def _options(each: Adopted, folder: Path) -> Iterator[str]:
    if each.subject is not None:
        yield from options_lines(placed(each.uri, folder), each.mapping, each.foreign)


def options_lines(uri: str, mapping: Mapping[str, str], foreign: Iterable[str]) -> Iterator[str]:
    """What holds for one table, where there is anything to be said."""
    if not (mapping or foreign):
        return
    yield f"  {text(glob.escape(uri))}:"
    if mapping:
        yield f"    mapping: {_mapping(mapping)}"
    if foreign:
        yield f"    foreign: [{', '.join(map(text, foreign))}]"


def _waivers(adoption: Adoption) -> Iterator[str]:
    found = {finding.fingerprint: finding for each in adoption.tables for finding in each.baseline}
    if not found:
        return
    yield from ("", "policy:", "  # What there is today. Once the day is over, or the finding is gone, each says so.")
    yield "  waivers:"
    for fingerprint, finding in found.items():
        yield f"    - fingerprint: {text(fingerprint) if fingerprint[0].isalpha() else json.dumps(fingerprint)}"
        yield f"      reason: {json.dumps(f'baseline: {finding.rule} {finding.path or chr(36)}', ensure_ascii=False)}"
        yield f"      approver: {text(adoption.approver)}"
        yield f"      until: {adoption.until.isoformat()}{_comment(finding.message)}"


def _mapping(pairs: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{text(key)}: {text(value)}" for key, value in pairs.items()) + "}"


def _comment(words: str) -> str:
    return f"  # {' '.join(words.split())}" if words else ""


def _line(reasons: Iterable[str]) -> str:
    return " ".join("; ".join(reasons).split())
