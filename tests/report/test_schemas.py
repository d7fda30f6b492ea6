"""What every command writes as JSON is what its published schema says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.config.conform import faults
from lakeevolve.report.schemas import SCHEMAS


def printed(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    assert main([*args, "--format", "json"]) == code
    return json.loads(capsys.readouterr().out)


def every_output(table: str, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, Any]]:
    yield "diff", printed(capsys, "diff", "schemas/old.avsc", "schemas/new.avsc")
    yield "check", printed(capsys, "check", "schemas/old.avsc", "schemas/new.avsc", code=1)
    yield "describe", printed(capsys, "describe", table)
    yield "plan", printed(capsys, "plan", table, "schemas/new.avsc", code=1)
    plan = printed(capsys, "plan", table, "schemas/fine.avsc", "--out", "plan.json")
    yield "plan", plan
    for finding in plan["findings"]:
        yield "finding", finding
    yield "plan", printed(capsys, "show", "plan.json")
    allow = ["--allow", "rewrite", "--allow", "backfill", "--allow", "drop"]
    yield "apply", printed(capsys, "apply", "plan.json", "--dry-run", *allow)
    yield "apply", printed(capsys, "apply", "plan.json", *allow)
    yield "apply", printed(capsys, "apply", "plan.json", *allow)
    verified = printed(capsys, "verify", table)
    yield "verify", verified
    yield "evidence", verified["evidence"]
    yield "history", printed(capsys, "history", table)
    yield "describe", printed(capsys, "describe", table)
    yield "rules", printed(capsys, "rules")


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_every_command_writes_what_its_schema_says(
    kind: str, folder: Path, rows: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib

    module = importlib.import_module(f"lakeevolve.tables.{kind}")
    table = "delta:lake/orders" if kind == "delta" else "iceberg:./lake/shop.orders"
    module.create_table(table, le.load("schemas/old.avsc"))
    module.append(table, rows(le.load("schemas/old.avsc"), 20, 1))
    jsonschema = pytest.importorskip("jsonschema")
    seen = set()
    for name, record in every_output(table, capsys):
        seen.add(name)
        assert list(faults(record, SCHEMAS[name])) == [], name
        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(record)
    assert seen == set(SCHEMAS)


def test_every_schema_is_one_and_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.split() == list(SCHEMAS)
    for name in SCHEMAS:
        assert main(["schema", name]) == 0
        jsonschema.Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))
    assert main(["schema", "nope"]) == 2
    assert "evidence" in capsys.readouterr().err
