"""Every kind of change at every place where it can stand: the rows of a folder, evolved into a new one, read right by
pyarrow, DuckDB and polars, and the folder they came from stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.avro.parse import parse
from lakeevolve.model.diff import diff
from tests.tables.delta.test_matrix import EDITS, KINDS, PLACES, how, row_type, side, told
from tests.tables.shapes import rows_of

#: Kind of change -> its route; what no reader of files sees is recorded alone.
MARKER = {
    "AddSymbol",
    "MoveField",
    "RenameType",
    "ReorderBranches",
    "ReorderSymbols",
    "SetAliases",
    "SetDefault",
    "SetDoc",
    "SetEnumDefault",
    "SetOrder",
    "SetProperties",
}
EITHER = {"DropSymbol": {"metadata", "rewrite"}, "RenameType": {"metadata", "rewrite"}}
ADDED = {"AddField": {"rewrite", "backfill"}}


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """A folder for each place and route, evolved: the new folder, and what every row must read."""
    folder = tmp_path_factory.mktemp("matrix")
    made: dict[tuple[str, str], Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEEVOLVE_STATE", str(folder / "state"))
        for name, place in PLACES.items():
            for route in ("metadata", "rewritten"):
                edits = {n: e for n, e in EDITS.items() if (e.route == "metadata") == (route == "metadata")}
                (old, was), (new, now) = side(edits, False), side(edits, True)
                base, here = parse(row_type(place, old)), folder / f"{len(made)}"
                here.mkdir()
                pq.write_table(
                    pa.Table.from_pylist(rows_of(place, was), schema=le.arrow_schema(base)), here / "a.parquet"
                )
                before = (here / "a.parquet").read_bytes()
                # A folder says nothing of enums and names of types: what it is comes first.
                start = le.open_table(f"parquet:{here}", into=folder / f"{len(made)}.was")
                assert le.apply(le.plan(start, base, mode="NONE"), table=start).ok
                table = le.open_table(start.uri, into=folder / f"{len(made)}.is")
                plan = le.plan(table, row_type(place, new), mode="NONE", **how(place, edits))
                assert le.apply(plan, allow=("rewrite", "backfill", "drop"), table=table).ok
                assert (here / "a.parquet").read_bytes() == before
                made[name, route] = (table.uri, rows_of(place, now))
    return made


@pytest.mark.parametrize("place", PLACES)
def test_each_kind_of_change_takes_the_route_that_is_declared(place: str, tmp_path: Path) -> None:
    spot = PLACES[place]
    (old, was), (new, _) = side(EDITS, False), side(EDITS, True)
    base, target = parse(row_type(spot, old)), parse(row_type(spot, new))
    table = le.open_table(pa.Table.from_pylist(rows_of(spot, was), schema=le.arrow_schema(base)))
    asked = how(spot, EDITS)
    found = diff(base, target, asked["renames"])
    kinds = set()
    for change in found.changes:
        fills: Any = {change.path: asked["old_rows"].get(change.path, "default")}
        can = table.capability(change, base, target, fills, found.renames)
        kind = type(change).__name__
        allowed = EITHER.get(kind) or ADDED.get(kind) or ({"metadata"} if kind in MARKER else {"rewrite"})
        assert can.route in allowed, (change, can)
        assert can.reason
        kinds.add(kind)
    assert kinds == KINDS


@pytest.mark.parametrize("route", ["metadata", "rewritten"])
@pytest.mark.parametrize("place", PLACES)
def test_old_rows_read_right_after_every_change(place: str, route: str, evolved: Any) -> None:
    uri, expected = evolved[place, route]
    table = le.open_table(uri)
    found = [row for batch in table.read() for row in batch.to_pylist()]
    assert found == expected
    result = le.verify(table, full=True, columns="all")
    assert result.ok, [str(each) for each in result.mismatches]
    assert pq.read_table(uri.removeprefix("parquet:")).num_rows == len(expected)


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_independent_readers_see_the_same_rows(reader: str, evolved: Any) -> None:
    library: Any = pytest.importorskip(reader)
    for key, (uri, expected) in evolved.items():
        read = library.read_parquet(uri.removeprefix("parquet:") + "/*.parquet")
        theirs = (read.to_arrow_table() if reader == "duckdb" else read.to_arrow()).to_pylist()
        told_by = [json.loads(json.dumps([told(row) for row in rows], default=str)) for rows in (theirs, expected)]
        assert told_by[0] == told_by[1], key
