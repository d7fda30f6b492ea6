"""Bad input gets at most three lines and exit 2, and leaves tables and files as they were."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakeevolve.__main__ import main

ORDERS = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}


@pytest.fixture
def avsc(tmp_path: Path) -> Path:
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps(ORDERS))
    return file


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder with its digest."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def fails(capsys: pytest.CaptureFixture[str], *args: str, code: int = 2) -> str:
    """Run a command that must fail with *code* and say so in at most three lines on stderr."""
    assert main(args) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.rstrip("\n").split("\n")
    assert 1 <= len(lines) <= 3, printed.err
    assert "Traceback" not in printed.err
    return printed.err


def test_broken_json_is_named_with_its_line(tmp_path: Path, avsc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.avsc"
    broken.write_text('{"type": "record",\n  "name": }')
    said = fails(capsys, "check", str(avsc), str(broken))
    assert "broken.avsc" in said
    assert "line 2" in said


def test_invalid_avro_is_named_with_its_json_path(
    tmp_path: Path, avsc: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    invalid = tmp_path / "invalid.avsc"
    invalid.write_text(json.dumps({**ORDERS, "fields": [{"name": "id", "type": "lang"}]}))
    said = fails(capsys, "check", str(avsc), str(invalid))
    assert "$.fields[0].type" in said
    assert "lang" in said


@pytest.mark.parametrize("command", ["diff", "check"])
def test_a_missing_file_is_named(command: str, avsc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.avsc" in fails(capsys, command, str(avsc), "nowhere.avsc")


def test_a_source_of_unknown_scheme_is_refused_with_the_known_ones(
    avsc: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = fails(capsys, "diff", str(avsc), "hudi:orders")
    assert "hudi" in said
    assert "iceberg" in said


@pytest.mark.parametrize("command", ["verify", "history", "describe"])
def test_a_table_of_unknown_scheme_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "hudi" in fails(capsys, command, "hudi:orders")


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_that_is_not_there_is_named_and_nothing_is_created(
    kind: str, tmp_path: Path, avsc: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"{kind}:{tmp_path / 'lake'}/shop.orders"
    before = contents(tmp_path)
    for command in (["plan", uri, str(avsc)], ["verify", uri], ["history", uri], ["describe", uri]):
        assert "shop.orders" in fails(capsys, *command)
    assert contents(tmp_path) == before


def test_a_catalog_that_is_down_is_said_to_be(
    tmp_path: Path, avsc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__TYPE", "rest")
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__URI", "http://127.0.0.1:9")
    said = fails(capsys, "plan", "iceberg:down/shop.orders", str(avsc))
    assert "catalog" in said


def test_a_plan_of_another_format_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"format_version": "99.0", "steps": []}))
    assert "99.0" in fails(capsys, "apply", str(plan))


def test_a_file_that_is_no_plan_is_refused(avsc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, "apply", str(avsc))
    text = tmp_path / "plan.json"
    text.write_text("not json")
    fails(capsys, "show", str(text))
    fails(capsys, "apply", str(tmp_path / "missing.json"))


def test_wrong_usage_is_said_in_three_lines(avsc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, "diff", str(avsc))
    fails(capsys, "nosuchcommand")
    fails(capsys, "check", str(avsc), str(avsc), "--mode", "SIDEWAYS")
    fails(capsys, "check", str(avsc), str(avsc), "--fail-on", "sometimes")
    fails(capsys, "diff", str(avsc), str(avsc), "--rename", "novalue")
    fails(capsys, "explain", "NO-SUCH-RULE")


def test_values_are_not_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "terminal" in fails(capsys, "verify", "delta:somewhere", "--show-values")


def test_a_secret_in_a_uri_is_not_printed(avsc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "hunter2" not in fails(capsys, "diff", str(avsc), "http://user:hunter2@registry/subjects?token=hunter2")


def test_help_and_version_import_no_table_library() -> None:
    code = (
        "import sys; from lakeevolve.__main__ import main; main(['--help']); main(['--version']); main(['rules']);"
        "print([m for m in ('pyarrow', 'pyiceberg', 'deltalake', 'fastavro', 'pydantic', 'rich') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.rstrip().endswith("[]")


def test_check_of_two_files_imports_neither_a_table_library_nor_what_other_commands_need(avsc: Path) -> None:
    code = (
        f"import sys; from lakeevolve.__main__ import main; assert main(['check', {str(avsc)!r}, {str(avsc)!r}]) == 0;"
        "print([m for m in sys.modules if m in ('pyarrow', 'pyiceberg', 'deltalake', 'pydantic', 'rich')"
        " or m.startswith('lakeevolve.cli.') and m.rpartition('.')[2] in ('apply', 'demo', 'plan', 'verify')])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.rstrip().endswith("[]")
