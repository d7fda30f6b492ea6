"""Outcomes of every kind that are the same on every machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.model.change import AddField, DropField, RenameField
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Field, Primitive
from lakeevolve.planning.plan import Estimate, Plan, Step
from lakeevolve.report import outcome as outcomes
from lakeevolve.report.outcome import Outcome
from lakeevolve.rules.findings import Finding

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


def made_plan(target: Schema) -> Plan:
    """A plan put together by hand, so that no wording of another room changes it."""
    cost = Estimate(1, 20, 2048)
    return Plan(
        table={"uri": "delta:lake/orders", "format": "delta", "id": "0" * 8},
        pin={},
        base_version=1,
        base_digest="0" * 64,
        target=target,
        target_version=2,
        mode="BACKWARD",
        old_rows="default",
        steps=(
            Step(
                "s1",
                "rewrite",
                "rewrite files",
                (RenameField("amount", "total"),),
                "why it is written anew",
                estimate=cost,
            ),
            Step("s2", "metadata", "add_column", (AddField("note", Field("note", Primitive("string")), 2),), "why not"),
            Step(
                "s3",
                "metadata",
                "drop_column",
                (DropField("zip", Field("zip", Primitive("string")), 3),),
                "it leaves",
                permit="drop",
                irreversible=True,
                readers=("queries that name the column fail",),
            ),
        ),
        findings=(
            Finding(
                "FIELD-DROPPED",
                "warning",
                "zip",
                "string",
                None,
                "the field is dropped",
                "readers of version 1",
                "keep it",
            ),
            Finding(
                "NAME-ALIASES-CHANGED", "info", "total", None, "amount", "the aliases changed", "", "nothing to do"
            ),
        ),
        rollout=("readers first: then the others",),
        lakeevolve="0.0.0",
        total=cost,
        read=cost,
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
        case "plan":
            fixture("folder")
            target = le.load("schemas/fine.avsc")
            return outcomes.of_plan(made_plan(target), target)
        case "refused":
            table = fixture("table")
            target = le.load("schemas/new.avsc")
            return outcomes.of_plan(le.plan(table, target), target)
    raise AssertionError(name)
