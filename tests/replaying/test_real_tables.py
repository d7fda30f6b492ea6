"""Replay of Iceberg and Delta tables on disk, through plan and apply, with second readers, and with damaged files."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.errors import ConfigError, SourceError, TableError
from lakeevolve.replaying import readers
from lakeevolve.replaying.verify import verify

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": ["null", "int"], "default": None}],
}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "zip", "type": ["null", "string"], "default": None}, {"name": "floor", "type": "int"}],
}


def optional(type_: Any) -> dict[str, Any]:
    return {"type": ["null", type_], "default": None}


BASE = [
    {"name": "id", "type": "long"},
    {"name": "flag", **optional("boolean")},
    {"name": "qty", **optional("int")},
    {"name": "ratio", **optional("float")},
    {"name": "amount", **optional({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})},
    {"name": "name", **optional("string")},
    {"name": "data", **optional("bytes")},
    {"name": "key", **optional({"type": "fixed", "name": "Key", "size": 4})},
    {"name": "day", **optional({"type": "int", "logicalType": "date"})},
    {"name": "at", **optional({"type": "long", "logicalType": "timestamp-micros"})},
    {"name": "local", **optional({"type": "long", "logicalType": "local-timestamp-micros"})},
    {"name": "clock", **optional({"type": "long", "logicalType": "time-micros"})},
    {"name": "state", **optional({"type": "enum", "name": "State", "symbols": ["NEW", "OLD"], "default": "NEW"})},
    {"name": "ref", **optional({"type": "string", "logicalType": "uuid"})},
    {"name": "address", **optional(ADDRESS)},
    {"name": "lines", **optional({"type": "array", "items": LINE})},
    {"name": "tags", **optional({"type": "map", "values": ["null", "string"]})},
    {"name": "payload", "type": ["null", "string", "long"], "default": None},
]


def order(i: int) -> dict[str, Any]:
    full = {
        "id": i,
        "flag": bool(i % 2),
        "qty": i * 3,
        "ratio": i / 8,
        "amount": Decimal(i).scaleb(-2),
        "name": f"name {i}",
        "data": bytes([i % 256, 0, 255]),
        "key": bytes([i % 256] * 4),
        "day": date(2026, 1, 1 + i % 28),
        "at": datetime(2026, 1, 1, 0, 0, i % 60, i, tzinfo=UTC),
        "local": datetime(2026, 1, 1, 0, 0, i % 60, i),
        "clock": time(1, 2, i % 60, i),
        "state": "OLD" if i % 3 else "NEW",
        "ref": f"{i:08x}-0000-4000-8000-000000000000",
        "address": {"zip": f"z{i}" if i % 2 else None, "floor": i},
        "lines": [[], [{"sku": f"s{i}", "n": None}, {"sku": "t", "n": i}]][i % 2],
        "tags": [("a", f"t{i}"), ("b", None)],
        "payload": [{"string": f"p{i}", "long": None}, {"string": None, "long": i}][i % 2],
    }
    names = list(full)
    # Each column is null in some row.
    gone = names[1 + i % (len(names) - 1)]
    return {**full, gone: None}


@pytest.fixture(params=["iceberg", "delta"])
def real(request: Any, disk: Any) -> Any:
    """A table of one format in a folder."""
    made = disk(request.param, BASE)
    made.add(BASE, [order(i) for i in range(30)])
    made.add(BASE, [order(i) for i in range(30, 47)])
    return made


WIDE = [
    {**f, "type": ["null", "long"]}
    if f["name"] == "qty"
    else {**f, "name": "label", "aliases": ["name"]}
    if f["name"] == "name"
    else f
    for f in BASE
]
WIDE.append({"name": "country", "type": "string", "default": "US"})


def test_every_type_reads_right_whole_and_under_filters_by_every_reader(real: Any) -> None:
    result = verify(real.open(), columns="all", readers=("duckdb", "polars"))
    assert result.ok, [str(m) for m in result.mismatches]
    assert (result.files, result.rows) == (2, 47)
    verdicts = {p["path"]: p["verdict"] for p in result.evidence.predicates}
    assert verdicts.keys() >= {"id", "amount", "at", "state", "address.zip", "payload<long>"}
    assert set(verdicts.values()) <= {"equal", "reader-fault"}
    assert [r["name"] for r in result.evidence.readers][1:] == ["duckdb", "polars"]
    assert all(r["version"] for r in result.evidence.readers)


NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def test_second_readers_read_a_change_of_metadata_that_no_append_has_followed(real: Any) -> None:
    real.evolve([*BASE, NOTE])
    result = verify(real.open(), readers=("duckdb", "polars"))
    assert result.ok, [str(m) for m in result.mismatches]


def test_an_evolved_table_reads_right_and_its_rewrite_is_proved_again(real: Any) -> None:
    done = real.evolve(WIDE)
    assert done.proof.ok
    assert done.replay.ok
    real.add(WIDE, [{**order(i), "label": "new", "country": "FR"} for i in range(50, 55)])
    result = verify(real.open(), full=True, readers=("duckdb", "polars"))
    assert result.ok, [str(m) for m in result.mismatches]
    assert result.rows == 52
    assert [(r["version"], r["rows"], r["verdict"]) for r in result.evidence.oracle["rewrites"]] == [(2, 47, "equal")]
    assert {p["path"] for p in result.evidence.predicates} >= {"qty", "label", "country"}


def test_one_value_changed_in_a_file_that_the_rewrite_produced_is_named(real: Any) -> None:
    real.evolve(WIDE)
    real.add(WIDE, [{**order(i), "label": "new", "country": "FR"} for i in range(50, 55)])
    file = next(f for f in real.open().files() if f.version == 2 and f.rows == 17)
    changed = {5: ("country", "XX"), 0: ("id", 999), 16: ("label", "other")}
    for row, (column, value) in changed.items():
        real.change(file.path, row, **{column: value})
    result = verify(real.open(), full=True)
    found = [(m.file, m.row, m.path) for m in result.mismatches if m.reader == "raw file"]
    assert sorted(found) == sorted((file.path, row, column) for row, (column, _) in changed.items())
    assert not result.ok


def test_a_damaged_or_missing_file_is_a_mismatch_that_names_it(real: Any) -> None:
    table = real.open()
    files = table.files()
    path = real.path(files[1].path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    result = verify(real.open())
    assert {(m.file, m.kind) for m in result.mismatches} == {(files[1].path, "unreadable")}
    path.unlink()
    result = verify(real.open(), readers=("duckdb",))
    assert {(m.file, m.kind) for m in result.mismatches} == {(files[1].path, "unreadable")}
    assert any("duckdb was not asked" in note for note in result.notes)
    assert result.rows == files[0].rows


def test_a_sample_reads_file_by_file(real: Any) -> None:
    result = verify(real.open(), sample=1, columns="all")
    assert result.ok, [str(m) for m in result.mismatches]
    assert result.files == 1


GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
TABLES = sorted(str(log.parent.relative_to(GOLDEN)) for log in GOLDEN.rglob("_delta_log")) if GOLDEN.is_dir() else []


@pytest.mark.skipif(not TABLES, reason="the golden tables are not here")
def test_tables_of_other_engines_read_right() -> None:
    judged = {}
    for name in TABLES:
        try:
            table = le.open_table(f"delta:{GOLDEN / name}")
            result = verify(table, columns="all")
        except (TableError, SourceError):
            # Broken logs, and features that are refused with a word about them.
            continue
        judged[name] = [str(m) for m in result.mismatches]
    wrong = {name: found for name, found in judged.items() if found}
    # One has lost all its data files.
    assert list(wrong) == ["delta_rs__err_table_a"]
    assert all("missing" in text for text in wrong["delta_rs__err_table_a"])
    assert len(judged) > 25


@pytest.mark.skipif(not TABLES, reason="the golden tables are not here")
def test_maps_that_avro_has_no_type_for_read_the_same_by_other_engines() -> None:
    name = "golden__table-with-columnmapping-mode-name/table-with-columnmapping-mode-name/delta"
    table = le.open_table(f"delta:{GOLDEN / name}")
    assert table.foreign
    result = verify(table, readers=("duckdb", "polars"))
    assert result.ok, [str(m) for m in result.mismatches]


# --- second readers


def test_a_reader_that_nobody_knows_or_that_is_not_installed_is_a_clean_error(
    real: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="no reader is called 'trino'"):
        verify(real.open(), readers=("trino",))

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(readers, "import_module", missing)
    with pytest.raises(ConfigError, match="not installed") as caught:
        verify(real.open(), readers=("duckdb",))
    assert caught.value.hint == "pip install 'lakeevolve[readers]'"


def test_a_second_reader_that_reads_wrong_is_named(real: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = readers._SCANS["polars"][real.format]

    def wrong(table: Any) -> Any:
        for batch in scan(table):
            at = batch.schema.get_field_index("qty")
            rows = batch.column(at).to_pylist()
            rows[3] = -1
            yield batch.set_column(at, "qty", pa.array(rows, batch.column(at).type))

    monkeypatch.setitem(readers._SCANS, "polars", {real.format: wrong})  # type: ignore[arg-type]
    result = verify(real.open(), readers=("duckdb", "polars"))
    assert {(m.path, m.reader) for m in result.mismatches} == {("qty", "polars")}
    assert [r["verdict"] for r in result.evidence.readers][1:] == ["equal", "differs"]


def test_a_table_in_a_store_is_not_handed_to_other_engines(real: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = real.open()

    class Elsewhere:
        format = real.format
        uri = real.uri

        class address:  # noqa: N801
            path = "s3://bucket/orders"

        class iceberg:  # noqa: N801
            metadata_location = "s3://bucket/orders/metadata/1.json"

    assert readers.open_reader("duckdb", table).name == "duckdb"
    with pytest.raises(ConfigError, match="local disk"):
        readers.open_reader("duckdb", Elsewhere())  # type: ignore[arg-type]
