"""``replay``: as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "int"}]}
V2 = {**V1, "fields": [V1["fields"][0], {"name": "amount", "type": "long"}]}
CONTRACT = """contract: billing
fields:
  - {path: id, type: long, required: true}
  - {path: amount, type: double}
accepts: [1, 2]
result: billing-rows.3
"""


@pytest.fixture
def project(lake: Any, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A project with one table of two versions and one consumer."""
    monkeypatch.chdir(tmp_path)
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 5, 1), mark=True)
    le.apply(le.plan(uri, V2), allow=("rewrite",))
    lake.append(uri, rows(le.load(V2), 3, 2))
    (tmp_path / "billing.yaml").write_text(CONTRACT)
    (tmp_path / "orders.avsc").write_text(json.dumps(V2))
    (tmp_path / "lakeevolve.yaml").write_text(
        "version: 1\nsubjects:\n  orders: {source: orders.avsc, contracts: [billing.yaml]}\n"
    )
    return uri


def run(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert main(args) == code
    printed = capsys.readouterr()
    if code == 2:
        assert printed.out == ""
        assert len(printed.err.splitlines()) <= 3, printed.err
        assert "Traceback" not in printed.err
    return printed.out + printed.err


def test_a_consumer_of_the_project_gets_its_rows(
    project: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, "replay", project, "--consumer", "billing", "--out", "out")
    assert said.startswith("billing-rows.3 for billing: 8 rows in out")
    assert pq.read_table(tmp_path / "out" / "rows.parquet").column_names == ["lakeevolve", "id", "amount"]
    before = (tmp_path / "out" / "rows.parquet").read_bytes()
    record = json.loads(run(capsys, "replay", project, "--consumer", "billing.yaml", "--out", "out", "--format=json"))
    assert record["rows"] == 8
    assert (tmp_path / "out" / "rows.parquet").read_bytes() == before


def test_rows_that_are_held_back_are_a_warning_and_rows_that_cannot_be_read_an_error(
    project: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "billing.yaml").write_text(CONTRACT.replace("[1, 2]", "[1]"))
    args = ("replay", project, "--consumer", "billing", "--out", "out")
    said = run(capsys, *args)
    assert "warning  CONTRACT-UPDATE-REQUIRED" in said
    assert "of version 2" in said
    run(capsys, *args, "--fail-on", "warning", code=1)
    (tmp_path / "billing.yaml").write_text(CONTRACT.replace("type: double", "type: string"))
    assert "CONTRACT-CANNOT-READ amount" in run(capsys, *args, code=1)


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--consumer", "nobody", "--out", "out"), "known consumers: billing"),
        (("--consumer", "orders.avsc", "--out", "out"), "contract"),
        (("--consumer", "billing", "--out", "orders.avsc"), "a file is in the way"),
        (("--consumer", "billing", "--out", ""), "the output has no name"),
        (("--consumer", "billing", "--out", "/proc/out"), "cannot be written"),
        (("--consumer", "billing", "--out", "delta:results"), "--quarantine DIR"),
        (("--consumer", "billing", "--out", "out", "--since", "9"), "versions are 1 to 2"),
        (("--consumer", "billing", "--out", "out", "--since", "new"), "no number from 1 on"),
        (("--consumer", "billing", "--out", "out", "--keep-days", "0"), "no number from 1 on"),
        (("--consumer", "billing", "--out", "out", "--history", "orders.avsc"), "knows its schema versions"),
        (("--consumer", "billing", "--out", "out", "--quarantine", "orders.avsc/x"), ""),
        (("--out", "out"), "--consumer"),
        (("--consumer", "billing"), "--out"),
        (("more.avro", "--consumer", "billing", "--out", "out"), "a table is replayed by itself"),
    ],
)
def test_what_cannot_be_done_is_said_in_three_lines_and_leaves_nothing(
    project: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    (tmp_path / "billing.yaml").write_text(CONTRACT.replace("[1, 2]", "[1]"))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert said in run(capsys, "replay", project, *args, code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
