"""Plain functions for ``@task``: each does one step and returns what fits into an XCom.

What is returned is small JSON: digests, counts and verdicts, the same size for a table of ten columns and of two
thousand. Plans and evidence lie in files; the path or URL is returned.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lakeevolve.airflow.between import folders
from lakeevolve.airflow.failures import as_airflow_says
from lakeevolve.airflow.shared import (
    Progress,
    Stop,
    Summary,
    absolute,
    counted,
    given,
    in_state,
    never,
    opened,
    public,
    refused,
)
from lakeevolve.errors import ConfigError, PlanBlocked, ReplayMismatch

if TYPE_CHECKING:
    from lakeevolve.applying.application import Application
    from lakeevolve.config.approvals import Approval
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replaying.result import ReplayResult
    from lakeevolve.tables.base import Table

log = logging.getLogger("lakeevolve.airflow")


@as_airflow_says
def check_schema(
    candidate: Any = None,
    history: Any = (),
    *,
    table: str | None = None,
    config: str | None = None,
    subjects: Sequence[str] = (),
    mode: str = "BACKWARD",
    contracts: Sequence[Any] = (),
    fail_on: Literal["error", "warning", "info", "never"] = "error",
    renames: Any = (),
    not_renames: Sequence[Any] = (),
    conn_id: str | None = None,
) -> Summary:
    """Judge a schema against the versions before it, or every subject of a project.

    Parameters
    ----------
    candidate:
        Whatever :func:`lakeevolve.load` takes; a path is read where the task runs.
    history:
        The versions before, oldest first: sources, or one that names several.
    table:
        In place of *history*: the table whose versions count.
    config:
        In place of *candidate*: a ``lakeevolve.yaml``, which says all the rest. *subjects* are the names or patterns of
        those that are judged; all without one.
    mode, contracts, renames, not_renames:
        As for :func:`lakeevolve.check`.
    fail_on:
        The lowest severity of a finding that fails the task; ``never`` only reports.
    conn_id:
        The Airflow connection that opens *table*, or the project's tables.

    Returns
    -------
    dict
        ``ok``, ``compatible``, ``mode`` and how many ``findings`` of each severity there are.

    Raises
    ------
    AirflowFailException
        Findings are against the schema (exit 1), or it cannot be read (exit 2).
    """
    from lakeevolve.report.text import report_text

    if config is None and candidate is None:
        raise ConfigError("there is nothing to check", hint="give a candidate, or config for a whole project")
    if config is not None:
        from lakeevolve.airflow import project as project_tasks

        return project_tasks.checked(config, subjects, conn_id)
    from lakeevolve._api import check, load
    from lakeevolve.model.renames import as_aliases, rename_pairs
    from lakeevolve.rules.policy import Policy

    wanted = load(candidate)
    pairs = rename_pairs(renames)
    if table is not None:
        if history:
            raise ConfigError("a table has its own history", where=table, hint="leave out history, or table")
        live = opened(table, conn_id)
        history = [version.schema for version in live.history(hint=as_aliases(wanted, pairs))]
    policy = Policy(fail_on=fail_on)
    report = check(wanted, history, mode, contracts, policy, renames=pairs, not_renames=not_renames)
    log.info("%s", report_text(report))
    if report.failures:
        raise refused(f"the schema is refused in {report.mode}", report.failures, wanted.source)
    return {
        "ok": True,
        "compatible": report.compatible,
        "mode": report.mode,
        "findings": counted(report.findings),
    }


@as_airflow_says
def plan_table(
    table: str,
    target: Any = None,
    *,
    config: str | None = None,
    subject: str = "",
    mode: str = "BACKWARD",
    old_rows: str | Mapping[str, str] = "default",
    routes: Mapping[str, str] | None = None,
    renames: Any = (),
    not_renames: Sequence[Any] = (),
    limits: Mapping[str, int] | None = None,
    contracts: Sequence[Any] = (),
    pin: Literal["schema", "data"] = "schema",
    plans: str | None = None,
    state: str | None = None,
    conn_id: str | None = None,
) -> Summary:
    """Plan how a table gets to a schema, and save the plan. The table is not touched.

    Parameters
    ----------
    table:
        ``iceberg:NAME/ns.table`` or ``delta:PATH``. With an Iceberg connection, NAME is a name for people.
    target:
        The schema that the table is to have: whatever :func:`lakeevolve.load` takes.
    config:
        In place of *target*: a ``lakeevolve.yaml`` that lists the table. It says the target and all the rest;
        *subject* chooses where several list the table.
    subject, mode, old_rows, routes, renames, not_renames, limits, contracts, pin:
        As for :func:`lakeevolve.plan`.
    plans:
        Where the plan is saved: a folder or an object store's URL that the worker which applies it reaches, too. By
        default in the state.
    state:
        Where the state lies; by default as for every command.
    conn_id:
        The Airflow connection that opens the table.

    Returns
    -------
    dict
        ``plan`` (the digest), ``plan_path``, ``table``, ``empty`` and what the plan comes to: for ``apply_plan``.

    Raises
    ------
    AirflowFailException
        The plan is refused or findings are against it (exit 1); it is saved all the same.
    """
    from lakeevolve.airflow import plans as saved
    from lakeevolve.report.text import blocked_by, plan_text

    if (target is None) == (config is None):
        raise ConfigError("a table is planned for one schema", where=table, hint="give target or config, one of them")
    with in_state(config, state) as project:
        if config is not None:
            from lakeevolve.airflow import project as project_tasks

            made = project_tasks.planned(given(project), table, subject, conn_id)
        else:
            from lakeevolve._api import plan

            made = plan(
                opened(table, conn_id),
                target,
                mode,
                old_rows,
                contracts,
                routes=routes,
                renames=renames,
                not_renames=not_renames,
                limits=limits,
                pin=pin,
                subject=subject,
            )
        where = saved.keep(made, plans)
    log.info("%s\nsaved to %s", plan_text(made), where)
    if made.refused or made.failures:
        raise PlanBlocked(
            f"the plan will not be applied: {blocked_by(made)}",
            where=made.table["uri"],
            hint=f"the task's log says why, and so does lakeevolve show {where}",
        )
    return {
        "plan": made.digest,
        "plan_path": where,
        "table": made.table["uri"],
        "from": made.base_version,
        "to": made.target_version,
        "empty": made.empty,
        "changes": len(made.changes),
        "applicable": made.applicable,
        "permits": sorted(made.permits),
        "findings": counted(made.findings),
        "written": made.total.to_json(),
    }


@as_airflow_says
def apply_plan(
    plan: Mapping[str, Any] | str,
    *,
    allow: Collection[str] = (),
    approvals: str | Sequence[str] | None = None,
    resume: bool = True,
    config: str | None = None,
    state: str | None = None,
    conn_id: str | None = None,
    engine: Any = None,
    stop: Stop = never,
) -> Summary:
    """Run a plan that another task made: proof, one commit, replay.

    A retry goes on where the attempt before it stopped. What has landed is not done again; what was missing after the
    commit (replay, evidence, entry of the ledger) is made up for.

    Parameters
    ----------
    plan:
        What ``plan_table`` returned, or the plan's path or URL.
    allow:
        The permits: ``rewrite``, ``backfill``, ``drop``, ``protocol-upgrade``.
    approvals:
        A folder of approvals, or several: the plan is applied only if one covers it.
    resume:
        Whether to continue what an earlier attempt did in part.
    config, state:
        Where the state lies: as the ``lakeevolve.yaml`` says, or here; by default as for every command.
    conn_id:
        The Airflow connection that opens the table.
    engine:
        Who writes, proves and replays file by file, as for :func:`lakeevolve.apply`; a name holds no credentials.
    stop:
        Asked between files: whether to stop. The operator says so when it is killed.

    Returns
    -------
    dict
        ``status``, ``version``, how many files and rows were compared, and where the ``evidence`` lies.

    Raises
    ------
    AirflowFailException
        The plan is stale (exit 4), blocked, without a permit or an approval (exit 1), or values differ (exit 5).
    AirflowException
        The store did not answer (exit 2), another writer was first (exit 4), or the task was stopped (exit 6, 130).
    """
    from lakeevolve.airflow import plans as saved
    from lakeevolve.applying.apply import apply
    from lakeevolve.report.text import application_text

    with in_state(config, state):
        wanted, where = saved.fetch(plan)
        word = None
        if approvals is not None and not wanted.empty:
            from lakeevolve.config.approvals import load_approvals, require

            word = require(wanted.digest, load_approvals(*folders(approvals)), where=wanted.table["uri"])
        live = opened(wanted.table["uri"], conn_id)
        told = Progress(stop)
        done = apply(wanted, allow, table=live, engine=public(engine), resume=resume, progress=told, approval=word)
        log.info("%s", application_text(done, wanted))
        replayed = _of_application(done)
        if done.status == "already-applied":
            replayed = _made_up(wanted, live, word, engine, told)
    if not replayed["ok"]:
        raise ReplayMismatch(
            f"the plan is applied, and {replayed['mismatched']} values are not what the resolutions say",
            where=wanted.table["uri"],
            hint=f"the evidence names them: {replayed['evidence']}; lakeevolve rollback undoes the plan",
        )
    return {
        "plan": wanted.digest,
        "plan_path": where,
        "table": wanted.table["uri"],
        "status": done.status,
        "version": done.version,
        "rewritten": done.rewritten,
        "undo": None if done.undo is None else done.undo.to_json(),
        **replayed,
    }


def _of_application(done: Application) -> Summary:
    return {**_compared(done.replay), "evidence": None if done.evidence is None else absolute(done.evidence)}


def _compared(replay: ReplayResult | None) -> Summary:
    """How much was compared; nothing where there was no replay."""
    if replay is None:
        return {"ok": True, "files": 0, "rows": 0, "mismatched": 0}
    return {"ok": replay.ok, "files": replay.files, "rows": replay.rows, "mismatched": replay.mismatched}


def _made_up(plan: Plan, table: Table, approval: Approval | None, engine: Any, told: Progress) -> Summary:
    """What the attempt that landed the plan knew of its replay; made up for where it was killed before."""
    from lakeevolve.applying import ledger
    from lakeevolve.config.state import state_of
    from lakeevolve.errors import SourceError
    from lakeevolve.replaying.evidence import loads
    from lakeevolve.replaying.verify import verify
    from lakeevolve.rules.table import unreadable

    state = state_of(table.state.id)
    for _, where, content in state.read("evidence", f"*-{plan.digest}"):
        try:
            found = loads(content, where)
        except SourceError:
            continue
        return {
            "ok": not found.mismatches,
            "files": len(found.files),
            "rows": sum(file.rows for file in found.files),
            "mismatched": len(found.mismatches),
            "evidence": absolute(where),
        }
    table.refresh()
    if unreadable(table.findings()):
        ledger.record(state, plan, table, approval=approval)
        return {**_compared(None), "evidence": None}
    replay = verify(table, engine=engine, since=plan.base_version, progress=lambda done, of: told("verify", done, of))
    version = next(each.number for each in table.history() if each.plan == plan.digest)
    where = absolute(state.write("evidence", f"{version}-{plan.digest}", replay.evidence.to_json()))
    ledger.record(state, plan, table, replay=replay, approval=approval)
    log.info("the attempt before had ended before its replay, which was made up for: %s", replay)
    return {**_compared(replay), "evidence": where}


@as_airflow_says
def verify_table(
    table: str,
    *,
    against: Any = None,
    full: bool = False,
    columns: Literal["changed", "all"] = "changed",
    sample: int | None = None,
    readers: Sequence[str] = (),
    contracts: Sequence[Any] = (),
    mode: str | None = None,
    config: str | None = None,
    subject: str = "",
    evidence: str | None = None,
    state: str | None = None,
    conn_id: str | None = None,
    engine: Any = None,
    stop: Stop = never,
) -> Summary:
    """Compare every value that a table reads with what the resolutions say.

    Parameters
    ----------
    table:
        ``iceberg:NAME/ns.table`` or ``delta:PATH``.
    against, full, columns, sample, readers, contracts, mode:
        As for :func:`lakeevolve.verify`.
    config:
        A ``lakeevolve.yaml`` that lists the table; it says the contracts. *subject* chooses where several list it.
    evidence:
        The file in which the sealed evidence is saved; by default it lies in the state.
    state, conn_id, engine, stop:
        As for :func:`apply_plan`.

    Returns
    -------
    dict
        ``ok``, how many files and rows were compared, and where the ``evidence`` lies.

    Raises
    ------
    AirflowFailException
        Values differ (exit 5); the evidence is saved all the same.
    """
    from lakeevolve.report.text import replay_text

    with in_state(config, state) as project:
        told = Progress(stop)
        live = opened(table, conn_id)
        if config is not None:
            if against is not None or contracts or mode is not None:
                raise ConfigError("the project says it", where=table, hint="leave out against, contracts and mode")
            from lakeevolve.airflow import project as project_tasks

            result = project_tasks.verified(
                given(project), table, subject, live, told, full, columns, sample, readers, public(engine)
            )
        else:
            from lakeevolve.applying.proofs import proofs_of
            from lakeevolve.replaying.verify import verify

            result = verify(
                live,
                against,
                full=full,
                columns=columns,
                sample=sample,
                readers=tuple(readers),
                contracts=tuple(contracts),
                engine=public(engine),
                mode=mode,
                progress=lambda done, of: told("verify", done, of),
                evidence=proofs_of(live) if full else (),
            )
        where = _keep_evidence(result, live, evidence)
    log.info("%s\nevidence: %s", replay_text(result, live.uri), where)
    if not result.ok:
        raise ReplayMismatch(
            f"{result.mismatched} values are not what the resolutions say; the first: {result.mismatches[0]}",
            where=live.uri,
            hint=f"the evidence names them: {where}",
        )
    return {
        "table": live.uri,
        **_compared(result),
        "reader_faults": len(result.reader_faults),
        "findings": counted(result.findings),
        "evidence": where,
    }


def _keep_evidence(result: ReplayResult, table: Table, file: str | None) -> str:
    from lakeevolve.config.state import state_of

    if file is not None:
        return absolute(result.evidence.save(file))
    name = f"{table.history()[-1].number}-verify-{result.evidence.seal[:16]}"
    return absolute(state_of(table.state.id).write("evidence", name, result.evidence.to_json()))
