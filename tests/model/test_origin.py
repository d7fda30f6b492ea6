"""Where a place of a new schema was in the old one."""

from __future__ import annotations

from typing import Any

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.origin import base_path


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, *aliases: str) -> dict[str, Any]:
    return {"name": name, "type": type_, **({"aliases": list(aliases)} if aliases else {})}


def of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def by_key(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}


def inner(*fields: Any, name: str = "S", **more: Any) -> dict[str, Any]:
    return record(*fields, name=name, **more)


OLD_S, NEW_S = inner(field("e", "int")), inner(field("k", "int", "e"))

CASES: dict[str, tuple[Any, Any, str, str | None]] = {
    "nothing is renamed": (record(field("a", "int")), record(field("a", "long")), "a", "a"),
    "a field": (record(field("a", "int")), record(field("b", "int", "a")), "b", "a"),
    "two fields that swap": (
        record(field("a", "int"), field("b", "int")),
        record(field("b", "int", "a"), field("a", "int", "b")),
        "a",
        "b",
    ),
    "a chain of names": (
        record(field("a", "int"), field("b", "int")),
        record(field("b", "int", "a"), field("c", "int", "b")),
        "c",
        "b",
    ),
    "a field and the record above": (record(field("s", OLD_S)), record(field("t", NEW_S, "s")), "t.k", "s.e"),
    "the items of a list": (record(field("s", of(OLD_S))), record(field("t", of(NEW_S), "s")), "t[].k", "s[].e"),
    "the values of a map": (
        record(field("s", by_key(["null", OLD_S]))),
        record(field("t", by_key(NEW_S), "s")),
        "t{}.k",
        "s{}.e",
    ),
    "a branch of a union": (
        record(field("s", [OLD_S, "string"])),
        record(field("t", [NEW_S, "string"], "s")),
        "t<S>.k",
        "s<S>.e",
    ),
    "a branch that is renamed": (
        record(field("s", [OLD_S, "string"])),
        record(field("s", [inner(field("k", "int", "e"), name="T", aliases=["S"]), "string"])),
        "s<T>.k",
        "s<S>.e",
    ),
    "a branch that is promoted": (
        record(field("s", ["int", ENUM])),
        record(field("s", ["long", ENUM])),
        "s<long>",
        "s<int>",
    ),
    "a type that becomes a branch": (
        record(field("s", OLD_S)),
        record(field("t", [NEW_S, "int"], "s")),
        "t<S>.k",
        "s.e",
    ),
    "a branch that becomes the type": (
        record(field("s", [OLD_S, "int"])),
        record(field("t", NEW_S, "s")),
        "t.k",
        "s<S>.e",
    ),
    "an enum that leaves its union": (record(field("s", [ENUM, "int"])), record(field("s", ENUM)), "s", "s<E>"),
    "a new field": (record(field("a", "int")), record(field("a", "int"), field("b", "int")), "b", None),
    "a new branch": (record(field("s", ["int", "string"])), record(field("s", ["int", "string", ENUM])), "s<E>", None),
    "the root": (record(field("a", "int")), record(field("b", "int", "a")), "", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_place_is_followed_back_to_its_old_name(case: str) -> None:
    old, new, path, expected = CASES[case]
    assert base_path(path, parse(old).root, parse(new).root, {}) == expected


def test_the_owners_renames_are_followed_like_aliases() -> None:
    old, new = record(field("s", OLD_S)), record(field("t", inner(field("k", "int"))))
    assert base_path("t.k", parse(old).root, parse(new).root, {"t": "s", "t.k": "s.e"}) == "s.e"


def test_a_new_column_under_a_name_that_was_in_use_was_nowhere() -> None:
    old = new = parse(record(field("a", "int"))).root
    assert base_path("a", old, new, {}, fresh={"a"}) is None


def test_a_dropped_field_keeps_its_own_name_below_renamed_records() -> None:
    old, new = record(field("s", inner(field("e", "int"), field("x", "int")))), record(field("t", OLD_S, "s"))
    assert base_path("t.x", parse(old).root, parse(new).root, {}, old_leaf=True) == "s.x"
