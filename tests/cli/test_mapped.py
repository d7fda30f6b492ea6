"""Tables whose columns have other names than the schema's fields, and columns that no schema owns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError, PlanError
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def address(*fields: dict[str, Any]) -> dict[str, Any]:
    return record(*fields, name="Address")


#: The table as a sink made it, and the schema of the topic.
SUNK = record(
    {"name": "order_id", "type": "long"},
    {"name": "ship_to", "type": address({"name": "zip_code", "type": "int"})},
    {"name": "kafka_offset", "type": "long"},
)
V1 = record(
    {"name": "orderId", "type": "long"},
    {"name": "shipTo", "type": address({"name": "zipCode", "type": "int"})},
)
V2 = record(
    {"name": "orderId", "type": "long"},
    {"name": "shipTo", "type": address({"name": "zipCode", "type": "long"})},
    {"name": "currencyCode", "type": "string", "default": "EUR"},
)
MAPPING = {"orderId": "order_id", "shipTo": "ship_to", "shipTo.zipCode": "ship_to.zip_code"}
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def sunk(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(SUNK), rows(le.load(SUNK), 30, 1))
    return uri


@pytest.fixture
def project(sunk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a project whose only table is the sink's."""
    monkeypatch.delenv("LAKEEVOLVE_STATE")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.avsc").write_text(json.dumps(V1))
    (tmp_path / "report.json").write_text(
        json.dumps({"contract": "report", "owner": "ann", "fields": [{"path": "shipTo.zipCode", "type": "long"}]})
    )
    uri = sunk.replace(f"{tmp_path}/", "")
    (tmp_path / "lakeevolve.yaml").write_text(
        f"version: 1\nstate: state\nsubjects:\n"
        f"  orders: {{source: orders.avsc, tables: ['{uri}'], contracts: [report.json]}}\n"
        f"tables:\n  '*orders':\n    mapping: {json.dumps(MAPPING)}\n    foreign: ['kafka_*']\n"
    )
    return tmp_path


