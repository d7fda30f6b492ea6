"""A plan is taken at its word in nothing: planning again has to give what it says, or it is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.digest import json_digest
from lakeevolve.model.schema import Schema
from lakeevolve.planning.plan import load_plan

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "old", "type": ["null", "boolean"], "default": None},
    ],
}
TARGET = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "remark", "type": ["null", "string"], "default": None, "aliases": ["note"]},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(BASE), rows(le.load(BASE), 12, 1))
    return uri


def sealed(record: dict[str, Any], file: Path) -> Path:
    """The record as a plan file with the digest of what it holds now."""
    content = {key: value for key, value in record.items() if key not in ("digest", "estimate")}
    file.write_text(json.dumps({**record, "digest": json_digest(content)}))
    return file


def _step(record: dict[str, Any], path: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in record["steps"] for c in s["changes"] if c["path"] == path)
    return found


def without_the_rewrite(record: dict[str, Any]) -> None:
    record["steps"].remove(_step(record, "amount"))


def emptied(record: dict[str, Any]) -> None:
    record["steps"] = []


def lowered(record: dict[str, Any]) -> None:
    _step(record, "amount").update(route="metadata", permit=None, via="metadata")


def blanked(record: dict[str, Any]) -> None:
    _step(record, "old")["permit"] = None


def filled_otherwise(record: dict[str, Any]) -> None:
    record["old_rows"] = "null"


def reversible(record: dict[str, Any]) -> None:
    step = record["steps"][0]
    step["irreversible"] = not step["irreversible"]


def doubled(record: dict[str, Any]) -> None:
    record["steps"].append(copy.deepcopy(record["steps"][0]))


def reordered(record: dict[str, Any]) -> None:
    record["steps"].reverse()


def led_elsewhere(record: dict[str, Any]) -> None:
    record["target"]["schema"]["fields"].pop()
    record["target"]["digest"] = le.load(record["target"]["schema"]).digest


def acquitted(record: dict[str, Any]) -> None:
    record["findings"] = []


EDITS = (
    without_the_rewrite,
    emptied,
    lowered,
    blanked,
    filled_otherwise,
    reversible,
    doubled,
    reordered,
    led_elsewhere,
    acquitted,
)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_plan_is_refused_although_its_digest_fits(
    orders: str, lake: Any, tmp_path: Path, edit: Callable[[dict[str, Any]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    record = le.plan(orders, TARGET, mode="FORWARD_TRANSITIVE" if edit is acquitted else "NONE").to_json()
    edit(record)
    file = sealed(record, tmp_path / "plan.json")
    before = le.open_table(orders).state
    assert main(["apply", str(file), "--yes", *(f"--allow={permit}" for permit in ALL)]) == 2
    assert "planning again" in capsys.readouterr().err
    assert le.open_table(orders).state == before
    assert not list((tmp_path / "state").rglob("*.json"))


def test_a_pin_that_was_edited_is_stale(orders: str, tmp_path: Path) -> None:
    record = le.plan(orders, TARGET, mode="NONE").to_json()
    record["pin"]["more"] = 1
    with pytest.raises(le.errors.StalePlan):
        le.apply(sealed(record, tmp_path / "plan.json"), allow=ALL)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if at or key not in ("digest", "estimate"):
            yield from _places(inner, (*at, key))


_OTHERS: tuple[Any, ...] = (None, True, 0, 7, "", "metadata", "default", "null", "error", [], {}, ["x"], {"x": 1})


@st.composite
def edits(draw: st.DrawFn, record: dict[str, Any]) -> dict[str, Any]:
    """The record with one thing in it changed, taken out, doubled, or put elsewhere."""
    made = copy.deepcopy(record)
    *above, last = draw(st.sampled_from(sorted(_places(record), key=repr)))
    holder: Any = made
    for key in above:
        holder = holder[key]
    how = draw(st.sampled_from(("set", "drop", "double", "swap")))
    if how == "drop":
        del holder[last]
    elif how == "double" and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif how == "swap" and isinstance(holder, list):
        holder.append(holder.pop(last))
    else:
        holder[last] = draw(st.sampled_from(_OTHERS))
    return made


def test_whatever_is_changed_in_a_plan_it_is_refused_or_does_the_same_with_the_same_permits(
    orders: str, tmp_path: Path
) -> None:
    honest = le.plan(orders, TARGET, mode="NONE", routes={"amount": "rewrite"}, renames=[("note", "remark")])
    table = le.open_table(orders)
    before = table.state
    assert le.apply(honest, allow=ALL, table=table, dry_run=True).status == "dry-run"
    record = json.loads(json.dumps(honest.to_json()))

    @settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(edits(record))
    def check(edited: dict[str, Any]) -> None:
        file = sealed(edited, tmp_path / "plan.json")
        try:
            le.apply(file, allow=ALL, table=table, dry_run=True)
        except (le.errors.PlanError, le.errors.TableError, le.errors.ConfigError):
            pass
        else:
            plan = load_plan(file)
            assert (plan.steps, plan.permits, plan.target) == (honest.steps, honest.permits, honest.target)
        assert le.open_table(orders).state == before

    check()


def test_rows_that_came_since_and_lead_to_another_route_make_a_plan_stale(lake: Any) -> None:
    def order(*symbols: str) -> dict[str, Any]:
        state = {"type": "enum", "name": "State", "symbols": list(symbols), "default": symbols[0]}
        return {"type": "record", "name": "Order", "fields": [{"name": "state", "type": state}]}

    base, target = order("NEW", "PAID", "LOST"), order("NEW", "PAID")

    def data(*values: str) -> pa.Table:
        return pa.Table.from_pylist([{"state": value} for value in values], schema=le.arrow_schema(base))

    uri = lake.create("orders", le.load(base), data("NEW", "PAID"), mark=True)
    plan = le.plan(uri, target, mode="NONE")
    lake.append(uri, data("LOST"))
    again = le.plan(uri, target, mode="NONE")
    if {s.route for s in plan.steps} == {s.route for s in again.steps}:
        assert le.apply(plan, allow=ALL).ok
        return
    with pytest.raises(le.errors.StalePlan):
        le.apply(plan, allow=ALL)
    assert le.apply(again, allow=ALL).ok


def test_a_plan_whose_waiver_has_ended_is_blocked(orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def planned() -> Any:
        failures = le.plan(orders, TARGET, mode="FORWARD").failures
        waivers = tuple(le.Waiver(f.fingerprint, "agreed", "ann", date(2999, 1, 1)) for f in failures)
        return le.plan(orders, TARGET, mode="FORWARD", policy=le.Policy(waivers=waivers))

    plan = planned()
    assert plan.applicable
    ended = tuple(replace(waiver, until=date(2020, 1, 1)) for waiver in plan.inputs.policy.waivers)
    plan = replace(plan, inputs=replace(plan.inputs, policy=replace(plan.inputs.policy, waivers=ended)))
    with pytest.raises(le.errors.PlanBlocked, match="ended on 2020-01-01"):
        le.apply(plan, allow=ALL)


def test_a_plan_of_another_version_of_lakeevolve_is_stale(orders: str) -> None:
    with pytest.raises(le.errors.StalePlan, match=r"lakeevolve 0\.0\.1"):
        le.apply(replace(le.plan(orders, TARGET, mode="NONE"), lakeevolve="0.0.1"), allow=ALL)
