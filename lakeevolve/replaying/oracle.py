"""A second opinion on some rows: what fastavro makes of them, step by step.

The fold that says what every row must read as is our own code. On a few rows of each file, chosen by a digest of its
path, fastavro is asked the same: their values are encoded with the schema of the file's version and decoded with each
version after it. And it is asked forward: rows as they read now, decoded with the schemas of older versions. Where it
gives another value than the fold, apart from what is known to be wrong with it, that is a mismatch.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakeevolve.avro.arrow import execute
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model.renames import as_aliases
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.evidence import installed
from lakeevolve.replaying.fold import Folds
from lakeevolve.tables.base import DataFile, Version

ORACLE: Final = "fastavro"

#: So many rows of each file are asked about, of so many files at most.
ROWS: Final = 8
FILES: Final = 64


@dataclass(frozen=True, slots=True)
class Said:
    """What fastavro said of some files' rows: how many were asked about each way, why others were not."""

    mismatches: list[Mismatch]
    asked: Counter[str]
    unasked: Counter[str]


@dataclass(slots=True)
class Oracle:
    """What fastavro said while files were read: thread by thread, file by file."""

    folds: Folds
    forward: Sequence[Version] = ()
    chosen: frozenset[str] = frozenset()
    mismatches: list[Mismatch] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    unasked: Counter[str] = field(default_factory=Counter)
    _lock: Any = field(default_factory=threading.Lock)
    _chains: dict[tuple[int, int], Any] = field(default_factory=dict)
    _resolutions: dict[int, Resolution] = field(default_factory=dict)

    @classmethod
    def over(cls, folds: Folds, files: Iterable[DataFile], forward: Sequence[Version] = ()) -> Oracle:
        """The oracle for some of these files."""
        ranked = sorted(files, key=lambda file: _digest(file.path))
        return cls(folds, forward, frozenset(file.path for file in ranked[:FILES]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Oracle, (self.folds, self.forward, self.chosen)

    def alone(self) -> Oracle:
        """An oracle for the same questions that has been asked nothing yet."""
        return Oracle(self.folds, self.forward, self.chosen)

    @property
    def said(self) -> Said:
        return Said(self.mismatches, self.asked, self.unasked)

    def take(self, said: Said) -> None:
        """Count what was said in another process."""
        self.mismatches += said.mismatches
        self.asked += said.asked
        self.unasked += said.unasked

    def look(self, file: DataFile, raw: pa.RecordBatch, folded: pa.RecordBatch, offset: int) -> None:
        """Ask about the chosen rows of a batch, before and after it was folded."""
        if file.path not in self.chosen:
            return
        picked = [row - offset for row in _rows(file) if offset <= row < offset + raw.num_rows]
        if not picked:
            return
        at = pa.array(picked, pa.int64())
        before, after = raw.take(at), folded.take(at)
        numbers = [offset + row for row in picked]
        newest = self.folds.newest
        if file.version != newest.number:
            self._backward(file, before, after, numbers)
        for version in self.forward:
            self._forward(file, after, numbers, version)

    # --- one direction

    def _backward(self, file: DataFile, before: pa.RecordBatch, after: pa.RecordBatch, numbers: Sequence[int]) -> None:
        newest = self.folds.newest
        self._compare(file, before, after, numbers, (file.version, newest.number), newest.schema, "")

    def _forward(self, file: DataFile, now: pa.RecordBatch, numbers: Sequence[int], version: Version) -> None:
        resolution = self._resolutions.get(version.number)
        if resolution is None:
            resolution = resolve(self.folds.newest.schema, version.schema)
            self._resolutions[version.number] = resolution
        if any(not each.value_level for each in resolution.incompatibilities):
            # The replay of the readers of older versions says so.
            return
        owned = now.select([f.name for f in self.folds.newest.schema.fields])
        told = f" as version {version.number} reads it"
        try:
            read = execute(resolution, owned, partial=True)
        except LakeEvolveError:
            return
        self._compare(file, owned, read, numbers, (self.folds.newest.number, version.number), version.schema, told)

    def _compare(
        self,
        file: DataFile,
        given: pa.RecordBatch,
        read: pa.RecordBatch,
        numbers: Sequence[int],
        way: tuple[int, int],
        schema: Schema,
        told: str,
    ) -> None:
        from lakeevolve.avro.container.oracle import Unasked, agrees

        name = "backward" if way[0] < way[1] else "forward"
        try:
            chain = self._chain(*way)
            rows, ours = given.to_pylist(), read.to_pylist()
        except Unasked as why:
            return self._leave(len(numbers), str(why))
        except (ValueError, OverflowError, pa.ArrowException):
            return self._leave(len(numbers), "a value that Python has not")
        for row, expected, number in zip(rows, ours, numbers, strict=True):
            try:
                theirs = chain.read(row)
                wrong = agrees(schema.root, expected, theirs)
            except Unasked as why:
                self._leave(1, str(why))
                continue
            with self._lock:
                self.asked[name] += 1
                if wrong is not None:
                    reason = f"fastavro reads another value{told}"
                    path = wrong.lstrip(".")
                    self.mismatches.append(Mismatch(file.path, number, path, "", "", reason, ORACLE, "value"))
        return None

    def _leave(self, rows: int, why: str) -> None:
        with self._lock:
            self.unasked[why] += rows

    def _chain(self, start: int, end: int) -> Any:
        from lakeevolve.avro.container.oracle import Chain, Unasked

        with self._lock:
            found = self._chains.get((start, end))
            if found is None:
                versions = {version.number: version for version in self.folds.versions}
                if start < end:
                    steps = [versions[number] for number in range(start + 1, end + 1)]
                    if any(getattr(step, "restores", None) is not None for step in steps):
                        found = Unasked("a table that went back")
                    elif any(step.fresh or "null" in step.fills.values() for step in steps):
                        found = Unasked("a step that Avro has no words for")
                    else:
                        schemas = [versions[start].schema, *map(_declared, steps)]
                else:
                    schemas = [versions[start].schema, versions[end].schema]
                if found is None:
                    try:
                        found = Chain(schemas)
                    except Unasked as why:
                        found = why
                self._chains[start, end] = found
        if isinstance(found, Unasked):
            raise found
        return found

    def to_json(self) -> dict[str, Any]:
        """What evidence holds of it."""
        return {
            "version": installed(ORACLE),
            "rows": dict(sorted(self.asked.items())),
            "unasked": dict(sorted(self.unasked.items())),
            "verdict": "differs" if self.mismatches else "agrees" if self.asked else "not-asked",
        }


def _declared(version: Version) -> Schema:
    """The version's schema with the renames that were declared for it as aliases."""
    return as_aliases(version.schema, {old: new for new, old in version.renames.items()})


def _rows(file: DataFile) -> list[int]:
    """The rows to ask about: always the same ones of a file."""
    seed = int.from_bytes(_digest(file.path)[:8], "big")
    return sorted(random.Random(seed).sample(range(max(1, file.rows)), min(ROWS, max(1, file.rows))))


def _digest(path: str) -> bytes:
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()
