"""A verification that is deferred: the trigger waits while an engine's workers read the table."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.airflow import tasks

pytestmark = [pytest.mark.airflow, pytest.mark.filterwarnings("default")]

DAGS = Path(__file__).with_name("dags")


@pytest.fixture
def dask() -> Iterator[str]:
    """The name of an engine that is a Dask cluster of one worker."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        yield "dask://" + cluster.scheduler_address.removeprefix("tcp://")


def test_a_deferred_verification_is_the_same_as_any_other(airflow: Any, orders: Callable[..., str], dask: str) -> None:
    table = f"delta:{airflow.place}/lake/orders"
    orders(airflow.place)
    ran = airflow.run("verify_elsewhere", {"table": table, "engine": dask}, folder=DAGS)
    assert ran.state == "success", ran.log
    assert "running trigger in line" in ran.log
    here = tasks.verify_table(table)
    assert ran.xcoms["verify"] == here
    assert (here["ok"], here["rows"]) == (True, 8)

    # One retry would be left.
    ran = airflow.run("verify_elsewhere", {"table": "delta:nowhere", "engine": dask}, folder=DAGS)
    assert ran.tasks["verify"] == ("failed", 1)
    assert "there is no such folder" in ran.log


def test_a_trigger_says_what_failed_and_the_task_raises_it() -> None:
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    from lakeevolve import airflow
    from lakeevolve.airflow.triggers import VerifyTrigger

    operator = airflow.LakeEvolveVerifyOperator(
        task_id="verify", table="delta:nowhere", engine="dask://127.0.0.1:9", deferrable=True
    )
    trigger = VerifyTrigger({"table": "delta:nowhere"})
    path, kwargs = trigger.serialize()
    assert path == "lakeevolve.airflow.triggers.VerifyTrigger"
    assert VerifyTrigger(**json.loads(json.dumps(kwargs))).asked == trigger.asked

    event = asyncio.run(anext(aiter(trigger.run()))).payload
    json.dumps(event)
    with pytest.raises(AirflowFailException, match="no such folder") as caught:
        operator.execute_complete({}, event)
    assert (caught.value.exit_code, caught.value.kind) == (2, "TableNotFound")
    with pytest.raises(AirflowException, match="without a word"):
        operator.execute_complete({}, None)
    assert operator.execute_complete({}, {"summary": {"ok": True}}) == {"ok": True}


def test_a_connection_that_is_not_there_is_told_by_the_trigger_as_airflow_says_it() -> None:
    from lakeevolve.airflow.triggers import VerifyTrigger

    trigger = VerifyTrigger({"table": "delta:s3://bucket/orders", "conn_id": "nowhere"})
    event = asyncio.run(anext(aiter(trigger.run()))).payload
    assert event["failure"]["kind"] == "AirflowNotFoundException"
    assert "nowhere" in event["failure"]["text"]


def test_a_trigger_that_is_cancelled_stops_at_the_next_file(
    tmp_path: Path, orders: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.airflow import triggers

    began, ended = threading.Event(), threading.Event()
    stopped: list[bool] = []

    def verify(_asked: Any, stop: Callable[[], bool]) -> dict[str, Any]:
        began.set()
        for _ in range(500):
            if stop():
                stopped.append(True)
                break
            time.sleep(0.01)
        ended.set()
        return {}

    monkeypatch.setattr(triggers, "_verify", verify)

    async def cancelled() -> None:
        running = asyncio.ensure_future(anext(aiter(triggers.VerifyTrigger({}).run())))
        await asyncio.to_thread(began.wait, 5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert ended.wait(5)
    assert stopped == [True]


@pytest.mark.parametrize("engine", [None, "local", "processes://4"])
def test_a_triggerer_is_not_to_read_a_table_itself(engine: str | None) -> None:
    from lakeevolve import airflow

    with pytest.raises(ValueError, match="engine elsewhere"):
        airflow.LakeEvolveVerifyOperator(task_id="verify", table="delta:a", engine=engine, deferrable=True)
    operator = airflow.LakeEvolveVerifyOperator(
        task_id="verify", table="delta:a", engine="{{ params.engine }}", deferrable=True
    )
    operator.engine = engine
    with pytest.raises(ValueError, match="engine elsewhere"):
        operator.execute({})
