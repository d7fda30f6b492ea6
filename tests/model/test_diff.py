from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.errors import ConfigError
from lakeevolve.model.apply import apply_changes
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    AddSymbol,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropField,
    DropSymbol,
    MakeOptional,
    MakeRequired,
    MoveField,
    PromoteType,
    RenameField,
    RenameType,
    ReorderBranches,
    ReorderSymbols,
    ReplaceType,
    SetAliases,
    SetDefault,
    SetDoc,
    SetEnumDefault,
    SetOrder,
    SetProperties,
)
from lakeevolve.model.diff import Diff, diff
from lakeevolve.model.order import moves
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import NO_DEFAULT, NULL, Enum, Field, Logical, NamedRef, Primitive, Record, Union

INT, LONG, DOUBLE, TEXT, BYTES = (Primitive(n) for n in ("int", "long", "double", "string", "bytes"))

Make = Callable[..., Schema]


def changes(old: Schema, new: Schema, renames: Any = ()) -> tuple[Change, ...]:
    """The changes, which are held against the law on the way."""
    found = diff(old, new, renames).changes
    assert apply_changes(found, old) == new
    assert apply_changes([change.reverse() for change in reversed(found)], new) == old
    return found


def kinds(found: tuple[Change, ...]) -> list[str]:
    return [type(change).__name__ for change in found]


def test_equal_schemas_have_no_changes(record: Make) -> None:
    assert changes(record(("id", "int")), record(("id", "int"))) == ()


def test_an_added_field_carries_its_place_and_its_whole_definition(record: Make) -> None:
    new = record(("id", "int"), ("note", "string", "x"))
    assert changes(record(("id", "int")), new) == (AddField("note", Field("note", TEXT, "x"), 1),)


def test_drops_come_last_field_first_and_adds_first_field_first(record: Make) -> None:
    found = changes(
        record(("a", "int"), ("k", "int"), ("b", "int")), record(("c", "string"), ("k", "int"), ("d", "string"))
    )
    assert [(type(c).__name__, c.path) for c in found] == [
        ("DropField", "b"),
        ("DropField", "a"),
        ("AddField", "c"),
        ("AddField", "d"),
    ]


def test_an_alias_is_a_rename_and_keeps_the_data(record: Make) -> None:
    new = record({"name": "total", "type": "int", "aliases": ["amount"]})
    found = diff(record(("amount", "int")), new)
    assert found.changes == (RenameField("amount", "total"), SetAliases("total", (), ("amount",)))
    assert found.renames == {"total": "amount"}


def test_a_swap_by_aliases_is_two_renames_at_once(record: Make) -> None:
    new = record({"name": "a", "type": "int", "aliases": ["b"]}, {"name": "b", "type": "int", "aliases": ["a"]})
    found = changes(record(("a", "int"), ("b", "int")), new)
    assert found[:2] == (RenameField("a", "b"), RenameField("b", "a"))
    assert diff(record(("a", "int"), ("b", "int")), new).renames == {"a": "b", "b": "a"}


@pytest.mark.parametrize(
    "given",
    [{"amount": "total"}, [("amount", "total")], iter([("amount", "total")])],
    ids=["mapping", "pairs", "iterator"],
)
def test_a_declared_rename_may_be_a_mapping_or_pairs(record: Make, given: Any) -> None:
    found = changes(record(("amount", "int")), record(("total", "int")), given)
    assert found == (RenameField("amount", "total", "overlay"),)


def test_a_declared_rename_that_an_alias_declares_too_is_the_aliass(record: Make) -> None:
    new = record({"name": "total", "type": "int", "aliases": ["amount"]})
    assert changes(record(("amount", "int")), new, {"amount": "total"})[0] == RenameField("amount", "total", "alias")


def test_a_swap_may_be_declared(record: Make) -> None:
    found = changes(record(("a", "int"), ("b", "string")), record(("b", "int"), ("a", "string")), {"a": "b", "b": "a"})
    assert found == (RenameField("a", "b", "overlay"), RenameField("b", "a", "overlay"))


