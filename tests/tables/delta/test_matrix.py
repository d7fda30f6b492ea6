"""Every kind of change at every place where it can stand: its route is declared here, and old rows read right after it,
by delta-rs, by pyarrow with the fold, by DuckDB and by the Delta kernel."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.avro.parse import parse
from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField, Change
from lakeevolve.model.diff import Diff, diff
from lakeevolve.tables import delta
from lakeevolve.tables.base import Route
from tests.tables import shapes
from tests.tables.shapes import Place, array, enum, f, logical, map_, rec, rows_of, within

KINDS = {kind.__name__ for kind in get_args(Change)}
NOON = dt.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=dt.UTC)

METADATA: set[Route] = {"metadata"}
REWRITE: set[Route] = {"rewrite"}

#: Kind of change -> the routes that it may take at any place; MAPS says where a map's values differ.
DECLARED: dict[str, set[Route]] = {
    "AddField": {"metadata", "backfill"},
    "DropField": REWRITE,
    "RenameField": REWRITE,
    "MoveField": METADATA,
    "PromoteType": REWRITE,
    "ChangeLogicalType": {"metadata", "rewrite"},
    "ReplaceType": REWRITE,
    "MakeOptional": METADATA,
    "MakeRequired": REWRITE,
    "AddBranch": METADATA,
    "DropBranch": REWRITE,
    "ReorderBranches": METADATA,
    "AddSymbol": METADATA,
    "DropSymbol": {"metadata", "rewrite"},
    "ReorderSymbols": METADATA,
    "SetEnumDefault": METADATA,
    "SetDefault": METADATA,
    "SetDoc": METADATA,
    "SetAliases": METADATA,
    "SetProperties": METADATA,
    "SetOrder": METADATA,
    "RenameType": {"metadata", "rewrite"},
}
#: DataFusion reads no struct of a map's values that lacks a column, so what adds one there writes the files anew.
MAPS: dict[str, set[Route]] = {"AddField": {"rewrite", "backfill"}, "AddBranch": REWRITE}


@dataclass(frozen=True)
class Edit:
    """What one record has before and after, and its route. ``nulls`` and ``renames`` are paths within the record."""

    route: Route
    old: list[Any]
    was: dict[str, Any]
    new: list[Any]
    now: dict[str, Any]
    nulls: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()


#: Fields of a record in a record are optional: in a list of optional records, delta-rs 1.6 misreads others.
EDITS: dict[str, Edit] = {
    "an optional field is added": Edit("metadata", [], {}, [f("n", ["null", "int"], default=None)], {"n": None}),
    "a field is added that old rows do not have": Edit(
        "metadata", [], {}, [f("m", "int", default=5)], {"m": None}, nulls=("m",)
    ),
    "an optional record is added": Edit(
        "metadata", [], {}, [f("nr", ["null", rec("NR", f("x", "int"))], default=None)], {"nr": None}
    ),
    "a field becomes optional": Edit("metadata", [f("o", "int")], {"o": 6}, [f("o", ["null", "int"])], {"o": 6}),
    "a branch is added": Edit(
        "metadata",
        [f("ub", ["string", "int"])],
        {"ub": {"string": None, "int": 8}},
        [f("ub", ["string", "int", "bytes"])],
        {"ub": {"string": None, "int": 8, "bytes": None}},
    ),
    "branches change places": Edit(
        "metadata",
        [f("uc", ["string", "int"])],
        {"uc": {"string": None, "int": 8}},
        [f("uc", ["int", "string"])],
        {"uc": {"int": 8, "string": None}},
    ),
    "symbols come and change places": Edit(
        "metadata",
        [f("k", enum("K", "A", "B"))],
        {"k": "B"},
        [f("k", enum("K", "D", "B", "A"))],
        {"k": "B"},
    ),
    "a symbol that no row holds goes": Edit(
        "metadata", [f("ks", enum("KS", "A", "B"))], {"ks": "B"}, [f("ks", enum("KS", "B"))], {"ks": "B"}
    ),
    "an enum gets a default": Edit(
        "metadata", [f("y", enum("Y", "A", "B"))], {"y": "B"}, [f("y", enum("Y", "A", "B", default="A"))], {"y": "B"}
    ),
    "a default changes": Edit("metadata", [f("v", "int", default=1)], {"v": 9}, [f("v", "int", default=2)], {"v": 9}),
    "milliseconds become microseconds": Edit(
        "metadata",
        [f("t", logical("long", "timestamp-millis"))],
        {"t": NOON},
        [f("t", logical("long", "timestamp-micros"))],
        {"t": NOON},
    ),
    "docs, aliases, properties, orders and a type's name change": Edit(
        "metadata",
        [f("w", rec("W", f("x", ["null", "int"]), doc="before"))],
        {"w": {"x": 10}},
        [
            f(
                "w",
                rec("W2", f("x", ["null", "int"]), aliases=["W"], doc="after", unit="m"),
                doc="d",
                aliases=["z"],
                order="ignore",
            )
        ],
        {"w": {"x": 10}},
    ),
    "a field moves": Edit(
        "metadata",
        [f("aa", "int"), f("ab", "int")],
        {"aa": 11, "ab": 12},
        [f("ab", "int"), f("aa", "int")],
        {"ab": 12, "aa": 11},
    ),
    "a field with a default is added": Edit("backfill", [], {}, [f("nd", "string", default="it's")], {"nd": "it's"}),
    "an array with a default is added": Edit("backfill", [], {}, [f("l", array("int"), default=[1, 2])], {"l": [1, 2]}),
    "a record with a default is added": Edit(
        "backfill",
        [],
        {},
        [f("h", rec("H", f("x", ["int", "null"]), f("y", ["string", "null"], default="q")), default={"x": 4})],
        {"h": {"x": 4, "y": "q"}},
    ),
    "a field is dropped": Edit(
        "rewrite", [f("d", "int"), f("dk", "int")], {"d": 1, "dk": 2}, [f("dk", "int")], {"dk": 2}
    ),
    "a field is renamed": Edit("rewrite", [f("a", "int")], {"a": 2}, [f("b", "int", aliases=["a"])], {"b": 2}),
    "a field is renamed by its owner": Edit(
        "rewrite", [f("ra", "int")], {"ra": 2}, [f("rb", "int")], {"rb": 2}, renames=(("ra", "rb"),)
    ),
    "two fields swap names": Edit(
        "rewrite",
        [f("p", "string"), f("q", "int")],
        {"p": "x", "q": 3},
        [f("p", "int", aliases=["q"]), f("q", "string", aliases=["p"])],
        {"p": 3, "q": "x"},
    ),
    "an int becomes a long": Edit("rewrite", [f("i", "int")], {"i": 5}, [f("i", "long")], {"i": 5}),
    "a float becomes a double": Edit(
        "rewrite", [f("g", "float")], {"g": 0.1}, [f("g", "double")], {"g": 0.10000000149011612}
    ),
    "a text becomes bytes": Edit("rewrite", [f("s", "string")], {"s": "é"}, [f("s", "bytes")], {"s": "é".encode()}),
    "a number becomes a date": Edit(
        "rewrite", [f("td", "int")], {"td": 3}, [f("td", logical("int", "date"))], {"td": dt.date(1970, 1, 4)}
    ),
    "a type becomes a union": Edit(
        "rewrite", [f("vu", "int")], {"vu": 7}, [f("vu", ["string", "int"])], {"vu": {"string": None, "int": 7}}
    ),
    "a union becomes a type": Edit(
        "rewrite", [f("uw", ["int", "long"])], {"uw": {"int": None, "long": 8}}, [f("uw", "long")], {"uw": 8}
    ),
    "a field becomes required": Edit("rewrite", [f("e", ["null", "int"])], {"e": 7}, [f("e", "int")], {"e": 7}),
    "a branch that no row uses goes": Edit(
        "rewrite",
        [f("ug", ["string", "boolean", "int"])],
        {"ug": {"string": None, "boolean": None, "int": 8}},
        [f("ug", ["string", "int"])],
        {"ug": {"string": None, "int": 8}},
    ),
    "a branch is renamed": Edit(
        "rewrite",
        [f("ur", [rec("BR", f("x", "int")), "int"])],
        {"ur": {"BR": {"x": 1}, "int": None}},
        [f("ur", [rec("BS", f("x", "int"), aliases=["BR"]), "int"])],
        {"ur": {"BS": {"x": 1}, "int": None}},
    ),
    "a symbol that is held becomes the default": Edit(
        "rewrite",
        [f("ed", enum("ED", "A", "B", default="A"))],
        {"ed": "B"},
        [f("ed", enum("ED", "A", default="A"))],
        {"ed": "A"},
    ),
    "a list's items become doubles": Edit(
        "rewrite", [f("li", array("int"))], {"li": [1]}, [f("li", array("double"))], {"li": [1.0]}
    ),
    "a map's values become doubles": Edit(
        "rewrite", [f("mi", map_("int"))], {"mi": [("k", 1)]}, [f("mi", map_("double"))], {"mi": [("k", 1.0)]}
    ),
}


PLACES: dict[str, Place] = {
    **shapes.PLACES,
    "in a list of optional records": Place(
        lambda r: ["null", array(["null", r])], lambda v: [v, None], "c[]", ([], None, [None])
    ),
}


def side(edits: dict[str, Edit], new: bool) -> tuple[Any, dict[str, Any]]:
    """The record before or after all edits, and its value."""
    fields: list[Any] = [f("stays", "int")]
    value: dict[str, Any] = {"stays": 0}
    for edit in edits.values():
        fields += edit.new if new else edit.old
        value |= edit.now if new else edit.was
    return rec("R", *fields), value


def row_type(place: Place, record: Any) -> Any:
    if not place.path:
        return rec("Row", f("id", "long"), *record["fields"])
    return rec("Row", f("id", "long"), f("c", place.wrap(record)))


def how(place: Place, edits: dict[str, Edit]) -> dict[str, Any]:
    nulls = {within(place, path): "null" for edit in edits.values() for path in edit.nulls}
    renames = [(within(place, a), within(place, b)) for edit in edits.values() for a, b in edit.renames]
    return {"old_rows": {**nulls, "*": "default"}, "renames": renames}


def compared(place: Place, edits: dict[str, Edit]) -> Diff:
    old, new = (parse(row_type(place, side(edits, after)[0])) for after in (False, True))
    return diff(old, new, how(place, edits)["renames"])


@pytest.mark.parametrize("place", PLACES)
def test_no_kind_of_change_is_left_out_at_any_place_and_each_has_a_declared_route(place: str) -> None:
    made = {type(change).__name__ for change in compared(PLACES[place], EDITS).changes}
    assert made == KINDS
    assert set(DECLARED) == KINDS


@pytest.mark.parametrize("place", PLACES)
def test_each_change_takes_the_route_that_is_declared(place: str, tmp_path: Path) -> None:
    spot = PLACES[place]
    old, was = side(EDITS, False)
    base = parse(row_type(spot, old))
    uri = f"delta:{tmp_path / 't'}"
    table = delta.create_table(uri, base, mark=True)
    delta.append(uri, pa.Table.from_pylist(rows_of(spot, was), schema=le.arrow_schema(base)))
    table.refresh()
    for name, edit in EDITS.items():
        alone = {name: edit}
        edited = [f_ for other, e in EDITS.items() for f_ in (e.new if other == name else e.old)]
        target = parse(row_type(spot, rec("R", f("stays", "int"), *edited)))
        found = diff(base, target, how(spot, alone)["renames"])
        assert found.changes
        nulls = how(spot, alone)["old_rows"]
        fills: dict[str, Any] = {c.path: nulls.get(c.path, "default") for c in found.changes if isinstance(c, AddField)}
        taken: set[Route] = set()
        for change in found.changes:
            can = table.capability(change, base, target, fills, found.renames)
            kind = type(change).__name__
            allowed = MAPS.get(kind) if "{}" in paths.parts(change.path) else None
            assert can.route in (allowed or DECLARED[kind]), (name, kind, can)
            assert can.reason
            taken.add(can.route)
        grows = {"AddField", "AddBranch"} & {type(c).__name__ for c in found.changes}
        wanted = "rewrite" if grows and "{}" in paths.parts(spot.path) and edit.route == "metadata" else edit.route
        assert wanted in taken, (name, taken)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[str, list[dict[str, Any]]]]:
    """A table for each place and route, with its old rows evolved, and what every row must read."""
    folder = tmp_path_factory.mktemp("matrix")
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEEVOLVE_STATE", str(folder / "state"))
        for name, place in PLACES.items():
            for route in ("metadata", "rewritten"):
                edits = {n: e for n, e in EDITS.items() if (e.route == "metadata") == (route == "metadata")}
                (old, was), (new, now) = side(edits, False), side(edits, True)
                base, uri = parse(row_type(place, old)), f"delta:{folder / f'{len(made)}'}"
                delta.create_table(uri, base, mark=True)
                delta.append(uri, pa.Table.from_pylist(rows_of(place, was), schema=le.arrow_schema(base)))
                files = delta.open(uri).files()
                plan = le.plan(uri, row_type(place, new), mode="NONE", **how(place, edits))
                assert le.apply(plan, allow=("rewrite", "backfill", "drop")).ok
                if route == "metadata" and "{}" not in paths.parts(place.path):
                    assert {file.path for file in delta.open(uri).files()} == {file.path for file in files}
                made[name, route] = (uri, rows_of(place, now))
    return made


@pytest.mark.parametrize("route", ["metadata", "rewritten"])
@pytest.mark.parametrize("place", PLACES)
def test_old_rows_read_right_after_every_change(place: str, route: str, evolved: Any) -> None:
    uri, expected = evolved[place, route]
    table = delta.open(uri)
    found = [row for batch in table.read() for row in batch.to_pylist()]
    assert sorted(found, key=lambda row: row["id"]) == expected
    assert le.verify(uri, full=True, columns="all").ok


def test_independent_readers_see_the_same_rows(evolved: Any, readers: Any) -> None:
    folders = [uri.removeprefix("delta:") for uri, _ in evolved.values()]
    for reader, found in readers(folders).items():
        for (key, (_, expected)), theirs in zip(evolved.items(), found, strict=True):
            ours = json.loads(json.dumps([told(row) for row in expected], default=str))
            assert sorted((told(row) for row in theirs), key=lambda row: row["id"]) == ours, (reader, key)


def told(value: Any) -> Any:
    """A value without what JSON and the readers' own Python types put differently."""
    if isinstance(value, dict):
        if set(value) == {"key", "value"}:
            return [value["key"], told(value["value"])]
        return {key: told(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(inner) for inner in value]
    return str(value) if isinstance(value, (bytes, dt.date, dt.datetime)) else value
