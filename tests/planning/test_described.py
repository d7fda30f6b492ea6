"""A plan from a saved description: made where nobody may reach the table, and held against the table when applied."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]


def order(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "GONE"], "default": "NEW"}
ID, AMOUNT = {"name": "id", "type": "long"}, {"name": "amount", "type": "float"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
V1 = order(ID, AMOUNT, NOTE, {"name": "state", "type": STATE})
KEEP = {"name": "state", "type": STATE}
TARGETS = {
    "metadata": order(ID, AMOUNT, NOTE, KEEP, {"name": "more", "type": ["null", "int"], "default": None}),
    "backfill": order(ID, AMOUNT, NOTE, KEEP, {"name": "currency", "type": "string", "default": "EUR"}),
    "rewrite": order(ID, {"name": "total", "aliases": ["amount"], "type": "double"}, NOTE, KEEP),
    "drop": order(ID, AMOUNT, KEEP),
    "required": order(ID, AMOUNT, {"name": "note", "type": "string"}, KEEP),
    "symbol": order(ID, AMOUNT, NOTE, {"name": "state", "type": {**STATE, "symbols": ["NEW", "PAID"]}}),
}
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def table(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 30, 1), mark=True)
    return uri


def away(tmp_path: Path) -> Path:
    """Where the lake is while nobody may reach it."""
    return tmp_path / "away"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mark", [True, False], ids=["marked", "unmarked"])
def test_a_plan_is_the_one_that_the_table_itself_gives(
    lake: Any, rows: Rows, target: str, mark: bool, tmp_path: Path
) -> None:
    uri = lake.create("orders", le.load(V1), rows(le.load(V1), 30, 1), mark=mark)
    lake.append(uri, rows(le.load(V1), 10, 2))
    saved = le.describe(uri).save(tmp_path / "orders.json")
    from lakeevolve.tables.description import load_description

    itself = le.plan(uri, TARGETS[target], mode="NONE")
    # Nothing of the table can be reached.
    (tmp_path / "lake").rename(away(tmp_path))
    made = le.plan(load_description(saved), TARGETS[target], mode="NONE")
    away(tmp_path).rename(tmp_path / "lake")
    assert (made.described, itself.described) == (True, False)
    looked = [found for found in itself.findings if found.rule == "TABLE-ROWS-REFUSE"]
    assert [found for found in itself.findings if found not in looked] == list(made.findings)
    assert [step.to_json() for step in made.steps] == [step.to_json() for step in itself.steps]
    assert looked or made.digest == itself.digest
    assert made.read == itself.read


@pytest.mark.parametrize("target", ["metadata", "rewrite"])
def test_the_plan_of_a_fork_is_applied_where_the_table_is_and_its_approval_stands(
    table: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], lake: Any, rows: Rows
) -> None:
    schema = tmp_path / "new.avsc"
    schema.write_text(json.dumps(TARGETS[target]))
    described, plan = str(tmp_path / "orders.json"), str(tmp_path / "plan.json")
    assert main(["describe", table, "--save", described]) == 0
    (tmp_path / "lake").rename(away(tmp_path))
    assert main(["plan", described, str(schema), "--out", plan]) == 0
    assert "made from a saved description" in capsys.readouterr().out
    assert main(["check", described, str(schema)]) == 0
    away(tmp_path).rename(tmp_path / "lake")
    lake.append(table, rows(le.load(V1), 5, 3))
    word = {"plan": le.load_plan(plan).digest, "approver": "ann", "until": "2999-01-01"}
    (tmp_path / "a.approval.json").write_text(json.dumps(word))
    assert main(["apply", plan, "--approved", *(f"--allow={permit}" for permit in ALL)]) == 0
    assert le.verify(table, full=True).ok
    assert le.open_table(table).history()[-1].plan == word["plan"]


def test_what_needs_the_rows_is_said_not_to_be_checked_and_apply_checks_it(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = tmp_path / "new.avsc"
    schema.write_text(json.dumps(TARGETS["required"]))
    described, plan = str(le.describe(table).save(tmp_path / "orders.json")), str(tmp_path / "plan.json")
    assert main(["plan", described, str(schema), "--mode", "NONE", "--out", plan]) == 0
    assert "not checked: needs the table: note (no-nulls)" in capsys.readouterr().out
    state = le.open_table(table).state
    assert main(["apply", plan, "--yes", "--allow", "rewrite"]) == 1
    assert "row" in capsys.readouterr().err
    assert le.open_table(table).state == state


def test_a_plan_from_a_description_of_a_table_that_changed_since_is_stale(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = le.describe(table)
    le.apply(le.plan(table, TARGETS["metadata"]))
    saved = le.plan(described, TARGETS["backfill"]).save(tmp_path / "plan.json")
    assert main(["apply", str(saved), "--yes", "--allow", "backfill"]) == 4
    capsys.readouterr()
    assert main(["plan", "--rebase", str(saved), "--out", str(tmp_path / "new.json")]) == 0
    assert main(["apply", str(tmp_path / "new.json"), "--yes", "--allow", "backfill"]) == 0
    assert len(le.open_table(table).schema.fields) == 6


def test_a_description_holds_no_row_and_no_name_of_a_file(lake: Any, tmp_path: Path) -> None:
    schema = le.load(order(ID, {"name": "who", "type": "string"}))
    rows = pa.table({"id": [1], "who": ["Canary-Wren"]}, schema=le.arrow_schema(schema))
    uri = lake.create("people", schema, rows)
    text = le.describe(uri).save(tmp_path / "people.json").read_text()
    assert "Canary-Wren" not in text
    assert ".parquet" not in text.replace(".parquet.", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no description of a table"),
        ("{}", "no description of a table"),
        ("[]", "no description of a table"),
    ],
)
def test_a_file_that_is_no_description_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, schema = tmp_path / "orders.json", tmp_path / "new.avsc"
    file.write_text(text)
    schema.write_text(json.dumps(V1))
    assert main(["plan", str(file), str(schema)]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert len(printed.splitlines()) <= 3


def test_an_older_newer_or_edited_description_is_refused(table: str, tmp_path: Path) -> None:
    from lakeevolve.tables.description import Description, load_description

    record = le.describe(table).to_json()
    for wrong in (
        {key: value for key, value in record.items() if key != "planning"},
        {**record, "planning": {}},
        {**record, "planning": {**record["planning"], "metadata": {}}},
        {**record, "format": "hudi"},
    ):
        with pytest.raises(le.errors.SourceError, match="too little to plan from"):
            le.plan(Description(wrong), V1)
    file = tmp_path / "x.json"
    file.write_text(json.dumps({**record, "format_version": "2.0"}))
    with pytest.raises(le.errors.SourceError, match="format version"):
        load_description(file)


def test_rows_are_not_to_be_had_of_a_description(table: str, tmp_path: Path) -> None:
    from lakeevolve.tables.description import described_table

    found = described_table(le.describe(table))
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(le.errors.TableError, match="needs the table itself"):
        next(iter(found.read()))
