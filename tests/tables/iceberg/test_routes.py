"""Every kind of change on tables with old rows, read back by pyiceberg, by DuckDB and by the fold of the raw files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

import lakeevolve as le
from tests.tables.shapes import row

NULL_LIST_NOTE = "pyiceberg reads a NULL list of structs as an empty one (apache/iceberg-python#3833)"


def record(*fields: Any, name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "id", "type": "int"}, *fields]}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def rec(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@dataclass(frozen=True)
class Case:
    old: Any
    rows: list[dict[str, Any]]
    new: Any
    routes: set[str]
    after: list[dict[str, Any]]
    renames: Any = ()
    fills: dict[str, Any] = field(default_factory=dict)
    staged: int = 0


def _in(
    wrap: Callable[[Any], Any], put: Callable[[Any], Any], old: Any, new: Any, was: Any, now: Any, **more: Any
) -> Case:
    return Case(
        record(f("w", wrap(old))),
        [{"id": 1, "w": put(was)}],
        record(f("w", wrap(new))),
        after=[{"id": 1, "w": put(now)}],
        **more,
    )


def _array(type_: Any) -> Any:
    return {"type": "array", "items": type_}


def _map(type_: Any) -> Any:
    return {"type": "map", "values": type_}


CASES: dict[str, Case] = {
    "an optional field is added": Case(
        record(),
        [{"id": 1}],
        record(f("c", ["null", "string"], default=None)),
        {"metadata"},
        [{"id": 1, "c": None}],
    ),
    "a field with a default is backfilled": Case(
        record(),
        [{"id": 1}, {"id": 2}],
        record(f("c", "string", default="US")),
        {"backfill"},
        [{"id": 1, "c": "US"}, {"id": 2, "c": "US"}],
        staged=1,
    ),
    "a field with a default may read null by the owner's choice": Case(
        record(),
        [{"id": 1}],
        record(f("c", "string", default="US")),
        {"metadata"},
        [{"id": 1, "c": None}],
        fills={"c": "null"},
    ),
    "an array of records is backfilled": Case(
        record(),
        [{"id": 1}],
        record(f("c", _array(rec("L", f("x", "int"))), default=[{"x": 4}])),
        {"backfill"},
        [{"id": 1, "c": [{"x": 4}]}],
        staged=1,
    ),
    "a nested field is added": Case(
        record(f("s", ["null", rec("S", f("x", "int"))])),
        [{"id": 1, "s": {"x": 5}}, {"id": 2, "s": None}],
        record(f("s", ["null", rec("S", f("x", "int"), f("y", ["null", "int"], default=None))])),
        {"metadata"},
        [{"id": 1, "s": {"x": 5, "y": None}}, {"id": 2, "s": None}],
    ),
    "a nested field is backfilled and its null parent stays null": Case(
        record(f("s", ["null", rec("S", f("x", "int"))])),
        [{"id": 1, "s": {"x": 5}}, {"id": 2, "s": None}],
        record(f("s", ["null", rec("S", f("x", "int"), f("y", "int", default=9))])),
        {"backfill"},
        [{"id": 1, "s": {"x": 5, "y": 9}}, {"id": 2, "s": None}],
        staged=1,
    ),
    "a field within a list is backfilled": Case(
        record(f("l", _array(rec("S", f("x", "int"))))),
        [{"id": 1, "l": [{"x": 5}, {"x": 6}]}, {"id": 2, "l": []}],
        record(f("l", _array(rec("S", f("x", "int"), f("y", "string", default="n"))))),
        {"backfill"},
        [{"id": 1, "l": [{"x": 5, "y": "n"}, {"x": 6, "y": "n"}]}, {"id": 2, "l": []}],
        staged=1,
    ),
    "a field within a map is added": Case(
        record(f("m", _map(rec("S", f("x", "int"))))),
        [{"id": 1, "m": [("k", {"x": 5})]}],
        record(f("m", _map(rec("S", f("x", "int"), f("y", ["null", "string"], default=None))))),
        {"metadata"},
        [{"id": 1, "m": [("k", {"x": 5, "y": None})]}],
    ),
    "a field is dropped": Case(
        record(f("a", "int"), f("b", "string")),
        [{"id": 1, "a": 7, "b": "x"}],
        record(f("b", "string")),
        {"metadata"},
        [{"id": 1, "b": "x"}],
    ),
    "a nested field is dropped": Case(
        record(f("l", _array(rec("S", f("x", "int"), f("y", "int"))))),
        [{"id": 1, "l": [{"x": 5, "y": 6}]}],
        record(f("l", _array(rec("S", f("y", "int"))))),
        {"metadata"},
        [{"id": 1, "l": [{"y": 6}]}],
    ),
    "a field is renamed": Case(
        record(f("a", "int")),
        [{"id": 1, "a": 7}],
        record(f("b", "int", aliases=["a"])),
        {"metadata"},
        [{"id": 1, "b": 7}],
    ),
    "fields swap their names": Case(
        record(f("a", "int"), f("b", "string")),
        [{"id": 1, "a": 7, "b": "x"}],
        record(f("a", "string", aliases=["b"]), f("b", "int", aliases=["a"])),
        {"metadata"},
        [{"id": 1, "a": "x", "b": 7}],
    ),
    "nested fields of one type swap their names by the owner's word": Case(
        record(f("s", rec("S", f("a", "int"), f("b", "int")))),
        [{"id": 1, "s": {"a": 7, "b": 8}}],
        record(f("s", rec("S", f("b", "int"), f("a", "int")))),
        {"metadata"},
        [{"id": 1, "s": {"b": 7, "a": 8}}],
        renames={"s.a": "s.b", "s.b": "s.a"},
    ),
    "a renamed field's old name is used again": Case(
        record(f("a", "int")),
        [{"id": 1, "a": 7}],
        record(f("b", "int"), f("a", ["null", "string"], default=None)),
        {"metadata"},
        [{"id": 1, "b": 7, "a": None}],
        renames={"a": "b"},
    ),
    "nested fields are renamed, promoted and moved at once": Case(
        record(f("s", rec("S", f("x", "int"), f("y", "string")))),
        [{"id": 1, "s": {"x": 5, "y": "q"}}],
        record(f("t", rec("S", f("y", "string"), f("z", "long", aliases=["x"])), aliases=["s"])),
        {"metadata"},
        [{"id": 1, "t": {"y": "q", "z": 5}}],
    ),
    "fields are moved": Case(
        record(f("a", "int"), f("b", "string")),
        [{"id": 1, "a": 7, "b": "x"}],
        {"type": "record", "name": "Row", "fields": [f("b", "string"), f("id", "int"), f("a", "int")]},
        {"metadata"},
        [{"b": "x", "id": 1, "a": 7}],
    ),
    "int becomes long": _in(lambda t: t, lambda v: v, "int", "long", 7, 7, routes={"metadata"}),
    "float becomes double": _in(lambda t: t, lambda v: v, "float", "double", 1.5, 1.5, routes={"metadata"}),
    "int becomes double": _in(lambda t: t, lambda v: v, "int", "double", 7, 7.0, routes={"rewrite"}, staged=1),
    "long becomes float": _in(lambda t: t, lambda v: v, "long", "float", 7, 7.0, routes={"rewrite"}, staged=1),
    "string becomes bytes": _in(
        lambda t: t, lambda v: v, "string", "bytes", "é", "é".encode(), routes={"rewrite"}, staged=1
    ),
    "bytes become string": _in(lambda t: t, lambda v: v, "bytes", "string", b"a", "a", routes={"rewrite"}, staged=1),
    "an optional int becomes double": _in(
        lambda t: ["null", t], lambda v: v, "int", "double", 7, 7.0, routes={"rewrite"}, staged=1
    ),
    "int becomes long within a list": _in(_array, lambda v: [v], "int", "long", 7, 7, routes={"metadata"}),
    "int becomes double within a list": _in(
        _array, lambda v: [v], "int", "double", 7, 7.0, routes={"rewrite"}, staged=1
    ),
    "int becomes double within a map": _in(
        _map, lambda v: [("k", v)], "int", "double", 7, 7.0, routes={"rewrite"}, staged=1
    ),
    "int becomes double within a list of records": _in(
        lambda t: _array(rec("S", f("x", t), f("y", "int"))),
        lambda v: [{"x": v, "y": 1}],
        "int",
        "double",
        7,
        7.0,
        routes={"rewrite"},
        staged=1,
    ),
    "milliseconds become microseconds": _in(
        lambda t: {"type": "long", "logicalType": t},
        lambda v: v,
        "timestamp-millis",
        "timestamp-micros",
        dt.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=dt.UTC),
        dt.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=dt.UTC),
        routes={"metadata"},
    ),
    "a field becomes optional": Case(
        record(f("a", "int")),
        [{"id": 1, "a": 7}],
        record(f("a", ["null", "int"])),
        {"metadata"},
        [{"id": 1, "a": 7}],
    ),
    "a list's items become optional": Case(
        record(f("a", _array("int"))),
        [{"id": 1, "a": [7]}],
        record(f("a", _array(["null", "int"]))),
        {"metadata"},
        [{"id": 1, "a": [7]}],
    ),
    "a field without nulls becomes required": Case(
        record(f("a", ["null", "int"])),
        [{"id": 1, "a": 7}],
        record(f("a", "int")),
        {"metadata"},
        [{"id": 1, "a": 7}],
    ),
    "a union gets a branch": Case(
        record(f("u", ["null", "string", "int"])),
        [{"id": 1, "u": {"string": "x", "int": None}}, {"id": 2, "u": None}],
        record(f("u", ["null", "string", "int", rec("P", f("at", "long"))])),
        {"metadata"},
        [{"id": 1, "u": {"string": "x", "int": None, "P": None}}, {"id": 2, "u": None}],
    ),
    "a union's branch is promoted": Case(
        record(f("u", ["string", "int"])),
        [{"id": 1, "u": {"string": None, "int": 7}}],
        record(f("u", ["string", "long"])),
        {"metadata"},
        [{"id": 1, "u": {"string": None, "long": 7}}],
    ),
    "a union loses a branch that no row uses": Case(
        record(f("u", ["string", "int", "boolean"])),
        [{"id": 1, "u": {"string": None, "int": 7, "boolean": None}}],
        record(f("u", ["string", "int"])),
        {"metadata"},
        [{"id": 1, "u": {"string": None, "int": 7}}],
    ),
    "a type becomes a union": Case(
        record(f("u", "string")),
        [{"id": 1, "u": "x"}],
        record(f("u", ["string", "int"])),
        {"rewrite"},
        [{"id": 1, "u": {"string": "x", "int": None}}],
        staged=1,
    ),
    "a union becomes a type": Case(
        record(f("u", ["int", "long"])),
        [{"id": 1, "u": {"int": 7, "long": None}}, {"id": 2, "u": {"int": None, "long": 8}}],
        record(f("u", "long")),
        {"rewrite"},
        [{"id": 1, "u": 7}, {"id": 2, "u": 8}],
        staged=1,
    ),
    "an enum gets a symbol": Case(
        record(f("e", enum("A", "B"))),
        [{"id": 1, "e": "A"}],
        record(f("e", enum("A", "C", "B"))),
        {"metadata"},
        [{"id": 1, "e": "A"}],
    ),
    "a symbol that rows hold becomes the enum's default": Case(
        record(f("e", enum("A", "B", default="A"))),
        [{"id": 1, "e": "A"}, {"id": 2, "e": "B"}],
        record(f("e", enum("A", default="A"))),
        {"rewrite"},
        [{"id": 1, "e": "A"}, {"id": 2, "e": "A"}],
        staged=1,
    ),
    "a symbol that no row holds goes without a rewrite": Case(
        record(f("e", enum("A", "B", default="A"))),
        [{"id": 1, "e": "A"}],
        record(f("e", enum("A", default="A"))),
        {"rewrite"},
        [{"id": 1, "e": "A"}],
    ),
    "docs, aliases, names and defaults change": Case(
        record(f("e", enum("A", "B")), f("s", rec("S", f("x", "int", default=1)))),
        [{"id": 1, "e": "A", "s": {"x": 2}}],
        record(
            f("e", enum("A", "B"), doc="what it is", aliases=["f"]),
            f("s", rec("T", f("x", "int", default=3)) | {"aliases": ["S"]}),
            name="Line",
        )
        | {"aliases": ["Row"]},
        {"metadata"},
        [{"id": 1, "e": "A", "s": {"x": 2}}],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("version", [1, 2])
def test_old_rows_read_right_after(case: Case, version: int, workshop: Any, read: Any) -> None:
    table = workshop.table(case.old, case.rows, format_version=version, mark=True)
    done = workshop.evolve(table, case.new, renames=case.renames, fills=case.fills)
    assert done.routes() == case.routes
    assert len(done.staged.files) == case.staged
    got = read(workshop.reopen(table))
    assert got.ours == case.after
    assert got.expected == case.after
    assert got.duckdb == [_plain(row) for row in case.after]
    assert table.schema == done.evolution.target


def _plain(value: Any) -> Any:
    """DuckDB gives maps as dicts."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def test_a_decimal_with_other_digits_is_refused_once_and_says_why(workshop: Any) -> None:
    old, new = record(f("w", decimal(9, 2))), record(f("w", decimal(30, 2)))
    table = workshop.table(old, [{"id": 1, "w": Decimal("1.25")}])
    plan = le.plan(table, new, mode="NONE")
    (step,) = plan.steps
    assert (step.route, [change.path for change in step.changes]) == ("refuse", ["w"])
    assert "same precision and scale" in step.reason