def test_declared_renames_reach_into_renamed_records(record: Make) -> None:
    inner = {"type": "record", "name": "Address", "fields": [{"name": "zip", "type": "string"}]}
    other = {"type": "record", "name": "Address", "fields": [{"name": "postcode", "type": "string"}]}
    found = diff(
        record(("addr", inner)), record(("address", other)), {"addr": "address", "addr.zip": "address.postcode"}
    )
    assert found.changes == (
        RenameField("addr", "address", "overlay"),
        RenameField("address.zip", "postcode", "overlay"),
    )
    assert found.renames == {"address": "addr", "address.postcode": "addr.zip"}


def test_a_rename_that_was_made_before_is_listed_as_unused_and_does_nothing(record: Make) -> None:
    old, new = record(("total", "int")), record(("total", "long"))
    found = diff(old, new, {"amount": "total"})
    assert kinds(found.changes) == ["PromoteType"]
    assert found.unused == (("amount", "total"),)


def test_a_rename_made_before_does_not_catch_a_new_field_of_the_old_name(record: Make) -> None:
    old, new = record(("total", "int"), ("amount", "int")), record(("total", "int"))
    assert kinds(changes(old, new, {"amount": "total"})) == ["DropField"]


def test_a_chain_of_declared_renames_is_followed(record: Make) -> None:
    found = changes(record(("a", "int")), record(("c", "int")), {"a": "b", "b": "c"})
    assert found == (RenameField("a", "c", "overlay"),)


@pytest.mark.parametrize(
    "given",
    ["ab", [("a", "b", "c")], [("a", 1)], [("a", "")], [("a", "x"), ("b", "x")], [("a", "x"), ("a", "y")]],
)
def test_renames_that_are_none_or_contradict_are_refused(record: Make, given: Any) -> None:
    with pytest.raises(ConfigError):
        diff(record(("a", "int")), record(("b", "int")), given)


def test_moves_are_as_few_as_can_be(record: Make) -> None:
    names = "abcdefgh"
    old = record(*((name, "int") for name in names))
    new = record(*((name, "int") for name in "habcdefg"))
    assert changes(old, new) == (MoveField("h", 7, 0),)
    assert [item for item, _, _ in moves([3, 1, 2, 0])] == [0, 3]


def test_nullability_is_told_apart_from_the_type(record: Make) -> None:
    assert changes(record(("a", "int")), record(("a", ["null", "int"]))) == (MakeOptional("a", True),)
    assert changes(record(("a", ["int", "null"])), record(("a", "int"))) == (MakeRequired("a", False),)
    assert changes(record(("a", ["null", "int"])), record(("a", ["int", "null"]))) == (ReorderBranches("a", (1, 0)),)
    assert changes(record(("a", "int")), record(("a", ["null", "long"]))) == (
        MakeOptional("a", True),
        PromoteType("a", INT, LONG),
    )
    assert changes(record(("a", ["null", "int"])), record(("a", "string"))) == (
        MakeRequired("a", True),
        ReplaceType("a", INT, TEXT),
    )


def test_null_alone_is_replaced_whole(record: Make) -> None:
    assert kinds(changes(record(("a", "null")), record(("a", ["null", "int"])))) == ["ReplaceType"]
    assert kinds(changes(record(("a", ["null", "int"])), record(("a", "null")))) == ["ReplaceType"]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("int", "long", PromoteType("a", INT, LONG)),
        ("string", "bytes", PromoteType("a", TEXT, BYTES)),
        ("bytes", "string", PromoteType("a", BYTES, TEXT)),
        ("long", "int", ReplaceType("a", LONG, INT)),
        ("double", "string", ReplaceType("a", DOUBLE, TEXT)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            ChangeLogicalType(
                "a", Primitive("long", Logical("timestamp-millis")), Primitive("long", Logical("timestamp-micros"))
            ),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
            ChangeLogicalType(
                "a", Primitive("bytes", Logical("decimal", 9, 2)), Primitive("bytes", Logical("decimal", 18, 2))
            ),
        ),
    ],
)
def test_types_are_promoted_reinterpreted_or_replaced(record: Make, old: Any, new: Any, change: Change) -> None:
    assert changes(record(("a", old)), record(("a", new))) == (change,)


