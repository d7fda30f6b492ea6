"""Tables that other engines wrote: planned for, changed as copies, and read back by two readers that know nothing of
lakeevolve; or refused by the name of what stands against it."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.tables import delta
from tests.tables.shapes import Row, targets

from .conftest import GOLDEN

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden tables are not here")

ALL = ("rewrite", "backfill", "drop", "protocol-upgrade")

#: What a reader of its own process runs: a path per line in, its rows as JSON out.
_READER = """
import json, sys, warnings
warnings.simplefilter("ignore")
if sys.argv[1] == "duckdb":
    import duckdb
    from duckdb_extensions import import_extension
    con = duckdb.connect()
    import_extension("delta", con=con)
    con.load_extension("delta")
    con.execute("SET TimeZone = 'UTC'")
    def read(path):
        return con.execute(f"select * from delta_scan('{path}')").to_arrow_table().to_pylist()
else:
    import polars_deltalake
    def read(path):
        return polars_deltalake.scan_delta(path).collect().to_dicts()
for line in sys.stdin:
    try:
        print("ROWS" + json.dumps(read(line.rstrip("\\n")), default=str), flush=True)
    except Exception as error:
        print("ROWS" + json.dumps(f"{type(error).__name__}: {error}"), flush=True)
"""


class Reader:
    """Another reader of Delta tables, in a process of its own that lasts as long as the tests here."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _READER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ROWS"):
                self.lines.put(line.removeprefix("ROWS"))

    def rows(self, path: Path) -> list[Row]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        found = json.loads(self.lines.get(timeout=120))
        assert isinstance(found, list), found
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.thread.join()
        self.process.stdout.close()


class Plain:
    """delta-rs's reading through pyarrow, for what the other readers have no type for."""

    def rows(self, path: Path) -> list[Row]:
        found: list[Row] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return found


#: Tables that neither DuckDB nor the kernel reads: they know no void column.
PLAIN = ("kernel_rs__void-column",)


@pytest.fixture(scope="module")
def others() -> Iterator[dict[str, Reader]]:
    made = {}
    for name, module in (("duckdb", "duckdb_extensions"), ("kernel", "polars_deltalake")):
        pytest.importorskip(module)
        made[name] = Reader(name)
    yield made
    for reader in made.values():
        reader.close()


def bag(rows: Iterable[Row]) -> Counter[str]:
    """Rows as a multiset of texts, alike for every reader: a map is pairs here and records there."""
    return Counter(json.dumps(_plain(row), sort_keys=True, default=str) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"key", "value"}:
            return [_plain(value["key"]), _plain(value["value"])]
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def read(uri: str) -> list[Row]:
    return [row for batch in delta.open(uri).read() for row in batch.to_pylist()]


#: Tables with what their writers recorded of their rows.
RECORDED = [
    "v2-checkpoint-json",
    "time-travel-schema-changes-a",
    "time-travel-schema-changes-b",
    "multi-part-checkpoint",
    "log-replay-special-characters",
    "table-with-columnmapping-mode-id",
    "table-with-columnmapping-mode-name",
    "decimal-various-scale-precision",
    "dv-with-columnmapping",
]


@pytest.mark.parametrize("name", RECORDED)
def test_rows_are_those_that_the_writer_recorded(name: str) -> None:
    home = GOLDEN / f"golden__{name}" / name
    recorded = ds.dataset(sorted((home / "expected").glob("*.parquet")), format="parquet").to_table().to_pylist()
    table = delta.open(f"delta:{home / 'delta'}")
    assert bag(row for batch in table.read() for row in batch.to_pylist()) == bag(recorded)


CHANGES = ("add nullable", "add with default", "rename", "drop", "promote")

_FREE = ("metadata", "backfill", "rewrite", "rewrite", "rewrite")
_PARTITIONED = ("metadata", "backfill", "rewrite", "partitioning", "rewrite")

