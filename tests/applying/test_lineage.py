"""Where rows come from: file, commit, version, plan, approver, evidence, contract; and what is not known stays so."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError, SourceNotFound

V1 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "_topic", "type": ["null", "string"], "default": None},
        {"name": "_at", "type": "long"},
    ],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
CONTRACT = {"contract": "billing", "fields": [{"path": "id"}]}


@pytest.fixture
def orders(lake: Any, rows: Any) -> tuple[str, datetime]:
    """A table of two versions with a file of each, and a moment between them."""
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 5, 1), mark=True)
    time.sleep(0.02)
    between = datetime.now(UTC)
    time.sleep(0.02)
    le.apply(le.plan(uri, V2, contracts=[CONTRACT]))
    lake.append(uri, rows(le.load(V2), 3, 2))
    return uri, between


def test_each_file_leads_to_its_commit_version_plan_evidence_and_contracts(orders: Any) -> None:
    uri, _ = orders
    table = le.open_table(uri)
    found = le.lineage(table)
    files = table.files()
    assert [(line.file.path, line.added, line.version) for line in found.files] == [
        (file.path, file.added, file.version) for file in files
    ]
    assert [line.version for line in found.files] == [1, 2]
    assert all(line.at is not None for line in found.files)
    first, second = found.versions
    assert (first.plan, first.approver, first.evidence, first.contracts) == (None, None, None, ())
    assert second.plan == table.history()[-1].plan
    assert (second.approver, second.contracts) == (None, ("billing",))
    assert second.evidence is not None
    assert json.loads(Path(second.evidence).read_text())["seal"] == second.seal


def test_an_approver_is_named(lake: Any, rows: Any, tmp_path: Path) -> None:
    uri = lake.create("orders", le.load(V1), rows(le.load(V1), 2, 1), mark=True)
    plan = le.plan(uri, V2)
    (tmp_path / "ok.yaml").write_text(f"plan: {plan.digest}\napprover: ann\nuntil: 2099-01-01\nreason: agreed\n")
    le.apply(plan, approval=tmp_path / "ok.yaml")
    lake.append(uri, rows(le.load(V2), 2, 2))
    assert [each.approver for each in le.lineage(uri).versions] == [None, "ann"]


def test_a_moment_shows_the_files_that_were_live_then(orders: Any) -> None:
    uri, between = orders
    then = le.lineage(uri, at=between)
    assert [line.version for line in then.files] == [1]
    assert then.files == le.lineage(uri).files[:1]
    assert le.lineage(uri, at=between.isoformat()).files == then.files
    assert len(le.lineage(uri, at=datetime.now(UTC) + timedelta(days=1)).files) == 2
    with pytest.raises(SourceNotFound, match="nothing tells"):
        le.lineage(uri, at="2001-01-01")
    with pytest.raises(ConfigError, match="no time"):
        le.lineage(uri, at="yesterday")


def test_what_the_state_no_longer_tells_is_unknown_and_never_guessed(orders: Any, tmp_path: Path) -> None:
    uri, _ = orders
    shutil.rmtree(tmp_path / "state")
    second = le.lineage(uri).versions[1]
    assert (second.approver, second.evidence, second.contracts, second.seal) == ("unknown", "unknown", "unknown", None)
    assert second.plan is not None


def test_rows_tell_their_origin_only_from_the_columns_that_are_named(orders: Any, tmp_path: Path) -> None:
    uri, _ = orders
    plain = [row for batch in le.lineage(uri).rows() for row in batch.to_pylist()]
    assert len(plain) == 8
    assert {(row["registry_id"], row["topic"], row["partition"], row["offset"]) for row in plain} == {("unknown",) * 4}
    assert [row["row"] for row in plain] == [0, 1, 2, 3, 4, 0, 1, 2]
    found = le.lineage(uri, columns={"topic": "_topic", "offset": "_at"})
    assert found.to_json()["rows"] == {
        "registry_id": "unknown",
        "topic": "_topic",
        "partition": "unknown",
        "offset": "_at",
    }
    assert found.save_rows(tmp_path / "rows.parquet") == 8
    told = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    raw = [row for batch in le.open_table(uri).read() for row in batch.to_pylist()]
    assert sorted(row["offset"] for row in told) == sorted(str(row["_at"]) for row in raw)
    assert sorted(row["topic"] for row in told) == sorted(
        "unknown" if row["_topic"] is None else row["_topic"] for row in raw
    )
    assert {row["partition"] for row in told} == {"unknown"}
    with pytest.raises(ConfigError, match="already"):
        found.save_rows(tmp_path / "rows.parquet")
    for wrong in ({"topic": "_topi"}, {"color": "_topic"}):
        with pytest.raises(ConfigError):
            le.lineage(uri, columns=wrong)


def test_a_folder_of_files_has_a_lineage_too(rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", "state")
    Path("orders").mkdir()
    pq.write_table(rows(le.load(V1), 5, 1), "orders/a.parquet")
    plan = le.plan("parquet:orders", V2)
    le.apply(plan, allow=plan.permits)
    found = le.lineage("parquet:orders.v2", at=datetime.now(UTC))
    assert [(line.path, line.version, line.added) for line in found.files] == [("orders.v2/a.parquet", 2, None)]
    assert found.versions[0].plan == plan.digest


def test_a_user_asks_on_the_command_line(orders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri, between = orders
    assert main(["lineage", uri, "--column", "topic=_topic", "--rows", str(tmp_path / "r.parquet")]) == 0
    said = capsys.readouterr()
    assert "contracts billing, evidence " in said.out
    assert "rows: registry_id unknown, topic _topic, partition unknown, offset unknown" in said.out
    assert "8 rows written" in said.err
    assert main(["lineage", uri, "--at", between.isoformat(), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1
    for wrong in (["--at", "soon"], ["--at", "1999-01-01"], ["--column", "topic"], ["--column", "topic=nope"]):
        assert main(["lineage", uri, *wrong]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) <= 3, printed.err
    assert main(["lineage", uri, "--rows", "/proc/rows"]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 3
