"""The rule table: which change takes which route, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model import change as changes
from lakeevolve.model.diff import diff
from lakeevolve.tables.base import Capability
from lakeevolve.tables.iceberg.capability import capability
from lakeevolve.tables.iceberg.facts import Facts
from lakeevolve.tables.iceberg.types import iceberg_field


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, *fields]}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def rec(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


def facts(avro: Any, **more: Any) -> Facts:
    from itertools import count

    from pyiceberg.schema import Schema as IcebergSchema

    fresh = count(1).__next__
    columns = [iceberg_field(each.name, each.type, each.name, fresh) for each in avro.fields]
    return replace(Facts(2, IcebergSchema(*columns), {}, {}, frozenset()), **more)


def route(old: Any, new: Any, *, fills: Any = None, renames: Any = (), **more: Any) -> list[Capability]:
    base, target = parse(old), parse(new)
    found = diff(base, target, renames)
    return [capability(facts(base, **more), c, base, target, fills or {}, found.renames) for c in found.changes]


def of(was: Any, now: Any, **more: Any) -> list[Capability]:
    """The routes of a change of one field's type, at the top and within a list of records."""
    top = route(record(f("v", was)), record(f("v", now)), **more)
    deep = route(
        record(f("l", {"type": "array", "items": rec("S", f("v", was))})),
        record(f("l", {"type": "array", "items": rec("S", f("v", now))})),
        **more,
    )
    assert [c.route for c in top] == [c.route for c in deep]
    return top


TYPES: list[tuple[Any, Any, str, str | None]] = [
    ("int", "long", "metadata", None),
    ("float", "double", "metadata", None),
    ("int", "float", "rewrite", None),
    ("int", "double", "rewrite", None),
    ("long", "float", "rewrite", None),
    ("long", "double", "rewrite", None),
    ("string", "bytes", "rewrite", None),
    ("bytes", "string", "rewrite", None),
    ("long", "int", "refuse", None),
    ("double", "float", "refuse", None),
    ("int", "string", "refuse", None),
    (decimal(9, 2), decimal(12, 2), "refuse", None),
    (decimal(12, 2), decimal(9, 2), "refuse", None),
    (decimal(9, 2), decimal(12, 4), "refuse", None),
    (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "metadata", None),
    (logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), "refuse", None),
    (logical("long", "timestamp-micros"), logical("long", "local-timestamp-micros"), "refuse", None),
    (logical("int", "time-millis"), logical("long", "time-micros"), "metadata", None),
    ("long", logical("long", "timestamp-micros"), "rewrite", None),
    (logical("long", "timestamp-micros"), "long", "rewrite", None),
    ("int", logical("int", "date"), "rewrite", None),
    ("string", logical("string", "uuid"), "rewrite", "values-valid"),
    (
        {"type": "fixed", "name": "F", "size": 16},
        {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"},
        "rewrite",
        None,
    ),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "refuse", None),
    (logical("long", "timestamp-micros"), logical("long", "timestamp-nanos"), "refuse", None),
    ("string", enum("A"), "refuse", None),
    (enum("A"), "string", "refuse", None),
    ("int", {"type": "array", "items": "int"}, "refuse", None),
    ("string", ["string", "int"], "rewrite", None),
    (["null", "string"], ["null", "string", "int"], "rewrite", None),
    (["string", "int"], "string", "rewrite", "resolves"),
    (["int", "long"], "long", "rewrite", None),
    (["string", "int"], ["string", "int", "boolean"], "metadata", None),
    (["string", "int"], ["null", "string", "int"], "metadata", None),
    (["null", "string", "int"], ["string", "int"], "metadata", "no-nulls"),
    (["string", "int", "boolean"], ["string", "int"], "metadata", "branch-unused"),
    (["string", "int", "long"], ["string", "long"], "rewrite", None),
    (["string", "int"], ["int", "string"], "metadata", None),
    ("int", ["null", "int"], "metadata", None),
    (["null", "int"], "int", "metadata", "no-nulls"),
    (["null", "int"], ["int", "null"], "metadata", None),
    (enum("A", "B"), enum("A", "B", "C"), "metadata", None),
    (enum("A", "B"), enum("B", "A"), "metadata", None),
    (enum("A", "B"), enum("A"), "metadata", "symbol-unused"),
    (enum("A", "B", default="A"), enum("A", default="A"), "rewrite", None),
]


