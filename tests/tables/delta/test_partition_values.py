"""Partition values, which stand in the log as text: of every type, as delta-rs and as Spark write them, and empty ones,
which are null by the protocol and empty to some readers."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeevolve as le
from lakeevolve.errors import UnsupportedTable
from lakeevolve.tables import delta

from .conftest import field, record

WIDER = record(field("id", ["null", "double"]), field("cat", ["null", "string"]))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))


def by_hand(folder: Path, type_: str, values: Sequence[str | None]) -> str:
    """A table with one file of two rows per partition value, laid out as Spark does."""
    (folder / "_delta_log").mkdir(parents=True)
    columns = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("cat", type_))]
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if type_ == "timestamp_ntz":
        features = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    actions: list[dict[str, Any]] = [
        {"protocol": protocol},
        {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": columns}),
                "partitionColumns": ["cat"],
                "configuration": {},
            }
        },
    ]
    for number, value in enumerate(values):
        place = f"cat={quote(value, safe='') if value else '__HIVE_DEFAULT_PARTITION__'}"
        (folder / place).mkdir(exist_ok=True)
        path = f"{place}/part-{number}.parquet"
        pq.write_table(pa.table({"id": pa.array([number * 2, number * 2 + 1])}), folder / path)
        add = {"path": quote(path), "partitionValues": {"cat": value}, "size": (folder / path).stat().st_size}
        actions.append({"add": {**add, "modificationTime": 0, "dataChange": True, "stats": '{"numRecords":2}'}})
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (folder / "_delta_log" / f"{0:020d}.json").write_text(text)
    return f"delta:{folder}"


def read_raw(uri: str) -> list[Any]:
    table = delta.open(uri)
    rows = [row for file in table.files() for batch in table.raw(file) for row in batch.to_pylist()]
    return [row["cat"] for row in sorted(rows, key=lambda row: row["id"])][::2]


def partition_values(uri: str) -> list[str | None]:
    return sorted((file.handle.partition["cat"] for file in delta.open(uri).files()), key=repr)


D, T, N, HIVE = dt.date, dt.datetime, None, "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("type_", "texts", "meant"),
    [
        ("string", ["a", "%20", "a b/c=é", "__HIVE_DEFAULT_PARTITION__", N], ["a", "%20", "a b/c=é", HIVE, N]),
        ("binary", ["ab", "\u0001é", N], [b"ab", "\u0001é".encode(), N]),
        ("boolean", ["true", "FALSE", "", N], [True, False, N, N]),
        ("byte", ["-128", "", N], [-128, N, N]),
        ("short", ["32767", ""], [32767, N]),
        ("integer", ["-2147483648", "", N], [-(2**31), N, N]),
        ("long", ["9223372036854775807", ""], [2**63 - 1, N]),
        ("float", ["0.1", "-0.0", "Infinity", ""], [0.10000000149011612, -0.0, float("inf"), N]),
        ("double", ["1e3", "-Infinity", "5e-324", ""], [1000.0, float("-inf"), 5e-324, N]),
        ("decimal(5,2)", ["1.50", "-0.01", "", N], [Decimal("1.50"), Decimal("-0.01"), N, N]),
        ("date", ["0001-01-01", "9999-12-31", ""], [D(1, 1, 1), D(9999, 12, 31), N]),
        (
            "timestamp",
            ["2020-01-01 00:00:00", "2020-01-01 00:00:00.1", "2020-01-01T00:00:00.123456Z", "", N],
            [T(2020, 1, 1, 0, 0, 0, us, dt.UTC) for us in (0, 100_000, 123_456)] + [N, N],
        ),
        (
            "timestamp_ntz",
            ["2020-01-01 00:00:00", "1969-12-31 23:59:59.999999", ""],
            [T(2020, 1, 1), T(1969, 12, 31, 23, 59, 59, 999_999), N],
        ),
    ],
)  # fmt: skip
def test_values_of_every_type_read_as_the_protocol_and_the_tables_reader_say(
    type_: str, texts: list[str | None], meant: list[Any], tmp_path: Path
) -> None:
    uri = by_hand(tmp_path / "t", type_, texts)
    assert read_raw(uri) == meant
    found = le.verify(uri, columns="all")
    assert (found.ok, found.reader_faults) == (True, ())


@pytest.mark.parametrize(("type_", "empty"), [("string", ""), ("binary", b"")])
def test_an_empty_value_of_text_is_null_and_readers_that_differ_are_named(
    type_: str, empty: Any, tmp_path: Path
) -> None:
    uri = by_hand(tmp_path / "t", type_, ["a", "", None])
    assert read_raw(uri)[1:] == [None, None]
    found = le.verify(uri, columns="all", full=True, readers=["duckdb", "polars"])
    assert found.ok
    assert found.rows == 6
    at = "cat=__HIVE_DEFAULT_PARTITION__/part-1.parquet"
    said = {(f.reader, f.fault, f.row, f.path, f.rows) for f in found.reader_faults if f.file == at}
    assert said == {(reader, "empty-partition-value", 0, "cat", 2) for reader in ("delta-rs", "polars")}
    assert {f.file for f in found.reader_faults} == {at}
    read = {row["id"]: row["cat"] for row in pa.table(DeltaTable(tmp_path / "t").scan()).to_pylist()}
    assert (read[2], read[4]) == (empty, None), "delta-rs reads as the protocol says: the fault need not be listed"


def test_a_rewrite_leaves_empty_values_as_they_stand_in_the_log(tmp_path: Path) -> None:
    """Which of the two readings was meant nobody knows, so that each reader goes on reading what it read."""
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 3], "cat": ["a", "", None]}), partition_by=["cat"])
    uri = f"delta:{tmp_path / 't'}"
    before = {row["id"]: row["cat"] for row in pa.table(DeltaTable(tmp_path / "t").scan()).to_pylist()}
    assert before == {1: "a", 2: "", 3: None}
    done = le.apply(le.plan(uri, WIDER), allow=["rewrite"])
    assert done.ok
    assert partition_values(uri) == ["", "a", None]
    assert {row["id"]: row["cat"] for row in pa.table(DeltaTable(tmp_path / "t").scan()).to_pylist()} == before
    found = le.verify(uri, columns="all", full=True)
    assert found.ok
    assert [(f.reader, f.path, f.rows) for f in found.reader_faults] == [("delta-rs", "cat", 1)]


def test_beside_an_empty_value_any_other_difference_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = by_hand(tmp_path / "t", "string", ["a", "", None])
    real = delta.Table.read

    def spoilt(column: str, at: int, value: Any) -> None:
        def read(self: delta.Table, *how: Any, **more: Any) -> Iterator[pa.RecordBatch]:
            for batch in real(self, *how, **more):
                rows = batch.to_pylist()
                for row in rows:
                    if row.get("id") == at:
                        row[column] = value
                yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)

        monkeypatch.setattr(delta.Table, "read", read)

    for column, at, value in (("cat", 2, "x"), ("cat", 4, ""), ("cat", 0, ""), ("cat", 0, None)):
        spoilt(column, at, value)
        found = le.verify(uri)
        assert {(m.row, m.path) for m in found.mismatches} == {(0, column)}, (column, at, value)
        assert f"part-{at // 2}.parquet" in str(found.mismatches[0].file)


def test_a_table_is_not_partitioned_by_bytes_which_delta_rs_writes_so_that_none_reads_them_back(tmp_path: Path) -> None:
    bytes_ = record(field("id", "long"), field("cat", "bytes"))
    with pytest.raises(UnsupportedTable, match="no reader reads them back"):
        delta.create_table(f"delta:{tmp_path / 't'}", bytes_, partition_by=["cat"])
    assert not (tmp_path / "t").exists()
    uri = by_hand(tmp_path / "u", "binary", ["ab"])
    with pytest.raises(UnsupportedTable, match="no reader reads them back"):
        delta.append(uri, pa.table({"id": [1], "cat": [b"x"]}))
    write_deltalake(tmp_path / "u", pa.table({"id": [9], "cat": [b"ab"]}), mode="append")
    read = {row["id"]: row["cat"] for row in pa.table(DeltaTable(tmp_path / "u").scan()).to_pylist()}
    assert read[9] == rb"\u0061\u0062", "delta-rs reads back what it writes: it need not be refused"
