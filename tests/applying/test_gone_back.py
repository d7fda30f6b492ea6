"""What others do to a table around an apply: they go back, or put another table in its place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeevolve as le
from lakeevolve.errors import LakeEvolveError, StalePlan

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": pa.array([1, 2], pa.int32())})
WIDER = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "id", "type": ["null", "long"], "default": None},
        {"name": "v", "type": ["null", "long"], "default": None},
    ],
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    write_deltalake(str(tmp_path / "t"), ROWS)
    return tmp_path / "t"


def test_a_plan_that_others_went_back_behind_is_stale_and_not_applied_already(path: Path) -> None:
    plan, before = le.plan(f"delta:{path}", WIDER, mode="NONE"), DeltaTable(path).version()
    assert le.apply(plan, allow=("rewrite",)).status == "applied"
    DeltaTable(path).restore(before)
    versions = le.open_table(f"delta:{path}").history()
    assert [(v.number, v.restores) for v in versions] == [(1, None), (2, None), (3, 1)]
    with pytest.raises(StalePlan, match="went back to version 1"):
        le.apply(plan, allow=("rewrite",))
    assert le.verify(f"delta:{path}", full=True).ok
    assert le.apply(le.plan(f"delta:{path}", WIDER, mode="NONE"), allow=("rewrite",)).status == "applied"
    assert DeltaTable(path).to_pyarrow_table()["v"].to_pylist() == [1, 2]


@pytest.mark.parametrize("phase", ["rewrite", "prove", "commit", "verify"])
@pytest.mark.parametrize("last", [False, True])
def test_a_table_that_is_replaced_meanwhile_is_one_error_of_ours_or_seen_at_once(
    path: Path, phase: str, last: bool
) -> None:
    plan = le.plan(f"delta:{path}", WIDER, mode="NONE")
    other = pa.table({"other": pa.array(["x"])})
    replaced = []

    def replace(at: Any, done: int, of: int) -> None:
        if at == phase and not replaced and (done == of or not last):
            replaced.append(at)
            shutil.rmtree(path)
            write_deltalake(str(path), other)

    told: LakeEvolveError | None = None
    try:
        le.apply(plan, allow=("rewrite",), progress=replace)
    except LakeEvolveError as error:
        told = error
    assert phase == "verify" or (told is not None and len(told.lines()) <= 3)
    assert replaced
    assert DeltaTable(path).to_pyarrow_table()["other"].to_pylist() == ["x"], "the other table is left alone"
