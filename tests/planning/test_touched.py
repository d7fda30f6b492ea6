"""What a pull request touches: check and plan of those subjects alone, found through every file that they use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.__main__ import main
from lakeevolve.config.load import load_project
from lakeevolve.errors import SourceNotFound
from lakeevolve.planning.project import check_project, plan_project
from lakeevolve.planning.touched import Touched, touched
from lakeevolve.report.schemas import SCHEMAS
from lakeevolve.tables.delta import create_table

CONFIG = """version: 1
subjects:
  orders: {source: schemas/Order.avsc, tables: ["delta:lake/orders", "delta:lake/old"]}
  customers: {source: schemas/Customer.avsc, contracts: [crm.yaml]}
  versions: {source: versions}
  alone: {source: schemas/Alone.avsc}
  live: {source: "delta:lake/orders"}
"""


def git(*args: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, *args], check=True, capture_output=True, text=True).stdout


def record(name: str, *fields: tuple[str, Any]) -> str:
    made = {"type": "record", "name": name, "namespace": "shop"}
    return json.dumps({**made, "fields": [{"name": field, "type": type_} for field, type_ in fields]}, indent=1)


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Order uses Address, and Address uses Country; a branch with nothing on it yet is checked out."""
    monkeypatch.chdir(tmp_path)
    write("schemas/Country.avsc", record("Country", ("code", "string")))
    write("schemas/Address.avsc", record("Address", ("zip", "int"), ("country", "Country")))
    write("schemas/Order.avsc", record("Order", ("id", "long"), ("to", "Address")))
    write("schemas/Customer.avsc", record("Customer", ("id", "long"), ("home", "shop.Country")))
    write("schemas/Alone.avsc", record("Alone", ("id", "long")))
    write("versions/v1.avsc", record("V", ("id", "long")))
    write("crm.yaml", "contract: crm\nowner: a\nsubject: customers\nmode: NONE\nfields: [{path: id, type: long}]\n")
    write("lakeevolve.yaml", CONFIG)
    write("readme.md", "")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "work")
    return tmp_path


def reached(base: str = "main") -> dict[str, list[str]]:
    project = load_project()
    return {file: list(names) for file, names in touched(project, project.subjects(), base).files.items()}


Edit = Callable[[], object]


@pytest.mark.parametrize(
    ("edit", "wanted"),
    [
        (lambda: None, {}),
        (lambda: write("readme.md", "x"), {}),
        (lambda: write("schemas/Alone.avsc", record("Alone")), {"schemas/Alone.avsc": ["alone"]}),
        (lambda: write("schemas/Address.avsc", record("Address")), {"schemas/Address.avsc": ["orders"]}),
        (
            lambda: write("schemas/Country.avsc", record("Country", ("code", "int"))),
            {"schemas/Country.avsc": ["orders", "customers"]},
        ),
        (lambda: Path("schemas/Country.avsc").unlink(), {"schemas/Country.avsc": ["orders", "customers"]}),
        # A file that comes before the one that is used now, by its name.
        (lambda: write("schemas/shop.Country.avsc", "{}"), {"schemas/shop.Country.avsc": ["orders", "customers"]}),
        (lambda: write("versions/v2.avsc", record("V")), {"versions/v2.avsc": ["versions"]}),
        (lambda: Path("versions/v1.avsc").unlink(), {"versions/v1.avsc": ["versions"]}),
        (lambda: write("versions/notes.txt", "x"), {}),
        (lambda: write("crm.yaml", "contract: crm\n"), {"crm.yaml": ["customers"]}),
        (lambda: write("schemas/Order.avsc", "{"), {"schemas/Order.avsc": ["orders"]}),
        (lambda: git("mv", "schemas/Alone.avsc", "schemas/Other.avsc"), {"schemas/Alone.avsc": ["alone"]}),
    ],
)
def test_a_file_reaches_the_subjects_that_use_it_committed_or_not(
    repo: Path, edit: Edit, wanted: dict[str, list[str]]
) -> None:
    edit()
    assert reached() == wanted
    git("add", "-A")
    assert reached() == wanted
    git("commit", "--allow-empty", "-m", "second")
    assert reached() == wanted
    assert reached("HEAD") == {}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("version: 1\n", "version: 1\n# a word\n", []),
        ("schemas/Alone.avsc}", "schemas/Alone.avsc, mode: FULL}", ["alone"]),
        ("  live:", "  new: {source: schemas/Alone.avsc}\n  live:", ["new"]),
        ("version: 1\n", "version: 1\ntables: {'delta:lake/old': {pin: data}}\n", ["orders"]),
        (
            "version: 1\n",
            "version: 1\npolicy: {fail_on: warning}\n",
            ["orders", "customers", "versions", "alone", "live"],
        ),
        ("version: 1\n", "version: 1\nregistry: {url: 'http://a'}\n", []),
    ],
)
def test_the_projects_file_reaches_the_subjects_of_which_it_says_something_else(
    repo: Path, old: str, new: str, wanted: list[str]
) -> None:
    write("lakeevolve.yaml", CONFIG.replace(old, new))
    assert reached().get("lakeevolve.yaml", []) == wanted


