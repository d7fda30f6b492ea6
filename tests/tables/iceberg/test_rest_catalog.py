"""Iceberg tables of a REST catalog whose files lie in an S3 store, and what is said when either does not answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from pyiceberg.utils.config import Config

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import CatalogUnavailable, StalePlan, TableNotFound
from lakeevolve.tables.iceberg import IcebergHandle, append, create_table, open_table

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": "int"},
        {"name": "p", "type": "string"},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
    ],
}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
RATE = {"name": "rate", "type": "double", "default": 0.5}
ALL = ("rewrite", "backfill", "drop")


def evolved(**edits: Any) -> dict[str, Any]:
    fields = [edits.pop(f["name"], f) for f in BASE["fields"]]
    return {**BASE, "fields": [f for f in fields if f is not None] + list(edits.values())}


NOTED = evolved(note=NOTE)
RATED = evolved(note=NOTE, rate=RATE)
WIDER = evolved(
    n={"name": "n", "type": "double"},
    note=NOTE,
    rate={**RATE, "name": "share", "aliases": ["rate"]},
)


def rows(*ids: int) -> pa.Table:
    made = [{"id": i, "n": i, "p": ("a b", "c%")[i % 2], "lines": [{"sku": f"é{i}"}] * (i % 3)} for i in ids]
    return pa.Table.from_pylist(made, schema=le.arrow_schema(BASE))


@pytest.fixture
def between(store: Any, stand_between: Callable[[str], Any]) -> Any:
    """The catalog behind a server of ours, which can lose answers, refuse and deny."""
    return stand_between(store.catalog)


@pytest.fixture
def options(store: Any) -> dict[str, str]:
    return dict(store.rest())


@pytest.fixture
def uri(options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A partitioned table with rows, in a namespace of its own; nothing but options says how to reach it."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "PYICEBERG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    made = f"iceberg:prod/n{uuid.uuid4().hex[:10]}.orders"
    table = create_table(made, le.load(BASE), partition=["p"], mark=True, **options)
    append(table, rows(1, 2, 3))
    return made


@pytest.fixture
def opened(uri: str, options: dict[str, str]) -> Callable[..., IcebergHandle]:
    return lambda **more: open_table(uri, **{**options, **more})


@pytest.fixture
def contents(store: Any, opened: Callable[..., IcebergHandle]) -> Callable[[], Mapping[str, int]]:
    """Every object at the table's location, by its path."""
    files = fs.S3FileSystem(
        access_key=store.key, secret_key=store.secret, endpoint_override=store.endpoint, region="us-east-1"
    )

    def run() -> Mapping[str, int]:
        root = opened().iceberg.location().removeprefix("s3://")
        found = files.get_file_info(fs.FileSelector(root, recursive=True))
        return {info.path: info.size for info in found if info.type == fs.FileType.File}

    return run


def read(table: IcebergHandle) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for batch in table.read() for row in batch.to_pylist()}


def test_a_table_of_a_rest_catalog_goes_the_whole_walk(
    opened: Callable[..., IcebergHandle], store: Any, uri: str, tmp_path: Path
) -> None:
    described = le.describe(opened()).to_json()
    assert described["uri"] == uri
    assert store.secret not in json.dumps(described)
    for number, (target, route) in enumerate(((NOTED, "metadata"), (RATED, "backfill"), (WIDER, "rewrite")), start=2):
        plan = le.plan(opened(), target, mode="NONE")
        assert route in {step.route for step in plan.steps}
        saved = plan.save(tmp_path / f"plan-{number}.json")
        assert store.secret not in Path(saved).read_text()
        done = le.apply(saved, allow=ALL, table=opened())
        assert (done.status, done.version, done.ok) == ("applied", number, True)
        assert opened().schema == le.load(target)
        checked = le.verify(opened(), full=True, columns="all")
        assert (checked.ok, checked.rows) == (True, 3)
        assert le.apply(saved, allow=ALL, table=opened()).status == "already-applied"
    found = read(opened())
    assert found[1] == {"id": 1, "n": 1.0, "p": "c%", "lines": [{"sku": "é1"}], "note": None, "share": 0.5}
    assert found[3]["lines"] == []
    history = opened().history()
    assert [v.number for v in history] == [1, 2, 3, 4]
    assert history[-1].renames == {"share": "rate"}
    assert all(v.schema_id is not None for v in history)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str], str], Path]:
    """Name the catalog ``prod`` in pyiceberg's configuration: its file, or variables."""

    def name(options: Mapping[str, str], how: str = "file") -> Path:
        home = tmp_path / how
        home.mkdir(exist_ok=True)
        for variable in [one for one in os.environ if one.startswith("PYICEBERG_")]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("PYICEBERG_HOME", str(home))
        monkeypatch.setenv("HOME", str(home))
        if how == "file":
            lines = ["catalog:", "  prod:", *(f"    {key}: '{value}'" for key, value in options.items())]
            (home / ".pyiceberg.yaml").write_text("\n".join(lines) + "\n")
        else:
            for key, value in options.items():
                part = key.upper().replace(".", "__").replace("-", "_")
                monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{part}", value)
        # It is read once, when pyiceberg is loaded.
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        return home

    return name


