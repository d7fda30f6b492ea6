"""Tables with files without field ids, which are found by the table's name mapping."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.parse import parse
from lakeevolve.errors import CommitConflict


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, *fields]}


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def rec(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def rows(batches: Any) -> list[dict[str, Any]]:
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])


def names(table: Any) -> Any:
    return json.loads(table.iceberg.properties["schema.name-mapping.default"])


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., None]:
    """Add a file without field ids, as other tools leave them."""

    def run(table: Any, schema: Any, found: list[dict[str, Any]]) -> None:
        table.refresh()
        path = tmp_path / f"plain-{found[0]['id']}.parquet"
        pq.write_table(pa.Table.from_pylist(found, schema=arrow_schema(parse(schema))), path)
        table.iceberg.add_files([path.as_uri()])
        table.refresh()

    return run


CASES = {
    "a column": (
        record(f("v", "int")),
        {"v": 7},
        record(f("v", "double")),
        {"v": 7.0},
    ),
    "an optional column": (
        record(f("v", ["null", "int"])),
        {"v": 7},
        record(f("v", ["null", "double"])),
        {"v": 7.0},
    ),
    "a renamed column": (
        record(f("v", "int")),
        {"v": 7},
        record(f("w", "double", aliases=["v"])),
        {"w": 7.0},
    ),
    "a nested column": (
        record(f("s", rec("S", f("x", "int"), f("y", "int")))),
        {"s": {"x": 7, "y": 1}},
        record(f("s", rec("S", f("x", "double"), f("y", "long")))),
        {"s": {"x": 7.0, "y": 1}},
    ),
    "a column of records in a list": (
        record(f("l", {"type": "array", "items": rec("S", f("x", "int"), f("y", "string"))})),
        {"l": [{"x": 7, "y": "a"}]},
        record(f("l", {"type": "array", "items": rec("S", f("x", "double"), f("y", "string"))})),
        {"l": [{"x": 7.0, "y": "a"}]},
    ),
    "a list": (
        record(f("l", {"type": "array", "items": "int"})),
        {"l": [7]},
        record(f("l", {"type": "array", "items": "double"})),
        {"l": [7.0]},
    ),
    "a map": (
        record(f("m", {"type": "map", "values": "int"})),
        {"m": [("k", 7)]},
        record(f("m", {"type": "map", "values": "double"})),
        {"m": [("k", 7.0)]},
    ),
    "a column that becomes a union": (
        record(f("u", "string")),
        {"u": "x"},
        record(f("u", ["string", "int"])),
        {"u": {"string": "x", "int": None}},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_files_without_ids_that_are_added_after_a_new_type_are_read(case: Any, workshop: Any, add: Any) -> None:
    old, was, new, now = case
    table = workshop.table(old)
    add(table, old, [{"id": 1, **was}])
    before = table.state.position
    le.apply(le.plan(table.uri, new, mode="NONE"), allow={"rewrite"})
    add(table, new, [{"id": 2, **now}])
    table = le.open_table(table.uri)
    assert rows(table.read()) == [{"id": 1, **now}, {"id": 2, **now}]
    assert rows(table.iceberg.scan().to_arrow().to_batches())[1]["id"] == 2
    assert le.verify(table, full=True).ok
    assert rows(le.open_table(f"{table.uri}@{before}").read()) == [{"id": 1, **was}]
    (file,) = table.files(before)
    assert rows(table.raw(file)) == [{"id": 1, **was}]


def test_every_name_of_a_column_follows_it_to_its_new_id(workshop: Any, add: Any) -> None:
    old, renamed = record(f("a", "int")), record(f("b", "int", aliases=["a"]))
    table = workshop.table(old)
    add(table, old, [{"id": 1, "a": 7}])
    le.apply(le.plan(table.uri, renamed))
    le.apply(le.plan(table.uri, record(f("b", "double", aliases=["a"]))), allow={"rewrite"})
    table = le.open_table(table.uri)
    number = table.iceberg.schema().find_field("b").field_id
    assert names(table)[1] == {"names": ["a", "b"], "field-id": number}
    assert le.verify(table, full=True).ok


def test_two_new_types_in_a_row_leave_every_old_mapping_behind(workshop: Any, add: Any) -> None:
    one, two = record(f("v", "int")), record(f("v", "float"))
    table = workshop.table(one)
    add(table, one, [{"id": 1, "v": 7}])
    first = table.state.position
    le.apply(le.plan(table.uri, two), allow={"rewrite"})
    add(table, two, [{"id": 2, "v": 0.5}])
    second = table.state.position
    le.apply(le.plan(table.uri, record(f("v", "double"))))
    le.apply(le.plan(table.uri, record(f("v", ["double", "string"]))), allow={"rewrite"})
    table = le.open_table(table.uri)
    for position, expected in ((first, [7]), (second, [7.0, 0.5])):
        found = [row for file in table.files(position) for row in rows(table.raw(file))]
        assert sorted(row["v"] for row in found) == sorted(expected)
    assert le.verify(table, full=True).ok


def test_aliases_are_names_of_their_columns_where_nothing_else_is_called_so(workshop: Any, add: Any) -> None:
    old = record(f("amount", "int"), f("s", rec("S", f("x", "int"))), f("other", "int"))
    table = workshop.table(old)
    add(table, old, [{"id": 1, "amount": 7, "s": {"x": 1}, "other": 2}])
    inner = rec("S", f("x", "int", aliases=["ex"]))
    target = record(f("amount", "int", aliases=["amt", "other"]), f("s", inner), f("other", "int"))
    le.apply(le.plan(table.uri, target))
    found = {each["names"][0]: each for each in names(le.open_table(table.uri))}
    assert found["amount"]["names"] == ["amount", "amt"]
    assert found["other"]["names"] == ["other"]
    assert found["s"]["fields"][0]["names"] == ["x", "ex"]
    assert le.verify(table.uri, full=True).ok


def test_once_every_file_has_ids_names_are_free_again(workshop: Any, add: Any) -> None:
    old = record(f("a", "int"), f("b", "int"), f("c", "int"))
    swapped = record(f("a", "int", aliases=["b"]), f("b", "int", aliases=["a"]), f("c", "double"))
    table = workshop.table(old, mark=True)
    add(table, old, [{"id": 1, "a": 7, "b": 8, "c": 9}])
    first = table.state.position
    assert "rewrite these files first" in le.plan(table, swapped).refused[0].reason
    le.apply(le.plan(table, record(f("a", "int"), f("b", "int"), f("c", "double"))), allow={"rewrite"})
    assert le.apply(le.plan(table.uri, swapped)).ok
    table = le.open_table(table.uri)
    assert not table.findings()
    add(table, swapped, [{"id": 2, "a": 80, "b": 70, "c": 0.5}])
    expected = [{"id": 1, "a": 8, "b": 7, "c": 9.0}, {"id": 2, "a": 80, "b": 70, "c": 0.5}]
    assert rows(le.open_table(table.uri).read()) == expected
    assert le.verify(table.uri, full=True).ok
    assert rows(le.open_table(f"{table.uri}@{first}").read()) == [{"id": 1, "a": 7, "b": 8, "c": 9}]


def test_a_file_without_ids_that_comes_in_between_stops_names_from_moving(workshop: Any, add: Any) -> None:
    old = record(f("a", "int"), f("b", "int"))
    table = workshop.table(old, [{"id": 1, "a": 7, "b": 8}], mark=True)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["a"]}, {"field-id": 3, "names": ["b"]}]'
    with table.iceberg.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    table.refresh()
    swapped = record(f("a", "int", aliases=["b"]), f("b", "int", aliases=["a"]))
    evolved = workshop.prepare(table, swapped)
    add(workshop.reopen(table), old, [{"id": 2, "a": 70, "b": 80}])
    with pytest.raises(CommitConflict):
        workshop.commit(table, evolved)
    table.refresh()
    assert le.plan(table, swapped).refused
