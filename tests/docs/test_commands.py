"""Every command that the documentation shows is one, and those of the pages about CI and tests run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.cli.app import COMMANDS, app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: What stands for something of the reader's own.
PLACEHOLDERS = {
    "OLD...": "old.avsc",
    "OLD": "old.avsc",
    "NEW": "new.avsc",
    "TABLE": "delta:lake/orders",
    "TARGET": "new.avsc",
    "PLAN": "plan.json",
    "RULE": "FIELD-ADDED-NO-DEFAULT",
    "FINGERPRINT": "0123456789abcdef",
    "NAME": "plan",
    "N": "1",
}


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, str]]:
    """Page and command, of the blocks and of what stands between backticks in the text."""
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for block in blocks(page, "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r"&&|\|+", line):
                    if re.match(r"\s*(\S*/)?lakeevolve(\s|$)", part):
                        yield name, part.strip()
        for block in blocks(page, "yaml"):
            for command in re.findall(r"^\s*- (?:run: )?(lakeevolve .*)$", block, re.MULTILINE):
                yield name, command
        without = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for command in re.findall(r"`(lakeevolve [a-z][^`\n]*)`", without):
            yield name, command


def words(command: str) -> list[str]:
    _, *rest = shlex.split(command.partition(" > ")[0], comments=True)
    return [PLACEHOLDERS.get(word, word) for word in rest]


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_every_command_that_is_shown_is_one_with_those_options(page: str, command: str) -> None:
    import typer

    name, *rest = words(command)
    assert name in COMMANDS, f"{page}: {command}"
    if not rest:
        return
    group = typer.main.get_command(app)
    found = group.get_command(None, name)  # type: ignore[attr-defined]
    if hasattr(found, "commands"):
        name, *rest = rest
        found = found.commands[name]
    # Raises where an option or an argument is none.
    context = found.make_context(name, rest)
    assert not context.args


def test_the_pages_show_every_command_that_matters() -> None:
    shown = {words(command)[0] for _, command in commands()}
    assert {"diff", "check", "plan", "apply", "verify", "show", "history", "schema", "explain"} <= shown


@pytest.fixture
def workplace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[..., pa.Table], committed: Callable[..., None]
) -> Path:
    """A repository with a schema that is being changed, its remote, and a table of the old one."""
    from lakeevolve.tables import delta

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    old = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    new = {**old, "fields": [{"name": "id", "type": "long"}]}
    schema = Path("schemas/orders.avsc")
    schema.parent.mkdir()
    schema.write_text(json.dumps(old))
    committed("schemas", remote=True)
    schema.write_text(json.dumps(new))
    delta.create_table("delta:lake/orders", le.load(old))
    delta.append("delta:lake/orders", rows(le.load(old), 5, 1))
    return tmp_path


def test_the_workflows_are_valid_and_what_they_run_runs(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = pytest.importorskip("yaml")
    summary = workplace / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    github, action, gitlab, _ = (yaml.safe_load(block) for block in blocks(ROOT / "docs" / "ci.md", "yaml"))
    *_, used = action["jobs"]["plan"]["steps"]
    assert "/.github/actions/plan@" in used["uses"]
    assert (
        used["with"].keys() <= yaml.safe_load((ROOT / ".github/actions/plan/action.yml").read_text())["inputs"].keys()
    )
    steps = [step["run"] for step in github["jobs"]["schemas"]["steps"] if "run" in step]
    for line in [*steps, *gitlab["schemas"]["script"]]:
        if line.startswith("lakeevolve "):
            assert main(words(line)) == 0, line
    assert "BACKWARD: compatible" in capsys.readouterr().out
    assert "## Compatibility of schemas/orders.avsc" in summary.read_text()
    for file in ("orders.sarif", *gitlab["schemas"]["artifacts"]["reports"].values()):
        assert (workplace / file).is_file()


def test_the_python_of_the_page_runs(workplace: Path) -> None:
    (example,) = blocks(ROOT / "docs" / "ci.md", "python")
    names: dict[str, object] = {}
    exec(compile(example, "docs/ci.md", "exec"), names)
    assert "BACKWARD: compatible" in str(names["comment"])


def test_the_hook_for_pre_commit_judges_the_project_against_the_last_commit(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert re.search(hook["files"], "schemas/orders.avsc")
    assert re.search(hook["files"], "lakeevolve.yaml")
    assert not re.search(hook["files"], "notes.md")
    Path("lakeevolve.yaml").write_text("version: 1\nsubjects: {orders: {source: schemas/orders.avsc}}\n")
    assert main(words(hook["entry"])) == 0
    # int became long, which is fine; a text is not.
    schema = json.loads(Path("schemas/orders.avsc").read_text())
    schema["fields"][0]["type"] = "string"
    Path("schemas/orders.avsc").write_text(json.dumps(schema))
    assert main(words(hook["entry"])) == 1
    assert "TYPE-" in capsys.readouterr().out


def test_the_table_of_formats_names_them_all() -> None:
    from lakeevolve.report.render import RENDERERS

    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for format in RENDERERS:
        assert f"| `{format}` |" in text


def test_the_index_names_every_source() -> None:
    from lakeevolve.sources import SCHEMES

    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for scheme in SCHEMES:
        assert scheme == "file" or f"`{scheme}:" in text, scheme


def test_every_page_is_linked_and_every_link_leads_somewhere() -> None:
    linked = set()
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            found = (page.parent / target).resolve()
            assert found.is_file(), f"{page.name}: {target}"
            linked.add(found)
    missing = {page.relative_to(ROOT).as_posix() for page in PAGES if page.resolve() not in linked}
    assert missing <= {"README.md"}
