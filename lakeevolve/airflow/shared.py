"""What the tasks have in common: the state, the project, how a table is opened, what is said of progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.errors import ConfigError, Interrupted, PlanBlocked
from lakeevolve.redaction import redact

if TYPE_CHECKING:
    from lakeevolve.config.project import Project
    from lakeevolve.rules.findings import Finding
    from lakeevolve.tables.base import Table

log = logging.getLogger("lakeevolve.airflow")

#: Small JSON, fit for an XCom.
Summary = dict[str, Any]
#: Asked between files: whether to stop.
Stop = Callable[[], bool]

#: Seconds between two lines about the progress of one task.
PACE: Final = 10.0


def never() -> bool:
    return False


class Progress:
    """Told of each file that is done: stops there when that is asked for, and else says so now and then."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._phase = ""
        self._last = 0.0

    def __call__(self, phase: str, done: int, of: int) -> None:
        # What is written and proved may be committed: the next file is one to read back.
        if phase != "commit" and self._stop():
            raise Interrupted("the task was stopped between two files", hint="run it again when it suits")
        now = time.monotonic()
        if phase != self._phase or now - self._last >= PACE:
            self._phase, self._last = phase, now
            log.info("%s: %d of %d", phase, done, of)


def opened(uri: str, conn_id: str | None) -> Table:
    from lakeevolve.airflow.connections import open_with

    return open_with(uri, conn_id)


def opener(conn_id: str | None) -> Callable[[str], Table]:
    return lambda uri: opened(uri, conn_id)


def public(engine: Any) -> Any:
    """The engine, unless its name holds credentials, which Airflow would show."""
    if isinstance(engine, str) and redact(engine, library=True) != engine:
        raise ConfigError(
            "the engine's name holds credentials, and Airflow shows it",
            where=redact(engine, library=True),
            hint="give them by the environment of the workers, or hand a session to the function",
        )
    return engine


@contextmanager
def in_state(config: str | None, state: str | None) -> Iterator[Project | None]:
    """The project's file that is named, and the state where it says, or where *state* does."""
    from lakeevolve.config.state import using

    if config is None and state is None:
        yield None
        return
    from lakeevolve.config.find import NAME
    from lakeevolve.config.project import Project, ProjectEntry

    if config is None:
        project = Project(Path.cwd() / NAME, ProjectEntry(version=1))
    else:
        from lakeevolve.config.load import load_project

        project = load_project(config)
    with using(project if state is None else project.replaced(state=state)):
        yield project


def given(project: Project | None) -> Project:
    assert project is not None
    return project


def only(project: Project, table: str, subject: str) -> Project:
    """The project with one of its tables alone."""
    found = [
        (name, each, uri)
        for name, each in project.subjects((subject,) if subject else ()).items()
        for uri in each.tables
        if table in (uri, project.located(uri))
    ]
    if len(found) != 1:
        names = ", ".join(name for name, _, _ in found)
        raise ConfigError(
            f"several subjects list the table: {names}" if found else "the project does not list the table",
            where=f"{project.shown}, {table}",
            hint="name the subject" if found else "add it to the tables of its subject, or give a target",
        )
    ((name, each, uri),) = found
    return project.replaced(subjects={name: replace(each, tables=(uri,))})


def absolute(where: str | Path) -> str:
    """A path or URL that means the same to a task that runs in another folder."""
    text = str(where)
    return text if "://" in text else str(Path(text).absolute())


def counted(findings: Iterable[Finding]) -> dict[str, int]:
    counts = {"error": 0, "warning": 0, "info": 0}
    for finding in findings:
        if not finding.waived:
            counts[finding.severity] += 1
    return counts


def refused(what: str, failures: Sequence[Finding], where: str | None) -> PlanBlocked:
    first = failures[0]
    return PlanBlocked(
        f"{what}: {len(failures)} findings against it; the first: {first.rule} {first.path or '$'}, {first.message}",
        where=where,
        hint=first.fix or None,
    )
