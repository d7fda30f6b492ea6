"""What the tests run on engines: functions that other processes can import."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lakeevolve.errors import TableNotFound


@dataclass(frozen=True)
class Task:
    path: str
    number: int


def square(task: Task) -> int:
    return task.number**2


def once(folder: Path, harm: str, task: Task) -> int:
    """The square, but the first time that task 3 is run it comes to harm."""
    mark = folder / f"{harm}-{task.number}"
    if task.number == 3 and not mark.exists():
        mark.touch()
        if harm == "die":
            os._exit(1)
        raise OSError("the store hiccuped")
    return task.number**2


def die(task: Task) -> int:
    if task.number == 3:
        os._exit(1)
    return task.number


def refuse(task: Task) -> int:
    if task.number == 3:
        raise TableNotFound("no table", where="delta:x", hint="look again")
    return task.number


def hiccup(task: Task) -> int:
    raise ValueError("secret value 4711")


TASKS = [Task(f"file-{n}", n) for n in range(8)]
SQUARES = [n**2 for n in range(8)]
