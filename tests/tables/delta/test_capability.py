"""Which route a change takes on which table, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta
from lakeevolve.tables.base import Capability, Fill

from .conftest import evolve, field, record

STATE = {"type": "enum", "name": "State", "symbols": ["A", "B"]}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}


def routes(
    table: delta.Table, base: Schema, target: Schema, fills: Mapping[str, Fill] | None = None, **how: Any
) -> dict[str, Capability]:
    changes = diff(base, target, **how).changes
    found = [(c, table.capability(c, base, target, fills or {})) for c in changes]
    return {f"{type(c).__name__} {c.path}": can for c, can in table.combine(found)}


def made(tmp_path: Path, schema: Schema, **how: Any) -> delta.Table:
    return delta.create_table(f"delta:{tmp_path / 't'}", schema, mark=True, **how)


def plain(*more: dict[str, Any]) -> Schema:
    return record(field("id", "long"), *more)


def test_a_field_without_default_needs_one_or_a_null(tmp_path: Path) -> None:
    base, target = plain(), plain(field("n", "int"))
    table = made(tmp_path, base)
    refused = routes(table, base, target)["AddField n"]
    assert refused.route == "refuse"
    assert "give it a default" in refused.reason
    assert "old_rows" in refused.reason
    assert routes(table, base, target, {"n": "null"})["AddField n"].route == "metadata"


def test_what_delta_has_no_type_for_is_refused_with_the_way_out(tmp_path: Path) -> None:
    base = plain()
    table = made(tmp_path, base)
    for type_, said in (
        ({"type": "long", "logicalType": "timestamp-nanos"}, "micros"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, "38"),
        ("null", "give it a type"),
        ({"type": "record", "name": "Empty", "fields": []}, "give the record a field"),
    ):
        found = routes(table, base, plain(field("n", ["null", type_] if type_ != "null" else type_, default=None)))
        assert found["AddField n"].route == "refuse"
        assert said in found["AddField n"].reason


def test_a_name_that_differs_in_case_only_is_refused(tmp_path: Path) -> None:
    base = plain(field("amount", "int"))
    table = made(tmp_path, base)
    target = plain(field("amount", "int"), field("Amount", ["null", "int"], default=None))
    assert "case only" in routes(table, base, target)["AddField Amount"].reason


def test_the_name_of_a_foreign_column_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(
        folder, pa.table({"id": pa.array([1]), "_offset": pa.array([1]), "small": pa.array([1], pa.int8())})
    )
    table = delta.open(f"delta:{folder}")
    target = plain(field("small", ["null", "int"], default=None))
    base = table.history(hint=target)[-1].schema
    found = routes(table, base, target)
    assert found["AddField small"].route == "refuse"
    assert "no schema owns" in found["AddField small"].reason


def test_partition_columns_keep_what_they_hold(tmp_path: Path) -> None:
    base = record(field("day", "int"), field("n", "int"), field("state", STATE))
    table = made(tmp_path, base, partition_by=["day", "state"])
    for target, how, label in (
        (record(field("day", "long"), field("n", "int"), field("state", STATE)), {}, "PromoteType day"),
        (record(field("n", "int"), field("state", STATE)), {}, "DropField day"),
        (
            record(field("date", "int"), field("n", "int"), field("state", STATE)),
            {"renames": {"day": "date"}},
            "RenameField day",
        ),
    ):
        found = routes(table, base, target, **how)[label]
        assert found.route == "refuse"
        assert "partitioning" in found.reason
    # Texts and other columns are free.
    target = record(
        field("day", "int", doc="a"),
        field("n", "long"),
        field("state", {**STATE, "symbols": ["A", "B", "C"]}),
    )
    assert {c.route for c in routes(table, base, target).values()} == {"metadata", "rewrite"}


def test_append_only_tables_are_not_rewritten(tmp_path: Path) -> None:
    base = plain(field("n", "int"))
    table = made(tmp_path, base, configuration={"delta.appendOnly": "true"})
    found = routes(table, base, plain(field("n", "long")))["PromoteType n"]
    assert found.route == "refuse"
    assert "delta.appendOnly" in found.reason
    optional = plain(field("n", ["null", "int"]), field("m", ["null", "int"], default=None))
    assert {c.route for c in routes(table, base, optional).values()} == {"metadata"}


def test_columns_that_a_constraint_names_are_bound(tmp_path: Path) -> None:
    base = plain(field("n", "int"), field("other", "int"))
    made(tmp_path, base)
    DeltaTable(tmp_path / "t").alter.add_constraint({"sane": "`n` > 0 AND 'other' <> 'x'"})
    table = delta.open(f"delta:{tmp_path / 't'}")
    for target, label in (
        (plain(field("n", "long"), field("other", "int")), "PromoteType n"),
        (plain(field("other", "int")), "DropField n"),
    ):
        found = routes(table, base, target)[label]
        assert found.route == "refuse"
        assert "CHECK constraint sane" in found.reason
    assert routes(table, base, plain(field("n", "int"), field("other", "long")))["PromoteType other"].route == "rewrite"


def test_a_constraint_that_cannot_be_checked_here_refuses_every_rewrite(tmp_path: Path) -> None:
    base = plain(field("n", "int"))
    made(tmp_path, base, configuration={"delta.constraints.odd": "spark_only(id) = 1"})
    table = delta.open(f"delta:{tmp_path / 't'}")
    found = routes(table, base, plain(field("n", "long")))["PromoteType n"]
    assert found.route == "refuse"
    assert "CHECK constraint odd" in found.reason


def test_generated_columns_and_invariants_are_rules_too(tmp_path: Path) -> None:
    import json

    from deltalake import Schema as DeltaSchema

    folder = tmp_path / "t"
    schema = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {
                "name": "n",
                "type": "integer",
                "nullable": True,
                "metadata": {"delta.invariants": json.dumps({"expression": {"expression": "n > 0"}})},
            },
            {"name": "twice", "type": "long", "nullable": True, "metadata": {"delta.generationExpression": "id * 2"}},
            {"name": "free", "type": "integer", "nullable": True, "metadata": {}},
        ],
    }
    DeltaTable.create(folder, DeltaSchema.from_json(json.dumps(schema)))
    write_deltalake(
        folder,
        pa.table({"id": pa.array([1, 2]), "n": pa.array([1, 2], pa.int32()), "free": pa.array([1, 2], pa.int32())}),
        mode="append",
        schema_mode="merge",
    )
    uri = f"delta:{folder}"
    table = delta.open(uri)
    base = table.schema
    optional = [field(f.name, ["null", "long" if f.name in ("id", "twice") else "int"]) for f in base.fields]
    for name, said in (("n", "invariant of n"), ("twice", "generated column twice"), ("id", "generated column twice")):
        target = record(*[f for f in optional if f["name"] != name], name="table")
        found = routes(table, base, target)[f"DropField {name}"]
        assert (found.route, said in found.reason) == ("refuse", True)
    evolve(uri, record(*optional[:3], field("free", ["null", "long"]), name="table"))
    kept = {f["name"]: f["metadata"] for f in json.loads(DeltaTable(folder).schema().to_json())["fields"]}
    assert kept["n"]["delta.invariants"] == schema["fields"][1]["metadata"]["delta.invariants"]  # type: ignore[index]
    assert kept["twice"]["delta.generationExpression"] == "id * 2"


def test_identity_columns_are_refused_by_name(tmp_path: Path) -> None:
    import json

    from deltalake import Schema as DeltaSchema

    schema = {
        "type": "struct",
        "fields": [
            {
                "name": "id",
                "type": "long",
                "nullable": True,
                "metadata": {
                    "delta.identity.start": 1,
                    "delta.identity.step": 1,
                    "delta.identity.allowExplicitInsert": False,
                },
            }
        ],
    }
    DeltaTable.create(tmp_path / "t", DeltaSchema.from_json(json.dumps(schema)))
    table = delta.open(f"delta:{tmp_path / 't'}")
    found = routes(
        table,
        table.schema,
        record(*table.schema.to_json()["fields"], field("n", ["null", "int"], default=None), name="table"),
    )  # type: ignore[index]
    assert "identity columns" in found["AddField n"].reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "int"),
        ("string", "int"),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 5}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        ),
        ("string", STATE),
        ({"type": "array", "items": "int"}, "int"),
    ],
)
def test_a_type_that_avro_cannot_read_as_the_other_is_refused(tmp_path: Path, old: Any, new: Any) -> None:
    base, target = plain(field("n", old)), plain(field("n", new))
    table = made(tmp_path, base)
    assert "refuse" in {c.route for c in routes(table, base, target).values()}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string", "logicalType": "uuid"}, "string"),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            {"type": "long", "logicalType": "local-timestamp-micros"},
        ),
    ],
)
def test_types_that_delta_holds_alike_change_in_the_marker_alone(tmp_path: Path, old: Any, new: Any) -> None:
    base, target = plain(field("n", old)), plain(field("n", new))
    table = made(tmp_path, base)
    found = routes(table, base, target)
    assert {c.route for c in found.values()} <= {"metadata", "refuse"}


def test_a_time_of_milliseconds_becomes_one_of_microseconds_by_rewrite(tmp_path: Path) -> None:
    import datetime as dt

    old = {"type": "int", "logicalType": "time-millis"}
    new = {"type": "long", "logicalType": "time-micros"}
    base, target = plain(field("n", old)), plain(field("n", new))
    made(tmp_path, base)
    uri = f"delta:{tmp_path / 't'}"
    delta.append(uri, pa.table({"id": pa.array([1]), "n": pa.array([dt.time(1, 2, 3, 4000)])}))
    table = delta.open(uri)
    found = routes(table, base, target)
    if {c.route for c in found.values()} == {"refuse"}:
        pytest.skip("Avro has no reading of one as the other")
    evolve(uri, target)
    assert pa.Table.from_batches(delta.open(uri).read()).column("n").to_pylist() == [dt.time(1, 2, 3, 4000)]


def test_a_symbol_goes_by_metadata_where_no_row_holds_it(tmp_path: Path) -> None:
    with_default = {**STATE, "symbols": ["A", "B", "C"], "default": "A"}
    base = plain(field("state", with_default), field("bare", {**STATE, "name": "Bare", "symbols": ["A", "B", "C"]}))
    made(tmp_path, base)
    uri = f"delta:{tmp_path / 't'}"
    target = plain(
        field("state", {**with_default, "symbols": ["A", "C"]}),
        field("bare", {**STATE, "name": "Bare", "symbols": ["A", "C"]}),
    )
    delta.append(uri, pa.table({"id": pa.array([1]), "state": ["A"], "bare": ["B"]}))
    found = routes(delta.open(uri), base, target)
    assert {(c.route, c.precondition) for c in found.values()} == {("metadata", "symbol-unused")}
    delta.append(uri, pa.table({"id": pa.array([2]), "state": ["B"], "bare": ["A"]}))
    found = routes(delta.open(uri), base, target)
    assert {label: c.route for label, c in found.items()} == {
        "DropSymbol state": "rewrite",
        "DropSymbol bare": "metadata",
    }


def test_a_branch_goes_where_no_row_uses_it(tmp_path: Path) -> None:
    base, target = plain(field("u", ["int", "string", "boolean"])), plain(field("u", ["int", "string"]))
    found = routes(made(tmp_path, base), base, target)["DropBranch u"]
    assert (found.route, found.permit, found.precondition) == ("rewrite", "drop", "branch-unused")


def test_a_local_timestamp_is_refused_where_it_would_cost_a_protection(tmp_path: Path) -> None:
    base = plain()
    table = made(tmp_path, base)
    found = routes(table, base, plain(field("at", ["null", LOCAL], default=None)))["AddField at"]
    assert found.route == "refuse"
    assert "NOT NULL" in found.reason
    found = routes(table, base, plain(field("at", LOCAL, default=0)))["AddField at"]
    assert found.route == "refuse"
    assert "timestampNtz" in found.reason


def test_a_new_table_with_local_timestamps_enforces_not_null_and_takes_more(tmp_path: Path) -> None:
    from lakeevolve.errors import TableError

    base = plain(field("at", LOCAL))
    made(tmp_path, base)
    found = DeltaTable(tmp_path / "t").protocol()
    assert found.reader_features == ["timestampNtz"]
    with pytest.raises(TableError):
        delta.append(
            f"delta:{tmp_path / 't'}",
            pa.table({"id": pa.array([None], pa.int64()), "at": pa.array([None], pa.timestamp("us"))}),
        )
    evolve(f"delta:{tmp_path / 't'}", plain(field("at", LOCAL), field("until", ["null", LOCAL], default=None)))
    assert DeltaTable(tmp_path / "t").protocol().reader_features == ["timestampNtz"]


def test_values_of_a_column_that_was_dropped_by_metadata_do_not_come_back(tmp_path: Path) -> None:
    import json

    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": pa.array([1]), "n": pa.array([5], pa.int32())}))
    log = folder / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    metadata = next(a["metaData"] for a in first if "metaData" in a)
    schema = json.loads(metadata["schemaString"])
    schema["fields"] = schema["fields"][:1]
    dropped = {"metaData": {**metadata, "schemaString": json.dumps(schema)}}
    (log / f"{1:020d}.json").write_text(
        json.dumps({"commitInfo": {"timestamp": 1, "operation": "X"}}) + "\n" + json.dumps(dropped) + "\n"
    )
    uri = f"delta:{folder}"
    table = delta.open(uri)
    assert [[f.name for f in v.schema.fields] for v in table.history()] == [["id", "n"], ["id"]]
    target = record(field("id", ["null", "long"]), field("n", ["null", "int"], default=None), name="table")
    found = routes(table, table.schema, target)["AddField n"]
    assert found.route == "rewrite"
    assert "come back" in found.reason
    evolve(uri, target)
    assert pa.Table.from_batches(delta.open(uri).read()).to_pylist() == [{"id": 1, "n": None}]


def test_a_dropped_record_leaves_no_empty_struct(tmp_path: Path) -> None:
    inner = {"type": "record", "name": "In", "fields": [field("a", "int")]}
    base = plain(field("st", inner))
    found = routes(made(tmp_path, base), base, plain(field("st", {**inner, "fields": []})))
    assert {c.route for c in found.values()} == {"refuse"}


def test_only_a_rewrite_needs_files(tmp_path: Path) -> None:
    base = plain(field("n", "int"))
    table = made(tmp_path, base)
    delta.append(table.uri, pa.table({"id": pa.array([1]), "n": pa.array([1], pa.int32())}))
    table.refresh()
    change = diff(base, plain(field("n", "long"))).changes[0]
    assert table.must_rewrite([(change, "metadata")], table.files()) == ()
    assert len(table.must_rewrite([(change, "rewrite")], table.files())) == 1
