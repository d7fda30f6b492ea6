from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args

import pytest

from lakeevolve.errors import PlanFormatError
from lakeevolve.model.change import (
    AddField,
    Change,
    MakeOptional,
    PromoteType,
    RenameType,
    SetAliases,
    SetDefault,
    SetProperties,
)
from lakeevolve.model.change_json import change_from_json, change_name, change_to_json
from lakeevolve.model.same import same_type
from lakeevolve.model.type_json import type_from_json, type_to_json
from lakeevolve.model.types import (
    NO_DEFAULT,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
)

INT, TEXT = Primitive("int"), Primitive("string")


def test_the_json_of_a_change_can_be_read_by_people() -> None:
    assert change_to_json(AddField("note", Field("note", TEXT, ""), 1)) == {
        "change": "add-field",
        "path": "note",
        "field": {"name": "note", "type": "string", "default": ""},
        "position": 1,
    }
    assert change_to_json(MakeOptional("a", True)) == {"change": "make-optional", "path": "a", "null_first": True}


def test_every_kind_of_change_has_a_name_of_its_own() -> None:
    names = [change_name(kind) for kind in get_args(Change)]
    assert len(set(names)) == len(names) == 22
    assert "set-enum-default" in names


@pytest.mark.parametrize(
    "change",
    [
        SetDefault("a", NO_DEFAULT, None),
        SetDefault("a", None, NO_DEFAULT),
        SetDefault("a", True, 1),
        SetAliases("a", (), ("x", "y"), "type"),
        SetProperties("a", {}, {"type": "x", "logicalType": "date"}),
        PromoteType("u<int>", INT, Primitive("long"), after="u<long>"),
        RenameType("a", "A", "b.A", False, True),
    ],
)
def test_a_change_survives_json(change: Change) -> None:
    read = change_from_json(json.loads(json.dumps(change_to_json(change))))
    assert read == change
    for attribute in fields(change):
        assert type(getattr(read, attribute.name)) is type(getattr(change, attribute.name))


NODE = Record("Node", (Field("next", Union((Primitive("null"), NamedRef("Node")))),))
POINT = Record("shop.P", (Field("x", INT),), ("Point", "old.P"), "d", props={"fields": 1})


@pytest.mark.parametrize(
    "type_",
    [
        INT,
        Primitive("int", props={"logicalType": "decimal", "precision": 3}),
        Primitive("bytes", Logical("decimal", 9, 2), {"precision": "odd"}),
        Primitive("bytes", Logical("decimal", 9)),
        Primitive("null", props={"props": {}}),
        Fixed("F", 12, Logical("duration"), ("G",), "", {"size": 3, "unit": "x"}),
        Enum("E", ("A", "A"), "A", props={"default": "Z"}),
        NamedRef("unknown.Type"),
        NamedRef("int"),
        Union(()),
        NODE,
        Record("A", (Field("b", Record("B", (Field("a", NamedRef("A")),))), Field("c", NamedRef("B")))),
        # The same name for two types, which only broken schemas have.
        Union((Array(Record("X", (Field("a", INT),))), Map(Record("X", (Field("a", TEXT),))))),
        Record("X", (Field("x", Record("X", ())), Field("y", NamedRef("X")))),
        Record("R", (Field("a", POINT), Field("b", Array(POINT)), Field("c", Map(POINT))), error=True),
        Record("R", (Field("type", INT, NO_DEFAULT, None, ("props",), "ignore", {"doc": 3, "order": 1}),)),
    ],
    ids=lambda type_: type(type_).__name__,
)
def test_a_type_survives_json_whatever_stands_in_it(type_: AvroType) -> None:
    read = type_from_json(json.loads(json.dumps(type_to_json(type_))))
    assert read == type_
    assert same_type(read, type_)


def test_a_type_used_again_is_written_once_and_is_one_object_again() -> None:
    record = Record("R", (Field("a", POINT), Field("b", POINT)))
    written = type_to_json(record)
    assert written["fields"][1]["type"] == "shop.P"
    read = type_from_json(written)
    assert isinstance(read, Record)
    assert read.fields[0].type is read.fields[1].type


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"change": "paint-field", "path": "a"},
        {"change": "make-optional"},
        {"change": "make-optional", "path": "a", "null_first": True, "more": 1},
        {"change": "replace-type", "path": "a", "old": {"type": "row"}, "new": "int"},
        {"change": "add-field", "path": "a", "field": "int", "position": 0},
        {"change": ["add-field"]},
        [],
        "add-field",
    ],
)
def test_what_is_no_change_is_refused(written: Any) -> None:
    with pytest.raises(PlanFormatError):
        change_from_json(written)
