"""Every change inside a branch of a union, on tables with a marker and on tables that nobody has seen before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeevolve as le
from lakeevolve.errors import PlanBlocked
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Union
from lakeevolve.tables import delta

from .conftest import Refused, evolve, field, record, stage

X = field("x", "int")
ENUM = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}


def ping(*fields: dict[str, Any], name: str = "Ping", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def by_key(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def union(*branches: Any) -> Schema:
    return record(field("id", "long"), field("u", list(branches)))


NEW = field("y", ["null", "int"], default=None)

#: name -> (before, after, the routes taken)
CASES: dict[str, tuple[Schema, Schema, set[str]]] = {
    "an optional field is added": (union("string", ping(X)), union("string", ping(X, NEW)), {"metadata"}),
    "a field with a default is added": (
        union("string", ping(X)),
        union("string", ping(X, field("y", "int", default=4))),
        {"backfill"},
    ),
    "a field is dropped": (union("string", ping(X, field("y", "int"))), union("string", ping(X)), {"rewrite"}),
    "a field is renamed": (
        union("string", ping(X)),
        union("string", ping(field("z", "int", aliases=["x"]))),
        {"rewrite", "metadata"},
    ),
    "a field is promoted": (union("string", ping(X)), union("string", ping(field("x", "long"))), {"rewrite"}),
    "a field becomes optional": (
        union("string", ping(X)),
        union("string", ping(field("x", ["null", "int"]))),
        {"metadata"},
    ),
    "fields move": (
        union("string", ping(X, field("y", "int"))),
        union("string", ping(field("y", "int"), X)),
        {"metadata"},
    ),
    "a record within the branch changes": (
        union("string", ping(field("n", ping(X, name="Inner")))),
        union("string", ping(field("n", ping(X, NEW, name="Inner")))),
        {"metadata"},
    ),
    "a union within the branch changes": (
        union("string", ping(field("n", ["int", ping(X, name="Inner")]))),
        union("string", ping(field("n", ["int", ping(X, field("y", "int", default=3), name="Inner")]))),
        {"backfill"},
    ),
    "the items of a list change": (union("string", of("int")), union("string", of("long")), {"rewrite"}),
    "the records of a list change": (union("string", of(ping(X))), union("string", of(ping(X, NEW))), {"metadata"}),
    "the records of a map change": (
        union("string", by_key(ping(X))),
        union("string", by_key(ping(X, NEW))),
        {"rewrite"},
    ),
    "a branch is added": (union("string", ping(X)), union("string", ping(X), "int"), {"metadata"}),
    "a record is added as a branch": (
        union("string", ping(X)),
        union("string", ping(X), ping(X, name="Pong")),
        {"metadata"},
    ),
    "a branch is promoted": (union("int", ping(X)), union("long", ping(X)), {"rewrite"}),
    "every branch is promoted": (union("int", "float"), union("long", "double"), {"rewrite"}),
    "a branch is renamed": (
        union("string", ping(X)),
        union("string", ping(X, name="Pong", aliases=["Ping"])),
        {"rewrite", "metadata"},
    ),
    "a branch is renamed and changes": (
        union("string", ping(X)),
        union(
            "string",
            ping(field("z", "long", aliases=["x"]), field("k", "int", default=3), name="Pong", aliases=["Ping"]),
        ),
        {"rewrite", "backfill", "metadata"},
    ),
    "the union becomes nullable and a branch changes": (
        union("string", ping(X)),
        union("null", "string", ping(X, NEW)),
        {"metadata"},
    ),
    "a nullable union's branch changes": (
        union("null", "string", ping(X, field("y", "int"))),
        union("null", "string", ping(X)),
        {"rewrite"},
    ),
    "another record has the branch's short name": (
        record(*union("string", ping(X)).to_json()["fields"], field("w", ping(X, name="other.Ping"))),  # type: ignore[index]
        record(
            *union("string", ping(X, field("y", "int", default=4))).to_json()["fields"],  # type: ignore[index]
            field("w", ping(X, name="other.Ping")),
        ),
        {"backfill"},
    ),
    "unions in a list": (
        record(field("id", "long"), field("u", of(["string", ping(X)]))),
        record(field("id", "long"), field("u", of(["string", ping(X, NEW)]))),
        {"metadata"},
    ),
    "unions in a map": (
        record(field("id", "long"), field("u", by_key(["string", ping(X)]))),
        record(field("id", "long"), field("u", by_key(["string", ping(X, field("y", "int", default=4))]))),
        {"backfill"},
    ),
    "an enum is renamed": (
        union("int", ENUM),
        union("int", {**ENUM, "name": "Status", "aliases": ["State"]}),
        {"rewrite", "metadata"},
    ),
}


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "never seen"])
@pytest.mark.parametrize("case", CASES)
def test_a_branch_changes_and_its_rows_stay(
    case: str, marked: bool, tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    before, after, routes = CASES[case]
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before, mark=marked)
    delta.append(uri, rows(before, 40, 1))
    assert {can.route for can in evolve(uri, after).routes.values()} == routes
    table = delta.open(uri)
    assert table.schema == after
    delta.append(uri, rows(after, 10, 2))
    assert sum(batch.num_rows for batch in table.read()) == 40


def unused(schema: Schema, rows: Callable[[Schema, int, int], pa.Table], branch: str) -> pa.Table:
    """Rows of which none uses a branch."""
    made = rows(schema, 60, 3)
    return made.filter(pc.invert(pc.is_valid(pc.struct_field(made.column("u"), branch))))


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "never seen"])
@pytest.mark.parametrize(
    ("before", "branch"),
    [
        (union("string", ping(X), ping(X, name="Pong")), "Pong"),
        (union("string", ping(X), "int"), "int"),
        (union("string", ping(X), ENUM), "State"),
    ],
)
def test_a_branch_that_no_row_uses_goes(
    before: Schema, branch: str, marked: bool, tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before, mark=marked)
    delta.append(uri, unused(before, rows, branch))
    found = evolve(uri, union("string", ping(X)))
    assert found.routes["DropBranch u"].precondition == "branch-unused"


def test_an_enum_that_a_row_of_a_table_never_seen_uses_does_not_go(
    tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table says text where the enum was, so that any text in it counts as in use."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    before, uri = union("string", "int", ENUM), f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before)
    delta.append(uri, rows(before, 40, 1))
    plan = le.plan(uri, union("string", "int"), mode="NONE")
    with pytest.raises(PlanBlocked, match="holds the branch State"):
        le.apply(plan, allow=["rewrite", "drop"])
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 40


def test_a_fixed_branch_of_a_table_never_seen_goes_once_the_union_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    before, after = union("string", {"type": "fixed", "name": "F", "size": 2}), union("string", "int")
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before)
    (step,) = le.plan(uri, after, mode="NONE").steps
    assert step.route == "refuse"
    assert "plan that union first, which records it" in step.reason
    assert le.apply(le.plan(uri, before)).ok
    assert {step.route for step in le.plan(uri, after, mode="NONE").steps} == {"rewrite", "metadata"}


def test_a_struct_that_holds_no_branch_of_the_union_is_a_record(tmp_path: Path) -> None:
    before = record(field("id", "long"), field("u", ping(field("a", ["null", "int"]), field("b", ["null", "string"]))))
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, before)
    target = union("string", ping(X))
    found = delta.open(uri).derived(target).record.field("u")
    assert found is not None
    assert not isinstance(found.type, Union)
    with pytest.raises(Refused):
        stage(uri, target)
