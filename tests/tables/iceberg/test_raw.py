"""Data files as pyarrow alone reads them: by field id, cut by deletes, whatever wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType, StringType

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.replaying.verify import verify
from lakeevolve.tables import batches
from lakeevolve.tables.iceberg import open_table

LISTS = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "int"},
        {
            "name": "l",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": [
                        "null",
                        {"type": "record", "name": "Item", "fields": [{"name": "x", "type": ["null", "int"]}]},
                    ],
                },
            ],
        },
        {"name": "m", "type": ["null", {"type": "map", "values": ["null", "Item"]}]},
        {"name": "s", "type": ["null", {"type": "record", "name": "S", "fields": [{"name": "i", "type": "Item"}]}]},
    ],
}

#: Null, empty and full containers, in all combinations that readers are known to confuse.
NULLS = [
    {"id": 1, "l": None, "m": None, "s": None},
    {"id": 2, "l": [], "m": [], "s": {"i": {"x": None}}},
    {"id": 3, "l": [None], "m": [("k", None)], "s": {"i": {"x": 1}}},
    {"id": 4, "l": [{"x": None}, {"x": 2}, None], "m": [("k", {"x": None}), ("l", {"x": 3})], "s": None},
]

FLAT = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": "int"}]}


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_null_and_empty_containers_come_back_as_they_were(workshop: Any) -> None:
    table = workshop.table(LISTS, NULLS)
    (file,) = table.files()
    assert rows(table.raw(file, hint=parse(LISTS))) == NULLS
    (batch,) = table.raw(file, hint=parse(LISTS))
    assert batch.schema.equals(arrow_schema(parse(LISTS), strict=False))


def test_null_lists_survive_a_rewrite(workshop: Any, read: Any) -> None:
    table = workshop.table(LISTS, NULLS)
    target = {**LISTS, "fields": [*LISTS["fields"], {"name": "c", "type": "string", "default": "x"}]}  # type: ignore[misc]
    evolved = workshop.evolve(table, target)
    assert evolved.routes() == {"backfill"}
    got = read(table)
    assert got.expected == [{**row, "c": "x"} for row in NULLS]
    assert [row["l"] for row in got.duckdb] == [row["l"] for row in NULLS]


def test_position_deletes_are_applied(workshop: Any, delete_rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_at_once = 1_000
    monkeypatch.setattr(batches, "MOST", rows_at_once)
    monkeypatch.setattr(batches, "LEAST", rows_at_once)
    count = 2 * rows_at_once + 10
    table = workshop.table(FLAT, [{"id": n, "v": n} for n in range(count)])
    (file,) = table.files()
    gone = {0, 1, rows_at_once - 1, rows_at_once, *range(rows_at_once + 50, rows_at_once + 60), count - 1}
    delete_rows(table, {file.path: sorted(gone)})
    delete_rows(table, {file.path: [1, 77]})
    (file,) = table.files()
    assert file.rows == count
    left = [n for n in range(count) if n not in gone | {77}]
    assert [row["id"] for row in rows(table.raw(file))] == left
    assert [row["id"] for row in rows(table.read())] == left


def test_a_rewrite_leaves_deleted_rows_behind(workshop: Any, delete_rows: Any, read: Any) -> None:
    table = workshop.table(FLAT, [{"id": n, "v": n} for n in range(6)])
    workshop.append(table, FLAT, [{"id": n, "v": n} for n in range(6, 8)])
    first, second = table.files()
    delete_rows(table, {first.path: [0, 3], second.path: [0, 1]})
    target = {**FLAT, "fields": [FLAT["fields"][0], {"name": "v", "type": "double"}]}
    evolved = workshop.evolve(table, target)
    # No row of the second file is left, so nothing is written for it.
    assert [file.sources for file in evolved.staged.files] == [(first.path,)]
    got = read(table)
    assert got.ours == got.expected == got.duckdb == [{"id": n, "v": float(n)} for n in (1, 2, 4, 5)]


def test_a_fully_deleted_file_without_the_column_does_not_stop_it_from_becoming_required(
    workshop: Any, delete_rows: Any, read: Any
) -> None:
    table = workshop.table(FLAT, [{"id": 1, "v": 1}])
    optional = {**FLAT, "fields": [*FLAT["fields"], {"name": "c", "type": ["null", "int"], "default": None}]}
    workshop.evolve(table, optional)
    workshop.append(table, optional, [{"id": 2, "v": 2, "c": 5}])
    old = next(file for file in table.files() if file.version == 1)
    delete_rows(table, {old.path: [0]})
    required = {**FLAT, "fields": [*FLAT["fields"], {"name": "c", "type": "int", "default": 0}]}
    evolved = workshop.evolve(table, required)
    assert [file.path for file in evolved.evolution.rewrite] == [old.path]
    got = read(table)
    assert got.ours == got.expected == got.duckdb == [{"id": 2, "v": 2, "c": 5}]


def test_foreign_columns_come_last_in_the_tables_own_types(workshop: Any) -> None:
    table = workshop.table(FLAT, [{"id": 1, "v": 1}])
    with table.iceberg.update_schema() as update:
        update.add_column("_offset", LongType())
        update.add_column("_topic", StringType())
    table.refresh()
    assert table.foreign == ("_offset", "_topic")
    import lakeevolve.tables.iceberg as iceberg

    iceberg.append(
        table,
        pa.table({"id": pa.array([2], pa.int32()), "v": pa.array([2], pa.int32()), "_topic": ["t"]}),
    )
    got = [rows(table.raw(file)) for file in table.files()]
    assert got == [
        [{"id": 1, "v": 1, "_offset": None, "_topic": None}],
        [{"id": 2, "v": 2, "_offset": None, "_topic": "t"}],
    ]


def test_foreign_columns_are_kept_by_a_rewrite(workshop: Any, read: Any) -> None:
    table = workshop.table(FLAT, [{"id": 1, "v": 1}])
    with table.iceberg.update_schema() as update:
        update.add_column("_offset", LongType())
        update.move_first("_offset")
    table.refresh()
    import lakeevolve.tables.iceberg as iceberg

    numbers = pa.array([2], pa.int32())
    iceberg.append(table, pa.table({"id": numbers, "v": numbers, "_offset": pa.array([99], pa.int64())}))
    target = {**FLAT, "fields": [{"name": "v", "type": "float"}, {"name": "key", "type": "int", "aliases": ["id"]}]}
    workshop.evolve(table, target)
    assert table.foreign == ("_offset",)
    assert table.iceberg.schema().column_names == ["_offset", "v", "key"]
    found = sorted(rows(table.read()), key=lambda row: row["key"])
    assert found == [{"v": 1.0, "key": 1, "_offset": None}, {"v": 2.0, "key": 2, "_offset": 99}]


def _added(table: Any, folder: Path, name: str, data: pa.Table) -> None:
    """Add a file without field ids, as other tools leave them."""
    path = folder / f"{name}.parquet"
    data = data.cast(arrow_schema(table.schema))
    pq.write_table(data, path)
    table.iceberg.add_files([path.as_uri()])
    table.refresh()


def test_files_without_ids_are_read_by_the_name_mapping(workshop: Any, tmp_path: Path) -> None:
    table = workshop.table(LISTS)
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.Table.from_pylist(NULLS, schema=arrow_schema(parse(LISTS))), path)
    table.iceberg.add_files([path.as_uri()])
    table.refresh()
    (file,) = table.files()
    assert rows(table.raw(file, hint=parse(LISTS))) == NULLS


def test_renames_reach_files_without_ids(workshop: Any, read: Any, tmp_path: Path) -> None:
    table = workshop.table(FLAT)
    plain = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())})
    _added(table, tmp_path, "plain", plain)
    target = {**FLAT, "fields": [FLAT["fields"][0], {"name": "w", "type": "long", "aliases": ["v"]}]}
    workshop.evolve(table, target)
    _added(table, tmp_path, "later", plain.rename_columns(["id", "w"]))
    got = read(table)
    assert got.ours == got.expected == [{"id": 1, "w": 7}, {"id": 1, "w": 7}]


def test_a_name_that_files_without_ids_use_is_not_used_again(workshop: Any, tmp_path: Path) -> None:
    table = workshop.table(FLAT)
    _added(table, tmp_path, "plain", pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())}))
    dropped = {**FLAT, "fields": [FLAT["fields"][0]]}
    workshop.evolve(table, dropped)
    again = {**FLAT, "fields": [FLAT["fields"][0], {"name": "v", "type": ["null", "string"], "default": None}]}
    with pytest.raises(UnsupportedTable, match="files without field ids"):
        workshop.prepare(table, again)


def test_a_file_that_no_mapping_explains_is_refused(workshop: Any, tmp_path: Path) -> None:
    table = workshop.table(FLAT)
    _added(table, tmp_path, "plain", pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())}))
    with table.iceberg.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    table.refresh()
    (file,) = table.files()
    with pytest.raises(TableError, match="no field ids"):
        rows(table.raw(file))
    (mismatch,) = verify(table).mismatches
    assert mismatch.file == file.path
    assert "no field ids, and the table no name mapping" in str(mismatch)


def test_instants_without_a_zone_in_added_files_are_instants(workshop: Any, tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}],
    }
    table = workshop.table(schema)
    at = pa.array([1_000_000], pa.int64()).cast(pa.timestamp("us"))
    path = tmp_path / "naive.parquet"
    aware = pa.table([at.cast(pa.timestamp("us", "UTC"))], schema=arrow_schema(table.schema))
    pq.write_table(aware, path)
    table.iceberg.add_files([path.as_uri()])
    pq.write_table(pa.table({"at": at}), path)
    table.refresh()
    (file,) = table.files()
    (batch,) = table.raw(file)
    assert batch.column("at").type == pa.timestamp("us", "UTC")
    assert batch.column("at").cast(pa.int64()).to_pylist() == [1_000_000]


def test_a_file_that_does_not_fit_its_schema_is_named(workshop: Any, tmp_path: Path) -> None:
    table = workshop.table(FLAT)
    data = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())})
    _added(table, tmp_path, "plain", data)
    pq.write_table(data.set_column(1, "v", pa.array(["x"])), tmp_path / "plain.parquet")
    (file,) = table.files()
    with pytest.raises(TableError) as caught:
        rows(table.raw(file))
    assert "plain.parquet" in str(caught.value.where)


def test_a_file_that_is_missing_is_named(workshop: Any) -> None:
    table = workshop.table(FLAT, [{"id": 1, "v": 1}])
    (file,) = table.files()
    Path(file.path.removeprefix("file://")).unlink()
    with pytest.raises(TableError, match="missing") as caught:
        rows(table.raw(file))
    assert caught.value.where == file.path
    with pytest.raises(TableError, match="missing"):
        rows(table.read())


def test_strange_names_are_written_and_read(workshop: Any, read: Any) -> None:
    table = workshop.table(FLAT, [{"id": 1, "v": 1}])
    with table.iceberg.update_schema() as update:
        update.add_column(("p.q",), StringType())
        update.add_column(("ä b",), StringType())
    table.refresh()
    names = [field.name for field in table.schema.fields]
    assert names == ["id", "v", "p.q", "ä b"]
    import lakeevolve.tables.iceberg as iceberg

    numbers = pa.array([2], pa.int32())
    iceberg.append(table, pa.table({"id": numbers, "v": numbers, "p.q": ["x"], "ä b": ["y"]}))
    got = read(table)
    assert got.ours == got.duckdb
    assert got.ours[1] == {"id": 2, "v": 2, "p.q": "x", "ä b": "y"}


@pytest.mark.parametrize(
    ("name", "metadata", "count"),
    [
        (
            "add_columns_with_defaults",
            "default.db/add_columns_with_defaults/metadata/00003-3f1801a5-7dfb-4072-b14a-39cd12f9279b.metadata.json",
            3,
        ),
        (
            "case_sensitive_names",
            "default.db/case_sensitive_names/metadata/00001-a7a3a44c-4aac-4619-bebd-11be37b27351.metadata.json",
            3,
        ),
        ("hive_partitioned_table", "metadata/v4.metadata.json", 6),
        ("name_mapping", "warehouse_1/mydb/t1/metadata/v7.metadata.json", 10_000),
        ("uuid", "metadata/00001-43fda1f4-1c96-4376-ad16-91beb71d0759.metadata.json", 10),
    ],
)
def test_tables_of_other_engines_read_as_duckdb_reads_them(
    name: str, metadata: str, count: int, golden: Any, duck: Any
) -> None:
    table = golden(name, metadata)
    raw = [row for file in table.files() for row in rows(table.raw(file))]
    found = duck.execute(f"SELECT * FROM iceberg_scan('data/persistent/{name}/{metadata}')").to_arrow_table()
    assert len(raw) == count
    assert _values(raw) == _values(rows(table.read())) == _values(found.to_pylist())


def _values(found: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row.values())) for row in found)


def test_equality_deletes_are_refused(golden: Any) -> None:
    table = golden("equality_deletes", "warehouse/mydb/mytable/metadata/v7.metadata.json")
    first, *_ = table.files()
    with pytest.raises(UnsupportedTable, match="equality deletes"):
        rows(table.raw(first))
    with pytest.raises(UnsupportedTable):
        rows(table.read())
    assert table.describe()["features"]["equality_deletes"] is True


def test_a_v3_table_can_be_read_and_described(golden: Any) -> None:
    table = golden("timestamptz_ns", "metadata/v1.metadata.json")
    assert table.files() == ()
    assert table.state.pin["format-version"] == 3
    assert table.schema.fields[1].name == "val"
    assert open_table(table.uri).describe()["counts"]["rows"] == 0


def test_files_without_ids_are_rewritten_with_ids_and_old_snapshots_still_read(
    workshop: Any, read: Any, tmp_path: Path
) -> None:
    table = workshop.table(FLAT)
    _added(table, tmp_path, "plain", pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([7], pa.int32())}))
    before = table.state.position
    evolved = workshop.evolve(table, {**FLAT, "fields": [FLAT["fields"][0], {"name": "v", "type": "double"}]})
    assert evolved.routes() == {"rewrite"}
    assert "name mapping" in " ".join(evolved.capabilities[0][1].readers)
    got = read(table)
    assert got.ours == got.expected == got.duckdb == [{"id": 1, "v": 7.0}]
    assert rows(open_table(f"{table.uri}@{before}").read()) == [{"id": 1, "v": 7}]