def test_where_the_file_was_none_or_broken_it_reaches_every_subject(repo: Path) -> None:
    git("checkout", "main")
    write("lakeevolve.yaml", "version: 7\n")
    git("commit", "-am", "broken")
    git("checkout", "-b", "mended")
    write("lakeevolve.yaml", CONFIG)
    assert reached()["lakeevolve.yaml"] == ["orders", "customers", "versions", "alone", "live"]


def test_what_the_base_went_on_to_change_is_not_touched_by_this_work(repo: Path) -> None:
    write("schemas/Alone.avsc", record("Alone"))
    git("commit", "-am", "mine")
    git("checkout", "main")
    write("schemas/Country.avsc", record("Country"))
    git("commit", "-am", "theirs")
    git("checkout", "work")
    assert reached() == {"schemas/Alone.avsc": ["alone"]}


def test_it_holds_from_a_folder_below_and_for_a_project_below_the_top(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("mv", "schemas", "inner-schemas")
    git("mv", "inner-schemas", "schemas")
    Path("sub").mkdir()
    monkeypatch.chdir(repo / "sub")
    write(
        "lakeevolve.yaml", "version: 1\nsubjects: {below: {source: below.avsc}, up: {source: ../schemas/Order.avsc}}\n"
    )
    write("below.avsc", record("B"))
    git("add", ".")
    git("commit", "-m", "below")
    write("below.avsc", record("B", ("x", "int")))
    write("../schemas/Address.avsc", record("Address"))
    assert reached("HEAD") == {"below.avsc": ["below"], str(repo / "schemas" / "Address.avsc"): ["up"]}


def test_only_what_is_touched_is_checked_and_planned(repo: Path) -> None:
    write("schemas/Alone.avsc", record("Alone", ("id", "string")))
    project = load_project()
    for judged in (check_project, plan_project):
        parts = judged(project, changed="main")
        assert {part.subject for part in parts.parts} <= {"alone"}
        assert isinstance(parts.touched, Touched)
        assert parts.touched.subjects == ("alone",)
        assert parts.touched.left_out == ("live",)
    assert check_project(project, ["orders"], changed="main").parts == ()


def test_a_change_to_a_shared_type_tells_every_subject_and_table(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("orders", "old"):
        create_table(f"delta:lake/{name}", __import__("lakeevolve").load("schemas/Order.avsc"))
    write("schemas/Country.avsc", record("Country", ("code", "int")))
    assert main(["check", "--changed", "main", "--against", "main"]) == 1
    out = capsys.readouterr().out
    assert "schemas/Country.avsc reaches 2 subjects\n  orders: delta:lake/orders, delta:lake/old\n  customers\n" in out
    assert "left out, since no file here holds their schemas: live" in out
    assert "alone" not in out
    assert main(["plan", "--changed", "main"]) == 1
    assert "== orders · delta:lake/old" in capsys.readouterr().out
    for format in ("markdown", "html"):
        assert main(["check", "--changed", "main", "--format", format, "--fail-on", "never"]) == 0
        out = capsys.readouterr().out
        assert "What changed since main" in out
        assert "schemas/Country.avsc" in out
    assert main(["check", "--changed", "main", "--format", "json", "--fail-on", "never"]) == 0
    found = json.loads(capsys.readouterr().out)
    pytest.importorskip("jsonschema").Draft202012Validator(SCHEMAS["project"]).validate(found)
    assert found["touched"]["files"][0]["subjects"] == [
        {"subject": "orders", "tables": ["delta:lake/orders", "delta:lake/old"]},
        {"subject": "customers", "tables": []},
    ]


def test_where_nothing_is_touched_nothing_is_to_be_done(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "plan"):
        assert main([command, "--changed", "main"]) == 0
        assert "no subject is touched by what changed since main" in capsys.readouterr().out


# Bad input ------------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert main([*args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert 2 <= len(lines) <= 3
    assert lines[-1].startswith("  next: ")
    return lines


def test_a_base_that_is_not_there_is_told(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "git knows no revision nope" in refused(capsys, "check", "--changed", "nope")[0]
    assert "no revision of git" in refused(capsys, "plan", "--changed=--output=x")[0]


def test_a_shallow_clone_without_the_base_is_told_how_to_get_it(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("readme.md", "x")
    git("commit", "-am", "second")
    git("clone", "-q", "--depth", "1", "--branch", "work", f"file://{repo}", "shallow")
    monkeypatch.chdir(repo / "shallow")
    lines = refused(capsys, "check", "--changed", "origin/main")
    assert "shallow clone" in lines[0]
    assert "fetch-depth: 0" in lines[-1]
    # Fetched as shallowly, it has nothing in common with what is checked out.
    git("fetch", "-q", "--depth", "1", "origin", "main")
    lines = refused(capsys, "check", "--changed", "FETCH_HEAD")
    assert "no commit in common" in lines[0]
    assert "fetch-depth: 0" in lines[-1]


def test_a_folder_that_is_no_repository_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("lakeevolve.yaml", "version: 1\n")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "no git repository" in refused(capsys, "check", "--changed", "main")[0]
    with pytest.raises(SourceNotFound):
        check_project(load_project(), changed="main")


def test_it_is_for_a_whole_project(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "whole project" in refused(capsys, "check", "a.avsc", "b.avsc", "--changed", "main")[0]
    assert "whole project" in refused(capsys, "plan", "delta:a", "b.avsc", "--changed", "main")[0]
    assert "brings all of this along" in refused(capsys, "plan", "--rebase", "p.json", "--changed", "main")[0]
