"""What an apply is about to write, noted before it writes it, so that a killed one leaves nothing that nobody knows of.

The journal decides nothing: whether a plan has landed is the table's own word.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakeevolve.config.state import TableState
from lakeevolve.tables.base import Table

#: Between a plan's digest and the number of a file, in the names of records.
_FILE: Final = "-w"
#: For how many seconds after its note a file is left alone: a commit that a killed process had sent may still land.
GRACE: Final = 60


class Journal:
    """The journal of one apply of one plan."""

    def __init__(self, store: TableState, plan: str, uri: str) -> None:
        self.store = store
        self.plan = plan
        self._numbers = itertools.count(1)
        self._noted: dict[str, str] = {}
        store.write("journal", plan, {"plan": plan, "uri": uri, **_me()})

    def writing(self, path: str) -> None:
        """Note a file that is about to be written."""
        # Files of an earlier attempt that could not be deleted keep their numbers.
        name = f"{self.plan}{_FILE}{os.getpid()}-{next(self._numbers)}"
        self._noted[name] = path
        self.store.write("journal", name, {"plan": self.plan, "path": path, **_me()})

    def forget(self, left: Iterable[str] = ()) -> None:
        """The files that were noted are live, or deleted but for those that are *left*."""
        kept = set(left)
        for name in [name for name, path in self._noted.items() if path not in kept]:
            self.store.remove("journal", name)
            del self._noted[name]

    def end(self) -> None:
        """The apply is over; what is left of its files stays noted."""
        self.store.remove("journal", self.plan)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files that earlier applies wrote and no version of the table refers to: those that were deleted now, and those
    that are still there."""

    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def clean(store: TableState, table: Table) -> Leftovers:
    """Delete what applies that were killed had written for a table, as far as they ran on this machine.

    Only files of plans that never landed are deleted: what belongs to one that did may be live, or be what an earlier
    snapshot reads. Files of an apply that runs elsewhere, or still runs, are left alone, and so are those noted a
    moment ago, since a store may still be busy with the last request of a process that is gone.
    """
    noted: dict[str, list[tuple[str, str]]] = {}
    ended = []
    for name, record in _records(store):
        if _runs(record) or time.time() - record["at"] < GRACE:
            continue
        if "path" in record:
            noted.setdefault(record["plan"], []).append((name, record["path"]))
        else:
            ended.append(name)
    deleted: list[str] = []
    left: list[str] = []
    for plan, files in noted.items():
        landed = table.progress_of(plan) != "none"
        there = set() if landed else set(table.discard([path for _, path in files]))
        for name, path in files:
            if path in there:
                left.append(path)
                continue
            if not landed:
                deleted.append(path)
            store.remove("journal", name)
    for name in ended:
        store.remove("journal", name)
    return Leftovers(tuple(deleted), tuple(left))


def _records(store: TableState) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, _, content in store.read("journal"):
        try:
            record = json.loads(content)
        except ValueError:
            continue
        if isinstance(record, dict) and _is_note(record):
            yield name, record


def _is_note(record: dict[str, Any]) -> bool:
    whole = all(isinstance(record.get(key), int) and not isinstance(record[key], bool) for key in ("pid", "at"))
    return whole and isinstance(record.get("plan"), str)


def _me() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "started": _started(pid), "at": int(time.time())}


def _runs(record: dict[str, Any]) -> bool:
    """Whether the process that wrote a record may still run."""
    if record.get("host") != socket.gethostname():
        return True
    pid = record["pid"]
    return pid == os.getpid() or (_alive(pid) and _started(pid) == record.get("started"))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> str | None:
    """When a process began, where the system tells: a number of a process is used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
