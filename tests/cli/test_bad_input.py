"""Every bad input that a user may give, on every command that takes it: three lines at most, exit 2, and tables and
files as they were."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}

#: A bad schema -> what has to be said of it.
SCHEMAS: dict[str, tuple[str | bytes, str]] = {
    "broken JSON": ('{"type": "record",\n "name": }', "line 2"),
    "JSON that ends early": ('{"type": "record"', "line 1"),
    "an empty file": ("", "empty"),
    "no type of Avro": (json.dumps({**ORDER, "fields": [{"name": "id", "type": "lang"}]}), "$.fields[0].type"),
    "a field without a name": (json.dumps({**ORDER, "fields": [{"type": "long"}]}), "$.fields[0]"),
    "two fields of one name": (json.dumps({**ORDER, "fields": ORDER["fields"] * 2}), "$.fields[1]"),
    "a name that is none": (json.dumps({**ORDER, "name": "Or der"}), "$.name"),
    "bytes": (b"\xff\xfe\x00\x00", "UTF-8"),
    "a number": ("17", "bad.avsc"),
}

#: A bad plan -> what has to be said of it.
PLANS: dict[str, tuple[str, str]] = {
    "no JSON": ("plan", "JSON"),
    "no plan": (json.dumps(ORDER), "not a lakeevolve plan"),
    "a list": ("[]", "not a lakeevolve plan"),
    "another format version": (json.dumps({"format_version": "99.0", "steps": []}), "99.0"),
    "an edited plan": (json.dumps({"format_version": "1.0", "steps": [], "digest": "0"}), ""),
}


def fails(capsys: pytest.CaptureFixture[str], *args: str, code: int = 2) -> str:
    assert main(args) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.rstrip("\n").split("\n")
    assert 1 <= len(lines) <= 3, printed.err
    assert lines[0].startswith("lakeevolve: ")
    assert "Traceback" not in printed.err
    return printed.err


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "good.avsc"
    file.write_text(json.dumps(ORDER))
    return str(file)


@pytest.fixture
def wider(tmp_path: Path) -> str:
    file = tmp_path / "wider.avsc"
    file.write_text(json.dumps(WIDER))
    return str(file)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    from lakeevolve.tables import delta

    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"delta:{tmp_path / 'lake' / 'orders'}"
    delta.create_table(uri, le.load(ORDER))
    return uri


@pytest.mark.parametrize("kind", list(SCHEMAS))
@pytest.mark.parametrize("command", ["diff", "check", "plan", "verify"])
def test_a_bad_schema(
    command: str, kind: str, good: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, said = SCHEMAS[kind]
    bad = tmp_path / "bad.avsc"
    bad.write_bytes(text if isinstance(text, bytes) else text.encode())
    args = {
        "diff": ["diff", good, str(bad)],
        "check": ["check", good, str(bad)],
        "plan": ["plan", table, str(bad)],
        "verify": ["verify", table, "--against", str(bad)],
    }[command]
    printed = fails(capsys, *args)
    assert said in printed
    assert "bad.avsc" in printed


@pytest.mark.parametrize("kind", list(PLANS))
@pytest.mark.parametrize("command", ["show", "apply"])
def test_a_bad_plan(command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, said = PLANS[kind]
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    printed = fails(capsys, command, str(plan))
    assert said in printed
    assert "plan.json" in printed


@pytest.mark.parametrize("command", ["show", "apply"])
def test_a_missing_plan(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.json" in fails(capsys, command, str(tmp_path / "nowhere.json"))
    if command == "show":
        # A folder of plans can be applied, after a question.
        assert str(tmp_path) in fails(capsys, command, str(tmp_path))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("hudi:orders", "hudi"),
        ("orders", "iceberg:"),
        ("", "iceberg:"),
        ("iceberg:orders", "iceberg:"),
        ("iceberg:prod/orders", "iceberg:"),
        ("iceberg:nowhere/shop.orders", "nowhere"),
        ("delta:nowhere", "nowhere"),
        ("delta:", "delta:"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "verify", "history", "describe"])
def test_a_bad_table(
    command: str,
    uri: str,
    said: str,
    good: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert said in fails(capsys, command, uri, *([good] if command == "plan" else []))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("option", ["--out", "--output"])
def test_a_result_that_cannot_be_written(
    option: str, table: str, wider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "nowhere" / "x.json")
    assert main(["plan", table, wider, option, place if option == "--out" else f"json={place}"]) == 2
    printed = capsys.readouterr().err
    assert place in printed
    assert len(printed.splitlines()) <= 3


def test_an_output_that_cannot_be_written_is_said_before_a_table_is_changed(
    table: str, wider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan.json")
    assert main(["plan", table, wider, "--out", plan]) == 0
    capsys.readouterr()
    for place in (tmp_path / "nowhere" / "x.json", tmp_path):
        assert str(place) in fails(capsys, "apply", plan, "--yes", "--output", f"json={place}")
    assert len(le.open_table(table).history()) == 1


def test_a_state_folder_that_cannot_be_written(
    table: str, wider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan.json")
    assert main(["plan", table, wider, "--out", plan]) == 0
    capsys.readouterr()
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "taken"))
    assert "LAKEEVOLVE_STATE" in fails(capsys, "apply", plan, "--yes")
    assert len(le.open_table(table).history()) == 1


def test_many_faults_of_a_file_are_three_lines_and_json_lists_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakeevolve.yaml").write_text("version: 3\npolcy: {}\nsubject: {}\ntable: {}\n")
    for command in ("check", "plan", "apply", "verify"):
        said = fails(capsys, command, *(["--yes"] if command == "apply" else []))
        assert "4 faults" in said
        assert "--format json" in said
        assert main([command, "--format", "json"]) == 2
        printed = capsys.readouterr()
        assert len(json.loads(printed.out)["faults"]) == 4
        assert len(printed.err.splitlines()) == 3


def test_ctrl_c_is_said_in_a_line_and_exits_130(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakeevolve.sources.load", stop)
    assert "interrupted" in fails(capsys, "diff", good, good, code=130)


def test_ctrl_c_from_the_shell_is_said_in_a_line_and_exits_130(tmp_path: Path) -> None:
    fifo = tmp_path / "slow.avsc"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "lakeevolve", "diff", str(fifo), str(fifo)]
    environment = {**os.environ, "PYTHONPATH": str(Path(le.__file__).parents[1])}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    # Opening the other end waits until the command reads.
    _wait_for(lambda: _opened(fifo))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "lakeevolve: interrupted\n"


def _opened(fifo: Path) -> bool:
    try:
        _KEPT.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


_KEPT: list[int] = []


def _wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


# Single cases --------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("engine", ["ray://here", "processes://0", "spark:"])
def test_an_engine_that_there_is_not_is_named_with_the_ones_there_are(
    lake: Any, rows: Any, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    schema = le.load({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
    uri = lake.create("engines", schema, rows(schema, 3, 1))
    assert "engine" in fails(capsys, "verify", uri, "--engine", engine)
