"""The tasks as a project's ``lakeevolve.yaml`` says them, for one of its tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeevolve.airflow.shared import Progress, Summary, counted, given, in_state, only, opener, refused

if TYPE_CHECKING:
    from lakeevolve.config.project import Project
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replaying.result import ReplayResult
    from lakeevolve.tables.base import Table

log = logging.getLogger("lakeevolve.airflow")


def checked(config: str, subjects: Sequence[str], conn_id: str | None) -> Summary:
    from lakeevolve.planning.project import check_project
    from lakeevolve.report.text import report_text

    with in_state(config, None) as project:
        parts = check_project(given(project), subjects, open_=opener(conn_id)).parts
    for part in parts:
        if part.error is not None:
            raise part.error
        log.info("%s\n%s", part.name, report_text(part.value))
    for part in parts:
        if part.value.failures:
            raise refused(f"{part.name} is refused in {part.value.mode}", part.value.failures, config)
    return {
        "ok": True,
        "compatible": all(part.value.compatible for part in parts),
        "mode": ", ".join(dict.fromkeys(part.value.mode for part in parts)),
        "findings": counted(finding for part in parts for finding in part.value.findings),
    }


def planned(project: Project, table: str, subject: str, conn_id: str | None) -> Plan:
    from lakeevolve.planning.project import plan_project

    (part,) = plan_project(only(project, table, subject), open_=opener(conn_id)).parts
    if part.error is not None:
        raise part.error
    made: Plan = part.value
    return made


def verified(
    project: Project,
    table: str,
    subject: str,
    live: Table,
    told: Progress,
    full: bool,
    columns: str,
    sample: int | None,
    readers: Sequence[str],
    engine: Any,
) -> ReplayResult:
    from lakeevolve.applying.project import verify_project

    (part,) = verify_project(
        only(project, table, subject),
        full=full,
        columns=columns,
        sample=sample,
        readers=readers,
        engine=engine,
        open_=lambda _uri: live,
        watch=lambda _name: told,
    ).parts
    if part.error is not None:
        raise part.error
    result: ReplayResult = part.value
    return result
