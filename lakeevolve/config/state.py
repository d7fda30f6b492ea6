"""The state: plans, journal, evidence and ledger of each table, in a folder or an object store.

Everything in it can be lost without harm to a table: the marker that the table itself carries is authoritative.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lakeevolve.config.store import Store, store_at
from lakeevolve.errors import ConfigError
from lakeevolve.model.digest import canonical_json

if TYPE_CHECKING:
    from lakeevolve.config.project import Project

VARIABLE: Final = "LAKEEVOLVE_STATE"
DEFAULT: Final = ".lakeevolve"

Kind = Literal["plans", "journal", "evidence", "ledger"]

_PROJECT: ContextVar[Project | None] = ContextVar("lakeevolve.project", default=None)


@contextmanager
def using(project: Project | None) -> Iterator[None]:
    """Within it, a project's state is the state, wherever its file lies."""
    token = _PROJECT.set(project)
    try:
        yield
    finally:
        _PROJECT.reset(token)


def state_root() -> str | Path:
    """Where the state lies: what the project's ``lakeevolve.yaml`` says (the nearest one, from the working directory
    upwards), else the environment's ``LAKEEVOLVE_STATE``, else ``./.lakeevolve``. A URL is a text, a folder a path.

    Raises ``ConfigError`` where that file cannot be read or holds faults.
    """
    said = _said_by_project() or os.environ.get(VARIABLE) or DEFAULT
    return said if "://" in said else Path(said)


def current_project() -> Project | None:
    """The project that is in use, else the nearest one, from the working directory upwards; None where there is none.

    Raises ``ConfigError`` where its file cannot be read or holds faults.
    """
    project = _PROJECT.get()
    if project is None:
        from lakeevolve.config.find import find

        file = find()
        if file is None:
            return None
        from lakeevolve.config.load import load_project

        project = load_project(file)
    return project


def _said_by_project() -> str | None:
    project = current_project()
    return None if project is None else project.state


@dataclass(frozen=True)
class TableState:
    """The part of the state that belongs to one table, by the table's own identity."""

    table_id: str
    root: str | Path

    @cached_property
    def store(self) -> Store:
        """Where the records are."""
        return store_at(self.root)

    def probe(self, kind: Kind) -> None:
        """Find out whether records of a kind can be written, by writing one and taking it away.

        Raises ``ConfigError`` where they cannot.
        """
        name = f"{self.table_id}/{kind}/.probe-{uuid.uuid4().hex}"
        self.store.put(name, b"", once=True)
        self.store.delete(name)

    def folder(self, kind: Kind) -> None:
        """As :meth:`probe`."""
        self.probe(kind)

    def write(self, kind: Kind, name: str, record: Mapping[str, Any], *, once: bool = False) -> str | Path:
        """Write a record as JSON and return where: a path, or a URL as text. With *once* a record that is there stays
        as it is."""
        full = self._name(kind, name)
        self.store.put(full, (canonical_json(record) + "\n").encode(), once=once)
        where = self.store.where(full)
        return where if "://" in where else Path(where)

    def add(self, kind: Kind, name: str, record: Mapping[str, Any]) -> bool:
        """Write a record that is not there yet; False where one is, which stays as it is."""
        return self.store.put(self._name(kind, name), (canonical_json(record) + "\n").encode(), once=True)

    def read(self, kind: Kind, pattern: str = "*") -> Iterator[tuple[str, str, bytes]]:
        """The records of one kind whose names match the pattern, by name: name, where it lies, content."""
        for file in self.store.names(f"{self.table_id}/{kind}"):
            name = file.removesuffix(".json")
            if file.endswith(".json") and fnmatchcase(name, pattern):
                full = self._name(kind, name)
                content = self.store.get(full)
                if content is not None:
                    yield name, self.store.where(full), content

    def where(self, kind: Kind, name: str) -> str:
        return self.store.where(self._name(kind, name))

    def remove(self, kind: Kind, name: str) -> None:
        self.store.delete(self._name(kind, name))

    def _name(self, kind: Kind, name: str) -> str:
        return f"{self.table_id}/{kind}/{name}.json"


def state_of(table_id: str, root: str | Path | None = None) -> TableState:
    """The state of the table with that identity.

    Raises ``ConfigError`` where the identity is no name that a folder can have.
    """
    if not table_id or "/" in table_id or "\\" in table_id or table_id.startswith("."):
        raise ConfigError("the table's identity is no name", where=table_id[:80], hint="check the table's metadata")
    return TableState(table_id, state_root() if root is None else root)
