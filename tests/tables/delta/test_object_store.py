"""Delta tables in an S3 store: the same walk as on a disk, and what is said when the store does not let us in."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import CatalogUnavailable, CommitConflict, StalePlan, TableNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta

from .conftest import bag, field, record, stage

BASE = record(
    field("id", "long"),
    field("n", "int"),
    field("p", "string"),
    field("lines", {"type": "array", "items": {"type": "record", "name": "Line", "fields": [field("sku", "string")]}}),
)


def evolved(**edits: Any) -> Schema:
    fields = [edits.pop(f["name"], f) for f in BASE.to_json()["fields"]]
    return record(*(f for f in fields if f is not None), *edits.values())


NOTED = evolved(note=field("note", ["null", "string"], default=None))
RATED = evolved(note=field("note", ["null", "string"], default=None), rate=field("rate", "double", default=0.5))
WIDER = evolved(
    n=field("n", "double"),
    note=field("note", ["null", "string"], default=None),
    rate=field("share", "double", default=0.5, aliases=["rate"]),
)


def rows(*ids: int, **more: Any) -> pa.Table:
    made = [{"id": i, "n": i, "p": ("a b", "c%")[i % 2], "lines": [{"sku": f"é{i}"}] * (i % 3)} for i in ids]
    table = pa.Table.from_pylist(made, schema=pa.schema([
        ("id", pa.int64()), ("n", pa.int32()), ("p", pa.string()), ("lines", pa.list_(pa.struct({"sku": pa.string()}))),
    ]))  # fmt: skip
    for name, value in more.items():
        table = table.append_column(name, pa.array([value] * len(ids)))
    return table


@pytest.fixture
def options(store: Any) -> dict[str, str]:
    return dict(store.aws())


@pytest.fixture
def uri(store: Any, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A partitioned table of two files, whose path has to be quoted; no variable says how to reach it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    made = f"delta:{store.prefix()}/shop/all orders"
    delta.create_table(made, BASE, partition_by=["p"], mark=True, storage_options=options)
    delta.append(made, rows(1, 2, 3), storage_options=options)
    return made


@pytest.fixture
def reached(options: dict[str, str], uri: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The table, which the environment's variables say how to reach."""
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    return uri


@pytest.fixture
def opened(uri: str, options: dict[str, str]) -> Callable[[], delta.Table]:
    return lambda: delta.open(uri, storage_options=options)


def contents(table: delta.Table) -> dict[str, tuple[int, Any]]:
    """Every object below the table's prefix, with what tells whether it was written again."""
    found = table._fs.get_file_info(pa_fs.FileSelector("", recursive=True))
    return {i.path: (i.size, i.mtime) for i in found if i.type == pa_fs.FileType.File}


def test_a_table_in_an_object_store_goes_the_whole_walk(
    opened: Callable[[], delta.Table], options: dict[str, str], uri: str, tmp_path: Path
) -> None:
    described = le.describe(opened()).to_json()
    assert described["uri"] == uri
    assert options["AWS_SECRET_ACCESS_KEY"] not in str(described)
    for number, (target, routes) in enumerate(
        ((NOTED, {"metadata"}), (RATED, {"backfill"}), (WIDER, {"rewrite"})), start=2
    ):
        plan = le.plan(opened(), target, mode="NONE")
        assert {step.route for step in plan.steps} >= routes, [(s.route, s.changes) for s in plan.steps]
        saved = plan.save(tmp_path / f"plan-{number}.json")
        assert options["AWS_SECRET_ACCESS_KEY"] not in Path(saved).read_text()
        done = le.apply(saved, allow=("rewrite", "backfill", "drop"), table=opened())
        assert (done.status, done.version, done.ok) == ("applied", number, True)
        assert le.open_table(uri, storage_options=options).schema == target
        checked = le.verify(opened(), full=True, columns="all")
        assert (checked.ok, checked.rows) == (True, 3)
        again = le.apply(saved, allow=("rewrite", "backfill", "drop"), table=opened())
        assert again.status == "already-applied"
    # The files left beside the live ones are the table's own history; nothing of the proofs stays.
    left = contents(opened())
    assert not [path for path in left if path.startswith("_lakeevolve") or "scratch" in path]
    found = {row["id"]: row for batch in opened().read() for row in batch.to_pylist()}
    assert found[1] == {"id": 1, "n": 1.0, "p": "c%", "lines": [{"sku": "é1"}], "note": None, "share": 0.5}
    assert found[3]["lines"] == []
    history = opened().history()
    assert [v.number for v in history] == [1, 2, 3, 4]
    assert not any(v.derived for v in history[1:])
    assert history[-1].renames == {"share": "rate"}