@pytest.mark.parametrize("how", ["file", "variables"])
def test_the_command_line_finds_the_catalog_in_pyicebergs_own_configuration(
    how: str, store: Any, uri: str, tmp_path: Path, configured: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    target, plan = tmp_path / "rated.avsc", tmp_path / "plan.json"
    target.write_text(json.dumps(RATED))
    configured(store.rest(), how)
    for command, code in (
        (["describe", uri], 0),
        (["plan", uri, str(target), "--out", str(plan), "--detailed-exitcode"], 3),
        (["apply", str(plan), "--yes"], 1),
        (["apply", str(plan), "--yes", "--allow", "backfill"], 0),
        (["verify", uri, "--full"], 0),
        (["history", uri], 0),
    ):
        assert main(command) == code, (command, capsys.readouterr())
    printed = capsys.readouterr()
    assert store.secret not in printed.out + printed.err + plan.read_text()


def test_what_pyiceberg_deprecates_is_no_concern_of_the_user(store: Any, uri: str, configured: Any) -> None:
    home = configured({name: value for name, value in store.rest().items() if name != "oauth2-server-uri"})
    done = subprocess.run(
        [sys.executable, "-m", "lakeevolve", "history", uri],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(Path(le.__file__).parents[1])},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_refused_leaves_the_catalog_and_the_store_as_they_were(
    opened: Callable[..., IcebergHandle], contents: Callable[[], Mapping[str, int]]
) -> None:
    before, location = contents(), opened().iceberg.metadata_location
    plan = le.plan(opened(), evolved(n={"name": "n", "type": "boolean"}), mode="NONE")
    assert {step.route for step in plan.steps} == {"refuse"}
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(plan, allow=ALL, table=opened())
    with pytest.raises(le.errors.PermitMissing):
        le.apply(le.plan(opened(), RATED), table=opened())
    assert le.apply(le.plan(opened(), RATED), allow=ALL, table=opened(), dry_run=True).status == "dry-run"
    assert contents() == before
    assert opened().iceberg.metadata_location == location


def test_a_plan_for_a_rest_catalog_goes_stale_with_the_schema_and_not_with_the_data(
    opened: Callable[..., IcebergHandle],
) -> None:
    early, late = le.plan(opened(), WIDER, mode="NONE"), le.plan(opened(), NOTED)
    append(opened(), rows(4))
    assert le.apply(late, table=opened()).status == "applied"
    with pytest.raises(StalePlan):
        le.apply(early, allow=ALL, table=opened())


def test_an_append_that_races_a_rewrite_in_a_rest_catalog_is_kept(
    opened: Callable[..., IcebergHandle], contents: Callable[[], Mapping[str, int]]
) -> None:
    raced = False

    def race(phase: str, done: int, of: int) -> None:
        nonlocal raced
        if phase == "prove" and not raced:
            raced = True
            append(opened(), rows(5))

    done = le.apply(le.plan(opened(), WIDER, mode="NONE"), allow=ALL, table=opened(), progress=race)
    assert raced
    assert (done.status, done.ok) == ("applied", True)
    assert sorted(read(opened())) == [1, 2, 3, 5]
    assert le.verify(opened(), full=True, columns="all").ok
    _no_strays(opened(), contents())


def _no_strays(table: IcebergHandle, found: Mapping[str, int]) -> None:
    """Every Parquet file at the table's location belongs to one of its snapshots."""
    known = {
        entry.data_file.file_path.removeprefix("s3://")
        for snapshot in table.iceberg.metadata.snapshots
        for manifest in snapshot.manifests(table.iceberg.io)
        for entry in manifest.fetch_manifest_entry(table.iceberg.io, discard_deleted=False)
    }
    assert {path for path in found if path.endswith(".parquet")} == known


def test_a_commit_whose_answer_is_lost_has_landed(
    opened: Callable[..., IcebergHandle], between: Any, contents: Callable[[], Mapping[str, int]], uri: str
) -> None:
    table = opened(uri=between.url)
    plan = le.plan(table, WIDER, mode="NONE")
    between.on_first("POST", "/orders", "lose the answer")
    done = le.apply(plan, allow=ALL, table=table)
    assert between.met
    assert (done.status, done.ok) == ("applied", True)
    assert le.verify(opened(), full=True, columns="all").ok
    _no_strays(opened(), contents())


def test_a_catalog_that_goes_away_at_the_commit_costs_no_row(
    opened: Callable[..., IcebergHandle], between: Any, contents: Callable[[], Mapping[str, int]]
) -> None:
    """It cannot be known then whether the commit landed, so nothing that it may refer to is deleted."""
    table = opened(uri=between.url)
    plan = le.plan(table, WIDER, mode="NONE")
    between.on_first("POST", "/orders", "lose the answer", after="refuse")
    with pytest.raises(CatalogUnavailable, match="nobody knows whether it landed") as caught:
        le.apply(plan, allow=ALL, table=table)
    assert between.met
    assert "hush-hush" not in str(caught.value)
    assert sorted(read(opened())) == [1, 2, 3]
    assert le.verify(opened(), full=True, columns="all").ok
    assert le.apply(plan, allow=ALL, table=opened()).status == "already-applied"


def test_a_commit_that_is_denied_leaves_the_table_and_the_store_as_they_were(
    opened: Callable[..., IcebergHandle], between: Any, contents: Callable[[], Mapping[str, int]]
) -> None:
    before = contents()
    table = opened(uri=between.url)
    plan = le.plan(table, WIDER, mode="NONE")
    between.on_first("POST", "/orders", "deny", after="again")
    with pytest.raises(CatalogUnavailable) as caught:
        le.apply(plan, allow=ALL, table=table)
    assert "hush-hush" not in str(caught.value)
    assert contents() == before
    assert [v.number for v in opened().history()] == [1]


@pytest.mark.parametrize("fault", ["wrong secret", "wrong store secret", "catalog down", "store down"])
def test_a_catalog_or_store_that_does_not_let_us_in_is_said_in_three_lines(
    fault: str,
    store: Any,
    uri: str,
    tmp_path: Path,
    configured: Any,
    contents: Callable[[], Mapping[str, int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, wrong = contents(), "a-secret-that-is-wrong"
    # Port 9 of the loopback address: nothing of ours listens there.
    more = {
        "wrong secret": store.rest(wrong),
        "wrong store secret": {"s3.secret-access-key": wrong},
        "catalog down": {"uri": "http://127.0.0.1:9"},
        "store down": {"s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": "1", "s3.request-timeout": "1"},
    }[fault]
    configured({**store.rest(), **more})
    target = tmp_path / "rated.avsc"
    target.write_text(json.dumps(RATED))
    assert main(["plan", uri, str(target)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert 1 <= len(printed.err.strip().splitlines()) <= 3, printed.err
    assert ("the catalog" if fault in ("wrong secret", "catalog down") else "the store") in printed.err
    for hidden in (wrong, store.secret, f"{store.key}:", "Traceback"):
        assert hidden not in printed.err
    assert contents() == before


def test_a_table_that_is_not_there_is_told_from_a_catalog_that_is_not(
    uri: str, options: dict[str, str], opened: Callable[..., IcebergHandle]
) -> None:
    for missing in (uri + "2", "iceberg:prod/nowhere.orders"):
        with pytest.raises(TableNotFound):
            open_table(missing, **options)
    with pytest.raises(CatalogUnavailable):
        opened(uri="http://127.0.0.1:9")
    with pytest.raises((CatalogUnavailable, TableNotFound)):
        opened(warehouse="s3://no-such-warehouse")
