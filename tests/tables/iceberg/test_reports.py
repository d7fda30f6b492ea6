"""Public reports about Iceberg tables, each with the right result or a clear refusal."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.table.update import SetCurrentSchemaUpdate

import lakeevolve as le
from lakeevolve.errors import CatalogUnavailable, CommitConflict, PlanBlocked, StalePlan
from lakeevolve.tables.iceberg.catalog import translated
from lakeevolve.tables.iceberg.findings import table_findings

REPORTS = Path(__file__).resolve().parents[3].parent / "shared" / "bugs" / "reports.jsonl"
ALL = ("rewrite", "backfill", "drop")


def rec(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def opt(name: str, type_: Any) -> dict[str, Any]:
    return f(name, ["null", type_], default=None)


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def read(table: Any) -> list[dict[str, Any]]:
    return [row for batch in le.open_table(table.uri).read() for row in batch.to_pylist()]


def refused(table: Any, target: Any, *words: str) -> None:
    plan = le.plan(table, target, mode="NONE")
    assert plan.refused
    assert not plan.applicable
    said = " ".join(step.reason for step in plan.refused)
    assert all(word in said for word in words), said
    with pytest.raises(PlanBlocked):
        le.apply(plan, allow=ALL)


def changed(table: Any, target: Any, **options: Any) -> Any:
    plan = le.plan(table, target, mode="NONE", **options)
    assert le.apply(plan, allow=ALL).ok
    return plan


class Bench:
    """One report as it was told, and a table of its columns."""

    def __init__(self, report: dict[str, Any], workshop: Any, folder: Path, golden: Any) -> None:
        self.report = report
        self.workshop = workshop
        self.folder = folder
        self.golden = golden

    @property
    def before(self) -> Any:
        return self.report["before"]

    @property
    def after(self) -> Any:
        return self.report["after"]

    def table(self, schema: Any, rows: Any = (), **options: Any) -> Any:
        return self.workshop.table(schema, rows, **{"mark": True, **options})


def b001(b: Bench) -> None:
    # A v3 table, where the default of old rows and that of new ones are two things and the latter cannot be null.
    table = b.table(rec("R", f("a", "int")), format_version=2)
    with table.iceberg.update_schema() as update:
        update.add_column("x", iceberg.IntegerType(), default_value=5)
    table.refresh()
    plan = le.plan(table, rec("R", f("a", "int"), f("x", ["null", "int"], default=None)), mode="NONE")
    assert "DEFAULT-IN-METADATA" in {finding.rule for finding in plan.findings}
    le.apply(plan)
    # The default of old rows is not dropped on the way.
    assert le.open_table(table.uri).iceberg.schema().find_field("x").initial_default == 5


def b002(b: Bench) -> None:
    table = b.table(b.before, b.report["data"]["old"])
    plan = le.plan(table, b.after)
    assert [step.route for step in plan.steps] == ["backfill"]
    assert plan.permits == {"backfill"}
    kept_null = le.plan(table, b.after, old_rows="null")
    assert {finding.rule for finding in kept_null.findings} >= {"FIELD-OLD-ROWS-NULL"}
    assert le.apply(plan, allow=ALL).ok
    b.workshop.append(le.open_table(table.uri), b.after, b.report["data"]["new"])
    assert sorted(map(str, read(table))) == ["{'id': 1, 'test': 'toto'}", "{'id': 2, 'test': 'x'}"]


def b007(b: Bench) -> None:
    table = b.table(rec("R", f("id", "long")), [{"id": 1}])
    (step,) = le.plan(table, b.after).steps
    assert (step.route, step.permits) == ("backfill", {"backfill"})
    assert "Iceberg v2 keeps no default" in step.reason


def b033(b: Bench) -> None:
    table = b.table(rec("R", opt("i", "int")), [{"i": 2147483647}])
    for precision in (10, 15):
        target = rec("R", opt("i", logical("bytes", "decimal", precision=precision, scale=5)))
        refused(table, target, "Avro cannot read int as decimal")


def b038(b: Bench) -> None:
    table = b.table(rec("R", f("ts", "long")), [{"ts": 1_700_000_000_000}])
    plan = changed(table, b.after)
    # Never in place: the column's numbers are written anew as instants.
    assert [step.route for step in plan.steps] == ["rewrite"]
    assert read(table) == [{"ts": dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)}]


def b039(b: Bench) -> None:
    refused(b.table(rec("R", opt("x", "int")), [{"x": 5}]), rec("R", opt("x", "string")), "Avro cannot read int")


def b040(b: Bench) -> None:
    local, instant = logical("long", "local-timestamp-micros"), logical("long", "timestamp-micros")
    for old, new in ((local, instant), (instant, local)):
        table = b.workshop.table(rec("R", opt("created_at", old)), name=f"t_{new['logicalType'][:5]}", mark=True)
        refused(table, rec("R", opt("created_at", new)), old["logicalType"], new["logicalType"], "another name")


def b043(b: Bench) -> None:
    table = b.table(b.before, b.report["data"])
    plan = changed(table, b.after)
    # Iceberg does not promote it in place; a rewrite does, within the optional union as without.
    assert [step.route for step in plan.steps] == ["rewrite"]
    assert read(table) == [{"rentable_area_size": 3.0}]


def b046(b: Bench) -> None:
    old = rec("R", f("id", "string"), opt("name", "string"), f("roll_number", "int"))
    table = b.table(old, [{"id": "1", "name": None, "roll_number": 1}])
    changed(table, b.after)
    schema = le.open_table(table.uri).iceberg.schema()
    ids = [number for number in schema.field_ids if number > 3]
    assert ids == sorted(set(ids))
    assert all(isinstance(number, int) for number in ids)
    full = {"street": "a", "city": None, "state": None, "zip": 1}
    b.workshop.append(le.open_table(table.uri), b.after, [{"id": "2", "name": "n", "roll_number": 2, "address": full}])
    assert sorted(read(table), key=lambda row: row["id"])[1]["address"] == full


def b047(b: Bench) -> None:
    row = {
        "order_id": 1,
        "customer": {"customer_id": 2},
        "items": [{"product_id": 3}],
        "metadata": [("k", {"k": "v"})],
    }
    table = b.table(b.before, [row])
    plan = changed(table, b.after)
    added = {change.path for change in plan.changes}
    assert added == {"customer.customer_details", "items[].qty", "metadata{}.v"}
    assert read(table) == [
        {
            "order_id": 1,
            "customer": {"customer_id": 2, "customer_details": None},
            "items": [{"product_id": 3, "qty": None}],
            "metadata": [("k", {"k": "v", "v": None})],
        }
    ]


def b048(b: Bench) -> None:
    table = b.table(b.before, [{"a": [{"x": 1}, {"x": 2}]}])
    plan = changed(table, b.after)
    assert [change.path for change in plan.changes] == ["a[].y"]
    assert read(table) == [{"a": [{"x": 1, "y": None}, {"x": 2, "y": None}]}]


def b057(b: Bench) -> None:
    def schema(items: Any) -> Any:
        return rec("R", opt("entitlements", {"type": "array", "items": items}))

    inner = rec("E", f("x", "string"))
    table = b.table(schema(inner), [{"entitlements": [{"x": "a"}]}])
    plan = changed(table, schema(["null", inner]))
    assert [(type(c).__name__, c.path) for c in plan.changes] == [("MakeOptional", "entitlements[]")]
    b.workshop.append(le.open_table(table.uri), schema(["null", inner]), [{"entitlements": [None]}])
    # The way back is checked against the rows, of which one stands against it.
    back = le.plan(table.uri, schema(inner), mode="NONE")
    with pytest.raises(PlanBlocked):
        le.apply(back)


def b059(b: Bench) -> None:
    table = b.table(rec("R", f("tags", {"type": "array", "items": "string"}), f("x", "int")))
    schema = table.iceberg.schema()
    # The catalog numbers columns as it likes; they are found by name and path.
    assert sorted(schema.field_ids) == [1, 2, 3]
    plan = changed(table, rec("R", f("tags", {"type": "array", "items": ["null", "string"]}), f("x", "long")))
    assert {change.path for change in plan.changes} == {"tags[]", "x"}


def b060(b: Bench) -> None:
    both = rec("R", opt("id", "int"), opt("m", {"type": "map", "values": "int"}))
    table = b.table(both)
    alone = pa.table({"id": pa.array([1], pa.int32())})
    b.workshop.append(table, both, le.fill_defaults(both, alone).to_pylist())
    assert read(table) == [{"id": 1, "m": None}]


def b067(b: Bench) -> None:
    old = rec("R", f("id", "int"), f("trip_id", "int"), f("distance", "int"))
    table = b.table(old, [{"id": 1, "trip_id": 1, "distance": 10}], partition=["bucket(8, trip_id)"])
    with table.iceberg.update_spec() as update:
        update.remove_field("trip_id_bucket")
        update.add_field("distance", "bucket[4]", "distance_bucket")
    table.refresh()
    refused(table, rec("R", f("id", "int"), f("distance", "int")), "partitioned", "rewrite the files")


def b068(b: Bench) -> None:
    old = rec("R", f("a", "int"), f("b", "int"), f("p", "string"))
    table = b.table(old, [{"a": 1, "b": 2, "p": "x"}], partition=["p"])
    refused(
        table, rec("R", f("a", "int"), f("b", "int")), "partition field p", "replace the partition field and rewrite"
    )


def b076(b: Bench) -> None:
    table = b.table(b.before, b.report["data"])
    plan = changed(table, b.after)
    assert [change.path for change in plan.changes] == ["b"]
    assert read(table) == [{"a": 1, "A": 2, "b": None}]


def b077(b: Bench) -> None:
    table = b.table(b.before, [{"A": {"B": 2}}])
    # Avro has no names with dots: the field within the record is the only A.B there can be.
    with pytest.raises(le.errors.SchemaError, match="name"):
        le.load(rec("R", b.before["fields"][0], f("A.B", "int")))
    changed(table, rec("R", b.before["fields"][0], opt("C", "int")))
    assert read(table) == [{"A": {"B": 2}, "C": None}]


def b078(b: Bench) -> None:
    with pytest.raises(le.errors.SchemaError, match="name"):
        le.load(rec("R", f("id", "int"), f("dot", rec("D", f("field", "int"))), f("dot.field", "int")))


def b079(b: Bench) -> None:
    table = b.table(rec("R", f("id", "int")), [{"id": 1}])
    with table.iceberg.update_schema() as update:
        update.add_column(("a.b",), iceberg.IntegerType())
    table.refresh()
    # Another tool made it; here it is one top-level column, which plans leave alone.
    assert len(table.iceberg.schema().columns) == 2
    kept = le.plan(table, rec("R", f("id", "long")), mode="NONE")
    assert "`a.b`" in {change.path for change in kept.changes} or "a.b" in table.foreign


def b087(b: Bench) -> None:
    table = b.table(b.before, [{"u": {"int": 1, "string": None}}, {"u": {"int": None, "string": "a"}}])
    changed(table, rec("R", f("u", ["string", "double", "int"])))
    assert read(table) == [
        {"u": {"string": None, "double": None, "int": 1}},
        {"u": {"string": "a", "double": None, "int": None}},
    ]


def b089(b: Bench) -> None:
    noon = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    table = b.table(b.before, [{"t": noon}])
    assert str(table.iceberg.schema().find_field("t").field_type) == "timestamptz"
    plan = changed(table, rec("R", f("t", logical("long", "timestamp-micros"))))
    assert [step.route for step in plan.steps] == ["metadata"]
    assert read(table) == [{"t": noon}]


def b090(b: Bench) -> None:
    noon = dt.datetime.fromtimestamp(1_723_212_506.326, dt.UTC)
    table = b.table(b.before, [{"id": 1, "dt": noon}])
    assert read(table) == [{"id": 1, "dt": noon}]
    nanos = rec("R", f("id", "int"), opt("dt", logical("long", "timestamp-nanos")))
    plan = le.plan(table, nanos, mode="NONE")
    assert "TABLE-NANOSECONDS" in {finding.rule for finding in plan.findings}
    assert not plan.applicable


def b091(b: Bench) -> None:
    local = rec("R", f("t", logical("long", "timestamp-micros")), f("l", logical("long", "local-timestamp-micros")))
    schema = b.table(local).iceberg.schema()
    assert [str(column.field_type) for column in schema.columns] == ["timestamptz", "timestamp"]


def b092(b: Bench) -> None:
    table = b.table(rec("R", opt("id", "int")))
    one = le.plan(table, rec("R", opt("id", "int"), opt("col1", "int"), opt("col2", "int")))
    other = le.plan(table, rec("R", opt("id", "int"), opt("col1", "int")), mode="NONE")
    le.apply(one)
    with pytest.raises(StalePlan):
        le.apply(other)
    assert [field.name for field in le.open_table(table.uri).schema.fields] == ["id", "col1", "col2"]


def b093(b: Bench) -> None:
    table = b.table(rec("R", opt("id", "int")))
    done = le.apply(le.plan(table, rec("R", opt("id", "int"), opt("a", "int"))))
    # What was committed is read back: the columns of the schema are those of the table.
    assert done.replay is not None
    assert done.ok
    meant = rec("R", opt("id", "int"), opt("a", "int"), opt("b", "int"))
    assert not le.verify(table.uri, against=meant).ok
    assert le.verify(table.uri, against=rec("R", opt("id", "int"), opt("a", "int"))).ok


def b094(b: Bench) -> None:
    table = b.table(rec("R", opt("id", "int")))
    le.apply(le.plan(table, rec("R", opt("id", "int"), opt("x", "int"))))
    table = le.open_table(table.uri)
    table.iceberg._do_commit((SetCurrentSchemaUpdate(schema_id=0),), ())
    found = le.verify(table.uri).findings
    assert [(each.rule, each.path) for each in found] == [("DRIFT-SCHEMA-CHANGED", "x")]


def b095(b: Bench) -> None:
    table = b.table(rec("R", opt("id", "int"), opt("b", "int")))
    plans = [
        le.plan(table, rec("R", opt("id", "int"), opt("b", "int"), opt("a", "int"))),
        le.plan(table, rec("R", opt("id", "int")), mode="NONE"),
    ]
    ends: list[Any] = []

    def run(plan: Any) -> None:
        try:
            ends.append(le.apply(plan, allow=ALL).status)
        except (StalePlan, CommitConflict) as error:
            ends.append(error.exit_code)

    threads = [threading.Thread(target=run, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ends)) == ["4", "applied"]
    assert le.verify(table.uri).ok


def b097(b: Bench) -> None:
    old = rec("R", opt("idx", "long"), opt("ts", logical("long", "local-timestamp-micros")))
    table = b.table(old, [{"idx": 1, "ts": dt.datetime(2024, 1, 1)}])
    new = rec("R", *old["fields"], f("char", "string", default="a"))
    # Schema and data in one commit: the files are written with the schema that is to be.
    plan = changed(table, new)
    assert [step.route for step in plan.steps] == ["backfill"]
    assert read(table) == [{"idx": 1, "ts": dt.datetime(2024, 1, 1), "char": "a"}]
    assert len(le.open_table(table.uri).iceberg.metadata.snapshots) == 2


def b099(b: Bench) -> None:
    table = b.table(rec("R", f("a", "int")))
    le.apply(le.plan(table, rec("R", f("a", "int"), opt("b", "int"))))
    table = le.open_table(table.uri)
    table.iceberg._do_commit((SetCurrentSchemaUpdate(schema_id=0),), ())
    told = le.describe(table.uri).to_json()
    assert (told["pin"]["schema-id"], told["counts"]["schemas"]) == (0, 2)
    assert [column["name"] for column in told["columns"]] == ["a"]


def b106(b: Bench) -> None:
    fields = [opt(f"c{at}", "int") for at in range(300)]
    table = b.table(rec("R", *fields[:200]))
    changed(table, rec("R", *fields))
    # A hundred columns at once make one schema.
    table = le.open_table(table.uri)
    assert len(table.iceberg.metadata.schemas) == 2
    assert not table.findings()
    many = table_findings(
        table.iceberg.metadata.model_copy(update={"schemas": table.iceberg.metadata.schemas * 300}), (), table.uri
    )
    assert [each.rule for each in many] == ["TABLE-MANY-SCHEMAS"]


def b121(b: Bench) -> None:
    with pytest.raises(CatalogUnavailable) as raised, translated("iceberg:prod/shop.orders"):
        raise OSError("When reading information for key 'm.json' in bucket 'lake': AWS Error ACCESS_DENIED: hunter2")
    told = " ".join(raised.value.lines())
    assert "iceberg:prod/shop.orders" in told
    assert "credentials" in told or "access" in told
    assert "hunter2" not in told


def b129(b: Bench) -> None:
    table = b.table(rec("R", opt("name", "string"), opt("my_list", {"type": "array", "items": ["null", "string"]})))
    path = b.folder / "plain.parquet"
    pq.write_table(pa.table({"name": ["one"], "my_list": [["test"]]}), path)
    table.iceberg.add_files([path.as_uri()])
    with table.iceberg.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    result = le.verify(table.uri)
    assert not result.ok
    assert any("no field ids" in str(mismatch) and "name mapping" in str(mismatch) for mismatch in result.mismatches)


HELD: dict[str, Callable[[Bench], None]] = {
    name.upper(): each for name, each in globals().items() if name[:1] == "b" and name[1:].isdigit()
}


def reports() -> dict[str, dict[str, Any]]:
    if not REPORTS.is_file():
        return {}
    found = (json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines())
    return {each["id"]: each for each in found if "ceberg" in json.dumps(each)}


def test_no_report_is_left_out() -> None:
    if not REPORTS.is_file():
        pytest.skip("the reports are not here")
    assert set(HELD) == set(reports())


@pytest.mark.parametrize("number", HELD)
def test_a_report(number: str, workshop: Any, tmp_path: Path, golden: Any) -> None:
    found = reports()
    if number not in found:
        pytest.skip("the reports are not here")
    HELD[number](Bench(found[number], workshop, tmp_path, golden))
