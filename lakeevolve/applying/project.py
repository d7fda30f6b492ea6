"""A whole project: every table verified, or planned and brought to its subject's newest schema, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from lakeevolve.applying.application import Application
from lakeevolve.applying.apply import apply
from lakeevolve.applying.proofs import proofs_of
from lakeevolve.config.approvals import Approval, require
from lakeevolve.config.project import Project, Subject
from lakeevolve.engines import open_engine
from lakeevolve.errors import Interrupted, LakeEvolveError
from lakeevolve.model.mapping import declared
from lakeevolve.planning.mapped import contract_of
from lakeevolve.planning.plan import Plan
from lakeevolve.planning.project import OpenTable, Part, Parts, attempt, contracts_of, each_table
from lakeevolve.replaying.result import ReplayResult
from lakeevolve.replaying.verify import verify
from lakeevolve.tables import open_table

#: Told of a part's name when its turn comes, and gives what is told of the progress inside it.
Watch = Callable[[str], Callable[[Any, int, int], None]]


def _unwatched(_name: str) -> Callable[[Any, int, int], None]:
    return lambda _phase, _done, _of: None


def verify_project(
    project: Project,
    chosen: Sequence[str] = (),
    *,
    full: bool = False,
    columns: Any = "changed",
    sample: int | None = None,
    readers: Sequence[str] = (),
    engine: Any = None,
    open_: OpenTable = open_table,
    watch: Watch = _unwatched,
) -> Parts:
    """Replay every table of the chosen subjects.

    Parameters
    ----------
    chosen:
        Names or patterns of subjects; all without one.
    full, columns, sample, readers, engine:
        As for :func:`lakeevolve.replaying.verify.verify`.
    open_:
        How tables are opened.
    watch:
        Told of each table's URI; gives what is called with the phase, the files done and the files in all.

    Returns
    -------
    Parts
        A :class:`~lakeevolve.replaying.result.ReplayResult` for each table.
    """

    def replay(subject: Subject, uri: str) -> ReplayResult:
        live = open_(uri)
        options = project.options(uri)
        live.leave_out(options.foreign)
        told = watch(uri)
        return verify(
            live,
            full=full,
            columns=columns,
            sample=sample,
            readers=tuple(readers),
            engine=opened,
            contracts=[contract_of(each, declared(options.mapping)) for each in contracts_of(project, subject)],
            progress=lambda done, of: told("verify", done, of),
            evidence=proofs_of(live) if full else (),
        )

    with open_engine(engine) as opened:
        return Parts(project, "verify", each_table(project, chosen, replay))


def apply_project(
    planned: Parts,
    allow: Collection[str] = (),
    *,
    approvals: Sequence[Approval] | None = None,
    dry_run: bool = False,
    resume: bool = False,
    require_idle: timedelta | None = None,
    engine: Any = None,
    open_: OpenTable = open_table,
    watch: Watch = _unwatched,
) -> Parts:
    """Apply the plans of a project, table by table. What fails with one table leaves the others to their turn.

    Parameters
    ----------
    planned:
        What :func:`lakeevolve.planning.project.plan_project` gave. Parts without a plan stay as they are.
    allow, dry_run, resume, require_idle, engine:
        As for :func:`lakeevolve.applying.apply.apply`.
    approvals:
        Those that are there: a plan that none covers is not applied. None: no approval is asked for.
    open_, watch:
        As for :func:`verify_project`.

    Returns
    -------
    Parts
        An :class:`~lakeevolve.applying.apply.Application` for each table.
    """

    def run(plan: Plan) -> Application:
        uri = plan.table["uri"]
        approval = None if approvals is None or plan.empty else require(plan.digest, approvals, where=uri)
        return apply(
            plan,
            allow,
            table=open_(uri),
            engine=opened,
            dry_run=dry_run,
            resume=resume,
            progress=watch(uri),
            approval=approval,
            require_idle=require_idle,
        )

    stopped = False

    def part(each: Part) -> Part:
        nonlocal stopped
        if each.error is not None or each.value is None:
            return each
        if stopped:
            return replace(each, value=None, error=_stopped("not begun: the run was interrupted before"))
        try:
            done = attempt(each.subject, each.table, partial(run, each.value), each.target)
        except KeyboardInterrupt as stop:
            # What the other tables came to is told all the same.
            stopped = True
            done = replace(each, value=None, error=_stopped(str(stop) or "interrupted", getattr(stop, "hint", None)))
        return replace(done, plan=each.value)

    with open_engine(engine) as opened:
        return Parts(planned.project, "apply", tuple(part(each) for each in planned.parts), planned.findings)


def _stopped(what: str, hint: str | None = None) -> LakeEvolveError:
    error = LakeEvolveError(what, hint=hint or "run the same command again")
    error.exit_code = Interrupted.exit_code
    return error
