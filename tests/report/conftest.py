"""Outcomes of every kind that are the same on every machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.planning.plan import Estimate, Plan
from lakeevolve.report import outcome as outcomes
from lakeevolve.report.outcome import Outcome

OLD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "amount", "type": "float"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "zip", "type": "string"},
    ],
}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "aliases": ["amount"], "type": "double"},
        {"name": "currency", "type": "string", "default": "EUR"},
        {
            "name": "note",
            "type": ["null", "string"],
            "default": None,
            "doc": "a | b, <script>alert(1)</script> & `c` *d*",
        },
        {"name": "zip_code", "type": "string"},
    ],
}
FINE = {**NEW, "fields": [*NEW["fields"][:4], {"name": "zip", "type": "string"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the schemas."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    (tmp_path / "schemas").mkdir()
    for name, schema in (("old", OLD), ("new", NEW), ("fine", FINE)):
        (tmp_path / "schemas" / f"{name}.avsc").write_text(json.dumps(schema, indent=2))
    return tmp_path


@pytest.fixture
def table(folder: Path, rows: Callable[..., pa.Table]) -> str:
    from lakeevolve.tables import delta

    delta.create_table("delta:lake/orders", le.load("schemas/old.avsc"))
    delta.append("delta:lake/orders", rows(le.load(OLD), 20, 1))
    return "delta:lake/orders"


def frozen(plan: Plan) -> Plan:
    """The plan without what differs from run to run."""
    cost = Estimate(1, 20, 2048)
    steps = tuple(replace(step, estimate=cost if step.estimate.files else Estimate()) for step in plan.steps)
    return replace(
        plan,
        table={**plan.table, "id": "0" * 8},
        pin={},
        steps=steps,
        lakeevolve="0.0.0",
        read=cost,
        position=1,
        total=cost if plan.total.files else Estimate(),
    )


@pytest.fixture
def check_outcome(folder: Path) -> Outcome:
    candidate = le.load("schemas/new.avsc")
    return outcomes.of_check(le.check(candidate, ["schemas/old.avsc"], mode="FULL"), candidate)


@pytest.fixture
def outcome(request: pytest.FixtureRequest) -> Outcome:
    """An outcome by its name."""
    return _make(request.param, request.getfixturevalue)


def _make(name: str, fixture: Callable[[str], Any]) -> Outcome:
    match name:
        case "check":
            made: Outcome = fixture("check_outcome")
            return made
        case "diff":
            fixture("folder")
            return outcomes.of_diff(le.diff("schemas/old.avsc", "schemas/new.avsc"))
        case "plan" | "refused":
            table = fixture("table")
            target = le.load(f"schemas/{'fine' if name == 'plan' else 'new'}.avsc")
            return outcomes.of_plan(frozen(le.plan(table, target)), target)
    raise AssertionError(name)
