"""What must not happen to a table: each guard, and each trap that delta-rs sets, with a table that walks into it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Field, TableFeatures, Transaction, write_deltalake

import lakeevolve as le
from lakeevolve.errors import CommitConflict, PlanBlocked, StalePlan, TableError, UnsupportedTable
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta
from lakeevolve.tables.delta import stage as staging

from .conftest import bag, field, info, log_actions, record, stage

BASE = record(field("id", "long"), field("n", "int"), field("s", "string"))
RENAMED = record(field("id", "long"), field("count", "int", aliases=["n"]), field("s", "string"))
NOTED = record(*BASE.to_json()["fields"], field("note", ["null", "string"], default=None))  # type: ignore[index]
LOT = record(*BASE.to_json()["fields"], field("lot", "int", default=7))  # type: ignore[index]
ALL = ("rewrite", "backfill", "drop", "protocol-upgrade")


@pytest.fixture
def uri(two_files: Callable[[Schema], str]) -> str:
    return two_files(BASE)


def folder(uri: str) -> Path:
    return Path(uri.removeprefix("delta:"))


def live(uri: str) -> DeltaTable:
    return DeltaTable(folder(uri))


# Plans that no longer belong to the table ---------------------------------------------------------------------------


def _add_column(uri: str) -> None:
    live(uri).alter.add_columns([Field("theirs", "long", nullable=True)])


def _set_property(uri: str) -> None:
    live(uri).alter.set_table_properties({"delta.appendOnly": "true"})


def _add_feature(uri: str) -> None:
    live(uri).alter.add_feature([TableFeatures.ChangeDataFeed], allow_protocol_versions_increase=True)


def _replace(uri: str) -> None:
    shutil.rmtree(folder(uri))
    delta.create_table(uri, BASE, mark=True)


@pytest.mark.parametrize(
    ("meddle", "said"),
    [
        (_add_column, "schema"),
        (_set_property, "properties"),
        (_add_feature, "protocol"),
        (_replace, "another table"),
    ],
)
@pytest.mark.parametrize("target", [RENAMED, NOTED], ids=["rewrite", "metadata"])
def test_a_plan_is_stale_once_the_table_is_another(
    uri: str, target: Schema, meddle: Callable[[str], None], said: str
) -> None:
    plan = le.plan(uri, target, mode="NONE")
    meddle(uri)
    version = live(uri).version()
    with pytest.raises(StalePlan, match=said):
        le.apply(plan, allow=ALL)
    assert live(uri).version() == version


@pytest.mark.parametrize("target", [RENAMED, NOTED], ids=["rewrite", "metadata"])
def test_a_table_that_took_the_place_of_the_staged_one_is_left_alone(uri: str, target: Schema) -> None:
    attempt = stage(uri, target)
    _replace(uri)
    for number in range(2):
        delta.append(uri, pa.table({"id": pa.array([number]), "n": pa.array([1], pa.int32()), "s": ["theirs"]}))
    assert live(uri).version() == attempt.table.state.position
    with pytest.raises(CommitConflict):
        attempt.commit()
    assert live(uri).version() == 2
    assert {row["s"] for batch in delta.open(uri).read() for row in batch.to_pylist()} == {"theirs"}


# Writers that race --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [RENAMED, LOT], ids=["rename", "default"])
def test_rows_appended_while_files_are_rewritten_are_there_afterwards(
    uri: str, target: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, raced = staging._check_conditions, []

    def racing(*how: Any) -> None:
        if len(raced) < 2:
            raced.append(True)
            late = pa.table({"id": pa.array([100 + len(raced)]), "n": pa.array([9], pa.int32()), "s": ["late"]})
            delta.append(uri, late)
        real(*how)

    monkeypatch.setattr(staging, "_check_conditions", racing)
    before = sum(batch.num_rows for batch in delta.open(uri).read())
    done = le.apply(le.plan(uri, target, mode="NONE"), allow=ALL)
    assert done.status == "applied"
    assert len(raced) == 2
    found = [row for batch in delta.open(uri).read() for row in batch.to_pylist()]
    assert len(found) == before + 2
    assert {row["id"] for row in found if row["s"] == "late"} == {101, 102}
    assert le.verify(uri, full=True).ok
    # What the attempts that lost the race had written is gone again: the live files and their sources are there.
    listed = {
        action["add"]["path"]
        for v in range(live(uri).version() + 1)
        for action in log_actions(folder(uri), v)
        if "add" in action
    }
    assert {path.name for path in folder(uri).glob("*.parquet")} == listed


def test_a_writer_who_never_stops_leaves_the_table_as_it_is(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = staging._check_conditions

    def racing(*how: Any) -> None:
        delta.append(uri, pa.table({"id": pa.array([1]), "n": pa.array([9], pa.int32()), "s": ["late"]}))
        real(*how)

    monkeypatch.setattr(staging, "_check_conditions", racing)
    with pytest.raises(CommitConflict):
        le.apply(le.plan(uri, RENAMED, mode="NONE"), allow=ALL)
    assert delta.open(uri).schema == BASE
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 43


def test_a_stale_overwrite_of_delta_rs_itself_is_found_by_verify(uri: str) -> None:
    """delta-rs retries an overwrite over rows that it never saw (delta-io/delta-rs#3622): ours does not, theirs may."""
    le.apply(le.plan(uri, NOTED))
    stale = live(uri)
    delta.append(uri, pa.table({"id": pa.array([1]), "n": pa.array([9], pa.int32()), "s": ["late"]}))
    data = pa.table({"id": pa.array([1]), "n": pa.array([2], pa.int32()), "s": ["a"], "note": pa.array(["b"])})
    write_deltalake(stale, data, mode="overwrite", schema_mode="overwrite")
    table = delta.open(uri)
    assert table.schema == NOTED
    assert bag(table.read()) == bag(b for f in table.files() for b in table.read(f))


# Doing things twice -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [RENAMED, NOTED, LOT], ids=["rewrite", "metadata", "backfill"])
def test_applying_twice_is_one_change(uri: str, target: Schema) -> None:
    plan = le.plan(uri, target, mode="NONE")
    assert le.apply(plan, allow=ALL).status == "applied"
    version = live(uri).version()
    assert le.apply(plan, allow=ALL).status == "already-applied"
    assert live(uri).version() == version
    assert live(uri).transaction_version(f"lakeevolve/{plan.digest}") == 2


def test_a_transaction_alone_does_not_count_as_done(uri: str) -> None:
    plan = le.plan(uri, RENAMED, mode="NONE")
    ran = CommitProperties(app_transactions=[Transaction(f"lakeevolve/{plan.digest}", 2)])
    data = pa.table({"id": pa.array([1]), "n": pa.array([9], pa.int32()), "s": ["late"]}, schema=_arrow(uri))
    write_deltalake(live(uri), data, mode="append", commit_properties=ran)
    assert live(uri).transaction_version(f"lakeevolve/{plan.digest}") == 2
    assert le.apply(plan, allow=ALL).status == "applied"
    assert delta.open(uri).schema == RENAMED
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 41


def _arrow(uri: str) -> pa.Schema:
    return pa.schema(live(uri).schema().to_arrow())


# What other tools did since -----------------------------------------------------------------------------------------


def test_an_old_producer_that_brings_back_a_renamed_column_is_found(uri: str) -> None:
    le.apply(le.plan(uri, RENAMED, mode="NONE"), allow=ALL)
    old = pa.table(
        {"id": pa.array([1]), "n": pa.array([9], pa.int32()), "s": ["old"], "count": pa.array([0], pa.int32())}
    )
    write_deltalake(folder(uri), old, mode="append", schema_mode="merge")
    table = delta.open(uri)
    newest = table.history()[-1]
    assert newest.derived
    assert [f.name for f in table.schema.fields] == ["id", "count", "s", "n"]
    assert newest.fills == {"n": "null"}
    again = le.plan(uri, RENAMED, mode="NONE")
    assert "DropField" in {type(c).__name__ for step in again.steps for c in step.changes}
    # A plain append of the old producer is refused by delta-rs itself.
    with pytest.raises(Exception, match="n"):
        write_deltalake(folder(uri), old.drop_columns(["count"]).rename_columns(["id", "m", "s"]), mode="append")


def test_a_foreign_change_has_a_version_and_a_time(uri: str) -> None:
    le.apply(le.plan(uri, NOTED))
    _add_column(uri)
    found = delta.open(uri).history()
    assert [(v.number, v.derived) for v in found] == [(1, True), (2, False), (3, True)]
    assert found[2].commit == live(uri).version()
    times = [v.at for v in found]
    assert times[1] is not None
    assert times[2] is not None
    assert times[1] <= times[2]


def test_an_empty_commit_and_a_second_metadata_are_read_as_delta_rs_reads_them(uri: str) -> None:
    version = live(uri).version()
    log = folder(uri) / "_delta_log"
    (log / f"{version + 1:020d}.json").write_text("")
    assert delta.open(uri).state.position == version + 1
    metadata = next(a["metaData"] for a in log_actions(uri.removeprefix("delta:"), 0) if "metaData" in a)
    schema = json.loads(metadata["schemaString"])
    wider, widest = (
        {
            **metadata,
            "schemaString": json.dumps({**schema, "fields": [*schema["fields"], *(_nullable(n) for n in names)]}),
        }
        for names in (("x",), ("x", "y"))
    )
    lines = [{"commitInfo": {"timestamp": 1, "operation": "X"}}, {"metaData": wider}, {"metaData": widest}]
    (log / f"{version + 2:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = delta.open(uri)
    assert [f.name for f in table.schema.fields] == [f.name for f in live(uri).schema().fields]
    assert sum(batch.num_rows for batch in table.read()) == 40


def _nullable(name: str) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


# What is refused, and what is said ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "delta.enableTypeWidening",
        "delta.enableInCommitTimestamps",
        "delta.enableRowTracking",
        "delta.universalFormat.enabledFormats",
        "delta.enableIcebergCompatV2",
        "delta.thereIsNoSuchProperty",
    ],
)
def test_a_property_that_nothing_would_act_on_is_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTable, match=key):
        delta.create_table(f"delta:{tmp_path / 't'}", BASE, configuration={key: "true"})
    assert not (tmp_path / "t").exists()


