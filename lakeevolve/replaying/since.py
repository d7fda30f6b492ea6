"""What changed in a table since evidence was taken of it.

Appends, rewrites, deletes and new versions are told, and are no mismatch: they are what tables are for. What no commit
explains is one: a file that the table still lists and whose rows read otherwise, files that came or went although the
table stands where it stood, a version whose schema is another now.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve.errors import ConfigError
from lakeevolve.model.schema import Schema
from lakeevolve.redaction import public_uri
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.evidence import DIGEST, Evidence, FileEvidence, load
from lakeevolve.replaying.fold import Folds
from lakeevolve.tables.base import DataFile, Table

#: Who says what the rows of a file were.
EARLIER: Final = "evidence"

What = Literal[
    "file-changed", "rows-deleted", "file-gone", "file-added", "version-added", "version-changed", "not-compared"
]


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that is otherwise than the evidence says; ``explained`` by a commit of the table's own, or not."""

    what: What
    subject: str
    text: str
    explained: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "subject": self.subject, "text": self.text, "explained": self.explained}

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


def meant(against: Any) -> tuple[Schema | None, Evidence | None]:
    """What a table is held against: a schema (or its source), or evidence (or the file that holds it).

    Raises ``SourceError`` for evidence that was changed after it was written, and for what is neither.
    """
    if against is None or isinstance(against, Schema):
        return against, None
    if isinstance(against, Evidence):
        return None, against
    if isinstance(against, str | Path) and _is_evidence(against):
        return None, load(against)
    from lakeevolve.sources import load as load_schema

    return load_schema(against), None


def _is_evidence(source: str | Path) -> bool:
    try:
        path = Path(source)
        if not path.is_file() or path.suffix == ".avsc":
            return False
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    try:
        record = json.loads(text)
    except ValueError:
        # Half of an evidence file is a damaged one, and no schema.
        return '"format_version"' in text and '"seal"' in text
    return isinstance(record, dict) and {"format_version", "files"} <= record.keys()


def changed_since(
    evidence: Evidence,
    table: Table,
    folds: Folds,
    files: Mapping[str, Sequence[tuple[DataFile, FileEvidence | None]]],
    whole: bool,
    rehash: Callable[[DataFile, int], FileEvidence | None],
) -> Iterator[Changed]:
    """Everything that is otherwise than evidence says.

    Parameters
    ----------
    files:
        The live files by public path, each with what was found of it now; None where it was not looked at. Files of
        several partitions may share one.
    whole:
        Whether all files were looked at.
    rehash:
        What a file's rows read as at an earlier version; None where they cannot be read.

    Raises ``ConfigError`` where the evidence is of another table.
    """
    state = table.state
    if evidence.table.get("id") != state.id:
        raise ConfigError(
            "the evidence is of another table",
            where=public_uri(table.uri),
            hint="give the evidence that was written for this table",
        )
    yield from _versions(evidence, folds)
    moved = evidence.table.get("position") != state.position
    then: dict[str, list[FileEvidence]] = {}
    for each in evidence.files:
        then.setdefault(each.path, []).append(each)
    if evidence.oracle.get("digest") != DIGEST:
        yield Changed("not-compared", "rows", "the evidence digests rows another way than this release does")
        return
    at = evidence.to.get("version")

    def now(file: DataFile, found: FileEvidence | None) -> FileEvidence | None:
        return rehash(file, at) if isinstance(at, int) and at != folds.newest.number else found

    for path, before in then.items():
        live = files.get(path, ())
        if len(live) < len(before) and not evidence.oracle.get("staged"):
            yield Changed("file-gone", path, "the table does not list the file any more", moved)
        looked_at = [(file, found) for file, found in live if found is not None]
        read = [now(file, found) for file, found in looked_at]
        if None in read:
            yield Changed("not-compared", path, f"its rows cannot be read as version {at} had them")
            continue
        yield from _rows(path, before, [each for each in read if each is not None], len(live), moved)
    if whole and not evidence.oracle.get("sampled"):
        for path, live in files.items():
            if len(live) > len(then.get(path, ())):
                yield Changed("file-added", path, "the evidence does not know the file", moved)


def _rows(
    path: str, before: Sequence[FileEvidence], now: Sequence[FileEvidence], live: int, moved: bool
) -> Iterator[Changed]:
    """Whether the files of one path read as they did; those that are gone or were not looked at do not count."""
    known = Counter(file.digest for file in before)
    left = [file for file in now if not _taken(known, file.digest)]
    # As many as there are more files now than then are new ones.
    for file in left[: max(0, len(left) - max(0, live - len(before)))]:
        rows = max((each.rows for each in before if known[each.digest] > 0), default=0)
        if moved and file.rows < rows:
            yield Changed("rows-deleted", path, f"{rows - file.rows} of its {rows} rows are deleted")
        else:
            yield Changed("file-changed", path, "its rows are not those that the evidence digested", False)


def _taken(known: Counter[str], digest: str) -> bool:
    if known[digest] <= 0:
        return False
    known[digest] -= 1
    return True


def _versions(evidence: Evidence, folds: Folds) -> Iterator[Changed]:
    known = {version.number: version for version in folds.versions}
    then = {int(each["number"]): each for each in evidence.versions}
    for number, before in then.items():
        now = known.get(number)
        if now is None or now.digest != before["digest"]:
            yield Changed("version-changed", f"version {number}", "its schema is not that of the evidence", False)
        elif dict(now.fills) != dict(before["fills"]) or dict(now.renames) != dict(before["renames"]):
            yield Changed(
                "version-changed",
                f"version {number}",
                "what it recorded of old rows is not that of the evidence",
                False,
            )
    for number in known:
        if number > max(then, default=0):
            yield Changed("version-added", f"version {number}", "the table has evolved since")


def as_mismatch(changed: Changed) -> Mismatch:
    """A change that no commit explains."""
    file = changed.subject if changed.what.startswith("file") else None
    text = changed.text if file is not None else str(changed)
    return Mismatch(file, None, "", "", "", text, EARLIER, "changed")
