"""The sample tables are what their README says, and the generator still writes exactly their rows."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.resolution import resolve
from lakeevolve.demo import samples
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.rules.modes import check
from lakeevolve.sources import load

TABLES = samples.TABLES
BOTH = pytest.mark.parametrize("table", TABLES)
WRITTEN = pytest.mark.parametrize("version", samples.WRITTEN)
MODES = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = Path(__file__).with_name("generate.py")
    spec = importlib.util.spec_from_file_location("sample_tables_generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def schema(table: str, version: int | str) -> Schema:
    return load(samples.schema_path(table, version))


@BOTH
@WRITTEN
def test_the_generator_writes_the_stored_rows(generator: ModuleType, table: str, version: int) -> None:
    made = getattr(generator, table)(version)
    stored = samples.rows(table, version)
    assert made.schema.equals(stored.schema)
    assert made.equals(stored)


@BOTH
@WRITTEN
def test_rows_have_the_canonical_layout_of_their_schema(table: str, version: int) -> None:
    rows = samples.rows(table, version)
    rows.validate(full=True)
    assert rows.schema.equals(arrow_schema(schema(table, version)))


def test_the_tables_have_the_rows_that_the_readme_promises() -> None:
    counted = {table: sum(samples.rows(table, v).num_rows for v in samples.WRITTEN) for table in TABLES}
    text = (samples.folder() / "README.md").read_text(encoding="utf-8")
    promised = re.search(r"([\d,]+) orders and ([\d,]+) customers", text)
    assert promised is not None
    assert counted == dict(zip(TABLES, (int(n.replace(",", "")) for n in promised.groups()), strict=True))


def test_the_stored_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in samples.folder().rglob("*") if path.is_file()) < 6_000_000


def test_the_rows_hold_what_makes_a_replay_hard() -> None:
    rows = samples.rows("orders", 1)
    lengths = pc.list_value_length(rows["lines"])
    assert rows["lines"].null_count > 0, "null lists of records"
    assert pc.sum(pc.equal(lengths, 0)).as_py() > 0, "empty lists of records"
    attributes = pa.chunked_array(
        [chunk.cast(pa.list_(chunk.type.field(0).type)) for chunk in _lists(rows["attributes"])]
    )
    assert pc.sum(pc.equal(pc.list_value_length(attributes), 0)).as_py() > 0, "empty maps"
    assert rows["payment"].null_count > 0, "null unions"
    assert pc.any(pc.equal(rows["note"], "")).as_py(), "empty text"
    assert pc.any(pc.invert(pc.string_is_ascii(pc.struct_field(rows["address"], "city")))).as_py(), "text beyond ASCII"
    assert pc.any(pc.equal(rows["status"], "ON_HOLD")).as_py(), "a symbol that a later version removes"
    accounts = samples.rows("customers", 1)
    assert accounts["consents"].null_count > 0, "null maps of records"
    assert pc.any(pc.equal(accounts["segment"], "TEST")).as_py(), "a symbol that a later version removes"


def _lists(maps: pa.ChunkedArray) -> list[pa.Array]:
    return [
        pa.ListArray.from_arrays(chunk.offsets, pa.StructArray.from_arrays([chunk.keys, chunk.items], ["key", "value"]))
        for chunk in maps.chunks
    ]


@BOTH
def test_schemas_are_valid_and_documented(table: str) -> None:
    for path in sorted((samples.folder() / table).glob("*.avsc")):
        loaded = load(path)
        assert loaded.warnings == ()
        assert loaded.record.doc
        assert loaded.record.name.startswith(f"shop.{table}.")


@BOTH
def test_every_version_reads_the_one_before(table: str) -> None:
    for version in range(2, 7):
        old, new = schema(table, version - 1), schema(table, version)
        assert resolve(old, new).incompatibilities == (), version
        report = check(new, [old], "BACKWARD")
        assert report.compatible
        assert [f.rule for f in report.findings if f.severity == "error"] == []


def test_versions_4_to_6_hold_every_kind_of_change() -> None:
    kinds = {
        type(change).__name__
        for table in TABLES
        for version in samples.EVOLVED
        for change in diff(schema(table, version - 1), schema(table, version)).changes
    }
    assert kinds >= {
        "AddField", "DropField", "RenameField", "MoveField", "PromoteType", "ChangeLogicalType", "MakeOptional",
        "AddBranch", "AddSymbol", "DropSymbol", "SetDefault", "SetDoc", "SetAliases", "SetProperties", "RenameType",
    }  # fmt: skip


def test_versions_4_to_6_change_records_lists_maps_and_unions() -> None:
    paths = {
        change.path
        for version in samples.EVOLVED
        for change in diff(schema("orders", version - 1), schema("orders", version)).changes
    }
    for place in ("address.", "lines[].", "fees{}.", "payment"):
        assert any(path.startswith(place) for path in paths), place


@pytest.mark.parametrize("mode", MODES)
def test_the_refused_version_cannot_be_read_in_any_mode(mode: str) -> None:
    old, bad = schema("orders", 4), schema("orders", "5-refused")
    places = {found.path for found in resolve(old, bad).incompatibilities if not found.value_level}
    assert places == {"weight_kg", "warehouse"}
    if mode not in ("NONE", "FORWARD", "FORWARD_TRANSITIVE"):
        assert not check(bad, [old], mode).compatible


def test_the_forgotten_alias_passes_the_mode_and_is_caught() -> None:
    old, renamed = schema("orders", 4), schema("orders", "5-rename-without-alias")
    report = check(renamed, [old], "BACKWARD")
    assert report.compatible
    assert any(f.severity == "error" and "postal_code" in f.path + f.to for f in report.findings)
    suggested = [(s.old_path, s.new_path) for s in diff(old, renamed).suggestions]
    assert ("address.zip", "address.postal_code") in suggested
