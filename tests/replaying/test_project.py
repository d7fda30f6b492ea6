"""Versioned results for one consumer, of tables and of Avro files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from lakeevolve.errors import ConfigError, SourceError
from lakeevolve.replaying.project import project

V1 = [{"name": "id", "type": "long"}, {"name": "amount", "type": ["null", "int"], "default": None}]
V2 = [V1[0], {"name": "total", "type": ["null", "long"], "default": None, "aliases": ["amount"]}]
V3 = [*V2, {"name": "event_id", "type": ["null", "string"], "default": None}]


def record(fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": fields}


READER = record(
    [
        {"name": "id", "type": "long"},
        {"name": "total", "type": ["null", "double"], "default": None, "aliases": ["amount"]},
        {"name": "channel", "type": "string", "default": "shop"},
    ]
)
CONTRACT = {"contract": "billing", "reader": READER, "accepts": [1, 2], "result": "billing-rows.2"}


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: Any, disk: Any) -> Any:
    made = disk(request.param, V1)
    made.add(V1, [{"id": i, "amount": i} for i in range(4)])
    if request.param == "iceberg":
        # Metadata alone: the files stay those of their version.
        made.evolve(V2)
    else:
        made.evolve([*V1, {"name": "note", "type": ["null", "string"], "default": None}])
    second = V2 if request.param == "iceberg" else [*V1, {"name": "note", "type": ["null", "string"], "default": None}]
    name = "total" if request.param == "iceberg" else "amount"
    made.add(second, [{"id": i, name: i} for i in range(4, 7)])
    return made


def read(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "rows.parquet").to_pylist()
    return rows


def test_each_row_says_where_it_comes_from_and_reads_as_the_contract_says(lake: Any, tmp_path: Path) -> None:
    done = project(lake.open(), CONTRACT, tmp_path / "out")
    assert done.ok
    assert (done.rows, done.versions, done.result_version) == (7, {1: 4, 2: 3}, "billing-rows.2")
    rows = read(tmp_path / "out")
    assert [row["total"] for row in rows] == [float(row["id"]) for row in rows]
    assert {row["channel"] for row in rows} == {"shop"}
    about = [row["lakeevolve"] for row in rows]
    assert {(a["input_schema_version"], a["reason"]) for a in about} == {(1, "historical"), (2, "live")}
    assert {a["result_version"] for a in about} == {"billing-rows.2"}
    assert {a["event_id"] for a in about} == {None}


def test_running_it_twice_gives_the_same_bytes(lake: Any, tmp_path: Path) -> None:
    names = ("rows.parquet", "quarantine.json")
    one = project(lake.open(), CONTRACT, tmp_path / "one")
    two = project(lake.uri, CONTRACT, tmp_path / "two")
    assert one.digest == two.digest
    first = [(tmp_path / "one" / name).read_bytes() for name in names]
    assert first == [(tmp_path / "two" / name).read_bytes() for name in names]
    project(lake.uri, CONTRACT, tmp_path / "one")
    assert first == [(tmp_path / "one" / name).read_bytes() for name in names]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(names)


def test_rows_of_a_version_that_the_contract_does_not_list_are_held_back(lake: Any, tmp_path: Path) -> None:
    done = project(lake.open(), {**CONTRACT, "accepts": [1]}, tmp_path)
    assert not done.ok
    assert (done.rows, done.versions) == (4, {1: 4})
    assert [(h.version, h.rows, h.verdict) for h in done.held] == [(2, 3, "contract-update-required")]
    assert {row["lakeevolve"]["input_schema_version"] for row in read(tmp_path)} == {1}
    kept = json.loads((tmp_path / "quarantine.json").read_text())
    assert kept["held"][0]["input_schema_version"] == 2
    none = project(lake.open(), {**CONTRACT, "accepts": [9]}, tmp_path)
    assert none.rows == 0
    assert not (tmp_path / "rows.parquet").exists()


def test_a_file_with_a_row_that_the_consumer_cannot_read_is_held_back_whole(lake: Any, tmp_path: Path) -> None:
    name = "total" if lake.format == "iceberg" else "amount"
    current = V2 if lake.format == "iceberg" else [*V1, {"name": "note", "type": ["null", "string"], "default": None}]
    lake.add(current, [{"id": 8, name: None}, {"id": 9, name: 9}])
    strict = record([{"name": "id", "type": "long"}, {"name": "total", "type": "double", "aliases": ["amount"]}])
    done = project(lake.open(), {"contract": "strict", "reader": strict}, tmp_path)
    (held,) = done.held
    assert (held.verdict, held.rows, held.path, held.row) == ("cannot-read", 2, "total", 0)
    assert done.rows == 7


def test_fields_are_enough_of_a_contract_and_event_ids_come_along(disk: Any, tmp_path: Path) -> None:
    lake = disk("iceberg", V3)
    lake.add(V3, [{"id": 1, "total": 5, "event_id": "e-1"}, {"id": 2, "total": None, "event_id": None}])
    fields = [{"path": "id", "required": True}, {"path": "total", "type": ["null", "double"]}]
    project(lake.open(), {"contract": "few", "fields": fields}, tmp_path)
    rows = read(tmp_path)
    assert [sorted(row) for row in rows] == [["id", "lakeevolve", "total"]] * 2
    assert [row["lakeevolve"]["event_id"] for row in rows] == ["e-1", None]
    project(lake.open(), {"contract": "few", "fields": fields, "event_id": "id"}, tmp_path)
    assert [row["lakeevolve"]["event_id"] for row in read(tmp_path)] == ["1", "2"]
    with pytest.raises(ConfigError, match="no field of the schema"):
        project(lake.open(), {"contract": "few", "fields": fields, "event_id": "nope"}, tmp_path / "bad")
    assert not list((tmp_path / "bad").iterdir())


def test_avro_files_are_of_the_version_whose_schema_they_were_written_with(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    unknown = [*V1, {"name": "more", "type": "int"}]
    for name, fields, rows in (
        ("a.avro", V1, [{"id": 1, "amount": 3}]),
        ("b.avro", V2, [{"id": 2, "total": 4}]),
        ("c.avro", unknown, [{"id": 3, "amount": 5, "more": 1}]),
    ):
        with (folder / name).open("wb") as stream:
            fastavro.writer(stream, record(fields), rows)
    done = project(folder, CONTRACT, tmp_path / "out", history=[record(V1), record(V2)])
    assert done.versions == {1: 1, 2: 1}
    assert [(h.source, h.version, h.verdict) for h in done.held] == [("c.avro", None, "contract-update-required")]
    assert [(r["id"], r["total"]) for r in read(tmp_path / "out")] == [(1, 3.0), (2, 4.0)]
    with pytest.raises(SourceError, match="no such file"):
        project(tmp_path / "nothing.avro", CONTRACT, tmp_path / "out")