@pytest.mark.parametrize(
    ("old", "new"),
    [(True, 1), (1, True), (0, False), (1, 1.0), (None, False), ([1], [True]), ({"a": 1}, {"a": 1.0}), ("1", 1)],
)
def test_defaults_that_python_takes_for_equal_are_different_json(old: Any, new: Any) -> None:
    before, after = (Schema(Record("R", (Field("a", INT, default),))) for default in (old, new))
    assert diff(before, after).changes == (SetDefault("a", old, new),)
    assert apply_changes(diff(before, after).changes, before).digest == after.digest


def test_a_default_of_null_is_not_the_absence_of_one(record: Make) -> None:
    found = changes(record(("a", ["null", "int"])), record(("a", ["null", "int"], None)))
    assert found == (SetDefault("a", NO_DEFAULT, None),)


def test_the_order_of_keys_in_a_default_is_no_change() -> None:
    first, second = ({"x": 1, "y": 2}, {"y": 2, "x": 1})
    before, after = (Schema(Record("R", (Field("a", INT, default),))) for default in (first, second))
    assert diff(before, after).changes == ()


def test_docs_aliases_properties_and_orders_are_changes_of_their_own(record: Make) -> None:
    old = record({"name": "a", "type": "int"})
    new = record(
        {"name": "a", "type": "int", "doc": "d", "aliases": ["x"], "unit": "EUR", "order": "ignore"}, doc="all"
    )
    assert changes(old, new) == (
        SetDoc("", None, "all", "type"),
        SetDoc("a", None, "d"),
        SetAliases("a", (), ("x",)),
        SetProperties("a", {}, {"unit": "EUR"}),
        SetOrder("a", None, "ignore"),
    )


def test_an_empty_doc_is_not_the_absence_of_one(record: Make) -> None:
    new = record({"name": "a", "type": "int", "doc": ""})
    assert changes(record(("a", "int")), new) == (SetDoc("a", None, ""),)


def test_properties_of_types_are_told_apart_from_those_of_fields(record: Make) -> None:
    new = record(("a", ["null", {"type": "int", "unit": "EUR"}]))
    assert changes(record(("a", ["null", "int"])), new) == (SetProperties("a", {}, {"unit": "EUR"}, "type"),)


def test_enums_change_symbol_by_symbol(record: Make) -> None:
    def enum(*symbols: str, **more: Any) -> Any:
        return {"type": "enum", "name": "E", "symbols": list(symbols), **more}

    assert changes(record(("e", enum("A", "B", "C"))), record(("e", enum("C", "X", "A", default="A")))) == (
        DropSymbol("e", "B", 1),
        ReorderSymbols("e", ("A", "C"), ("C", "A")),
        AddSymbol("e", "X", 1),
        SetEnumDefault("e", None, "A"),
    )


def test_a_symbol_that_an_old_schema_repeats_is_counted() -> None:
    old, new = (Schema(Enum("E", symbols)) for symbols in (("A", "A", "B"), ("A", "B")))
    assert changes(old, new) == (DropSymbol("", "A", 1),)
    assert kinds(changes(new, old)) == ["AddSymbol"]


def test_named_types_get_new_names_where_they_stand(record: Make) -> None:
    def address(name: str) -> Any:
        return {"type": "record", "name": name, "fields": [{"name": "zip", "type": "string"}]}

    assert changes(record(("a", address("Address"))), record(("a", address("Place")))) == (
        RenameType("a", "Address", "Place"),
    )
    old = parse({"type": "record", "name": "R", "fields": []})
    new = parse({"type": "error", "name": "R", "fields": []})
    assert changes(old, new) == (RenameType("", "R", "R", False, True),)


def test_a_type_used_twice_changes_at_both_places(record: Make) -> None:
    def two(*fields: Any) -> Schema:
        return record(("from", {"type": "record", "name": "P", "fields": list(fields)}), ("to", "P"))

    x, y = {"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}
    assert [c.path for c in changes(two(x), two(x, y))] == ["from.y", "to.y"]


def test_paths_lead_through_optionals_arrays_maps_and_branches() -> None:
    def schema(inner: str) -> Schema:
        return parse(
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {
                        "name": "address",
                        "type": ["null", {"type": "record", "name": "A", "fields": [{"name": "zip", "type": inner}]}],
                    },
                    {"name": "tags", "type": {"type": "array", "items": inner}},
                    {"name": "prices", "type": {"type": "map", "values": ["null", inner]}},
                    {
                        "name": "payload",
                        "type": [
                            "string",
                            {"type": "record", "name": "x.Ping", "fields": [{"name": "at", "type": inner}]},
                        ],
                    },
                ],
            }
        )

    found = changes(schema("int"), schema("long"))
    assert [c.path for c in found] == ["address.zip", "tags[]", "prices{}", "payload<Ping>.at"]
    assert set(kinds(found)) == {"PromoteType"}


