"""The commands of the pages are run, one after the other as a reader would, on tables and schemas as they mean them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.relative_to(ROOT).as_posix(): page for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))}
Rows = Callable[[Schema, int, int], pa.Table]

#: Pages whose commands something else runs: the two of the README and the benchmarks stand in .ci/run and in
#: test_benchmarks, the project's page has a test of its own, and the reference is held against the commands.
ELSEWHERE = {"README.md", "docs/benchmarks.md", "docs/how-to/project-file.md", "docs/reference/commands.md"}
#: Commands that have nothing to say beside their result.
QUIET = {"diff", "check", "plan", "show", "verify", "history", "describe"}
#: A line of a shell, with the text that it is given.
UNIT = re.compile(r"^[^\n]*<<'(\w+)'\n.*?^\1$|^[^\n]+", re.MULTILINE | re.DOTALL)


def units(page: Path) -> Iterator[tuple[str, str]]:
    """The commands of a page with their language: a line of a shell with all that belongs to it, or Python whole."""
    text = page.read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(bash|sh|console|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            yield "python", block
            continue
        for found in re.finditer(UNIT, block.replace("\\\n", " ")):
            yield "shell", found.group()


def pages_with(language: str) -> list[str]:
    return sorted(name for name, page in PAGES.items() if any(kind == language for kind, _ in units(page)))


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "amount", "type": "float"}],
}
LATER = {
    **ORDER,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Rows, committed: Callable[..., None]) -> Path:
    """A repository whose schema of orders is being changed, its remote, and a table of the version before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    schema = Path("schemas/orders.avsc")
    schema.parent.mkdir()
    schema.write_text(json.dumps(ORDER))
    committed("schemas", remote=True)
    schema.write_text(json.dumps(LATER))
    delta.create_table("delta:lake/orders", le.load(ORDER), mark=False)
    delta.append("delta:lake/orders", rows(le.load(ORDER), 5, 1))
    return tmp_path


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEEVOLVE_STATE", raising=False)
    return tmp_path


@pytest.fixture
def project(shop: Path) -> Path:
    """The shop with its file."""
    entry = {"source": "schemas/orders.avsc", "tables": ["delta:lake/orders"]}
    Path("lakeevolve.yaml").write_text(json.dumps({"version": 1, "subjects": {"orders": entry}}))
    return shop


@pytest.fixture
def registered(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The shop with a registry that has its subjects, and a plan."""
    from lakeevolve.registry.server import Server
    from lakeevolve.registry.store import Store
    from lakeevolve.sources.registry.settings import URL

    server = Server(Store(shop / "registry"), port=0)
    monkeypatch.setenv(URL, server.url)

    def put(subject: str, schema: dict[str, Any], *references: dict[str, Any]) -> None:
        body = {"schema": json.dumps(schema), "references": list(references)}
        server.api.answer("POST", f"/subjects/{subject}/versions", {}, body)

    zips = [{"name": name, "type": "int", "default": 0} for name in ("zip", "floor", "door")]
    for count in (1, 2, 3):
        put("address-value", {"type": "record", "name": "shop.Address", "fields": zips[:count]})
    middle = {**LATER, "fields": LATER["fields"][:2]}
    for schema in (ORDER, middle, LATER):
        put("orders-value", schema)
    Path("new.avsc").write_text(json.dumps(LATER))
    le.plan("delta:lake/orders", LATER).save("plan.json")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield shop
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def planned(shop: Path, rows: Rows) -> Path:
    """The shop with a folder of plans, and an approval of each."""
    delta.create_table("delta:lake/returns", le.load(ORDER), mark=False)
    delta.append("delta:lake/returns", rows(le.load(ORDER), 5, 1))
    plan = le.plan("delta:lake/returns", LATER)
    Path("plans").mkdir()
    plan.save("plans/returns.json")
    Path("plans/returns.approval.yaml").write_text(f"plan: {plan.digest!r}\napprover: ann\nuntil: 2099-12-31\n")
    return shop


#: Page -> the place that its commands are run in; the shop without an entry.
PLACES = {
    "docs/how-to/registry.md": "registered",
    "docs/tutorial.md": "empty",
    "docs/ci.md": "project",
    "docs/how-to/change-and-undo.md": "planned",
}


def run(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    extra = re.fullmatch(r"pip install 'lakeevolve\[([\w,]+)\]'", unit)
    if extra is not None:
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(extra[1].split(",")) <= known.keys()
        return
    if unit.startswith("lakeevolve registry serve"):
        # It ends when somebody ends it; the tests of the registry start it.
        return
    if not unit.startswith("lakeevolve "):
        subprocess.run(["bash", "-euc", unit], check=True, stdout=subprocess.DEVNULL)
        return
    command, _, code = unit.partition(" || [ $? -eq ")
    wanted = int(code.removesuffix(" ]")) if code else 0
    _, *args = shlex.split(command, comments=True)
    if args[0] == "apply" and not {"--yes", "--approved", "--dry-run"} & set(args):
        # What a terminal would ask.
        args.append("--yes")
    if "--window" in args:
        # The hours of the page may not be those of the test.
        args[args.index("--window") + 1] = "00:00-23:59"
    if args[0] == "apply":
        args += ["--allow", "rewrite", "--allow", "backfill"]
    code = main(args)
    printed = capsys.readouterr()
    assert code == wanted, f"{unit}\n{printed.out}{printed.err}"
    assert printed.out
    if args[0] in QUIET and "--out" not in args:
        assert printed.err == ""


@pytest.mark.parametrize("page", [page for page in pages_with("shell") if page not in (*ELSEWHERE, "docs/tutorial.md")])
def test_the_commands_of_a_page_do_what_it_says(
    page: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    request.getfixturevalue(PLACES.get(page, "shop"))
    names: dict[str, Any] = {}
    for language, unit in units(PAGES[page]):
        if language == "shell":
            run(unit, capsys)
        elif PLACES.get(page) == "empty":
            exec(compile(unit, page, "exec"), names)


def test_the_tutorial_ends_where_it_says(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for language, unit in units(PAGES["docs/tutorial.md"]):
        if "rollback" in unit:
            assert le.open_table("delta:lake/orders").schema == le.load("schemas/orders/v2.avsc")
        if language == "python":
            exec(compile(unit, "tutorial", "exec"), names)
        else:
            run(unit, capsys)
    live = le.open_table("delta:lake/orders")
    assert live.schema == le.load("schemas/orders/v1.avsc")
    assert [version.restores for version in live.history()] == [None, None, 1]
    rows = [row["id"] for batch in live.read() for row in batch.to_pylist()]
    assert sorted(rows) == [1, 2, 3]
    assert main(["explain", "FIELD-ADDED-NO-DEFAULT"]) == 0


def test_what_is_said_to_be_run_elsewhere_is_a_page() -> None:
    assert PAGES.keys() >= ELSEWHERE
    assert PLACES.keys() <= PAGES.keys()
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for _, command in units(PAGES["README.md"]):
        if command.startswith("python3 "):
            assert command in script
