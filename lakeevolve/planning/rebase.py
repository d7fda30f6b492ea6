"""Plans made from plans: the same wish on a table that others changed since, and the way back."""

from __future__ import annotations

from lakeevolve.errors import ConfigError, PlanError, StalePlan
from lakeevolve.model import path as paths
from lakeevolve.model.apply import apply_changes
from lakeevolve.model.change import AddField, ChangeLogicalType, DropField, ReplaceType
from lakeevolve.model.diff import Diff, diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import narrower, without_null
from lakeevolve.planning.make import make as make_plan
from lakeevolve.planning.make import plan as make
from lakeevolve.planning.make import with_rows
from lakeevolve.planning.plan import Inputs, Plan
from lakeevolve.planning.stale import told_version
from lakeevolve.planning.threeway import Conflict, Side, merge
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Table, Version
from lakeevolve.tables.lineage import in_force


def rebase(plan: Plan, table: Table | str | None = None) -> Plan:
    """Plan anew what *plan* wanted, on the table as it is now. Nothing is changed.

    The schema that the plan started from, its target and the table's schema of today are brought together field by
    field: what others added since stays, what they dropped stays dropped. The new plan has the digest of the old one
    where nothing that people approved has changed; else it has to be approved anew.

    Parameters
    ----------
    plan:
        The plan, which may be stale.
    table:
        The table or its URI; by default the one that the plan names.

    Returns
    -------
    Plan
        The new plan, made with the old one's mode, ``old_rows``, renames, routes, limits and policy.

    Raises
    ------
    StalePlan
        The plan and another change concern the same field; the message names the version that won (exit 4).
    PlanError
        The plan is for another table, or is applied already.

    Examples
    --------
    >>> fresh = rebase(load_plan("plan.json"))  # doctest: +SKIP
    >>> fresh.digest == load_plan("plan.json").digest  # doctest: +SKIP
    True
    """
    uri = plan.table["uri"]
    live = _opened(plan, table, "make a plan for this table")
    landed = live.progress_of(plan.digest)
    if landed != "none":
        raise PlanError(
            "the plan is applied already" if landed == "done" else "the plan is applied in part",
            where=uri,
            hint="there is nothing to rebase" if landed == "done" else "run apply again with --resume",
        )
    return make(
        live,
        _wanted(plan, live.history(hint=plan.hint), uri),
        plan.mode,
        plan.old_rows,
        policy=plan.inputs.policy,
        routes=plan.inputs.routes,
        renames=plan.inputs.renames,
        not_renames=plan.inputs.not_renames,
        limits=plan.inputs.limits,
        pin=plan.inputs.pin,
        subject=plan.inputs.subject,
        contracts=plan.inputs.contracts,
        foreign=plan.inputs.foreign,
    )


