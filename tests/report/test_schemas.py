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
from lakeevolve.report.schemas import FILES, SCHEMAS, schema_named


def printed(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    assert main([*args, "--format", "json"]) == code
    return json.loads(capsys.readouterr().out)


def every_output(table: str, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, Any]]:
    yield "diff", printed(capsys, "diff", "schemas/old.avsc", "schemas/new.avsc")
    yield "check", printed(capsys, "check", "schemas/old.avsc", "schemas/new.avsc", code=1)
    yield "describe", printed(capsys, "describe", table)
    yield "adopt", printed(capsys, "adopt", table, "--against", "schemas")
    yield "plan", printed(capsys, "plan", table, "schemas/new.avsc", code=1)
    plan = printed(capsys, "plan", table, "schemas/fine.avsc", "--out", "plan.json")
    yield "plan", plan
    for finding in plan["findings"]:
        yield "finding", finding
    yield "plan", printed(capsys, "show", "plan.json")
    allow = ["--allow", "rewrite", "--allow", "backfill", "--allow", "drop"]
    yield "apply", printed(capsys, "apply", "plan.json", "--dry-run", *allow)
    yield "apply", printed(capsys, "apply", "plan.json", "--yes", *allow)
    yield "apply", printed(capsys, "apply", "plan.json", "--yes", *allow)
    verified = printed(capsys, "verify", table)
    yield "verify", verified
    yield "evidence", verified["evidence"]
    Path("reader.yaml").write_text("contract: reader\nfields: [{path: id}]\naccepts: [9]\n")
    asked = ("--consumer", "reader.yaml", "--out", "out")
    yield "replay", printed(capsys, "replay", table, *asked)
    yield "history", printed(capsys, "history", table)
    yield "lineage", printed(capsys, "lineage", table)
    yield "history-column", printed(capsys, "history", table, "--column", "id")
    for entry in Path("state").rglob("ledger/*.json"):
        yield "ledger", json.loads(entry.read_text())
        entry.unlink()
    yield "history", printed(capsys, "history", table)
    yield "history", printed(capsys, "history", table, "--rebuild")
    for entry in Path("state").rglob("ledger/*.json"):
        yield "ledger", json.loads(entry.read_text())
    yield "describe", printed(capsys, "describe", table)
    kind = table.partition(":")[0]
    Path("lakeevolve.yaml").write_text(
        "version: 1\nstate: state\nsubjects:\n"
        f"  a: {{source: schemas/fine.avsc, mode: NONE, tables: [{table}]}}\n"
        f"  b: {{source: schemas/fine.avsc, tables: ['{kind}:lake/no.where']}}\n"
    )
    for command in ("check", "plan", "verify"):
        yield "project", printed(capsys, command, code=2)
    yield "project", printed(capsys, "apply", "--yes", code=2)
    yield "rules", printed(capsys, "rules")


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_every_command_writes_what_its_schema_says(
    kind: str, folder: Path, rows: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    module = importlib.import_module(f"lakeevolve.tables.{kind}")
    table = "delta:lake/orders" if kind == "delta" else "iceberg:./lake/shop.orders"
    module.create_table(table, le.load("schemas/old.avsc"))
    module.append(table, rows(le.load("schemas/old.avsc"), 20, 1))
    jsonschema = pytest.importorskip("jsonschema")
    monkeypatch.setenv("LAKEEVOLVE_STATE", "state")
    seen = set()
    for name, record in every_output(table, capsys):
        seen.add(name)
        assert list(faults(record, SCHEMAS[name])) == [], name
        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(record)
    # Those of registries are asked for where there is one.
    assert seen == {name for name in SCHEMAS if not name.startswith("registry-")}


def test_every_schema_is_one_and_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.split() == [*SCHEMAS, *FILES]
    for name in (*SCHEMAS, *FILES):
        assert main(["schema", name]) == 0
        jsonschema.Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))
    assert main(["schema", "nope"]) == 2
    assert "evidence" in capsys.readouterr().err


def test_the_schema_of_the_project_file_says_of_a_file_what_reading_it_says() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    validator = jsonschema.Draft202012Validator(schema_named("config"))
    fine = (
        "version: 1\ntables: {a: {old_rows: null, limits: {max_rewrite_bytes: 10 GiB}}}\nsubjects: {a: {source: b}}\n"
    )
    validator.validate(yaml.safe_load(fine))
    for wrong in ("version: 2", "version: 1\nsubjects: {a: {}}", "version: 1\npolcy: {}"):
        assert list(validator.iter_errors(yaml.safe_load(wrong))), wrong
