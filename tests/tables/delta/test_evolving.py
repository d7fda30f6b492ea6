"""Every change on a table with old rows: staged, proved, committed, and read back by readers that share no code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.errors import PlanBlocked, TableError
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta
from lakeevolve.tables.base import Predicate

from .conftest import bag, check, evolve, field, info, record, stage

STRUCT = {"type": "record", "name": "Address", "fields": [field("zip", "string"), field("no", ["null", "int"])]}
ENUM = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SHIPPED"], "default": "NEW"}
FIXED = {"type": "fixed", "name": "Code", "size": 4}


def plain(*more: dict[str, Any]) -> Schema:
    return record(field("id", "long"), *more)


def struct(*fields: dict[str, Any], name: str = "Address") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of(value: Any) -> dict[str, Any]:
    return {"type": "array", "items": value}


def by_key(value: Any) -> dict[str, Any]:
    return {"type": "map", "values": value}


#: name -> (before, after, how to plan, the routes expected among those taken)
CASES: dict[str, tuple[Schema, Schema, dict[str, Any], set[str]]] = {
    "an optional field is added": (plain(), plain(field("note", ["null", "string"], default=None)), {}, {"metadata"}),
    "an optional field is added in a struct": (
        plain(field("at", struct(field("zip", "string")))),
        plain(field("at", struct(field("zip", "string"), field("note", ["null", "string"], default=None)))),
        {},
        {"metadata"},
    ),
    "an optional field is added in a list of structs": (
        plain(field("at", of(struct(field("zip", "string"))))),
        plain(field("at", of(struct(field("zip", "string"), field("note", ["null", "int"], default=None))))),
        {},
        {"metadata"},
    ),
    "an optional field is added in a list of lists of structs": (
        plain(field("at", of(of(struct(field("zip", "string")))))),
        plain(field("at", of(of(struct(field("zip", "string"), field("note", ["null", "int"], default=None)))))),
        {},
        {"metadata"},
    ),
    "an optional field is added in the structs of a map": (
        plain(field("at", by_key(struct(field("zip", "string"))))),
        plain(field("at", by_key(struct(field("zip", "string"), field("note", ["null", "int"], default=None))))),
        {},
        {"rewrite"},
    ),
    "a required field is left NULL for old rows": (
        plain(),
        plain(field("n", "int", default=7)),
        {"old_rows": "null"},
        {"metadata"},
    ),
    "a field is added with a default": (plain(), plain(field("n", "int", default=7)), {}, {"backfill"}),
    "a field is added with a default in a list": (
        plain(field("at", of(struct(field("zip", "string"))))),
        plain(field("at", of(struct(field("zip", "string"), field("tags", of("string"), default=["a"]))))),
        {},
        {"backfill"},
    ),
    "a record is added with a default": (
        plain(),
        plain(field("at", STRUCT, default={"zip": "0", "no": None})),
        {},
        {"backfill"},
    ),
    "a field is dropped": (plain(field("n", "int")), plain(), {}, {"rewrite"}),
    "a field is dropped from a struct": (
        plain(field("at", STRUCT)),
        plain(field("at", struct(field("no", ["null", "int"])))),
        {},
        {"rewrite"},
    ),
    "a field is renamed by alias": (
        plain(field("n", "int")),
        plain(field("count", "int", aliases=["n"])),
        {},
        {"metadata", "rewrite"},
    ),
    "a field is renamed by the owner": (
        plain(field("n", "int")),
        plain(field("count", "int")),
        {"renames": {"n": "count"}},
        {"rewrite"},
    ),
    "two fields swap names": (
        plain(field("a", "int"), field("b", "int")),
        plain(field("b", "int", aliases=["a"]), field("a", "int", aliases=["b"])),
        {"renames": {"a": "b", "b": "a"}},
        {"metadata", "rewrite"},
    ),
    "a struct and a field in it are renamed": (
        plain(field("at", STRUCT)),
        plain(field("address", struct(field("code", "string"), field("no", ["null", "int"])), aliases=["at"])),
        {"renames": {"at.zip": "address.code"}},
        {"metadata", "rewrite"},
    ),
    "int becomes long": (plain(field("n", "int")), plain(field("n", "long")), {}, {"rewrite"}),
    "int becomes double in a list and float becomes double in a map": (
        plain(field("l", of("int")), field("m", by_key("float"))),
        plain(field("l", of("double")), field("m", by_key("double"))),
        {},
        {"rewrite"},
    ),
    "long becomes float": (plain(field("n", "long")), plain(field("n", "float")), {}, {"rewrite"}),
    "string becomes bytes": (plain(field("s", "string")), plain(field("s", "bytes")), {}, {"rewrite"}),
    "a field becomes optional": (plain(field("n", "int")), plain(field("n", ["null", "int"])), {}, {"metadata"}),
    "fields become optional at every depth": (
        plain(
            field("at", STRUCT),
            field("l", of(struct(field("x", "int"), name="Item"))),
            field("t", of("string")),
            field("m", by_key(struct(field("y", "int"), name="Value"))),
        ),
        plain(
            field("at", ["null", struct(field("zip", ["null", "string"]), field("no", ["null", "int"]))]),
            field("l", of(["null", struct(field("x", ["null", "int"]), name="Item")])),
            field("t", of(["null", "string"])),
            field("m", by_key(["null", struct(field("y", ["null", "int"]), name="Value")])),
        ),
        {},
        {"metadata"},
    ),
    "fields move": (
        plain(field("a", "int"), field("at", STRUCT)),
        record(
            field("at", struct(field("no", ["null", "int"]), field("zip", "string"))),
            field("id", "long"),
            field("a", "int"),
        ),
        {},
        {"metadata"},
    ),
    "fields move beside a rewrite": (
        plain(field("a", "int"), field("b", "int")),
        record(field("b", "long"), field("id", "long"), field("a", "int")),
        {},
        {"metadata", "rewrite"},
    ),
    "an enum gains a symbol": (
        plain(field("state", ENUM)),
        plain(field("state", {**ENUM, "symbols": ["NEW", "PAID", "SHIPPED", "LOST"]})),
        {},
        {"metadata"},
    ),
    "an enum loses a symbol that rows hold": (
        plain(field("state", ENUM)),
        plain(field("state", {**ENUM, "symbols": ["NEW", "PAID"]})),
        {},
        {"rewrite"},
    ),
    "an enum in a list loses a symbol that rows hold": (
        plain(field("states", of(ENUM))),
        plain(field("states", of({**ENUM, "symbols": ["NEW", "PAID"]}))),
        {},
        {"rewrite"},
    ),
    "a union gains a branch": (
        plain(field("u", ["null", "int", "string"])),
        plain(field("u", ["null", "int", "string", STRUCT])),
        {},
        {"metadata"},
    ),
    "a field becomes a union": (plain(field("u", "int")), plain(field("u", ["int", "string"])), {}, {"rewrite"}),
    "a branch of a union is promoted": (
        plain(field("u", ["int", "string"])),
        plain(field("u", ["long", "string"])),
        {},
        set(),
    ),
    "milliseconds become microseconds": (
        plain(field("t", {"type": "long", "logicalType": "timestamp-millis"})),
        plain(field("t", {"type": "long", "logicalType": "timestamp-micros"})),
        {},
        {"metadata"},
    ),
    "a doc changes": (plain(field("n", "int", doc="old")), plain(field("n", "int", doc="new")), {}, set()),
    "a default changes": (plain(field("n", "int", default=1)), plain(field("n", "int", default=2)), {}, set()),
}


#: Changes that only a marker can tell: a string column does not say which symbols it may hold.
MARKED = {"an enum in a list loses a symbol that rows hold"}


@pytest.mark.parametrize("case", CASES)
def test_old_rows_read_as_the_resolution_says_after(
    case: str, tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    before, after, how, expected = CASES[case]
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before, mark=case in MARKED)
    delta.append(uri, rows(before, 40, 1))
    delta.append(uri, rows(before, 25, 2))
    how = {**how, "renames": how.get("renames", {})}
    attempt = evolve(uri, after, **how)
    if expected:
        assert {can.route for can in attempt.routes.values()} == expected
    table = delta.open(uri)
    assert table.schema == after
    assert table.progress_of("plan-1") == "done"
    delta.append(uri, rows(after, 10, 3))
    check(uri, bag(delta.open(uri).read()))
    assert delta.open(uri).describe()["counts"]["rows"] == 75


EVERYTHING = record(
    field("boolean", "boolean"),
    field("int", "int"),
    field("long", "long"),
    field("float", "float"),
    field("double", "double"),
    field("bytes", "bytes"),
    field("string", "string"),
    field("date", {"type": "int", "logicalType": "date"}),
    field("time_millis", {"type": "int", "logicalType": "time-millis"}),
    field("time_micros", {"type": "long", "logicalType": "time-micros"}),
    field("stamp", {"type": "long", "logicalType": "timestamp-micros"}),
    field("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    field("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    field("decimal", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}),
    field("uuid", {"type": "string", "logicalType": "uuid"}),
    field("fixed", FIXED),
    field("duration", {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"}),
    field("enum", ENUM),
    field("union", ["null", "int", "string", of("long")]),
    field("struct", ["null", STRUCT]),
    field("list", ["null", of(["null", "Address"])]),
    field("map", ["null", by_key(["null", of(["null", "Code"])])]),
    field("deep", by_key(struct(field("l", of(struct(field("e", "State"), name="Inner"))), name="Outer"))),
)


def test_a_rewrite_keeps_every_type_to_the_bit(tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table]) -> None:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, EVERYTHING)
    data = rows(EVERYTHING, 300, 7)
    delta.append(uri, data)
    assert bag(delta.open(uri).read()) == bag(data.to_batches())
    after = record(*[*_fields(EVERYTHING), field("added", "string", default="é'\"\\")])
    evolve(uri, after)
    kept = bag(b.drop_columns(["added"]) for b in delta.open(uri).read())
    assert kept == bag(data.to_batches())


def _fields(schema: Schema) -> list[dict[str, Any]]:
    found = schema.to_json()
    assert isinstance(found, dict)
    return list(found["fields"])


def test_foreign_columns_survive_a_rewrite_and_keep_their_comments(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    folder = tmp_path / "t"
    data = pa.table(
        {
            "n": pa.array([1, 2], pa.int32()),
            "_offset": pa.array([5, None], pa.int16()),
            "_v": pa.array([1, 2], pa.int8()),
        }
    )
    write_deltalake(folder, data)
    DeltaTable(folder).alter.set_column_metadata("_offset", {"comment": "of the topic"})
    uri = f"delta:{folder}"
    evolve(uri, record(field("n", "long"), field("m", "int", default=1)))
    table = delta.open(uri)
    assert table.foreign == ("_offset", "_v")
    found = pa.Table.from_batches(table.read())
    assert found.schema.field("_offset").type == pa.int16()
    assert sorted(found.column("_offset").to_pylist(), key=str) == [5, None]
    schema = json.loads(DeltaTable(folder).schema().to_json())
    assert next(f for f in schema["fields"] if f["name"] == "_offset")["metadata"] == {"comment": "of the topic"}


def test_a_partitioned_table_keeps_its_folders_and_values(
    tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    folder = tmp_path / "t"
    uri = f"delta:{folder}"
    before = record(
        field("day", {"type": "int", "logicalType": "date"}), field("n", "int"), field("region", ["null", "string"])
    )
    delta.create_table(uri, before, partition_by=["region", "day"])
    data = rows(before, 30, 5)
    odd = pa.array(["a b", "é/=%", None, "x'y", "a b"] * 6)
    data = data.set_column(2, "region", odd)
    delta.append(uri, data)
    sources = {f.path.rpartition("/")[0] for f in delta.open(uri).files()}
    evolve(uri, record(*_fields(before)[:1], field("n", "long"), _fields(before)[2]))
    table = delta.open(uri)
    assert {f.path.rpartition("/")[0] for f in table.files()} == sources
    assert table.describe()["partitioning"] == ["region", "day"]
    assert sum(b.num_rows for b in table.read()) == 30


def test_constraints_properties_name_and_identity_survive_a_rewrite(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    folder = tmp_path / "t"
    uri = f"delta:{folder}"
    delta.create_table(
        uri, plain(field("n", "int")), configuration={"delta.enableChangeDataFeed": "true", "owner": "shop"}
    )
    delta.append(uri, pa.table({"id": pa.array([1, 2]), "n": pa.array([1, 2], pa.int32())}))
    DeltaTable(folder).alter.add_constraint({"positive": "id > 0"})
    DeltaTable(folder).alter.set_table_name("orders")
    DeltaTable(folder).alter.set_table_description("all of them")
    before = DeltaTable(folder).metadata()
    evolve(uri, plain(field("n", "long")))
    after = DeltaTable(folder).metadata()
    assert (after.id, after.name, after.description, after.created_time) == (
        before.id,
        before.name,
        before.description,
        before.created_time,
    )
    kept = {k: v for k, v in after.configuration.items() if not k.startswith("lakeevolve.")}
    assert kept == before.configuration
    with pytest.raises(TableError):
        delta.append(uri, pa.table({"id": pa.array([-1]), "n": pa.array([1])}))


def test_new_rows_that_break_a_constraint_stop_the_rewrite(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    folder = tmp_path / "t"
    uri = f"delta:{folder}"
    state = {"type": "enum", "name": "State", "symbols": ["A", "B", "Z"], "default": "A"}
    delta.create_table(uri, plain(field("state", state), field("n", "int")))
    delta.append(uri, pa.table({"id": pa.array([1, 2]), "state": ["B", "Z"], "n": pa.array([1, 2], pa.int32())}))
    target = plain(field("state", state), field("n", "long"), field("m", "int", default=-1))
    attempt = stage(uri, target)
    DeltaTable(folder).alter.add_constraint({"sane": "n >= 0"})
    attempt.staged.abandon()
    # The rule binds n, whose type is to change: refused, and named.
    table = delta.open(uri)
    change = next(c for c, _ in attempt.evolution.changes if c.path == "n")
    found = table.capability(change, attempt.evolution.base, target, {})
    assert found.route == "refuse"
    assert "CHECK constraint sane" in found.reason


def test_a_row_that_breaks_a_rule_on_the_new_data_is_found_before_the_commit(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    folder = tmp_path / "t"
    data = pa.table({"id": pa.array([1, 2]), "s": pa.array(["a", "b"]), "n": pa.array([1, 2], pa.int32())})
    write_deltalake(folder, data)
    DeltaTable(folder).alter.add_constraint({"short": "s <> 'zz'"})
    uri = f"delta:{folder}"
    table = delta.open(uri)
    attempt = stage(
        table, record(field("id", ["null", "long"]), field("s", ["null", "string"]), field("n", ["null", "long"]))
    )
    attempt.staged.abandon()

    def convert(file: Any) -> Any:
        for batch in table.raw(file):
            spoilt = batch.set_column(1, "s", pa.array(["zz"] * batch.num_rows))
            yield spoilt.set_column(2, "n", batch.column("n").cast(pa.int64()))

    from dataclasses import replace

    with pytest.raises(TableError, match="CHECK constraint short"):
        table.stage(replace(attempt.evolution, convert=convert))
    assert sorted(p.name for p in folder.glob("*.parquet")) == sorted(f.path for f in table.files())


def test_a_null_in_a_required_column_stops_the_rewrite(tmp_path: Path) -> None:
    from dataclasses import replace

    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, plain(field("n", ["null", "int"])), mark=True)
    delta.append(uri, pa.table({"id": pa.array([1, 2]), "n": pa.array([1, None], pa.int32())}))
    table = delta.open(uri)
    target = plain(field("n", "int"))
    with pytest.raises(Exception, match="null"):
        stage(table, target)
    found = table.files()
    delta_ = stage(table, plain(field("n", ["null", "long"])))
    delta_.staged.abandon()
    from lakeevolve.model.change import MakeRequired

    required = replace(
        delta_.evolution,
        target=target,
        changes=[(MakeRequired("n", True), "rewrite")],
        rewrite=found,
        convert=lambda file: table.raw(file),
    )
    with pytest.raises(PlanBlocked, match="must not hold nulls") as caught:
        table.stage(required)
    assert caught.value.where == f"{found[0].path}, row 1, n"


def test_a_field_becomes_required_where_no_row_is_null(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, plain(field("n", ["null", "int"]), field("l", of(["null", "string"]))), mark=True)
    delta.append(uri, pa.table({"id": pa.array([1]), "n": pa.array([4], pa.int32()), "l": pa.array([["a"]])}))
    attempt = evolve(uri, plain(field("n", "int"), field("l", of("string"))))
    assert {can.precondition for can in attempt.routes.values()} == {"no-nulls"}
    schema = json.loads(DeltaTable(tmp_path / "t").schema().to_json())
    assert [f["nullable"] for f in schema["fields"]] == [False, False, False]
    assert schema["fields"][2]["type"]["containsNull"] is False


def test_a_sinks_optional_columns_stay_optional(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": pa.array([1]), "n": pa.array([1], pa.int32())}))
    evolve(f"delta:{folder}", record(field("id", "long"), field("n", "long"), field("m", "int", default=3)))
    schema = json.loads(DeltaTable(folder).schema().to_json())
    assert [(f["name"], f["nullable"]) for f in schema["fields"]] == [("id", True), ("n", True), ("m", True)]


def test_a_column_that_was_dropped_comes_back_new(tmp_path: Path) -> None:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, plain(field("n", ["null", "int"])))
    delta.append(uri, pa.table({"id": pa.array([1]), "n": pa.array([4], pa.int32())}))
    evolve(uri, plain())
    evolve(uri, plain(field("n", ["null", "int"], default=None)), plan="plan-2")
    assert pa.Table.from_batches(delta.open(uri).read()).to_pylist() == [{"id": 1, "n": None}]


def test_a_local_timestamp_is_added_where_no_column_is_required(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": pa.array([1, 2])}))
    DeltaTable(folder).alter.add_constraint({"positive": "id > 0"})
    uri = f"delta:{folder}"
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    attempt = evolve(uri, record(field("id", ["null", "long"]), field("at", ["null", local], default=None)))
    assert attempt.routes["AddField at"].permit == "protocol-upgrade"
    found = DeltaTable(folder).protocol()
    assert (found.reader_features, sorted(found.writer_features or [])) == (
        ["timestampNtz"],
        ["checkConstraints", "timestampNtz"],
    )
    # The table now has features: the marker goes where it does not raise the protocol further.
    evolve(
        uri,
        record(field("id", ["null", "long"]), field("at", ["null", local], default=None, aliases=["when"])),
        plan="plan-2",
    )
    assert DeltaTable(folder).protocol().reader_features == ["timestampNtz"]


def test_names_that_avro_does_not_know_are_columns_like_any_other(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    from lakeevolve.model.types import Field, Primitive, Record

    struct = pa.array([{"x y": 1, "é\"'`": "q"}, None])
    data = pa.table({"a b": [1, 2], "c.d": struct, "e=f": ["u", "v/%"], "Ü": [1.5, 2.5]})
    write_deltalake(tmp_path / "t", data, partition_by=["e=f"])
    uri = f"delta:{tmp_path / 't'}"
    root = delta.open(uri).schema.record
    target = Schema(Record(root.name, (*root.fields, Field("lot", Primitive("int"), 7))))
    evolve(uri, target)
    table = delta.open(uri)
    assert table.schema == target
    for path, value in (("`c.d`.`x y`", 1), ("`c.d`.`é\"'```", "q"), ("`e=f`", "v/%"), ("`a b`", 2)):
        assert sum(b.num_rows for b in table.read(predicate=Predicate(path, "=", value))) == 1, path


def test_a_table_without_rows_evolves(tmp_path: Path) -> None:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, plain(field("n", "int")))
    evolve(uri, plain(field("count", "long", aliases=["n"])))
    assert delta.open(uri).schema == plain(field("count", "long", aliases=["n"]))


def test_rows_that_a_deletion_vector_took_stay_away_after_a_rewrite(
    tmp_path: Path, golden: Callable[[str], Path]
) -> None:
    folder = golden("delta_rs__table-with-dv-small")
    uri = f"delta:{folder}"
    evolve(uri, record(field("value", ["null", "long"]), field("n", "int", default=0)))
    table = delta.open(uri)
    assert sorted(b["value"] for batch in table.read() for b in batch.to_pylist()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert info(folder, table.state.position or 0)["lakeevolve.version"] == "2"


def test_two_independent_readers_see_the_evolved_tables(
    tmp_path: Path,
    rows: Callable[[Schema, int, int], pa.Table],
    readers: Callable[[list[str]], dict[str, list[list[dict[str, Any]]]]],
) -> None:
    from deltalake import DeltaTable

    uris = []
    for number, case in enumerate(CASES):
        before, after, how, _ = CASES[case]
        uri = f"delta:{tmp_path / str(number)}"
        delta.create_table(uri, before, mark=case in MARKED)
        delta.append(uri, rows(before, 12, 1))
        stage(uri, after, **{**how, "renames": how.get("renames", {})}).commit()
        uris.append(uri)
    whole = f"delta:{tmp_path / 'whole'}"
    # Delta has no type for a time: others read the number.
    types = record(*(f for f in _fields(EVERYTHING) if not f["name"].startswith("time_")))
    delta.create_table(whole, types)
    delta.append(whole, rows(types, 40, 8))
    stage(whole, record(*_fields(types), field("added", "int", default=5))).commit()
    DeltaTable(whole.removeprefix("delta:")).create_checkpoint()
    uris.append(whole)
    for reader, found in readers([uri.removeprefix("delta:") for uri in uris]).items():
        for uri, theirs in zip(uris, found, strict=True):
            ours = [row for batch in delta.open(uri).read() for row in batch.to_pylist()]
            assert _plain(theirs) == _plain(ours), (reader, uri)


def _plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without what JSON and the readers' own Python types put differently."""
    return sorted(json.dumps(_simple(dict(sorted(row.items()))), sort_keys=True) for row in rows)


def _simple(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"key", "value"}:
            return [value["key"], _simple(value["value"])]
        return {k: _simple(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_simple(v) for v in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value if isinstance(value, (str, int)) or value is None else str(value)