def test_properties_that_delta_rs_keeps_up_are_set(tmp_path: Path) -> None:
    wanted = {
        "delta.appendOnly": "false",
        "delta.dataSkippingNumIndexedCols": "4",
        "delta.logRetentionDuration": "interval 7 days",
        "delta.enableTypeWidening": "false",
        "delta.constraints.positive": "id > 0",
        "owner": "shop",
    }
    delta.create_table(f"delta:{tmp_path / 't'}", BASE, configuration=wanted)
    assert wanted.items() <= DeltaTable(tmp_path / "t").metadata().configuration.items()


def test_a_rewrite_tells_readers_of_the_change_feed_what_they_will_see(tmp_path: Path) -> None:
    table = delta.create_table(
        f"delta:{tmp_path / 't'}", BASE, mark=True, configuration={"delta.enableChangeDataFeed": "true"}
    )
    attempt = stage(table, RENAMED)
    attempt.staged.abandon()
    assert any("load_cdf" in reader for reader in attempt.routes["RenameField n"].readers)


def test_files_that_could_not_be_taken_away_are_named(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name for path in folder(uri).glob("*.parquet")}
    attempt = stage(uri, RENAMED)
    attempt.staged.abandon()

    served: list[Any] = []

    def convert(file: Any) -> Iterator[pa.RecordBatch]:
        served.append(file)
        if len(served) == 2:
            raise TableError("the source broke", hint="try again")
        yield from attempt.evolution.convert(file)

    def undeletable(_fs: Any, paths: list[str]) -> tuple[str, ...]:
        return tuple(path for path in paths if (folder(uri) / path).exists())

    from dataclasses import replace

    monkeypatch.setattr(staging, "delete", undeletable)
    with pytest.raises(TableError, match="the source broke") as caught:
        attempt.table.stage(replace(attempt.evolution, convert=convert))
    (orphan,) = {path.name for path in folder(uri).glob("*.parquet")} - before
    assert f"VACUUM takes them: {orphan}" in caught.value.lines()[-1]
    assert delta.open(uri).schema == BASE
    live(uri).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert {path.name for path in folder(uri).glob("*.parquet")} == before