def read(uri: str) -> list[dict[str, Any]]:
    found = [row for batch in le.open_table(uri).read() for row in batch.to_pylist()]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def run(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    got = main(args)
    printed = capsys.readouterr()
    assert got == code, printed.out + printed.err
    return printed.out


def test_a_mapped_table_is_checked_planned_applied_and_verified_by_its_own_names(
    sunk: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read(sunk)
    assert "adopt" in run(capsys, "plan", "--format", "json")
    run(capsys, "apply", "--yes")
    live = le.open_table(sunk)
    assert [field.name for field in live.schema.fields] == ["order_id", "ship_to"]
    assert live.foreign == ("kafka_offset",)

    (project / "orders.avsc").write_text(json.dumps(V2))
    run(capsys, "check")
    run(capsys, "apply", "--yes", "--allow", "rewrite", "--allow", "backfill")
    run(capsys, "verify", "--full")
    run(capsys, "verify", sunk, "--full")
    assert read(sunk) == [{**row, "currencyCode": "EUR"} for row in before]
    told = run(capsys, "history", sunk)
    assert "ship_to.zip_code" in told
    assert "currencyCode" in told
    assert "shipTo" not in told


def test_contracts_and_renames_are_said_in_the_schemas_names(
    sunk: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "apply", "--yes")
    (project / "orders.avsc").write_text(
        json.dumps(
            record(
                {"name": "orderId", "type": "long"},
                {"name": "shipTo", "type": address({"name": "zip", "aliases": ["zipCode"], "type": "int"})},
            )
        )
    )
    for command in (["check"], ["plan"]):
        told = json.loads(run(capsys, *command, "--format", "json", code=1))
        found = told["parts"][0]["result"]["findings"]
        assert ("CONTRACT-FIELD-GONE", "ship_to.zip_code") in {(each["rule"], each["path"]) for each in found}
    # The alias is the old field, whose column is mapped: the column is renamed, not added.
    plan = le.plan(
        sunk,
        record(
            {"name": "orderNo", "type": "long"},
            {"name": "shipTo", "type": address({"name": "zip", "aliases": ["zipCode"], "type": "int"})},
        ),
        mapping=MAPPING,
        foreign=["kafka_*"],
        renames={"orderId": "orderNo"},
    )
    assert plan.renames == {"orderNo": "order_id", "ship_to.zip": "ship_to.zip_code"}
    le.apply(plan, allow=ALL)
    assert le.verify(sunk, full=True).ok
    assert le.open_table(sunk).foreign == ("kafka_offset",)
    back = le.revert(plan)
    assert back.inputs.foreign == ("kafka_*",)
    le.apply(back, allow=ALL)
    assert [field.name for field in le.open_table(sunk).schema.fields] == ["order_id", "ship_to"]


def test_a_name_that_stays_the_same_in_the_table_is_no_rename(sunk: str) -> None:
    mapping = {"orderId": "order_id", "orderNo": "order_id", "shipTo": "ship_to", "shipTo.zipCode": "ship_to.zip_code"}
    target = record({"name": "orderNo", "aliases": ["orderId"], "type": "long"}, V1["fields"][1])
    plan = le.plan(sunk, target, mapping=mapping, foreign=["kafka_*"], renames={"orderId": "orderNo"})
    assert plan.changes == ()
    assert plan.applicable


def test_the_rows_may_be_a_record_inside_the_schema(sunk: str) -> None:
    envelope = record(
        {"name": "op", "type": "string"},
        {"name": "after", "type": ["null", V2], "default": None},
        name="Envelope",
    )
    mapping = {"after": "$", **{f"after.{path}": column for path, column in MAPPING.items()}}
    plan = le.plan(sunk, envelope, mapping=mapping, foreign=["kafka_*"], old_rows={"after.currencyCode": "null"})
    assert [change.path for change in plan.changes] == ["currencyCode", "ship_to.zip_code"]
    le.apply(plan, allow=ALL)
    assert {row["currencyCode"] for row in read(sunk)} == {None}
    assert le.verify(sunk, full=True).ok


def test_a_foreign_column_that_others_add_later_is_no_drift(
    sunk: str, project: Path, lake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "apply", "--yes")
    lake.add_column(sunk, "kafka_part")
    told = json.loads(run(capsys, "plan", "--format", "json"))["parts"][0]["result"]
    assert [each["via"] for each in told["steps"] if each["via"] != "adopt"] == []
    for found in (told, json.loads(run(capsys, "history", sunk, "--format", "json"))):
        assert [each for each in found["findings"] if each["rule"].startswith("DRIFT")] == []
    run(capsys, "verify")
    (project / "orders.avsc").write_text(json.dumps(V2))
    run(capsys, "apply", "--yes", "--allow", "rewrite", "--allow", "backfill")
    run(capsys, "verify", "--full")
    assert [row["kafka_part"] for row in read(sunk)] == [None] * 30
    assert le.open_table(sunk).foreign == ("kafka_offset", "kafka_part")
    assert le.open_table(sunk).history()[-1].recorded


def test_a_saved_plan_knows_which_columns_are_nobodys(sunk: str, tmp_path: Path) -> None:
    saved = le.plan(sunk, V2, mapping=MAPPING, foreign=["kafka_*"]).save(tmp_path / "plan.json")
    assert le.load_plan(saved).inputs.foreign == ("kafka_*",)
    le.apply(saved, allow=ALL)
    assert {row["kafka_offset"] for row in read(sunk)} != {None}


@pytest.mark.parametrize(
    ("mapping", "foreign", "error", "said", "hint"),
    [
        ({"orderID": "order_id"}, [], ConfigError, "does not exist: orderID", "did you mean orderId?"),
        (MAPPING, ["kafka_ofset"], PlanError, "does not exist: kafka_ofset", "did you mean kafka_offset?"),
        (MAPPING, ["kafka_*", "order*"], PlanError, "order_id is owned by the schema", "no schema has"),
    ],
)
def test_unknown_and_owned_names_are_refused_with_the_nearest_right_word(
    sunk: str, mapping: dict[str, str], foreign: list[str], error: type[Exception], said: str, hint: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        le.plan(sunk, V1, mapping=mapping, foreign=foreign)
    assert hint in caught.value.hint  # type: ignore[attr-defined]


def test_a_column_that_the_tables_marker_owns_is_not_made_nobodys(sunk: str) -> None:
    le.apply(le.plan(sunk, le.open_table(sunk).schema))
    with pytest.raises(PlanError, match="kafka_offset is owned by the schema that the table's marker records"):
        le.plan(sunk, V1, mapping=MAPPING, foreign=["kafka_*"])
