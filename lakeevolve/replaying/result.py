"""What a replay came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from lakeevolve.errors import ReplayMismatch
from lakeevolve.redaction import public_path, public_uri
from lakeevolve.replaying.compare import Hidden, Mismatch
from lakeevolve.replaying.evidence import (
    DIGEST,
    Evidence,
    FileEvidence,
    environment,
    installed,
    version_record,
)
from lakeevolve.replaying.faults import ReaderFault
from lakeevolve.replaying.fold import Folds
from lakeevolve.replaying.since import Changed
from lakeevolve.rules.findings import Finding
from lakeevolve.tables.base import Table

__all__ = ["Hidden", "Mismatch", "ReaderFault", "ReplayResult"]

#: At most this many mismatches are named in all; the rest are counted.
NAMED: Final = 1000

#: Who reads a table of each format, and in which distribution.
OWN_READER: Final[Mapping[str, tuple[str, str]]] = {
    "iceberg": ("pyiceberg", "pyiceberg"),
    "delta": ("delta-rs", "deltalake"),
    "parquet": ("pyarrow", "pyarrow"),
}


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Every row equal to what the resolutions say, or the first rows that are not.

    Parameters
    ----------
    files, rows:
        How many data files and live rows were compared.
    mismatches:
        The first of them, each with file, row and path; ``mismatched`` counts all, at least.
    reader_faults:
        Known faults of a reader that were met: the table is right, that reader is not.
    notes:
        What the verdict does not cover: versions that had to be inferred, files left out by sampling, rewrites whose
        previous state is gone.
    evidence:
        The sealed record.
    changes:
        What is otherwise than the evidence that the table was held against says; what no commit explains is a
        mismatch, too.
    findings:
        What other tools left behind in the table; no row need read wrong for it yet.
    """

    files: int
    rows: int
    mismatches: tuple[Mismatch, ...]
    reader_faults: tuple[ReaderFault, ...]
    evidence: Evidence
    mismatched: int = 0
    notes: tuple[str, ...] = field(default=())
    changes: tuple[Changed, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything that was compared is equal; a reader fault does not count against it."""
        return self.mismatched == 0

    def to_json(self) -> dict[str, Any]:
        """The result without row values."""
        return {
            "ok": self.ok,
            "files": self.files,
            "rows": self.rows,
            "mismatched": self.mismatched,
            "mismatches": [m.to_json() for m in self.mismatches],
            "reader_faults": [f.to_json() for f in self.reader_faults],
            "notes": list(self.notes),
            "changes": [each.to_json() for each in self.changes],
            "findings": [finding.to_json() for finding in self.findings],
            "evidence": self.evidence.to_json(),
        }

    def raise_for_mismatch(self, where: str | None = None) -> None:
        """Raise ``ReplayMismatch`` with the first mismatch, if there is one."""
        if self.mismatches:
            raise ReplayMismatch(
                f"{self.mismatched} values are not what the resolutions say; the first: {self.mismatches[0]}",
                where=where,
                hint="lakeevolve verify lists them; restore the table or rewrite the files",
            )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("lakeevolve.report.notebook").shown(self))

    def __str__(self) -> str:
        verdict = "equal" if self.ok else f"{self.mismatched} mismatches"
        return f"{verdict}: {self.files} files, {self.rows} rows"


def named(found: Iterable[Mismatch]) -> tuple[Mismatch, ...]:
    """The mismatches that are kept: each place once, in the order of files and rows, ``NAMED`` at most."""
    seen: dict[tuple[Any, ...], Mismatch] = {}
    for mismatch in found:
        seen.setdefault((mismatch.file, mismatch.row, mismatch.path, mismatch.kind, mismatch.reader), mismatch)
    ordered = sorted(seen.values(), key=lambda m: (m.file or "", -1 if m.row is None else m.row, m.path, m.reader))
    return tuple(ordered[:NAMED])


def make_evidence(
    table: Table,
    folds: Folds,
    files: Sequence[FileEvidence],
    mismatches: Sequence[Mismatch],
    *,
    readers: Sequence[Mapping[str, Any]],
    predicates: Sequence[Mapping[str, Any]] = (),
    consumers: Sequence[Mapping[str, Any]] = (),
    oracle: Mapping[str, Any] | None = None,
) -> Evidence:
    """The sealed evidence of one replay of a table."""
    state = table.state
    first = min((file.version for file in files), default=folds.newest.number)
    by_number = {version.number: version for version in folds.versions}
    return Evidence(
        table={
            "uri": public_uri(table.uri),
            "format": table.format,
            "id": state.id,
            "position": state.position,
        },
        from_={"version": first, "digest": by_number[first].digest if first in by_number else None},
        to={"version": folds.newest.number, "digest": folds.newest.digest},
        versions=[version_record(version) for version in folds.versions],
        files=[
            FileEvidence(
                public_path(f.path), f.version, f.inferred, f.rows, f.digest, tuple(public_path(s) for s in f.sources)
            )
            for f in files
        ],
        mismatches=[m.to_json() for m in mismatches],
        readers=readers,
        predicates=predicates,
        oracle={
            "expected": "raw files read by pyarrow, folded through every table version",
            "pyarrow": installed("pyarrow"),
            "digest": DIGEST,
            **(oracle or {}),
        },
        consumers=consumers,
        environment=environment(),
    ).sealed()
