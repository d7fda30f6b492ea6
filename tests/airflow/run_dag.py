"""Runs one DAG with ``dag.test()`` in a process of its own, and writes what came of it as JSON.

Arguments: the DAG file, its name, the configuration of the run as JSON, the file to write, and what is to happen on the
way, as JSON:

``kill``
    [signal, n, file]: when the n-th file is about to be written, send this process the signal, unless the file is
    there, which is made before.
``before_apply``
    Python that runs before a plan is applied, each time.
``answer``
    What somebody answers who is asked for an approval.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

#: Every run is of this day, so that a second one is the same run again, as when it is cleared.
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def kill_at_file(number: int, count: int, sentinel: str) -> None:
    from lakeevolve.applying.journal import Journal

    writing, seen = Journal.writing, []

    def noted(self: Journal, path: str) -> None:
        writing(self, path)
        seen.append(path)
        if len(seen) == count and not Path(sentinel).exists():
            Path(sentinel).touch()
            os.kill(os.getpid(), number)

    Journal.writing = noted  # type: ignore[method-assign]


def run_before_apply(code: str) -> None:
    from lakeevolve.airflow import tasks

    applied = tasks.apply_plan

    def run(*args: Any, **kwargs: Any) -> Any:
        exec(code, {})
        return applied(*args, **kwargs)

    tasks.apply_plan = run


def answer(choice: str) -> None:
    """Answer a question while ``dag.test()`` waits for that, as the interface does."""
    sleep = time.sleep

    def answering(seconds: float) -> None:
        sleep(seconds)
        if threading.current_thread() is threading.main_thread():
            _answer(choice)

    time.sleep = answering


def _answer(choice: str) -> None:
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import handle_event_submit
    from airflow.triggers.base import TriggerEvent
    from airflow.utils import timezone
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        for asked in session.scalars(select(HITLDetail)).all():
            task = session.get(TaskInstance, asked.ti_id)
            if task is None or str(task.state) != "awaiting_input":
                continue
            asked.responded_by = {"id": "ann", "name": "Ann"}
            asked.responded_at = timezone.utcnow()
            asked.chosen_options = [choice]
            event = TriggerEvent(asked.as_resume_event_payload())
            handle_event_submit(event, task_instance=task, session=session)


def main(file: str, dag_id: str, conf: str, out: str, happens: str) -> None:
    on_the_way = json.loads(happens)
    if "kill" in on_the_way:
        kill_at_file(*on_the_way["kill"])
    if "before_apply" in on_the_way:
        run_before_apply(on_the_way["before_apply"])
    if "answer" in on_the_way:
        answer(on_the_way["answer"])

    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    bag = DagBag(file, bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    dag = bag.dags[dag_id]
    for each in dag.tasks:
        each.retry_delay = timedelta(seconds=0)
        if hasattr(each, "poke_interval"):
            each.poke_interval = 1.0
    run = dag.test(logical_date=DAY, run_conf=json.loads(conf))
    with create_session() as session:
        found = {
            "state": str(run.state),
            "tasks": {
                f"{ti.task_id}{'' if ti.map_index < 0 else f'[{ti.map_index}]'}": [str(ti.state), ti.try_number]
                for ti in run.get_task_instances(session=session)
            },
            "xcoms": {
                f"{x.task_id}{'' if x.map_index < 0 else f'[{x.map_index}]'}": x.value
                for x in session.scalars(select(XComModel).where(XComModel.key == "return_value"))
            },
            "rendered": {
                f"{each.task_id}[{each.map_index}]": each.rendered_fields
                for each in session.scalars(select(RenderedTaskInstanceFields))
            },
        }
    Path(out).write_text(json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
