"""Every kind of change at every place where it can stand, on rows that are there already, read back by pyiceberg, by
DuckDB and by the fold of the raw files.

All changes that need no new files are made at once at each place, and so are all that do: a plan is one commit.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any, get_args

import pytest

import lakeevolve as le
from lakeevolve.avro.parse import parse
from lakeevolve.model.change import Change
from lakeevolve.model.diff import diff
from tests.tables.shapes import PLACES, Place, array, enum, f, logical, map_, rec, rows_of, within

KINDS = {kind.__name__ for kind in get_args(Change)}
ALL = ("rewrite", "backfill", "drop")
NOON = dt.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=dt.UTC)
SOME = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@dataclass(frozen=True)
class Edit:
    """What one record has before and after. ``fills`` and ``renames`` are paths within the record."""

    old: list[Any]
    was: dict[str, Any]
    new: list[Any]
    now: dict[str, Any]
    nulls: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()


#: Changes that leave every file where it is.
METADATA: dict[str, Edit] = {
    "an optional field is added": Edit([], {}, [f("n", ["null", "int"], default=None)], {"n": None}),
    "a field is added that old rows do not have": Edit([], {}, [f("m", "int", default=5)], {"m": None}, nulls=("m",)),
    "a field is dropped": Edit([f("d", "int")], {"d": 1}, [], {}),
    "a field is renamed": Edit([f("a", "int")], {"a": 2}, [f("b", "int", aliases=["a"])], {"b": 2}),
    "two fields swap names": Edit(
        [f("p", "string"), f("q", "int")],
        {"p": "x", "q": 3},
        [f("p", "int", aliases=["q"]), f("q", "string", aliases=["p"])],
        {"p": 3, "q": "x"},
    ),
    "a name is used again": Edit(
        [f("r", "int")],
        {"r": 4},
        [f("s", "int"), f("r", ["null", "string"], default=None)],
        {"s": 4, "r": None},
        renames=(("r", "s"),),
    ),
    "an int becomes a long": Edit([f("i", "int")], {"i": 5}, [f("i", "long")], {"i": 5}),
    "a float becomes a double": Edit([f("g", "float")], {"g": 0.5}, [f("g", "double")], {"g": 0.5}),
    "milliseconds become microseconds": Edit(
        [f("t", logical("long", "timestamp-millis"))],
        {"t": NOON},
        [f("t", logical("long", "timestamp-micros"))],
        {"t": NOON},
    ),
    "a field becomes optional": Edit([f("o", "int")], {"o": 6}, [f("o", ["null", "int"])], {"o": 6}),
    "a field becomes required": Edit([f("e", ["null", "int"])], {"e": 7}, [f("e", "int")], {"e": 7}),
    "a union gains, loses and promotes branches": Edit(
        [f("u", ["string", "boolean", "int"])],
        {"u": {"string": None, "boolean": None, "int": 8}},
        [f("u", ["long", "string", "bytes"])],
        {"u": {"long": 8, "string": None, "bytes": None}},
    ),
    "symbols come, go and change places": Edit(
        [f("k", enum("K", "A", "B", "C"))],
        {"k": "B"},
        [f("k", enum("K", "D", "B", "A"))],
        {"k": "B"},
    ),
    "an enum gets a default": Edit(
        [f("y", enum("Y", "A", "B"))], {"y": "B"}, [f("y", enum("Y", "A", "B", default="A"))], {"y": "B"}
    ),
    "a default changes": Edit([f("v", "int", default=1)], {"v": 9}, [f("v", "int", default=2)], {"v": 9}),
    "docs, aliases, properties and orders change": Edit(
        [f("w", rec("W", f("x", "int"), doc="before"))],
        {"w": {"x": 10}},
        [
            f(
                "w",
                rec("W2", f("x", "int"), aliases=["W"], doc="after", unit="m"),
                doc="d",
                aliases=["z"],
                order="ignore",
            )
        ],
        {"w": {"x": 10}},
    ),
    "a field moves to the end": Edit([f("aa", "int")], {"aa": 11}, [], {}),
}
#: The field that moves comes last in the new record.
MOVED = (f("aa", "int"), {"aa": 11})

#: Changes that need new files.
REWRITTEN: dict[str, Edit] = {
    "a field with a default is added": Edit([], {}, [f("n", "string", default="US")], {"n": "US"}),
    "an array with a default is added": Edit([], {}, [f("l", array("int"), default=[1, 2])], {"l": [1, 2]}),
    "a record with a default is added": Edit(
        [],
        {},
        [f("h", rec("H", f("x", "int"), f("y", "string", default="q")), default={"x": 4})],
        {"h": {"x": 4, "y": "q"}},
    ),
    "an int becomes a double": Edit([f("i", "int")], {"i": 5}, [f("i", "double")], {"i": 5.0}),
    "a long becomes a float": Edit([f("j", "long")], {"j": 6}, [f("j", "float")], {"j": 6.0}),
    "a text becomes bytes": Edit([f("s", "string")], {"s": "é"}, [f("s", "bytes")], {"s": "é".encode()}),
    "bytes become a text": Edit([f("b", "bytes")], {"b": b"x"}, [f("b", "string")], {"b": "x"}),
    "a text becomes a UUID": Edit(
        [f("u", "string")], {"u": str(SOME)}, [f("u", logical("string", "uuid"))], {"u": str(SOME)}
    ),
    "a number becomes a date": Edit(
        [f("t", "int")], {"t": 3}, [f("t", logical("int", "date"))], {"t": dt.date(1970, 1, 4)}
    ),
    "a type becomes a union": Edit(
        [f("v", "int")], {"v": 7}, [f("v", ["string", "int"])], {"v": {"string": None, "int": 7}}
    ),
    "a union becomes a type": Edit(
        [f("w", ["int", "long"])], {"w": {"int": None, "long": 8}}, [f("w", "long")], {"w": 8}
    ),
    "a branch passes into another": Edit(
        [f("x", ["int", "long", "string"])],
        {"x": {"int": 9, "long": None, "string": None}},
        [f("x", ["long", "string"])],
        {"x": {"long": 9, "string": None}},
    ),
    "a symbol that is held becomes the default": Edit(
        [f("e", enum("E", "A", "B", default="A"))], {"e": "B"}, [f("e", enum("E", "A", default="A"))], {"e": "A"}
    ),
    "a list's items become doubles": Edit(
        [f("li", array("int"))], {"li": [1]}, [f("li", array("double"))], {"li": [1.0]}
    ),
    "a map's values become doubles": Edit(
        [f("mi", map_("int"))], {"mi": [("k", 1)]}, [f("mi", map_("double"))], {"mi": [("k", 1.0)]}
    ),
}


def side(edits: dict[str, Edit], new: bool) -> tuple[Any, dict[str, Any]]:
    """The record before or after all edits, and its value."""
    fields: list[Any] = []
    value: dict[str, Any] = {}
    for edit in edits.values():
        fields += edit.new if new else edit.old
        value |= edit.now if new else edit.was
    if new and edits is METADATA:
        fields.append(MOVED[0])
        value |= MOVED[1]
    return rec("R", *fields), value


def row_type(place: Place, record: Any) -> Any:
    if not place.path:
        return rec("Row", f("id", "int"), *record["fields"])
    return rec("Row", f("id", "int"), f("c", place.wrap(record)))


def plan_of(table: Any, place: Place, edits: dict[str, Edit]) -> Any:
    nulls = {within(place, path): "null" for edit in edits.values() for path in edit.nulls}
    renames = [(within(place, a), within(place, b)) for edit in edits.values() for a, b in edit.renames]
    target = row_type(place, side(edits, True)[0])
    return le.plan(table, target, mode="NONE", old_rows={**nulls, "*": "default"}, renames=renames)


@pytest.mark.parametrize("edits", [METADATA, REWRITTEN], ids=["metadata", "rewritten"])
@pytest.mark.parametrize(
    ("place", "version"),
    [(place, 2) for place in PLACES.values()] + [(PLACES[name], 1) for name in ("in the row", "in a list")],
    ids=[*PLACES, "in the row of a v1 table", "in a list of a v1 table"],
)
def test_old_rows_read_right_after_every_change(
    place: Place, edits: dict[str, Edit], version: int, workshop: Any, read: Any
) -> None:
    old, was = side(edits, False)
    _, now = side(edits, True)
    table = workshop.table(row_type(place, old), rows_of(place, was), mark=True, format_version=version)
    plan = plan_of(table, place, edits)
    routes = {step.route for step in plan.steps}
    assert routes <= ({"metadata"} if edits is METADATA else {"metadata", "rewrite", "backfill"})
    before = table.files()
    done = le.apply(plan, allow=ALL)
    assert done.ok
    table = workshop.reopen(table)
    assert (table.files() == before) == (edits is METADATA)
    assert len(table.iceberg.metadata.schemas) == 2
    wanted = rows_of(place, now)
    got = read(table)
    assert got.expected == wanted
    assert got.ours == wanted
    assert got.duckdb == [_as_duckdb(row) for row in wanted]


def _as_duckdb(value: Any) -> Any:
    """DuckDB gives maps as dicts, and UUIDs as such."""
    if isinstance(value, dict):
        return {key: _as_duckdb(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_duckdb(inner) for inner in value]
    if isinstance(value, tuple):
        return (value[0], _as_duckdb(value[1]))
    return value


def made(place: Place, edits: dict[str, Edit]) -> set[str]:
    old, new = (parse(row_type(place, side(edits, after)[0])) for after in (False, True))
    renames = [(within(place, a), within(place, b)) for edit in edits.values() for a, b in edit.renames]
    return {type(change).__name__ for change in diff(old, new, renames).changes}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_no_kind_of_change_is_left_out_at_any_place(place: Place) -> None:
    assert made(place, METADATA) | made(place, REWRITTEN) == KINDS