#: table -> per change, in the order of CHANGES, its route, or what the refusal says of its cause.
TABLES: dict[str, tuple[str, ...]] = {
    "delta_rs__table-with-dv-small": _FREE,
    "delta_rs__simple_table": _FREE,
    "delta_rs__partition-type-primitives": _PARTITIONED,
    "kernel_rs__void-column": _FREE,
    "kernel_rs__partition_cm/none": _PARTITIONED,
    "kernel_rs__external-table-different-nullability": _FREE,
    "kernel_rs__mixed-nulls": _FREE,
    "kernel_rs__app-txn-checkpoint": _PARTITIONED,
    "kernel_rs__timestamp-partitioned-table/timestamp-partitioned-table": _PARTITIONED,
    "golden__time-travel-schema-changes-a/time-travel-schema-changes-a/delta": _FREE,
    "golden__time-travel-schema-changes-b/time-travel-schema-changes-b/delta": _FREE,
    "golden__decimal-various-scale-precision/decimal-various-scale-precision/delta": _FREE,
    "golden__v2-checkpoint-json/v2-checkpoint-json/delta": _FREE,
    "golden__log-replay-special-characters/log-replay-special-characters/delta": _FREE,
    "golden__multi-part-checkpoint/multi-part-checkpoint/delta": _FREE,
    "delta__transaction_log_schema_evolvability": _FREE,
    "delta__delta-0.1.0": ("metadata", "backfill", "partitioning", "no column is left", "partitioning"),
    "delta__dbr_8_1_generated_columns": ("metadata", "backfill", *("generated column",) * 3),
    "delta_rs__table_with_partitioning_mapping": (*("column mapping",) * 3, "partitioning", "partitioning"),
    "kernel_rs__partition_cm/name": (*("column mapping",) * 3, "partitioning", "column mapping"),
    "kernel_rs__partition_cm/id": (*("column mapping",) * 3, "partitioning", "column mapping"),
    "golden__dv-with-columnmapping/dv-with-columnmapping/delta": (
        *("column mapping",) * 2,
        "partitioning",
        "column mapping",
        "partitioning",
    ),
    "golden__table-with-columnmapping-mode-id/table-with-columnmapping-mode-id/delta": ("column mapping",) * 5,
    "golden__table-with-columnmapping-mode-name/table-with-columnmapping-mode-name/delta": ("column mapping",) * 5,
    "delta__kd_column-mapping-id": ("column mapping",) * 5,
    "delta_rs__checkpoint-v2-table": ("identityColumns",) * 5,
    "delta_rs__table_with_liquid_clustering": ("domainMetadata",) * 5,
    "delta__type-widening": ("typeWidening-preview",) * 5,
    "delta__type-widening-nested": ("typeWidening-preview",) * 5,
    "delta__table-with-icebegCompatV2Enabled": ("icebergCompatV2",) * 5,
    "delta__identity_test_written_by_version_5": ("identity columns",) * 5,
}