def test_rewritten_files_hold_no_view_types(uri: str) -> None:
    """daft and others cannot read files whose Arrow schema names them."""
    le.apply(le.plan(uri, LOT), allow=ALL)
    live(uri).delete("id = 3")
    le.apply(le.plan(uri, record(*LOT.to_json()["fields"], field("k", "int", default=1))), allow=ALL)  # type: ignore[index]
    for file in delta.open(uri).files():
        assert not [f for f in pq.read_schema(folder(uri) / file.path) if "view" in str(f.type)]


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("n", pa.array([2.7])),
        ("n", pa.array(["12"])),
        ("n", pa.array([2**40])),
        ("s", pa.array([12])),
        ("s", pa.array([b"\xff"])),
        ("n", pa.array([2**31], pa.uint32())),
    ],
)
def test_an_append_changes_no_value_to_make_it_fit(uri: str, column: str, array: pa.Array) -> None:
    data: dict[str, pa.Array] = {
        "id": pa.array([1]),
        "n": pa.array([1], pa.int32()),
        "s": pa.array(["a"]),
        column: array,
    }
    with pytest.raises(TableError):
        delta.append(uri, pa.table(data))
    assert live(uri).version() == 2


def test_unsigned_numbers_are_refused_by_their_type_and_dictionaries_are_taken(uri: str) -> None:
    data = pa.table({"id": pa.array([1, 2]), "n": pa.array([1, 2], pa.uint8()), "s": ["a", "b"]})
    with pytest.raises(TableError, match="uint8"):
        delta.append(uri, data)
    data = data.set_column(1, "n", data.column("n").cast(pa.int32()))
    delta.append(uri, data.set_column(2, "s", data.column("s").combine_chunks().dictionary_encode()))
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 42


