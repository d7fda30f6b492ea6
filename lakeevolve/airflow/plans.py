"""Where plans lie between the task that makes one and the task that applies it: a folder or an object store."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeevolve.airflow.shared import absolute
from lakeevolve.config.state import state_root
from lakeevolve.config.store import store_at
from lakeevolve.errors import PlanFormatError
from lakeevolve.planning.plan import Plan, load_plan


def keep(plan: Plan, place: str | None) -> str:
    """Save a plan under its digest and return where: an absolute path, or a URL.

    Parameters
    ----------
    place:
        A folder or an object store's URL, for every worker to reach; None for the state.
    """
    if place is None:
        root, name = state_root(), f"{plan.table['id']}/plans/{plan.digest}.json"
    else:
        root, name = place, f"{plan.digest}.json"
    store = store_at(root)
    # Not only once: what the plan is expected to cost is no part of its digest, and the newest word on it counts.
    store.put(name, (json.dumps(plan.to_json(), indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode())
    return absolute(store.where(name))


def fetch(given: Mapping[str, Any] | str) -> tuple[Plan, str]:
    """A plan and where it lies, by what ``plan_table`` returned or by its path or URL.

    Raises ``PlanFormatError`` where nothing lies there, or no plan, or another one than was made.
    """
    if not isinstance(given, Mapping) and not isinstance(given, str):
        raise PlanFormatError("a plan is given by its path, or by what the task that made it returned")
    where = given if isinstance(given, str) else str(given.get("plan_path", ""))
    if not where:
        raise PlanFormatError("what is given names no plan", hint="give what plan_table or the plan operator returned")
    if where.startswith("{"):
        raise PlanFormatError(
            "the plan is given as a text that was rendered from what the task that plans returned",
            hint="give that task's output itself, or render its ['plan_path']",
        )
    plan = _load(where)
    made = given.get("plan") if isinstance(given, Mapping) else None
    if made is not None and made != plan.digest:
        raise PlanFormatError(
            "another plan lies there than the one that was made", where=where, hint="run the task that plans again"
        )
    return plan, where


def _load(where: str) -> Plan:
    if "://" not in where:
        return load_plan(where)
    root, _, name = where.rpartition("/")
    content = store_at(root).get(name)
    if content is None:
        raise PlanFormatError("there is no plan", where=where, hint="run the task that plans again")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        file.write_bytes(content)
        try:
            return load_plan(file)
        except PlanFormatError as error:
            # The copy's name would help nobody.
            raise PlanFormatError(error.what, where=where, hint=error.hint) from error
