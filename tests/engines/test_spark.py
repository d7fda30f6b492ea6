"""Spark as an engine."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.engines import open_engine
from lakeevolve.engines.spark import SparkEngine, grouped
from lakeevolve.errors import EngineError, TableNotFound
from tests.bugs.conftest import table_of
from tests.engines.tasks import SQUARES, TASKS, Task, hiccup, once, refuse, square
from tests.tables.shapes import f, row

#: pyspark leaves the socket that results come through to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def engine(spark: Any) -> SparkEngine:
    # Executors of this machine start without what this process has on its path.
    os.environ["PYTHONPATH"] = str(ROOT)
    return SparkEngine(spark.session)


@pytest.mark.spark
def test_spark_gives_what_the_function_gives(engine: SparkEngine) -> None:
    told: list[int] = []
    assert sorted(engine.map_unordered(square, TASKS, on_done=told.append)) == sorted(told) == SQUARES
    assert list(engine.map_unordered(square, [])) == []


@pytest.mark.spark
def test_an_error_of_ours_comes_back_from_spark_whole(engine: SparkEngine) -> None:
    with pytest.raises(TableNotFound) as caught:
        list(engine.map_unordered(refuse, TASKS))
    assert caught.value.lines() == ("no table", "at: delta:x", "next: look again")


@pytest.mark.spark
@pytest.mark.parametrize("harm", ["die", "fail"])
def test_a_task_that_comes_to_harm_once_is_run_again_by_spark(tmp_path: Path, engine: SparkEngine, harm: str) -> None:
    assert sorted(engine.map_unordered(partial(once, tmp_path, harm), TASKS)) == SQUARES


@pytest.mark.spark
def test_a_task_that_fails_each_time_is_one_error_without_the_data(
    engine: SparkEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EngineError, match="Spark gave up") as caught:
        list(engine.map_unordered(hiccup, TASKS[:1]))
    assert "4711" not in " ".join(caught.value.lines())
    assert "4711" not in capfd.readouterr().err, "executors log what tasks raise"


@pytest.mark.spark
def test_what_cannot_be_sent_to_spark_is_refused(engine: SparkEngine) -> None:
    with pytest.raises(EngineError, match="cannot be sent"):
        list(engine.map_unordered(repr, [threading.Lock()]))


@pytest.mark.spark
def test_a_session_that_is_handed_over_stays_open(spark: Any) -> None:
    with open_engine(spark.session) as opened:
        assert isinstance(opened, SparkEngine)
        opened.close()
    assert spark.session.range(3).count() == 3


@pytest.mark.spark
def test_a_session_that_runs_is_taken_by_its_masters_name_and_stays_open(spark: Any) -> None:
    os.environ["PYTHONPATH"] = str(ROOT)
    with open_engine("spark:local[2,4]") as opened:
        assert sorted(opened.map_unordered(square, TASKS[:2])) == SQUARES[:2]
    assert spark.session.range(3).count() == 3


@pytest.mark.spark
def test_a_table_verifies_on_spark_as_it_does_here(lake: Any, engine: SparkEngine) -> None:
    old, new = row(f("v", "int")), row(f("v", "double"), f("c", "string", default="x"))
    uri = lake.create("t", le.load(old), table_of(old, [{"id": 1, "v": 7}, {"id": 2, "v": 8}]), mark=True)
    assert le.apply(le.plan(uri, new), allow=("rewrite", "backfill")).ok
    lake.append(uri, table_of(new, [{"id": 3, "v": 1.5, "c": "y"}]))
    here, there = (le.verify(uri, columns="all", engine=e).evidence.to_json() for e in (None, engine))
    for record in (here, there):
        for passing in ("at", "seal", "digest"):
            record.pop(passing, None)
    assert here == there
    assert sum(one["rows"] for one in there["files"]) == 3


@pytest.mark.spark
def test_a_file_that_is_gone_is_found_on_spark(lake: Any, engine: SparkEngine) -> None:
    old = row(f("v", "int"))
    uri = lake.create("t", le.load(old), table_of(old, [{"id": 1, "v": 7}]), mark=True)
    path = le.open_table(uri).files()[0].path
    folder = uri.partition(":")[2]
    (Path(path.removeprefix("file://")) if path.startswith("file:") else Path(folder) / path).unlink()
    result = le.verify(uri, engine=engine)
    assert [m.file for m in result.mismatches][:1] == [path]


def test_files_become_tasks_of_about_the_same_bytes() -> None:
    class File(Task):
        @property
        def bytes(self) -> int:
            return self.number

    files = [File(f"f{n}", n) for n in (50, 1, 1, 30, 20, 48)]
    groups = grouped(files, 3)
    assert sorted(sum(f.bytes for f in group) for group in groups) == [50, 50, 50]
    assert sorted(f.path for group in groups for f in group) == sorted(f.path for f in files)
    assert [len(group) for group in grouped(files[:2], 100)] == [1, 1]
    assert grouped([], 3) == []
