"""Making a plan: changes, capability and findings become ordered steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, Literal

from lakeevolve import sources
from lakeevolve.avro.nodes import Incompatibility
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import PlanError
from lakeevolve.model import path as paths
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropSymbol,
    PromoteType,
    RenameField,
    RenameType,
    ReplaceType,
    SetDefault,
)
from lakeevolve.model.declared import check_paths, check_renames
from lakeevolve.model.diff import Diff, diff
from lakeevolve.model.mapping import columns_of
from lakeevolve.model.renames import as_aliases, rename_pairs
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record
from lakeevolve.planning.adopt import adopting
from lakeevolve.planning.mapped import by_column, in_columns, refuse_owned
from lakeevolve.planning.plan import Estimate, Inputs, Plan, Step, fills_of, renames_of
from lakeevolve.rules import table as table_rules
from lakeevolve.rules.contract import Contract, load_contracts
from lakeevolve.rules.field import left_null
from lakeevolve.rules.findings import Finding, by_weight
from lakeevolve.rules.modes import check
from lakeevolve.rules.policy import LIMITS, Policy, over_limit, weigh
from lakeevolve.rules.route import of_change
from lakeevolve.rules.table import ROWS_REFUSE, fit_for_table, left_optional, names_that_move, reverting
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Capability, DataFile, Fill, Route, Table, pinned
from lakeevolve.tables.description import Description, described_table
from lakeevolve.tables.drift import drift

_OLD_ROWS: Final = ("default", "null")

#: Up to how many stored bytes a plan reads the rows that its steps depend on; apply reads them in any case.
LOOKED_AT: Final = 64 * 1024 * 1024

#: Incompatibility kind -> what its owner can do, where that is not a matter of types.
_WAYS_OUT: Final[Mapping[str, str]] = {
    "NAME_MISMATCH": "add the old name to the aliases of the type",
    "ALIAS_COLLISION": "leave each old field to one alias",
    "INVALID_DEFAULT": "mend the default",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "give a default, or set old_rows to null",
}


_TYPES: Final = (PromoteType, ChangeLogicalType, ReplaceType, DropBranch, AddBranch, DropSymbol)
#: Incompatibility kind -> the changes that make it, where those are not changes of types.
_MAKERS: Final[Mapping[str, tuple[type, ...]]] = {
    "NAME_MISMATCH": (RenameType,),
    "INVALID_DEFAULT": (AddField, SetDefault),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (AddField, SetDefault),
}


def plan(
    table: Table | Description | str,
    target: Any,
    mode: str = "BACKWARD",
    old_rows: str | Mapping[str, str] = "default",
    contracts: Sequence[Any] = (),
    policy: Policy | None = None,
    routes: Mapping[str, str] | None = None,
    *,
    renames: Any = (),
    not_renames: Sequence[Any] = (),
    limits: Mapping[str, int] | None = None,
    pin: Literal["schema", "data"] = "schema",
    subject: str = "",
    mapping: Mapping[str, str] | None = None,
    foreign: Sequence[str] = (),
) -> Plan:
    """Plan how one table gets from its present schema to *target*. Nothing is changed.

    Parameters
    ----------
    table:
        An open table, or its URI (``iceberg:CATALOG/ns.table``, ``delta:PATH``); or a description of it, where nobody
        may reach the table: what its rows have to say is then left open until apply.
    target:
        Whatever :func:`lakeevolve.load` takes.
    mode:
        The compatibility mode that the change has to keep (NONE, BACKWARD, ..., FULL_TRANSITIVE).
    old_rows:
        What rows older than an added field read in it: ``default`` (its default, by a backfill where it is not null)
        or ``null`` (the table's column becomes optional); per path with a mapping, whose ``*`` stands for the rest.
    contracts:
        What consumers declared that they read: files, or what :func:`lakeevolve.rules.contract.load_contract` gave.
    policy:
        Severities and waivers, see :class:`lakeevolve.Policy`.
    routes:
        Per path, a route to insist on: a change that would take another one is refused.
    renames:
        The owner's approved renames, old path to new path, for producers who add no alias.
    not_renames:
        Suspected renames that are none, as (old path, new path).
    limits:
        How much may be written anew: ``max_rewrite_bytes`` and ``max_files``. Apply holds the files of its day to
        them as well.
    pin:
        What makes the plan stale: a change of the ``schema``, or of the ``data`` as well.
    subject:
        What the findings about the schema are of, a part of their fingerprints; the table's URI if it is empty.
    mapping:
        Where the table's columns have other names than the schema's fields: path in the schema to path in the table,
        ``$`` for the table's rows. Everything else that is told by paths is told by the schema's; the plan speaks of
        the table's.
    foreign:
        Top-level columns, by name or pattern (``kafka_*``), that no schema owns: left as they are, kept by every
        rewrite. Those whose names begin with ``_`` are foreign anyway.

    Returns
    -------
    Plan
        Its ``steps`` tell the route of each change; ``applicable`` says whether apply would run it.

    Raises
    ------
    SourceError
        The target cannot be read, or is no record.
    TableError
        The table cannot be read.

    Examples
    --------
    >>> plan("delta:lake/orders", "orders.avsc").save("plan.json")  # doctest: +SKIP
    """
    _check_old_rows(old_rows)
    live = _live(table)
    live.refresh()
    wanted = sources.load(target)
    if not isinstance(wanted.root, Record):
        raise PlanError("the target's root is not a record, so it is no table", where=wanted.source)
    if pin not in ("schema", "data"):
        raise PlanError(f"a plan pins the schema or the data, not {pin!r}", hint="choose one of the two")
    inputs = Inputs(
        renames=rename_pairs(renames),
        not_renames=rename_pairs(not_renames, denied=True),
        routes=dict(routes or {}),
        limits=_limits(limits),
        subject=subject,
        pin=pin,
        contracts=load_contracts(contracts),
        policy=policy or Policy(),
        foreign=tuple(dict.fromkeys(foreign)),
    )
    if mapping:
        columns = columns_of(mapping, wanted, [old for old, _ in inputs.renames])
        wanted, inputs = columns.schema(wanted), in_columns(inputs, columns)
        old_rows = old_rows if isinstance(old_rows, str) else by_column(old_rows, columns)
    return with_rows(make(live, wanted, mode, old_rows, inputs), live)


def _live(table: Any) -> Table:
    if isinstance(table, Description):
        return described_table(table)
    return table if hasattr(table, "capability") else open_table(table)


def make(
    live: Table,
    wanted: Schema,
    mode: str,
    old_rows: str | Mapping[str, str],
    inputs: Inputs,
    *,
    uri: str | None = None,
) -> Plan:
    """The plan, from metadata and file lists alone. *uri* is what it calls the table; by default the table's own."""
    called = live.uri if uri is None else uri
    hint = as_aliases(wanted, inputs.renames)
    live.leave_out(inputs.foreign)
    refuse_owned(live, hint, inputs.foreign)
    versions = live.history(hint=hint)
    base, unrecorded = versions[-1].schema, not versions[-1].recorded
    _check_paths(inputs, old_rows, wanted, [version.schema for version in versions])
    delta = diff(base, wanted, renames=inputs.renames)
    fills = fills_of(delta.changes, old_rows, inputs.narrow)
    report = check(
        wanted,
        [version.schema for version in versions],
        mode,
        contracts=_applying(inputs),
        subject=inputs.subject or called,
        renames=inputs.renames,
        not_renames=inputs.not_renames,
    )
    routed = _route(live, delta, fills, inputs.routes)
    files = live.files(hint=hint)
    steps = _steps(live, routed, files)
    if unrecorded:
        adopted = adopting(live.derived(), base, bool(steps))
        steps = (*(_unconfirmed(adopted) if table_rules.unreadable(live.findings()) else adopted), *steps)
    steps = _unresolved(base, wanted, steps, renames_of(delta.changes), fills)
    found = [*report.findings, *_fit(wanted, live.format, called), *_routes(steps, called)]
    if unrecorded:
        found += left_optional(live.derived(), base, called)
        found += names_that_move(_by_alias(delta.changes), wanted, called)
    found = [each for each in found if not table_rules.clashed_before(each, base, wanted, delta.renames)]
    found += [
        *drift(versions, called),
        *(replace(each, subject=called) for each in live.findings()),
        *left_null(delta.changes, fills, called),
    ]
    if inputs.reverts is not None:
        found += reverting(delta.changes, fills, called)
    state, total = live.state, _total(live, routed, files)
    found += over_limit(inputs.limits, total.files, total.bytes, called)
    return Plan(
        table={"uri": called, "format": live.format, "id": state.id},
        pin=pinned(state, data=inputs.pin == "data"),
        base_version=versions[-1].number,
        base_digest=base.digest,
        target=wanted,
        target_version=versions[-1].number + (1 if delta.changes else 0),
        mode=report.mode,
        old_rows=old_rows if isinstance(old_rows, str) else dict(old_rows),
        steps=steps,
        findings=_weighed(found, inputs.policy),
        rollout=report.rollout,
        inputs=inputs,
        total=total,
        read=_estimate(files) if steps else Estimate(),
        position=state.position,
        described=getattr(live, "described", False),
        versions=tuple(version.schema for version in versions),
        writers=live.writes(),
    )


def _applying(inputs: Inputs) -> list[Contract]:
    # Without a subject, whoever names a contract means it to apply.
    return [each if inputs.subject else replace(each, subject="") for each in inputs.contracts]


def _weighed(found: Iterable[Finding], policy: Policy) -> tuple[Finding, ...]:
    # Where a schema file lies is no part of what is approved, and differs from machine to machine.
    return tuple(replace(finding, file=None, line=None) for finding in weigh(found, policy))


def _by_alias(changes: Sequence[Change]) -> dict[str, str]:
    declared = {change.new_path for change in changes if isinstance(change, RenameField) and change.via == "alias"}
    return {new: old for new, old in renames_of(changes).items() if new in declared}


def with_rows(made: Plan, live: Table, *, up_to: int | None = LOOKED_AT) -> Plan:
    """The plan with what its rows have to say already, where they are few enough to be looked at now.

    ``up_to`` is the number of stored bytes up to which they are; None for no end.
    """
    checks = made.checks
    if made.described:
        return made
    files = live.files(hint=made.hint)
    if not checks or made.refused or (up_to is not None and sum(file.bytes for file in files) > up_to):
        return made
    look = import_module("lakeevolve.replaying.preconditions").check_preconditions
    broken = look(live, checks, files, target=made.target, hint=made.hint, renames=made.renames, fills=made.fills)
    if not broken:
        return made
    found = [
        ROWS_REFUSE.finding(
            one.path, one.precondition, None, f"{one.told}; the first: {one.where}", fix=one.way_out, subject=live.uri
        )
        for one in broken
    ]
    weighed = weigh(found, made.inputs.policy, unused=False)
    return replace(made, findings=tuple(sorted((*made.findings, *weighed), key=by_weight)))


def _check_paths(inputs: Inputs, old_rows: str | Mapping[str, str], wanted: Schema, earlier: Sequence[Schema]) -> None:
    """A path that exists nowhere is misspelt, and must not pass in silence."""
    check_renames(inputs.renames, wanted, earlier)
    check_renames(inputs.not_renames, wanted, earlier, what="what is declared to be no rename", denied=True)
    if not isinstance(old_rows, str):
        check_paths((path for path in old_rows if path != "*"), wanted, earlier, what="old_rows")


def _check_old_rows(old_rows: str | Mapping[str, str]) -> None:
    for wanted in [old_rows] if isinstance(old_rows, str) else old_rows.values():
        if wanted not in _OLD_ROWS:
            raise PlanError(f"old_rows is 'default' or 'null', not {wanted!r}", hint="choose one of the two")


def _limits(given: Mapping[str, int] | None) -> dict[str, int]:
    for name, limit in (given or {}).items():
        if name not in LIMITS or isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise PlanError(f"{name}={limit!r} is no limit", hint=f"use {' and '.join(LIMITS)} with a whole number")
    return dict(given or {})


def _route(
    table: Table, delta: Diff, fills: Mapping[str, Fill], insisted: Mapping[str, str]
) -> list[tuple[Change, Capability]]:
    base, target, renames = delta.old, delta.new, delta.renames
    routed = [(change, table.capability(change, base, target, fills, renames)) for change in delta.changes]
    taken = {field.name for field in base.fields}
    for at, (change, _) in enumerate(routed):
        path = change.new_path if hasattr(change, "new_path") else change.path
        if path in table.foreign and path not in taken:
            routed[at] = (
                change,
                Capability(
                    "refuse",
                    "none",
                    f"the table already has a column {path} that no schema owns; "
                    "give the field another name, or have the column renamed by its owner",
                ),
            )
    combined = list(table.combine(routed))
    return [(change, _insist(change, can, insisted)) for change, can in combined]


def _insist(change: Change, can: Capability, insisted: Mapping[str, str]) -> Capability:
    wanted = insisted.get(change.path)
    if wanted is None or can.route in (wanted, "refuse"):
        return can
    if wanted in can.instead:
        return can.instead[wanted]
    return Capability(
        "refuse",
        "none",
        f"the route {wanted} was asked for, and this change takes {can.route} ({can.reason})",
    )


def _steps(table: Table, routed: Sequence[tuple[Change, Capability]], files: Sequence[DataFile]) -> tuple[Step, ...]:
    steps = []
    for number, (change, can) in enumerate(routed, start=1):
        touched = _touched(table, [(change, can)], files)
        steps.append(
            Step(
                id=f"s{number}",
                route=can.route,
                via=can.via,
                changes=(change,),
                reason=can.reason,
                permit=can.permit,
                irreversible=can.irreversible,
                readers=can.readers,
                precondition=can.precondition,
                estimate=_estimate(touched),
            )
        )
    return tuple(steps)


def _unconfirmed(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps that record a schema, of which those refuse that rows would have to confirm: none can be read."""
    return tuple(
        step
        if step.precondition is None
        else replace(
            step,
            route="refuse",
            via="none",
            reason=f"{step.reason}; its rows, which would have to confirm it, cannot be read: let the schema say what "
            "the table says",
            precondition=None,
        )
        for step in steps
    )


def _fit(wanted: Schema, format_: Literal["iceberg", "delta", "parquet"], uri: str) -> tuple[Finding, ...]:
    return fit_for_table(wanted, None if format_ == "parquet" else format_, subject=uri)


def _routes(steps: Sequence[Step], uri: str) -> Iterator[Finding]:
    """What the routes give to say beside the steps: what is refused, needs Spark, or depends on the rows."""
    for step in steps:
        for change in step.changes:
            yield from of_change(
                change, route=step.route, reason=step.reason, precondition=step.precondition, subject=uri
            )


def _total(table: Table, routed: Sequence[tuple[Change, Capability]], files: Sequence[DataFile]) -> Estimate:
    return _estimate(_touched(table, routed, files))


def _touched(
    table: Table, routed: Sequence[tuple[Change, Capability]], files: Sequence[DataFile]
) -> Sequence[DataFile]:
    """The files that changes write anew: an update of all rows does, whatever its route is called."""
    routes: list[tuple[Change, Route]] = [
        (change, "backfill" if can.permit == "backfill" else can.route) for change, can in routed
    ]
    writing = [pair for pair in routes if pair[1] in ("rewrite", "backfill")]
    return table.must_rewrite(writing, files) if writing else ()


def _estimate(files: Sequence[DataFile]) -> Estimate:
    return Estimate(len(files), sum(file.rows for file in files), sum(file.bytes for file in files))


def _unresolved(
    base: Schema, target: Schema, steps: Sequence[Step], renames: Mapping[str, str], fills: Mapping[str, Fill]
) -> tuple[Step, ...]:
    """The steps, of which those refuse that Avro cannot resolve, in every mode; one more for what no step makes.

    Value-level incompatibilities are not among them: their steps check the data.
    """
    refused = [change.path for step in steps if step.route == "refuse" for change in step.changes]
    made, more = list(steps), 0
    for found in resolve(base, target, renames=renames, fills=fills).incompatibilities:
        if found.value_level or any(_same_place(found.path, path) for path in refused):
            continue
        at = next((at for at, step in enumerate(made) if any(_makes(change, found) for change in step.changes)), None)
        if at is None:
            more += 1
            made.append(_refusal(f"r{more}", found))
        else:
            made[at] = replace(_refusal(made[at].id, found), changes=made[at].changes)
        refused.append(found.path)
    return tuple(made)


def _makes(change: Change, found: Incompatibility) -> bool:
    """Whether a change is what makes an incompatibility."""
    path = getattr(change, "after", None) or change.path
    return path == found.path and isinstance(change, _MAKERS.get(found.kind, _TYPES))


def _same_place(found: str, refused: str) -> bool:
    return paths.within(found, refused) or paths.within(refused, found)


def _refusal(id_: str, found: Incompatibility) -> Step:
    way_out = _WAYS_OUT.get(found.kind, "keep the wider type, add a field of another name, or start a new table")
    return Step(
        id=id_,
        route="refuse",
        via="none",
        changes=(),
        reason=f"{found.path or 'the root'}: Avro cannot resolve this ({found.kind}: {found.message}); {way_out}",
    )