@pytest.mark.parametrize(("was", "now", "wanted", "precondition"), TYPES, ids=lambda each: str(each)[:50])
def test_the_route_of_a_type(was: Any, now: Any, wanted: str, precondition: str | None) -> None:
    found = of(was, now)
    assert {each.route for each in found} == {wanted}
    assert {each.precondition for each in found if each.precondition} == ({precondition} if precondition else set())
    for each in found:
        assert each.reason
        assert each.via
        assert each.permit == (each.route if each.route in ("rewrite", "backfill") else None)


def test_an_added_field_takes_its_route_from_its_default() -> None:
    def add(type_: Any, **more: Any) -> Capability:
        fills = more.pop("fills", None)
        (found,) = route(record(), record(f("c", type_, **more)), fills=fills)
        return found

    assert add(["null", "int"], default=None).route == "metadata"
    assert add(["null", "int"], default=5).route == "backfill"
    assert add("int", default=0).permit == "backfill"
    assert add("int", default=0, fills={"c": "null"}).route == "metadata"
    assert add("int", fills={"c": "null"}).route == "metadata"
    refused = add("int")
    assert refused.route == "refuse"
    for way in ("default", "old_rows", "new table"):
        assert way in refused.reason
    assert add(["null", "int"]).route == "refuse"
    assert add(logical("long", "timestamp-nanos"), default=0).route == "refuse"


def test_a_dropped_field_needs_the_permit_and_cannot_be_undone() -> None:
    (found,) = route(record(f("a", "int"), f("b", "int")), record(f("a", "int")))
    assert (found.route, found.permit, found.irreversible) == ("metadata", "drop", True)


def test_the_last_field_of_a_struct_stays() -> None:
    (found,) = route(record(f("s", rec("S", f("x", "int")))), record(f("s", rec("S"))))
    assert found.route == "refuse"
    swapped = route(
        record(f("s", rec("S", f("x", "int")))), record(f("s", rec("S", f("y", ["null", "int"], default=None))))
    )
    assert {each.route for each in swapped} == {"metadata"}


def test_names_that_differ_in_case_only_are_refused() -> None:
    (added,) = route(record(), record(f("ID", ["null", "int"], default=None)))
    assert added.route == "refuse"
    assert "case" in added.reason
    (renamed,) = [
        each
        for each in route(record(f("a", "int")), record(f("Id", "int", aliases=["a"])))
        if each.via != "table properties"
    ]
    assert renamed.route == "refuse"
    (recased,) = [
        each
        for each in route(record(f("amount", "int")), record(f("Amount", "int", aliases=["amount"])))
        if each.via != "table properties"
    ]
    assert recased.route == "metadata"


def test_a_nested_partition_source_is_found_under_its_old_name() -> None:
    old = record(f("s", rec("S", f("x", "int"), f("y", "int"))))
    new = record(f("t", rec("S", f("y", "int"))))
    column = facts(parse(old)).schema.find_field("s.x").field_id
    found = route(old, new, renames={"s": "t"}, partitioned={column: "x_bucket"})
    refused = [each for each in found if each.route == "refuse"]
    assert len(refused) == 1
    assert "x_bucket" in refused[0].reason


def test_every_change_of_a_v3_table_is_external() -> None:
    old = record(f("a", "int"), f("e", enum("A")))
    new = record(f("a", "long"), f("e", enum("A", "B")), f("c", "string", default="x"), f("d", "int"))
    found = route(old, new, format_version=3)
    assert {each.route for each in found} == {"external", "refuse"}
    assert [each.route for each in found].count("refuse") == 1
    assert all("format version 3" in each.reason for each in found if each.route == "external")
    # A default in the metadata is there for the owner to weigh, with what it does.
    assert any("initial-default" in each.reason and "no filter" in each.reason for each in found)


