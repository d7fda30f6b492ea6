"""The state folder."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeevolve.config.load import load_project
from lakeevolve.config.state import state_of, state_root, using
from lakeevolve.config.store import Objects
from lakeevolve.errors import ConfigError


def test_the_folder_comes_from_the_environment_else_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEEVOLVE_STATE", raising=False)
    assert state_root() == Path(".lakeevolve")
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path))
    assert state_root() == tmp_path


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    state = state_of("t1", tmp_path)
    file = state.write("plans", "p", {"b": 1, "a": 2})
    assert file == tmp_path / "t1" / "plans" / "p.json"
    assert json.loads(file.read_text()) == {"a": 2, "b": 1}
    assert list(file.parent.iterdir()) == [file]


def test_a_ledger_entry_is_written_once(tmp_path: Path) -> None:
    state = state_of("t1", tmp_path)
    state.write("ledger", "1", {"n": 1}, once=True)
    state.write("ledger", "1", {"n": 2}, once=True)
    assert json.loads((tmp_path / "t1" / "ledger" / "1.json").read_text()) == {"n": 1}


def test_a_folder_that_cannot_be_made_is_a_config_error_that_says_what_to_set(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigError) as caught:
        state_of("t1", blocked).folder("journal")
    assert caught.value.hint is not None
    assert "LAKEEVOLVE_STATE" in caught.value.hint


def test_the_project_file_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "other"))
    file = tmp_path / "lakeevolve.yaml"
    file.write_text("version: 1\nstate: kept/here\n")
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert state_root() == tmp_path / "kept" / "here"
    file.write_text("version: 1\n")
    assert state_root() == tmp_path / "other"
    file.write_text("version: 1\nstate: s3://bucket/kept\n")
    assert state_root() == "s3://bucket/kept"
    file.write_text("version: 1\nstat: kept\n")
    with pytest.raises(ConfigError):
        state_root()


def test_a_project_that_is_named_counts_wherever_its_file_lies(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("version: 1\nstate: kept\n")
    with using(load_project(file)):
        assert state_root() == tmp_path / "kept"
    assert state_root() != tmp_path / "kept"


def test_a_record_is_added_once_and_read_back(tmp_path: Path) -> None:
    state = state_of("t1", tmp_path)
    assert state.add("ledger", "2-b", {"n": 2})
    assert state.add("ledger", "1-a", {"n": 1})
    assert not state.add("ledger", "2-b", {"n": 3})
    assert [(name, json.loads(content)) for name, _, content in state.read("ledger")] == [
        ("1-a", {"n": 1}),
        ("2-b", {"n": 2}),
    ]
    assert list(state_of("t2", tmp_path).read("ledger")) == []


def test_a_probe_leaves_nothing(tmp_path: Path) -> None:
    state = state_of("t1", tmp_path)
    state.probe("ledger")
    assert list((tmp_path / "t1" / "ledger").iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a\\b"])
def test_an_identity_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        state_of(name, tmp_path)


WRITER = """
import sys, pathlib
from lakeevolve.config.state import state_of
state = state_of("t1", pathlib.Path(sys.argv[1]))
sys.stdin.readline()
won = [n for n in range(50) if state.add("ledger", f"{n}-x", {"by": sys.argv[2], "filler": "x" * 50_000})]
print(len(won))
"""


def test_of_two_processes_that_write_the_same_records_each_record_has_one_winner(
    tmp_path: Path, race: Callable[..., list[str]]
) -> None:
    won = [int(said) for said in race(WRITER, [str(tmp_path), "a"], [str(tmp_path), "b"])]
    assert sum(won) == 50
    by = [json.loads(content)["by"] for _, _, content in state_of("t1", tmp_path).read("ledger")]
    assert [by.count("a"), by.count("b")] == won
    assert not list(tmp_path.rglob("*.part"))


def test_where_there_are_no_hard_links_a_record_is_still_put_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    state = state_of("t1", tmp_path)
    assert state.add("ledger", "1", {"n": 1})
    assert not state.add("ledger", "1", {"n": 2})
    assert [json.loads(content) for _, _, content in state.read("ledger")] == [{"n": 1}]


def test_a_full_disk_is_said_to_be_and_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        state_of("t1", tmp_path).add("ledger", "1", {"n": 1})
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


@pytest.fixture(params=["memory", "local"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An object store of obstore's own."""
    store = pytest.importorskip("obstore.store")
    made = store.MemoryStore() if request.param == "memory" else store.LocalStore(tmp_path / "objects", mkdir=True)
    return Objects(made, "s3://bucket/prefix")


def test_an_object_store_keeps_the_same_promises(objects: Objects) -> None:
    assert objects.put("t/ledger/1.json", b"one", once=True)
    assert not objects.put("t/ledger/1.json", b"two", once=True)
    # What a lost answer makes of a put: it is sent again, and what it finds is its own.
    assert objects.put("t/ledger/1.json", b"one", once=True)
    assert objects.get("t/ledger/1.json") == b"one"
    assert objects.put("t/journal/1.json", b"two")
    assert objects.put("t/journal/1.json", b"three")
    assert objects.get("t/journal/1.json") == b"three"
    assert objects.names("t/ledger") == ("1.json",)
    assert objects.names("other") == ()
    assert objects.get("t/none.json") is None
    objects.delete("t/journal/1.json")
    objects.delete("t/journal/1.json")
    assert objects.names("t/journal") == ()
    assert objects.where("t/1.json") == "s3://bucket/prefix/t/1.json"


def test_without_its_library_an_object_store_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigError) as caught:
        state_of("t1", "s3://bucket/prefix").probe("ledger")
    assert "lakeevolve[store]" in (caught.value.hint or "")


def test_a_store_that_does_not_answer_is_a_config_error_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore.store")
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "hunter2-hunter2",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        state_of("t1", "s3://bucket/prefix").probe("ledger")
    assert "did not answer" in caught.value.what
    assert "hunter2" not in " ".join(caught.value.lines())


def test_a_url_of_no_store_is_a_config_error() -> None:
    pytest.importorskip("obstore.store")
    with pytest.raises(ConfigError):
        state_of("t1", "hdfs://name/x").probe("ledger")
