"""Executors as engines: retries, workers that die, and what cannot be sent."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from lakeevolve.engines import open_engine
from lakeevolve.engines.executor import ExecutorEngine, ProcessEngine
from lakeevolve.errors import (
    ConfigError,
    EngineError,
    InvalidConfig,
    LakeEvolveError,
    TableNotFound,
    ValueMismatch,
)
from tests.engines.tasks import SQUARES, TASKS, Task, die, hiccup, once, refuse, square


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessEngine]:
    engine = ProcessEngine(2)
    yield engine
    engine.close()


def test_any_executor_gives_what_the_function_gives() -> None:
    with ThreadPoolExecutor(2) as pool, open_engine(pool) as engine:
        assert sorted(engine.map_unordered(square, TASKS)) == SQUARES


def test_each_result_is_told_in_the_asking_thread(processes: ProcessEngine) -> None:
    told: list[int] = []
    assert sorted(processes.map_unordered(square, TASKS, on_done=told.append)) == sorted(told) == SQUARES


def test_an_endless_list_is_taken_only_as_far_as_results_are(processes: ProcessEngine) -> None:
    taken = 0

    def endless() -> Iterator[Task]:
        nonlocal taken
        while True:
            taken += 1
            yield Task("f", 1)

    results = processes.map_unordered(square, endless())
    assert next(results) == 1
    results.close()  # type: ignore[attr-defined]
    assert taken <= 6


@pytest.mark.parametrize("harm", ["die", "fail"])
def test_a_task_that_comes_to_harm_once_is_run_again(tmp_path: Path, processes: ProcessEngine, harm: str) -> None:
    assert sorted(processes.map_unordered(partial(once, tmp_path, harm), TASKS)) == SQUARES


def test_a_task_that_kills_its_worker_each_time_ends_the_run_and_is_named(processes: ProcessEngine) -> None:
    with pytest.raises(EngineError, match="failed 3 times, the worker died each time") as caught:
        list(processes.map_unordered(die, TASKS))
    assert caught.value.where == "file-3"
    assert sorted(processes.map_unordered(square, TASKS)) == SQUARES, "the engine is usable afterwards"


def test_an_error_of_ours_is_an_answer_and_arrives_whole(processes: ProcessEngine) -> None:
    with pytest.raises(TableNotFound) as caught:
        list(processes.map_unordered(refuse, TASKS))
    assert caught.value.lines() == ("no table", "at: delta:x", "next: look again")


def test_a_failure_of_a_library_is_told_without_its_text(processes: ProcessEngine) -> None:
    with pytest.raises(EngineError) as caught:
        list(processes.map_unordered(hiccup, TASKS[:1]))
    assert "ValueError" in str(caught.value)
    assert "4711" not in " ".join(caught.value.lines())
    assert "4711" not in "".join(traceback.format_exception(caught.value)), "workers log what they raise"


def test_what_cannot_be_sent_is_refused_before_anything_runs(processes: ProcessEngine) -> None:
    with pytest.raises(EngineError, match="cannot be sent"):
        list(processes.map_unordered(lambda task: task, TASKS))


def test_threads_may_share_an_engine_whose_workers_die(tmp_path: Path, processes: ProcessEngine) -> None:
    def run(number: int) -> list[int]:
        folder = tmp_path / str(number)
        folder.mkdir()
        return sorted(processes.map_unordered(partial(once, folder, "die" if number else "fail"), TASKS))

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(run, range(3))) == [SQUARES] * 3


def test_a_foreign_pool_whose_worker_died_is_not_replaced() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(EngineError, match="takes no more work"):
        list(ExecutorEngine(pool).map_unordered(die, TASKS))


def test_an_executor_that_was_shut_down_is_one_error() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(EngineError, match="shut down"):
        list(ExecutorEngine(pool).map_unordered(square, TASKS))


@pytest.mark.parametrize(
    "error",
    [
        ValueMismatch("no symbol", row=3, path="a.b", hint="look"),
        InvalidConfig("f.yaml", [(1, "a", None), (2, "b", "c")]),
        LakeEvolveError("x", where="y"),
        EngineError("x"),
    ],
)
def test_every_error_survives_the_way_between_processes(error: LakeEvolveError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.lines(), again.args, vars(again)) == (error.lines(), error.args, vars(error))


@pytest.mark.parametrize("name", ["nothing", "local://0", "dask:", "spark:", "sc://", "processes://x", "local://"])
def test_a_name_of_no_engine_is_refused_with_the_forms(name: str) -> None:
    with pytest.raises(ConfigError), open_engine(name):
        pass


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match="a int is no engine"), open_engine(3):
        pass


def test_names_open_engines_that_end_with_the_block() -> None:
    with open_engine("processes://1") as engine:
        assert sorted(engine.map_unordered(square, TASKS[:2])) == [0, 1]
    with pytest.raises(EngineError, match="shut down"):
        list(engine.map_unordered(square, TASKS))
    with open_engine("local") as threads, open_engine() as default:
        assert not threads.remote
        assert type(default) is type(threads)


def test_an_engine_that_is_handed_over_stays_open(processes: ProcessEngine) -> None:
    with open_engine(processes) as engine:
        assert engine is processes
    assert list(processes.map_unordered(square, TASKS[:1])) == [0]


@pytest.fixture(scope="module")
def dask() -> Iterator[tuple[Executor, str]]:
    distributed = pytest.importorskip("distributed")
    options = {
        "n_workers": 1,
        "threads_per_worker": 2,
        "dashboard_address": ":0",
        "processes": False,
        "protocol": "tcp",
    }
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client.get_executor(pure=False), cluster.scheduler_address


def test_dasks_executor_is_an_engine(dask: tuple[Executor, str]) -> None:
    with open_engine(dask[0]) as engine:
        assert sorted(engine.map_unordered(square, TASKS)) == SQUARES
        with pytest.raises(TableNotFound):
            list(engine.map_unordered(refuse, TASKS))


def test_a_dask_cluster_is_an_engine_by_its_address(dask: tuple[Executor, str]) -> None:
    with open_engine("dask:" + dask[1].removeprefix("tcp:")) as engine:
        assert sorted(engine.map_unordered(square, TASKS)) == SQUARES


def test_a_scheduler_that_does_not_answer_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")

    def silent(*_: object, **__: object) -> None:
        raise OSError("Timed out trying to connect to tcp://10.0.0.1:8786")

    monkeypatch.setattr(distributed, "Client", silent)
    with pytest.raises(EngineError, match="no Dask scheduler answers") as caught, open_engine("dask://10.0.0.1:8786"):
        pass
    assert caught.value.where == "dask://10.0.0.1:8786"
