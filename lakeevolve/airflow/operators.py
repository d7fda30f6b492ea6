"""Operators: each calls the function of its step when it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, get_args

from airflow.providers.common.compat.sdk import BaseOperator

from lakeevolve.airflow import tasks
from lakeevolve.redaction import redact
from lakeevolve.tables.base import Permit

__all__ = [
    "LakeEvolveApplyOperator",
    "LakeEvolveCheckOperator",
    "LakeEvolvePlanOperator",
    "LakeEvolveVerifyOperator",
]

#: How the names of engines begin whose workers are elsewhere.
ELSEWHERE: Final = ("dask://", "spark:", "sc://")
PERMITS: Final[tuple[str, ...]] = get_args(Permit)


class _Operator(BaseOperator):
    """What the operators share. Each keeps its parameters under their own names."""

    ui_color = "#e8f0ea"
    _killed = False

    def on_kill(self) -> None:
        """Let the task stop at the next file. Airflow ends the process if that takes too long."""
        self._killed = True

    def _stopped(self) -> bool:
        return self._killed


def _without_credentials(uri: Any) -> Any:
    """Said while the DAG is parsed, since a field of a task is shown before the task runs."""
    if isinstance(uri, str) and "{{" not in uri and redact(uri, library=True) != uri:
        shown = redact(uri, library=True)
        raise ValueError(f"{shown}: put the credentials into a connection or the environment of the workers")
    return uri


def _elsewhere(engine: Any) -> None:
    """A triggerer waits for others; it has no time to read a table itself."""
    if not (isinstance(engine, str) and engine.startswith(ELSEWHERE)):
        raise ValueError(f"a verification is deferred to an engine elsewhere, which begins with {', '.join(ELSEWHERE)}")


def _permits(allow: Any) -> Any:
    """A permit that does not exist is said while the DAG is parsed, and not when it is missed."""
    if isinstance(allow, str) and "{{" not in allow:
        raise ValueError(f"allow is a list of permits: [{allow!r}]")
    if isinstance(allow, list | tuple | set | frozenset):
        for permit in allow:
            if isinstance(permit, str) and "{{" not in permit and permit not in PERMITS:
                raise ValueError(f"{permit!r} is none of {', '.join(PERMITS)}")
    return allow


class LakeEvolveCheckOperator(_Operator):
    """Judge a schema against the versions before it; see :func:`lakeevolve.airflow.check_schema`.

    >>> LakeEvolveCheckOperator(
    ...     task_id="check", candidate="schemas/orders.avsc", table="delta:lake/orders"
    ... )  # doctest: +SKIP
    """

    template_fields: ClassVar[Sequence[str]] = (
        "candidate",
        "history",
        "table",
        "config",
        "subjects",
        "mode",
        "contracts",
        "fail_on",
        "conn_id",
    )

    def __init__(
        self,
        *,
        candidate: Any = None,
        history: Any = (),
        table: str | None = None,
        config: str | None = None,
        subjects: Sequence[str] = (),
        mode: str = "BACKWARD",
        contracts: Sequence[str] = (),
        fail_on: str = "error",
        renames: Any = (),
        not_renames: Sequence[Any] = (),
        conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.candidate = candidate
        self.history = history
        self.table = _without_credentials(table)
        self.config = config
        self.subjects = subjects
        self.mode = mode
        self.contracts = contracts
        self.fail_on = fail_on
        self.renames = renames
        self.not_renames = not_renames
        self.conn_id = conn_id

    def execute(self, context: Any) -> dict[str, Any]:
        return tasks.check_schema(
            self.candidate,
            self.history,
            table=self.table,
            config=self.config,
            subjects=self.subjects,
            mode=self.mode,
            contracts=self.contracts,
            fail_on=self.fail_on,  # type: ignore[arg-type]
            renames=self.renames,
            not_renames=self.not_renames,
            conn_id=self.conn_id,
        )


class LakeEvolvePlanOperator(_Operator):
    """Plan how a table gets to a schema, and save the plan; see :func:`lakeevolve.airflow.plan_table`.

    >>> LakeEvolvePlanOperator(
    ...     task_id="plan", table="delta:lake/orders", target="schemas/orders.avsc"
    ... )  # doctest: +SKIP
    """

    template_fields: ClassVar[Sequence[str]] = (
        "table",
        "target",
        "config",
        "subject",
        "mode",
        "old_rows",
        "contracts",
        "plans",
        "state",
        "conn_id",
    )

    def __init__(
        self,
        *,
        table: str,
        target: Any = None,
        config: str | None = None,
        subject: str = "",
        mode: str = "BACKWARD",
        old_rows: str | Mapping[str, str] = "default",
        routes: Mapping[str, str] | None = None,
        renames: Any = (),
        not_renames: Sequence[Any] = (),
        limits: Mapping[str, int] | None = None,
        contracts: Sequence[str] = (),
        pin: str = "schema",
        plans: str | None = None,
        state: str | None = None,
        conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = _without_credentials(table)
        self.target = target
        self.config = config
        self.subject = subject
        self.mode = mode
        self.old_rows = old_rows
        self.routes = routes
        self.renames = renames
        self.not_renames = not_renames
        self.limits = limits
        self.contracts = contracts
        self.pin = pin
        self.plans = plans
        self.state = state
        self.conn_id = conn_id

    def execute(self, context: Any) -> dict[str, Any]:
        return tasks.plan_table(
            self.table,
            self.target,
            config=self.config,
            subject=self.subject,
            mode=self.mode,
            old_rows=self.old_rows,
            routes=self.routes,
            renames=self.renames,
            not_renames=self.not_renames,
            limits=self.limits,
            contracts=self.contracts,
            pin=self.pin,  # type: ignore[arg-type]
            plans=self.plans,
            state=self.state,
            conn_id=self.conn_id,
        )


class LakeEvolveApplyOperator(_Operator):
    """Run a plan that another task made; see :func:`lakeevolve.airflow.apply_plan`.

    When the task is killed, it stops between two files, before the commit or after it; a retry goes on from there.

    >>> LakeEvolveApplyOperator(task_id="apply", plan=plan.output, allow=["backfill"], retries=3)  # doctest: +SKIP
    """

    template_fields: ClassVar[Sequence[str]] = (
        "plan",
        "allow",
        "approvals",
        "config",
        "state",
        "conn_id",
        "engine",
    )

    def __init__(
        self,
        *,
        plan: Any,
        allow: Collection[str] = (),
        approvals: str | Sequence[str] | None = None,
        resume: bool = True,
        config: str | None = None,
        state: str | None = None,
        conn_id: str | None = None,
        engine: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.allow = _permits(allow)
        self.approvals = approvals
        self.resume = resume
        self.config = config
        self.state = state
        self.conn_id = conn_id
        self.engine = _without_credentials(engine)

    def execute(self, context: Any) -> dict[str, Any]:
        return tasks.apply_plan(
            self.plan,
            allow=self.allow,
            approvals=self.approvals,
            resume=self.resume,
            config=self.config,
            state=self.state,
            conn_id=self.conn_id,
            engine=self.engine,
            stop=self._stopped,
        )


class LakeEvolveVerifyOperator(_Operator):
    """Compare every value that a table reads with what the resolutions say; see
    :func:`lakeevolve.airflow.verify_table`.

    Deferred (``deferrable=True``), it takes no worker's slot while the workers of an engine elsewhere read the table:
    Spark, Spark Connect or Dask.

    >>> LakeEvolveVerifyOperator(task_id="verify", table="delta:lake/orders")  # doctest: +SKIP
    """

    template_fields: ClassVar[Sequence[str]] = (
        "table",
        "against",
        "contracts",
        "config",
        "subject",
        "evidence",
        "state",
        "conn_id",
        "engine",
    )

    def __init__(
        self,
        *,
        table: str,
        against: Any = None,
        full: bool = False,
        columns: str = "changed",
        sample: int | None = None,
        readers: Sequence[str] = (),
        contracts: Sequence[str] = (),
        mode: str | None = None,
        config: str | None = None,
        subject: str = "",
        evidence: str | None = None,
        state: str | None = None,
        conn_id: str | None = None,
        engine: str | None = None,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if deferrable and not (isinstance(engine, str) and "{{" in engine):
            _elsewhere(engine)
        self.deferrable = deferrable
        self.table = _without_credentials(table)
        self.against = against
        self.full = full
        self.columns = columns
        self.sample = sample
        self.readers = readers
        self.contracts = contracts
        self.mode = mode
        self.config = config
        self.subject = subject
        self.evidence = evidence
        self.state = state
        self.conn_id = conn_id
        self.engine = _without_credentials(engine)

    def execute(self, context: Any) -> dict[str, Any]:
        asked = {
            "table": self.table,
            "against": self.against,
            "full": self.full,
            "columns": self.columns,
            "sample": self.sample,
            "readers": self.readers,
            "contracts": self.contracts,
            "mode": self.mode,
            "config": self.config,
            "subject": self.subject,
            "evidence": self.evidence,
            "state": self.state,
            "conn_id": self.conn_id,
            "engine": self.engine,
        }
        if self.deferrable:
            _elsewhere(self.engine)
            from lakeevolve.airflow.triggers import VerifyTrigger

            self.defer(trigger=VerifyTrigger(asked), method_name="execute_complete", timeout=self.execution_timeout)
        return tasks.verify_table(**asked, stop=self._stopped)

    def execute_complete(self, context: Any, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the trigger found, or the exception that it stands for."""
        from lakeevolve.airflow.triggers import summary_of

        return summary_of(event)