def test_a_finer_instant_than_delta_counts_is_refused_and_not_cut(tmp_path: Path) -> None:
    at = {"type": "long", "logicalType": "timestamp-micros"}
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, record(field("id", "long"), field("at", at)))
    whole = pa.table({"id": pa.array([1]), "at": pa.array([1_000], pa.timestamp("ns", "UTC"))})
    delta.append(uri, whole)
    with pytest.raises(TableError):
        delta.append(uri, whole.set_column(1, "at", pa.array([1_001], pa.timestamp("ns", "UTC"))))
    (found,) = [row for batch in delta.open(uri).read() for row in batch.to_pylist()]
    assert found["at"].microsecond == 1


def test_a_constraint_stands_against_new_rows_of_a_rewrite(uri: str) -> None:
    live(uri).alter.add_constraint({"short": "s <> 'far too long'"})
    assert le.apply(le.plan(uri, LOT), allow=ALL).status == "applied"
    assert "far too long" in live(uri).metadata().configuration["delta.constraints.short"]
    fields = LOT.to_json()["fields"]  # type: ignore[index]
    bound = record(*fields[:2], field("text", "string", aliases=["s"]), *fields[3:])
    with pytest.raises(PlanBlocked, match="CHECK constraint short"):
        le.apply(le.plan(uri, bound, mode="NONE"), allow=ALL)


def test_nothing_but_the_marker_says_lakeevolve_in_the_log(uri: str) -> None:
    le.apply(le.plan(uri, LOT), allow=ALL)
    said = info(folder(uri), 3)
    assert {key for key in said if key.startswith("lakeevolve.")} == {
        "lakeevolve.version",
        "lakeevolve.schema-digest",
        "lakeevolve.plan-digest",
        "lakeevolve.v.1",
        "lakeevolve.v.2",
    }
