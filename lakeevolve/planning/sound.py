"""Whether a plan says what its table needs: planning again with the same inputs has to give the same plan.

The digest tells that a plan was not edited by accident; whoever edits one on purpose can compute a digest too. So
nothing that a plan's steps, routes, permits or findings say is taken on trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeevolve._version import __version__
from lakeevolve.errors import PlanBlocked, PlanError, StalePlan
from lakeevolve.planning.make import make
from lakeevolve.planning.plan import Plan
from lakeevolve.rules.policy import EXPIRED, OVER_LIMIT
from lakeevolve.rules.table import ROWS_REFUSE
from lakeevolve.tables.base import Table

#: Findings about rows and files, which apply looks for itself.
_LATER: Final = (ROWS_REFUSE.id, OVER_LIMIT.id)

#: What a plan says that rows may change: the routes of some changes, and what follows from them.
_OF_ROWS: Final = ("steps", "findings")

#: How the parts of a plan are called where their key is no word for them, and those that are several things.
_NAMES: Final = {"from": "base version"}
_SEVERAL: Final = ("findings", "inputs", "consumers", "old_rows")


def refuse_unsound(plan: Plan, table: Table) -> None:
    """Refuse a plan that is not what planning its own inputs against this table gives.

    Raises
    ------
    PlanError
        The plan was made or edited by hand.
    StalePlan
        Rows that came since lead to another route, or another version of lakeevolve made the plan.
    PlanBlocked
        A waiver that the plan rests on has ended.
    """
    uri = plan.table["uri"]
    if plan.lakeevolve != __version__:
        raise StalePlan(
            f"the plan is stale: lakeevolve {plan.lakeevolve} made it, and this is {__version__}",
            where=uri,
            hint="make the plan again",
        )
    fresh = make(table, plan.target, plan.mode, plan.old_rows, plan.inputs, uri=uri)
    for finding in fresh.findings:
        if finding.rule == EXPIRED.id and finding not in plan.findings:
            raise PlanBlocked(finding.message, where=f"{uri}, {finding.path or '$'}", hint=finding.fix)
    said, is_ = _compared(plan), _compared(fresh)
    if said == is_:
        return
    key = next(key for key in sorted(is_) if said.get(key) != is_[key])
    what = _difference(key, said.get(key), is_[key])
    same_changes = [c["changes"] for c in said["steps"]] == [c["changes"] for c in is_["steps"]]
    if (plan.described or plan.position != table.state.position) and key in _OF_ROWS and same_changes:
        raise StalePlan(f"the plan is stale: {what}", where=uri, hint="make the plan again")
    raise PlanError(
        f"the plan does not say what this table needs: {what}",
        where=uri,
        hint="make the plan again with lakeevolve plan; a plan is never edited by hand",
    )


def _compared(plan: Plan) -> dict[str, Any]:
    content = plan.intent()
    content["findings"] = [finding for finding in content["findings"] if finding["rule"] not in _LATER]
    return content


def _difference(key: str, said: Any, is_: Any) -> str:
    if key != "steps":
        is_one = "is not the one" if key not in _SEVERAL else "are not those"
        return f"its {_NAMES.get(key, key.replace('_', ' '))} {is_one} that planning again gives"
    if len(said) != len(is_):
        return f"it has {len(said)} step{'' if len(said) == 1 else 's'}, and planning again gives {len(is_)}"
    one, other = next((one, other) for one, other in zip(said, is_, strict=True) if one != other)
    part = next(part for part in other if one.get(part) != other[part])
    was, gives = _short(one.get(part)), _short(other[part])
    return f"step {other['id']}{_places(other)} has {part} {was}, planning again gives {gives}"


def _places(step: Mapping[str, Any]) -> str:
    paths = dict.fromkeys(change.get("path") or "$" for change in step["changes"])
    return f" ({', '.join(paths)})" if paths else ""


def _short(value: Any) -> str:
    return "others" if isinstance(value, list | dict) else str(value)
