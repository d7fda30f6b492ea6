"""The state folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeevolve.config.state import state_of, state_root
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
