"""The state folder: plans, journal, evidence and ledger of each table.

Everything in it can be lost without harm to a table: the marker that the table itself carries is authoritative.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve.errors import ConfigError
from lakeevolve.model.digest import canonical_json

VARIABLE: Final = "LAKEEVOLVE_STATE"
DEFAULT: Final = ".lakeevolve"

Kind = Literal["plans", "journal", "evidence", "ledger"]


def state_root() -> Path:
    """The state folder: the environment's ``LAKEEVOLVE_STATE``, else ``./.lakeevolve``."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


@dataclass(frozen=True, slots=True)
class TableState:
    """The part of the state folder that belongs to one table, by the table's own identity."""

    table_id: str
    root: Path

    def folder(self, kind: Kind) -> Path:
        """The folder of one kind of record, made when it is not there yet.

        Raises ``ConfigError`` where it cannot be written.
        """
        folder = self.root / self.table_id / kind
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from error
        if not os.access(folder, os.W_OK):
            raise _unwritable(folder, None)
        return folder

    def write(self, kind: Kind, name: str, record: Mapping[str, Any], *, once: bool = False) -> Path:
        """Write a record as JSON and return where. With *once* a record that is there stays as it is."""
        target = self.folder(kind) / f"{name}.json"
        if once and target.exists():
            return target
        part = target.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_text(canonical_json(record) + "\n")
            os.replace(part, target)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise _unwritable(target, error) from error
        return target

    def records(self, kind: Kind, pattern: str = "*") -> tuple[Path, ...]:
        """Where the records of one kind are whose names match the pattern; none where there is no folder."""
        return tuple(sorted((self.root / self.table_id / kind).glob(f"{pattern}.json")))

    def remove(self, kind: Kind, name: str) -> None:
        (self.folder(kind) / f"{name}.json").unlink(missing_ok=True)


def state_of(table_id: str, root: Path | None = None) -> TableState:
    """The state of the table with that identity."""
    return TableState(table_id, state_root() if root is None else root)


def _unwritable(path: Path, error: OSError | None) -> ConfigError:
    reason = error.strerror if error is not None and error.strerror else "permission denied"
    return ConfigError(
        f"the state folder cannot be written: {reason}",
        where=str(path),
        hint=f"set {VARIABLE} to a writable folder",
    )
