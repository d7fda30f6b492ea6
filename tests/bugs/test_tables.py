"""Reports about tables of either format: defaults, renames, types, nested fields, nullability, names, writers that
race."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main

from .conftest import (
    ALL,
    apply,
    avro_type,
    changes,
    column,
    read,
    record,
    refused,
    reports,
    routes,
    schema_of,
    table_of,
)


def first(lake: Any, schema: Any, rows: Any, *, mark: bool = True) -> str:
    uri: str = lake.create("t", le.load(schema), table_of(schema, rows), mark=mark)
    return uri


@reports("B002", "B007", "B008")
@pytest.mark.parametrize(
    ("number", "added", "default"), [("B002", "test", "toto"), ("B007", "c", 7), ("B008", "c", "x")]
)
def test_old_rows_read_the_default_of_an_added_column_or_null_where_the_owner_says_so(
    number: str, added: str, default: Any, single: Any, report: Any, lake: Any
) -> None:
    before, after = single(number)
    old = report(number).data["old"]
    uri = first(lake, before, old)
    plan = le.plan(uri, after, mode="NONE")
    (step,) = (s for s in plan.steps if [c.path for c in s.changes] == [added])
    # No format here keeps a default for old rows, and the plan says so.
    assert step.route == "backfill"
    assert "backfill" in step.permits
    if lake.format == "iceberg":
        assert step.permits == plan.permits == {"backfill"}
    assert ("Iceberg v2 keeps no default" if lake.format == "iceberg" else "default") in step.reason
    apply(uri, after)
    assert read(uri) == [{**row, added: default} for row in old]
    new = report(number).data.get("new", [])
    lake.append(uri, table_of(after, new))
    assert read(uri) == sorted([*({**row, added: default} for row in old), *new], key=str)
    other = lake.create("other", le.load(before), table_of(before, old), mark=True)
    plan = apply(other, after, old_rows="null")
    assert "FIELD-OLD-ROWS-NULL" in {finding.rule for finding in plan.findings}
    (step,) = (s for s in plan.steps if [c.path for c in s.changes] == [added])
    assert step.route == "metadata"
    assert "NULL" in step.reason
    assert read(other) == [{**row, added: None} for row in old]


@reports("B019", "B026")
@pytest.mark.parametrize("number", ["B019", "B026"])
def test_a_rename_by_alias_keeps_the_values(number: str, report: Any, lake: Any) -> None:
    before = schema_of(report(number).before)
    old, new = ("old_name", "new_name") if number == "B019" else report(number).after["rename"]
    after = record(*({**f, "name": new, "aliases": [old]} if f["name"] == old else f for f in before["fields"]))
    rows = [{f["name"]: f"v{i}" if "string" in f["type"] else i for i, f in enumerate(before["fields"])}]
    uri = first(lake, before, rows)
    plan = apply(uri, after)
    assert ("RenameField", old) in changes(plan)
    assert not {"AddField", "DropField"} & {kind for kind, _ in changes(plan)}
    assert read(uri) == [{new if name == old else name: value for name, value in row.items()} for row in rows]
    if lake.format == "iceberg":
        assert le.open_table(uri).iceberg.schema().find_field(new).field_id == 1
    else:
        # delta-rs renames nothing itself: the plan says that every file is written anew.
        assert any(s.route == "rewrite" and "written anew" in s.reason for s in plan.steps)


@reports("B021", "B022")
@pytest.mark.parametrize("number", ["B021", "B022"])
def test_a_column_that_is_dropped_and_added_again_is_a_new_one(number: str, report: Any, lake: Any) -> None:
    before = schema_of(report(number).before)
    *kept, dropped = before["fields"]
    kept = kept or [{"name": "key", "type": ["null", "int"], "default": None}]
    before = record(*kept, dropped)
    old = [{**{f["name"]: None for f in kept}, **row} for row in report(number).data["old"]]
    uri = first(lake, before, old)
    apply(uri, record(*kept))
    apply(uri, before)
    assert read(uri) == [{**row, dropped["name"]: None} for row in old]


@reports("B033")
def test_an_integer_becomes_no_decimal(report: Any, lake: Any) -> None:
    before = schema_of(report("B033").before)
    uri = first(lake, before, report("B033").data)
    for told in ("decimal(10,5)", "decimal(15,5)"):
        after = record(column({"name": "i", "type": told, "required": False}))
        assert not le.resolve(before, after).compatible
        refused(uri, after, "Avro cannot read int as decimal" if lake.format == "iceberg" else "decimal")


@reports("B034", "B043")
@pytest.mark.parametrize("number", ["B034", "B043"])
def test_int_to_double_writes_the_files_anew_where_the_format_does_not_promote(
    number: str, single: Any, report: Any, lake: Any
) -> None:
    before, after = single(number)
    (field,) = (f["name"] for f in after["fields"])
    assert le.resolve(before, after).compatible
    uri = first(lake, before, report(number).data)
    plan = apply(uri, after)
    assert routes(plan) == {"rewrite"}
    assert read(uri) == [{field: float(row[field])} for row in report(number).data]


@reports("B035", "B039", "B117", "B130")
@pytest.mark.parametrize("number", ["B035", "B039", "B117", "B130"])
def test_text_and_numbers_are_not_changed_into_each_other(number: str, single: Any, report: Any, lake: Any) -> None:
    before, after = single(number)
    (field,) = after["fields"]
    assert not le.resolve(before, after).compatible
    data = report(number).data
    rows = data["old"] if isinstance(data, dict) else data
    held = [{k: v if "string" in before["fields"][0]["type"] else 5 for k, v in row.items()} for row in rows]
    uri = first(lake, before, held)
    plan = refused(uri, after, "int", "string", *(["Avro cannot read"] if lake.format == "iceberg" else []))
    told = " | ".join(f"{f.path}: {f.message} {f.fix}" for f in plan.findings)
    assert field["name"] in told
    assert read(uri) == held


@reports("B038")
def test_a_number_becomes_an_instant_by_a_rewrite_alone_and_not_unsaid(single: Any, report: Any, lake: Any) -> None:
    before, after = single("B038")
    uri = first(lake, before, report("B038").data)
    optional = record({**after["fields"][0], "type": ["null", after["fields"][0]["type"]], "default": None})
    plan = le.plan(uri, optional)
    assert "rewrite" in routes(plan)
    assert ("TYPE-LOGICAL-REREAD", "warning") in {(f.rule, f.severity) for f in plan.findings}
    with pytest.raises(le.errors.PermitMissing):
        le.apply(plan)
    assert read(uri) == report("B038").data
    instant = [{"ts": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)}]
    apply(uri, optional)
    assert read(uri) == instant
    long = record({**after["fields"][0], "type": "long"})
    required = lake.create("required", le.load(long), table_of(long, report("B038").data), mark=True)
    assert routes(apply(required, after)) == {"rewrite"}
    assert read(required) == instant


@reports("B040")
def test_an_instant_and_a_local_time_are_told_apart(single: Any, lake: Any) -> None:
    before, after = single("B040")
    moment = dt.datetime(2026, 1, 1)
    uri = first(lake, before, [{"created_at": moment}])
    words = ("local-timestamp-micros", "timestamp-micros", "another name")
    refused(uri, after, *words)
    assert read(uri) == [{"created_at": moment}]
    other = lake.create("other", le.load(after), None, mark=True)
    refused(other, before, *words)
    assert not le.resolve(before, after).compatible
    assert not le.resolve(after, before).compatible


@reports("B046")
def test_a_record_is_added_with_fresh_ids_and_comes_back_from_the_catalog(single: Any, report: Any, lake: Any) -> None:
    before, after = single("B046")
    uri = first(lake, before, [{"id": "0", "name": None, "roll_number": 0}])
    apply(uri, after)
    lake.append(uri, table_of(after, report("B046").data))
    address = {"street": "a", "city": None, "state": None, "zip": 1}
    assert read(uri) == [
        {"id": "0", "name": None, "roll_number": 0, "address": None},
        {"id": "1", "name": None, "roll_number": 1, "address": address},
    ]
    assert le.open_table(uri).schema == le.load(after)
    if lake.format == "iceberg":
        schema = le.open_table(uri).iceberg.schema()
        ids = [schema.find_field(name).field_id for name in ("id", "name", "roll_number", "address", "address.zip")]
        assert len(set(ids)) == 5
        assert all(isinstance(number, int) for number in ids)


@reports("B047")
def test_fields_are_added_at_every_depth(single: Any, lake: Any) -> None:
    before, after = single("B047")
    rows = [
        {"order_id": 1, "customer": {"customer_id": 7}, "items": [{"product_id": 1}], "metadata": [("a", {"k": "x"})]},
        {"order_id": 2, "customer": {"customer_id": 8}, "items": [], "metadata": []},
    ]
    uri = first(lake, before, rows)
    plan = apply(uri, after)
    assert sorted(path for kind, path in changes(plan) if kind == "AddField") == [
        "customer.customer_details",
        "items[].qty",
        "metadata{}.v",
    ]
    one, two = read(uri)
    assert one["customer"] == {"customer_id": 7, "customer_details": None}
    assert one["items"] == [{"product_id": 1, "qty": None}]
    assert one["metadata"] == [("a", {"k": "x", "v": None})]
    assert (two["items"], two["metadata"]) == ([], [])


@reports("B048")
def test_a_field_of_list_elements_is_added_once(single: Any, report: Any, lake: Any) -> None:
    before, after = single("B048")
    uri = first(lake, before, [{"a": [{"x": 1}, {"x": 2}, {"x": 3}]}, {"a": [{"x": 4}]}])
    plan = apply(uri, after)
    assert changes(plan) == [("AddField", "a[].y")]
    lake.append(uri, table_of(after, report("B048").data))
    assert report("B048").data[0] in read(uri)
    assert {"a": [{"x": 1, "y": None}, {"x": 2, "y": None}, {"x": 3, "y": None}]} in read(uri)
    assert le.verify(uri, full=True, columns="all").ok


@reports("B050", "B053")
@pytest.mark.parametrize(("number", "field"), [("B050", "gps"), ("B053", "value")])
def test_fields_that_are_added_to_a_record_read_null(number: str, field: str, report: Any, lake: Any) -> None:
    before = schema_of(report(number).before)
    (wider,) = (f for f in schema_of(report(number).after)["fields"] if f["name"] == field)
    after = record(*(wider if f["name"] == field else f for f in before["fields"]))
    held = {"B050": {"key": "k", "gps": {"pitch": 1.0, "roll": None}}, "B053": {"key": 1, "value": {"a": 11}}}[number]
    uri = first(lake, before, [held, {**held, field: None}])
    plan = apply(uri, after)
    assert routes(plan) == {"metadata"}
    assert {kind for kind, _ in changes(plan)} == {"AddField"}
    names = [f["name"] for f in wider["type"][1]["fields"]]
    filled = {name: held[field].get(name) for name in names}
    assert read(uri) == sorted([{**held, field: filled}, {**held, field: None}], key=str)
    if number == "B053":
        lake.append(uri, table_of(after, [{"key": 2, "value": {"a": 1, "b": 12}}]))
        assert {"key": 2, "value": {"a": 1, "b": 12}} in read(uri)


@reports("B057")
def test_elements_may_become_optional_and_back_only_where_none_is_null(lake: Any) -> None:
    inner = avro_type("struct<x:string>", "entitlements")
    strict = record({"name": "entitlements", "type": ["null", {"type": "array", "items": inner}], "default": None})
    loose = record(
        {"name": "entitlements", "type": ["null", {"type": "array", "items": ["null", inner]}], "default": None}
    )
    uri = first(lake, strict, [{"entitlements": [{"x": "a"}]}])
    plan = apply(uri, loose)
    assert changes(plan) == [("MakeOptional", "entitlements[]")]
    assert routes(plan) == {"metadata"}
    lake.append(uri, table_of(loose, [{"entitlements": [None, {"x": "b"}]}]))
    before = read(uri)
    assert before == [{"entitlements": [None, {"x": "b"}]}, {"entitlements": [{"x": "a"}]}]
    back = le.plan(uri, strict, mode="NONE")
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(back, allow=ALL)
    assert read(uri) == before


@reports("B060", "B065")
def test_columns_that_rows_leave_out_or_hold_only_nulls_for_are_null(report: Any, lake: Any) -> None:
    before = schema_of(report("B060").before)
    uri = first(lake, before, [])
    lake.append(uri, pa.table({"id": pa.array([1], pa.int32())}))
    assert read(uri) == [{"id": 1, "m": None}]
    filled = le.fill_defaults(before, pa.table({"id": pa.array([2], pa.int32())}))
    assert filled.to_pylist() == [{"id": 2, "m": None}]
    lake.append(uri, filled)
    assert read(uri) == [{"id": 1, "m": None}, {"id": 2, "m": None}]
    before = schema_of(report("B065").before)
    uri = lake.create("nulls", le.load(before))
    rows = report("B065").data
    lake.append(uri, pa.table({"id": [1], "category": ["A"], "value": pa.nulls(1)}))
    assert read(uri) == rows
    with pytest.raises(le.LakeEvolveError, match="no such column"):
        lake.append(uri, pa.table({"id": [1], "more": pa.nulls(1)}))
    assert le.verify(uri, full=True).ok


@reports("B066")
def test_no_column_is_made_of_nulls_alone(report: Any, lake: Any) -> None:
    before = schema_of(report("B066").before)
    uri = first(lake, before, [{"a": 5, "b": None, "c": None}])
    refused(uri, record(*before["fields"], {"name": "X", "type": "null", "default": None}), "null")


@reports("B076")
def test_names_that_differ_in_case_are_two_columns_or_refused(single: Any, report: Any, lake: Any) -> None:
    before, after = single("B076")
    if lake.format == "delta":
        with pytest.raises(le.LakeEvolveError):
            lake.create("t", le.load(before))
        return
    uri = first(lake, before, report("B076").data)
    plan = apply(uri, after)
    assert changes(plan) == [("AddField", "b")]
    assert read(uri) == [{"a": 1, "A": 2, "b": None}]


@reports("B078", "B079")
def test_a_dot_in_a_name_is_no_path(lake: Any) -> None:
    nested = avro_type("struct<field:int>", "dot")
    schema = record({"name": "id", "type": "int"}, {"name": "dot", "type": nested})
    uri = first(lake, schema, [{"id": 1, "dot": {"field": 2}}])
    before = le.open_table(uri).state
    for name in ("dot.field", "a.b"):
        wrong = record(*schema["fields"], {"name": name, "type": ["null", "int"], "default": None})
        with pytest.raises(le.errors.SchemaError, match="not an Avro name"):
            le.plan(uri, wrong)
    assert le.open_table(uri).state == before


@reports("B087")
def test_a_union_is_a_record_with_a_field_per_branch(single: Any, lake: Any) -> None:
    before, after = single("B087")
    rows = [{"u": {"int": 1, "string": None}}, {"u": {"int": None, "string": "a"}}]
    uri = first(lake, before, rows, mark=True)
    plan = apply(uri, after)
    assert changes(plan) == [("AddBranch", "u")]
    assert routes(plan) == {"metadata"}
    expected = [{"u": {**row["u"], "double": None}} for row in rows]
    assert read(uri) == sorted(expected, key=str)
    turned = record({"name": "u", "type": ["double", "string", "int"]})
    plan = apply(uri, turned)
    assert routes(plan) == {"metadata"}
    assert sorted((sorted(r["u"].items(), key=str) for r in read(uri)), key=str) == sorted(
        (sorted(r["u"].items(), key=str) for r in expected), key=str
    )


@reports("B088")
def test_a_union_that_another_mapping_made_is_no_drop_and_add(single: Any, report: Any, lake: Any) -> None:
    after = report("B088").after
    before = record({"name": "u", "type": avro_type("struct<union_opt_0:int>", "u")})
    uri = first(lake, before, [{"u": {"union_opt_0": 1}}])
    plan = refused(uri, after, "record")
    assert not {"AddField", "DropField"} & {kind for kind, _ in changes(plan)}


@reports("B092", "B093", "B095")
def test_of_two_plans_for_one_state_the_second_is_stale_and_loses_nothing(
    report: Any, lake: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = schema_of(report("B092").before)

    def adding(*names: str) -> Any:
        return record(*before["fields"], *(column({"name": n, "type": "int", "required": False}) for n in names))

    uri = first(lake, before, [{"id": 1}])
    one, same, other = (le.plan(uri, adding(*names)) for names in (("col1", "col2"), ("col1",), ("b",)))
    saved = other.save(tmp_path / "other.json")
    assert le.apply(one).ok
    for stale in (same, other):
        with pytest.raises(le.errors.StalePlan):
            le.apply(stale)
    # What another writer did is told from everything else by the exit code.
    assert main(["apply", str(saved), "--yes"]) == 4
    assert 1 <= len(capsys.readouterr().err.strip().splitlines()) <= 3
    assert read(uri) == [{"id": 1, "col1": None, "col2": None}]
    # Planned again it lands, and what the first did stays.
    assert not le.verify(uri, against=adding("col1", "col2", "b")).ok
    apply(uri, adding("col1", "col2", "b"))
    assert le.verify(uri, against=adding("col1", "col2", "b")).ok
    assert read(uri) == [{"id": 1, "col1": None, "col2": None, "b": None}]
    assert le.plan(uri, adding("col1", "col2", "b")).empty


@reports("B101")
def test_an_old_state_is_read_with_the_schema_that_it_had(report: Any, lake: Any) -> None:
    before = schema_of(report("B101").before)
    uri = first(lake, before, report("B101").data["old"])
    position = le.open_table(uri).state.position
    apply(uri, record(*before["fields"], {"name": "b", "type": "long", "default": 5}))
    assert read(uri) == [{"a": 1, "b": 5}]
    old = f"{uri}@{position}" if lake.format == "iceberg" else f"{uri}@v{position}"
    assert [(f.name, f.type) for f in le.open_table(old).schema.fields] == [
        (f.name, f.type) for f in le.load(before).fields
    ]
    assert read(old) == [{"a": 1}]


@reports("B106")
def test_all_changes_of_a_plan_are_one_new_schema(lake: Any) -> None:
    fields = [{"name": f"c{i}", "type": "int"} for i in range(30)]
    added = [{"name": f"d{i}", "type": ["null", "int"], "default": None} for i in range(100)]
    uri = first(lake, record(*fields), [{f["name"]: 1 for f in fields}])
    table = le.open_table(uri)
    before = len(table.iceberg.metadata.schemas) if lake.format == "iceberg" else table.state.position
    assert le.apply(le.plan(uri, record(*fields, *added))).ok
    table = le.open_table(uri)
    if lake.format == "iceberg":
        assert len(table.iceberg.metadata.schemas) == before + 1
    else:
        # The change, and the copy of the marker that follows it.
        assert table.state.position == before + 2


@reports("B120")
def test_a_drop_needs_a_permit_and_says_who_notices(report: Any, lake: Any) -> None:
    fields = [column(told) for told in report("B120").before["table"]]
    uri = first(lake, record(*fields), [{"id": 1, "dt": dt.date(2026, 1, 1), "val": 3}])
    plan = le.plan(uri, record(*(f for f in fields if f["name"] != "val")), mode="NONE")
    with pytest.raises(le.errors.PermitMissing, match="drop"):
        le.apply(plan, allow=("rewrite", "backfill"))
    (step,) = plan.steps
    assert step.irreversible
    assert any("fail" in text for text in step.readers)
    assert read(uri)[0]["val"] == 3
