from __future__ import annotations

from collections.abc import Callable

import pytest

from lakeevolve.errors import PlanError
from lakeevolve.model.apply import apply_changes
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    AddSymbol,
    Change,
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
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import NO_DEFAULT, NULL, Field, Primitive

INT, LONG, TEXT = (Primitive(name) for name in ("int", "long", "string"))
Make = Callable[..., Schema]


@pytest.fixture
def order(record: Make) -> Schema:
    return record(
        ("id", "int", 1),
        ("note", ["null", "string"]),
        ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}),
        ("load", ["int", "string"]),
        ("tags", {"type": "array", "items": "string"}),
    )


@pytest.mark.parametrize(
    "change",
    [
        AddField("id", Field("id", INT), 0),
        AddField("new", Field("other", INT), 0),
        AddField("new", Field("new", INT), 9),
        AddField("nowhere.new", Field("new", INT), 0),
        AddField("id.new", Field("new", INT), 0),
        DropField("gone", Field("gone", INT), 0),
        DropField("id", Field("id", INT), 0),
        DropField("id", Field("id", INT, 1), 1),
        RenameField("gone", "other"),
        RenameField("id", "note"),
        MoveField("id", 1, 0),
        MoveField("id", 0, 9),
        PromoteType("id", LONG, INT),
        ReplaceType("id", TEXT, INT),
        MakeOptional("note", True),
        MakeRequired("id", True),
        MakeRequired("note", False),
        AddBranch("id", TEXT, 0),
        AddBranch("load", NULL, 7),
        DropBranch("load", TEXT, 0),
        DropBranch("load", TEXT, 5),
        ReorderBranches("load", (0, 0)),
        PromoteType("load<boolean>", INT, LONG),
        AddSymbol("id", "X", 0),
        AddSymbol("state", "X", 7),
        DropSymbol("state", "PAID", 0),
        ReorderSymbols("state", ("PAID", "NEW"), ("NEW", "PAID")),
        ReorderSymbols("state", ("NEW", "PAID"), ("NEW", "LOST")),
        SetEnumDefault("state", "NEW", None),
        SetDefault("id", True, 2),
        SetDefault("id", 1.0, 2),
        SetDefault("id", NO_DEFAULT, 2),
        SetDoc("id", "d", None),
        SetDoc("id", None, "d", "type"),
        SetAliases("id", ("x",), ()),
        SetProperties("id", {"x": 1}, {}),
        SetProperties("load", {}, {"x": 1}, "type"),
        SetOrder("id", "ignore", None),
        RenameType("state", "Other", "More"),
        RenameType("id", "int", "long"),
        PromoteType("tags{}", TEXT, Primitive("bytes")),
    ],
    ids=lambda change: f"{type(change).__name__} {change.path}",
)
def test_a_change_that_does_not_fit_is_refused_and_says_where(order: Schema, change: Change) -> None:
    with pytest.raises(PlanError) as caught:
        apply_changes([change], order)
    assert caught.value.where == change.path
    assert caught.value.hint


def test_a_list_in_another_order_is_refused_rather_than_read_otherwise(record: Make) -> None:
    changes = [AddField("a", Field("a", INT), 1), AddField("b", Field("b", INT), 2)]
    apply_changes(changes, record(("id", "int")))
    with pytest.raises(PlanError):
        apply_changes(changes[::-1], record(("id", "int")))


def test_the_source_is_left_as_it_was(order: Schema) -> None:
    digest = order.digest
    apply_changes([DropField("id", order.fields[0], 0)], order)
    assert order.digest == digest


def test_equal_uses_of_a_type_are_one_object_again(record: Make) -> None:
    point = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    old = record(("from", point), ("to", "P"))
    added = Field("y", INT, 0)
    new = apply_changes([AddField("from.y", added, 1), AddField("to.y", added, 1)], old)
    assert new.fields[0].type is new.fields[1].type


def test_a_rename_of_three_in_a_circle_happens_at_once(record: Make) -> None:
    old = record(("a", "int"), ("b", "string"), ("c", "long"))
    changes = [RenameField("a", "b"), RenameField("b", "c"), RenameField("c", "a")]
    new = apply_changes(changes, old)
    assert [(f.name, f.type) for f in new.fields] == [("b", INT), ("c", TEXT), ("a", LONG)]
    assert apply_changes([change.reverse() for change in reversed(changes)], new) == old
