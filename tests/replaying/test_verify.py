"""Replay of tables in memory: nothing is said of right ones, and every fault of the wrong ones is named and located."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.engines.local import LocalEngine
from lakeevolve.replaying import sides
from lakeevolve.replaying.result import ReplayResult
from lakeevolve.replaying.verify import verify
from lakeevolve.tables.base import DataFile

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "zip", "type": "string"}, {"name": "city", "type": ["null", "string"], "default": None}],
}
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "qty", "type": "int"}, {"name": "price", "type": ["null", "double"], "default": None}],
}
BASE = (
    {"name": "id", "type": "long"},
    {"name": "address", "type": ["null", ADDRESS], "default": None},
    {"name": "lines", "type": ["null", {"type": "array", "items": LINE}], "default": None},
    {"name": "tags", "type": ["null", {"type": "map", "values": "string"}], "default": None},
    {"name": "weight", "type": ["null", "float"], "default": None},
    {"name": "payload", "type": ["null", "string", "Line"], "default": None},
)


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i in range(start, start + count):
        found.append(
            {
                "id": i,
                "address": None if i % 5 == 4 else {"zip": f"z{i}", "city": None if i % 2 else f"c{i}"},
                "lines": [None, [], [{"qty": i, "price": i / 4}, {"qty": 7, "price": None}]][i % 3],
                "tags": None if i % 4 == 3 else [("a", f"t{i}"), ("b", "x")],
                "weight": None if i % 7 == 6 else i + 0.5,
                "payload": [None, {"string": "s"}, {"Line": {"qty": i, "price": 1.0}}][i % 3],
            }
        )
    return found


@pytest.fixture(params=["ordered", "unordered"])
def table(request: Any, make: Any) -> Any:
    """Two versions and three files: two written for the first version, one for the second."""
    ordered = request.param == "ordered"
    found = make.table([make.version(1, make.schema(*BASE))], ordered=ordered, format="delta")
    found.append(rows(11), "one")
    found.append(rows(9, 11), "two")
    second = make.schema(
        *(BASE[:4]),
        {"name": "weight", "type": ["null", "double"], "default": None},
        BASE[5],
        {"name": "country", "type": "string", "default": "US"},
    )
    found.evolve(second)
    found.append([{**row, "country": "DE" if row["id"] % 2 else "FR"} for row in rows(8, 20)], "three")
    return found


def only(result: ReplayResult) -> Any:
    assert len(result.mismatches) == 1, [str(m) for m in result.mismatches]
    assert result.mismatched == 1
    assert not result.ok
    return result.mismatches[0]


def wrong_in(file: str, change: Any) -> Any:
    return lambda path, part: change(part) if path == file else part


def set_value(make: Any, row: int, change: Any) -> Any:
    return lambda part: make.spoil(part, row, change)


# --- right tables


def test_nothing_is_said_of_a_right_table(table: Any) -> None:
    result = verify(table)
    assert result.ok
    assert (result.files, result.rows) == (3, 28)
    assert not result.mismatches
    assert not result.reader_faults
    assert result.evidence.intact
    assert {p["path"] for p in result.evidence.predicates} == {"weight", "country"}
    assert {p["op"] for p in result.evidence.predicates} == {"=", "<", "in", "is null"}
    assert all(p["verdict"] == "equal" for p in result.evidence.predicates)
    assert result.evidence.readers[0]["verdict"] == "equal"


def test_all_columns_can_be_asked_for_under_filters(table: Any) -> None:
    result = verify(table, columns="all")
    assert result.ok
    asked = {p["path"] for p in result.evidence.predicates}
    assert {"id", "address.zip", "address.city", "payload<string>", "payload<Line>.qty", "country"} <= asked
    assert not any("lines" in path or "tags" in path for path in asked)


def test_threads_and_one_thread_give_the_same_evidence(table: Any) -> None:
    one, many = verify(table, engine=LocalEngine(1)), verify(table, engine=LocalEngine(4))
    assert one.evidence == many.evidence


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_faults_are_located_whatever_the_batches(
    table: Any, make: Any, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(sides, "BATCH_ROWS", batch)
    assert verify(table).ok
    table.wrong = wrong_in("one", set_value(make, 8, lambda r: r["lines"][1].update(qty=8)))
    assert (only(verify(table)).row, only(verify(table)).path) == (8, "lines[].qty")
    table.wrong = wrong_in("one", lambda part: make.without_rows(part, 7))
    assert (only(verify(table)).row, only(verify(table)).kind) == (7, "missing")


def test_the_digest_of_a_file_does_not_depend_on_batches(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = verify(table).evidence
    monkeypatch.setattr(sides, "BATCH_ROWS", 2)
    table.rows = {path: pa.concat_tables([data.slice(0, 2), data.slice(2)]) for path, data in table.rows.items()}
    table.chunk = 1
    after = verify(table).evidence
    assert (after.files, after.digest) == (before.files, before.digest)


def test_progress_counts_files(table: Any) -> None:
    seen: list[tuple[int, int]] = []
    verify(table, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_sample_holds_a_file_of_each_version_and_says_so(table: Any) -> None:
    result = verify(table, sample=1)
    assert result.ok
    assert result.files == 2
    assert {f.version for f in result.evidence.files} == {1, 2}
    assert result.notes == ("2 files were sampled",)
    table.wrong = wrong_in("three", lambda part: part.slice(1))
    assert not verify(table, sample=1).ok


def test_inferred_versions_are_reported(table: Any) -> None:
    from dataclasses import replace

    table.states[-1][0] = replace(table.states[-1][0], inferred=True)
    result = verify(table)
    assert result.ok
    assert "inferred" in result.notes[0]
    assert result.evidence.to_json()["files"][0]["inferred"]


def test_an_empty_table_is_right(make: Any) -> None:
    table = make.table([make.version(1, make.schema(*BASE))])
    assert verify(table).ok
    table.append([], "empty")
    result = verify(table, columns="all")
    assert result.ok
    assert (result.files, result.rows) == (1, 0)


# --- single faults


@pytest.mark.parametrize(
    ("change", "path", "expected", "actual"),
    [
        (lambda row: row.update(id=99), "id", "int64", "int64"),
        (lambda row: row["address"].update(zip="other"), "address.zip", "string", "string"),
        (lambda row: row["address"].update(city=None), "address.city", "string", "null"),
        (lambda row: row.update(address=None), "address", "struct<zip: string, city: string>", "null"),
        (lambda row: row["lines"][1].update(qty=8), "lines[].qty", "int32", "int32"),
        (lambda row: row["lines"][1].update(price=0.0), "lines[].price", "null", "double"),
        (lambda row: row["lines"].pop(), "lines", None, None),
        (lambda row: row.update(lines=None), "lines", None, "null"),
        (lambda row: row.update(tags=[("a", "t2"), ("b", "y")]), "tags{}", "string", "string"),
        (lambda row: row.update(tags=[("a", "t2"), ("c", "x")]), "tags", "string", "string"),
        (lambda row: row.update(weight=2.25), "weight", "double", "double"),
        (lambda row: row.update(country="us"), "country", "string", "string"),
        (lambda row: row["payload"]["Line"].update(qty=3), "payload<Line>.qty", "int32", "int32"),
    ],
)
def test_one_changed_value_is_named_by_file_row_and_path(
    table: Any, make: Any, change: Any, path: str, expected: str | None, actual: str | None
) -> None:
    table.wrong = wrong_in("one", set_value(make, 2, change))
    found = only(verify(table))
    assert (found.file, found.row, found.path) == ("one", 2, path)
    if expected is not None:
        assert found.expected_type == expected
    if actual is not None:
        assert found.actual_type == actual
    assert found.reader == "delta-rs"


def test_null_and_empty_are_told_apart_at_every_level(table: Any, make: Any) -> None:
    for row, before, after in ((0, None, []), (1, [], None)):
        table.wrong = wrong_in("one", set_value(make, row, lambda r, after=after: r.update(lines=after)))
        found = only(verify(table))
        assert (found.row, found.path) == (row, "lines")
        assert (found.expected_type == "null") == (before is None)
    table.wrong = wrong_in("one", set_value(make, 4, lambda r: r.update(address={"zip": None, "city": None})))
    found = only(verify(table))
    assert (found.row, found.path, found.expected_type) == (4, "address", "null")


def bits(value: float, flip: int) -> float:
    (whole,) = struct.unpack("<Q", struct.pack("<d", value))
    return struct.unpack("<d", struct.pack("<Q", whole ^ flip))[0]


@pytest.mark.parametrize("value", [bits(3.5, 1), -3.5, float("nan")])
def test_one_bit_of_a_float_counts(table: Any, make: Any, value: float) -> None:
    table.wrong = wrong_in("one", set_value(make, 3, lambda r: r.update(weight=value)))
    assert (only(verify(table)).row, only(verify(table)).path) == (3, "weight")


def test_the_sign_of_zero_and_the_payload_of_nan_count(make: Any) -> None:
    table = make.table([make.version(1, make.schema({"name": "x", "type": "double"}))])
    nan = pa.array([0x7FF8000000000000, 0, 0x7FF8000000000001], pa.uint64()).view(pa.float64())
    table.append(pa.table({"x": nan}), "one")
    assert verify(table).ok
    for row, bits_ in ((0, 0x7FF8000000000002), (1, 0x8000000000000000)):
        values = [0x7FF8000000000000, 0, 0x7FF8000000000001]
        values[row] = bits_
        table.wrong = lambda _path, _part, v=values: pa.table({"x": pa.array(v, pa.uint64()).view(pa.float64())})
        found = only(verify(table))
        assert (found.row, found.path) == (row, "x")


@pytest.mark.parametrize("lost", [0, 5, 10])
def test_a_dropped_row_is_named(table: Any, make: Any, lost: int) -> None:
    table.wrong = wrong_in("one", lambda part: make.without_rows(part, lost))
    found = only(verify(table))
    assert (found.file, found.row, found.kind) == ("one", lost, "missing")


@pytest.mark.parametrize("twice", [0, 5, 10])
def test_a_doubled_row_is_named(table: Any, twice: int) -> None:
    table.wrong = wrong_in("one", lambda part: pa.concat_tables([part.slice(0, twice + 1), part.slice(twice)]))
    found = only(verify(table))
    assert (found.file, found.row, found.kind) == ("one", twice, "doubled")


def test_a_row_that_is_in_no_file_is_told(table: Any, make: Any) -> None:
    extra = table.rows["three"].slice(0, 1).to_pylist()[0]

    def add(part: pa.Table) -> pa.Table:
        return pa.concat_tables([part, pa.Table.from_pylist([{**extra, "id": 77, "country": "XX"}], part.schema)])

    table.wrong = wrong_in("three", add)
    assert only(verify(table)).kind == "extra"


def test_a_dropped_row_and_a_changed_one_are_both_named(table: Any, make: Any) -> None:
    table.wrong = wrong_in(
        "one",
        lambda part: make.without_rows(make.spoil(part, 8, lambda r: r["address"].update(zip="no")), 3),
    )
    result = verify(table)
    assert {(m.file, m.row, m.path) for m in result.mismatches} == {("one", 3, ""), ("one", 8, "address.zip")}


def test_a_lost_file_names_its_first_rows(table: Any) -> None:
    table.wrong = wrong_in("two", lambda part: part.slice(0, 0))
    result = verify(table)
    assert {m.file for m in result.mismatches} == {"two"}
    assert {m.row for m in result.mismatches} == set(range(9))
    assert {m.kind for m in result.mismatches} == {"missing"}


def test_a_whole_column_that_reads_wrong_is_named_by_its_path_alone(table: Any, make: Any) -> None:
    def wrong(part: pa.Table) -> pa.Table:
        index = part.schema.get_field_index("country")
        return part.set_column(index, part.schema.field(index), pa.array([None] * part.num_rows, pa.string()))

    table.wrong = lambda path, part: wrong(part) if path != "three" else part
    result = verify(table)
    assert {m.path for m in result.mismatches} == {"country"}
    assert {m.actual_type for m in result.mismatches} == {"null"}
    assert {m.file for m in result.mismatches} == {"one", "two"}


def test_values_that_changed_places_between_rows_are_found(table: Any, make: Any) -> None:
    def swap(part: pa.Table) -> pa.Table:
        rows_ = part.to_pylist()
        rows_[1]["weight"], rows_[2]["weight"] = rows_[2]["weight"], rows_[1]["weight"]
        return pa.Table.from_pylist(rows_, part.schema)

    table.wrong = wrong_in("two", swap)
    result = verify(table)
    assert {(m.file, m.row, m.path) for m in result.mismatches} == {("two", 1, "weight"), ("two", 2, "weight")}


def test_another_order_counts_where_the_reader_keeps_it(table: Any) -> None:
    table.wrong = wrong_in("one", lambda part: part.take(pa.array([1, 0, *range(2, 11)])))
    result = verify(table)
    assert result.ok == (not table.ordered)
    if table.ordered:
        assert {m.row for m in result.mismatches} == {0, 1}


def test_another_type_is_named_with_both_types(table: Any) -> None:
    def wrong(part: pa.Table) -> pa.Table:
        index = part.schema.get_field_index("id")
        return part.set_column(index, "id", part.column(index).cast(pa.int32()))

    table.wrong = lambda _path, part: wrong(part)
    result = verify(table)
    assert not result.ok
    assert {(m.path, m.expected_type, m.actual_type) for m in result.mismatches} == {("id", "int64", "int32")}


def test_another_type_deep_inside_is_named(table: Any) -> None:
    line = pa.struct([pa.field("qty", pa.int64()), pa.field("price", pa.float64())])

    def wrong(part: pa.Table) -> pa.Table:
        index = part.schema.get_field_index("lines")
        return part.set_column(index, "lines", part.column(index).cast(pa.list_(line)))

    table.wrong = lambda _path, part: wrong(part)
    found = {(m.path, m.expected_type, m.actual_type) for m in verify(table).mismatches}
    assert found == {("lines[].qty", "int32", "int64")}


def test_a_column_that_the_reader_lacks_is_found(table: Any) -> None:
    table.wrong = lambda _path, part: part.drop_columns(["country"])
    result = verify(table)
    assert not result.ok
    assert {m.path for m in result.mismatches} == {"country"}


# --- filters


def test_a_filter_that_loses_rows_is_found_and_the_rows_named(table: Any) -> None:
    def lose(predicate: Any, part: pa.Table) -> pa.Table:
        if (predicate.path, predicate.op) == ("country", "="):
            return part.filter(pc.not_equal(part["id"], 3))
        return part

    table.wrong_filtered = lose
    found = only(verify(table))
    assert (found.file, found.row, found.path) == ("one", 3, "country")
    assert "country = a value" in found.reason
    assert [p for p in verify(table).evidence.predicates if p["verdict"] == "differs"] == [
        {"path": "country", "op": "=", "rows": 20, "verdict": "differs"}
    ]


def test_a_filter_that_finds_nothing_is_found(table: Any) -> None:
    table.wrong_filtered = lambda predicate, part: part.slice(0, 0) if predicate.path == "weight" else part
    result = verify(table)
    assert not result.ok
    assert {m.path for m in result.mismatches} == {"weight"}
    assert {m.kind for m in result.mismatches} == {"missing"}


def test_a_filter_that_fails_is_a_mismatch(table: Any) -> None:
    def fail(predicate: Any, part: pa.Table) -> pa.Table:
        raise TypeError("Cannot convert secret-value-in-a-message")

    table.wrong_filtered = fail
    result = verify(table)
    assert {m.kind for m in result.mismatches} == {"unreadable"}
    assert "TypeError" in result.mismatches[0].reason
    assert "secret" not in str(result.mismatches) + json.dumps(result.to_json())


def test_values_that_come_late_are_asked_for_too(make: Any) -> None:
    table = make.table([make.version(1, make.schema({"name": "id", "type": "long"}))])
    table.evolve(
        make.schema({"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None})
    )
    late = [{"id": i, "note": "x" if i == 39 else None} for i in range(40)]
    table.append(late, "one")
    result = verify(table)
    assert result.ok
    assert {(p["path"], p["op"], p["rows"]) for p in result.evidence.predicates} == {
        ("note", "=", 1),
        ("note", "<", 0),
        ("note", "in", 1),
        ("note", "is null", 39),
    }
    table.wrong_filtered = lambda predicate, part: part.slice(0, 0) if predicate.op == "=" else part
    assert only(verify(table)).row == 39


# --- damage


def test_a_damaged_file_is_a_mismatch_that_names_it(table: Any) -> None:
    table.damaged.add("two")
    result = verify(table)
    found = only(result)
    assert (found.file, found.row, found.kind) == ("two", None, "unreadable")
    assert "ArrowInvalid" in found.reason
    assert "secret" not in str(result) + repr(result) + json.dumps(result.to_json())
    assert {f.path: f.rows for f in result.evidence.files} == {"one": 11, "three": 8, "two": 0}


def test_faults_are_found_beside_a_damaged_file(table: Any, make: Any) -> None:
    table.damaged.add("two")
    table.wrong = wrong_in("one", set_value(make, 2, lambda r: r.update(id=99)))
    found = {(m.file, m.row, m.path) for m in verify(table).mismatches}
    assert found == {("two", None, ""), ("one", 2, "id")}


def test_a_file_that_is_cut_short_or_gone_is_said_to_be(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table.damaged.add("two")
    stored = table.stored

    def short(file: Any) -> Any:
        return replace(stored(file), bytes=5) if file.path == "two" else stored(file)

    monkeypatch.setattr(table, "stored", short)
    assert only(verify(table)).reason.startswith("the file cannot be read: it is cut short to 5 bytes, where")
    del table.rows["two"]
    monkeypatch.undo()
    assert only(verify(table)).reason == (
        "the file cannot be read: the table lists it, and it is missing from the store"
    )


def test_a_count_that_is_not_the_files_is_named_with_both_counts(table: Any) -> None:
    table.states[-1] = [replace(file, rows=file.rows + 2 * (file.path == "two")) for file in table.states[-1]]
    found = only(verify(table))
    assert (found.file, found.row, found.kind, found.reader) == ("two", None, "count", "metadata")
    assert found.reason == "the table's metadata counts 11 rows, and the file has 9"


def test_a_file_with_deletes_is_counted_before_and_after_them(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two rows of each file are deleted: the footer counts them, the rows that are read are without them.
    table.states[-1] = [replace(file, rows=file.rows + 2) for file in table.states[-1]]
    stored = table.stored
    monkeypatch.setattr(table, "stored", lambda file: replace(stored(file), rows=stored(file).rows + 2))
    monkeypatch.setattr(table, "live", lambda file: file.rows - 2)
    assert verify(table).ok
    monkeypatch.setattr(table, "live", lambda file: None)
    assert verify(table).ok
    monkeypatch.setattr(table, "live", lambda file: file.rows - 3)
    assert {m.reason for m in verify(table).mismatches if m.file == "two"} == {
        "the table's metadata counts 8 rows that are not deleted, and the file has 9"
    }
    monkeypatch.setattr(table, "stored", stored)
    assert {m.reason for m in verify(table).mismatches if m.file == "two"} == {
        "the table's metadata counts 11 rows, and the file has 9"
    }


def test_a_file_that_only_the_reader_cannot_read_is_named(table: Any) -> None:
    table.unreadable.add("three")
    result = verify(table)
    found = only(result)
    assert (found.file, found.kind, found.reader) == ("three", "unreadable", "delta-rs")
    assert result.rows == 28


def test_a_file_that_a_stale_writer_left_is_said_to_be_one(make: Any) -> None:
    ident, country = {"name": "id", "type": "long"}, {"name": "country", "type": "string", "default": "US"}
    table = make.table([make.version(1, make.schema(ident))])
    table.append([{"id": 1}], "one")
    table.evolve(make.schema(ident, country), rewrite=True)
    table.rows["stale"] = pa.table({"id": pa.array([2], pa.int64())})
    table.states.append([*table.states[-1], DataFile("stale", 1, 8, 1)])
    # What the file lacks reads null by a reader that knows no defaults.
    nothing = pa.array([None], pa.string())
    table.wrong = lambda path, part: part.set_column(1, "country", nothing) if path == "stale" else part
    found = next(m for m in verify(table).mismatches if m.row is not None)
    assert (found.file, found.row, found.path, found.kind) == ("stale", 0, "country", "lost")
    assert "a writer that did not know version 2 added the file after it" in found.why


def test_a_step_without_a_resolution_is_a_mismatch_of_the_files_before_it(make: Any) -> None:
    table = make.table([make.version(1, make.schema({"name": "x", "type": "string"}))])
    table.append([{"x": "a"}], "old")
    table.evolve(make.schema({"name": "x", "type": "int"}), derived=True)
    table.append([{"x": 1}], "new")
    result = verify(table)
    assert [(m.file, m.kind) for m in result.mismatches] == [("old", "unreadable")]
    assert "version 1 cannot be read at version 2" in result.mismatches[0].reason


def test_a_value_that_a_step_had_ruled_out_is_named(make: Any) -> None:
    table = make.table([make.version(1, make.schema({"name": "x", "type": ["null", "int"], "default": None}))])
    table.append([{"x": 1}, {"x": 2}, {"x": None}], "old")
    table.evolve(make.schema({"name": "x", "type": "int"}))
    found = only(verify(table))
    assert (found.file, found.row, found.path) == ("old", 2, "x")


# --- reader faults


@pytest.fixture
def iceberg(make: Any) -> Any:
    table = make.table([make.version(1, make.schema(*BASE))])
    table.append(rows(11), "one")
    table.append(rows(9, 11), "two")
    return table


def empty_for_null(part: pa.Table) -> pa.Table:
    rows_ = part.to_pylist()
    for row in rows_:
        row["lines"] = [] if row["lines"] is None else row["lines"]
    return pa.Table.from_pylist(rows_, part.schema)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_null_list_of_structs_that_pyiceberg_reads_as_empty_is_a_reader_fault(iceberg: Any, ordered: bool) -> None:
    iceberg.ordered = ordered
    iceberg.wrong = lambda _path, part: empty_for_null(part)
    result = verify(iceberg, columns="all")
    assert result.ok
    assert [(f.reader, f.file, f.row, f.path, f.rows) for f in result.reader_faults] == [
        ("pyiceberg", "one", 0, "lines", 4),
        ("pyiceberg", "two", 1, "lines", 3),
    ]
    assert result.evidence.readers[0]["verdict"] == "reader-fault"
    assert result.reader_faults[0].rule == "REPLAY-READER-FAULT"
    assert "3833" in str(result.reader_faults[0])


@pytest.mark.parametrize("ordered", [True, False])
def test_a_mismatch_is_found_beside_a_reader_fault(iceberg: Any, make: Any, ordered: bool) -> None:
    iceberg.ordered = ordered

    def wrong(path: str, part: pa.Table) -> pa.Table:
        part = empty_for_null(part)
        return make.spoil(part, 2, lambda r: r["lines"][0].update(qty=99)) if path == "one" else part

    iceberg.wrong = wrong
    found = only(verify(iceberg))
    assert (found.file, found.row, found.path) == ("one", 2, "lines[].qty")


def test_a_dropped_row_is_found_beside_a_reader_fault(iceberg: Any, make: Any) -> None:
    iceberg.wrong = lambda path, part: make.without_rows(empty_for_null(part), *([3] if path == "two" else []))
    found = only(verify(iceberg))
    assert (found.file, found.row, found.kind) == ("two", 3, "missing")


def test_other_readers_are_not_excused(iceberg: Any) -> None:
    iceberg.format = "delta"
    iceberg.wrong = lambda _path, part: empty_for_null(part)
    result = verify(iceberg)
    assert not result.ok
    assert not result.reader_faults


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_a_filter_on_a_field_of_a_null_record_is_a_reader_fault(iceberg: Any, format_: str) -> None:
    iceberg.format = format_

    def lose(predicate: Any, part: pa.Table) -> pa.Table:
        return part.filter(pc.is_valid(part["address"])) if predicate.path.startswith("address") else part

    iceberg.wrong_filtered = lose
    result = verify(iceberg, columns="all")
    assert result.ok, [str(m) for m in result.mismatches]
    reader = "pyiceberg" if format_ == "iceberg" else "delta-rs"
    assert [(f.reader, f.fault, f.path, f.rows) for f in result.reader_faults] == [
        (reader, "filter-beneath-null-record", "address.city", 4),
        (reader, "filter-beneath-null-record", "address.zip", 4),
    ]
    verdicts = {(p["path"], p["op"]): p["verdict"] for p in result.evidence.predicates}
    assert verdicts["address.zip", "is null"] == "reader-fault"
    assert verdicts["address.zip", "="] == "equal"
    assert verdicts["id", "is null"] == "equal"


def test_a_row_that_is_lost_under_a_filter_though_its_record_is_there_is_a_mismatch(iceberg: Any) -> None:
    def lose(predicate: Any, part: pa.Table) -> pa.Table:
        if (predicate.path, predicate.op) != ("address.city", "is null"):
            return part
        return part.filter(pc.and_(pc.is_valid(part["address"]), pc.not_equal(part["id"], 3)))

    iceberg.wrong_filtered = lose
    found = only(verify(iceberg, columns="all"))
    assert (found.file, found.row, found.path, found.kind) == ("one", 3, "address.city", "missing")


def test_a_null_list_of_numbers_read_as_empty_is_a_mismatch(make: Any) -> None:
    array = {"name": "n", "type": ["null", {"type": "array", "items": "int"}], "default": None}
    table = make.table([make.version(1, make.schema(array))])
    table.append([{"n": None}, {"n": [1]}], "one")
    table.wrong = lambda _path, part: make.spoil(part, 0, lambda r: r.update(n=[]))
    assert only(verify(table)).path == "n"


# --- foreign columns and what the table is meant to be


def test_foreign_columns_are_compared_and_may_be_missing_from_old_files(make: Any) -> None:
    table = make.table([make.version(1, make.schema({"name": "id", "type": "long"}))])
    table.append([{"id": 1}], "old")
    table.foreign, table.foreign_types = ("_offset",), {"_offset": pa.int32()}
    table.append([{"id": 2, "_offset": 7}], "new")
    right = lambda path, part: part if path == "new" else part.append_column("_offset", pa.nulls(1, pa.int32()))  # noqa: E731
    for ordered in (True, False):
        table.ordered, table.wrong = ordered, right
        assert verify(table).ok
        table.wrong = lambda path, part: make.spoil(right(path, part), 0, lambda r: r.update(_offset=8))
        assert {(m.file, m.path) for m in verify(table).mismatches} == {("old", "_offset"), ("new", "_offset")}


def test_a_table_that_is_not_what_it_is_meant_to_be_is_a_mismatch(table: Any, make: Any) -> None:
    assert verify(table, against=table.schema).ok
    meant = make.schema(*BASE[:4], {"name": "weight", "type": ["null", "float"], "default": None}, BASE[5])
    found = {(m.path, m.reason) for m in verify(table, against=meant).mismatches}
    assert found == {("weight", "another type"), ("country", "not in the schema")}


# --- many faults, bounded


def test_mismatches_are_counted_and_the_first_named(make: Any) -> None:
    table = make.table([make.version(1, make.schema({"name": "id", "type": "long"}))])
    table.append([{"id": i} for i in range(500)], "one")
    table.chunk = 64
    table.wrong = lambda _path, part: part.set_column(0, "id", pc.add(part["id"], 1000))
    result = verify(table)
    assert result.mismatched == 500
    assert [m.row for m in result.mismatches][:3] == [0, 1, 2]
    assert len(result.mismatches) <= 100


def test_many_changed_rows_of_an_unordered_table_are_paired_rightly(make: Any) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}, {"name": "s", "type": "string"}]
    table = make.table([make.version(1, make.schema(*fields))], ordered=False, format="delta")
    data = pa.table(
        {
            "id": pa.array(range(20_000), pa.int64()),
            "n": pa.array([i % 3 for i in range(20_000)], pa.int32()),
            "s": pa.array(["x"] * 20_000),
        }
    )
    table.append(data, "one")
    table.chunk = 4096

    def wrong(_path: str, part: pa.Table) -> pa.Table:
        changed = pc.if_else(pc.less(part["id"], 9000), pc.add(part["n"], pa.scalar(1, pa.int32())), part["n"])
        return part.set_column(1, "n", changed)

    table.wrong = wrong
    result = verify(table)
    assert not result.ok
    assert {m.path for m in result.mismatches} == {"n"}
    assert all(m.row is not None and m.row < 9000 for m in result.mismatches)


# --- no values anywhere

CANARY = "canary-7f3a"


def test_values_stand_in_no_text_of_a_result(table: Any, make: Any) -> None:
    table.append([{**row, "country": CANARY} for row in rows(3, 40)], "four")
    table.wrong = wrong_in("four", set_value(make, 1, lambda r: r.update(country=CANARY + "-b")))
    table.wrong_filtered = lambda predicate, part: part.slice(1)
    result = verify(table)
    assert not result.ok
    texts = [str(result), repr(result), json.dumps(result.to_json()), json.dumps(result.evidence.to_json())]
    texts += [str(m) + repr(m) + json.dumps(m.to_json()) for m in result.mismatches]
    import copy
    from dataclasses import asdict

    texts += [str(asdict(m)) for m in result.mismatches] + [repr(copy.copy(m)) for m in result.mismatches]
    assert not any(CANARY in text for text in texts)
    shown = [m for m in result.mismatches if m.path == "country" and m.kind == "value"]
    assert (shown[0].expected_value, shown[0].actual_value) == (CANARY, CANARY + "-b")


# --- random tables

value = st.one_of(st.none(), st.text(max_size=4))
order = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "address": st.one_of(st.none(), st.fixed_dictionaries({"zip": st.text(max_size=3), "city": value})),
        "lines": st.one_of(
            st.none(),
            st.lists(
                st.fixed_dictionaries({"qty": st.integers(0, 3), "price": st.one_of(st.none(), st.floats())}),
                max_size=3,
            ),
        ),
        "tags": st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2)), max_size=2)),
        "weight": st.one_of(st.none(), st.floats(width=32)),
        "payload": st.none(),
    }
)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.lists(st.lists(order, max_size=7), max_size=3), st.booleans(), st.integers(1, 4))
def test_nothing_is_said_of_random_right_tables(make: Any, files: list[list[Any]], ordered: bool, chunk: int) -> None:
    table = make.table([make.version(1, make.schema(*BASE))], ordered=ordered, chunk=chunk)
    for data in files:
        table.append(data)
    table.evolve(
        make.schema(*BASE[:4], {"name": "mass", "type": ["null", "double"], "default": None, "aliases": ["weight"]})
    )
    result = verify(table, columns="all", engine=LocalEngine(1))
    assert result.ok, [str(m) for m in result.mismatches]
    assert result.rows == sum(map(len, files))


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.lists(order, min_size=1, max_size=9), st.data(), st.booleans())
def test_one_random_change_is_found_in_its_row(make: Any, data: list[Any], draw: st.DataObject, ordered: bool) -> None:
    table = make.table([make.version(1, make.schema(*BASE))], ordered=ordered, format="delta")
    # Distinct rows: which of two equal rows was changed, nobody can tell.
    for index, row in enumerate(data):
        row["id"] = index
    table.append(data, "one")
    at = draw.draw(st.integers(0, len(data) - 1))
    name = draw.draw(st.sampled_from(["id", "address", "lines", "tags", "weight"]))

    def change(row: dict[str, Any]) -> None:
        row[name] = {
            "id": (row["id"] or 0) + 1000,
            "address": {"zip": "new", "city": "new"} if row["address"] is None else None,
            "lines": [] if row["lines"] is None else None,
            "tags": [] if row["tags"] is None else None,
            "weight": 1.25 if row["weight"] is None else None,
        }[name]

    table.wrong = lambda _path, part: make.spoil(part, at, change)
    found = only(verify(table, engine=LocalEngine(1)))
    assert (found.file, found.row, found.path) == ("one", at, name)
