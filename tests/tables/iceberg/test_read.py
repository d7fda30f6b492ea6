"""What pyiceberg reads: whole, file by file, and under filters."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.tables.base import Predicate


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "b", "type": ["null", "boolean"]},
        {"name": "n", "type": ["null", "long"]},
        {"name": "f", "type": ["null", "float"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "y", "type": ["null", "bytes"]},
        {"name": "d", "type": ["null", logical("bytes", "decimal", precision=30, scale=3)]},
        {"name": "day", "type": ["null", logical("int", "date")]},
        {"name": "clock", "type": ["null", logical("long", "time-micros")]},
        {"name": "at", "type": ["null", logical("long", "timestamp-micros")]},
        {"name": "there", "type": ["null", logical("long", "local-timestamp-millis")]},
        {"name": "e", "type": ["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]},
        {
            "name": "r",
            "type": ["null", {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "int"]}]}],
        },
        {"name": "u", "type": ["null", "string", "R"]},
        {"name": "l", "type": {"type": "array", "items": "int"}},
    ],
}


def row(number: int, *, null: bool = False) -> dict[str, Any]:
    day = dt.date(2024, 1, number)
    values: dict[str, Any] = {
        "b": number % 2 == 0,
        "n": number,
        "f": number / 2,
        "s": "é" * number,
        "y": bytes([255 - number]),
        "d": Decimal(number * 10**20).scaleb(-3),
        "day": day,
        "clock": dt.time(number, 0, 0, 1),
        "at": dt.datetime(2024, 1, number, tzinfo=dt.UTC),
        "there": dt.datetime(2024, 1, number),
        "e": "AB"[number % 2],
        "r": {"x": number},
        "u": {"string": None, "R": {"x": number}},
    }
    return {"id": number, **(dict.fromkeys(values) if null else values), "l": [number]}


def ids(batches: Any) -> list[int]:
    return sorted(got["id"] for batch in batches for got in batch.to_pylist())


@pytest.fixture
def table(workshop: Any) -> Any:
    made = workshop.table(ROW, [row(1), row(2)], mark=True)
    workshop.append(made, ROW, [row(3), row(4, null=True)])
    return made


LEAVES = ["b", "n", "f", "s", "y", "d", "day", "clock", "at", "there", "e", "r.x", "u<R>.x"]


def value(path: str, number: int) -> Any:
    found: Any = row(number)
    for part in path.replace("<R>", ".R").split("."):
        found = found[part]
    return found


@pytest.mark.parametrize("path", LEAVES)
def test_filters_find_the_rows_that_python_finds(path: str, table: Any) -> None:
    two = value(path, 2)
    alike = [number for number in (1, 2, 3) if value(path, number) == two]
    assert ids(table.read(predicate=Predicate(path, "=", two))) == alike
    assert ids(table.read(predicate=Predicate(path, "is null"))) == [4]
    either = (two, value(path, 3))
    assert ids(table.read(predicate=Predicate(path, "in", either))) == [
        number for number in (1, 2, 3) if value(path, number) in either
    ]
    if path != "b":
        below = [number for number in (1, 2, 3) if value(path, number) < two]
        assert ids(table.read(predicate=Predicate(path, "<", two))) == below


def test_a_file_is_read_alone_and_in_its_order(table: Any) -> None:
    found = [[got["id"] for batch in table.read(file) for got in batch.to_pylist()] for file in table.files()]
    assert found == [[1, 2], [3, 4]]
    first, second = table.files()
    below = Predicate("n", "<", 3)
    assert ids(table.read(first, below)) == [1, 2]
    assert ids(table.read(second, below)) == []


def test_rows_come_in_the_canonical_layout(table: Any) -> None:
    for batch in table.read():
        assert batch.schema.equals(arrow_schema(parse(ROW), strict=False))


@pytest.mark.parametrize("path", ["l", "l[]", "nope", "r", "u"])
def test_what_no_filter_reaches_is_an_error(path: str, table: Any) -> None:
    with pytest.raises(TableError, match="no filter"):
        list(table.read(predicate=Predicate(path, "is null")))


def test_a_table_that_a_stale_writer_broke_says_which_file(table: Any, workshop: Any, tmp_path: Path) -> None:
    # A string where the schema says int, under the column's own id.
    schema = pa.schema([pa.field("id", pa.string(), metadata={"PARQUET:field_id": "1"})])
    (bad, _) = table.files()
    pq.write_table(pa.table([["x"]], schema=schema), bad.path.removeprefix("file://"))
    for rows in (table.read(bad), table.raw(bad)):
        with pytest.raises(TableError) as caught:
            list(rows)
        assert not isinstance(caught.value, UnsupportedTable)
        assert bad.path in str(caught.value.where)


def test_other_branches_stop_what_checks_or_rewrites_rows(workshop: Any) -> None:
    plain = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    made = workshop.table(plain, [{"id": 1}], mark=True)
    made.iceberg.manage_snapshots().create_branch(made.state.position, "audit").commit()
    made.refresh()
    with pytest.raises(UnsupportedTable, match="audit"):
        workshop.prepare(made, {**plain, "fields": [{"name": "id", "type": "double"}]})
    evolved = workshop.evolve(made, {**plain, "fields": [{"name": "id", "type": "long"}]})
    assert evolved.routes() == {"metadata"}
    assert made.describe()["features"]["branches"] == ["audit"]


def test_an_empty_table_evolves_without_files(workshop: Any, read: Any) -> None:
    plain = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    made = workshop.table(plain)
    target = {
        **plain,
        "fields": [{"name": "id", "type": "double"}, {"name": "c", "type": "string", "default": "x"}],
    }
    evolved = workshop.evolve(made, target)
    assert evolved.routes() == {"rewrite", "backfill"}
    assert evolved.staged.files == ()
    assert made.state.position is None
    workshop.append(made, target, [{"id": 1.0, "c": "y"}])
    got = read(made)
    assert got.ours == got.expected == got.duckdb == [{"id": 1.0, "c": "y"}]
