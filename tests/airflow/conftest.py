"""Airflow for the tests: a home of its own, and DAGs that run in processes of their own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "airflow"

OLD = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "country", "type": "string", "default": "US"}],
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("airflow") is not None:
        return
    skip = pytest.mark.skip(reason="Apache Airflow is not installed; .ci/run has an environment with it")
    for item in items:
        if item.get_closest_marker("airflow"):
            item.add_marker(skip)


@dataclass(frozen=True)
class Ran:
    """What came of a DAG's run. ``tasks`` holds the state and the number of attempts of each."""

    code: int
    log: str
    state: str = ""
    tasks: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    rendered: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Airflow:
    """An Airflow without scheduler: its home, and the folder that tasks run in."""

    home: Path
    place: Path
    env: Mapping[str, str]

    def run(
        self,
        dag: str,
        conf: Mapping[str, Any],
        *,
        env: Mapping[str, str] | None = None,
        folder: Path = EXAMPLES,
        **happens: Any,
    ) -> Ran:
        """Run a DAG, by default an example, with ``dag.test()``; see ``run_dag.py`` for what may happen on the way."""
        out = self.place / "ran.json"
        out.unlink(missing_ok=True)
        arguments = [str(folder / f"{dag}.py"), dag, json.dumps(conf), str(out), json.dumps(happens)]
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("run_dag.py")), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.place,
            env={**self.env, "AIRFLOW__CORE__DAGS_FOLDER": str(folder), **(env or {})},
            timeout=240,
            check=False,
        )
        if not out.exists():
            return Ran(done.returncode, done.stdout)
        found = json.loads(out.read_text())
        tasks = {name: (state, attempts) for name, (state, attempts) in found["tasks"].items()}
        return Ran(done.returncode, done.stdout, found["state"], tasks, found["xcoms"], found["rendered"])


def settings(home: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "LAKEEVOLVE"))},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        # What a task runs must not depend on how this project is installed here.
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose database is ready."""
    home = tmp_path_factory.mktemp("airflow")
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        capture_output=True,
        text=True,
        env=settings(home),
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture
def airflow(migrated: Path, tmp_path: Path) -> Airflow:
    """A fresh Airflow in the test's folder."""
    home = tmp_path / "airflow-home"
    shutil.copytree(migrated, home)
    place = tmp_path / "place"
    place.mkdir()
    return Airflow(home, place, settings(home))


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function that makes a Delta table of some files in a folder, with the schema that it is to get beside it, and
    returns its URI as tasks in that folder write it."""

    def make(place: Path, files: int = 4) -> str:
        from lakeevolve.tables import delta

        place.mkdir(exist_ok=True)
        monkeypatch.chdir(place)
        delta.create_table("delta:lake/orders", le.load(OLD))
        for number in range(files):
            delta.append("delta:lake/orders", pa.table({"id": pa.array([number, 10 + number], pa.int32())}))
        Path("orders.avsc").write_text(json.dumps(NEW))
        return "delta:lake/orders"

    return make


if find_spec("airflow") is not None:
    # Airflow makes its home when it is imported.
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
