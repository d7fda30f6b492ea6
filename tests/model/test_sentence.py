from __future__ import annotations

from typing import get_args

import pytest

from lakeevolve.model import change as c
from lakeevolve.model.sentence import describe_change
from lakeevolve.model.types import NO_DEFAULT, Field, Logical, Primitive

INT, LONG, TEXT = (Primitive(name) for name in ("int", "long", "string"))
MILLIS = Primitive("long", Logical("timestamp-millis"))

SENTENCES = [
    (c.AddField("note", Field("note", TEXT), 1), "note: string is added, without a default"),
    (c.AddField("note", Field("note", TEXT, None), 1), "note: string is added, with the default null"),
    (c.DropField("note", Field("note", TEXT), 1), "note: string is dropped"),
    (c.RenameField("a.b", "c"), "a.b is renamed to c (by its alias)"),
    (c.RenameField("a.b", "c", "overlay"), "a.b is renamed to c (as the owner declared)"),
    (c.MoveField("a", 0, 2), "a moves from position 1 to 3"),
    (c.PromoteType("a", INT, LONG), "a: int is promoted to long"),
    (c.ChangeLogicalType("a", LONG, MILLIS), "a: long becomes timestamp-millis on long"),
    (c.ReplaceType("", LONG, TEXT), "the root: long is replaced by string"),
    (c.MakeOptional("a", True), "a becomes nullable"),
    (c.MakeRequired("a", True), "a becomes required"),
    (c.AddBranch("a", INT, 0), "a: the union gains the branch int"),
    (c.DropBranch("a", INT, 0), "a: the union loses the branch int"),
    (c.ReorderBranches("a", (1, 0)), "a: the branches of the union change their order"),
    (c.AddSymbol("a", "X", 0), "a: the enum gains the symbol X"),
    (c.DropSymbol("a", "X", 0), "a: the enum loses the symbol X"),
    (c.ReorderSymbols("a", ("X", "Y"), ("Y", "X")), "a: the symbols of the enum change their order"),
    (c.SetEnumDefault("a", None, "X"), 'a: the default symbol of the enum is set to "X"'),
    (c.SetDefault("a", NO_DEFAULT, 1), "a: gets the default 1"),
    (c.SetDefault("a", 1, NO_DEFAULT), "a: loses its default 1"),
    (c.SetDefault("a", 1, True), "a: the default changes from 1 to true"),
    (c.SetDoc("a", "x", "y"), 'a: the doc changes from "x" to "y"'),
    (c.SetDoc("a", "x", None, "type"), 'a: the doc of the type "x" is removed'),
    (c.SetAliases("a", (), ("x", "y")), 'a: the aliases are set to "x, y"'),
    (
        c.SetProperties("a", {"x": 1, "y": 2, "z": 3}, {"y": 3, "w": 0, "z": 3}),
        "a: the property x is removed, the property w is set to 0, the property y changes from 2 to 3",
    ),
    (c.SetOrder("a", "ignore", None), 'a: the sort order "ignore" is removed'),
    (c.RenameType("a", "A", "B"), "the type at a is renamed from A to B"),
    (c.RenameType("", "A", "A", False, True), "the root: A becomes an error type"),
]


@pytest.mark.parametrize(("change", "sentence"), SENTENCES, ids=lambda v: type(v).__name__)
def test_a_change_is_one_sentence(change: c.Change, sentence: str) -> None:
    assert describe_change(change) == sentence


def test_every_kind_of_change_has_a_sentence() -> None:
    assert {type(change) for change, _ in SENTENCES} == set(get_args(c.Change))


def test_a_long_value_is_cut() -> None:
    assert len(describe_change(c.SetDoc("a", None, "x" * 500))) < 100
