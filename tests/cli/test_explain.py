"""Rules and findings explained, the reference that is made from them, and completion in the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.rules.catalogue import RULES

ROOT = Path(__file__).resolve().parents[2]
OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "extra", "type": "string"}]}


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    for name, schema in (("old", OLD), ("new", NEW)):
        Path(f"{name}.avsc").write_text(json.dumps(schema))
    return ["old.avsc", "new.avsc"]


@pytest.mark.parametrize("rule", list(RULES))
def test_every_rule_is_explained_with_an_example_and_a_fix(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", rule.lower()]) == 0
    text = capsys.readouterr().out
    assert text.startswith(rule)
    assert "example: " in text
    assert "fix: " in text


def test_a_finding_is_explained_by_its_fingerprint_with_its_place_and_its_waiver(
    schemas: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *schemas, "--output", "json=result.json"]) == 1
    (error,) = (each for each in json.loads(Path("result.json").read_text())["findings"] if each["severity"] == "error")
    capsys.readouterr()
    assert main(["explain", error["fingerprint"].upper(), "--in", "result.json"]) == 0
    text = capsys.readouterr().out
    assert "extra" in text
    assert "new.avsc" in text
    assert RULES[error["rule"]].rationale in text
    assert f"- fingerprint: {error['fingerprint']}" in text


def test_findings_of_applied_plans_are_found_in_the_state(
    schemas: list[str], lake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = lake.create("orders", le.load(OLD))
    plan = le.plan(table, {**OLD, "fields": [{"name": "number", "aliases": ["id"], "type": "long"}]})
    assert plan.findings
    le.apply(plan, allow=plan.permits)
    assert main(["explain", plan.findings[0].fingerprint]) == 0
    assert plan.digest in capsys.readouterr().out


def test_what_is_not_known_is_said(schemas: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("text").write_text("x")
    for args in (["0" * 16], ["0" * 16, "--in", "nowhere"], ["0" * 16, "--in", "text"], ["0" * 16, "--in", "new.avsc"]):
        assert main(["explain", *args]) == 2
        assert len(capsys.readouterr().err.splitlines()) <= 3


def test_the_reference_of_rules_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "markdown"]) == 0
    kept = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
    assert kept == capsys.readouterr().out, "run: lakeevolve rules --format markdown > docs/reference/rules.md"
    for rule in RULES:
        assert f"### {rule}\n" in kept


def test_the_reference_of_commands_is_what_the_commands_say() -> None:
    from lakeevolve.cli.app import COMMANDS
    from lakeevolve.cli.reference import reference

    kept = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert kept == reference() + "\n", "run: python -m lakeevolve.cli.reference > docs/reference/commands.md"
    for name in COMMANDS:
        assert f"## {name}\n" in kept


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lakeevolve ch", ["check"]),
        ("lakeevolve check --format sa", ["sarif"]),
        ("lakeevolve check --mode FULL_", ["FULL_TRANSITIVE"]),
        ("lakeevolve explain FIELD-ADDED-N", ["FIELD-ADDED-NO-DEFAULT"]),
        ("lakeevolve plan --det", ["--detailed-exitcode"]),
    ],
)
def test_the_shell_completes_commands_options_and_their_values(words: str, offered: list[str]) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_LAKEEVOLVE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    command = [sys.executable, "-m", "lakeevolve"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert printed.stdout.split() == offered, printed.stderr


def test_the_version_tells_the_libraries_without_loading_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    text = capsys.readouterr().out
    for name in ("lakeevolve", "python", "pyiceberg", "deltalake", "pyarrow"):
        assert any(line.startswith(f"{name} ") for line in text.splitlines())
