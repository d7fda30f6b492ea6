"""Listed faults of filters: told as the reader's where they are exactly that, and as mismatches where anything more is
wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.replaying.verify import verify

NAN = math.nan


def fields(type_: Any, name: str = "v", **more: Any) -> list[dict[str, Any]]:
    return [{"name": "id", "type": "long"}, {"name": name, "type": ["null", type_], "default": None, **more}]


def rows(*values: Any, start: int = 0, name: str = "v") -> list[dict[str, Any]]:
    return [{"id": start + i, name: value} for i, value in enumerate(values)]


# --- on disk


def test_a_value_beyond_the_type_of_old_files_lets_their_nulls_through_pyiceberg(disk: Any) -> None:
    lake = disk("iceberg", fields("int"))
    lake.add(fields("int"), rows(1, None, 2, None))
    lake.evolve(fields("long"))
    lake.add(fields("long"), rows(5_000_000_000, 7, start=10))
    result = verify(lake.open())
    assert result.ok, [str(m) for m in result.mismatches]
    (fault,) = result.reader_faults
    old = next(f.path for f in lake.open().files() if f.version == 1)
    assert (fault.fault, fault.file, fault.row, fault.path, fault.rows) == ("literal-in-file-type", old, 1, "v", 2)
    assert {p["op"]: p["verdict"] for p in result.evidence.predicates if p["path"] == "v"}["<"] == "reader-fault"


@pytest.mark.parametrize("renamed", [False, True])
def test_a_double_is_rounded_for_files_that_hold_floats_by_pyiceberg(disk: Any, renamed: bool) -> None:
    lake = disk("iceberg", fields("float"))
    lake.add(fields("float"), rows(0.5, 0.1, None, NAN, 3.0, 0.7))
    after = fields("double", "w", aliases=["v"]) if renamed else fields("double")
    path = "w" if renamed else "v"
    lake.evolve(after)
    lake.add(after, rows(0.7, 0.5, start=10, name=path))
    lake.add(after, rows(1e300, start=20, name=path))
    result = verify(lake.open())
    assert result.ok, [str(m) for m in result.mismatches]
    assert {(f.fault, f.path) for f in result.reader_faults} == {("literal-in-file-type", path)}


def test_a_promoted_branch_of_a_union_has_the_same_fault(disk: Any) -> None:
    lake = disk("iceberg", [fields("int")[0], {"name": "u", "type": ["null", "int", "string"], "default": None}])
    before = [{"id": 1, "u": {"int": 5, "string": None}}, {"id": 2, "u": None}]
    lake.add([fields("int")[0], {"name": "u", "type": ["null", "int", "string"], "default": None}], before)
    after = [fields("int")[0], {"name": "u", "type": ["null", "long", "string"], "default": None}]
    lake.evolve(after)
    lake.add(after, [{"id": 3, "u": {"long": 5_000_000_000, "string": None}}])
    result = verify(lake.open())
    assert result.ok, [str(m) for m in result.mismatches]


@pytest.mark.parametrize("type_", ["double", "float"])
def test_nan_beside_one_value_reads_as_that_value_under_a_filter_of_delta_rs(disk: Any, type_: str) -> None:
    lake = disk("delta", fields(type_))
    lake.add(fields(type_), rows(0.25))
    after = fields(type_, "w", aliases=["v"])
    lake.evolve(after)
    lake.add(after, rows(NAN, 0.25, NAN, start=10, name="w"))
    lake.add(after, rows(NAN, 0.25, 3.0, start=20, name="w"))
    lake.add(after, rows(NAN, 0.25, None, start=30, name="w"))
    result = verify(lake.open())
    assert result.ok, [str(m) for m in result.mismatches]
    assert {(f.fault, f.path, f.rows) for f in result.reader_faults} == {("nan-beside-one-value", "w", 2)}


# --- the same shapes where no listed fault makes them


@pytest.fixture
def promoted(make: Any) -> Callable[..., Any]:
    """Two files of before a promotion and one of after, by a reader that may be made to answer filters wrongly."""

    def build(old: str, new: str, before: list[Any], after: list[Any], format_: str = "iceberg") -> Any:
        made = make.table([make.version(1, make.schema(*fields(old)))], ordered=format_ == "iceberg", format=format_)
        made.append(rows(*before), "old")
        made.evolve(make.schema(*fields(new)))
        made.append(rows(*after, start=100), "new")
        return made

    return build


def adding(op: str, pick: Callable[[dict[str, Any]], bool]) -> Callable[[Any, str, pa.Table, pa.Table], pa.Table]:
    """A spoiler: under a filter with this operator, the rows of a file that *pick* names come along."""

    def spoil(predicate: Any, path: str, whole: pa.Table, part: pa.Table) -> pa.Table:
        if predicate.op != op or predicate.path != "v":
            return part
        there = set(part["id"].to_pylist())
        chosen = [row["id"] in there or pick(row) for row in whole.to_pylist()]
        return whole.filter(pa.array(chosen, pa.bool_()))

    return spoil


BIG = 5_000_000_000


@pytest.mark.parametrize(
    ("old", "new", "after", "op", "pick"),
    [
        pytest.param("int", "int", [7], "<", lambda r: r["v"] is None and r["id"] < 100, id="no promotion"),
        pytest.param("int", "long", [7], "<", lambda r: r["v"] is None and r["id"] < 100, id="a value within int"),
        pytest.param("int", "long", [BIG, None], "<", lambda r: r["v"] is None and r["id"] > 100, id="a new file"),
        pytest.param("int", "long", [BIG], "=", lambda r: r["v"] is None, id="another operator"),
        pytest.param("int", "long", [BIG], "<", lambda r: r["id"] == 1, id="one null of two"),
        pytest.param("float", "double", [0.7, 8.0], "=", lambda r: r["v"] == 2.0, id="a value that rounds otherwise"),
    ],
)
def test_rows_that_no_listed_fault_lets_through_are_mismatches(
    promoted: Any, old: str, new: str, after: list[Any], op: str, pick: Any
) -> None:
    table = promoted(old, new, [1, None, 2, None], after)
    assert verify(table).ok
    table.spoil_filtered = adding(op, pick)
    result = verify(table, columns="all")
    assert not result.ok
    assert all(m.kind == "kept" and m.file is not None and m.row is not None for m in result.mismatches)
    assert {m.path for m in result.mismatches} == {"v"}


def test_exactly_what_the_listed_fault_lets_through_is_the_readers(promoted: Any) -> None:
    table = promoted("int", "long", [1, None, 2, None], [BIG])
    table.spoil_filtered = adding("<", lambda r: r["id"] < 100)
    result = verify(table)
    assert result.ok
    assert [(f.fault, f.file, f.row, f.rows) for f in result.reader_faults] == [("literal-in-file-type", "old", 1, 2)]


def test_a_row_lost_beside_the_listed_fault_is_a_mismatch(promoted: Any) -> None:
    table = promoted("int", "long", [1, None, 2, None], [BIG, 9])
    faulty = adding("<", lambda r: r["id"] < 100)

    def spoil(predicate: Any, path: str, whole: pa.Table, part: pa.Table) -> pa.Table:
        given = faulty(predicate, path, whole, part)
        return given.filter(pa.array([one != 101 for one in given["id"].to_pylist()], pa.bool_()))

    table.spoil_filtered = spoil
    found = verify(table).mismatches
    assert {(m.file, m.row, m.kind) for m in found} == {("new", 1, "missing")}
    assert all("under the filter v" in m.reason for m in found)


@pytest.mark.parametrize(
    ("before", "ok"),
    [
        ([0.25, NAN], True),
        ([0.25, NAN, NAN, 0.25], True),
        ([0.25, NAN, 0.5], False),
        ([0.25, NAN, None], False),
        ([0.25, 0.25], True),
    ],
)
def test_nan_is_excused_beside_one_value_only(promoted: Any, before: list[Any], ok: bool) -> None:
    table = promoted("float", "double", before, [7.0], format_="delta")

    def spoil(predicate: Any, path: str, whole: pa.Table, part: pa.Table) -> pa.Table:
        if predicate.path != "v" or predicate.op == "is null" or path != "old":
            return part
        constant = [0.25 if row["v"] is not None and math.isnan(row["v"]) else row["v"] for row in whole.to_pylist()]
        given = whole.set_column(1, "v", pa.array(constant, whole.schema.field("v").type))
        asked = predicate.value if predicate.op == "in" else [predicate.value]
        meets = [v is not None and (v < asked[0] if predicate.op == "<" else v in asked) for v in constant]
        return given.filter(pa.array(meets, pa.bool_()))

    table.spoil_filtered = spoil
    assert verify(table).ok == ok


def test_a_row_that_does_not_meet_the_filter_is_named_with_file_row_column_and_operator(promoted: Any) -> None:
    table = promoted("int", "long", [1, 2, 3], [4])
    table.spoil_filtered = adding("=", lambda r: r["id"] == 2)
    (found,) = verify(table).mismatches
    assert (found.file, found.row, found.path) == ("old", 2, "v")
    assert found.reason == "the row came back although it does not meet the filter v = a value"
