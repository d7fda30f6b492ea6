"""The trigger of a deferred verification: the engine's workers read the table, and no worker of Airflow waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from lakeevolve.airflow.failures import Failure, failure_of
from lakeevolve.airflow.tasks import verify_table

__all__ = ["VerifyTrigger"]


class VerifyTrigger(BaseTrigger):
    """Verify a table once; see :func:`lakeevolve.airflow.verify_table`.

    A triggerer that is restarted verifies from the beginning: a verification changes no table.

    Parameters
    ----------
    asked:
        The arguments of ``verify_table``, as plain data; credentials are in none of them.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        super().__init__()
        self.asked = dict(asked)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {"asked": self.asked}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        stopped = threading.Event()
        try:
            event = await asyncio.to_thread(_verify, self.asked, stopped.is_set)
        finally:
            # When the trigger is cancelled, the thread goes on to its next file.
            stopped.set()
        yield TriggerEvent(event)


def _verify(asked: Mapping[str, Any], stop: Callable[[], bool]) -> dict[str, Any]:
    # Errors as they are: what Airflow says instead is for the task to raise.
    verify: Callable[..., dict[str, Any]] = verify_table.__wrapped__  # type: ignore[attr-defined]
    try:
        return {"summary": verify(**asked, stop=stop)}
    except (Exception, KeyboardInterrupt) as error:
        return {"failure": asdict(failure_of(error))}


def summary_of(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the trigger's event holds; raises Airflow's exception where the verification failed."""
    found = event or {"failure": asdict(Failure("the verification ended without a word (exit 2)", 2, "NoEvent", False))}
    if "failure" in found:
        raise Failure(**found["failure"]).as_exception()
    summary: dict[str, Any] = found["summary"]
    return summary