_ROUTES = ("metadata", "backfill", "rewrite")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the one that says where the newest checkpoint is."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "_last_checkpoint"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Copies of a table, one per change, that may be written to."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def copy(name: str, change: str) -> Path:
        target = tmp_path / change.replace(" ", "-")
        shutil.copytree(GOLDEN / name, target, copy_function=shutil.copyfile)
        for place in (target, *target.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        return target

    return copy


@pytest.mark.parametrize("name", TABLES)
def test_every_change_of_another_engines_table_is_proved_or_refused_by_its_cause(
    name: str, copies: Any, others: dict[str, Reader]
) -> None:
    expected = dict(zip(CHANGES, TABLES[name], strict=True))
    free = any(told in _ROUTES for told in expected.values())
    readers = {"plain": Plain()} if name in PLAIN else others
    before = {reader: readers[reader].rows(GOLDEN / name) for reader in readers} if free else {}
    held = next(iter(before.values()), [])
    assert all(bag(rows) == bag(held) for rows in before.values())
    for change, target, change_row in targets(delta.open(f"delta:{GOLDEN / name}").schema):
        folder = copies(name, change)
        uri, was = f"delta:{folder}", contents(folder)
        plan = le.plan(uri, target, mode="NONE")
        routes = {step.route for step in plan.steps}
        if expected[change] not in _ROUTES:
            assert routes & {"refuse", "external"}, (change, routes)
            assert any(expected[change] in step.reason for step in plan.steps), (change, [s.reason for s in plan.steps])
            with pytest.raises(le.errors.PlanBlocked) as caught:
                le.apply(plan, allow=ALL)
            assert len(caught.value.lines()) <= 3
            assert contents(folder) == was
            continue
        assert expected[change] in routes, (change, [(s.route, s.reason) for s in plan.steps])
        assert not routes & {"refuse", "external"}
        done = le.apply(plan, allow=ALL)
        assert (done.status, done.ok) == ("applied", True), change
        checked = le.verify(uri, full=True, columns="all")
        assert (checked.ok, checked.rows) == (True, len(held)), (change, checked.mismatches)
        for reader, rows in before.items():
            assert bag(readers[reader].rows(folder)) == bag(map(change_row, rows)), (change, reader)
        owned = {field.name for field in delta.open(uri).schema.fields}
        ours = bag({n: v for n, v in row.items() if n in owned} for row in map(change_row, held))
        assert bag({n: v for n, v in row.items() if n in owned} for row in read(uri)) == ours, change
        # Whoever reads an earlier version finds it as it was.
        assert {path: content for path, content in contents(folder).items() if path in was} == was, change


#: table -> what is said of it.
BROKEN = {
    "delta_rs__simple_table_features": "minimum reader version",
    "delta_rs__err_table_c": "gap",
    "delta_rs__err_table_e": "catalogOwned",
    "kernel_rs__catalog_managed_0": "catalogManaged",
    "golden__deltalog-invalid-protocol-version/deltalog-invalid-protocol-version/delta": "minimum reader version",
    "golden__deltalog-state-reconstruction-without-metadata/deltalog-state-reconstruction-without-metadata/delta": (
        "metadata"
    ),
    "golden__versions-not-contiguous/versions-not-contiguous/delta": "gap",
}


@pytest.mark.parametrize("command", ["describe", "plan", "verify", "history"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_table_that_cannot_be_opened_is_three_lines(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.avsc"
    target.write_text('{"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]}')
    given = [command, f"delta:{GOLDEN / name}", *([str(target)] if command == "plan" else [])]
    assert main(given) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert BROKEN[name] in printed.err
    assert 1 <= len(printed.err.strip().splitlines()) <= 3
    assert "Traceback" not in printed.err


def test_a_table_without_a_data_file_is_not_changed(copies: Any) -> None:
    folder = copies("delta_rs__err_table_a", "any")
    uri, was = f"delta:{folder}", contents(folder)
    for change, target, _ in targets(delta.open(uri).schema):
        with pytest.raises(le.LakeEvolveError, match="missing") as caught:
            le.apply(le.plan(uri, target, mode="NONE"), allow=ALL)
        assert "defect" not in str(caught.value.hint)
        assert contents(folder) == was, change


def test_columns_that_avro_cannot_name_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = f"delta:{GOLDEN / 'delta_rs__table_with_column_mapping'}"
    assert main(["describe", uri]) == 0
    assert "Company Very Short" in capsys.readouterr().out
    target = tmp_path / "t.avsc"
    target.write_text(json.dumps(delta.open(uri).schema.to_json()))
    assert main(["plan", uri, str(target)]) == 2
    assert '"Company Very Short" is not an Avro name' in capsys.readouterr().err


def test_every_golden_table_is_in_one_of_the_lists() -> None:
    held = set()
    for line in (GOLDEN / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"].startswith("delta"):
            held.add(entry["name"] if entry["table"] == "." else f"{entry['name']}/{entry['table']}")
    alone = {"delta_rs__err_table_a", "delta_rs__table_with_column_mapping"}
    assert held <= set(TABLES) | set(BROKEN) | alone