#: Records with a required field that are added: the schema after, and a row of it.
ADDED_RECORDS: list[tuple[Any, dict[str, Any]]] = [
    (row(f("s", ["null", rec("S", f("y", "int"))], default=None)), {"id": 2, "s": {"y": 1}}),
    (
        row(f("s", ["null", rec("S", f("q", ["null", rec("T", f("y", "int"))]), f("w", "string"))], default=None)),
        {"id": 2, "s": {"q": {"y": 1}, "w": "a"}},
    ),
    (row(f("u", ["null", rec("S", f("y", "int")), "string"], default=None)), {"id": 2, "u": {"S": {"y": 1}}}),
    (
        row(
            f("s", ["null", rec("S", f("y", "int"))], default=None),
            f("v", ["null", rec("V", f("w", "string"))], default=None),
        ),
        {"id": 2, "s": {"y": 1}, "v": {"w": "a"}},
    ),
]


@pytest.mark.parametrize("where", ["in the row", "in a record", "in a list"])
@pytest.mark.parametrize(("after", "new"), ADDED_RECORDS)
def test_every_way_of_reading_with_pyiceberg_goes_on_where_a_record_with_a_required_field_is_added(
    after: Any, new: dict[str, Any], where: str, workshop: Any
) -> None:
    def placed(record: Any) -> Any:
        text, more = f("t", "string"), record["fields"][1:]
        if where == "in the row":
            return row(text, *more)
        inner = rec("Inner", text, *more)
        return row(f("r", {"type": "array", "items": inner} if where == "in a list" else inner))

    def values(held: dict[str, Any]) -> dict[str, Any]:
        inner = {"t": "x", **{k: v for k, v in held.items() if k != "id"}}
        if where == "in the row":
            return {"id": held["id"], **inner}
        return {"id": held["id"], "r": [inner] if where == "in a list" else inner}

    table = workshop.table(placed(row()), [values({"id": 1})], mark=True)
    rows = []
    for last in range(1, len(after["fields"])):
        target = placed(row(*after["fields"][1 : last + 1]))
        assert le.apply(le.plan(workshop.reopen(table), target)).ok
        names = {each["name"] for each in after["fields"][: last + 1]}
        rows = [{k: v for k, v in new.items() if k in names}, {"id": 3}]
        workshop.append(workshop.reopen(table), target, [values(each) for each in rows])
    scan = workshop.reopen(table).iceberg.scan()
    count = 1 + 2 * (len(after["fields"]) - 1)
    assert scan.to_arrow().num_rows == scan.to_arrow_batch_reader().read_all().num_rows == count
    assert le.verify(table.uri, full=True, columns="all", readers=("duckdb", "polars")).ok