def test_a_recursive_type_is_compared_once_and_its_rename_reaches_its_own_uses() -> None:
    def node(name: str, *more: Any) -> Schema:
        fields = [{"name": "next", "type": ["null", name]}, *more]
        return parse({"type": "record", "name": name, "fields": fields})

    assert changes(node("Node"), node("Node", {"name": "v", "type": "int"})) == (AddField("v", Field("v", INT), 1),)
    assert changes(node("Node"), node("Item")) == (
        RenameType("", "Node", "Item"),
        RenameType("next", "Node", "Item"),
    )


def test_a_recursive_use_in_a_union_is_renamed_and_not_dropped() -> None:
    def node(name: str) -> Schema:
        return parse({"type": "record", "name": name, "fields": [{"name": "v", "type": [name, "int", "string"]}]})

    found = changes(node("Node"), node("Item"))
    assert kinds(found) == ["RenameType", "RenameType"]
    assert found[1] == RenameType("v<Node>", "Node", "Item", after="v<Item>")


# Unions -------------------------------------------------------------------------------------------------------------


def test_branches_come_go_and_change_places(record: Make) -> None:
    assert changes(record(("u", ["int", "string", "boolean"])), record(("u", ["string", "bytes", "int"]))) == (
        DropBranch("u", Primitive("boolean"), 2),
        ReorderBranches("u", (1, 0)),
        AddBranch("u", BYTES, 1),
    )


def test_null_may_join_a_real_union(record: Make) -> None:
    found = changes(record(("u", ["int", "string"])), record(("u", ["null", "int", "string"])))
    assert found == (AddBranch("u", NULL, 0),)


def test_a_branch_is_promoted_where_the_reader_would_read_it(record: Make) -> None:
    found = changes(record(("u", ["int", "string"])), record(("u", ["long", "string"])))
    assert found == (PromoteType("u<int>", INT, LONG, after="u<long>"),)


def test_a_branch_is_not_promoted_past_one_that_would_take_its_values(record: Make) -> None:
    found = changes(record(("u", ["int", "long"])), record(("u", ["long", "double"])))
    assert found == (DropBranch("u", INT, 0), AddBranch("u", DOUBLE, 1))


def test_a_branch_is_renamed_by_its_alias_and_changed_under_its_new_name(record: Make) -> None:
    def ping(name: str, kind: str, **more: Any) -> Any:
        return {"type": "record", "name": name, "fields": [{"name": "at", "type": kind}], **more}

    found = changes(
        record(("u", [ping("Ping", "int"), "string"])),
        record(("u", [ping("Pong", "long", aliases=["Ping"]), "string"])),
    )
    assert found[0] == RenameType("u<Ping>", "Ping", "Pong", after="u<Pong>")
    assert found[-1] == PromoteType("u<Pong>.at", INT, LONG)


def test_records_of_one_shape_and_other_names_are_other_branches(record: Make) -> None:
    def ping(name: str) -> Any:
        return {"type": "record", "name": name, "fields": [{"name": "at", "type": "int"}]}

    found = changes(record(("u", [ping("Ping"), "string"])), record(("u", [ping("Pong"), "string"])))
    assert kinds(found) == ["DropBranch", "AddBranch"]


def test_branches_with_one_short_name_go_by_their_full_names(record: Make) -> None:
    def ping(space: str, kind: str) -> Any:
        return {"type": "record", "name": "Ping", "namespace": space, "fields": [{"name": "at", "type": kind}]}

    old = record(("u", [ping("a", "int"), ping("b", "int")]))
    assert [c.path for c in changes(old, record(("u", [ping("a", "long"), ping("b", "int")])))] == ["u<a_Ping>.at"]
    # Once the other is gone, the short name does.
    found = changes(old, record(("u", [ping("a", "long"), "string"])))
    assert [c.path for c in found] == ["u", "u", "u<Ping>.at"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", ["int", "string"]),
        (["int", "string"], "int"),
        (["null", "int"], ["null", "int", "string"]),
        (["null", "int", "string"], ["string", "null"]),
        (["int"], ["null", "int"]),
        (["null"], ["null", "int"]),
        ([], "int"),
        ("null", []),
    ],
)
def test_a_type_that_becomes_a_real_union_or_stops_being_one_is_replaced(record: Make, old: Any, new: Any) -> None:
    assert kinds(changes(record(("u", old)), record(("u", new)))) == ["ReplaceType"]


