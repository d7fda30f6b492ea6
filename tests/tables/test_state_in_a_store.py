"""The state in an S3 store: an apply with its ledger there, races between processes, and a store that refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.applying.past import past_of
from lakeevolve.config.state import state_of
from lakeevolve.tables import delta

pytest.importorskip("obstore")

V1 = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
V2 = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def state(store: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A state in the store; the environment says how to reach it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in store.aws().items():
        monkeypatch.setenv(name, value)
    place: str = store.prefix()
    monkeypatch.setenv("LAKEEVOLVE_STATE", place)
    return place


@pytest.fixture
def orders(tmp_path: Path) -> str:
    uri = f"delta:{tmp_path}/orders"
    delta.create_table(uri, le.load(V1))
    delta.append(uri, pa.table({"id": pa.array([1, 2], pa.int32())}))
    return uri


def test_an_apply_keeps_its_records_there_and_history_reads_them(
    state: str, orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = le.plan(orders, V2)
    done = le.apply(plan, allow=("rewrite",))
    assert str(done.evidence).startswith(state)
    kept = state_of(le.open_table(orders).state.id)
    assert [name for name, _, _ in kept.read("ledger")] == [f"2-{plan.digest}"]
    assert list(kept.read("journal")) == []
    assert past_of(le.open_table(orders)).findings == ()
    assert le.verify(orders, full=True).ok
    assert main(["history", orders]) == 0
    assert "replay: equal" in capsys.readouterr().out
    assert not (tmp_path / ".lakeevolve").exists()
    kept.remove("ledger", f"2-{plan.digest}")
    assert main(["history", orders, "--rebuild"]) == 0
    assert f"{state}/{kept.table_id}/ledger/2-{plan.digest}.json" in capsys.readouterr().out


WRITER = """
import sys
from lakeevolve.config.state import state_of
state = state_of("t1")
sys.stdin.readline()
print(sum(state.add("ledger", f"{n}-x", {"by": sys.argv[1]}) for n in range(20)))
"""


def test_of_two_processes_that_write_the_same_records_each_record_has_one_winner(
    state: str, race: Callable[..., list[str]]
) -> None:
    won = [int(said) for said in race(WRITER, ["a"], ["b"])]
    assert sum(won) == 20
    by = [json.loads(content)["by"] for _, _, content in state_of("t1").read("ledger")]
    assert [by.count("a"), by.count("b")] == won


def test_a_store_that_refuses_stops_an_apply_before_the_table_is_touched(
    state: str,
    orders: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    plan = str(le.plan(orders, V2).save(tmp_path / "plan.json"))
    before = sorted(str(path) for path in (tmp_path / "orders").rglob("*"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-is-wrong")
    assert main(["apply", plan, "--yes", "--allow", "rewrite"]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 3
    assert "permission denied" in said or "credentials" in said
    assert "a-secret-that-is-wrong" not in said
    assert sorted(str(path) for path in (tmp_path / "orders").rglob("*")) == before
