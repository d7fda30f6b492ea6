"""What stands between the tasks that plan and those that apply: is there something to do, is it approved, for which
tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeevolve.airflow.failures import as_airflow_says
from lakeevolve.airflow.shared import given, in_state


def has_changes(plan: Mapping[str, Any]) -> bool:
    """Whether a plan holds a change: for ``@task.short_circuit`` between planning and applying.

    >>> has_changes({"empty": False})
    True
    """
    return not plan["empty"]


@as_airflow_says
def is_approved(plan: Mapping[str, Any] | str, approvals: str | Sequence[str], *, config: str | None = None) -> bool:
    """Whether an approval covers a plan today: for a sensor, or for ``@task.short_circuit``.

    Parameters
    ----------
    plan:
        What ``plan_table`` returned, or the plan's path or URL.
    approvals:
        The folder of approvals, or several.
    """
    from lakeevolve.airflow import plans as saved
    from lakeevolve.config.approvals import covering, load_approvals

    with in_state(config, None):
        wanted, _ = saved.fetch(plan)
    return wanted.empty or covering(wanted.digest, load_approvals(*folders(approvals))) is not None


@as_airflow_says
def project_tables(config: str, subjects: Sequence[str] = ()) -> list[str]:
    """The URIs of a project's tables, each once: to map a task over them.

    Parameters
    ----------
    config:
        The project's ``lakeevolve.yaml``.
    subjects:
        Names or patterns of subjects; all without one.
    """
    with in_state(config, None) as project:
        found = given(project)
        uris = (found.located(uri) for each in found.subjects(subjects).values() for uri in each.tables)
        return list(dict.fromkeys(uris))


def folders(approvals: str | Sequence[str]) -> Sequence[str]:
    return (approvals,) if isinstance(approvals, str) else tuple(approvals)
