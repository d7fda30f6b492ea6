"""Spark reads what lakeevolve made of a table: every kind of change at every place, whole and under filters."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import StringType

import lakeevolve as le
from lakeevolve.model.types import Record
from lakeevolve.replaying.predicates import leaves
from tests.tables.iceberg.test_matrix import ALL, METADATA, REWRITTEN, plan_of, row_type, side
from tests.tables.shapes import PLACES, Place, f, rec, row, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def home(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))


def at(value: Any, path: str) -> Any:
    """What a row has at a path of names; None where it or anything above it is null."""
    for name in path.split("."):
        value = None if value is None else value[name]
    return value


def asked(record: Record, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, Any, list[int]]]:
    """Every leaf that a filter reaches, each comparison with a value that it has, and the rows that come back."""
    for leaf in leaves(record):
        path = leaf.replace("<", ".").replace(">", "")
        held = {each["id"]: at(each, path) for each in rows}
        yield path, "is null", None, [number for number, value in held.items() if value is None]
        for value in [value for value in held.values() if value is not None][:1]:
            yield path, "=", value, [number for number, each in held.items() if each == value]
            among = [number for number, each in held.items() if each is not None and each <= value]
            yield path, "<=", value, among


def condition(path: str, op: str, value: Any) -> Any:
    from pyspark.sql import functions

    column = functions.col(".".join(f"`{name}`" for name in path.split(".")))
    if op == "is null":
        return column.isNull()
    told = functions.lit(bytearray(value) if isinstance(value, bytes) else value)
    return column == told if op == "=" else column <= told


def wrong_under_filters(spark: Any, frame: Any, record: Record, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Where Spark gives other rows than it should: the leaf and the comparison."""
    from pyspark.sql import functions

    tries = list(asked(record, rows))
    frames = [
        frame.where(condition(path, op, value)).select("id", functions.lit(number).alias("asked"))
        for number, (path, op, value, _) in enumerate(tries)
    ]
    found: dict[int, list[int]] = {}
    for each in spark.table(functools.reduce(lambda one, other: one.unionAll(other), frames)).to_pylist():
        found.setdefault(each["asked"], []).append(each["id"])
    return [(path, op) for number, (path, op, _, wanted) in enumerate(tries) if sorted(found.get(number, [])) != wanted]


@pytest.mark.parametrize("edits", [METADATA, REWRITTEN], ids=["metadata", "rewritten"])
@pytest.mark.parametrize(
    ("place", "version"),
    [(place, 2) for place in PLACES.values()] + [(PLACES[name], 1) for name in ("in the row", "in a list")],
    ids=[*PLACES, "in the row of a v1 table", "in a list of a v1 table"],
)
def test_old_rows_read_right_after_every_change_whole_and_under_filters(
    place: Place, edits: Any, version: int, workshop: Any, spark: Any
) -> None:
    (old, was), (_, now) = side(edits, False), side(edits, True)
    table = workshop.table(row_type(place, old), rows_of(place, was), mark=True, format_version=version)
    assert le.apply(plan_of(table, place, edits), allow=ALL).ok
    table = workshop.reopen(table)
    workshop.append(table, table.schema.to_json(), [{**each, "id": each["id"] + 10} for each in rows_of(place, now)])
    wanted = rows_of(place, now)
    wanted += [{**each, "id": each["id"] + 10} for each in wanted]
    frame = spark.iceberg(workshop.reopen(table).iceberg.metadata_location)
    assert spark.rows(frame) == wanted
    assert wrong_under_filters(spark, frame, table.schema.root, wanted) == []


def read(spark: Any, workshop: Any, table: Any) -> list[dict[str, Any]]:
    return spark.rows(spark.iceberg(workshop.reopen(table).iceberg.metadata_location))


def test_a_default_in_the_metadata_is_shown_and_not_found_which_is_why_the_files_are_written_anew(
    workshop: Any, spark: Any
) -> None:
    table = workshop.table(row(), [{"id": 1}], mark=True)
    with table.iceberg.update_schema() as update:
        update.add_column("c", StringType(), default_value="US")
    target = row(f("c", "string", default="US"))
    wanted = [{"id": 1, "c": "US"}]
    frame = spark.iceberg(workshop.reopen(table).iceberg.metadata_location)
    assert spark.rows(frame) == wanted
    record = le.load(target).root
    assert {path for path, _ in wrong_under_filters(spark, frame, record, wanted)} == {"c"}
    backfilled = workshop.table(row(), [{"id": 1}], mark=True, name="backfilled")
    assert le.apply(le.plan(backfilled, target), allow=ALL).ok
    frame = spark.iceberg(workshop.reopen(backfilled).iceberg.metadata_location)
    assert spark.rows(frame) == wanted
    assert wrong_under_filters(spark, frame, record, wanted) == []


def test_null_and_empty_lists_of_records_stay_two_things(workshop: Any, spark: Any) -> None:
    def having(number: str) -> Any:
        return row(f("l", ["null", {"type": "array", "items": ["null", rec("E", f("x", number))]}]))

    rows = [{"id": 1, "l": None}, {"id": 2, "l": []}, {"id": 3, "l": [None, {"x": 1}]}]
    table = workshop.table(having("int"), rows, mark=True)
    assert le.apply(le.plan(table, having("double")), allow=ALL).ok
    assert read(spark, workshop, table) == rows


