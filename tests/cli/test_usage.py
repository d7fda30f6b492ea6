"""Usage: help, paths that exist nowhere, options that are no options."""

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
from lakeevolve.cli.app import COMMANDS
from lakeevolve.errors import ConfigError

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": "string", "default": "US"},
        {"name": "address", "type": {"type": "record", "name": "A", "fields": [{"name": "zip", "type": "string"}]}},
    ],
}
OLDER = {**ORDER, "fields": [ORDER["fields"][0], ORDER["fields"][2]]}


@pytest.fixture
def new(tmp_path: Path) -> str:
    file = tmp_path / "new.avsc"
    file.write_text(json.dumps(ORDER))
    return str(file)


@pytest.fixture
def old(tmp_path: Path) -> str:
    file = tmp_path / "old.avsc"
    file.write_text(json.dumps(OLDER))
    return str(file)


@pytest.fixture
def table(lake: Any) -> str:
    return str(lake.create("orders", le.load(OLDER)))


def said(capsys: pytest.CaptureFixture[str], *args: str, code: int = 2) -> str:
    assert main(args) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) <= 3, printed.err
    return printed.err


def test_the_bare_command_prints_its_help_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].startswith("Usage:")
    assert len(lines) > len(COMMANDS)
    for name in COMMANDS:
        assert any(line.strip().startswith(name + " ") for line in lines)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_a_help_with_a_sentence(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage:")
    assert text.splitlines()[2].strip().endswith((".", ",")) or text.splitlines()[3].strip()


def test_a_misspelt_command_is_met_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean check?" in said(capsys, "chek")
    assert "lakeevolve diff --help" in said(capsys, "diff")


@pytest.mark.parametrize(
    ("options", "named", "near"),
    [
        (["--rename", "nope=nada"], "nada", "id"),
        (["--rename", "contry=country"], "contry", None),
        (["--rename", "address.zpi=address.zip"], "address.zpi", "address.zip"),
        (["--rename", "id=adress"], "adress", "address"),
        (["--rename", "a b!=id"], "a b!", None),
    ],
)
@pytest.mark.parametrize("command", ["diff", "check"])
def test_a_rename_of_a_path_that_exists_nowhere_is_refused_by_name(
    command: str,
    options: list[str],
    named: str,
    near: str | None,
    old: str,
    new: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, command, old, new, *options)
    assert named in text
    if near is not None:
        assert near in text


def test_what_is_no_pair_is_refused(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("a=b=c", "a", "=b", "a="):
        assert given in said(capsys, "diff", old, new, "--rename", given)


def test_what_is_no_rename_has_to_exist_too(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nope" in said(capsys, "check", old, new, "--not-rename", "nope=country")


def test_a_rename_that_was_made_before_is_told_and_does_no_harm(
    new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tmp_path / "both.avsc"
    fields = [*ORDER["fields"], {"name": "land", "type": "string", "default": ""}]
    both.write_text(json.dumps({**ORDER, "fields": fields}))
    assert main(["diff", str(both), new, "--rename", "land=country"]) == 0
    printed = capsys.readouterr()
    assert "renames nothing" in printed.err
    assert "land" in printed.out


@pytest.mark.parametrize(
    "options",
    [
        ["--rename", "nope=nada"],
        ["--old-rows", "nope=null"],
        ["--not-rename", "nope=nada"],
    ],
)
def test_a_plan_names_a_path_that_exists_nowhere(
    options: list[str], table: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options[1].partition("=")[0] in said(capsys, "plan", table, new, *options)


def test_the_calls_name_a_path_that_exists_nowhere(table: str, new: str) -> None:
    for wrong in ({"renames": {"nope": "nada"}}, {"old_rows": {"contry": "null"}}, {"not_renames": [("nope", "nada")]}):
        with pytest.raises(ConfigError, match="does not exist"):
            le.plan(table, new, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        le.plan(table, new, old_rows={"contry": "null"})
    assert caught.value.hint == "did you mean country?"
    assert le.plan(table, new, old_rows={"*": "null", "country": "default"}).steps


@pytest.mark.parametrize(
    "options",
    [
        ["--old-rows", "sometimes"],
        ["--old-rows", "country=perhaps"],
        ["--route", "country"],
        ["--route", "country=teleport"],
        ["--format", "msvc"],
        ["--output", "json"],
        ["--output", "msvc=x"],
        ["--fail-on", "sometimes"],
        ["--option", "novalue"],
    ],
)
def test_an_option_that_is_none_is_refused_before_anything_happens(
    options: list[str], table: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "plan", table, new, "--out", str(tmp_path / "plan.json"), *options)
    assert not (tmp_path / "plan.json").exists()


def test_numbers_and_permits_are_looked_at(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("0", "-1", "many"):
        said(capsys, "verify", table, f"--sample={given}")
    assert "teleport" in said(capsys, "apply", str(tmp_path / "plan.json"), "--allow", "teleport")
    said(capsys, "verify", table, "--columns", "some")


def test_verify_takes_all_that_the_call_takes(table: str, old: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", table, "--columns", "all", "--sample", "1", "--against", old, "--full"]) == 0
    assert "equal" in capsys.readouterr().out


def test_what_a_verdict_does_not_cover_is_told(
    lake: Any, rows: Any, old: str, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = le.load(OLDER)
    table = lake.create("sampled", schema, rows(schema, 3, 1))
    lake.append(table, rows(schema, 3, 2))
    assert main(["verify", table, "--sample", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "1 file, 3 rows" in lines[0]
    assert any(line.startswith("note") and "sampled" in line for line in lines)


def test_a_plan_that_may_not_be_applied_tells_nobody_to_go_on(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worse = tmp_path / "worse.avsc"
    fields = [{"name": "id", "type": "string"}, OLDER["fields"][1]]
    worse.write_text(json.dumps({**OLDER, "fields": fields}))
    for mode in ("NONE", "BACKWARD"):
        assert main(["plan", table, str(worse), "--mode", mode]) == 1
        text = capsys.readouterr().out
        assert "apply will refuse" in text
        assert "rollout" not in text
        assert "apply needs" not in text
    # Here the findings alone are against it.
    required = tmp_path / "required.avsc"
    required.write_text(json.dumps({**OLDER, "fields": [OLDER["fields"][1]]}))
    assert main(["plan", table, str(required), "--mode", "FORWARD"]) == 1
    text = capsys.readouterr().out
    assert "at or above error" in text
    assert "rollout" not in text
    assert "apply needs" not in text


def test_a_description_is_a_table_with_types_nulls_and_paths_inside(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", table]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == table
    assert any(line.split()[:1] == ["version"] and "1 of 1 version" in line for line in lines)
    assert any(line.split() == ["marker", "none"] for line in lines)
    assert any(line.split()[:1] == ["data"] and "0 rows" in line for line in lines)
    row = next(line for line in lines if line.startswith("  zip"))
    assert "string" in row
    assert "no" in row.split()
    assert not any("{" in line for line in lines), "no JSON for people"
    assert max(map(len, lines)) < 160


def test_choices_are_taken_in_any_case_and_h_is_help(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", old, new, "--format", "JSON", "--fail-on", "Never", "--mode", "backward"]) == 0
    assert json.loads(capsys.readouterr().out)["mode"] == "BACKWARD"
    for args in (["-h"], ["check", "-h"]):
        assert main(args) == 0
        assert capsys.readouterr().out.startswith("Usage:")


def test_an_empty_name_of_a_source_is_said_to_be_empty(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["diff", "", old], ["check", "", ""]):
        assert "empty" in said(capsys, *args)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_results_are_utf_8_where_a_program_reads_them(encoding: str, tmp_path: Path) -> None:
    odd = {**ORDER, "doc": "日本 · é"}
    for name, schema in (("old", ORDER), ("new", odd)):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    environment = {**os.environ, "PYTHONPATH": str(Path(le.__file__).parents[1]), "PYTHONIOENCODING": encoding}
    for format in ("text", "json"):
        command = [sys.executable, "-m", "lakeevolve", "diff", "old.avsc", "new.avsc", "--format", format]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, check=True)
        assert "日本" in done.stdout.decode("utf-8")


def test_a_check_of_one_schema_says_that_there_is_nothing_to_compare_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one.avsc"
    one.write_text('{"type": "record", "name": "R", "fields": []}')
    assert main(["check", str(one)]) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "nothing to compare" in said
    # A folder of versions may hold its first one only.
    assert main(["check", str(tmp_path)]) == 0
