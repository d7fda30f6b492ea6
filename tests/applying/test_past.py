"""History: every version with what led to it, and one column through all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.applying.past import Past, Step, every_path, follow, past_of
from lakeevolve.errors import ConfigError
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import Version

Rows = Callable[[Schema, int, int], pa.Table]

ALL = ("rewrite", "backfill", "drop")


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
V1 = record(ID, {"name": "amount", "type": "float"})
V2 = record(ID, {"name": "total", "aliases": ["amount"], "type": "double"})
V3 = record(ID, {"name": "total", "aliases": ["amount"], "type": "double", "doc": "in the order's currency"})
V4 = record(ID)


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 20, 1))
    for target in (V2, V3, V4):
        le.apply(le.plan(uri, target, mode="NONE"), allow=ALL)
    return uri


def test_each_version_says_what_changed_who_made_it_and_what_was_replayed(orders: str) -> None:
    past = past_of(le.open_table(orders))
    assert [(step.version.number, step.by) for step in past.steps] == [
        (1, "first"),
        (2, "plan"),
        (3, "plan"),
        (4, "plan"),
    ]
    assert past.findings == ()
    made = past.to_json()["versions"]
    assert [len(version["changes"]) for version in made][:1] == [0]
    assert any("renamed to total" in change["text"] for change in made[1]["changes"])
    assert [version["ledger"] for version in made] == ["none", "recorded", "recorded", "recorded"]
    assert made[1]["replay"]["rows"] == 20
    assert made[3]["verdicts"]["mode"] == "NONE"
    assert all(version["at"] for version in made[1:])


def test_a_column_is_followed_through_its_renames_up_to_its_drop(orders: str) -> None:
    past = past_of(le.open_table(orders))
    for asked in ("total", "amount"):
        found = follow(past, asked)
        assert [(step.path, step.type) for step in found.steps] == [
            ("amount", "float"),
            ("total", "double"),
            ("total", "double"),
            (None, None),
        ]
        assert any("renamed" in event for event in found.steps[1].events)
        assert any("promoted" in event for event in found.steps[1].events)
        assert found.steps[3].events == ("total is dropped",)
    assert [step.events for step in follow(past, "id").steps] == [()] * 4


def test_what_others_changed_is_drift(lake: Any, rows: Rows, orders: str) -> None:
    later = le.load(record(ID, {"name": "remark", "type": ["null", "string"], "default": None}))
    lake.add_column(orders, "remark")
    past = past_of(le.open_table(orders))
    assert past.steps[-1].by == "others"
    assert [finding.rule for finding in past.findings] == ["DRIFT-SCHEMA-CHANGED"]
    assert past.to_json()["versions"][-1]["drift"] is True
    assert [step.path for step in follow(past, "remark").steps] == [None, None, None, None, "remark"]
    assert later.digest != past.steps[-1].version.digest


def past(*schemas: dict[str, Any], **more: dict[int, Any]) -> Past:
    """A history without a table."""
    steps, before = [], None
    from lakeevolve.applying.ledger import changes_between

    for number, schema in enumerate(schemas, 1):
        version = Version(
            number,
            le.load(schema),
            plan=None if before is None else f"{number:064d}",
            renames=more.get("renames", {}).get(number, {}),
            fresh=frozenset(more.get("fresh", {}).get(number, ())),
            restores=more.get("restores", {}).get(number),
        )
        changes = () if before is None else changes_between(before, version)
        steps.append(Step(version, "first" if before is None else "plan", changes))
        before = version
    return Past("delta:x", tuple(steps))


def inner(name: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": {"type": "record", "name": "Inner", "fields": list(fields)}, **more}


ZIP = {"name": "zip", "type": "int"}


def test_a_nested_column_is_followed_through_the_rename_of_what_encloses_it() -> None:
    found = follow(
        past(
            record(inner("addr", ZIP)),
            record(inner("address", ZIP)),
            record(inner("address", {"name": "postcode", "type": "long", "aliases": ["zip"]})),
            renames={2: {"address": "addr"}, 3: {"address.postcode": "address.zip"}},
        ),
        "address.postcode",
    )
    assert [step.path for step in found.steps] == ["addr.zip", "address.zip", "address.postcode"]


def test_a_table_at_an_earlier_version_is_not_held_against_later_entries(orders: str) -> None:
    table = le.open_table(orders)
    at = table.history()[2].commit
    pinned = f"{orders}@v{at}" if orders.startswith("delta:") else f"{orders}@{table.state.position}"
    assert [finding.rule for finding in past_of(le.open_table(pinned)).findings] == []


def test_a_name_that_was_used_again_for_a_new_column_is_another_column() -> None:
    told = past(record(ID, {"name": "a", "type": "int"}), record(ID), record(ID, {"name": "a", "type": "int"}))
    assert [step.path for step in follow(told, "a").steps] == [None, None, "a"]
    fresh = past(record(ID, {"name": "a", "type": "int"}), record(ID, {"name": "a", "type": "int"}), fresh={2: ("a",)})
    assert [step.path for step in follow(fresh, "a").steps] == [None, "a"]


def test_names_that_change_places_keep_their_columns_apart() -> None:
    told = past(
        record({"name": "a", "type": "int"}, {"name": "b", "type": "string"}),
        record({"name": "b", "type": "int", "aliases": ["a"]}, {"name": "a", "type": "string", "aliases": ["b"]}),
        renames={2: {"b": "a", "a": "b"}},
    )
    assert [step.type for step in follow(told, "a").steps] == ["string", "string"]
    assert [step.path for step in follow(told, "b").steps] == ["a", "b"]


def test_a_table_that_went_back_has_the_columns_of_then_whatever_they_were_called_since() -> None:
    told = past(
        record(ID, {"name": "a", "type": "int"}),
        record(ID, {"name": "b", "type": "int", "aliases": ["a"]}),
        record(ID),
        record(ID, {"name": "a", "type": "int"}),
        record(ID, {"name": "c", "type": "int", "aliases": ["a"]}),
        renames={2: {"b": "a"}, 5: {"c": "a"}},
        restores={4: 1},
    )
    for asked in ("c", "a", "b"):
        assert [step.path for step in follow(told, asked).steps] == ["a", "b", None, "a", "c"]
    assert follow(told, "c").steps[3].events == ("the table went back to version 1",)


def test_a_rollback_is_told_with_what_was_replayed_and_is_held_against_the_marker(orders: str) -> None:
    le.rollback(orders, 2)
    told = past_of(le.open_table(orders))
    assert told.findings == ()
    assert told.steps[-1].by == "rollback"
    assert told.steps[-1].to_json()["replay"]["ok"] is True
    assert [step.path for step in follow(told, "total").steps] == ["amount", "total", "total", None, "total"]


@pytest.mark.parametrize("asked", ["nothing", "", "a..b", "id.x", "[]"])
def test_a_column_that_no_version_has_is_an_error_with_the_nearest(asked: str) -> None:
    with pytest.raises(ConfigError):
        follow(past(record(ID)), asked)


def test_the_nearest_column_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        follow(past(V1, V2), "totl")
    assert caught.value.hint == "did you mean total?"


def test_every_place_of_a_schema_has_its_path() -> None:
    schema = le.load(
        record(
            ID,
            {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
            {"name": "prices", "type": {"type": "map", "values": ["int", "string"]}},
        )
    )
    assert list(every_path(schema.root)) == [
        "id",
        "tags",
        "tags[]",
        "prices",
        "prices{}",
        "prices{}<int>",
        "prices{}<string>",
    ]
