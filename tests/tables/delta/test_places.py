"""What is asked of the rows is asked under the names that they have, whatever the same plan renames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.errors import PlanBlocked
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.fold import fold
from lakeevolve.tables import delta

from .conftest import bag, by_key, check, field, inner, of, plain

ENUM = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "LOST"], "default": "NEW"}
LESS = {**ENUM, "symbols": ["NEW", "PAID"]}
BARE, BARER = ({k: v for k, v in e.items() if k != "default"} for e in (ENUM, LESS))


def was(name: str, type_: Any, old: str) -> dict[str, Any]:
    return field(name, type_, aliases=[old])


OLD, NEW = inner(field("e", ENUM)), inner(was("k", LESS, "e"))

#: name -> (before, after); the rows hold every symbol, so that each of these has to rewrite.
SYMBOLS = {
    "the field": (plain(field("e", ENUM)), plain(was("k", LESS, "e"))),
    "the record above": (plain(field("s", OLD)), plain(was("t", inner(field("e", LESS)), "s"))),
    "the field and the record above": (plain(field("s", OLD)), plain(was("t", NEW, "s"))),
    "the items of a list": (plain(field("s", of(OLD))), plain(was("t", of(NEW), "s"))),
    "the values of a map": (plain(field("s", by_key(["null", OLD]))), plain(was("t", by_key(["null", NEW]), "s"))),
    "a field beside it": (
        plain(field("s", inner(field("e", ENUM), field("x", "int")))),
        plain(field("s", inner(field("e", LESS), was("y", "int", "x")))),
    ),
    "two fields that swap": (
        plain(field("a", ENUM), field("b", "string")),
        plain(was("b", LESS, "a"), was("a", "string", "b")),
    ),
    "a chain of names": (
        plain(field("a", "string"), field("b", ENUM)),
        plain(was("b", "string", "a"), was("c", LESS, "b")),
    ),
    "a branch of a union": (plain(field("u", [OLD, "int"])), plain(was("v", [NEW, "int"], "u"))),
    "a branch that is renamed": (
        plain(field("u", [OLD, "int"])),
        plain(field("u", [{**NEW, "name": "Other", "aliases": ["Inner"]}, "int"])),
    ),
    "the enum is a branch": (plain(field("u", [ENUM, "int"])), plain(was("v", [LESS, "int"], "u"))),
    "the enum becomes a branch": (plain(field("u", ENUM)), plain(was("v", [LESS, "int"], "u"))),
}


def applied(uri: str, target: Schema, **how: Any) -> le.Plan:
    """Plan and apply, and hold what the table reads against the fold of what it held."""
    table = delta.open(uri)
    held = [(file.version, list(table.raw(file))) for file in table.files()]
    plan = le.plan(uri, target, mode="NONE", **how)
    assert le.apply(plan, allow=("rewrite", "backfill", "drop")).status == "applied"
    versions = delta.open(uri).history()
    folds = [(fold(versions, number, versions[-1].number), batches) for number, batches in held]
    check(uri, bag(run(batch) for run, batches in folds for batch in batches))
    return plan


@pytest.fixture
def made(
    tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Schema], str]:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def make(schema: Schema) -> str:
        uri = f"delta:{tmp_path / 't'}"
        delta.create_table(uri, schema, mark=True)
        delta.append(uri, rows(schema, 30, 1))
        delta.append(uri, rows(schema, 30, 2))
        return uri

    return make


@pytest.mark.parametrize("case", SYMBOLS)
def test_a_symbol_that_rows_hold_goes_while_names_change(case: str, made: Callable[[Schema], str]) -> None:
    before, after = SYMBOLS[case]
    plan = applied(made(before), after)
    assert {step.route for step in plan.steps if "DropSymbol" in map(_kind, step.changes)} == {"rewrite"}


def _kind(change: Any) -> str:
    return type(change).__name__


@pytest.mark.parametrize("case", ["the record above", "a branch of a union", "two fields that swap"])
def test_the_owners_renames_count_like_aliases(case: str, made: Callable[[Schema], str]) -> None:
    before, after = SYMBOLS[case]
    renames = {
        "the record above": {"s": "t"},
        "a branch of a union": {"u": "v", "u<Inner>.e": "v<Inner>.k"},
        "two fields that swap": {"a": "b", "b": "a"},
    }[case]
    applied(made(before), _bare(after), renames=renames)


def _bare(schema: Schema) -> Schema:
    """The schema without aliases."""

    def strip(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: strip(value) for key, value in node.items() if key != "aliases"}
        return [strip(one) for one in node] if isinstance(node, list) else node

    return le.load(strip(schema.to_json()))


#: name -> (before, after, rows that stand against it, what is said of them)
CHECKED: dict[str, tuple[Schema, Schema, dict[str, Any], str]] = {
    "a symbol without a default": (
        plain(field("s", inner(field("e", BARE)))),
        plain(was("t", inner(was("k", BARER, "e")), "s")),
        {"s": {"e": "LOST"}},
        "s.e holds the symbol LOST",
    ),
    "a symbol in a branch": (
        plain(field("u", [inner(field("e", BARE)), "int"])),
        plain(was("v", [inner(was("k", BARER, "e")), "int"], "u")),
        {"u": {"Inner": {"e": "LOST"}, "int": None}},
        "u<Inner>.e holds the symbol LOST",
    ),
    "a field that becomes required": (
        plain(field("s", inner(field("e", ["null", "int"])))),
        plain(was("t", inner(was("k", "int", "e")), "s")),
        {"s": {"e": None}},
        "s.e is null",
    ),
    "a field that becomes required in a branch": (
        plain(field("u", [inner(field("e", ["null", "int"])), "int"])),
        plain(was("v", [inner(was("k", "int", "e")), "int"], "u")),
        {"u": {"Inner": {"e": None}, "int": None}},
        "u<Inner>.e is null",
    ),
    "a branch that goes": (
        plain(field("s", inner(field("e", ["int", "string", "boolean"])))),
        plain(was("t", inner(was("k", ["int", "string"], "e")), "s")),
        {"s": {"e": {"int": None, "string": None, "boolean": True}}},
        "s.e holds the branch boolean",
    ),
}


@pytest.mark.parametrize("case", CHECKED)
def test_a_row_that_stands_against_a_step_is_found_under_its_own_name(
    case: str, made: Callable[[Schema], str], tmp_path: Path
) -> None:
    before, after, row, said = CHECKED[case]
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before, mark=True)
    delta.append(uri, pa.Table.from_pylist([{"id": 1, **row}], schema=le.arrow_schema(before)))
    position = delta.open(uri).state.position
    plan = le.plan(uri, after, mode="NONE")
    with pytest.raises(PlanBlocked) as caught:
        le.apply(plan, allow=("rewrite", "backfill", "drop"))
    told = [*caught.value.lines(), *(f"{finding.path} {finding.message}" for finding in plan.findings)]
    assert said in " ".join(told)
    assert delta.open(uri).state.position == position


@pytest.mark.parametrize("case", CHECKED)
def test_rows_that_do_not_stand_against_it_let_it_through(case: str, made: Callable[[Schema], str]) -> None:
    before, after, row, _ = CHECKED[case]
    uri = made(before).replace("/t", "/u")
    delta.create_table(uri, before, mark=True)
    top = next(iter(row))
    fine = {
        "a symbol without a default": {"e": "PAID"},
        "a symbol in a branch": {"Inner": {"e": "PAID"}, "int": None},
        "a field that becomes required": {"e": 1},
        "a field that becomes required in a branch": {"Inner": {"e": 1}, "int": None},
        "a branch that goes": {"e": {"int": 4, "string": None, "boolean": None}},
    }[case]
    delta.append(uri, pa.Table.from_pylist([{"id": 1, top: fine}], schema=le.arrow_schema(before)))
    applied(uri, after)
