"""Staging and committing: one atomic step, or nothing."""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.types import IntegerType, StringType
from pyiceberg.utils.config import Config

import lakeevolve as le
from lakeevolve.errors import CatalogUnavailable, CommitConflict, PlanBlocked, TableError, UnsupportedTable
from lakeevolve.tables.iceberg import open_table

OLD = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "int"}, {"name": "a", "type": ["null", "int"]}],
}


def with_fields(*fields: Any) -> dict[str, Any]:
    return {**OLD, "fields": [*OLD["fields"], *fields]}  # type: ignore[misc]


OPTIONAL = with_fields({"name": "c", "type": ["null", "string"], "default": None})
BACKFILLED = with_fields({"name": "c", "type": "string", "default": "x"})
REQUIRED = {**OLD, "fields": [{"name": "id", "type": "int"}, {"name": "a", "type": "int"}]}
ROWS = [{"id": 1, "a": 1}, {"id": 2, "a": 2}]


def lies_there(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")}


def test_a_commit_holds_schema_snapshot_and_marker(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    before = table.iceberg.metadata
    workshop.evolve(table, BACKFILLED)
    after = table.iceberg.metadata
    assert len(after.metadata_log) == len(before.metadata_log) + 1
    assert len(after.schemas) == len(before.schemas) + 1
    assert len(after.snapshots) == len(before.snapshots) + 1
    snapshot = after.current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == after.current_schema_id
    assert snapshot.summary is not None
    assert snapshot.summary["total-records"] == "2"
    assert after.properties["lakeevolve.version"] == "2"
    versions = table.history()
    assert [version.number for version in versions] == [1, 2]
    assert versions[1].commit == before.current_snapshot_id
    assert [file.version for file in table.files()] == [2]


def test_nothing_refers_to_what_is_staged_and_abandoning_deletes_it(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    before, there = table.iceberg.metadata_location, lies_there(workshop.folder)
    evolved = workshop.prepare(table, BACKFILLED)
    assert lies_there(workshop.folder) > there
    assert open_table(table.uri).iceberg.metadata_location == before
    assert evolved.staged.abandon() == ()
    assert lies_there(workshop.folder) == there
    assert evolved.staged.abandon() == ()


def test_a_stage_that_fails_leaves_no_file(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    workshop.append(table, OLD, ROWS)
    there = lies_there(workshop.folder)
    seen: list[Any] = []

    def convert(file: Any) -> Any:
        seen.append(file)
        for batch in table.raw(file):
            if len(seen) == 2:
                raise TableError("the second file cannot be converted")
            yield batch.append_column("c", pa.array(["x"] * len(batch)))

    with pytest.raises(TableError, match="second file"):
        workshop.prepare(table, BACKFILLED, convert=convert)
    assert lies_there(workshop.folder) == there


def test_a_required_column_never_gets_a_null(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)

    def convert(file: Any) -> Any:
        for batch in table.raw(file):
            yield batch.append_column("c", pa.nulls(len(batch), pa.string()))

    with pytest.raises(PlanBlocked, match=r"required column would hold a null .*\.parquet, row 0, c\)"):
        workshop.prepare(table, BACKFILLED, convert=convert)


def test_staged_metadata_reads_as_the_table_will(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, BACKFILLED)
    rows = [row for batch in evolved.staged.read() for row in batch.to_pylist()]
    assert rows == [{**row, "c": "x"} for row in ROWS]
    (file,) = evolved.staged.files
    assert file.sources == tuple(f.path for f in table.files())
    assert [row for batch in evolved.staged.raw(file) for row in batch.to_pylist()] == rows
    metadata = workshop.prepare(table, OPTIONAL)
    (live,) = table.files()
    rows = [row for batch in metadata.staged.read(live) for row in batch.to_pylist()]
    assert rows == [{**row, "c": None} for row in ROWS]


def test_a_rewrite_after_which_another_writer_appended_does_not_land(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, BACKFILLED)
    workshop.append(workshop.reopen(table), OLD, [{"id": 3, "a": 3}])
    before = open_table(table.uri).iceberg.metadata_location
    with pytest.raises(CommitConflict, match="rows after they were checked or rewritten"):
        workshop.commit(table, evolved)
    assert open_table(table.uri).iceberg.metadata_location == before
    assert evolved.staged.abandon() == ()
    table.refresh()
    workshop.evolve(table, BACKFILLED)
    rows = [row for batch in table.read() for row in batch.to_pylist()]
    assert sorted(row["id"] for row in rows) == [1, 2, 3]
    assert {row["c"] for row in rows} == {"x"}


def test_a_check_of_the_data_does_not_land_after_an_append(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    evolved = workshop.prepare(table, REQUIRED)
    assert evolved.capabilities[0][1].precondition == "no-nulls"
    workshop.append(workshop.reopen(table), OLD, [{"id": 3, "a": None}])
    with pytest.raises(CommitConflict):
        workshop.commit(table, evolved)


def test_a_metadata_change_lands_after_an_append(workshop: Any, read: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    workshop.append(workshop.reopen(table), OLD, [{"id": 3, "a": 3}])
    workshop.commit(table, evolved)
    got = read(table)
    assert got.ours == got.expected == got.duckdb == [{"id": n, "a": n, "c": None} for n in (1, 2, 3)]
    assert [file.version for file in table.files()] == [1, 1]


def test_a_change_of_the_schema_by_others_is_a_conflict(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    other = open_table(table.uri).iceberg
    with other.update_schema() as update:
        update.add_column("z", StringType())
    with pytest.raises(CommitConflict, match="schema"):
        workshop.commit(table, evolved)
    assert "c" not in open_table(table.uri).iceberg.schema().column_names


def test_two_versions_recorded_at_once_do_not_overwrite_each_other(workshop: Any, monkeypatch: Any) -> None:
    table = workshop.table(OLD, ROWS, mark=True)
    doc = {**OLD, "fields": [{"name": "id", "type": "int", "aliases": ["key"]}, OLD["fields"][1]]}
    other = {**OLD, "fields": [{"name": "id", "type": "int", "aliases": ["nr"]}, OLD["fields"][1]]}
    first, second = workshop.prepare(table, doc), workshop.prepare(table, other)
    assert first.staged.updates == ()
    workshop.commit(table, first)
    with pytest.raises(CommitConflict, match="another version was recorded first"):
        workshop.commit(table, second)
    # The catalog checks it once more, in the moment of the swap.
    monkeypatch.setattr("lakeevolve.tables.iceberg.commit._refuse_moved", lambda *_: None)
    with pytest.raises(CommitConflict):
        workshop.commit(table, second)
    assert open_table(table.uri).schema == first.evolution.target


def test_a_change_of_the_partitioning_by_others_is_a_conflict(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    with open_table(table.uri).iceberg.update_spec() as update:
        update.add_identity("a")
    with pytest.raises(CommitConflict, match="partitioning"):
        workshop.commit(table, evolved)


def test_a_commit_whose_answer_was_lost_counts_as_done(workshop: Any, monkeypatch: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    from pyiceberg.table import Table

    real = Table._do_commit

    def lost(self: Any, *args: Any) -> None:
        real(self, *args)
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(Table, "_do_commit", lost)
    workshop.commit(table, evolved, plan="the-plan")
    assert table.progress_of("the-plan") == "done"
    assert len(table.history()) == 2


def test_a_commit_that_fails_for_another_reason_is_our_error(workshop: Any, monkeypatch: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    from pyiceberg.table import Table

    def broken(self: Any, *args: Any) -> None:
        raise ConnectionError("password=secret")

    monkeypatch.setattr(Table, "_do_commit", broken)
    with pytest.raises(TableError) as caught:
        workshop.commit(table, evolved)
    assert "secret" not in " ".join(caught.value.lines())
    assert len(open_table(table.uri).history()) == 1


def test_a_swap_that_lost_to_an_append_is_tried_again(workshop: Any, monkeypatch: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table import Table

    real = Table._do_commit
    raced: list[int] = []

    def racing(self: Any, *args: Any) -> None:
        if not raced:
            raced.append(1)
            with contextlib.suppress(StopIteration):
                raise CommitFailedException("Table has been updated by another process")
        real(self, *args)

    monkeypatch.setattr(Table, "_do_commit", racing)
    workshop.commit(table, evolved)
    assert raced
    assert len(table.history()) == 2


def test_a_schema_id_that_the_catalog_chose_otherwise_is_corrected(workshop: Any, monkeypatch: Any) -> None:
    from lakeevolve.tables.iceberg.stage import StagedEvolution

    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    real = StagedEvolution.origin
    monkeypatch.setattr(StagedEvolution, "origin", lambda self, now: {**real(self, now), "schema_id": 99})
    workshop.commit(table, evolved)
    versions = table.history()
    assert [version.schema_id for version in versions] == [0, 1]
    assert not versions[-1].derived


def test_progress_is_read_off_the_table(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    assert table.progress_of("p") == "none"
    workshop.commit(table, workshop.prepare(table, OPTIONAL), plan="p")
    assert open_table(table.uri).progress_of("p") == "done"
    assert open_table(table.uri).progress_of("q") == "none"


def test_the_marker_records_versions_that_others_made(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    workshop.evolve(table, OPTIONAL)
    with table.iceberg.update_schema() as update:
        update.add_column("z", IntegerType())
    table.refresh()
    versions = table.history()
    assert [(v.number, v.derived) for v in versions] == [(1, True), (2, False), (3, True)]
    target = json.loads(json.dumps(versions[-1].schema.to_json()))
    target["fields"].append({"name": "y", "type": ["null", "int"], "default": None})
    workshop.evolve(table, target)
    properties = table.iceberg.metadata.properties
    assert {key for key in properties if key.startswith("lakeevolve.v.")} == {f"lakeevolve.v.{n}" for n in (1, 2, 3, 4)}
    assert [v.schema for v in open_table(table.uri).history()][:3] == [v.schema for v in versions]


def test_a_table_of_format_version_3_is_not_staged(workshop: Any, monkeypatch: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, OPTIONAL)
    object.__setattr__(table.iceberg, "metadata", table.iceberg.metadata.model_copy(update={"format_version": 3}))
    with pytest.raises(UnsupportedTable, match="format version 3"):
        table.stage(evolved.evolution)


def test_a_pinned_table_is_not_changed(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    pinned = open_table(f"{table.uri}@{table.state.position}")
    evolved = workshop.prepare(table, OPTIONAL)
    with pytest.raises(TableError, match="old snapshot"):
        pinned.stage(evolved.evolution)


def test_a_file_that_is_gone_is_not_rewritten(workshop: Any) -> None:
    table = workshop.table(OLD, ROWS)
    evolved = workshop.prepare(table, BACKFILLED)
    evolved.staged.abandon()
    workshop.evolve(workshop.reopen(table), OPTIONAL)
    table.refresh()
    table.iceberg.delete()
    table.refresh()
    with pytest.raises(TableError):
        table.stage(evolved.evolution)


@pytest.mark.parametrize("kind", ["embedded", "configured"])
@pytest.mark.parametrize("target", [OPTIONAL, BACKFILLED], ids=["metadata", "backfill"])
def test_a_commit_that_somebody_who_reads_the_catalog_held_up_is_not_taken_for_landed(
    kind: str, target: Any, workshop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    table = workshop.table(OLD, ROWS, mark=True)
    file = workshop.folder / "lake" / "catalog.db"
    uri = table.uri if kind == "embedded" else "iceberg:held/shop.t"
    options = {"TYPE": "sql", "URI": f"sqlite:///{file}", "WAREHOUSE": file.parent.as_uri()}
    with contextlib.closing(sqlite3.connect(file)) as known:
        known.execute("UPDATE iceberg_tables SET catalog_name = 'held'")
        known.execute("UPDATE iceberg_namespace_properties SET catalog_name = 'held'")
        known.commit()
    for option, value in options.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__HELD__{option}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    # A lock is waited for: five seconds unless told otherwise.
    monkeypatch.setattr(sqlite3.dbapi2, "connect", functools.partial(sqlite3.connect, timeout=0.1))
    plan = le.plan(uri, target)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_tables").fetchone()
        for _ in range(2):
            with pytest.raises(CatalogUnavailable, match="did not answer"):
                le.apply(plan, allow=("backfill",))
            assert [version.number for version in le.open_table(uri).history()] == [1]
    assert le.apply(plan, allow=("backfill",)).status == "applied"
    assert [version.number for version in le.open_table(table.uri).history()] == [1, 2]
    assert le.verify(table.uri).ok
