"""A default in two commits, where the owner prefers that to a rewrite: the column first, then an UPDATE."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeevolve as le
from lakeevolve.errors import PartlyApplied, PermitMissing
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta
from lakeevolve.tables.delta import commit as commits

from .conftest import field, info, record

BASE = record(field("id", "long"), field("s", "string"))
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"], "default": "NEW"}
LOT = field("Lot", "int", default=7)


def wider(*more: dict[str, Any]) -> Schema:
    return record(*BASE.to_json()["fields"], *more)  # type: ignore[index]


@pytest.fixture
def uri(two_files: Callable[[Schema], str]) -> str:
    return two_files(BASE)


def live(uri: str) -> DeltaTable:
    return DeltaTable(uri.removeprefix("delta:"))


def log(uri: str) -> list[tuple[str, str | None]]:
    folder = uri.removeprefix("delta:")
    found = [info(folder, version) for version in range(live(uri).version() + 1)]
    return [(each["operation"], each.get("lakeevolve.update")) for each in found]


def values(uri: str, name: str = "Lot") -> set[Any]:
    return {row[name] for batch in delta.open(uri).read() for row in batch.to_pylist()}


def planned(uri: str, target: Schema, *names: str) -> le.Plan:
    return le.plan(uri, target, routes=dict.fromkeys(names or ("Lot",), "metadata"))


def test_a_default_is_a_rewrite_unless_the_owner_asks_for_two_commits(uri: str) -> None:
    assert [(step.route, step.via) for step in le.plan(uri, wider(LOT)).steps] == [
        ("backfill", "overwrite in one commit")
    ]
    (step,) = planned(uri, wider(LOT)).steps
    assert (step.route, step.via, step.permit) == ("metadata", "add_columns, then UPDATE", "backfill")
    assert "between the two they read NULL" in step.reason
    with pytest.raises(PermitMissing, match="backfill"):
        le.apply(planned(uri, wider(LOT)))


def test_old_rows_read_the_default_after_two_commits(uri: str, readers: Any) -> None:
    before = {file.path for file in delta.open(uri).files()}
    plan = planned(uri, wider(LOT))
    done = le.apply(plan, allow=["backfill"])
    assert done.ok
    assert log(uri)[3:] == [("ADD COLUMN", "pending"), ("UPDATE", "done"), ("SET TBLPROPERTIES", None)]
    table = delta.open(uri)
    assert values(uri) == {7}
    assert not before & {file.path for file in table.files()}
    assert [(v.number, v.plan, v.commit) for v in table.history()] == [(1, None, None), (2, plan.digest, 3)]
    assert {file.version for file in table.files()} == {2}
    assert le.verify(uri, full=True, columns="all").ok
    assert le.apply(plan, allow=["backfill"]).status == "already-applied"
    for found in readers([uri.removeprefix("delta:")]).values():
        assert {row["Lot"] for row in found[0]} == {7}
        assert len(found[0]) == 40


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        ("boolean", True, True),
        ("long", -(2**63), -(2**63)),
        ("float", 0.1, 0.10000000149011612),
        ("double", -0.1, -0.1),
        ("string", 'it\'s "é" \\ ; --', 'it\'s "é" \\ ; --'),
        ("bytes", "\u0000\u00ff'", b"\x00\xff'"),
        (STATE, "PAID", "PAID"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0001\u00ff", b"\x01\xff"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}, "\u0001", Decimal("0.01")),
        ({"type": "int", "logicalType": "date"}, -1, dt.date(1969, 12, 31)),
        ({"type": "int", "logicalType": "time-millis"}, 1001, dt.time(0, 0, 1, 1000)),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            -1,
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
        ),
        (
            {"type": "string", "logicalType": "uuid"},
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ),
    ],
)
def test_defaults_of_every_plain_type_reach_old_rows(type_: Any, default: Any, expected: Any, uri: str) -> None:
    assert le.apply(planned(uri, wider(field("Lot", type_, default=default))), allow=["backfill"]).ok
    assert log(uri)[4] == ("UPDATE", "done")
    assert values(uri) == {expected}
    assert le.verify(uri, full=True, columns="all").ok


def test_several_fields_and_texts_go_together(uri: str) -> None:
    target = record(
        field("id", "long", doc="the key"),
        field("s", "string"),
        LOT,
        field("state", STATE, default="PAID"),
        field("note", ["null", "string"], default=None),
    )
    assert le.apply(planned(uri, target, "Lot", "state"), allow=["backfill"]).ok
    assert [said for _, said in log(uri)[3:]] == [None, "pending", "done", None]
    assert (values(uri), values(uri, "state"), values(uri, "note")) == ({7}, {"PAID"}, {None})
    assert le.verify(uri, full=True, columns="all").ok


def test_beside_a_rewrite_the_default_is_part_of_it(uri: str) -> None:
    target = record(field("id", "long"), field("s", "bytes"), LOT)
    assert le.apply(planned(uri, target), allow=["backfill", "rewrite"]).ok
    assert {said for _, said in log(uri)} == {None}
    assert values(uri) == {7}


def test_a_table_without_rows_is_done_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, BASE, mark=True)
    plan = planned(uri, wider(LOT))
    assert le.apply(plan, allow=["backfill"]).ok
    assert delta.open(uri).progress_of(plan.digest) == "done"
    assert delta.open(uri).schema == wider(LOT)


def _stopped(uri: str, monkeypatch: pytest.MonkeyPatch) -> le.Plan:
    """A plan whose apply died between its two commits."""

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    plan = planned(uri, wider(LOT))
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_update", dying)
        with pytest.raises(BaseException):  # noqa: B017, PT011
            le.apply(plan, allow=["backfill"])
    return plan


def test_between_the_two_commits_the_table_is_what_it_was_and_nothing_else_is_planned(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _stopped(uri, monkeypatch)
    table = delta.open(uri)
    assert log(uri)[-1] == ("ADD COLUMN", "pending")
    assert table.progress_of(plan.digest) == "partly"
    assert table.schema == BASE
    assert table.foreign == ()
    assert [v.number for v in table.history()] == [1]
    assert le.verify(uri, full=True).ok
    other = le.plan(uri, record(field("id", "long"), field("s", "bytes")))
    assert "--resume" in other.steps[0].reason
    assert {step.route for step in other.steps} == {"refuse"}


def test_an_apply_that_stopped_between_the_two_is_continued(
    uri: str, monkeypatch: pytest.MonkeyPatch, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    plan = _stopped(uri, monkeypatch)
    with pytest.raises(PartlyApplied):
        le.apply(plan, allow=["backfill"])
    delta.append(uri, rows(BASE, 5, 3))
    assert le.apply(plan, allow=["backfill"], resume=True).ok
    table = delta.open(uri)
    assert table.schema == wider(LOT)
    assert [(v.number, v.plan) for v in table.history()] == [(1, None), (2, plan.digest)]
    assert values(uri) == {7}
    assert sum(batch.num_rows for batch in table.read()) == 45
    assert le.verify(uri, full=True, columns="all").ok
    assert le.apply(plan, allow=["backfill"]).status == "already-applied"


def test_rows_that_come_between_the_two_are_filled_and_keep_what_they_have(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, raced = commits._update, []

    def racing(*how: Any) -> None:
        if not raced:
            raced.append(True)
            delta.append(uri, pa.table({"id": pa.array([100]), "s": ["unaware"]}))
            delta.append(uri, pa.table({"id": pa.array([101]), "s": ["aware"], "Lot": pa.array([9], pa.int32())}))
        real(*how)

    monkeypatch.setattr(commits, "_update", racing)
    assert le.apply(planned(uri, wider(LOT)), allow=["backfill"]).ok
    found = {row["id"]: row["Lot"] for batch in delta.open(uri).read() for row in batch.to_pylist()}
    assert (found[100], found[101]) == (7, 9)
    assert set(found.values()) == {7, 9}
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 42
    assert le.verify(uri, full=True, columns="all").ok


def test_going_back_before_the_column_ends_what_was_pending(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _stopped(uri, monkeypatch)
    live(uri).restore(2)
    table = delta.open(uri)
    assert table.progress_of(plan.digest) != "partly"
    assert table.schema == BASE
    assert {step.route for step in le.plan(uri, wider(field("k", "int", default=1))).steps} == {"backfill"}


def test_an_update_that_leaves_rows_is_not_done(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs counts rows that it did not change, so what counts is the rows themselves."""
    real = DeltaTable.update
    monkeypatch.setattr(DeltaTable, "update", lambda self, *_, **how: real(self, **{**how, "predicate": "id < 0"}))
    with pytest.raises(PartlyApplied, match="hold no value"):
        le.apply(planned(uri, wider(LOT)), allow=["backfill"])


def test_readers_of_the_change_feed_see_rows_change_and_not_go(
    tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, BASE, mark=True, configuration={"delta.enableChangeDataFeed": "true"})
    data = rows(BASE, 10, 1)
    write_deltalake(tmp_path / "t", data.cast(pa.schema(live(uri).schema().to_arrow())), mode="append")
    assert le.apply(planned(uri, wider(LOT)), allow=["backfill"]).ok
    feed = pa.table(live(uri).load_cdf(starting_version=3).read_all())
    assert set(feed.column("_change_type").to_pylist()) == {"update_preimage", "update_postimage"}
