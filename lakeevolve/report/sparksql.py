"""The steps of a plan that no Python library can run, as a file of Spark SQL."""

from __future__ import annotations

from lakeevolve.model.sentence import told_change
from lakeevolve.planning.plan import Plan, Step

_SQL = "Spark SQL: "


def spark_sql(plan: Plan) -> str:
    """The statements of the plan's external steps, in their order, with comments that say what they are.

    Names stand in backticks, as Spark quotes them.

    Returns
    -------
    str
        SQL. A plan without external steps gives comments alone.
    """
    lines = [
        f"-- {plan.table['uri']}: version {plan.base_version} -> {plan.target_version}, plan {plan.digest[:12]}",
        "-- For Spark SQL, with the table's catalog. Trino quotes names with \" instead of `.",
    ]
    if plan.refused:
        lines.append("-- The plan is refused as a whole; see lakeevolve show.")
    if not any(step.route == "external" for step in plan.steps):
        lines.append("-- Nothing is to be run here: lakeevolve apply runs every step.")
    for step in plan.steps:
        lines += [
            "",
            *(f"-- {step.id}: {' '.join(told_change(change).split())}" for change in step.changes),
            *_step(step),
        ]
    lines += [
        "",
        "-- Afterwards: plan and apply the same target again, which records the version, then lakeevolve verify.",
    ]
    return "\n".join(lines)


def _step(step: Step) -> list[str]:
    if step.route != "external":
        return [f"-- route {step.route}: not in this file"]
    sql = step.via.removeprefix(_SQL) if step.via.startswith(_SQL) else None
    if sql is None:
        return ["-- No statement makes this change; in short:", *(f"-- {line}" for line in step.reason.splitlines())]
    return [f"{sql.strip().rstrip(';')};"]