def revert(plan: Plan, table: Table | str | None = None) -> Plan:
    """Plan how to undo *plan* on the table as it is now, with every row that was written since. Nothing is changed.

    The inverse of the plan's changes is brought together with what others changed since, field by field. Numbers that
    the plan widened, and times that it gave a finer unit, become narrower again if every row fits, which is checked row
    by row; what cannot come back (the values of a dropped column, say) is a finding of the new plan, place by place.
    :func:`lakeevolve.rollback` goes back to the rows of then instead.

    Raises
    ------
    StalePlan
        Another change concerns the same field since (exit 4).
    PlanError
        The plan is for another table, or is not applied.

    Examples
    --------
    >>> revert(load_plan("plan.json")).save("revert.json")  # doctest: +SKIP
    """
    uri = plan.table["uri"]
    live = _opened(plan, table, "revert a plan of this table")
    versions = live.history()
    made = [version for version in versions if version.plan == plan.digest]
    if not made:
        raise PlanError("the plan is not applied, so there is nothing to revert", where=uri)
    if made[-1].number not in in_force(versions):
        raise PlanError("the table went back behind the plan, so there is nothing to revert", where=uri)
    before, now = base_of(plan), versions[-1]
    back = [(new, old) for new, old in plan.renames.items()]
    inverse = diff(plan.target, before, renames=back)
    theirs = _between(plan.target, now.schema, versions[made[-1].number :])
    try:
        wanted = merge(
            plan.target,
            Side.of(before, inverse.changes, inverse.renames),
            Side.of(now.schema, theirs.changes, theirs.renames),
        )
    except Conflict as conflict:
        raise StalePlan(
            f"the plan cannot be undone as it is: {_winner(versions, made[-1].number, conflict.path)} changed "
            f"{conflict.path or 'the root'} since",
            where=uri,
            hint="revert that change first, or plan towards the schema that the table is to have",
        ) from conflict
    changes = diff(now.schema, wanted, renames=back).changes
    added = [change for change in changes if isinstance(change, AddField)]
    gone = [change.path for change in changes if isinstance(change, DropField)]
    inputs = Inputs(
        renames=tuple(back),
        not_renames=tuple((old, new.path) for old in gone for new in added),
        limits=plan.inputs.limits,
        subject=plan.inputs.subject,
        contracts=plan.inputs.contracts,
        policy=plan.inputs.policy,
        foreign=plan.inputs.foreign,
        reverts=plan.digest,
        narrow=tuple(
            c.path
            for c in changes
            if isinstance(c, ReplaceType | ChangeLogicalType) and narrower(without_null(c.old), without_null(c.new))
        ),
    )
    old_rows = {change.path: "null" for change in added if not change.field.has_default}
    return with_rows(make_plan(live, wanted, "NONE", old_rows or "default", inputs), live, up_to=None)


def _opened(plan: Plan, table: Table | str | None, hint: str) -> Table:
    """The plan's table as it is now."""
    uri = plan.table["uri"]
    live = open_table(uri if table is None else table) if table is None or isinstance(table, str) else table
    live.refresh()
    if live.state.id != plan.table["id"]:
        raise PlanError("the plan is for another table", where=uri, hint=hint)
    live.leave_out(plan.inputs.foreign)
    return live


def base_of(plan: Plan) -> Schema:
    """The schema that a plan starts from."""
    return apply_changes([change.reverse() for change in reversed(plan.changes)], plan.target)


def _wanted(plan: Plan, versions: tuple[Version, ...], uri: str) -> Schema:
    now = versions[-1]
    if now.digest == plan.base_digest:
        return plan.target
    base = base_of(plan)
    theirs = _between(base, now.schema, versions[plan.base_version :])
    try:
        return merge(
            base,
            Side.of(plan.target, plan.changes, plan.renames),
            Side.of(now.schema, theirs.changes, theirs.renames),
        )
    except Conflict as conflict:
        raise StalePlan(
            f"the plan is stale: it and {_winner(versions, plan.base_version, conflict.path)} both change "
            f"{conflict.path or 'the root'}",
            where=uri,
            hint="look at lakeevolve history, and plan towards a schema that holds both changes",
        ) from conflict


def _between(base: Schema, now: Schema, later: tuple[Version, ...]) -> Diff:
    declared = [(old, new) for version in later for new, old in version.renames.items()]
    try:
        return diff(base, now, renames=declared)
    except ConfigError:
        # Renames of several versions may lead to or from one name; then aliases and names have to do.
        return diff(base, now)


def _winner(versions: tuple[Version, ...], since: int, path: str) -> str:
    """The version that changed what stands at a path, as far as its number tells; else all versions since."""
    for before, after in zip(versions[since - 1 :], versions[since:], strict=False):
        if any(_same_place(change.path, path) for change in diff(before.schema, after.schema).changes):
            return told_version(after)
    return told_version(versions[-1])


def _same_place(changed: str, path: str) -> bool:
    return paths.within(changed, path) or paths.within(path, changed)
