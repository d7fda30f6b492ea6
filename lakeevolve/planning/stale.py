"""Whether a plan still belongs to the table as it is now.

Appends and compactions leave a plan as it is; a change of the schema, the protocol, the specs or the table's identity
makes it stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeevolve.planning.plan import Plan
from lakeevolve.tables import open_table
from lakeevolve.tables.base import State, Table, Version, pinned


def staleness(plan: Plan, table: Table | None = None) -> str | None:
    """Why *plan* can no longer be applied to the table as it is now, or None."""
    live = open_table(plan.table["uri"]) if table is None else table
    live.refresh()
    return differs(plan, live.state)


def differs(plan: Plan, state: State) -> str | None:
    """What of the pinned things differs in *state*, as one sentence, or None."""
    if state.id != plan.table["id"]:
        return "another table stands under the same name (its identity differs)"
    moved = _moved(plan.pin, pinned(state, data=plan.inputs.pin == "data"))
    if moved:
        return "since the plan was made, the table's " + " and ".join(moved) + " changed"
    return None


def told_version(version: Version) -> str:
    """A version and who made it, for people."""
    who = f"plan {version.plan[:12]}" if version.plan else "made by others"
    return f"version {version.number} ({who})"


def _moved(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        key.replace("_", " ").replace("-", " ") for key in sorted({*planned, *now}) if planned.get(key) != now.get(key)
    ]
