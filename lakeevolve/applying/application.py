"""What became of a plan, or of going back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lakeevolve.applying.journal import Leftovers
from lakeevolve.replaying.result import ReplayResult
from lakeevolve.rules.findings import Finding
from lakeevolve.tables.base import State, Table


@dataclass(frozen=True, slots=True)
class Undo:
    """How to undo: ``lakeevolve rollback TABLE --to``, at the least until then."""

    to: int
    until: datetime

    def to_json(self) -> dict[str, Any]:
        return {"to": self.to, "until": self.until.isoformat(timespec="seconds")}


@dataclass(frozen=True, slots=True)
class Application:
    """What became of a plan.

    ``status`` is ``applied``, ``already-applied`` (a no-op), ``nothing-to-do``, ``dry-run`` or ``rolled-back``.
    ``version`` is the table's version afterwards, ``rewritten`` the number of files that were written anew, ``proof``
    what was replayed before the commit and ``replay`` what was replayed after it; both are None for a table whose rows
    cannot be read, of which ``findings`` tell. ``undo`` says how long a rollback is
    possible at the least: nobody who keeps to the table's retention takes away earlier what it needs. ``leftovers`` are
    the files of an earlier apply that was killed.
    """

    plan: str
    status: Literal["applied", "already-applied", "nothing-to-do", "dry-run", "rolled-back"]
    version: int
    rewritten: int = 0
    proof: ReplayResult | None = None
    replay: ReplayResult | None = None
    evidence: str | Path | None = None
    undo: Undo | None = None
    leftovers: Leftovers = field(default_factory=Leftovers)
    state: State | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return self.replay is None or self.replay.ok

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "status": self.status,
            "version": self.version,
            "rewritten": self.rewritten,
            "proof": None if self.proof is None else self.proof.to_json(),
            "replay": None if self.replay is None else self.replay.to_json(),
            "findings": [finding.to_json() for finding in self.findings],
            "evidence": None if self.evidence is None else str(self.evidence),
            "undo": None if self.undo is None else self.undo.to_json(),
            "leftovers": {"deleted": list(self.leftovers.deleted), "left": list(self.leftovers.left)},
        }


def undo_of(table: Table, to: int) -> Undo:
    """How long a table can go back to a version that was replaced just now."""
    return Undo(to, datetime.now(UTC) + table.retention)
