"""A small driver for evolutions of Delta tables: what planning and applying do, without their policies."""

from __future__ import annotations

import json
import math
import shutil
import struct as packing
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.change import AddField, Change, DropField
from lakeevolve.model.diff import diff
from lakeevolve.model.find import find_field
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.fold import fold
from lakeevolve.tables import delta
from lakeevolve.tables.base import Capability, DataFile, Evolution, Fill, MarkerEntry, Staged, State, Version

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden"


def record(*fields: dict[str, Any], name: str = "Order") -> Schema:
    """A record schema of these fields."""
    return parse({"type": "record", "name": name, "fields": list(fields)})


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def inner(*fields: dict[str, Any], name: str = "Inner", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def by_key(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def plain(*fields: dict[str, Any]) -> Schema:
    return record(field("id", "long"), *fields)


def bag(batches: Iterable[pa.RecordBatch]) -> Counter[str]:
    """Rows as a multiset of exact texts: -0.0, 0.0 and NaN are told apart, column order does not count."""
    return Counter(
        json.dumps(_exact(dict(sorted(row.items()))), default=repr) for batch in batches for row in batch.to_pylist()
    )


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else packing.pack(">d", value).hex()
    if isinstance(value, Mapping):
        return {key: _exact(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(inner) for inner in value]
    return value


class Refused(AssertionError):
    """A change has no route here."""


@dataclass
class Attempt:
    """An evolution that is staged: commit it, or look at it first."""

    table: delta.Table
    staged: Staged
    entries: tuple[MarkerEntry, ...]
    routes: Mapping[str, Capability]
    evolution: Evolution
    versions: tuple[Version, ...]
    files: tuple[DataFile, ...]

    def expected(self) -> Counter[str]:
        """What every row must read afterwards."""
        chain, new = self.versions, self.versions[-1].number
        return bag(
            fold(chain, file.version, new)(batch)
            for file in self.files
            for batch in self.table.raw(file, hint=self.evolution.target)
        )

    def commit(self) -> State:
        return self.table.commit(self.staged, self.entries)


def stage(
    uri: str | delta.Table,
    target: Schema,
    *,
    old_rows: Fill = "default",
    renames: Mapping[str, str] | None = None,
    plan: str = "plan-1",
) -> Attempt:
    """Diff, route and stage, as planning and applying do. Refused routes are an error."""
    table = uri if isinstance(uri, delta.Table) else delta.open(uri)
    versions = table.history(hint=target)
    base = versions[-1].schema
    found = diff(base, target, renames=renames or {})
    changes = found.changes
    fills: dict[str, Fill] = {c.path: old_rows for c in changes if isinstance(c, AddField)}
    routed = table.combine([(c, table.capability(c, base, target, fills, found.renames)) for c in changes])
    refused = [(c, can) for c, can in routed if can.route in ("refuse", "external")]
    if refused:
        raise Refused(refused)
    pairs = [(c, can.route) for c, can in routed]
    files = table.files(hint=target)
    dropped = {c.path for c in changes if isinstance(c, DropField)}
    after = Version(
        versions[-1].number + 1,
        target,
        plan=plan,
        fills=fills,
        renames=dict(found.renames),
        fresh=frozenset(p for p in fills if p in dropped or find_field(base.root, p) is not None),
        routes={c.path: can.route for c, can in routed},
    )
    chain = (*versions, after)

    def convert(file: DataFile) -> Iterator[pa.RecordBatch]:
        run = fold(chain, file.version, after.number)
        for batch in table.raw(file, hint=target):
            yield run(batch)

    evolution = Evolution(base, target, pairs, dict(found.renames), fills, table.must_rewrite(pairs, files), convert)
    return Attempt(
        table,
        table.stage(evolution),
        tuple(entry(v) for v in chain),
        {_label(c): can for c, can in routed},
        evolution,
        chain,
        files,
    )


def _label(change: Change) -> str:
    return f"{type(change).__name__} {change.path}"


def entry(version: Version) -> MarkerEntry:
    return MarkerEntry(
        number=version.number,
        schema=version.schema.to_json(),
        digest=version.digest,
        plan=version.plan,
        origin={},
        fills=version.fills,
        renames=version.renames,
        routes=version.routes,
        fresh=version.fresh,
    )


def evolve(uri: str, target: Schema, **how: Any) -> Attempt:
    """Stage, prove and commit: staged and committed tables read what the fold says, by both ways of reading."""
    attempt = stage(uri, target, **how)
    expected = attempt.expected()
    assert bag(attempt.staged.read()) == expected
    if attempt.staged.files:
        assert bag(b for f in attempt.staged.files for b in attempt.staged.raw(f)) == expected
    else:
        for file in attempt.files:
            one = bag(
                fold(attempt.versions, file.version, attempt.versions[-1].number)(b) for b in attempt.table.raw(file)
            )
            assert bag(attempt.staged.read(file)) == one
    attempt.commit()
    check(uri, expected)
    return attempt


def check(uri: str, expected: Counter[str]) -> None:
    """A fresh handle reads the rows, whole and file by file, and folding its raw files gives the same."""
    table = delta.open(uri)
    versions = table.history()
    assert [v.number for v in versions] == list(range(1, len(versions) + 1))
    assert bag(table.read()) == expected
    assert bag(b for f in table.files() for b in table.read(f)) == expected
    folded = bag(fold(versions, f.version, versions[-1].number)(b) for f in table.files() for b in table.raw(f))
    assert folded == expected


def log_actions(folder: str | Path, version: int) -> list[dict[str, Any]]:
    text = (Path(folder) / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def info(folder: str | Path, version: int) -> dict[str, Any]:
    return next(a["commitInfo"] for a in log_actions(folder, version) if "commitInfo" in a)


_READERS = """
import json, sys, warnings
warnings.simplefilter("ignore")
reader, paths = sys.argv[1], json.loads(sys.argv[2])
found = []
if reader == "duckdb":
    import duckdb
    from duckdb_extensions import import_extension
    con = duckdb.connect()
    import_extension("delta", con=con)
    con.load_extension("delta")
    for path in paths:
        found.append(con.execute(f"select * from delta_scan('{path}')").to_arrow_table().to_pylist())
else:
    import polars_deltalake
    for path in paths:
        found.append(polars_deltalake.scan_delta(path).collect().to_dicts())
print("ROWS" + json.dumps(found, default=str))
"""


@pytest.fixture
def readers() -> Callable[[list[str]], dict[str, list[list[dict[str, Any]]]]]:
    """Read tables with DuckDB and with the Delta kernel in polars, each in a process of its own: these libraries do
    not share one gladly."""

    def read(folders: list[str]) -> dict[str, list[list[dict[str, Any]]]]:
        found = {}
        for reader, module in (("duckdb", "duckdb_extensions"), ("kernel", "polars_deltalake")):
            pytest.importorskip(module)
            done = subprocess.run(
                [sys.executable, "-c", _READERS, reader, json.dumps(folders)],
                capture_output=True,
                text=True,
                timeout=300,
            )
            lines = [text for text in done.stdout.splitlines() if text.startswith("ROWS")]
            assert lines, done.stderr[-2000:]
            found[reader] = json.loads(lines[0].removeprefix("ROWS"))
        return found

    return read


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a table that another engine wrote."""

    def copy(name: str) -> Path:
        if not GOLDEN.is_dir():
            pytest.skip("the golden tables are not here")
        source = GOLDEN / name
        target = tmp_path / "golden" / name.replace("/", "_")
        shutil.copytree(source, target)
        return target

    return copy


@pytest.fixture
def two_files(
    tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Schema], str]:
    """A function that makes a marked table of a schema, whose files hold twenty rows each; its state lies beside it."""

    def make(schema: Schema) -> str:
        monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
        where = f"delta:{tmp_path / 't'}"
        delta.create_table(where, schema, mark=True)
        for seed in (1, 2):
            delta.append(where, rows(schema, 20, seed))
        return where

    return make
