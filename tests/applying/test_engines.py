"""Apply with workers in other processes: the same table as with threads, and nothing half-done when workers fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.engines.executor import ProcessEngine
from lakeevolve.errors import EngineError, PlanBlocked
from lakeevolve.tables.base import DataFile
from tests.bugs.conftest import table_of
from tests.tables.shapes import f, row

OLD = row(f("v", "string"), f("n", "int"))
NEW = row(f("v", "string"), f("n", "long"), f("c", "string", default="x"))
ENUM = row(f("v", {"type": "enum", "name": "V", "symbols": ["a", "b"]}), f("n", "int"))
ALLOWED = ("rewrite", "backfill")


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessEngine]:
    engine = ProcessEngine(2)
    yield engine
    engine.close()


def rows(start: int, v: str = "a") -> list[dict[str, Any]]:
    return [{"id": i, "v": v, "n": i} for i in range(start, start + 20)]


@pytest.fixture
def uri(lake: Any) -> str:
    made: str = lake.create("t", le.load(OLD), table_of(OLD, rows(0)), mark=True)
    lake.append(made, table_of(OLD, rows(20)))
    lake.append(made, table_of(OLD, rows(40)))
    return made


def read(uri: str) -> list[dict[str, Any]]:
    found = [r for batch in le.open_table(uri).read() for r in batch.to_pylist()]
    return sorted(found, key=lambda r: r["id"])


def parquet(tmp_path: Path) -> set[str]:
    return {path.name for path in tmp_path.rglob("*.parquet")}


class Failing:
    """A conversion that comes to harm at one file: once, or each time."""

    def __init__(self, inner: Any, at: str, mark: Path | None, how: str) -> None:
        self.inner, self.at, self.mark, self.how = inner, at, mark, how

    def __call__(self, file: DataFile) -> Iterator[Any]:
        for batch in self.inner(file):
            yield batch
            if file.path == self.at and (self.mark is None or not self.mark.exists()):
                if self.mark is not None:
                    self.mark.touch()
                if self.how == "die":
                    os._exit(1)
                raise RuntimeError("lost 4711")


def harm(monkeypatch: pytest.MonkeyPatch, at: str, mark: Path | None, how: str) -> None:
    from lakeevolve.applying import apply as module

    real = module.Conversion
    monkeypatch.setattr(module, "Conversion", lambda *args: Failing(real(*args), at, mark, how))


def test_a_table_evolves_by_processes_as_it_does_by_threads(uri: str, lake: Any, processes: Any) -> None:
    plan = le.plan(uri, NEW)
    done = le.apply(plan, allow=ALLOWED, engine=processes)
    assert done.status == "applied"
    assert done.proof is not None
    assert done.proof.rows == done.replay.rows == 60  # type: ignore[union-attr]
    assert read(uri) == [{"id": i, "v": "a", "n": i, "c": "x"} for i in range(60)]
    other = lake.create("other", le.load(OLD), table_of(OLD, rows(0)), mark=True)
    for start in (20, 40):
        lake.append(other, table_of(OLD, rows(start)))
    here = le.apply(le.plan(other, NEW), allow=ALLOWED)
    one, two = ({f["digest"] for f in d.proof.evidence.to_json()["files"]} for d in (done, here))  # type: ignore[union-attr]
    assert one == two, "the rows have the same digests wherever they were written and proved"


def test_a_change_of_metadata_is_proved_by_processes(uri: str, processes: Any) -> None:
    done = le.apply(
        le.plan(uri, row(f("v", "string"), f("n", "int"), f("k", ["null", "long"], default=None))), engine=processes
    )
    assert done.status == "applied"
    assert [r["k"] for r in read(uri)] == [None] * 60


def test_a_value_that_does_not_fit_is_named_and_nothing_is_left(
    uri: str, lake: Any, tmp_path: Path, processes: Any
) -> None:
    lake.append(uri, table_of(OLD, rows(60, "z")))
    before, state = parquet(tmp_path), le.open_table(uri).state
    plan = le.plan(uri, ENUM)
    with pytest.raises(PlanBlocked):
        le.apply(plan, allow=ALLOWED, engine=processes)
    assert parquet(tmp_path) == before
    assert le.open_table(uri).state == state


@pytest.mark.parametrize("how", ["die", "fail"])
def test_a_worker_that_comes_to_harm_costs_nothing(
    uri: str, tmp_path: Path, processes: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    files = le.open_table(uri).files()
    before = parquet(tmp_path)
    harm(monkeypatch, files[1].path, tmp_path / "mark", how)
    done = le.apply(le.plan(uri, NEW), allow=ALLOWED, engine=processes)
    assert done.status == "applied"
    assert [r["id"] for r in read(uri)] == list(range(60))
    live = {Path(file.path).name for file in le.open_table(uri).files()}
    assert parquet(tmp_path) - before == live, "what the lost attempt wrote is gone"


def test_a_task_that_fails_each_time_leaves_the_table_and_its_folder_as_they_were(
    uri: str, tmp_path: Path, processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = le.open_table(uri).files()
    before, state = parquet(tmp_path), le.open_table(uri).state
    harm(monkeypatch, files[1].path, None, "fail")
    with pytest.raises(EngineError, match="failed 3 times") as caught:
        le.apply(le.plan(uri, NEW), allow=ALLOWED, engine=processes)
    assert caught.value.where == files[1].path
    assert "4711" not in " ".join(caught.value.lines())
    assert parquet(tmp_path) == before
    assert le.open_table(uri).state == state
