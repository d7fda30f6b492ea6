"""Partitioned, sorted and identified tables."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from lakeevolve.errors import UnsupportedTable

ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "v", "type": "int"},
    ],
}


def moment(day: int) -> dt.datetime:
    return dt.datetime(2024, 1, day, 12, tzinfo=dt.UTC)


ROWS = [
    {"id": 1, "country": "DE", "at": moment(1), "v": 1},
    {"id": 2, "country": "US", "at": moment(2), "v": 2},
    {"id": 3, "country": None, "at": moment(1), "v": 3},
    {"id": 4, "country": "DE", "at": moment(2), "v": 4},
    {"id": 5, "country": "a/b c", "at": moment(2), "v": 5},
]


def retyped(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    fields = [{"name": f["name"], "type": type_, **more} if f["name"] == name else f for f in ROW["fields"]]  # type: ignore[index]
    return {**ROW, "fields": fields}


def partitions(table: Any) -> dict[str, tuple[Any, ...]]:
    return {file.path: (file.handle.file.spec_id, *file.handle.file.partition) for file in table.files()}


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize(
    "partition", [["country"], ["day(at)"], ["bucket(4, id)", "truncate(1, country)"], ["country", "month(at)"]]
)
def test_a_rewritten_file_stays_in_its_partition(
    workshop: Any, read: Any, partition: list[str], format_version: int
) -> None:
    table = workshop.table(ROW, ROWS, partition=partition, format_version=format_version)
    before = partitions(table)
    evolved = workshop.evolve(table, retyped("v", "double"))
    assert evolved.routes() == {"rewrite"}
    after = partitions(table)
    assert {source: after[file.path] for file in evolved.staged.files for source in file.sources} == before
    got = read(table)
    assert got.ours == got.expected == got.duckdb == [{**row, "v": float(row["v"])} for row in ROWS]
    found = table.iceberg.scan("country = 'DE'").to_arrow()
    assert sorted(found.column("id").to_pylist()) == [1, 4]


def test_files_of_an_older_spec_stay_under_it(workshop: Any, read: Any) -> None:
    table = workshop.table(ROW, ROWS, partition=["country"])
    with table.iceberg.update_spec() as update:
        update.remove_field("country")
        update.add_field("at", "day", "at_day")
    table.refresh()
    workshop.append(table, ROW, [{"id": 6, "country": "DE", "at": moment(3), "v": 6}])
    assert {spec for spec, *_ in partitions(table).values()} == {0, 1}
    before = partitions(table)
    evolved = workshop.evolve(table, retyped("v", "double"))
    after = partitions(table)
    assert {source: after[file.path] for file in evolved.staged.files for source in file.sources} == before
    got = read(table)
    assert got.ours == got.expected == got.duckdb
    assert len(got.ours) == 6


def test_partition_sources_may_be_renamed_and_promoted(workshop: Any, read: Any) -> None:
    row = {**ROW, "fields": [*ROW["fields"], {"name": "n", "type": "int"}]}  # type: ignore[misc]
    table = workshop.table(row, [{**each, "n": each["id"] % 2} for each in ROWS], partition=["n", "bucket(4, v)"])
    target = {
        **row,
        "fields": [
            *ROW["fields"][:3],  # type: ignore[index]
            {"name": "w", "type": "long", "aliases": ["v"]},
            {"name": "m", "type": "long", "aliases": ["n"]},
        ],
    }
    assert workshop.evolve(table, target).routes() == {"metadata"}
    got = read(table)
    assert got.ours == got.expected == got.duckdb
    found = table.iceberg.scan("m = 1 and w > 2").to_arrow()
    assert sorted(found.column("id").to_pylist()) == [3, 5]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({**ROW, "fields": [f for f in ROW["fields"] if f["name"] != "country"]}, "partitioned"),  # type: ignore[index]
        (retyped("country", ["null", "bytes"]), "partitioned"),
        (retyped("id", "double"), "identifies|identif"),
        (retyped("id", ["null", "long"]), "identifies"),
        ({**ROW, "fields": [f for f in ROW["fields"] if f["name"] != "v"]}, "sorted"),  # type: ignore[index]
        (retyped("v", "float"), "sorted"),
        (
            {**ROW, "fields": [*ROW["fields"], {"name": "at_day", "type": ["null", "int"], "default": None}]},
            "partition field",
        ),  # type: ignore[misc]
    ],
)
def test_columns_that_the_layout_needs_are_left_alone(workshop: Any, target: Any, reason: str) -> None:
    table = workshop.table(ROW, ROWS, partition=["country", "day(at)"], identifier=["id"])
    with table.iceberg.update_sort_order() as order:
        from pyiceberg.transforms import IdentityTransform

        order.asc("v", IdentityTransform())
    table.refresh()
    with pytest.raises(UnsupportedTable, match=reason):
        workshop.prepare(table, target)


def test_the_spec_in_use_by_files_counts_though_it_is_no_longer_the_default(workshop: Any) -> None:
    table = workshop.table(ROW, ROWS, partition=["country"])
    with table.iceberg.update_spec() as update:
        update.remove_field("country")
    table.refresh()
    dropped = {**ROW, "fields": [f for f in ROW["fields"] if f["name"] != "country"]}  # type: ignore[index]
    with pytest.raises(UnsupportedTable, match="partitioned"):
        workshop.prepare(table, dropped)


def test_statistics_prune_and_never_hide_a_row(workshop: Any) -> None:
    row = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "s", "type": "string"},
            {"name": "b", "type": "bytes"},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}},
            {"name": "e", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "x", "type": "double"},
            {"name": "z", "type": {"type": "int", "logicalType": "time-millis"}},
        ],
    }
    values = [
        {
            "id": n,
            "s": text,
            "b": b"\xff" * 20 + bytes([n]),
            "d": Decimal(sign * 10**20 + n).scaleb(-2),
            "e": Decimal(sign * n).scaleb(-2),
            "t": dt.datetime(1 + n * 2000, 1, 1, tzinfo=dt.UTC),
            "u": f"{n}79c3e09-677c-4bbd-a479-3f349cb785e7",
            "f": bytes([250 + n, 0]),
            "x": sign * n / 3,
            "z": dt.time(n, 0, 0, 1000),
        }
        for n, text, sign in ((1, "a" * 20, -1), (2, "\U0010ffff" * 17, 1), (3, "x" * 15 + "\ud7ff" + "y", -1))
    ]
    table = workshop.table(row, [values[0]])
    for value in values[1:]:
        workshop.append(table, row, [value])
    workshop.evolve(table, {**row, "fields": [*row["fields"], {"name": "c", "type": "string", "default": ""}]})  # type: ignore[misc]
    from lakeevolve.tables.base import Predicate

    for value in values:
        for path, wanted in value.items():
            if path == "u":
                continue
            found = [got for batch in table.read(predicate=Predicate(path, "=", wanted)) for got in batch.to_pylist()]
            assert value["id"] in [got["id"] for got in found], path
    with pytest.raises(UnsupportedTable, match="UUID"):
        list(table.read(predicate=Predicate("u", "=", values[0]["u"])))
    assert list(table.read(predicate=Predicate("u", "is null"))) == []
    assert len(list(table.iceberg.scan("id = 2").plan_files())) == 1
    assert len(list(table.iceberg.scan("x > 0.1").plan_files())) == 1
