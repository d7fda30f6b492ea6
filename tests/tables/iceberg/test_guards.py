"""What must not happen to an Iceberg table, whoever else works on it, and what a change must leave as it is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

import lakeevolve as le
from lakeevolve.errors import CommitConflict, PlanBlocked, StalePlan
from lakeevolve.tables.iceberg import append
from tests.tables.shapes import f, rec, row

ALL = ("rewrite", "backfill", "drop")


def read(table: Any) -> list[dict[str, Any]]:
    found = [each for batch in le.open_table(table.uri).read() for each in batch.to_pylist()]
    return sorted(found, key=lambda each: each["id"])


def refused(table: Any, target: Any, *words: str) -> None:
    plan = le.plan(table, target, mode="NONE")
    said = " ".join(step.reason for step in plan.refused)
    assert all(word in said for word in words), said or [step.route for step in plan.steps]
    with pytest.raises(PlanBlocked):
        le.apply(plan, allow=ALL)


def test_another_table_under_the_same_name_makes_a_plan_stale(workshop: Any) -> None:
    table = workshop.table(row(f("v", "int")), [{"id": 1, "v": 7}], mark=True)
    plan = le.plan(table, row(f("v", "long")))
    table.iceberg.catalog.drop_table(table.iceberg.name())
    other = workshop.table(row(f("v", "int")), [{"id": 2, "v": 8}], mark=True)
    with pytest.raises(StalePlan, match="another table"):
        le.apply(plan)
    assert read(other) == [{"id": 2, "v": 8}]


def test_another_table_under_the_same_name_is_not_committed_to(workshop: Any) -> None:
    table = workshop.table(row(f("v", "int")), [{"id": 1, "v": 7}], mark=True)
    evolved = workshop.prepare(table, row(f("v", "double")))
    table.iceberg.catalog.drop_table(table.iceberg.name())
    workshop.table(row(f("v", "int")), mark=True)
    with pytest.raises(CommitConflict, match="another table"):
        workshop.commit(table, evolved)


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize(
    "target", [row(f("v", "double")), row(f("v", "int"), f("n", "int", default=1)), row(f("v", "int"), f("w", "int"))]
)
def test_an_append_that_races_stops_what_depends_on_the_rows_whatever_the_isolation(
    level: str, target: Any, workshop: Any
) -> None:
    levels = {f"write.{each}.isolation-level": level for each in ("update", "delete", "merge")}
    optional = any(each["name"] == "w" for each in target["fields"])
    old = row(f("v", "int"), f("w", ["null", "int"], default=None)) if optional else row(f("v", "int"))
    first = {"id": 1, "v": 7, **({"w": 1} if optional else {})}
    table = workshop.table(old, [first], mark=True, properties=levels)
    evolved = workshop.prepare(table, target)
    racing = {"id": 2, "v": 8, **({"w": None} if optional else {})}
    workshop.append(workshop.reopen(table), old, [racing])
    with pytest.raises(CommitConflict, match="rows after they were checked or rewritten"):
        workshop.commit(table, evolved)
    assert read(table) == [first, racing]


def test_all_changes_of_a_plan_are_one_commit_with_the_schema_before_the_rows(workshop: Any) -> None:
    old = row(f("a", "int"), f("b", "string"), f("c", "float"), f("d", "int"))
    table = workshop.table(old, [{"id": 1, "a": 2, "b": "x", "c": 0.5, "d": 3}], mark=True)
    logged = len(table.iceberg.metadata.metadata_log)
    new = row(f("a", "double"), f("bb", "string", aliases=["b"]), f("c", "double"), f("e", "string", default="E"))
    assert le.apply(le.plan(table, new, mode="NONE"), allow=ALL).ok
    metadata = workshop.reopen(table).iceberg.metadata
    assert len(metadata.metadata_log) == logged + 1
    assert len(metadata.schemas) == 2
    assert len(metadata.snapshots) == 2
    snapshot = metadata.current_snapshot()
    assert snapshot.schema_id == metadata.current_schema_id == 1
    assert metadata.properties["lakeevolve.version"] == "2"
    assert read(table) == [{"id": 1, "a": 2.0, "bb": "x", "c": 0.5, "e": "E"}]


def test_columns_that_no_schema_owns_come_through_everything(workshop: Any, read: Any) -> None:
    table = workshop.table(row(f("a", "int"), f("b", "int")), mark=True)
    with table.iceberg.update_schema() as update:
        update.add_column("_offset", LongType())
        update.add_column("_source", StringType())
    table.iceberg.append(
        pa.table(
            {
                "id": pa.array([1], pa.int32()),
                "a": pa.array([2], pa.int32()),
                "b": pa.array([3], pa.int32()),
                "_offset": pa.array([40], pa.int64()),
                "_source": ["topic"],
            },
            schema=table.iceberg.schema().as_arrow(),
        )
    )
    table.refresh()
    assert table.foreign == ("_offset", "_source")
    for target in (
        row(f("a", "long"), f("b", "int")),
        row(f("a", "double"), f("b", "int")),
        row(f("x", "double", aliases=["a"]), f("n", "int", default=9)),
    ):
        other = [("b", "n")] if any(each["name"] == "n" for each in target["fields"]) else []
        plan = le.plan(table.uri, target, mode="NONE", not_renames=other)
        assert le.apply(plan, allow=ALL).ok
    assert le.open_table(table.uri).foreign == ("_offset", "_source")
    got = read(le.open_table(table.uri))
    expected = {"id": 1, "x": 2.0, "n": 9, "_offset": 40, "_source": "topic"}
    assert got.ours == got.expected == [expected]
    assert got.duckdb == [expected]


def test_columns_that_identify_rows_may_be_renamed_and_promoted_and_nothing_else(workshop: Any) -> None:
    old = row(f("k", "int"), f("v", "int"))
    table = workshop.table(old, [{"id": 1, "k": 2, "v": 3}], mark=True, identifier=["k"])
    for target in (row(f("v", "int")), row(f("k", "string"), f("v", "int"))):
        refused(table, target)
    refused(table, row(f("k", "double"), f("v", "int")), "identifies rows")
    refused(table, row(f("k", ["null", "int"]), f("v", "int")), "identifies rows")
    assert le.apply(le.plan(table, row(f("key", "long", aliases=["k"]), f("v", "double"))), allow=ALL).ok
    schema = workshop.reopen(table).iceberg.schema()
    assert schema.identifier_field_names() == {"key"}


TRANSFORMS = {
    "p": ("string", "x", None),
    "bucket(4, p)": ("int", 7, "long"),
    "truncate(4, p)": ("string", "abcdef", None),
    "truncate(10, p)": ("int", 77, "long"),
    "day(p)": ({"type": "int", "logicalType": "date"}, 19000, None),
    "month(p)": ({"type": "int", "logicalType": "date"}, 19000, None),
    "year(p)": ({"type": "int", "logicalType": "date"}, 19000, None),
    "hour(p)": ({"type": "long", "logicalType": "timestamp-micros"}, 1_700_000_000_000_000, None),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_partition_source_keeps_its_values_and_every_file_its_partition(transform: str, workshop: Any) -> None:
    type_, value, wider = TRANSFORMS[transform]
    table = workshop.table(row(f("p", type_), f("v", "int")), mark=True, partition=[transform])
    plain = le.arrow_schema(row(f("p", type_), f("v", "int")))
    held = pa.array([value]).cast(pa.int32() if plain.field("p").type == pa.date32() else pa.array([value]).type)
    rows = pa.table([pa.array([1], pa.int32()), held.cast(plain.field("p").type), pa.array([3], pa.int32())], plain)
    append(table, rows)
    (before,) = table.files()
    refused(table, row(f("v", "int")), "partitioned by this column")
    refused(table, row(f("p", ["string", "int", {"type": "fixed", "name": "X", "size": 3}]), f("v", "int")))
    target = row(f("q", wider or type_, aliases=["p"]), f("v", "double"))
    assert le.apply(le.plan(table, target), allow=ALL).ok
    (after,) = workshop.reopen(table).files()
    assert list(after.handle.file.partition) == list(before.handle.file.partition)
    assert [each["v"] for each in read(table)] == [3.0]


def test_a_sorted_table_stays_sorted_by_its_columns(workshop: Any) -> None:
    table = workshop.table(row(f("s", "int"), f("v", "int")), mark=True)
    order = SortOrder(SortField(source_id=2, transform=IdentityTransform(), direction=SortDirection.ASC), order_id=1)
    updates = (AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=1))
    table.iceberg._do_commit(updates, ())
    table.refresh()
    workshop.append(table, row(f("s", "int"), f("v", "int")), [{"id": at, "s": at, "v": at} for at in range(5)])
    refused(table, row(f("v", "int")), "sorted by this column")
    refused(table, row(f("s", "double"), f("v", "int")), "sorted by this column")
    assert le.apply(le.plan(table, row(f("t", "long", aliases=["s"]), f("v", "double"))), allow=ALL).ok
    made = workshop.reopen(table)
    assert made.describe()["sort_order"][0]["column"] == "t"
    assert [each["t"] for each in [r for b in made.read() for r in b.to_pylist()]] == [0, 1, 2, 3, 4]


def test_a_struct_is_not_left_without_a_field(workshop: Any) -> None:
    inner = rec("S", f("x", "int"))
    for at, wrap in enumerate(
        (lambda t: t, lambda t: {"type": "array", "items": t}, lambda t: {"type": "map", "values": t})
    ):
        table = workshop.table(row(f("s", wrap(inner))), name=f"t{at}", mark=True)
        refused(table, row(f("s", wrap(rec("S")))), "struct without a field")


@pytest.mark.parametrize("name", ["_file", "_pos", "_partition", "_row_id", "_change_type"])
def test_names_that_iceberg_keeps_for_itself_are_refused(name: str, workshop: Any) -> None:
    table = workshop.table(row(f("v", "int")), [{"id": 1, "v": 7}], mark=True)
    refused(table, row(f("v", "int"), f(name, ["null", "int"], default=None)), "metadata column")
    refused(table, row(f(name, "int", aliases=["v"])), "metadata column")


def test_while_another_branch_exists_only_metadata_changes(workshop: Any) -> None:
    table = workshop.table(row(f("v", ["null", "int"], default=None)), [{"id": 1, "v": 7}], mark=True)
    snapshot = table.iceberg.metadata.current_snapshot_id
    table.iceberg.manage_snapshots().create_branch(snapshot, "audit").commit()
    table.refresh()
    refused(table, row(f("v", ["null", "double"], default=None)), "audit")
    refused(table, row(f("v", "int")), "audit")
    refused(table, row(f("v", ["null", "int"], default=None), f("n", "int", default=1)), "audit")
    assert le.apply(le.plan(table, row(f("v", ["null", "long"], default=None)))).ok


def test_no_default_is_ever_written_into_the_metadata(workshop: Any) -> None:
    table = workshop.table(row(), [{"id": 1}], mark=True)
    target = row(f("a", "int", default=5), f("s", rec("S", f("x", "string", default="q")), default={"x": "z"}))
    assert le.apply(le.plan(table, target), allow=ALL).ok
    assert le.apply(le.plan(table.uri, row(*target["fields"][1:], f("n", "int", default=7)), old_rows="null")).ok
    text = workshop.reopen(table).iceberg.metadata.model_dump_json()
    assert "initial-default" not in text
    assert "write-default" not in text


def test_a_column_that_only_an_old_spec_used_may_go_and_who_notices_is_told(workshop: Any, read: Any) -> None:
    table = workshop.table(
        row(f("p", "string"), f("v", "int")), [{"id": 1, "p": "x", "v": 3}], mark=True, partition=["p"]
    )
    with table.iceberg.update_spec() as update:
        update.remove_field("p")
    table.iceberg.overwrite(table.iceberg.scan().to_arrow())
    plan = le.plan(table, row(f("v", "int")))
    (step,) = plan.steps
    assert any("partition field p" in reader for reader in step.readers)
    assert le.apply(plan, allow=ALL).ok
    got = read(workshop.reopen(table))
    assert got.ours == got.expected == got.duckdb == [{"id": 1, "v": 3}]
