"""From changes, capability and findings to steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.errors import PlanError, StalePlan
from lakeevolve.model.change import AddField, RenameField
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Field, Primitive
from lakeevolve.planning.make import plan
from lakeevolve.planning.plan import fills_of, renames_of
from lakeevolve.rules.modes import check

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "amount", "type": "double"},
    ],
}
ADDED = {**BASE, "fields": [*BASE["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(BASE), rows(le.load(BASE), 20, 1))
    return uri


def test_renames_name_the_old_path_also_beneath_a_renamed_record() -> None:
    changes = [RenameField("address", "home"), RenameField("home.zip", "postcode"), RenameField("total", "amount")]
    assert renames_of(changes) == {"home": "address", "home.postcode": "address.zip", "amount": "total"}


def test_a_swap_is_two_renames_of_each_other() -> None:
    assert renames_of([RenameField("a", "b"), RenameField("b", "a")]) == {"b": "a", "a": "b"}


def test_fills_are_chosen_for_all_paths_or_per_path_with_a_star_for_the_rest() -> None:
    changes = [AddField(path, Field(path, Primitive("int")), 0) for path in ("a", "b")]
    assert fills_of(changes, "null") == {"a": "null", "b": "null"}
    assert fills_of(changes, {"a": "null"}) == {"a": "null", "b": "default"}
    assert fills_of(changes, {"*": "null", "b": "default"}) == {"a": "null", "b": "default"}


def test_old_rows_is_default_or_null(orders: str) -> None:
    for wrong in ("zero", {"currency": "zero"}):
        with pytest.raises(le.errors.PlanError):
            le.plan(orders, ADDED, old_rows=wrong)


def test_a_schema_without_columns_is_no_target(orders: str) -> None:
    with pytest.raises(le.errors.PlanError):
        le.plan(orders, '"string"')


def test_a_step_needs_the_permit_of_its_route(orders: str) -> None:
    plan = le.plan(orders, ADDED)
    assert {step.route for step in plan.steps if step.changes} == {"backfill"}
    assert plan.permits == {"backfill"}
    assert plan.total.files == 1
    assert plan.total.rows == 20


def test_a_route_that_is_insisted_on_and_not_possible_is_refused(orders: str) -> None:
    plan = le.plan(orders, ADDED, routes={"currency": "rewrite"})
    assert [step.route for step in plan.steps if step.changes] == ["refuse"]
    assert le.plan(orders, ADDED, routes={"currency": "backfill"}).applicable


def test_the_digest_covers_what_is_approved_and_not_the_estimate(orders: str, lake: Any, rows: Rows) -> None:
    first = le.plan(orders, ADDED)
    lake.append(orders, rows(le.load(BASE), 10, 2))
    second = le.plan(orders, ADDED)
    assert second.total != first.total
    assert second.digest == first.digest
    assert le.plan(orders, ADDED, old_rows="null").digest != first.digest
    assert le.plan(orders, ADDED, mode="FULL").digest != first.digest


def test_a_plan_holds_no_path_of_the_schema_file(orders: str, tmp_path: Any) -> None:
    import json

    file = tmp_path / "target.avsc"
    file.write_text(json.dumps({**ADDED, "fields": [*BASE["fields"], {"name": "currency", "type": "string"}]}))
    plan = le.plan(orders, file)
    assert plan.findings
    assert "target.avsc" not in json.dumps(plan.to_json())


def test_a_mode_that_fails_keeps_the_plan_from_being_applied(orders: str) -> None:
    narrower = {**BASE, "fields": BASE["fields"][:2]}
    assert le.plan(orders, narrower, mode="BACKWARD").applicable
    plan = le.plan(orders, narrower, mode="FORWARD")
    assert not plan.applicable
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(plan, allow=("drop", "rewrite"))


def test_a_waiver_lets_a_finding_pass(orders: str) -> None:
    narrower = {**BASE, "fields": BASE["fields"][:2]}
    failures = le.plan(orders, narrower, mode="FORWARD").failures
    policy = le.Policy(waivers=tuple(le.Waiver(f.fingerprint, "agreed with all readers", "ann") for f in failures))
    plan = le.plan(orders, narrower, mode="FORWARD", policy=policy)
    assert plan.applicable
    assert {finding.fingerprint for finding in plan.findings if finding.waived} == {f.fingerprint for f in failures}


def test_a_table_never_seen_is_taken_for_an_enum_only_if_its_rows_hold_symbols_alone(lake: Any, rows: Rows) -> None:
    text = {**BASE, "fields": [BASE["fields"][0], {"name": "state", "type": "string"}, BASE["fields"][2]]}
    data = rows(le.load(text), 20, 1)
    uri = lake.create("texts", le.load(text), data)
    plan = le.plan(uri, ADDED)
    assert plan.steps[0].precondition == "symbols-known"
    before = le.open_table(uri).state
    with pytest.raises(le.errors.PlanBlocked) as caught:
        le.apply(plan, allow=("backfill",))
    assert "no symbol" in str(caught.value)
    assert le.open_table(uri).state == before

    known = data.set_column(1, "state", pa.array(["NEW", "PAID"] * 10))
    good = lake.create("states", le.load(text), known)
    assert le.apply(le.plan(good, ADDED), allow=("backfill",)).status == "applied"
    assert le.verify(good, full=True).ok


def test_two_plans_for_one_table_end_with_one_of_them_stale(orders: str) -> None:
    other = {**BASE, "fields": [*BASE["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
    first, second = le.plan(orders, ADDED), le.plan(orders, other)
    le.apply(first, allow=("backfill",))
    with pytest.raises(le.errors.StalePlan):
        le.apply(second)


def test_the_owners_word_renames_a_record_of_a_table_never_seen(lake: Any, rows: Rows) -> None:
    def order(address: str, zip_: str) -> dict[str, Any]:
        fields = [{"name": zip_, "type": "int"}, {"name": "city", "type": ["null", "string"], "default": None}]
        record = {"type": "record", "name": "Address", "fields": fields}
        return {**BASE, "fields": [BASE["fields"][0], {"name": address, "type": record}]}

    old, new = order("address", "zip"), order("home", "postcode")
    uri = lake.create("homes", le.load(old), rows(le.load(old), 20, 1))
    plan = le.plan(uri, new, renames=[("address", "home"), ("address.zip", "home.postcode")])
    assert plan.renames == {"home": "address", "home.postcode": "address.zip"}
    assert plan.applicable
    assert le.apply(plan, allow=("rewrite",)).ok
    assert le.verify(uri, full=True).ok
    assert le.open_table(uri).schema == le.load(new)


def test_a_column_that_a_sink_left_optional_stays_so_and_its_rows_are_checked(lake: Any) -> None:
    loose = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "amount", "type": "double"},
            {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        ],
    }
    strict = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "amount", "type": "double"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
    data = pa.Table.from_pylist(
        [{"id": None, "amount": 1.0, "tags": ["a", None]}, {"id": 2, "amount": 2.0, "tags": []}],
        schema=le.arrow_schema(loose),
    )
    bad = lake.create("bad", le.load(loose), data)
    assert [f.path for f in le.plan(bad, strict).failures] == ["id", "tags[]"]
    uri = lake.create("loose", le.load(loose), data.slice(1))
    plan = le.plan(uri, strict)
    assert {step.route for step in plan.steps} == {"metadata"}
    assert [f.path for f in plan.findings if f.rule == "TABLE-COLUMN-OPTIONAL"] == ["id", "tags[]"]
    assert le.apply(plan).ok
    read = pa.Table.from_batches(list(le.open_table(uri).read()))
    assert read["id"].to_pylist() == [2]
    assert le.verify(uri, full=True).ok


def _fields(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


@pytest.mark.parametrize("mark", [False, True], ids=["never seen", "marked"])
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            _fields({"name": "b", "type": "int", "aliases": ["a"]}, {"name": "a", "type": "int", "aliases": ["b"]}),
            {"b": 1, "a": 2},
        ),
        (
            _fields(
                {"name": "b", "type": "int", "aliases": ["a"]},
                {"name": "c", "type": "int", "default": 0, "aliases": ["b"]},
            ),
            {"b": 1, "c": 2},
        ),
    ],
    ids=["swap", "chain"],
)
def test_names_that_change_places_by_alias_take_their_values_along(
    lake: Any, mark: bool, target: dict[str, Any], expected: dict[str, int]
) -> None:
    base = _fields({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    data = pa.Table.from_pylist([{"a": 1, "b": 2}], schema=le.arrow_schema(base))
    uri = lake.create("swapped", le.load(base), data, mark=mark)
    plan = le.plan(uri, target)
    assert [type(c).__name__ for c in plan.changes if not type(c).__name__.startswith("Set")] == ["RenameField"] * 2
    assert le.apply(plan, allow=("rewrite",)).ok
    assert pa.Table.from_batches(list(le.open_table(uri).read())).to_pylist() == [expected]


def test_one_column_for_two_old_ones_is_refused_on_a_table_never_seen(lake: Any) -> None:
    base = _fields({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    data = pa.Table.from_pylist([{"a": 1, "b": 2}], schema=le.arrow_schema(base))
    uri = lake.create("two", le.load(base), data)
    plan = le.plan(uri, _fields({"name": "b", "type": "int", "aliases": ["a"]}))
    assert not plan.applicable


def test_a_plan_over_a_limit_is_not_applied_and_neither_is_one_that_comes_to_be_over_it(
    orders: str, lake: Any, rows: Rows
) -> None:
    plan = le.plan(orders, ADDED, limits={"max_files": 0})
    assert [f.rule for f in plan.failures] == ["POLICY-OVER-LIMIT"]
    small = le.plan(orders, ADDED, limits={"max_rewrite_bytes": 1})
    assert [f.rule for f in small.failures] == ["POLICY-OVER-LIMIT"]
    for each in (plan, small):
        with pytest.raises(le.errors.PlanBlocked):
            le.apply(each, allow=("backfill",))
    fits = le.plan(orders, ADDED, limits={"max_files": 1})
    assert fits.applicable
    lake.append(orders, rows(le.load(BASE), 10, 2))
    for dry in (True, False):
        with pytest.raises(le.errors.PlanBlocked, match="2 files"):
            le.apply(fits, allow=("backfill",), dry_run=dry)
    with pytest.raises(le.errors.PlanError):
        le.plan(orders, ADDED, limits={"max_row": 1})


def test_a_plan_says_what_is_read_and_written_and_what_lies_there_twice(orders: str) -> None:
    stored = sum(file.bytes for file in le.open_table(orders).files())
    cost = {"files": 1, "rows": 20, "bytes": stored}
    estimate = le.plan(orders, ADDED).to_json()["estimate"]
    assert (estimate["read"], estimate["written"], estimate["temporary_bytes"]) == (cost, cost, stored)
    metadata = le.plan(orders, ADDED, old_rows="null").to_json()["estimate"]
    assert metadata["read"] == cost
    assert metadata["written"] == {"files": 0, "rows": 0, "bytes": 0}


def test_a_plan_is_what_its_json_schema_says(orders: str) -> None:
    from lakeevolve.config.conform import faults
    from lakeevolve.planning.schema import PLAN

    record = le.plan(
        orders, ADDED, old_rows={"*": "null"}, policy=le.Policy(severity={"NAME-ALIASES-CHANGED": "off"})
    ).to_json()
    assert list(faults(record, PLAN)) == []
    assert list(faults({**record, "mode": "SOMEHOW"}, PLAN))
    assert list(faults({**record, "more": 1}, PLAN)) == ["$ has an unknown key more"]


def test_a_plan_that_pins_the_data_is_stale_after_an_append_and_the_usual_one_is_not(lake: Any, rows: Any) -> None:
    schema = le.load({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
    target = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    uri = lake.create("pinned", schema, rows(schema, 5, 1))
    usual, strict = plan(uri, target), plan(uri, target, pin="data")
    assert strict.stale() is None
    lake.append(uri, rows(schema, 5, 2))
    assert usual.stale() is None
    assert strict.stale() == "since the plan was made, the table's data changed"
    with pytest.raises(StalePlan):
        le.apply(strict, allow=("rewrite",))
    assert le.apply(plan(uri, target, pin="data"), allow=("rewrite",)).ok


def test_findings_about_the_schema_are_of_the_subject_that_is_named(lake: Any, rows: Any) -> None:
    schema = le.load({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
    target = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
    uri = lake.create("named", schema, rows(schema, 5, 1))
    made = plan(uri, target, subject="orders")
    checked = check(le.load(target), [schema], subject="orders")
    of_plan = {finding.fingerprint for finding in made.findings if finding.rule.startswith("TYPE-")}
    assert of_plan
    assert of_plan == {finding.fingerprint for finding in checked.findings if finding.rule.startswith("TYPE-")}
    assert {finding.subject for finding in made.findings if finding.rule.startswith("ROUTE-")} == {uri}


def test_a_field_may_be_denied_to_be_the_new_name_of_several(lake: Any) -> None:
    nullable = ["null", "int"]
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {**old, "fields": [{"name": name, "type": nullable, "default": None} for name in ("b", "c")]}
    uri = lake.create("denied", le.load(old))
    made = plan(uri, new, mode="NONE", not_renames=[("a", "b"), ("a", "c")])
    assert not [finding for finding in made.findings if "SUSPECTED" in finding.rule]


CONTRACT = {
    "contract": "billing",
    "owner": "finance@shop.example",
    "subject": "orders",
    "fields": [{"path": "amount", "type": "double", "required": True, "meaning": "EUR"}],
    "accepts": [1],
}


def test_contracts_are_judged_by_a_plan_whatever_its_subject_and_are_part_of_it(orders: str, tmp_path: Path) -> None:
    target = {**BASE, "fields": BASE["fields"][:2]}
    (tmp_path / "billing.json").write_text(json.dumps(CONTRACT))
    made = plan(orders, target, mode="NONE", contracts=[tmp_path / "billing.json"])
    told = {finding.rule: finding for finding in made.findings}
    assert told["CONTRACT-FIELD-GONE"].consumers == ("billing",)
    assert "CONTRACT-UPDATE-REQUIRED" in told
    assert not made.applicable
    again = le.load_plan(made.save(tmp_path / "plan.json"))
    assert (again, again.digest) == (made, made.digest)
    assert again.intent()["consumers"] == ["billing"]
    # Of another subject, the contract says nothing.
    assert plan(orders, target, mode="NONE", contracts=[CONTRACT], subject="customers").findings != made.findings


def test_a_plan_whose_contract_was_taken_out_by_hand_is_refused(orders: str) -> None:
    made = plan(orders, {**BASE, "fields": BASE["fields"][:2]}, mode="NONE", contracts=[CONTRACT])
    gone = replace(made, findings=tuple(f for f in made.findings if not f.rule.startswith("CONTRACT-")))
    with pytest.raises(PlanError):
        le.apply(gone, allow=("drop", "rewrite"))
