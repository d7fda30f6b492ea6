"""Versioned results for one consumer, of tables and of Avro files."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
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
    assert not (tmp_path / "bad").exists()


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


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Container files of two known versions and of one that nobody knows."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, fields, rows in (
        ("a.avro", V1, [{"id": 1, "amount": 3}, {"id": 2, "amount": None}]),
        ("b.avro", V2, [{"id": 3, "total": 4}]),
        ("c.avro", [*V1, {"name": "more", "type": "int"}], [{"id": 4, "amount": 5, "more": 1}]),
    ):
        with (folder / name).open("wb") as stream:
            fastavro.writer(stream, record(fields), rows)
    versions = tmp_path / "versions"
    versions.mkdir()
    for number, fields in enumerate((V1, V2), 1):
        (versions / f"{number}.avsc").write_text(json.dumps(record(fields)))
    return folder


def held_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_what_is_held_back_is_kept_as_it_was_written_with_the_reason(events: Path, tmp_path: Path) -> None:
    done = le.replay(events, {**CONTRACT, "accepts": [1]}, tmp_path / "out", history=[tmp_path / "versions"])
    assert [(h.version, h.rows) for h in done.held] == [(None, 1), (2, 1)]
    about = {"reason": "contract-update-required", "row": 0}
    assert held_rows(tmp_path / "out" / "quarantine") == [
        {"lakeevolve": {**about, "input_schema_version": None, "source": "c.avro"}, "id": 4, "amount": 5, "more": 1},
        {"lakeevolve": {**about, "input_schema_version": 2, "source": "b.avro"}, "id": 3, "total": 4},
    ]
    assert [(f.rule, f.versions) for f in done.findings] == [
        ("CONTRACT-UPDATE-REQUIRED", ()),
        ("CONTRACT-UPDATE-REQUIRED", (2,)),
    ]
    assert len({f.fingerprint for f in done.findings}) == 2
    again = le.replay(events, CONTRACT, tmp_path / "out", history=[tmp_path / "versions"])
    assert [h.version for h in again.held] == [None]
    assert len(held_rows(tmp_path / "out" / "quarantine")) == 1, "what is accepted now is let go"


def test_held_rows_are_deleted_once_their_time_is_over(events: Path, tmp_path: Path) -> None:
    place = tmp_path / "held"

    def run(day: int) -> Any:
        return project(
            events,
            CONTRACT,
            tmp_path / "out.parquet",
            history=[tmp_path / "versions"],
            quarantine=place,
            keep_days=3,
            today=date(2026, 5, day),
        )

    run(1)
    index = (place / "quarantine.json").read_bytes()
    assert len(held_rows(place)) == 1
    run(4)
    assert (place / "quarantine.json").read_bytes() == index
    assert len(held_rows(place)) == 1
    over = run(5)
    assert [(h.rows, h.since, h.file) for h in over.held] == [(1, date(2026, 5, 1), None)]
    assert held_rows(place) == []
    (events / "c.avro").unlink()
    assert run(6).held == ()
    assert json.loads((place / "quarantine.json").read_text())["held"] == []
    assert not (tmp_path / "out.quarantine").exists()


def test_rows_whose_source_is_gone_stay_in_the_quarantine(events: Path, tmp_path: Path) -> None:
    history = [tmp_path / "versions"]
    project(events, CONTRACT, tmp_path / "out", history=history)
    (events / "c.avro").unlink()
    assert project(events, CONTRACT, tmp_path / "out", history=history).held == ()
    assert len(held_rows(tmp_path / "out" / "quarantine")) == 1
    assert len(json.loads((tmp_path / "out" / "quarantine.json").read_text())["held"]) == 1


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_results_go_into_a_table_once_however_often_it_is_run(events: Path, tmp_path: Path, format_: str) -> None:
    uri = f"{format_}:{tmp_path / 'lake'}/shop.billing"
    more = {"history": [tmp_path / "versions"], "quarantine": tmp_path / "held"}
    one = le.replay(events, CONTRACT, uri, **more)
    first = [row for batch in le.open_table(uri).read() for row in batch.to_pylist()]
    assert le.replay(events, CONTRACT, uri, **more).digest == one.digest
    table = le.open_table(uri)
    assert [row for batch in table.read() for row in batch.to_pylist()] == first
    assert [(row["id"], row["total"]) for row in first] == [(1, 3.0), (2, None), (3, 4.0)]
    assert {row["lakeevolve"]["result_version"] for row in first} == {"billing-rows.2"}
    assert le.verify(table).ok
    with pytest.raises(ConfigError, match="something else than results for other"):
        le.replay(events, {**CONTRACT, "contract": "other"}, uri, history=more["history"], quarantine=tmp_path / "h2")
    le.replay(events, {**CONTRACT, "accepts": [9]}, uri, **more)
    assert sum(batch.num_rows for batch in le.open_table(uri).read()) == 0


def test_only_versions_from_the_one_asked_for_are_read(lake: Any, events: Path, tmp_path: Path) -> None:
    done = le.replay(lake.open(), CONTRACT, tmp_path / "out", since=2)
    assert done.versions == {2: 3}
    done = le.replay(events, CONTRACT, tmp_path / "rows.parquet", history=[tmp_path / "versions"], since=2)
    assert (done.versions, [h.version for h in done.held]) == ({2: 1}, [None])
    for source in (lake.uri, events):
        with pytest.raises(SourceError, match="no schema version 7"):
            le.replay(source, CONTRACT, tmp_path / "out", since=7)
    with pytest.raises(ConfigError, match="knows its schema versions"):
        le.replay(lake.uri, CONTRACT, tmp_path / "out", history=[record(V1)])


def test_what_stands_in_the_way_of_results_is_not_touched(events: Path, tmp_path: Path) -> None:
    history = [tmp_path / "versions"]
    foreign = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"a": [1]}), foreign)
    (tmp_path / "text").write_text("mine")
    (tmp_path / "folder.parquet").mkdir()
    before = foreign.read_bytes()
    for out in (foreign, tmp_path / "text", tmp_path / "folder.parquet", tmp_path / "text" / "below"):
        with pytest.raises(ConfigError):
            le.replay(events, CONTRACT, out, history=history)
    assert foreign.read_bytes() == before
    assert (tmp_path / "text").read_text() == "mine"
    le.replay(events, CONTRACT, tmp_path / "out.parquet", history=history)
    with pytest.raises(ConfigError, match="something else than results for other"):
        le.replay(events, {**CONTRACT, "contract": "other"}, tmp_path / "out.parquet", history=history)
    with pytest.raises(ConfigError, match="need a place"):
        le.replay(events, CONTRACT, f"delta:{tmp_path / 'table'}", history=history)
    assert not (tmp_path / "table").exists()


def test_a_run_that_fails_leaves_the_results_of_the_last_one(events: Path, tmp_path: Path) -> None:
    out, history = tmp_path / "out", [tmp_path / "versions"]
    le.replay(events, CONTRACT, out, history=history)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (events / "b.avro").write_bytes((events / "b.avro").read_bytes()[:-20])
    with pytest.raises(SourceError):
        le.replay(events, CONTRACT, out, history=history)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
