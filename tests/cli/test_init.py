"""``init``: what it finds, what it writes, and that the commands after it take the file as it is."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.config.load import load_project
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta, iceberg

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_tables"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[[Schema, int, int], pa.Table]) -> Path:
    """A folder with two subjects, a table of each in both formats, and things that are none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEEVOLVE_STATE", raising=False)
    shutil.copytree(SAMPLES / "orders", tmp_path / "schemas" / "orders")
    shutil.copytree(SAMPLES / "customers", tmp_path / "schemas" / "customers")
    (tmp_path / "schemas" / "broken.avsc").write_text("{")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.avsc").write_text('{"type": "record", "name": "X", "fields": []}')
    orders, customers = (le.load(SAMPLES / name / "v1.avsc") for name in ("orders", "customers"))
    delta.create_table("delta:lake/orders", orders, mark=False)
    delta.append("delta:lake/orders", rows(orders, 5, 1))
    iceberg.create_table("iceberg:./ice/shop.customers", customers, mark=False)
    other = {"type": "record", "name": "Q", "fields": [{"name": "q", "type": "int"}]}
    delta.create_table("delta:lake/other", le.load(other))
    return tmp_path


def test_the_file_is_what_check_and_plan_go_by(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--yes"]) == 0
    printed = capsys.readouterr()
    assert "2 subject(s), 2 table(s)" in printed.out
    assert "broken.avsc was left out" in printed.err
    assert "lake/other was left out" in printed.err
    project = load_project("lakeevolve.yaml")
    subjects = {name: (each.source, each.tables) for name, each in project.entry.subjects.items()}
    assert subjects == {
        "customers": ("schemas/customers", ("iceberg:./ice/shop.customers",)),
        "orders": ("schemas/orders", ("delta:lake/orders",)),
    }
    assert main(["check"]) == 0
    assert main(["plan", "--detailed-exitcode"]) == 3
    assert "2 parts: 2 with changes" in capsys.readouterr().out


def test_from_elsewhere_paths_are_those_of_the_file(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "away").mkdir()
    monkeypatch.chdir(place / "away")
    assert main(["init", "..", "--yes", "--mode", "full"]) == 0
    text = (place / "lakeevolve.yaml").read_text()
    assert "source: schemas/orders" in text
    assert "mode: FULL" in text
    assert "delta:lake/orders" in text
    monkeypatch.chdir(place)
    assert main(["plan", "--detailed-exitcode", "--fail-on", "never"]) == 3


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the schemas alone."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLES / "orders", tmp_path / "schemas" / "orders")
    return tmp_path


def test_a_file_that_is_there_is_never_written_over(schemas: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (schemas / "lakeevolve.yaml").write_text("version: 1\n")
    assert main(["init", "--yes"]) == 2
    assert "there already" in capsys.readouterr().err
    assert (schemas / "lakeevolve.yaml").read_text() == "version: 1\n"


def test_without_a_terminal_it_wants_yes(schemas: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert not (schemas / "lakeevolve.yaml").exists()


@pytest.mark.parametrize("args", [["empty"], ["gone"], [".", "--mode", "SIDEWAYS"]])
def test_what_cannot_be_begun_says_why(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["init", "--yes", *args]) == 2
    assert capsys.readouterr().err.startswith(("lakeevolve: ", "Usage", "Error"))
    assert not list(tmp_path.rglob("lakeevolve.yaml"))


def test_on_a_terminal_it_asks(schemas: Path) -> None:
    """The first subject is left out, the mode is chosen, and the file is agreed to."""
    place = schemas
    shutil.copytree(SAMPLES / "customers", place / "schemas" / "customers")
    talker, terminal = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    command = [sys.executable, "-m", "lakeevolve", "init"]
    process = subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, env=env, cwd=place)
    os.close(terminal)
    said = ""
    for awaited, answer in (
        ("customers: ", "n"),
        ("orders: ", "y"),
        ("compatibility mode", "sideways"),
        ("is none of", "full"),
        ("write this to", "y"),
    ):
        while awaited not in said:
            assert select.select([talker], [], [], 60)[0], said
            said += os.read(talker, 4096).decode()
        os.write(talker, f"{answer}\n".encode())
        said = said.partition(awaited)[2]
    out, _ = process.communicate(timeout=60)
    os.close(talker)
    assert process.returncode == 0, out
    (subject,) = load_project(place / "lakeevolve.yaml").entry.subjects.values()
    assert (subject.source, subject.mode) == ("schemas/orders", "FULL")


def test_columns_that_are_named_otherwise_are_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fields = [{"name": "orderId", "type": "long"}, {"name": "total", "type": "double"}]
    (tmp_path / "orders.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    columns = [{"name": "order_id", "type": "long"}, fields[1], {"name": "kafka_offset", "type": "long"}]
    delta.create_table("delta:orders", le.load({"type": "record", "name": "T", "fields": columns}), mark=False)
    assert main(["init", "--yes"]) == 0
    text: Any = (tmp_path / "lakeevolve.yaml").read_text()
    assert "mapping: {orderId: order_id}" in text
    assert "foreign: [kafka_offset]" in text
    assert main(["plan"]) == 0
    assert "cannot" not in capsys.readouterr().out
