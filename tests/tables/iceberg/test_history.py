"""Versions, and which version each file was written for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.update import AssertCurrentSchemaId, SetCurrentSchemaUpdate
from pyiceberg.types import IntegerType, LongType, StringType

from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError
from lakeevolve.tables.iceberg import open_table

ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, {"name": "a", "type": "int"}]}


def plus(*fields: Any, base: Any = ROW) -> dict[str, Any]:
    return {**base, "fields": [*base["fields"], *fields]}


def optional(name: str, type_: Any = "string") -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def numbers(table: Any) -> list[int]:
    return [file.version for file in table.files()]


def test_a_table_never_seen_has_one_version(workshop: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}])
    with table.iceberg.update_schema() as update:
        update.add_column("z", StringType())
        update.update_column("a", LongType())
    table.refresh()
    (version,) = table.history()
    assert (version.number, version.derived, version.commit, version.plan) == (1, True, None, None)
    assert [field.name for field in version.schema.fields] == ["id", "a", "z"]
    (file,) = table.files()
    assert (file.version, file.inferred) == (1, False)
    # The file holds ints and no z; both are widened to the one version that there is.
    (batch,) = table.raw(file)
    assert batch.schema.field("a").type == pa.int64()
    assert batch.to_pylist() == [{"id": 1, "a": 1, "z": None}]


def test_a_hint_gives_a_table_never_seen_its_symbols_and_names(workshop: Any) -> None:
    schema = plus({"name": "e", "type": {"type": "enum", "name": "shop.E", "symbols": ["A"]}})
    table = workshop.table(schema, [{"id": 1, "a": 1, "e": "A"}])
    wanted = parse({**schema, "name": "shop.Order"})
    (version,) = table.history(hint=wanted)
    assert version.schema == wanted
    (file,) = table.files(hint=wanted)
    assert rows(table.raw(file, hint=wanted)) == [{"id": 1, "a": 1, "e": "A"}]


def test_each_file_belongs_to_the_version_it_was_written_for(workshop: Any, read: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}])
    second = plus(optional("b"))
    workshop.evolve(table, second)
    workshop.append(table, second, [{"id": 2, "a": 2, "b": "x"}])
    third = plus(optional("b"), {"name": "c", "type": "int", "default": 7})
    workshop.evolve(table, third)
    assert numbers(table) == [3, 3]
    fourth = plus(optional("b"), {"name": "d", "type": "long", "aliases": ["c"]})
    workshop.evolve(table, fourth)
    workshop.append(table, fourth, [{"id": 3, "a": 3, "b": None, "d": 2**40}])
    assert numbers(table) == [3, 3, 4]
    got = read(table)
    assert got.ours == got.expected == got.duckdb
    assert [(row["id"], row["d"]) for row in got.ours] == [(1, 7), (2, 7), (3, 2**40)]
    at = table.history()
    assert [version.plan is None for version in at] == [True, False, False, False]
    assert all(version.at is not None for version in at[1:])


def test_an_older_position_is_listed_with_its_own_versions(workshop: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}])
    before = table.state.position
    workshop.evolve(table, plus({"name": "c", "type": "int", "default": 7}))
    (old,) = table.files(position=before)
    assert old.version == 1
    assert rows(table.raw(old)) == [{"id": 1, "a": 1}]
    with pytest.raises(TableError, match="no snapshot 12"):
        table.files(position=12)


def test_a_table_is_opened_as_it_was(workshop: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}], mark=True)
    before = table.state.position
    target = plus({"name": "c", "type": "int", "default": 7})
    workshop.evolve(table, target)
    workshop.append(table, target, [{"id": 2, "a": 2, "c": 2}])
    pinned = open_table(f"{table.uri}@{before}")
    assert pinned.state.position == before
    assert pinned.schema == parse(ROW)
    assert rows(pinned.read()) == [{"id": 1, "a": 1}]
    assert numbers(pinned) == [1]
    now = open_table(f"{table.uri}@{table.state.position}")
    assert now.schema == parse(target)
    assert len(rows(now.read())) == 2
    with pytest.raises(TableError, match="no snapshot 5"):
        open_table(f"{table.uri}@5")


def test_what_others_changed_becomes_a_derived_version(workshop: Any, read: Any) -> None:
    schema = plus({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}})
    table = workshop.table(schema, [{"id": 1, "a": 1, "e": "B"}], mark=True)
    with table.iceberg.transaction() as transaction:
        with transaction.update_schema() as update:
            update.rename_column("a", "b")
            update.update_column("a", LongType())
            update.delete_column("id")
        with transaction.update_schema() as update:
            update.add_column("id", StringType())
            update.add_column("_ingested", LongType())
    table.refresh()
    first, second = table.history()
    assert second.derived
    assert [(f.name, f.type) for f in second.schema.fields][1] == ("e", first.schema.fields[2].type)
    assert [f.name for f in second.schema.fields] == ["b", "e", "id"]
    assert second.renames == {"b": "a"}
    assert second.fresh == {"id"}
    assert second.fills == {"id": "null"}
    assert table.foreign == ("_ingested",)
    assert numbers(table) == [1]
    got = read(table)
    assert got.ours == got.expected == [{"b": 1, "e": "B", "id": None, "_ingested": None}]


def test_every_schema_under_which_others_wrote_is_a_version(workshop: Any, read: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}], mark=True)
    for number, name in ((2, "x"), (3, "y")):
        with table.iceberg.update_schema() as update:
            update.add_column(name, IntegerType())
        table.refresh()
        table.iceberg.append(
            pa.table(
                {name: pa.array([number], pa.int32()) for name in table.iceberg.schema().column_names},
                schema=table.iceberg.schema().as_arrow(),
            )
        )
        table.refresh()
    assert [version.number for version in table.history()] == [1, 2, 3]
    assert numbers(table) == [1, 2, 3]
    got = read(table)
    assert got.ours == got.expected == got.duckdb


def test_a_writer_who_did_not_notice_keeps_writing_the_old_version(workshop: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}])
    stale = open_table(table.uri).iceberg
    target = {**ROW, "fields": [ROW["fields"][0], {"name": "a", "type": ["null", "double"]}]}
    assert workshop.evolve(table, target).routes() == {"metadata", "rewrite"}
    number = pa.array([2], pa.int32())
    stale.append(pa.table({"id": number, "a": number}, schema=stale.schema().as_arrow()))
    table.refresh()
    # Its column has an id of its own, so that the table stays readable, and the row reads NULL.
    assert sorted(rows(table.read()), key=str) == [{"id": 1, "a": 1.0}, {"id": 2, "a": None}]


def test_a_schema_that_comes_back_is_told_apart_by_the_order_of_snapshots(workshop: Any, read: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}], mark=True)
    aliased = {**ROW, "fields": [ROW["fields"][0], {"name": "a", "type": "int", "aliases": ["z"]}]}
    workshop.evolve(table, aliased)
    assert len({version.schema_id for version in table.history()}) == 1
    workshop.append(table, aliased, [{"id": 2, "a": 2}])
    workshop.evolve(table, ROW)
    workshop.append(table, ROW, [{"id": 3, "a": 3}])
    assert numbers(table) == [1, 2, 3]
    got = read(table)
    assert got.ours == got.expected


def test_a_rollback_of_the_schema_by_others_is_a_new_version(workshop: Any, read: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}], mark=True)
    workshop.evolve(table, plus(optional("b")))
    workshop.append(table, plus(optional("b")), [{"id": 2, "a": 2, "b": "x"}])
    with table.iceberg.transaction() as transaction:
        current = table.iceberg.metadata.current_schema_id
        transaction._apply((SetCurrentSchemaUpdate(schema_id=0),), (AssertCurrentSchemaId(current_schema_id=current),))
    table.refresh()
    versions = table.history()
    assert [version.schema_id for version in versions] == [0, 1, 0]
    assert versions[2].schema == parse(ROW)
    assert numbers(table) == [1, 2]
    workshop.append(table, ROW, [{"id": 3, "a": 3}])
    assert numbers(table) == [1, 2, 3]
    got = read(table)
    assert got.ours == got.expected == got.duckdb


@pytest.mark.parametrize("format_version", [1, 2])
def test_files_of_expired_snapshots_are_placed_by_their_footer(workshop: Any, format_version: int, read: Any) -> None:
    table = workshop.table(ROW, [{"id": 1, "a": 1}], format_version=format_version, mark=True)
    second = plus(optional("b"))
    workshop.evolve(table, second)
    workshop.append(table, second, [{"id": 2, "a": 2, "b": "x"}])
    third = plus(optional("b"), optional("c", "int"))
    workshop.evolve(table, third)
    workshop.append(table, third, [{"id": 3, "a": 3, "b": None, "c": 3}])
    old = [s.snapshot_id for s in table.iceberg.snapshots() if s.snapshot_id != table.state.position]
    expire = table.iceberg.maintenance.expire_snapshots()
    expire.by_ids(old).commit()
    table.refresh()
    found = sorted((file.version, file.inferred) for file in table.files())
    assert found == [(1, True), (2, True), (3, False)]
    got = read(table)
    assert got.ours == got.expected == got.duckdb


def test_a_marker_with_a_gap_is_an_error(workshop: Any) -> None:
    table = workshop.table(ROW, mark=True)
    workshop.evolve(table, plus(optional("b")))
    with table.iceberg.transaction() as transaction:
        transaction.remove_properties("lakeevolve.v.1")
    table.refresh()
    with pytest.raises(TableError, match="marker"):
        table.history()


def test_a_marker_that_cannot_be_read_is_an_error(workshop: Any) -> None:
    table = workshop.table(ROW, mark=True)
    with table.iceberg.transaction() as transaction:
        transaction.set_properties({"lakeevolve.v.1": "{}"})
    table.refresh()
    with pytest.raises(TableError, match=r"lakeevolve\.v\.1"):
        table.history()


def test_an_old_snapshot_is_filtered_by_its_own_names(workshop: Any) -> None:
    from lakeevolve.tables.base import Predicate

    table = workshop.table(ROW, [{"id": 1, "a": 1}, {"id": 2, "a": 2}], mark=True)
    before = table.state.position
    renamed = {**ROW, "fields": [ROW["fields"][0], {"name": "b", "type": "double", "aliases": ["a"]}]}
    workshop.evolve(table, renamed)
    pinned = open_table(f"{table.uri}@{before}")
    assert rows(pinned.read(predicate=Predicate("a", "=", 2))) == [{"id": 2, "a": 2}]
    assert rows(table.read(predicate=Predicate("b", "=", 2.0))) == [{"id": 2, "b": 2.0}]
