"""Unions in tables: a struct with a column for each branch, whether a marker says so or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeevolve as le

OLD = {"type": "record", "name": "W", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}


def table_of(union: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "int"}, {"name": "u", "type": union}],
    }


def record_of(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "W", "fields": list(fields), **more}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def held(**branches: Any) -> Any:
    return branches


CASES: dict[str, tuple[Any, list[Any], Any, set[str], list[Any]]] = {
    "a branch is promoted in place": (
        ["int", "string"],
        [held(int=1, string=None), held(int=None, string="s")],
        ["long", "string"],
        {"metadata"},
        [held(long=1, string=None), held(long=None, string="s")],
    ),
    "every branch is promoted": (
        ["int", "float"],
        [held(int=1, float=None), held(int=None, float=0.5)],
        ["long", "double"],
        {"metadata"},
        [held(long=1, double=None), held(long=None, double=0.5)],
    ),
    "a branch is promoted by a rewrite": (
        ["null", "int", "string"],
        [held(int=1, string=None), None],
        ["null", "double", "string"],
        {"rewrite"},
        [held(double=1.0, string=None), None],
    ),
    "a branch is renamed by an alias": (
        ["string", OLD],
        [held(string=None, W={"x": 1, "y": 2}), held(string="s", W=None)],
        ["string", {**OLD, "name": "V", "aliases": ["W"]}],
        {"metadata"},
        [held(string=None, V={"x": 1, "y": 2}), held(string="s", V=None)],
    ),
    "a field of a branch is added": (
        ["string", OLD],
        [held(string=None, W={"x": 1, "y": 2}), held(string="s", W=None)],
        ["string", record_of(*OLD["fields"], f("z", ["null", "int"], default=None))],
        {"metadata"},
        [held(string=None, W={"x": 1, "y": 2, "z": None}), held(string="s", W=None)],
    ),
    "a field of a branch is backfilled": (
        ["string", OLD],
        [held(string=None, W={"x": 1, "y": 2}), held(string="s", W=None)],
        ["string", record_of(*OLD["fields"], f("z", "int", default=9))],
        {"backfill"},
        [held(string=None, W={"x": 1, "y": 2, "z": 9}), held(string="s", W=None)],
    ),
    "fields of a branch are dropped, renamed and promoted": (
        ["string", OLD],
        [held(string=None, W={"x": 1, "y": 2}), held(string="s", W=None)],
        ["string", record_of(f("q", "long", aliases=["x"]))],
        {"metadata"},
        [held(string=None, W={"q": 1}), held(string="s", W=None)],
    ),
    "a field of a branch gets another type": (
        ["string", OLD],
        [held(string=None, W={"x": 1, "y": 2}), held(string="s", W=None)],
        ["string", record_of(f("x", "double"), f("y", "int"))],
        {"rewrite"},
        [held(string=None, W={"x": 1.0, "y": 2}), held(string="s", W=None)],
    ),
    "a branch that no row uses is dropped": (
        ["string", "int", "boolean"],
        [held(string=None, int=1, boolean=None), held(string="s", int=None, boolean=None)],
        ["string", "int"],
        {"metadata"},
        [held(string=None, int=1), held(string="s", int=None)],
    ),
    "a branch is added and another promoted": (
        ["string", "int"],
        [held(string=None, int=1), held(string="s", int=None)],
        ["string", "long", "boolean"],
        {"metadata"},
        [held(string=None, long=1, boolean=None), held(string="s", long=None, boolean=None)],
    ),
    "a branch within a list is promoted": (
        {"type": "array", "items": ["int", "string"]},
        [[held(int=1, string=None), held(int=None, string="s")], []],
        {"type": "array", "items": ["long", "string"]},
        {"metadata"},
        [[held(long=1, string=None), held(long=None, string="s")], []],
    ),
}


@pytest.mark.parametrize("mark", [True, False], ids=["with a marker", "never seen"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_union_changes_and_its_rows_with_it(case: Any, mark: bool, workshop: Any, read: Callable[[Any], Any]) -> None:
    old, was, new, routes, now = case
    table = workshop.table(table_of(old), [{"id": at, "u": each} for at, each in enumerate(was)], mark=mark)
    plan = le.plan(table.uri, table_of(new), mode="NONE")
    assert {step.route for step in plan.steps} == routes
    assert le.apply(plan, allow={"rewrite", "backfill", "drop"}).ok
    got = read(workshop.reopen(table))
    assert got.ours == got.expected == got.duckdb == [{"id": at, "u": each} for at, each in enumerate(now)]


def test_a_record_of_optional_fields_is_no_union_where_nothing_says_so(workshop: Any) -> None:
    both = [{"name": name, "type": ["null", name], "default": None} for name in ("int", "string")]
    fields = {"type": "record", "name": "S", "fields": both}
    table = workshop.table(table_of(fields), [{"id": 1, "u": {"int": 1, "string": None}}])
    assert not le.plan(table.uri, table_of(fields)).changes
    changed = le.plan(table.uri, table_of(["boolean", {"type": "map", "values": "int"}]), mode="NONE")
    (step,) = (step for step in changed.steps if step.changes)
    assert step.route == "refuse"
