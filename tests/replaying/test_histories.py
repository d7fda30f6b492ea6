"""Tables of both formats whose rows read otherwise by the fold of their steps than by one direct resolution."""

from __future__ import annotations

from typing import Any

import pytest

from lakeevolve.avro.arrow import execute
from lakeevolve.avro.resolution import resolve
from lakeevolve.replaying.verify import verify

ID = {"name": "id", "type": "long"}


def state(*symbols: str) -> dict[str, Any]:
    type_ = {"type": "enum", "name": "State", "symbols": list(symbols), "default": symbols[0]}
    return {"name": "state", "type": type_, "default": symbols[0]}


def country(default: str) -> dict[str, Any]:
    return {"name": "country", "type": "string", "default": default}


def optional(name: str, type_: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


#: The versions of each history with a row for the first, and what that row reads at the end: by the fold, directly.
HISTORIES: dict[str, tuple[list[list[dict[str, Any]]], dict[str, Any], Any, Any]] = {
    "the default of an added field changes later": (
        [[ID], [ID, country("US")], [ID, country("DE")]],
        {"id": 1},
        ("country", "US"),
        ("country", "DE"),
    ),
    "a field is dropped and added again": (
        [[ID, optional("note", "string")], [ID], [ID, optional("note", "string")]],
        {"id": 1, "note": "first"},
        ("note", None),
        ("note", "first"),
    ),
    "an enum symbol is removed and added again": (
        [[ID, state("NEW", "PAID")], [ID, state("NEW")], [ID, state("NEW", "PAID")]],
        {"id": 1, "state": "PAID"},
        ("state", "NEW"),
        ("state", "PAID"),
    ),
    "int to float to double": (
        [[ID, optional("n", "int")], [ID, optional("n", "float")], [ID, optional("n", "double")]],
        {"id": 1, "n": 16_777_217},
        ("n", 16_777_216.0),
        ("n", 16_777_217.0),
    ),
    "the default of a field that was always there changes": (
        [[ID, country("US")], [ID, country("DE")], [ID, country("FR")]],
        {"id": 1, "country": "IT"},
        ("country", "IT"),
        ("country", "IT"),
    ),
}


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@pytest.mark.parametrize("name", HISTORIES)
def test_old_rows_read_as_the_fold_of_the_steps_says(disk: Any, format_: str, name: str) -> None:
    versions, row, folded, direct = HISTORIES[name]
    lake = disk(format_, versions[0])
    lake.add(versions[0], [row])
    kept = verify(lake.open()).evidence
    for number, fields in enumerate(versions[1:], 2):
        lake.evolve(fields, mode="NONE")
        filled = {"country": "X", "note": "late", "state": "NEW", "n": 2, "c": 0}
        lake.add(fields, [{"id": number, **{f["name"]: filled[f["name"]] for f in fields[1:]}}])
    table = lake.open()
    result = verify(table, columns="all", full=True, mode="NONE")
    assert result.ok, [str(m) for m in result.mismatches]
    assert result.rows == 3
    read = {each["id"]: each for batch in table.read() for each in batch.to_pylist()}
    assert read[1][folded[0]] == folded[1]
    # What one direct resolution would have said.
    schemas = [each.schema for each in table.history()]
    raw = table_row(schemas[0], row)
    assert execute(resolve(schemas[0], schemas[-1]), raw, partial=True).to_pylist()[0][direct[0]] == direct[1]
    # Each changed leaf was asked for in every way that its type knows.
    asked = {(p["path"], p["op"]) for p in result.evidence.predicates}
    assert {(folded[0], op) for op in ("=", "<", "in", "is null")} <= asked
    assert result.evidence.oracle["fastavro"]["verdict"] in ("agrees", "not-asked")
    # Evidence of before is still comparable, and nothing unexplained happened.
    assert verify(table, against=kept).ok


def table_row(schema: Any, row: dict[str, Any]) -> Any:
    import pyarrow as pa

    from lakeevolve.avro.arrow import arrow_schema

    return pa.RecordBatch.from_pylist([row], schema=arrow_schema(schema, strict=False))


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_old_snapshots_still_read_as_they_did(disk: Any, format_: str) -> None:
    import lakeevolve as le

    before, after = [ID, optional("n", "int"), optional("note", "string")], [ID, optional("n", "long")]
    lake = disk(format_, before)
    lake.add(before, [{"id": i, "n": i, "note": f"x{i}"} for i in range(5)])
    position = lake.open().state.position
    then = [batch.to_pylist() for batch in lake.open().read()]
    lake.evolve(after, mode="NONE")
    lake.add(after, [{"id": 9, "n": 5_000_000_000}])
    old = le.open_table(f"{lake.uri}@{position}" if format_ == "iceberg" else f"{lake.uri}@v{position}")
    assert [batch.to_pylist() for batch in old.read()] == then
    result = verify(old, columns="all")
    assert result.ok, [str(m) for m in result.mismatches]
    assert result.rows == 5


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_readers_of_older_versions_read_what_the_mode_promises(disk: Any, format_: str) -> None:
    first = [ID, optional("note", "string")]
    second = [*first, optional("more", "int")]
    third = [*second, {"name": "need", "type": "int", "default": 1}]
    lake = disk(format_, first)
    lake.add(first, [{"id": 1, "note": "a"}])
    lake.evolve(second, mode="NONE")
    lake.add(second, [{"id": 2, "note": "b", "more": 3}])
    lake.evolve(third, mode="NONE")
    result = verify(lake.open(), mode="FORWARD_TRANSITIVE")
    assert result.ok, [str(m) for m in result.mismatches]
    assert [(c["name"], c["direction"], c["verdict"]) for c in result.evidence.consumers] == [
        ("version 1", "forward", "reads"),
        ("version 2", "forward", "reads"),
    ]
    assert result.evidence.oracle["fastavro"]["rows"]["forward"] == 4
    assert [c["name"] for c in verify(lake.open(), mode="FULL").evidence.consumers] == ["version 2"]
    assert verify(lake.open(), mode="BACKWARD").evidence.consumers == []


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_a_reader_that_a_mode_promises_too_much_is_told(disk: Any, format_: str) -> None:
    first, second = [ID, {"name": "note", "type": "string"}], [ID, optional("note", "string")]
    lake = disk(format_, first)
    lake.add(first, [{"id": 1, "note": "a"}])
    lake.evolve(second, mode="NONE")
    assert verify(lake.open(), mode="FORWARD").ok
    lake.add(second, [{"id": 2, "note": None}])
    (found,) = verify(lake.open(), mode="FORWARD").mismatches
    assert (found.row, found.path, found.reader) == (0, "note", "version 1")
