"""Folders of Parquet files and Arrow data in memory: what becomes of them, and what never may."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError, PermitMissing, PlanBlocked, StalePlan, TableError

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "amount": pa.array([10, None, -3, 7], pa.int16()),
        "name": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "note": pa.array(["x", None, "", "é"], pa.large_string()),
        "_offset": pa.array([5, 6, 7, 8], pa.int64()),
    }
)
TARGET = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": ["null", "long"], "default": None, "aliases": ["amount"]},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "country", "type": "string", "default": "US"},
    ],
}
ALLOW = ("rewrite", "backfill", "drop")


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    folder = tmp_path / "orders"
    (folder / "more").mkdir(parents=True)
    pq.write_table(ROWS.slice(0, 3), folder / "a.parquet", compression="gzip")
    pq.write_table(ROWS.slice(3), folder / "more" / "b.parquet")
    (folder / "README.md").write_text("mine")
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def evolve(target: Any = None, table: Any = "parquet:orders", **more: Any) -> Any:
    plan = le.plan(table, target or TARGET, **more)
    return le.apply(plan, allow=ALLOW, table=None if isinstance(table, str) else table)


def test_an_evolution_writes_a_new_folder_and_leaves_the_old_one(orders: Path, tmp_path: Path) -> None:
    before = bytes_of(orders)
    done = evolve()
    assert (done.status, done.version, done.rewritten, done.ok) == ("applied", 2, 2, True)
    assert bytes_of(orders) == before
    new = tmp_path / "orders.v2"
    assert sorted(bytes_of(new)) == ["_lakeevolve.json", "a.parquet", "more/b.parquet"]
    assert pq.read_table(new).to_pylist() == [
        {
            "id": row["id"],
            "total": row["amount"],
            "name": row["name"],
            "note": row["note"],
            "country": "US",
            "_offset": row["_offset"],
        }
        for row in ROWS.to_pylist()
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "orders.v2", "state"]


def test_columns_that_stay_keep_their_types_and_files_their_compression(orders: Path, tmp_path: Path) -> None:
    evolve()
    held = pq.read_schema(tmp_path / "orders.v2" / "a.parquet")
    assert held.field("name").type == ROWS.schema.field("name").type
    assert held.field("note").type == pa.large_string()
    assert held.field("_offset").type == pa.int64()
    assert (held.field("total").type, held.field("country").nullable) == (pa.int64(), False)
    group = pq.read_metadata(tmp_path / "orders.v2" / "a.parquet").row_group(0)
    assert group.column(0).compression == "GZIP"


def test_a_plan_is_applied_once_and_the_next_version_has_the_next_number(orders: Path, tmp_path: Path) -> None:
    plan = le.plan("parquet:orders", TARGET)
    assert le.apply(plan, allow=ALLOW).status == "applied"
    new = bytes_of(tmp_path / "orders.v2")
    assert le.apply(plan, allow=ALLOW).status == "already-applied"
    assert bytes_of(tmp_path / "orders.v2") == new
    wider = {**TARGET, "fields": [*TARGET["fields"], {"name": "n", "type": ["null", "int"], "default": None}]}
    assert evolve(wider, "parquet:orders.v2").version == 3
    table = le.open_table("parquet:orders.v3")
    assert [version.number for version in table.history()] == [1, 2, 3]
    result = le.verify(table, full=True, columns="all")
    assert result.ok
    assert result.notes == ()


def test_a_rewrite_is_proved_again_while_the_folder_before_is_there(orders: Path, tmp_path: Path) -> None:
    evolve()
    file = tmp_path / "orders.v2" / "a.parquet"
    data = pq.read_table(file)
    wrong = data.set_column(1, data.schema.field(1), pa.array([10, None, -4], pa.int64()))
    pq.write_table(wrong, file)
    table = le.open_table("parquet:orders.v2")
    assert le.verify(table).ok, "the file alone says nothing of what it came from"
    found = le.verify(table, full=True).mismatches
    assert [(m.file, m.row, m.path) for m in found] == [("orders.v2/a.parquet", 2, "total")]
    os.rename(orders, tmp_path / "elsewhere")
    assert any("is not there any more" in note for note in le.verify(table, full=True).notes)


@pytest.mark.parametrize("damage", ["missing", "fewer", "short", "stale", "type"])
def test_damage_to_an_evolved_folder_is_named_and_located(orders: Path, tmp_path: Path, damage: str) -> None:
    evolve()
    file = tmp_path / "orders.v2" / "a.parquet"
    if damage == "missing":
        file.unlink()
        wanted = [("orders.v2/a.parquet", None, "unreadable")]
    elif damage == "fewer":
        pq.write_table(pq.read_table(file).slice(1), file)
        wanted = [("orders.v2/a.parquet", None, "count")]
    elif damage == "short":
        file.write_bytes(file.read_bytes()[:-40])
        wanted = [("orders.v2/a.parquet", None, "unreadable")]
    elif damage == "stale":
        # A writer that still uses the old schema.
        pq.write_table(ROWS.slice(1, 1), file.with_name("late.parquet"))
        wanted = [("orders.v2/late.parquet", 0, "lost")]
    else:
        data = pq.read_table(file)
        pq.write_table(data.set_column(1, "total", pa.array(["1", "2", "3"])), file)
        wanted = [("orders.v2/a.parquet", None, "unreadable")]
    result = le.verify("parquet:orders.v2")
    assert not result.ok
    found = {(m.file, m.row, m.kind) for m in result.mismatches}
    assert found >= set(wanted), found


def test_files_that_come_while_the_new_folder_is_written_are_in_it(orders: Path, tmp_path: Path) -> None:
    plan, table = le.plan("parquet:orders", TARGET), le.open_table("parquet:orders")
    stage, times = table.stage, []

    def staging(evolution: Any) -> Any:
        made = stage(evolution)
        if not times:
            pq.write_table(ROWS.slice(0, 1), orders / "late.parquet")
        times.append(1)
        return made

    table.stage = staging  # type: ignore[method-assign]
    assert le.apply(plan, allow=ALLOW, table=table).ok
    assert len(times) == 2
    assert pq.read_table(tmp_path / "orders.v2").num_rows == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "orders.v2", "state"]


def test_a_failure_midway_leaves_nothing(orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, write = le.plan("parquet:orders", TARGET), pq.ParquetWriter.write_table
    calls: list[int] = []

    def failing(self: Any, table: pa.Table, *args: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write(self, table, *args, **more)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", failing)
    before = bytes_of(orders)
    with pytest.raises(TableError, match="No space left"):
        le.apply(plan, allow=ALLOW)
    assert bytes_of(orders) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "state"]


def test_a_killed_apply_leaves_no_folder_that_anybody_reads_and_the_next_one_tidies_up(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeevolve.applying.journal.GRACE", -1)
    le.plan("parquet:orders", TARGET).save("plan.json")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    script = (
        "import os, lakeevolve as le\n"
        "from lakeevolve.tables.parquet.folder import FolderTarget\n"
        "FolderTarget.finish = lambda *a: os._exit(9)\n"
        "le.apply('plan.json', allow=('rewrite', 'backfill'))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, cwd=tmp_path, env=env).returncode == 9
    assert not (tmp_path / "orders.v2").exists()
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".lakeevolve-")]
    assert len(left) == 1
    done = le.apply("plan.json", allow=ALLOW)
    assert (done.status, len(done.leftovers.deleted)) == ("applied", 2)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".lakeevolve-")]


def test_a_folder_that_is_in_the_way_is_not_touched_and_another_may_be_named(orders: Path, tmp_path: Path) -> None:
    (tmp_path / "orders.v2").mkdir()
    (tmp_path / "orders.v2" / "mine").write_text("mine")
    plan = le.plan("parquet:orders", TARGET)
    with pytest.raises(TableError, match="there already"):
        le.apply(plan, allow=ALLOW)
    assert bytes_of(tmp_path / "orders.v2") == {"mine": b"mine"}
    table = le.open_table("parquet:orders", into="new/orders")
    (tmp_path / "new").mkdir()
    assert evolve(table=table).ok
    assert pq.read_table(tmp_path / "new" / "orders").num_rows == 4
    assert le.verify("parquet:new/orders", full=True).notes == ()


def test_going_back_makes_a_new_folder_of_the_old_rows(orders: Path, tmp_path: Path) -> None:
    evolve()
    assert le.rollback("parquet:orders.v2", 1).status == "rolled-back"
    old, new = bytes_of(orders), bytes_of(tmp_path / "orders.v3")
    assert {name: new[name] for name in new if name.endswith("parquet")} == {
        name: old[name] for name in old if name.endswith("parquet")
    }
    assert le.verify("parquet:orders.v3", full=True, columns="all").ok
    assert le.open_table("parquet:orders.v3").history()[-1].restores == 1


def test_rows_that_were_added_since_are_not_lost_by_going_back(orders: Path, tmp_path: Path) -> None:
    evolve()
    pq.write_table(pq.read_table(tmp_path / "orders.v2").slice(0, 1), tmp_path / "orders.v2" / "late.parquet")
    with pytest.raises(PermitMissing, match="would lose rows"):
        le.rollback("parquet:orders.v2", 1)
    assert not (tmp_path / "orders.v3").exists()
    evolve({**TARGET, "doc": "Told."}, "parquet:orders.v2")
    with pytest.raises(PermitMissing, match="would lose rows"):
        le.rollback("parquet:orders.v3", 1)
    assert le.rollback("parquet:orders.v3", 1, allow={"lose-rows"}).status == "rolled-back"


def test_old_rows_may_read_null_and_required_rows_are_checked(orders: Path, tmp_path: Path) -> None:
    assert evolve(old_rows="null").ok
    column = pq.read_table(tmp_path / "orders.v2")["country"]
    assert column.null_count == 4
    strict = {**TARGET, "fields": [TARGET["fields"][0], {"name": "amount", "type": "long"}, *TARGET["fields"][2:4]]}
    with pytest.raises(PlanBlocked):
        le.apply(le.plan("parquet:orders", strict, mode="NONE"), allow=ALLOW)


def test_what_no_reader_sees_is_recorded_beside_the_same_files(orders: Path, tmp_path: Path) -> None:
    evolve()
    told = {**TARGET, "doc": "Orders.", "fields": [{**TARGET["fields"][0], "doc": "Key."}, *TARGET["fields"][1:]]}
    plan = le.plan("parquet:orders.v2", told)
    assert {step.route for step in plan.steps} == {"metadata"}
    assert le.apply(plan).ok
    two, three = bytes_of(tmp_path / "orders.v2"), bytes_of(tmp_path / "orders.v3")
    assert {name: three[name] for name in three if name.endswith("parquet")} == {
        name: two[name] for name in two if name.endswith("parquet")
    }
    assert le.open_table("parquet:orders.v3").schema.fields[0].doc == "Key."


def test_a_plan_is_stale_once_a_file_has_other_columns(orders: Path) -> None:
    evolve()
    plan = le.plan("parquet:orders.v2", {**TARGET, "fields": TARGET["fields"][:-1]}, mode="NONE")
    pq.write_table(ROWS, Path("orders.v2") / "late.parquet")
    with pytest.raises(StalePlan):
        le.apply(plan, allow=ALLOW)


def refused(uri: str, **more: Any) -> str:
    with pytest.raises(TableError) as caught:
        le.open_table(uri, **more).schema  # noqa: B018
    assert len(caught.value.lines()) == 3
    return str(caught.value)


def test_what_is_no_folder_of_one_schema_is_refused_by_name(orders: Path, tmp_path: Path) -> None:
    assert "no such folder" in refused("parquet:nowhere")
    (tmp_path / "empty").mkdir()
    assert "no Parquet file" in refused("parquet:empty")
    assert "on a disk" in refused("parquet:s3://key:secret@bucket/orders")
    assert "secret" not in refused("parquet:s3://key:secret@bucket/orders")
    pq.write_table(ROWS.select(["id"]), orders / "c.parquet")
    said = refused("parquet:orders")
    assert "a.parquet and c.parquet" in said
    assert "differs" in said
    (orders / "c.parquet").unlink()
    (orders / "country=FR").mkdir()
    pq.write_table(ROWS, orders / "country=FR" / "a.parquet")
    said = refused("parquet:orders")
    assert "partitioned by its path: country=..." in said
    assert "FR" not in said


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format_version": "2.0", "properties": {}}', "{}"])
def test_a_marker_that_cannot_be_read_is_said_to_be(orders: Path, text: str) -> None:
    (orders / "_lakeevolve.json").write_text(text)
    with pytest.raises(TableError, match="marker"):
        le.open_table("parquet:orders")


def test_no_column_may_hold_null_where_the_schema_says_that_none_does(orders: Path, tmp_path: Path) -> None:
    required = {**TARGET, "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}]}
    with pytest.raises(PlanBlocked):
        le.apply(le.plan("parquet:orders", required, mode="NONE"), allow=ALLOW)
    assert not (tmp_path / "orders.v2").exists()


@pytest.mark.parametrize("kind", ["table", "dataset", "batch"])
def test_data_in_memory_becomes_a_new_object(kind: str, orders: Path, tmp_path: Path) -> None:
    data: Any = {"table": ROWS, "dataset": ds.dataset(orders, exclude_invalid_files=True), "batch": None}[kind]
    data = ROWS.combine_chunks().to_batches()[0] if data is None else data
    table = le.open_table(data)
    done = evolve(table=table)
    assert done.ok
    assert isinstance(table.arrow, pa.Table)
    assert table.arrow["total"].to_pylist() == [10, None, -3, 7]
    assert set(table.arrow["country"].to_pylist()) == {"US"}
    again = le.open_table(table.arrow)
    assert [version.number for version in again.history()] == [1, 2]
    assert le.verify(again, columns="all").ok
    assert le.verify(data).ok
    assert {step.route for step in le.plan(data, TARGET).steps} >= {"backfill", "rewrite"}


def test_what_is_no_data_is_no_table() -> None:
    with pytest.raises(ConfigError, match="cannot be made of a int"):
        le.open_table(3)
    with pytest.raises(ConfigError, match="no folder"):
        le.open_table(ROWS, into="x")


def test_a_user_evolves_a_folder_on_the_command_line(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("v2.avsc").write_text(json.dumps(TARGET))
    assert main(["plan", "parquet:orders", "v2.avsc", "--out", "plan.json"]) == 0
    assert "the rows go into the new folder orders.v2" in capsys.readouterr().out
    assert main(["apply", "plan.json", "--yes", "--allow", "rewrite", "--allow", "backfill"]) == 0
    said = capsys.readouterr().out
    assert "parquet:orders.v2 is at version 2" in said
    assert "parquet:orders is as it was" in said
    for command in (["verify", "--full"], ["history"], ["describe"]):
        assert main([command[0], "parquet:orders.v2", *command[1:]]) == 0
        assert capsys.readouterr().out.startswith(("replay of parquet:orders.v2: equal", "parquet:orders.v2"))
    assert main(["verify", "parquet:nowhere"]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 3
