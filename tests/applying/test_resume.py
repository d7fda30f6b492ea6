"""A plan that takes several commits on Delta, stopped between them, is continued and never half-known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta
from lakeevolve.tables.delta import commit as commits

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}
TARGET = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long", "doc": "The number on the receipt."},
        {"name": "amount", "type": ["null", "double"], "default": None, "doc": "In euro."},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


@pytest.fixture
def orders(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"delta:{tmp_path / 'orders'}"
    delta.create_table(uri, le.load(BASE), mark=True)
    delta.append(uri, rows(le.load(BASE), 30, 1))
    return uri


@pytest.fixture
def stopped(orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan whose apply was stopped after its first commit."""
    saved = le.plan(orders, TARGET).save(tmp_path / "plan.json")
    before = le.open_table(orders).state.position
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_once", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            le.apply(saved)
    after = le.open_table(orders).state.position
    assert before is not None
    assert after is not None
    assert after > before
    return saved


def _interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_stopped_apply_leaves_a_table_that_reads_as_before(orders: str, stopped: Path) -> None:
    assert [field.name for field in le.open_table(orders).schema.fields] == ["id", "amount"]
    assert le.verify(orders).ok


def test_apply_says_that_it_stopped_and_resume_finishes_it(
    orders: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", str(stopped), "--yes"]) == 6
    assert "--resume" in capsys.readouterr().err
    assert main(["apply", str(stopped), "--yes", "--resume"]) == 0
    table = le.open_table(orders)
    assert table.schema == le.load(TARGET)
    assert [version.number for version in table.history()] == [1, 2]
    assert le.verify(orders, full=True).ok
    assert le.apply(stopped).status == "already-applied"


def test_resume_works_without_the_journal(
    orders: str, stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "another"))
    assert le.apply(stopped, resume=True).status == "applied"
    assert le.open_table(orders).schema == le.load(TARGET)
