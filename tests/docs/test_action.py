"""The composite Action, as far as it runs without GitHub: its form, and each of its scripts under bash."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import yaml

import lakeevolve as le
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / ".github" / "actions" / "plan" / "action.yml"
ACTION = yaml.safe_load(FILE.read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
WIDER = {**ORDER, "fields": [{"name": "id", "type": "long"}]}
BROKEN = {**ORDER, "fields": [{"name": "id", "type": "int"}, {"name": "x", "type": "string"}]}


def test_it_is_of_the_form_that_is_published_for_actions() -> None:
    schema = json.loads((ROOT / "tests" / "report" / "schemas" / "github-action.schema.json").read_text())
    jsonschema.validate(ACTION, schema)


def test_no_script_holds_an_expression_and_each_names_what_it_takes() -> None:
    """What a pull request may choose (a branch's name, a title) must not become part of a script."""
    for step in STEPS.values():
        if "run" not in step:
            continue
        assert "${{" not in step["run"]
        used = set(re.findall(r"\$\{?([A-Z_]+)", step["run"]))
        assert used <= set(step["env"]) | {"RUNNER_TEMP", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_REPOSITORY"}
    expressions = re.findall(r"\$\{\{(.*?)\}\}", FILE.read_text(encoding="utf-8"))
    for name in re.findall(r"inputs\.([\w-]+)", " ".join(expressions)):
        assert name in ACTION["inputs"]
    for name in re.findall(r"steps\.judge\.outputs\.([\w-]+)", " ".join(expressions)):
        assert f"{name}=" in STEPS["Check and plan"]["run"]


@pytest.fixture
def job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: Callable[[Schema, int, int], pa.Table],
    committed: Callable[..., None],
) -> Path:
    """A checked-out pull request, and the programs of a runner."""
    place, programs = tmp_path / "repo", tmp_path / "bin"
    place.mkdir()
    programs.mkdir()
    monkeypatch.chdir(place)
    (place / "orders.avsc").write_text(json.dumps(ORDER))
    subjects = {"orders": {"source": "orders.avsc", "tables": ["delta:lake/orders"]}}
    (place / "lakeevolve.yaml").write_text(json.dumps({"version": 1, "subjects": subjects}))
    delta.create_table("delta:lake/orders", le.load(ORDER), mark=True)
    delta.append("delta:lake/orders", rows(le.load(ORDER), 3, 1))
    committed("orders.avsc")
    program(programs / "lakeevolve", f'exec "{sys.executable}" -m lakeevolve "$@"')
    return tmp_path


def program(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)


def run(name: str, job: Path, **env: str) -> tuple[int, dict[str, str], str]:
    """A step's script as a runner runs it: its exit code, what it put out, and what it printed."""
    script, output = job / "script.sh", job / "output"
    script.write_text(STEPS[name]["run"])
    output.write_text("")
    around = {
        "PATH": f"{job / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(job),
        "RUNNER_TEMP": str(job),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_PATH": str(job / "path"),
        "GITHUB_STEP_SUMMARY": str(job / "summary.md"),
        "GITHUB_REPOSITORY": "shop/lake",
    }
    given = dict.fromkeys(STEPS[name]["env"], "")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        env={**around, **given, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, found, done.stdout + done.stderr


JUDGE = {"CONFIG": "lakeevolve.yaml", "BASE": "main", "PLAN": "true", "CHANGED_ONLY": "true"}


@pytest.mark.parametrize(
    ("schema", "env", "code"),
    [
        (ORDER, {}, "0"),
        (WIDER, {}, "3"),
        (BROKEN, {}, "1"),
        pytest.param(BROKEN, {"FAIL_ON": "never", "PLAN": "false"}, "0", marks=pytest.mark.long),
        pytest.param(WIDER, {"PLAN": "false"}, "0", marks=pytest.mark.long),
        pytest.param(WIDER, {"CHANGED_ONLY": "false"}, "3", marks=pytest.mark.long),
        (WIDER, {"BASE": "0" * 40}, "3"),
        (WIDER, {"BASE": "no-such-revision"}, "2"),
        pytest.param(WIDER, {"CONFIG": "gone.yaml"}, "2", marks=pytest.mark.long),
    ],
)
def test_the_exit_code_is_what_counts_most_of_check_and_plan(
    job: Path, schema: dict[str, Any], env: dict[str, str], code: str
) -> None:
    Path("orders.avsc").write_text(json.dumps(schema))
    returned, found, printed = run("Check and plan", job, **{**JUDGE, **env})
    assert returned == 0, printed
    assert found["exit-code"] == code, printed
    report = Path(found["report"])
    if "CONFIG" not in env and code != "2":
        assert "check" in (report / "check.md").read_text()
        assert len((report / "check.md").read_text()) < 60_000
    if code == "3":
        assert [file.name for file in (report / "plans").iterdir()] == ["orders.delta-lake-orders.json"]
    if "sarif" in found:
        assert json.loads(Path(found["sarif"]).read_text())["version"] == "2.1.0"
    assert ("sarif" in found) == (code != "2")
    verdict, _, _ = run("Verdict", job, CODE=found["exit-code"])
    assert verdict == (0 if code in "03" else int(code))


def test_what_a_pull_request_does_not_touch_is_not_looked_at(job: Path) -> None:
    Path("users.avsc").write_text(json.dumps(BROKEN))
    subjects = {name: {"source": f"{name}.avsc"} for name in ("orders", "users")}
    Path("lakeevolve.yaml").write_text(json.dumps({"version": 1, "subjects": subjects}))
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["add", "users.avsc", "lakeevolve.yaml"], [*who, "commit", "-qm", "users"]):
        subprocess.run(["git", *command], check=True)
    Path("orders.avsc").write_text(json.dumps(WIDER))
    for changed, parts in (("true", {"orders"}), ("false", {"orders", "users"})):
        _, found, printed = run("Check and plan", job, **{**JUDGE, "CHANGED_ONLY": changed})
        told = (Path(found["report"]) / "check.md").read_text()
        assert {name for name in subjects if f"| {name} |" in told} == parts, printed


def test_a_tool_that_is_not_there_fails_the_job(job: Path) -> None:
    (job / "bin" / "lakeevolve").unlink()
    program(job / "bin" / "lakeevolve", "exit 127")
    _, found, _ = run("Check and plan", job, **JUDGE)
    assert found["exit-code"] == "2"
    assert run("Verdict", job, CODE="")[0] != 0


#: gh, as far as the script uses it: comments are lines of a file, calls are noted.
GH = """
echo "$@" >> "$LOG"
case "$*" in
  *"--paginate"*) cat "$COMMENTS" ;;
  *) for each in "$@"; do case "$each" in body=@*) cp "${each#body=@}" "$POSTED" ;; esac; done ;;
esac
"""


@pytest.mark.parametrize("there", ["", "77\n"], ids=["first", "again"])
def test_the_comment_is_written_once_and_then_kept_up_to_date(job: Path, there: str) -> None:
    program(job / "bin" / "gh", GH)
    report = job / "report"
    report.mkdir()
    (report / "check.md").write_text("what check found\n")
    (report / "plan.md").write_text("int is promoted to long\n")
    (job / "comments").write_text(there)
    paths = {name.upper(): str(job / name) for name in ("log", "comments", "posted")}
    code, _, printed = run("Comment", job, NUMBER="12", REPORT=str(report), **paths)
    assert code == 0, printed
    listed, sent = (job / "log").read_text().splitlines()
    assert "repos/shop/lake/issues/12/comments" in listed
    way = ("PATCH", "issues/comments/77") if there else ("POST", "issues/12/comments")
    assert "--method {} repos/shop/lake/{}".format(*way) in sent
    assert (job / "posted").read_text() == "<!-- lakeevolve -->\nint is promoted to long\n"


def test_the_comment_is_found_by_its_mark(job: Path) -> None:
    """The filter that gh is given, run by jq where there is one."""
    jq = shutil.which("jq")
    if jq is None:
        pytest.skip("jq, which gh has built in, is not installed here")
    found = re.search(r'--jq "(.*)" \|', STEPS["Comment"]["run"])
    assert found is not None
    query = found[1].replace('\\"', '"').replace("$marker", "<!-- lakeevolve -->")
    comments = [{"id": 1, "body": "hello"}, {"id": 2, "body": "<!-- lakeevolve -->\n## plan"}]
    done = subprocess.run([jq, query], input=json.dumps(comments), capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


def test_a_job_that_came_to_nothing_comments_nothing(job: Path) -> None:
    program(job / "bin" / "gh", "exit 1")
    (job / "empty").mkdir()
    code, _, printed = run("Comment", job, NUMBER="12", REPORT=str(job / "empty"))
    assert code == 0
    assert "nothing to tell" in printed


@pytest.mark.parametrize("install", ["", "lakeevolve==9.9"])
def test_the_copy_that_the_action_came_with_is_installed_unless_another_is_named(job: Path, install: str) -> None:
    program(
        job / "bin" / "python3",
        f'mkdir -p "$3/bin"; printf \'#!/bin/bash\\necho "$@" >> {job}/log\\n\' > "$3/bin/pip"; chmod +x "$3/bin/pip"',
    )
    code, _, printed = run("Install", job, INSTALL=install, ACTION_PATH=str(FILE.parent))
    assert code == 0, printed
    assert (job / "path").read_text() == f"{job}/lakeevolve/bin\n"
    *_, what = (job / "log").read_text().split()
    assert what == install or (Path(what).resolve() == ROOT and not install)
