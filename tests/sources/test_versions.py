"""Several versions by one name: folders, git histories, tables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import SourceError, SourceNotFound
from lakeevolve.sources import expand, load


def order(*names: str) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": name, "type": "int"} for name in names]}


def git(*args: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *args], check=True, capture_output=True)


def names(sources: list[Any]) -> list[list[str]]:
    return [[field.name for field in load(source).fields] for source in sources]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, schema: object) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(schema))


def test_a_folder_is_its_versions_in_natural_order(here: Path) -> None:
    for name in ("v10", "v2", "v1", "v9"):
        write(f"orders/{name}.avsc", order(name))
    write("orders/.hidden.avsc", order("no"))
    write("orders/readme.json", {})
    for source in ("orders", "orders/", Path("orders"), "file:orders"):
        assert names(expand(source)) == [["v1"], ["v2"], ["v9"], ["v10"]]
    assert le.check(order("v10"), "orders").compatible == le.check(order("v10"), [Path("orders")]).compatible
    assert main(["check", "orders", "--mode", "NONE", "--fail-on", "never"]) == 0


def test_an_empty_folder_and_one_where_a_schema_is_wanted_are_refused(here: Path) -> None:
    Path("empty").mkdir()
    with pytest.raises(SourceNotFound, match="no schema"):
        expand("empty")
    with pytest.raises(SourceError, match="folder"):
        load("empty")


def test_one_schema_is_one_version(here: Path) -> None:
    write("a.avsc", order("a"))
    schema = le.load(order("b"))
    for source in ("a.avsc", Path("a.avsc"), json.dumps(order("a")), order("a"), schema):
        assert expand(source) == [source]


@pytest.fixture
def repository(here: Path) -> Path:
    git("init", "-q")
    for version in (["id"], ["id", "a"], ["id", "a"], ["id", "a", "b"]):
        write("schemas/order.avsc", order(*version))
        write("other.txt", [*version, len(version)])
        git("add", ".")
        git("commit", "-qm", "x", "--allow-empty")
    git("mv", "schemas/order.avsc", "schemas/orders.avsc")
    git("commit", "-qm", "renamed")
    write("schemas/orders.avsc", order("id", "b"))
    git("commit", "-qam", "dropped")
    return here


def test_every_version_of_a_file_in_git_is_found_also_under_its_old_name(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [["id"], ["id", "a"], ["id", "a", "b"], ["id", "b"]]
    assert names(expand("git:HEAD:schemas/orders.avsc@*")) == wanted
    assert names(expand("git:HEAD~1:schemas/orders.avsc@*")) == wanted[:-1]
    assert names(expand("git:HEAD:/schemas/orders.avsc@*")) == wanted
    monkeypatch.chdir("schemas")
    assert names(expand("git:main:orders.avsc@*")) == wanted
    report = le.check(order("id"), ["git:HEAD:orders.avsc@*"], mode="BACKWARD_TRANSITIVE")
    assert report.compatible
    with pytest.raises(SourceError, match="every version"):
        load("git:HEAD:orders.avsc@*")


def test_a_folder_at_a_revision_is_its_versions(repository: Path) -> None:
    write("v/v10.avsc", order("j"))
    write("v/v9.avsc", order("i"))
    git("add", "v")
    git("commit", "-qm", "v")
    write("v/v11.avsc", order("not yet"))
    assert names(expand("git:HEAD:v")) == names(expand("git:HEAD:v/")) == [["i"], ["j"]]
    write("w/x.txt", 1)
    git("add", "w")
    git("commit", "-qm", "w")
    with pytest.raises(SourceNotFound, match="no schema"):
        expand("git:HEAD:w")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("git:nosuch:schemas/orders.avsc", "no revision nosuch"),
        ("git:HEAD:nowhere.avsc", "no nowhere.avsc at the revision HEAD"),
        ("git:HEAD:nowhere.avsc@*", "no nowhere.avsc"),
        ("git:HEAD:schemas@*", "for a file"),
        ("git:HEAD", "git:REF:path"),
        ("git:--upload-pack=x:y", "git:REF:path"),
        ("git::x", "git:REF:path"),
    ],
)
def test_a_wrong_revision_or_path_is_named(source: str, said: str, repository: Path) -> None:
    with pytest.raises(SourceError, match=said):
        expand(source)


def test_outside_of_a_repository_git_sources_say_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    with pytest.raises(SourceNotFound, match="no git repository"):
        load("git:HEAD:x.avsc")


def test_a_shallow_clone_is_told_from_a_wrong_revision(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path_factory.mktemp("clone")
    git("clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    monkeypatch.chdir(clone)
    assert load("git:HEAD:schemas/orders.avsc") == le.load(order("id", "b"))
    for source in ("git:HEAD~1:schemas/orders.avsc", "git:HEAD:schemas/orders.avsc@*"):
        with pytest.raises(SourceNotFound, match="shallow") as caught:
            expand(source)
        assert "fetch-depth" in str(caught.value.hint)


def test_a_table_with_a_star_is_all_of_its_versions(lake: Any) -> None:
    table = lake.create("orders", le.load(order("id")))
    wider = {**order("id"), "fields": [*order("id")["fields"], {"name": "n", "type": ["null", "int"], "default": None}]}
    before = le.open_table(table).state.position
    plan = le.plan(table, wider)
    le.apply(plan, allow=plan.permits)
    assert names(expand(f"{table}@*")) == [["id"], ["id", "n"]]
    assert names([table]) == [["id", "n"]]
    if lake.format == "delta":
        assert names([f"{table}@v{before}"]) == [["id"]]


def test_a_saved_description_is_the_schema_of_its_table(lake: Any, tmp_path: Path) -> None:
    table = lake.create("orders", le.load(order("id", "a")))
    saved = str(tmp_path / "orders.json")
    assert main(["describe", table, "--save", saved]) == 0
    assert le.load(saved) == le.open_table(table).schema
    assert main(["diff", saved, table]) == 0


def test_a_table_at_a_snapshot_or_version_has_the_schema_of_then(lake: Any, rows: Any) -> None:
    table = lake.create("orders", le.load(order("id")), rows(le.load(order("id")), 3, 1))
    position = le.open_table(table).state.position
    wider = {**order("id"), "fields": [*order("id")["fields"], {"name": "n", "type": ["null", "int"], "default": None}]}
    plan = le.plan(table, wider)
    le.apply(plan, allow=plan.permits)
    lake.append(table, rows(le.load(wider), 3, 2))
    then = f"{table}@{position}" if lake.format == "iceberg" else f"{table}@v{position}"
    assert names([then, table]) == [["id"], ["id", "n"]]
    with pytest.raises(le.LakeEvolveError):
        load(f"{table}@{'' if lake.format == 'iceberg' else 'v'}99")