def test_the_command_line_reaches_an_object_store_through_the_environment(
    reached: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "rated.avsc"
    target.write_text(json.dumps(RATED.to_json()))
    plan = str(tmp_path / "plan.json")
    for command, code in (
        (["describe", reached], 0),
        (["plan", reached, str(target), "--out", plan, "--detailed-exitcode"], 3),
        (["apply", plan, "--yes"], 1),
        (["apply", plan, "--yes", "--allow", "backfill"], 0),
        (["verify", reached, "--full"], 0),
        (["history", reached], 0),
    ):
        assert main(command) == code, (command, capsys.readouterr())
    printed = capsys.readouterr()
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in printed.out + printed.err


def test_what_is_refused_leaves_an_object_store_as_it_was(opened: Callable[[], delta.Table]) -> None:
    before = contents(opened())
    plan = le.plan(opened(), evolved(n=field("n", "boolean")), mode="NONE")
    assert {step.route for step in plan.steps} == {"refuse"}
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(plan, allow=("rewrite", "backfill", "drop"), table=opened())
    with pytest.raises(le.errors.PermitMissing):
        le.apply(le.plan(opened(), RATED), table=opened())
    assert le.apply(le.plan(opened(), RATED), allow=("backfill",), table=opened(), dry_run=True).status == "dry-run"
    assert contents(opened()) == before


def test_a_plan_for_an_object_store_goes_stale_with_the_schema_and_not_with_the_data(
    opened: Callable[[], delta.Table], uri: str, options: dict[str, str]
) -> None:
    early, late = le.plan(opened(), WIDER, mode="NONE"), le.plan(opened(), NOTED)
    delta.append(uri, rows(4), storage_options=options)
    assert le.apply(late, table=opened()).status == "applied"
    with pytest.raises(StalePlan):
        le.apply(early, allow=("rewrite", "backfill"), table=opened())


def test_an_append_that_races_a_rewrite_in_an_object_store_is_kept(
    opened: Callable[[], delta.Table], uri: str, options: dict[str, str]
) -> None:
    attempt = stage(opened(), evolved(n=field("n", "long")), plan="plan-1")
    delta.append(uri, rows(4), storage_options=options)
    with pytest.raises(CommitConflict):
        attempt.commit()
    assert attempt.staged.abandon() == ()
    table = opened()
    assert sorted(row["id"] for batch in table.read() for row in batch.to_pylist()) == [1, 2, 3, 4]
    known = {file.path for file in table.files()}
    assert {path for path in contents(table) if not path.startswith("_delta_log")} == known

    raced = False

    def race(phase: str, done: int, of: int) -> None:
        nonlocal raced
        if phase == "prove" and not raced:
            raced = True
            delta.append(uri, rows(5), storage_options=options)

    done = le.apply(le.plan(opened(), WIDER, mode="NONE"), allow=("rewrite", "backfill"), table=opened(), progress=race)
    assert raced
    assert (done.status, done.ok) == ("applied", True)
    assert done.replay is not None
    assert done.replay.rows == 5
    assert le.verify(opened(), full=True, columns="all").ok
    assert sum(bag(opened().read()).values()) == 5


def test_wrong_credentials_are_three_lines_without_a_secret_and_change_nothing(
    reached: str,
    store: Any,
    opened: Callable[[], delta.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = contents(opened())
    plan = str(le.plan(opened(), RATED).save(tmp_path / "plan.json"))
    target = str(tmp_path / "rated.avsc")
    Path(target).write_text(json.dumps(RATED.to_json()))
    wrong = "a-secret-that-is-wrong"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", wrong)
    for command in (
        ["describe", reached],
        ["plan", reached, target],
        ["apply", plan, "--yes", "--allow", "backfill"],
        ["verify", reached],
        ["history", reached],
    ):
        assert main(command) == 2, command
        printed = capsys.readouterr()
        assert printed.out == ""
        assert 1 <= len(printed.err.strip().splitlines()) <= 3, printed.err
        assert "the store refuses access" in printed.err
        assert wrong not in printed.err
        assert store.key not in printed.err
        assert "Traceback" not in printed.err
    # The handle that was opened with the right ones still sees the table as it was.
    assert contents(opened()) == before


def test_a_missing_table_is_told_from_a_missing_bucket(store: Any, options: dict[str, str]) -> None:
    with pytest.raises(TableNotFound):
        delta.open(f"delta:{store.prefix()}/nothing", storage_options=options)
    with pytest.raises(CatalogUnavailable):
        delta.open("delta:s3://there-is-no-such-bucket/x", storage_options=options)


def test_a_store_that_is_down_is_said_to_be(uri: str, options: dict[str, str]) -> None:
    # Port 9 of the loopback address: nothing of ours listens there.
    down = {**options, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "max_retries": "0", "retry_timeout": "1s"}
    with pytest.raises(CatalogUnavailable, match="did not answer"):
        delta.open(uri, storage_options=down)


def test_a_commit_whose_answer_is_lost_has_landed(
    opened: Callable[[], delta.Table], uri: str, store: Any, options: dict[str, str], stand_between: Any
) -> None:
    between = stand_between(store.endpoint)
    there = {**options, "AWS_ENDPOINT_URL": between.url}
    plan = le.plan(delta.open(uri, storage_options=there), WIDER, mode="NONE")
    between.on_first("PUT", "_delta_log/00000000000000000002.json", "lose the answer")
    done = le.apply(plan, allow=("rewrite", "backfill"), table=delta.open(uri, storage_options=there))
    assert between.met
    assert (done.status, done.ok) == ("applied", True)
    assert le.verify(opened(), full=True, columns="all").ok
    assert sum(bag(opened().read()).values()) == 3


def test_a_store_that_goes_away_at_the_commit_costs_no_row(
    opened: Callable[[], delta.Table], uri: str, store: Any, options: dict[str, str], stand_between: Any
) -> None:
    """It cannot be known then whether the commit landed, so nothing that it may refer to is deleted."""
    between = stand_between(store.endpoint)
    there = {**options, "AWS_ENDPOINT_URL": between.url, "max_retries": "0", "retry_timeout": "1s"}
    table = delta.open(uri, storage_options=there)
    plan = le.plan(table, WIDER, mode="NONE")
    between.on_first("PUT", "_delta_log/00000000000000000002.json", "lose the answer", after="refuse")
    with pytest.raises(CatalogUnavailable, match="nobody knows whether it landed") as caught:
        le.apply(plan, allow=("rewrite", "backfill"), table=table)
    assert between.met
    assert "hush-hush" not in str(caught.value)
    assert sorted(row["id"] for batch in opened().read() for row in batch.to_pylist()) == [1, 2, 3]
    assert le.verify(opened(), full=True, columns="all").ok
    assert le.apply(plan, allow=("rewrite", "backfill"), table=opened()).status == "already-applied"


APPLYING = """
import json, os, sys
import lakeevolve as le
from lakeevolve.tables import delta
plan, uri, state, options = sys.argv[1:]
os.environ["LAKEEVOLVE_STATE"] = state
table = delta.open(uri, storage_options=json.loads(options))
sys.stdin.readline()
try:
    print(le.apply(plan, allow=("rewrite", "backfill"), table=table).status)
except le.errors.LakeEvolveError as error:
    print(type(error).__name__)
"""
APPENDING = """
import json, sys
import pyarrow as pa
import lakeevolve as le
from lakeevolve.tables import delta
uri, options = sys.argv[1:]
layout = [("id", pa.int64()), ("n", pa.int32()), ("p", pa.string()), ("lines", pa.list_(pa.struct({"sku": pa.string()})))]
sys.stdin.readline()
done = []
for number in range(100, 106):
    row = {"id": number, "n": 1, "p": "a b", "lines": []}
    try:
        delta.append(uri, pa.Table.from_pylist([row], schema=pa.schema(layout)), storage_options=json.loads(options))
        done.append(number)
    except le.errors.TableError:
        pass
print(json.dumps(done))
"""  # noqa: E501


def test_of_two_processes_that_apply_a_plan_beside_a_third_that_appends_one_does_and_no_row_is_lost(
    opened: Callable[[], delta.Table],
    uri: str,
    options: dict[str, str],
    tmp_path: Path,
    race: Callable[..., list[str]],
) -> None:
    plan = str(le.plan(opened(), evolved(n=field("n", "double")), mode="NONE").save(tmp_path / "plan.json"))
    told = json.dumps(options)
    script = f"import sys\nif len(sys.argv) == 3:\n    exec({APPENDING!r})\nelse:\n    exec({APPLYING!r})"
    applying = [[plan, uri, str(tmp_path / name), told] for name in ("one", "other")]
    *found, appended = race(script, *applying, [uri, told])
    known = {"applied", "already-applied", "CommitConflict"}
    assert {each.strip() for each in found} <= known, found
    table = opened()
    kept = json.loads(appended)
    assert kept
    assert sorted(row["id"] for batch in table.read() for row in batch.to_pylist()) == [1, 2, 3, *kept]
    assert le.verify(opened(), full=True, columns="all").ok
    # Whoever was second has nothing more to do.
    assert le.apply(plan, allow=("rewrite", "backfill"), table=opened()).ok
    assert [version.number for version in opened().history()] == [1, 2]
    assert le.verify(opened(), full=True).rows == 3 + len(kept)


@pytest.mark.parametrize("after", ["pass", "again"])
def test_a_data_file_that_cannot_be_written_leaves_the_table_and_no_file(
    after: str,
    opened: Callable[[], delta.Table],
    uri: str,
    store: Any,
    options: dict[str, str],
    stand_between: Any,
) -> None:
    before = contents(opened())
    between = stand_between(store.endpoint)
    there = {**options, "AWS_ENDPOINT_URL": between.url, "max_retries": "0", "retry_timeout": "1s"}
    plan = le.plan(delta.open(uri, storage_options=there), WIDER, mode="NONE")
    between.on_first("PUT", "*.parquet", "refuse", after=after)
    with pytest.raises(CatalogUnavailable, match="did not answer"):
        le.apply(plan, allow=("rewrite", "backfill"), table=delta.open(uri, storage_options=there))
    assert between.met
    assert contents(opened()) == before
    assert le.apply(plan, allow=("rewrite", "backfill"), table=opened()).ok
    assert le.verify(opened(), full=True, columns="all").rows == 3


def test_a_commit_that_is_refused_leaves_the_table_and_can_be_made_again(
    opened: Callable[[], delta.Table], uri: str, store: Any, options: dict[str, str], stand_between: Any
) -> None:
    before = contents(opened())
    between = stand_between(store.endpoint)
    there = {**options, "AWS_ENDPOINT_URL": between.url, "max_retries": "0", "retry_timeout": "1s"}
    plan = le.plan(delta.open(uri, storage_options=there), WIDER, mode="NONE")
    between.on_first("PUT", "_delta_log/00000000000000000002.json", "refuse")
    with pytest.raises(CatalogUnavailable, match="may carry it out late"):
        le.apply(plan, allow=("rewrite", "backfill"), table=delta.open(uri, storage_options=there))
    assert between.met
    now = contents(opened())
    assert {path: now[path] for path in before} == before
    assert le.verify(opened()).rows == 3
    assert le.apply(plan, allow=("rewrite", "backfill"), table=opened()).status == "applied"
    assert le.verify(opened(), full=True, columns="all").rows == 3


@pytest.mark.parametrize("late", [pytest.param("answer late", marks=pytest.mark.long), "carry out late"])
def test_a_commit_that_a_slow_store_carries_out_after_its_client_gave_up_finds_its_files(
    late: str, opened: Callable[[], delta.Table], uri: str, store: Any, options: dict[str, str], stand_between: Any
) -> None:
    """Who deletes the files of a commit because it is not there yet, loses every row once it comes."""
    between = stand_between(store.endpoint)
    there = {**options, "AWS_ENDPOINT_URL": between.url, "max_retries": "0", "timeout": "3s"}
    plan = le.plan(delta.open(uri, storage_options=there), WIDER, mode="NONE")
    between.on_first("PUT", "_delta_log/00000000000000000002.json", late)
    table = delta.open(uri, storage_options=there)
    if late == "answer late":
        assert le.apply(plan, allow=("rewrite", "backfill"), table=table).status == "applied"
    else:
        with pytest.raises(CatalogUnavailable, match="may carry it out late"):
            le.apply(plan, allow=("rewrite", "backfill"), table=table)
        assert opened().progress_of(plan.digest) == "none"
        began = time.monotonic()
        while opened().progress_of(plan.digest) == "none" and time.monotonic() - began < 10:
            time.sleep(0.2)
    assert between.met
    assert sorted(row["id"] for batch in opened().read() for row in batch.to_pylist()) == [1, 2, 3]
    assert le.verify(opened(), full=True, columns="all").ok
    assert le.apply(plan, allow=("rewrite", "backfill"), table=opened()).status == "already-applied"


@pytest.mark.parametrize("ends", [".parquet", "00000000000000000001.json"])
def test_a_store_that_stops_to_answer_is_not_taken_for_damage(
    ends: str, uri: str, store: Any, options: dict[str, str], stand_between: Any
) -> None:
    between = stand_between(store.endpoint)
    there = {**options, "AWS_ENDPOINT_URL": between.url, "max_retries": "0", "retry_timeout": "1s"}
    between.on_first("GET", ends, "refuse", after="again")

    def rows() -> list[Any]:
        table = delta.open(uri, storage_options=there)
        return [batch for file in table.files() for batch in table.raw(file)]

    with pytest.raises(CatalogUnavailable, match="did not answer"):
        rows()
    assert between.met
