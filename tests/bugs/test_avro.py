"""Reports about what Avro says: verdicts, places, aliases, defaults."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import lakeevolve as le

from .conftest import read, record, reports, routes, table_of


@reports("B004")
def test_a_union_with_null_and_no_default_is_said_to_need_one(single: Any) -> None:
    before, after = single("B004")
    found = le.check(after, [before], "BACKWARD")
    assert not found.compatible
    (finding,) = [f for f in found.findings if f.severity == "error"]
    assert finding.path == "newCol"
    assert "default" in finding.fix
    assert "null" in finding.fix


@reports("B005")
def test_the_order_of_null_in_a_union_is_no_change_of_type(single: Any, lake: Any, report: Any) -> None:
    before, after = single("B005")
    assert le.resolve(before, after).compatible
    uri = lake.create("t", le.load(before), table_of(before, report("B005").data))
    plan = le.plan(uri, after)
    assert routes(plan) == {"metadata"}
    columns = {c["name"]: c["type"] for c in le.describe(uri).to_json()["columns"]}
    le.apply(plan)
    after_it = {c["name"]: c["type"] for c in le.describe(uri).to_json()["columns"]}
    assert after_it["rowId"] == columns["rowId"]
    assert read(uri) == [{"rowId": "1", "x": None}]


@reports("B006")
def test_a_required_field_inside_a_record_is_refused_at_its_path(single: Any, lake: Any, report: Any) -> None:
    before, after = single("B006")
    found = le.check(after, [before], "BACKWARD")
    assert not found.compatible
    assert [f.path for f in found.findings if f.severity == "error"] == ["address.country"]
    uri = lake.create("t", le.load(before), table_of(before, report("B006").data))
    plan = le.plan(uri, after, mode="NONE")
    assert routes(plan) == {"refuse"}
    assert "address.country" in str([c.path for s in plan.steps for c in s.changes])
    # The owner may say that old rows are to be NULL, and only then is the column made.
    done = le.apply(le.plan(uri, after, mode="NONE", old_rows={"address.country": "null"}))
    assert done.ok
    assert read(uri) == [{"address": {"street": "a", "country": None}}]


@reports("B010")
def test_null_is_a_default(single: Any) -> None:
    before, after = single("B010")
    assert le.check(after, [before], "BACKWARD").compatible


@reports("B011")
def test_a_missing_default_is_named_with_its_place_and_what_to_add(single: Any) -> None:
    before, after = single("B011")
    (fault,) = le.resolve(before, after).incompatibilities
    assert (fault.kind, fault.location, fault.path) == ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "b")
    found = le.check(after, [before], "BACKWARD")
    assert any("default" in finding.fix for finding in found.findings if finding.path == "b")


@reports("B013")
def test_a_bad_default_is_borne_in_an_old_schema_and_refused_in_a_new_one(single: Any, tmp_path: Path) -> None:
    before, after = single("B013")
    # Avro 1.12 lets a default match any branch, so this one is bad for older implementations alone.
    assert le.check(after, [before], "FULL").compatible
    bad = {**before, "fields": [{**before["fields"][0], "default": 5}]}
    assert le.check(after, [bad], "BACKWARD").compatible
    # In a new schema it is a finding, and an error where a reader needs the default.
    assert ("DEFAULT-INVALID", "a") in {(f.rule, f.path) for f in le.check(bad, [after], "NONE").findings}
    needed = le.check(bad, [{**bad, "fields": []}], "BACKWARD")
    assert not needed.compatible
    assert ("DEFAULT-INVALID", "error") in {(f.rule, f.severity) for f in needed.findings}
    # Files whose headers hold such schemas: written with a good one of the same length.
    good = {**before, "fields": [{**before["fields"][0], "default": None}]}
    stream = io.BytesIO()
    fastavro.writer(stream, good, [{"a": "y"}])
    content = stream.getvalue()
    assert content.count(b'"default": null') == 1
    for number, default in enumerate((b' "x"', b"   5")):
        path = tmp_path / f"old{number}.avro"
        path.write_bytes(content.replace(b'"default": null', b'"default": ' + default))
        assert [row for batch in le.read_avro(path, after) for row in batch.to_pylist()] == [{"a": "y"}]


@reports("B015", "B016")
@pytest.mark.parametrize(("number", "field"), [("B015", "u"), ("B016", "m")])
def test_the_alias_of_a_record_in_a_union_is_honoured(number: str, field: str, single: Any, lake: Any) -> None:
    before, after = single(number)
    assert le.resolve(before, after).compatible
    assert le.check(after, [before], "BACKWARD").compatible
    # Without the alias Avro resolves no record of another name inside a union of several, and says which.
    inner = after["fields"][0]["type"][1]
    bare = {**after, "fields": [{**after["fields"][0], "type": ["null", {**inner, "aliases": []}, "int"]}]}
    wide = {**before, "fields": [{**before["fields"][0], "type": [*before["fields"][0]["type"], "int"]}]}
    assert le.resolve(before, after).compatible
    kinds = {fault.kind for fault in le.resolve(wide, bare).incompatibilities}
    assert kinds <= {"MISSING_UNION_BRANCH", "NAME_MISMATCH"}
    value = {name["name"]: "v" if name["type"] == "string" else 1 for name in inner["fields"]}
    uri = lake.create("t", le.load(before), table_of(before, [{field: value}, {field: None}]), mark=True)
    columns = le.describe(uri).to_json()["columns"]
    plan = le.plan(uri, after)
    assert routes(plan) <= {"metadata"}
    le.apply(plan)
    assert read(uri) == sorted([{field: value}, {field: None}], key=str)
    assert [(c["name"], c["type"]) for c in le.describe(uri).to_json()["columns"]] == [
        (c["name"], c["type"]) for c in columns
    ]


@reports("B018")
def test_an_alias_alone_changes_nothing(single: Any, lake: Any, report: Any) -> None:
    before, after = single("B018")
    assert le.check(after, [before], "FULL").compatible
    uri = lake.create("t", le.load(before), table_of(before, report("B018").data), mark=True)
    plan = le.plan(uri, after, mode="FULL")
    assert routes(plan) == {"metadata"}
    assert {type(c).__name__ for s in plan.steps for c in s.changes} == {"SetAliases"}
    le.apply(plan)
    assert read(uri) == report("B018").data


@reports("B081", "B082")
def test_a_new_symbol_is_forward_incompatible_unless_the_old_enum_has_a_default(single: Any) -> None:
    before, after = single("B081")
    found = le.check(after, [before], "FORWARD")
    assert not found.compatible
    assert {f.kind for f in le.resolve(after, before).incompatibilities} == {"MISSING_ENUM_SYMBOLS"}
    assert le.check(after, [before], "BACKWARD").compatible
    assert le.check(after, [{**before, "default": "A"}], "FORWARD").compatible
    before, after = single("B082")
    assert not le.check(after, [before], "FORWARD").compatible
    (fault,) = le.resolve(after, before).incompatibilities
    assert fault.location == "/fields/0/type/symbols"


@reports("B084")
def test_a_symbol_that_goes_is_backward_incompatible_without_a_default(single: Any) -> None:
    before, after = single("B084")
    assert not le.check(after, [before], "BACKWARD").compatible
    assert le.check({**after, "default": "A"}, [before], "BACKWARD").compatible


@reports("B083")
def test_another_namespace_is_a_remark_and_no_change_of_the_table(single: Any, lake: Any) -> None:
    before, after = single("B083")
    found = le.check(after, [before], "FULL")
    assert found.compatible
    assert found.findings
    assert all(finding.severity != "error" for finding in found.findings)
    rows = [{"id": "1", "email": None}]
    uri = lake.create("t", le.load(before), table_of(before, rows), mark=True)
    plan = le.plan(uri, after, mode="FULL")
    assert routes(plan) <= {"metadata"}
    le.apply(plan)
    assert read(uri) == rows


@reports("B086")
def test_a_branch_that_stands_twice_is_refused_at_its_place(report: Any) -> None:
    with pytest.raises(le.errors.SchemaError, match="LimitTypes") as caught:
        le.load(report("B086").after)
    assert "fields[0].type" in str(caught.value)


@reports("B045")
def test_a_number_is_no_map(single: Any, lake: Any, report: Any) -> None:
    before, after = single("B045")
    (fault,) = le.resolve(before, after).incompatibilities
    assert (fault.kind, fault.location) == ("TYPE_MISMATCH", "/fields/0/type")
    (fault,) = le.resolve(after, before).incompatibilities
    assert fault.kind == "TYPE_MISMATCH"
    uri = lake.create("t", le.load(before), table_of(before, report("B045").data))
    assert "refuse" in routes(le.plan(uri, after, mode="NONE"))


@reports("B089", "B090")
def test_milliseconds_are_scaled_and_the_change_to_microseconds_is_none_for_the_table(
    report: Any, lake: Any, tmp_path: Path
) -> None:
    import datetime as dt

    before = report("B089").before
    path = tmp_path / "millis.avro"
    with path.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(before), report("B089").data)
    instant = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    table = le.read_avro(path).read_all()
    assert table.to_pylist() == [{"t": instant}]
    uri = lake.create("t", le.load(before), table)
    assert read(uri) == [{"t": instant}]
    micros = record({"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}})
    plan = le.plan(uri, micros, mode="NONE")
    assert routes(plan) <= {"metadata"}
    le.apply(plan)
    assert read(uri) == [{"t": instant}]
    path = tmp_path / "dt.avro"
    with path.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(report("B090").before), report("B090").data)
    (row,) = le.read_avro(path).read_all().to_pylist()
    assert row["dt"] == dt.datetime(2024, 8, 9, 14, 8, 26, 326000, tzinfo=dt.UTC)
    before = report("B090").before
    uri = lake.create("instants", le.load(before), pa.Table.from_pylist([row], schema=le.arrow_schema(before)))
    assert read(uri) == [row]
    finer = {"type": "long", "logicalType": "timestamp-nanos"}
    nanos = record(
        *({**f, "type": ["null", finer], "default": None} if f["name"] == "dt" else f for f in before["fields"])
    )
    plan = le.plan(uri, nanos, mode="NONE")
    assert "TABLE-NANOSECONDS" in {finding.rule for finding in plan.findings}
    assert not plan.applicable


@reports("B091")
def test_a_timestamp_is_an_instant_and_a_local_timestamp_is_none(report: Any, lake: Any) -> None:
    before = report("B091").before
    local = {"name": "l", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}
    schema = {**before, "fields": [*before["fields"], local]}
    uri = lake.create("t", le.load(schema))
    types = {c["name"]: c["type"] for c in le.describe(uri).to_json()["columns"]}
    if lake.format == "iceberg":
        assert types == {"t": "timestamptz", "l": "timestamp"}
    else:
        assert types == {"t": "timestamp", "l": "timestamp_ntz"}
