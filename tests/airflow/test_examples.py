"""The example DAGs, run by Airflow itself: all the way, after a kill, and with a plan that became stale on the way."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.airflow import plan_table
from lakeevolve.applying import ledger
from lakeevolve.config.state import state_of

pytestmark = pytest.mark.airflow

OLD = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
SECRET = "hunter2-of-the-store"
CONF = {"schema": "orders.avsc"}


def approve(table: str) -> str:
    plan: str = plan_table(table, "orders.avsc")["plan"]
    Path("approvals").mkdir(exist_ok=True)
    Path("approvals/one.approval.yaml").write_text(f"plan: {plan}\napprover: ann\nuntil: 2099-01-01\n")
    return plan


def rows(table: str) -> list[Any]:
    found = deltalake.DeltaTable(table.removeprefix("delta:")).to_pyarrow_table()
    return sorted(map(tuple, (row.values() for row in found.to_pylist())))


def listed(folder: str) -> set[str]:
    return {path.name for path in Path(folder).glob("*.parquet")}


def live() -> set[str]:
    return {Path(uri).name for uri in deltalake.DeltaTable("lake/orders").file_uris()}


EVOLVED = [(0, "US"), (1, "US"), (2, "US"), (3, "US"), (10, "US"), (11, "US"), (12, "US"), (13, "US")]


def test_a_table_is_checked_planned_approved_applied_and_verified_and_a_second_run_has_nothing_to_do(
    airflow: Any, orders: Callable[..., str]
) -> None:
    table = orders(airflow.place)
    plan = approve(table)
    ran = airflow.run("evolve_orders", CONF)
    assert ran.state == "success", ran.log
    assert set(ran.tasks.values()) == {("success", 1)}
    assert rows(table) == EVOLVED
    assert ran.xcoms["plan"]["plan"] == ran.xcoms["apply"]["plan"] == plan
    assert ran.xcoms["apply"]["status"] == "applied"
    assert ran.xcoms["verify"]["rows"] == 8
    for name in ("check", "plan", "apply", "verify"):
        assert len(json.dumps(ran.xcoms[name])) < 1200
    assert Path(ran.xcoms["apply"]["evidence"]).is_file()
    assert Path(ran.xcoms["verify"]["evidence"]).is_file()
    assert ran.rendered["apply[-1]"]["plan"]["plan"] == plan
    (entry,) = ledger.entries(state_of(le.open_table(table).state.id))
    assert entry.record is not None
    assert entry.record["approver"] == "ann"

    again = airflow.run("evolve_orders", CONF)
    assert again.state == "success", again.log
    assert again.xcoms["plan"]["empty"]
    skipped = {name for name, (state, _) in again.tasks.items() if state == "skipped"}
    assert skipped == {"approved", "apply", "verify"}


def test_an_apply_that_is_told_to_end_stops_between_two_files_and_its_retry_ends_the_work(
    airflow: Any, orders: Callable[..., str]
) -> None:
    table = orders(airflow.place)
    approve(table)
    sentinel = airflow.place / "killed"
    ran = airflow.run("evolve_orders", CONF, kill=[signal.SIGTERM, 2, str(sentinel)])
    assert ran.state == "success", ran.log
    assert sentinel.exists()
    assert ran.tasks["apply"] == ("success", 2)
    assert "interrupted before the commit: the table is unchanged" in ran.log
    assert "(exit 130)" in ran.log
    # The first attempt had begun two of four files; the second left no trace of them.
    assert ran.xcoms["apply"]["status"] == "applied"
    assert rows(table) == EVOLVED
    old = {Path(add).name for add in deltalake.DeltaTable("lake/orders", version=4).file_uris()}
    assert listed("lake/orders") == live() | old


def test_a_worker_that_is_shot_while_it_writes_leaves_the_table_as_it_was_and_the_run_goes_on(
    airflow: Any, orders: Callable[..., str]
) -> None:
    table = orders(airflow.place)
    plan = approve(table)
    before = live()
    ran = airflow.run("evolve_orders", CONF, kill=[signal.SIGKILL, 3, str(airflow.place / "killed")])
    assert ran.code == -signal.SIGKILL
    assert live() == before
    assert len(listed("lake/orders") - before) >= 2

    ran = airflow.run("evolve_orders", CONF)
    assert ran.state == "success", ran.log
    assert ran.xcoms["apply"]["status"] == "applied"
    assert ran.xcoms["apply"]["plan"] == plan
    assert rows(table) == EVOLVED


def test_a_plan_that_became_stale_between_its_tasks_fails_at_once_and_touches_nothing(
    airflow: Any, orders: Callable[..., str]
) -> None:
    table = orders(airflow.place)
    approve(table)
    other = "import deltalake as d; d.DeltaTable('lake/orders').alter.add_columns([d.Field('note', 'string')])"
    ran = airflow.run("evolve_orders", CONF, before_apply=other)
    assert ran.state == "failed"
    # Three retries would be left, and none could help.
    assert ran.tasks["apply"] == ("failed", 1)
    assert ran.tasks["verify"][0] == "upstream_failed"
    assert "the plan is stale: since the plan was made, the table's" in ran.log
    assert "(exit 4)" in ran.log
    table_now = deltalake.DeltaTable("lake/orders")
    assert [field.name for field in table_now.schema().fields] == ["id", "note"]
    assert listed("lake/orders") == live()


def test_a_store_that_does_not_answer_is_tried_again(airflow: Any, orders: Callable[..., str]) -> None:
    table = orders(airflow.place)
    approve(table)
    once = (
        "import pathlib\n"
        "from lakeevolve.errors import CatalogUnavailable\n"
        "seen = pathlib.Path('down')\n"
        "first = not seen.exists()\n"
        "seen.touch()\n"
        "if first:\n"
        "    from lakeevolve.airflow import tasks\n"
        "    real = tasks.opened\n"
        "    def down(*_):\n"
        "        tasks.opened = real\n"
        "        raise CatalogUnavailable('the store did not answer', where='delta:lake/orders')\n"
        "    tasks.opened = down\n"
    )
    ran = airflow.run("evolve_orders", CONF, before_apply=once)
    assert ran.state == "success", ran.log
    assert ran.tasks["apply"] == ("success", 2)
    assert "the store did not answer" in ran.log
    assert rows(table) == EVOLVED


@pytest.mark.parametrize("answer", ["Approve", "Reject"])
def test_a_plan_is_applied_when_somebody_says_so_in_airflow_s_interface(
    airflow: Any, orders: Callable[..., str], answer: str
) -> None:
    table = orders(airflow.place)
    before = rows(table)
    ran = airflow.run("asked", {}, folder=Path(__file__).with_name("dags"), answer=answer)
    assert ran.state == "success", ran.log
    assert ran.tasks["ask"] == ("success", 1)
    assert ran.tasks["apply"][0] == ("success" if answer == "Approve" else "skipped")
    assert rows(table) == (EVOLVED if answer == "Approve" else before)


@pytest.fixture
def lake(tmp_path: Path, airflow: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A project with three Iceberg tables, one of which cannot follow its schema, in a catalog that only an Airflow
    connection knows."""
    from pyiceberg.catalog import load_catalog

    from lakeevolve.tables.iceberg import append, create_table

    monkeypatch.chdir(airflow.place)
    folder = tmp_path / "warehouse"
    folder.mkdir()
    catalog = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": folder.as_uri()}
    # A SQL catalog files its tables under the name that it was opened by, and the hook's is that of the connection.
    load_catalog("iceberg_default", **catalog).create_namespace("shop")
    for name in ("orders", "returns", "broken"):
        uri = f"iceberg:{folder}/shop.{name}"
        create_table(uri, le.load(OLD))
        append(uri, pa.table({"id": pa.array([1, 2], pa.int32())}))
    wider = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": "string", "default": ""}]}
    Path("rows.avsc").write_text(json.dumps(wider))
    Path("broken.avsc").write_text(json.dumps({**OLD, "fields": [{"name": "id", "type": "long"}]}))
    Path("lakeevolve.yaml").write_text(
        "version: 1\nstate: state\nsubjects:\n"
        "  rows: {source: rows.avsc, tables: ['iceberg:prod/shop.orders', 'iceberg:prod/shop.returns']}\n"
        "  broken: {source: broken.avsc, tables: ['iceberg:prod/shop.broken']}\n"
        "tables:\n  'iceberg:prod/shop.broken': {routes: {id: rewrite}}\n"
    )
    connection = {
        "conn_type": "iceberg",
        "login": "someone",
        "password": SECRET + "-login",
        "extra": {**catalog, "s3.secret-access-key": SECRET},
    }
    return {"AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps(connection), "FOLDER": str(folder)}


def test_every_table_of_a_project_is_evolved_by_itself_through_the_iceberg_connection(
    airflow: Any, lake: dict[str, str]
) -> None:
    ran = airflow.run("evolve_lake", {}, env=lake)
    states = {name: state for name, (state, _) in ran.tasks.items()}
    assert states["check"] == "success", ran.log
    assert [ran.xcoms["tables"][number] for number in range(3)] == [
        "iceberg:prod/shop.orders",
        "iceberg:prod/shop.returns",
        "iceberg:prod/shop.broken",
    ]
    for number in (0, 1):
        assert {states[f"evolve.{step}[{number}]"] for step in ("plan", "apply", "verify")} == {"success"}
        assert ran.xcoms[f"evolve.apply[{number}]"]["status"] == "applied"
    assert states["evolve.plan[2]"] == "failed"
    assert {states[f"evolve.{step}[2]"] for step in ("apply", "verify")} == {"upstream_failed"}
    assert ran.tasks["evolve.plan[2]"][1] == 1
    for name, columns in (("orders", ["id", "note"]), ("returns", ["id", "note"]), ("broken", ["id"])):
        live = le.open_table(f"iceberg:{lake['FOLDER']}/shop.{name}")
        assert [field.name for field in live.schema.fields] == columns

    # Nothing that is kept or shown holds what the connection holds.
    shown = [ran.log, json.dumps(ran.xcoms), json.dumps(ran.rendered)]
    kept = [path for path in airflow.place.rglob("*") if path.is_file()]
    assert any("evidence" in path.parts for path in kept)
    for text in [*shown, *(path.read_text(errors="replace") for path in kept)]:
        assert SECRET not in text
    # The second attempt of every task finds its work done.
    again = airflow.run("evolve_lake", {}, env=lake)
    assert again.xcoms["evolve.apply[0]"]["status"] == "nothing-to-do"
