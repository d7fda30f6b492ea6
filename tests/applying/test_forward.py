"""What a mode promises older readers is replayed on what is staged, before the commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.errors import ReplayMismatch
from lakeevolve.replaying.verify import verify

V1 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    ],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
V3 = {**V2, "fields": [*V2["fields"], {"name": "more", "type": ["null", "int"], "default": None}]}
NARROW = {**V1, "fields": [V1["fields"][0]]}


@pytest.fixture
def orders(lake: Any, rows: Any) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 5, 1), mark=True)
    return uri


def forward(done: Any) -> list[tuple[str, str]]:
    told = done.proof.evidence.to_json()["consumers"]
    return [(each["name"], each["verdict"]) for each in told if each["direction"] == "forward"]


def test_the_versions_that_the_mode_promises_are_replayed(orders: str) -> None:
    assert forward(le.apply(le.plan(orders, V2, mode="BACKWARD"))) == []
    done = le.apply(le.plan(orders, V3, mode="FULL_TRANSITIVE"))
    assert forward(done) == [("version 1", "reads"), ("version 2", "reads")]


def test_an_older_reader_that_cannot_read_what_is_staged_stops_apply(
    orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rules find this before anything is staged; here they miss it.
    monkeypatch.setattr("lakeevolve.applying.apply.refuse_unsound", lambda *_: None)
    before = le.open_table(orders).state
    plan = replace(le.plan(orders, NARROW, mode="NONE"), mode="FORWARD")
    with pytest.raises(ReplayMismatch, match="version 1 cannot read the table"):
        le.apply(plan, allow=plan.permits)
    assert le.open_table(orders).state == before
    assert verify(le.open_table(orders)).ok


def test_versions_whose_breaking_is_waived_are_left_out(orders: str) -> None:
    blocked = le.plan(orders, NARROW, mode="FORWARD")
    waivers = tuple(le.Waiver(found.fingerprint, "agreed", "ann") for found in blocked.failures)
    assert waivers
    plan = le.plan(orders, NARROW, mode="FORWARD", policy=le.Policy(waivers=waivers))
    done = le.apply(plan, allow=plan.permits)
    assert done.ok
    assert forward(done) == []
