"""A plan's way to the table: what is run, what is refused, and what is left when it fails."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "float"},
        {"name": "quantity", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "zip", "type": "int"}, {"name": "city", "type": "string"}],
            },
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
    ],
}


def evolved(**edits: Any) -> dict[str, Any]:
    """BASE with fields replaced by name (None drops one), new ones at the end."""
    fields = [edits.pop(f["name"], f) for f in BASE["fields"]]
    return {**BASE, "fields": [f for f in fields if f is not None] + list(edits.values())}


CURRENCY = {"name": "currency", "type": "string", "default": "EUR"}
ADDRESS = {
    "name": "address",
    "type": {
        "type": "record",
        "name": "Address",
        "fields": [
            {"name": "postcode", "aliases": ["zip"], "type": "long"},
            {"name": "city", "type": "string"},
            {"name": "country", "type": "string", "default": "DE"},
        ],
    },
}
LINES = {
    "name": "lines",
    "type": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "Line",
            "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int", "default": 1}],
        },
    },
}
EVERYTHING = evolved(
    amount={"name": "total", "aliases": ["amount"], "type": "double"},
    quantity={"name": "quantity", "type": "double"},
    note=None,
    address=ADDRESS,
    lines=LINES,
    currency=CURRENCY,
)
ALL = ("rewrite", "backfill", "drop")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    """A table of two files under the base schema."""
    schema = le.load(BASE)
    uri: str = lake.create("orders", schema, rows(schema, 40, 1))
    lake.append(uri, rows(schema, 25, 2))
    return uri


def test_a_saved_plan_is_applied_and_every_row_reads_what_resolution_says(orders: str, tmp_path: Path) -> None:
    saved = le.plan(orders, EVERYTHING, mode="NONE").save(tmp_path / "plan.json")
    done = le.apply(saved, allow=ALL)
    assert done.status == "applied"
    assert done.proof is not None
    assert done.proof.ok
    assert done.replay is not None
    assert done.replay.ok
    assert done.replay.rows == 65
    assert le.open_table(orders).schema == le.load(EVERYTHING)
    assert le.verify(orders, full=True, columns="all").ok


def test_a_plan_read_back_is_the_plan_that_was_saved(orders: str, tmp_path: Path) -> None:
    made = le.plan(orders, EVERYTHING, mode="NONE")
    assert le.load_plan(made.save(tmp_path / "plan.json")) == made
    assert le.load_plan(tmp_path / "plan.json").digest == made.digest


def test_the_same_inputs_make_the_same_plan(orders: str) -> None:
    first, second = (json.dumps(le.plan(orders, EVERYTHING, mode="NONE").to_json()) for _ in range(2))
    assert first == second


def test_applying_twice_is_a_no_op(orders: str, lake: Any) -> None:
    plan = le.plan(orders, EVERYTHING, mode="NONE")
    le.apply(plan, allow=ALL)
    before = contents(lake.folder / "lake")
    assert le.apply(plan, allow=ALL).status == "already-applied"
    assert contents(lake.folder / "lake") == before


def test_a_plan_for_the_schema_that_the_table_has_is_empty_and_does_nothing(orders: str, lake: Any) -> None:
    le.apply(le.plan(orders, BASE))
    plan = le.plan(orders, BASE)
    assert plan.empty
    before = contents(lake.folder / "lake")
    assert le.apply(plan).status == "nothing-to-do"
    assert contents(lake.folder / "lake") == before


def test_a_plan_is_stale_once_the_schema_changed_and_apply_does_nothing(
    orders: str, lake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(orders, EVERYTHING, mode="NONE").save(tmp_path / "plan.json")
    le.apply(le.plan(orders, evolved(extra={"name": "extra", "type": ["null", "int"], "default": None})))
    assert le.load_plan(saved).stale()
    before = contents(lake.folder / "lake")
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite", "--allow", "drop", "--allow", "backfill"]) == 4
    assert "stale" in capsys.readouterr().err
    assert contents(lake.folder / "lake") == before


def test_appends_do_not_make_a_plan_stale(orders: str, lake: Any, rows: Rows) -> None:
    plan = le.plan(orders, EVERYTHING, mode="NONE")
    lake.append(orders, rows(le.load(BASE), 30, 3))
    assert plan.stale() is None
    done = le.apply(plan, allow=ALL)
    assert done.replay is not None
    assert done.replay.rows == 95


@pytest.mark.parametrize("given", [(), ("rewrite",), ("drop",), ("drop", "backfill")])
def test_nothing_runs_without_its_permit(orders: str, lake: Any, given: tuple[str, ...]) -> None:
    target = evolved(note=None, quantity={"name": "quantity", "type": "double"})
    plan = le.plan(orders, target, mode="NONE")
    before = contents(lake.folder / "lake")
    with pytest.raises(le.errors.PermitMissing):
        le.apply(plan, allow=given)
    assert contents(lake.folder / "lake") == before


def test_a_step_without_a_resolution_is_refused_in_every_mode(orders: str, lake: Any) -> None:
    for target in (
        evolved(amount={"name": "amount", "type": "int"}),
        evolved(currency={"name": "currency", "type": "string"}),
        evolved(quantity={"name": "quantity", "type": "string"}),
    ):
        plan = le.plan(orders, target, mode="NONE")
        assert [step.route for step in plan.refused] == ["refuse"]
        before = contents(lake.folder / "lake")
        with pytest.raises(le.errors.PlanBlocked):
            le.apply(plan, allow=ALL)
        assert contents(lake.folder / "lake") == before


def test_old_rows_null_makes_the_column_optional_without_a_rewrite(orders: str) -> None:
    target = evolved(currency=CURRENCY, channel={"name": "channel", "type": "string"})
    plan = le.plan(orders, target, mode="NONE", old_rows="null")
    assert {step.route for step in plan.steps} == {"metadata"}
    le.apply(plan)
    table = le.open_table(orders)
    read = pa.Table.from_batches(list(table.read()))
    assert read["currency"].null_count == 65
    assert read["channel"].null_count == 65
    assert le.verify(orders).ok


def test_old_rows_is_chosen_per_path(orders: str) -> None:
    target = evolved(currency=CURRENCY, channel={"name": "channel", "type": "string"})
    le.apply(le.plan(orders, target, mode="NONE", old_rows={"channel": "null"}), allow=("backfill", "rewrite"))
    read = pa.Table.from_batches(list(le.open_table(orders).read()))
    assert set(read["currency"].to_pylist()) == {"EUR"}
    assert read["channel"].null_count == 65
    assert le.verify(orders, full=True).ok


def test_a_dry_run_writes_nothing(orders: str, lake: Any) -> None:
    plan = le.plan(orders, EVERYTHING, mode="NONE")
    before = contents(lake.folder)
    assert le.apply(plan, allow=ALL, dry_run=True).status == "dry-run"
    assert contents(lake.folder) == before


def test_an_edited_plan_is_refused(orders: str, lake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = le.plan(orders, EVERYTHING, mode="NONE").save(tmp_path / "plan.json")
    record = json.loads(saved.read_text())
    record["steps"][0]["permit"] = None
    record["steps"][0]["route"] = "metadata"
    saved.write_text(json.dumps(record))
    before = contents(lake.folder / "lake")
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite"]) == 2
    assert "digest" in capsys.readouterr().err
    assert contents(lake.folder / "lake") == before


def test_a_plan_for_another_table_is_refused(orders: str, lake: Any, rows: Rows) -> None:
    other = lake.create("others", le.load(BASE), rows(le.load(BASE), 5, 5))
    plan = le.plan(orders, EVERYTHING, mode="NONE")
    before = le.open_table(other).state
    with pytest.raises(le.errors.PlanError):
        le.apply(plan, allow=ALL, table=le.open_table(other))
    assert le.open_table(other).state == before


def test_ctrl_c_while_files_are_written_leaves_the_table_as_it_was(
    orders: str, lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(orders, EVERYTHING, mode="NONE").save(tmp_path / "plan.json")
    before = contents(lake.folder / "lake")

    def interrupt(phase: str, done: int, of: int) -> None:
        if phase == "rewrite":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        le.apply(saved, allow=ALL, progress=interrupt)
    assert contents(lake.folder / "lake") == before
    assert le.apply(saved, allow=ALL).status == "applied"


def test_ctrl_c_on_the_command_line_is_exit_130(
    orders: str, lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(orders, EVERYTHING, mode="NONE").save(tmp_path / "plan.json")
    before = contents(lake.folder / "lake")
    from lakeevolve.applying import apply as module

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "prove_staged", interrupted)
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite", "--allow", "drop", "--allow", "backfill"]) == 130
    assert capsys.readouterr().err.count("\n") <= 3
    assert contents(lake.folder / "lake") == before


def test_a_state_folder_that_cannot_be_written_stops_apply_before_anything(
    orders: str, lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = le.plan(orders, EVERYTHING, mode="NONE").save(tmp_path / "plan.json")
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(blocked))
    before = contents(lake.folder / "lake")
    assert main(["apply", str(saved), "--yes", "--allow", "rewrite", "--allow", "drop", "--allow", "backfill"]) == 2
    said = capsys.readouterr().err
    assert "state folder" in said
    assert said.count("\n") <= 3
    assert contents(lake.folder / "lake") == before


def test_the_state_can_be_lost_without_harm(orders: str, lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = le.plan(orders, EVERYTHING, mode="NONE")
    le.apply(plan, allow=ALL)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(lake.folder / "another"))
    assert le.apply(plan, allow=ALL).status == "already-applied"
    assert [version.number for version in le.open_table(orders).history()] == [1, 2]
    assert le.verify(orders, full=True).ok


def change_one_value(file: Path, column: str, row: int, value: Any, within: str | None = None) -> None:
    """Rewrite a Parquet file with one value changed and everything else, field ids included, as it was."""
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index(column)
    values = table.column(at).to_pylist()
    if within is None:
        values[row] = value
    else:
        values[row] = {**values[row], within: value}
    changed = table.set_column(at, table.schema.field(at), pa.array(values, type=table.schema.field(at).type))
    pq.write_table(changed, file)


@pytest.mark.parametrize(
    ("column", "within", "path"), [("quantity", None, "quantity"), ("address", "postcode", "address.postcode")]
)
def test_one_changed_value_in_a_rewritten_file_is_found_with_file_row_and_path(
    orders: str, lake: Any, column: str, within: str | None, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    le.apply(le.plan(orders, EVERYTHING, mode="NONE"), allow=ALL)
    table = le.open_table(orders)
    file = next(f for f in table.files() if f.rows == 40)
    stored = next((lake.folder / "lake").rglob(Path(file.path).name))
    change_one_value(stored, column, 7, 987654.0 if within is None else 987654, within)
    assert main(["verify", orders, "--full"]) == 5
    said = capsys.readouterr().out
    assert Path(file.path).name in said
    assert "row 7" in said
    assert path in said
    assert "987654" not in said
    assert main(["verify", orders, "--full", "--format", "json"]) == 5
    record = json.loads(capsys.readouterr().out)
    # Delta's log knows the size of each file, so there a changed one is told by that as well.
    found = [(Path(m["file"]).name, m["row"], m["path"]) for m in record["mismatches"] if m["row"] is not None]
    assert found == [(Path(file.path).name, 7, path)]


def test_foreign_columns_are_never_in_a_diff_and_survive_a_rewrite(lake: Any, rows: Rows) -> None:
    wide = {**BASE, "fields": [*BASE["fields"], {"name": "_offset", "type": "long"}]}
    schema = le.load(wide)
    data = rows(schema, 40, 9)
    uri = lake.create("orders", schema, data)
    plan = le.plan(uri, EVERYTHING, mode="NONE")
    assert not [change for change in plan.changes if change.path == "_offset"]
    le.apply(plan, allow=ALL)
    read = pa.Table.from_batches(list(le.open_table(uri).read()))
    assert sorted(read["_offset"].to_pylist()) == sorted(data["_offset"].to_pylist())
    assert le.open_table(uri).foreign == ("_offset",)
    assert le.verify(uri, full=True).ok


def test_a_suspected_rename_blocks_the_plan_until_the_owner_has_spoken(orders: str) -> None:
    target = evolved(amount={"name": "amounts", "type": ["null", "float"], "default": None})
    plan = le.plan(orders, target, mode="NONE")
    assert "NAME-RENAME-SUSPECTED" in {finding.rule for finding in plan.failures}
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(plan, allow=ALL)
    approved = le.plan(orders, target, mode="NONE", renames=[("amount", "amounts")])
    assert approved.applicable
    assert [change.path for change in approved.changes if type(change).__name__ == "RenameField"] == ["amount"]
    le.apply(approved, allow=ALL)
    assert le.verify(orders, full=True).ok
