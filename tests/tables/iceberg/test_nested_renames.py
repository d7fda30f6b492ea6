"""A rename in a list or map within another, which pyiceberg does not read, is a rewrite; other changes are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.tables import iceberg
from tests.tables.shapes import array, f, map_, rec, row

HOLDERS: dict[str, tuple[Any, Any]] = {
    "a list in a list": (lambda r: array(array(r)), lambda v: [[v], [], None][:2]),
    "a list in a map": (lambda r: map_(array(r)), lambda v: [("k", [v, v])]),
    "a map in a map": (lambda r: map_(map_(r)), lambda v: [("k", [("l", v)])]),
}


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_rename_in_a_container_within_another_is_written_anew(
    holder: str, branch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    wrap, put = HOLDERS[holder]

    def schema(name: str, **more: Any) -> le.Schema:
        fixed = {"type": "fixed", "name": name, "size": 2, **more}
        return le.load(row(f("a", wrap(["null", fixed, "bytes"] if branch else rec("I", f(name, "int", **more))))))

    def value(name: str) -> Any:
        return put({name: b"ab", "bytes": None} if branch else {name: 1})

    uri = f"iceberg:{tmp_path / 'lake'}/n.t"
    iceberg.create_table(uri, schema("x"), mark=True)
    iceberg.append(uri, pa.Table.from_pylist([{"id": 1, "a": value("x")}], schema=le.arrow_schema(schema("x"))))
    plan = le.plan(uri, schema("y", aliases=["x"]), mode="NONE")
    assert {step.via for step in plan.steps} >= {"rename column and rewrite files"}
    assert le.apply(plan, allow=plan.permits).ok
    (found,) = [each for batch in le.open_table(uri).read() for each in batch.to_pylist()]
    assert found == {"id": 1, "a": value("y")}
    assert le.verify(uri, full=True, columns="all").ok