def test_changes_of_a_v3_table_come_with_their_spark_sql() -> None:
    old = record(
        f("a", "int"),
        f("b", "string"),
        f("l", {"type": "array", "items": rec("S", f("x", "float"), f("y", "int"))}),
        f("o", "int"),
    )
    new = record(
        f("m", {"type": "map", "values": ["null", rec("V", f("q", decimal(9, 2)))]}, default={}),
        f(
            "n",
            ["null", {"type": "map", "values": ["null", rec("W", f("q", decimal(9, 2)))]}],
            default=None,
            doc="it's",
        ),
        f("c", "string", aliases=["b"]),
        f("a", "long", doc="it's"),
        f("l", {"type": "array", "items": rec("S", f("x", "double"))}),
        f("o", ["null", "int"]),
    )
    found = [each.via for each in route(old, new, format_version=3, name="shop.orders")]
    sql = [via.removeprefix("Spark SQL: ") for via in found if via != "Spark SQL"]
    assert sql == [
        "ALTER TABLE shop.orders RENAME COLUMN `b` TO `c`",
        "ALTER TABLE shop.orders ALTER COLUMN `a` AFTER `c`",
        "ALTER TABLE shop.orders ADD COLUMN `n` MAP<STRING, STRUCT<`q`: DECIMAL(9, 2)>> COMMENT 'it\\'s' AFTER `m`",
        "ALTER TABLE shop.orders ALTER COLUMN `a` COMMENT 'it\\'s'",
        "ALTER TABLE shop.orders ALTER COLUMN `a` TYPE BIGINT",
        "ALTER TABLE shop.orders DROP COLUMN `l`.element.`y`",
        "ALTER TABLE shop.orders ALTER COLUMN `l`.element.`x` TYPE DOUBLE",
        "ALTER TABLE shop.orders ALTER COLUMN `o` DROP NOT NULL",
    ]


@pytest.mark.parametrize(
    ("hindrance", "reason", "else_"),
    [
        ({"equality_deletes": True}, "does not say which columns", "refuse"),
        ({"equality_deletes": True, "equality_ids": frozenset({1})}, "equality deletes", "metadata"),
        ({"formats": frozenset({"ORC", "PARQUET"})}, "ORC", "refuse"),
        ({"branches": ("audit",)}, "audit", "metadata"),
    ],
)
def test_what_hinders_reading_the_rows_hinders_every_change_and_what_lies_elsewhere_those_that_need_it(
    hindrance: Any, reason: str, else_: str
) -> None:
    old = record(f("a", ["null", "int"]), f("b", "int"))
    new = record(f("a", "int"), f("b", "double"), f("c", "string", default="x"))
    found = route(old, new, **hindrance)
    assert {each.route for each in found} == {"refuse"}
    assert all(reason in each.reason for each in found)
    new = record(f("a", ["null", "long"]), f("b", "int"), f("c", ["null", "int"], default=None))
    assert {each.route for each in route(old, new, **hindrance)} == {else_}


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [
        (f("v", "int"), f("w", "int", aliases=["v"]), None),
        (f("v", "int"), f("v", "int", doc="a count"), None),
        (f("v", "int"), f("v", ["null", "int"]), None),
        (f("v", "int"), f("v", "long"), None),
        (f("v", enum("A")), f("v", enum("A", "B")), None),
        (f("s", rec("S", f("k", "int"))), f("s", rec("S", f("k", "int"), f("n", ["null", "int"], default=None))), None),
        (f("v", "int"), None, None),
        (f("v", ["null", "int"]), f("v", "int"), "depends on what they hold"),
        (f("v", enum("A", "B")), f("v", enum("A")), "depends on what they hold"),
        (f("v", ["null", "int"]), f("v", ["null", "string"]), "cannot read"),
        (f("v", "int"), f("v", "double"), "writes them anew"),
        (None, f("v", "int", default=1), "writes them anew"),
    ],
)
def test_over_equality_deletes_only_what_needs_no_row_goes_on(was: Any, now: Any, reason: str | None) -> None:
    old, new = (record(*[each] if each is not None else []) for each in (was, now))
    found = route(old, new, equality_deletes=True, equality_ids=frozenset({1}))
    assert found
    assert {each.route for each in found} == {"metadata" if reason is None else "refuse"}
    assert all(reason in each.reason for each in found if reason is not None)