def test_what_changes_within_a_branch_is_told_apart_from_the_wrapping(record: Make) -> None:
    def ping(kind: str) -> Any:
        return {"type": "record", "name": "Ping", "fields": [{"name": "at", "type": kind}]}

    found = changes(record(("u", ["null", ping("int")])), record(("u", ["null", ping("long"), "string"])))
    assert kinds(found) == ["ReplaceType", "PromoteType"]
    assert found[1].path == "u<Ping>.at"
    found = changes(record(("u", ["null", ping("int"), "string"])), record(("u", ["null", ping("long")])))
    assert [c.path for c in found] == ["u", "u.at"]


def test_two_branches_that_trade_names_across_kinds_are_replaced_one_by_one() -> None:
    def enum(name: str, *aliases: str) -> Enum:
        return Enum(name, ("X",), aliases=aliases)

    def rec(name: str, *aliases: str) -> Record:
        return Record(name, (), aliases=aliases)

    old = Schema(Record("R", (Field("u", Union((rec("A"), enum("E")))),)))
    new = Schema(Record("R", (Field("u", Union((enum("A", "E"), rec("E", "A")))),)))
    changes(old, new)


def test_a_null_with_properties_is_not_lost() -> None:
    marked = Primitive("null", props={"x": 1})
    for new in (Union((marked, INT)), Union((INT, marked)), Union((marked, INT, TEXT)), INT):
        for old in (Union((NULL, INT)), INT, Union((NULL, INT, TEXT))):
            changes(Schema(Record("R", (Field("u", old),))), Schema(Record("R", (Field("u", new),))))


@pytest.mark.parametrize(
    "old", ['"int"', '["null", "int"]', '["int", "string"]', '{"type": "array", "items": "int"}', "[]"]
)
@pytest.mark.parametrize(
    "new", ['"long"', '"null"', '["null", "long"]', '["long", "string"]', '{"type": "map", "values": "int"}']
)
def test_roots_may_be_of_any_kind(old: str, new: str) -> None:
    changes(parse(old), parse(new))


def test_a_definition_that_moves_into_a_recursive_use_is_told_without_loss() -> None:
    inner: Any = Record("B", (Field("a", NamedRef("A")),))
    old = Schema(Record("R", (Field("a", Record("A", (Field("b", inner),))), Field("b", inner))))
    outer: Any = Record("A", (Field("b", NamedRef("B")),))
    new = Schema(Record("R", (Field("a", outer), Field("b", Record("B", (Field("a", outer),))))))
    changes(old, new)


def test_a_wide_record_is_compared_in_moderate_time(record: Make) -> None:
    old = record(*((f"f{n}", "int") for n in range(1000)))
    new = record(*((f"g{n}", "int") for n in range(1000)))
    found: Diff = diff(old, new)
    assert len(found.changes) == 2000


def test_a_type_used_very_often_is_compared_once() -> None:
    def chain(leaf: str) -> Schema:
        type_: Any = {"type": "record", "name": "T0", "fields": [{"name": "x", "type": leaf}]}
        for level in range(1, 15):
            fields = [{"name": "a", "type": type_}, {"name": "b", "type": f"T{level - 1}"}]
            type_ = {"type": "record", "name": f"T{level}", "fields": fields}
        return parse(type_)

    assert diff(chain("int"), chain("int")).changes == ()


def test_unrelated_changes_keep_drop_field_whole(record: Make) -> None:
    old = record({"name": "a", "type": "int", "doc": "d", "default": 3, "aliases": ["z"], "x": [1]})
    found = changes(old, record(("b", "string")))
    assert found[0] == DropField("a", Field("a", INT, 3, "d", ("z",), None, {"x": [1]}), 0)
