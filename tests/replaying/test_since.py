"""A table held against earlier evidence: what changed is told, and what no commit explains is a mismatch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.errors import ConfigError, SourceError
from lakeevolve.replaying.verify import verify

FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}]
WIDER = [*FIELDS, {"name": "country", "type": ["null", "string"], "default": None}]
FILLED = [*WIDER, {"name": "channel", "type": "string", "default": "shop"}]


def rows(start: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"n{i}", **more} for i in range(start, start + 5)]


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: Any, disk: Any) -> Any:
    made = disk(request.param, FIELDS)
    made.add(FIELDS, rows(0))
    made.add(FIELDS, rows(5))
    return made


@pytest.fixture
def kept(lake: Any, tmp_path: Path) -> Path:
    return verify(lake.open()).evidence.save(tmp_path / "evidence.json")


def told(lake: Any, kept: Any, **more: Any) -> list[tuple[str, bool]]:
    result = verify(lake.open(), against=kept, **more)
    assert result.ok == all(each.explained for each in result.changes), [str(m) for m in result.mismatches]
    return [(each.what, each.explained) for each in result.changes]


def test_nothing_changed(lake: Any, kept: Path) -> None:
    assert told(lake, kept) == []
    assert told(lake, str(kept)) == []
    assert told(lake, verify(lake.open()).evidence) == []
    assert told(lake, kept, sample=1) == []


def test_an_append_is_told_and_is_right(lake: Any, kept: Path) -> None:
    lake.add(FIELDS, rows(10))
    assert told(lake, kept) == [("file-added", True)]


def test_a_new_version_that_leaves_files_as_they_are_changes_no_row(lake: Any, kept: Path) -> None:
    lake.evolve(WIDER)
    lake.add(WIDER, rows(10, country="FR"))
    assert told(lake, kept) == [("version-added", True), ("file-added", True)]


def test_a_rewrite_is_told_file_by_file(lake: Any, kept: Path) -> None:
    lake.evolve(FILLED)
    assert sorted(told(lake, kept)) == sorted(
        [("version-added", True), *2 * [("file-gone", True), ("file-added", True)]]
    )


@pytest.mark.parametrize("evolved", [False, True])
def test_a_value_changed_behind_the_tables_back_is_found_though_raw_and_read_agree(
    lake: Any, kept: Path, evolved: bool
) -> None:
    if evolved:
        lake.evolve(WIDER)
    file = lake.open().files()[1]
    lake.change(file.path, 3, name="forged")
    assert verify(lake.open()).ok
    result = verify(lake.open(), against=kept)
    (found,) = result.mismatches
    assert (found.kind, found.reader) == ("changed", "evidence")
    assert found.file == file.path
    assert found.reason == "its rows are not those that the evidence digested"
    assert [each.what for each in result.changes if not each.explained] == ["file-changed"]
    assert result.to_json()["changes"]


def test_a_file_list_that_changed_while_the_table_stands_where_it_stood_is_a_mismatch(lake: Any, kept: Path) -> None:
    record = json.loads(kept.read_text())
    from lakeevolve.replaying.evidence import Evidence

    one = Evidence.from_json({**record, "files": record["files"][:1]}).sealed()
    assert told(lake, one) == [("file-added", False)]
    two = Evidence.from_json(record)
    gone = replace(two.files[0], path="elsewhere.parquet")
    assert told(lake, replace(two, files=[*two.files, gone]).sealed()) == [("file-gone", False)]


def test_a_version_that_is_another_now_is_a_mismatch(lake: Any, kept: Path) -> None:
    from lakeevolve.replaying.evidence import load

    found = load(kept)
    other = [{**found.versions[0], "digest": "0" * 64}]
    assert ("version-changed", False) in told(lake, replace(found, versions=other).sealed())


@pytest.mark.parametrize("damage", ["edit", "half", "digest"])
def test_damaged_evidence_is_refused(lake: Any, kept: Path, damage: str) -> None:
    text = kept.read_text()
    match damage:
        case "edit":
            kept.write_text(text.replace('"rows": 5', '"rows": 6', 1))
        case "digest":
            record = json.loads(text)
            record["files"][0]["digest"] = record["files"][1]["digest"]
            kept.write_text(json.dumps(record))
        case _:
            kept.write_text(text[: len(text) // 2] + '"seal"')
    with pytest.raises(SourceError):
        verify(lake.open(), against=kept)


def test_evidence_of_another_table_is_refused(lake: Any, kept: Path, disk: Any) -> None:
    other = disk(lake.format, FIELDS, "others")
    other.add(FIELDS, rows(0))
    with pytest.raises(ConfigError, match="another table"):
        verify(other.open(), against=kept)


def test_rows_deleted_since_are_told(disk: Any, tmp_path: Path) -> None:
    lake = disk("delta", FIELDS)
    lake.add(FIELDS, rows(0))
    kept = verify(lake.open()).evidence
    from deltalake import DeltaTable

    DeltaTable(lake.uri.removeprefix("delta:")).delete("id = 3")
    # delta-rs writes what is left anew.
    assert sorted(told(lake, kept)) == [("file-added", True), ("file-gone", True)]


def test_files_of_one_name_in_several_partitions_are_told_apart_by_their_rows(make: Any) -> None:
    table = make.table([make.version(1, make.schema(*FIELDS))])
    for name in ("p=a/x.parquet", "p=b/x.parquet", "p=c/x.parquet"):
        table.append(rows(len(table.rows) * 5), name)
    kept = verify(table).evidence
    assert {file.path for file in kept.files} == {"p=***/x.parquet"}
    assert verify(table, against=kept).changes == ()
    table.rows["p=b/x.parquet"] = make.spoil(table.rows["p=b/x.parquet"], 2, lambda row: row.update(name="forged"))
    (found,) = verify(table, against=kept).mismatches
    assert (found.file, found.kind) == ("p=***/x.parquet", "changed")
    table.append(rows(50), "p=d/x.parquet")
    assert sorted(each.what for each in verify(table, against=kept).changes) == ["file-added", "file-changed"]


def test_the_command_saves_evidence_takes_it_later_and_replays_consumers(
    lake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lakeevolve.__main__ import main

    kept, contract = str(tmp_path / "kept.json"), tmp_path / "billing.yaml"
    contract.write_text("contract: billing\nfields: [{path: name, type: string, required: true}]\n")
    assert main(["verify", lake.uri, "--evidence", kept, "--mode", "FULL", "--contract", str(contract)]) == 0
    assert "evidence saved to" in capsys.readouterr().err
    assert json.loads(Path(kept).read_text())["consumers"][0]["name"] == "billing"
    lake.add(FIELDS, [{"id": 99, "name": None}])
    assert main(["verify", lake.uri, "--against", kept]) == 0
    assert "since    file-added" in capsys.readouterr().out
    assert main(["verify", lake.uri, "--contract", str(contract)]) == 5
    assert "billing cannot read the row" in capsys.readouterr().out
    assert main(["verify", lake.uri, "--mode", "SIDEWAYS"]) == 2
    assert "no compatibility mode" in capsys.readouterr().err
    Path(kept).write_text(Path(kept).read_text().replace('"rows": 5', '"rows": 4'))
    assert main(["verify", lake.uri, "--against", kept]) == 2
    assert "the seal does not fit" in capsys.readouterr().err
