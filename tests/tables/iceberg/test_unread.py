"""Tables whose rows cannot be read: what is changed all the same, and what of it is proved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import LongType, NestedField, StringType

import lakeevolve as le
from lakeevolve.errors import PermitMissing, PlanBlocked, ReplayMismatch, StalePlan, UnsupportedTable
from lakeevolve.rules.table import ROWS_UNREADABLE
from lakeevolve.tables.iceberg import create_table
from lakeevolve.tables.iceberg import stage as staging
from lakeevolve.tables.iceberg.unread import wrong_in
from lakeevolve.testing import evolutions


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": list(fields)}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


INNER = {"type": "record", "name": "Inner", "fields": [f("x", "int")]}
OLD = record(f("id", "long"), f("v", "int"), f("s", INNER), f("l", {"type": "array", "items": "int"}))
NEW = record(
    f("id", "long"),
    f("w", "long", aliases=["v"]),
    f("s", {**INNER, "fields": [f("x", ["null", "int"]), f("y", ["null", "string"], default=None)]}),
    f("l", {"type": "array", "items": ["null", "int"]}),
)
ROWS = [{"id": number, "v": number * 10, "s": {"x": 1}, "l": [1]} for number in (1, 2, 3)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    return tmp_path


def duck_rows(duck: Any, table: Any) -> list[dict[str, Any]]:
    table.refresh()
    location = table.iceberg.metadata_location.removeprefix("file://")
    return list(duck.execute(f"SELECT * FROM iceberg_scan('{location}') ORDER BY id").to_arrow_table().to_pylist())


def test_nested_columns_change_beside_an_equality_key_and_duckdb_reads_the_rows_that_are_left(
    workshop: Any, delete_equal: Any, duck: Any, home: Path
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    delete_equal(table, id=2)
    assert [row["id"] for row in duck_rows(duck, table)] == [1, 3]
    done = le.apply(le.plan(table, NEW, mode="NONE"))
    assert (done.status, done.proof, done.replay) == ("applied", None, None)
    assert [each.rule for each in done.findings] == [ROWS_UNREADABLE.id]
    assert duck_rows(duck, table) == [
        {"id": number, "w": number * 10, "s": {"x": 1, "y": None}, "l": [1]} for number in (1, 3)
    ]


def test_columns_beside_an_equality_key_are_dropped_by_permit_alone(
    workshop: Any, delete_equal: Any, duck: Any, home: Path
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    delete_equal(table, id=2)
    ids = {column.name: column.field_id for column in table.iceberg.schema().columns}
    inner = {"type": "record", "name": "Inner", "fields": [f("y", ["null", "string"], default=None)]}
    target = record(f("id", "long"), f("t", inner, aliases=["s"]), f("l", {"type": "array", "items": "int"}))
    plan = le.plan(table, target, mode="NONE")
    dropped = [step for step in plan.steps if "drop" in step.permits]
    assert {(change.path, step.route) for step in dropped for change in step.changes} == {
        ("v", "metadata"),
        ("t.x", "metadata"),
    }
    assert all(step.irreversible for step in dropped)
    with pytest.raises(PermitMissing):
        le.apply(plan)
    assert le.apply(plan, allow=("drop",)).status == "applied"
    assert duck_rows(duck, table) == [{"id": number, "t": {"y": None}, "l": [1]} for number in (1, 3)]
    kept = {column.name: column.field_id for column in table.iceberg.schema().columns}
    assert kept == {"id": ids["id"], "t": ids["s"], "l": ids["l"]}


@pytest.mark.parametrize("key", ["id", "s"])
def test_a_column_that_equality_deletes_compare_or_that_holds_one_is_not_dropped(
    key: str, workshop: Any, delete_equal: Any, home: Path
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    inside = table.iceberg.schema().find_field("s.x").field_id
    delete_equal(table, ids=(inside,) if key == "s" else None, id=2)
    target = record(*(each for each in OLD["fields"] if each["name"] != key))
    plan = le.plan(table, target, mode="NONE")
    assert {step.route for step in plan.steps} == {"refuse"}
    assert "(the equality key), which has to stay as it is" in plan.steps[0].reason
    with pytest.raises(PlanBlocked):
        le.apply(plan, allow=("drop",))


def test_an_equality_delete_that_names_no_column_refuses_every_change(
    workshop: Any, delete_equal: Any, home: Path
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    delete_equal(table, id=2)
    delete_equal(table, ids=(), id=3)
    plan = le.plan(table, NEW, mode="NONE")
    assert {step.route for step in plan.steps} == {"refuse"}
    assert all("does not say which columns" in step.reason for step in plan.steps)


def test_equality_deletes_that_come_after_the_plan_stop_what_they_forbid(
    workshop: Any, delete_equal: Any, home: Path
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    plan = le.plan(table, NEW, mode="NONE")
    delete_equal(table, v=20)
    before = table.iceberg.schema()
    with pytest.raises((StalePlan, PlanBlocked)):
        le.apply(plan)
    table.refresh()
    assert table.iceberg.schema() == before


def test_an_equality_delete_that_lands_while_a_change_is_prepared_is_looked_at_before_the_commit(
    workshop: Any, delete_equal: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    delete_equal(table, id=2)
    plan = le.plan(table, NEW, mode="NONE")
    commit, landed = type(table).commit, []

    def late(self: Any, *given_: Any) -> Any:
        if not landed:
            landed.append(delete_equal(workshop.reopen(table), v=30))
        return commit(self, *given_)

    monkeypatch.setattr(type(table), "commit", late)
    with pytest.raises(UnsupportedTable, match="the equality key"):
        le.apply(plan)
    table.refresh()
    assert [column.name for column in table.iceberg.schema().columns] == ["id", "v", "s", "l"]


def changed(schema: IcebergSchema, called: str, **more: Any) -> IcebergSchema:
    columns = [
        NestedField(
            **{
                "field_id": each.field_id,
                "name": each.name,
                "field_type": each.field_type,
                "required": each.required,
                **(more if each.name == called else {}),
            }
        )
        for each in schema.columns
    ]
    return IcebergSchema(*columns, schema_id=schema.schema_id)


TAMPERED: list[tuple[Callable[[IcebergSchema], IcebergSchema], str]] = [
    (lambda schema: changed(schema, "w", field_id=99), "w: field id 2 would become 99"),
    (lambda schema: changed(schema, "w", field_type=StringType()), "w: the column would be string"),
    (lambda schema: changed(schema, "id", field_type=StringType()), "id: the column would be string"),
    (lambda schema: changed(schema, "w", required=False), "w: the column would be optional"),
    (lambda schema: changed(schema, "id", name="key"), "id: the column would be missing"),
    (lambda schema: IcebergSchema(*schema.columns[1:], schema_id=schema.schema_id), "id: the column would be missing"),
    (lambda schema: changed(schema, "s", field_type=LongType()), "s: the column would be"),
    (lambda schema: IcebergSchema(*schema.columns[:-1], schema_id=schema.schema_id), "l: the column would be missing"),
]


@pytest.mark.parametrize(("tamper", "told"), TAMPERED)
def test_a_staged_schema_that_is_not_the_planned_one_is_not_committed(
    tamper: Any, told: str, workshop: Any, delete_equal: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    delete_equal(table, id=2)
    plan, before = le.plan(table, NEW, mode="NONE"), table.iceberg.metadata
    evolve = staging.evolve

    def wrongly(*given_: Any, **options: Any) -> Any:
        evolved = evolve(*given_, **options)
        evolved.schema = tamper(evolved.schema)
        return evolved

    monkeypatch.setattr(staging, "evolve", wrongly)
    with pytest.raises(ReplayMismatch, match="nothing was committed") as caught:
        le.apply(plan)
    assert told in caught.value.what
    table.refresh()
    assert table.iceberg.metadata == before


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_what_is_staged_for_a_change_of_metadata_is_what_the_plan_says(data: Any, workshop: Any) -> None:
    old, new = data.draw(evolutions(tables=True, compatible=True, depth=2))
    with tempfile.TemporaryDirectory() as folder:
        shop = type(workshop)(Path(folder))
        try:
            table = create_table(shop.uri(), old, mark=True)
            evolved = shop.prepare(table, new)
        except UnsupportedTable:
            return
        if evolved.routes() - {"metadata"} or any(can.precondition for _, can in evolved.capabilities):
            return
        wrong = list(wrong_in(evolved.staged.metadata, table.iceberg.metadata, evolved.evolution))
        assert wrong == []