def test_partitions_deletes_and_an_evolved_spec_read_right(workshop: Any, spark: Any, delete_rows: Any) -> None:
    old = row(f("p", "int"), f("v", "int"))
    rows = [{"id": n, "p": n % 2, "v": n} for n in range(6)]
    table = workshop.table(old, rows, mark=True, partition=["p"])
    with table.iceberg.update_spec() as update:
        update.add_field("id", "bucket[4]", "b")
    table.refresh()
    workshop.append(table, old, [{"id": 6, "p": 0, "v": 6}])
    table.refresh()
    path = next(file.path for file in table.files() if file.rows == 3)
    gone = next(batch for file in table.files() if file.path == path for batch in table.raw(file)).to_pylist()[1]
    delete_rows(table, {path: [1]})
    new = row(f("p", "long"), f("v", "double"), f("w", "string", default="q"))
    assert le.apply(le.plan(table, new), allow=ALL).ok
    wanted = [{**each, "w": "q"} for each in [*rows, {"id": 6, "p": 0, "v": 6}] if each["id"] != gone["id"]]
    frame = spark.iceberg(workshop.reopen(table).iceberg.metadata_location)
    assert spark.rows(frame) == wanted
    assert wrong_under_filters(spark, frame, le.load(new).root, wanted) == []


def test_files_without_ids_follow_a_rename(workshop: Any, spark: Any, tmp_path: Path) -> None:
    table = workshop.table(row(f("a", "int")), mark=True)
    plain = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("a", pa.int32(), nullable=False)])
    pq.write_table(pa.table({"id": [1], "a": [7]}, schema=plain), tmp_path / "plain.parquet")
    table.iceberg.add_files([(tmp_path / "plain.parquet").as_uri()])
    assert le.apply(le.plan(table.uri, row(f("b", "long", aliases=["a"]))), allow=ALL).ok
    assert read(spark, workshop, table) == [{"id": 1, "b": 7}]


def test_equality_deletes_hold_through_the_changes_that_leave_their_key_alone(
    workshop: Any, spark: Any, delete_equal: Any
) -> None:
    rows = [{"id": n, "v": n * 10, "s": {"x": 1}} for n in (1, 2, 3)]
    table = workshop.table(row(f("v", "int"), f("s", rec("S", f("x", "int")))), rows, mark=True)
    delete_equal(table, id=2)
    new = row(f("w", "long", aliases=["v"]), f("s", rec("S", f("x", "int"), f("y", ["null", "int"], default=None))))
    assert le.apply(le.plan(table, new, mode="NONE")).status == "applied"
    assert read(spark, workshop, table) == [{"id": n, "w": n * 10, "s": {"x": 1, "y": None}} for n in (1, 3)]
    fewer = row(f("s", rec("S", f("y", ["null", "int"], default=None))))
    assert le.apply(le.plan(table.uri, fewer, mode="NONE"), allow=("drop",)).status == "applied"
    assert read(spark, workshop, table) == [{"id": n, "s": {"y": None}} for n in (1, 3)]


def test_an_earlier_snapshot_reads_as_it_did(workshop: Any, spark: Any) -> None:
    table = workshop.table(row(f("v", "int")), [{"id": 1, "v": 7}], mark=True)
    before = table.iceberg.metadata.current_snapshot_id
    assert le.apply(le.plan(table, row(f("w", "double", aliases=["v"]))), allow=ALL).ok
    now = workshop.reopen(table).iceberg.metadata_location
    assert spark.rows(spark.iceberg(now)) == [{"id": 1, "w": 7.0}]
    reader = spark.session.read.format("iceberg").option("snapshot-id", before)
    assert spark.rows(reader.load(now)) == [{"id": 1, "v": 7}]


def test_spark_goes_on_with_a_table_that_was_changed_and_what_it_does_is_seen(workshop: Any, spark: Any) -> None:
    name = f"{spark.catalog(workshop.folder / 'lake')}.shop.t"
    table = workshop.table(row(f("v", "int")), [{"id": 1, "v": 7}], mark=True)
    new = row(f("v", "double"), f("c", "string", default="US"))
    assert le.apply(le.plan(table, new), allow=ALL).ok
    spark.session.sql(f"INSERT INTO {name} VALUES (2, 0.5, 'DE')")
    assert le.verify(table.uri, full=True, columns="all").ok
    rows = [{"id": 1, "v": 7.0, "c": "US"}, {"id": 2, "v": 0.5, "c": "DE"}]
    ours = [each for batch in le.open_table(table.uri).read() for each in batch.to_pylist()]
    assert sorted(ours, key=lambda each: each["id"]) == rows
    spark.session.sql(f"ALTER TABLE {name} ADD COLUMN d int")
    spark.session.sql(f"DELETE FROM {name} WHERE id = 1")
    checked = le.verify(table.uri, full=True, columns="all")
    assert [each.path for each in checked.findings if each.rule == "DRIFT-SCHEMA-CHANGED"] == ["d"]
    assert checked.mismatches == ()
    again = row(*new["fields"][1:], f("d", ["null", "int"], default=None), f("e", "int", default=5))
    assert le.apply(le.plan(table.uri, again), allow=ALL).ok
    assert read(spark, workshop, table) == [{**rows[1], "d": None, "e": 5}]