@pytest.mark.parametrize("key", [f("key", "int"), f("s", rec("S", f("key", "int")))])
@pytest.mark.parametrize(
    "made",
    [
        lambda key: {**key, "doc": "by this"},
        lambda key: {**key, "name": "other", "aliases": [key["name"]]},
        lambda key: {**key, "type": ["null", key["type"]]},
        lambda key: {**key, "type": "long"} if key["type"] == "int" else {**key, "type": rec("S", f("key", "long"))},
        lambda _key: None,
    ],
)
def test_what_equality_deletes_compare_rows_by_stays_as_it_is(key: Any, made: Any) -> None:
    base = parse(record(f("v", "int"), key))
    schema = facts(base).schema
    (number,) = (each for each in schema.field_ids if str(schema.find_column_name(each)).endswith("key"))
    changed = made(key)
    new = record(f("v", "int"), *([changed] if changed is not None else []))
    found = route(record(f("v", "int"), key), new, equality_deletes=True, equality_ids=frozenset({number}))
    assert {each.route for each in found} == {"refuse"}
    assert all("(the equality key), which has to stay as it is" in each.reason for each in found)
    # Beside the key, the same is free.
    beside = record(f("w", "int", aliases=["v"]), key)
    (one,) = route(record(f("v", "int"), key), beside, equality_deletes=True, equality_ids=frozenset({number}))[:1]
    assert one.route == "metadata"


def test_a_symbol_of_a_partition_column_is_only_checked() -> None:
    old, new = record(f("e", enum("A", "B", default="A"))), record(f("e", enum("A", default="A")))
    (found,) = route(old, new, partitioned={2: "e"})
    assert (found.route, found.precondition) == ("metadata", "symbol-unused")


def test_every_kind_of_change_has_a_route() -> None:
    old = record(f("x", "int"))
    base = parse(old)
    made = {
        changes.AddField: changes.AddField("y", base.fields[1], 2),
        changes.DropField: changes.DropField("x", base.fields[1], 1),
        changes.RenameField: changes.RenameField("x", "y"),
        changes.MoveField: changes.MoveField("x", 1, 0),
        changes.PromoteType: changes.PromoteType("x", base.fields[1].type, parse("long").root),
        changes.ChangeLogicalType: changes.ChangeLogicalType(
            "x", base.fields[1].type, parse(logical("int", "date")).root
        ),
        changes.ReplaceType: changes.ReplaceType("x", base.fields[1].type, parse("string").root),
        changes.MakeOptional: changes.MakeOptional("x", True),
        changes.MakeRequired: changes.MakeRequired("x", True),
        changes.AddBranch: changes.AddBranch("x", parse("string").root, 1),
        changes.DropBranch: changes.DropBranch("x", parse("string").root, 1),
        changes.ReorderBranches: changes.ReorderBranches("x", (1, 0)),
        changes.AddSymbol: changes.AddSymbol("x", "A", 0),
        changes.DropSymbol: changes.DropSymbol("x", "A", 0),
        changes.ReorderSymbols: changes.ReorderSymbols("x", ("A", "B"), ("B", "A")),
        changes.SetEnumDefault: changes.SetEnumDefault("x", None, "A"),
        changes.SetDefault: changes.SetDefault("x", 1, 2),
        changes.SetDoc: changes.SetDoc("x", None, "d"),
        changes.SetAliases: changes.SetAliases("x", (), ("y",)),
        changes.SetProperties: changes.SetProperties("x", {}, {"a": 1}),
        changes.SetOrder: changes.SetOrder("x", None, "ignore"),
        changes.RenameType: changes.RenameType("x", "A", "B"),
    }
    assert set(made) == set(get_args(changes.Change))
    for change in made.values():
        assert capability(facts(base), change, base, base, {}).reason
