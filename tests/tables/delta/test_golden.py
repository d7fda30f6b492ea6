"""Tables that other engines wrote: read exactly, changed exactly, or refused by the name of what stands against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.model.change import AddField, DropField, RenameField, SetAliases, SetDoc
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import NULL, Field, Primitive, Record, Union
from lakeevolve.replaying.fold import fold
from lakeevolve.tables import delta

from .conftest import GOLDEN, bag, evolve

#: table -> rows that it has.
READABLE = {
    "delta_rs__table_with_column_mapping": 5,
    "delta_rs__table_with_partitioning_mapping": 2,
    "delta_rs__checkpoint-v2-table": 44,
    "delta_rs__table-with-dv-small": 8,
    "delta_rs__table_with_liquid_clustering": 10,
    "delta_rs__simple_table": 3,
    "delta_rs__partition-type-primitives": 16,
    "kernel_rs__void-column": 3,
    "kernel_rs__partition_cm/name": 0,
    "kernel_rs__partition_cm/none": 0,
    "kernel_rs__partition_cm/id": 0,
    "kernel_rs__external-table-different-nullability": 7,
    "kernel_rs__mixed-nulls": 15,
    "kernel_rs__app-txn-checkpoint": 22,
    "kernel_rs__timestamp-partitioned-table/timestamp-partitioned-table": 1,
    "golden__dv-with-columnmapping/dv-with-columnmapping/delta": 35,
    "golden__table-with-columnmapping-mode-id/table-with-columnmapping-mode-id/delta": 6,
    "golden__table-with-columnmapping-mode-name/table-with-columnmapping-mode-name/delta": 6,
    "golden__time-travel-schema-changes-a/time-travel-schema-changes-a/delta": 10,
    "golden__time-travel-schema-changes-b/time-travel-schema-changes-b/delta": 20,
    "golden__decimal-various-scale-precision/decimal-various-scale-precision/delta": 3,
    "golden__v2-checkpoint-json/v2-checkpoint-json/delta": 10,
    "golden__log-replay-special-characters/log-replay-special-characters/delta": 0,
    "golden__multi-part-checkpoint/multi-part-checkpoint/delta": 31,
    "delta__table-with-icebegCompatV2Enabled": 6,
    "delta__transaction_log_schema_evolvability": 18,
    "delta__delta-0.1.0": 3,
    "delta__identity_test_written_by_version_5": 3,
    "delta__dbr_8_1_generated_columns": 0,
    "delta__kd_column-mapping-id": 20,
}

#: table -> what is said on the attempt to open it.
BROKEN = {
    "delta_rs__simple_table_features": (UnsupportedTable, "minimum reader version"),
    "delta_rs__err_table_c": (TableError, "gap"),
    "delta_rs__err_table_e": (UnsupportedTable, "catalogOwned"),
    "kernel_rs__catalog_managed_0": (UnsupportedTable, "catalog"),
    "golden__deltalog-invalid-protocol-version/deltalog-invalid-protocol-version/delta": (
        UnsupportedTable,
        "minimum reader version",
    ),
    "golden__deltalog-state-reconstruction-without-metadata/deltalog-state-reconstruction-without-metadata/delta": (
        TableError,
        "metadata",
    ),
    "golden__versions-not-contiguous/versions-not-contiguous/delta": (TableError, "gap"),
}

#: table -> why a column cannot be added to it.
REFUSED = {
    "delta_rs__checkpoint-v2-table": "identityColumns",
    "delta_rs__table_with_liquid_clustering": "domainMetadata",
    "delta__table-with-icebegCompatV2Enabled": "icebergCompatV2",
    "delta__identity_test_written_by_version_5": "identity columns",
    "delta__type-widening": "typeWidening-preview",
}

MAPPED = (
    "delta_rs__table_with_column_mapping",
    "delta_rs__table_with_partitioning_mapping",
    "kernel_rs__partition_cm/name",
    "kernel_rs__partition_cm/id",
    "golden__dv-with-columnmapping/dv-with-columnmapping/delta",
    "golden__table-with-columnmapping-mode-id/table-with-columnmapping-mode-id/delta",
    "golden__table-with-columnmapping-mode-name/table-with-columnmapping-mode-name/delta",
    "delta__kd_column-mapping-id",
)

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden tables are not here")


def expected(table: delta.Table) -> Counter[str]:
    versions = table.history()
    return bag(fold(versions, f.version, versions[-1].number)(b) for f in table.files() for b in table.raw(f))


@pytest.mark.parametrize("name", READABLE)
def test_pyarrow_alone_and_the_tables_own_reader_agree(name: str) -> None:
    table = delta.open(f"delta:{GOLDEN / name}")
    rows = expected(table)
    assert sum(rows.values()) == READABLE[name]
    assert bag(table.read()) == rows
    assert bag(b for f in table.files() for b in table.read(f)) == rows
    assert table.describe()["counts"]["files"] == len(table.files())


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_log_is_told_from_an_unknown_feature(name: str) -> None:
    kind, said = BROKEN[name]
    with pytest.raises(kind, match=said) as caught:
        delta.open(f"delta:{GOLDEN / name}")
    assert type(caught.value) is kind


def test_a_missing_data_file_is_named() -> None:
    table = delta.open(f"delta:{GOLDEN / 'delta_rs__err_table_a'}")
    with pytest.raises(TableError, match="missing"):
        list(table.read())
    with pytest.raises(TableError, match=r"missing.*parquet"):
        list(
            table.raw(
                delta.Table._file(
                    table,
                    next(iter(table._snapshot.files.values())),
                    table._view(None).newest,
                    table._view(None),
                    table._snapshot,
                )
            )
        )


@pytest.mark.parametrize("name", ["delta__type-widening", "delta__type-widening-nested"])
def test_widened_types_are_refused_by_name(name: str) -> None:
    table = delta.open(f"delta:{GOLDEN / name}")
    assert table.describe()["features"]["readerFeatures"]
    for read in (table.read, lambda: table.raw(table.files()[0])):
        with pytest.raises(UnsupportedTable, match="typeWidening-preview"):
            list(read())


def with_field(schema: Schema, added: Field) -> Schema:
    root = schema.record
    return Schema(Record(root.name, (*root.fields, added)))


NOTE = Field("note", Union((NULL, Primitive("string"))), None)


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_with_features_that_nobody_here_keeps_up_is_not_changed(name: str) -> None:
    table = delta.open(f"delta:{GOLDEN / name}")
    base = table.schema
    found = table.capability(AddField("note", NOTE, len(base.fields)), base, with_field(base, NOTE), {})
    assert found.route == "refuse"
    assert REFUSED[name] in found.reason


@pytest.mark.parametrize("name", MAPPED)
def test_columns_under_column_mapping_are_left_to_spark_and_texts_are_not(name: str) -> None:
    table = delta.open(f"delta:{GOLDEN / name}")
    base, field = table.schema, table.schema.fields[0]
    target = with_field(base, NOTE)
    for change in (
        AddField("note", NOTE, 1),
        RenameField(f"`{field.name}`" if " " in field.name else field.name, "other"),
        DropField(f"`{field.name}`" if " " in field.name else field.name, field, 0),
    ):
        found = table.capability(change, base, target, {})
        assert found.route in ("external", "refuse"), change
        assert "column mapping" in found.reason or "partitioning" in found.reason
    for text in (SetDoc(field.name, None, "a doc"), SetAliases(field.name, (), ("b",))):
        assert table.capability(text, base, target, {}).route == "metadata"


@pytest.mark.parametrize(
    "name", ["golden__dv-with-columnmapping/dv-with-columnmapping/delta", "delta__kd_column-mapping-id"]
)
def test_a_doc_reaches_a_mapped_table_and_its_rows_stay(name: str, golden: Callable[[str], Path]) -> None:
    uri = f"delta:{golden(name)}"
    table = delta.open(uri)
    before = bag(table.read())
    root = table.schema.record
    first = root.fields[0]
    target = Schema(Record(root.name, (Field(first.name, first.type, doc="why"), *root.fields[1:])))
    # A table that no marker knows takes its docs from the target, so that there would be nothing to do.
    alias = Schema(Record(root.name, (Field(first.name, first.type, doc="why", aliases=("old",)), *root.fields[1:])))
    evolve(uri, target)
    evolve(uri, alias, plan="plan-2")
    now = delta.open(uri)
    assert now.schema == alias
    assert bag(now.read()) == before


@pytest.mark.parametrize(
    "name",
    [n for n in READABLE if n not in REFUSED and n not in MAPPED and READABLE[n]],
)
def test_a_table_of_another_engine_is_rewritten_row_for_row(name: str, golden: Callable[[str], Path]) -> None:
    uri = f"delta:{golden(name)}"
    table = delta.open(uri)
    before = bag(table.read())
    attempt = evolve(uri, with_field(table.schema, Field("lot", Primitive("int"), 7)))
    assert attempt.routes["AddField lot"].route == "backfill"
    now = delta.open(uri)
    assert now.foreign == table.foreign
    kept = bag(b.drop_columns(["lot"]) for b in now.read())
    assert kept == before
    assert {v for b in now.read() for v in b.column("lot").to_pylist()} == {7}


@pytest.mark.parametrize(
    "name",
    [
        "golden__multi-part-checkpoint/multi-part-checkpoint/delta",
        "golden__v2-checkpoint-json/v2-checkpoint-json/delta",
        "delta_rs__checkpoint-v2-table",
        "delta__delta-0.1.0",
        "delta__transaction_log_schema_evolvability",
    ],
)
def test_a_checkpoint_stands_in_for_the_log_before_it(name: str, golden: Callable[[str], Path]) -> None:
    where = golden(name)
    before = delta.open(f"delta:{where}")
    rows, files = bag(before.read()), {f.path for f in before.files()}
    log = where / "_delta_log"
    newest = max(int(p.name[:20]) for p in log.iterdir() if ".checkpoint" in p.name and p.name[:20].isdigit())
    for path in log.glob("*.json"):
        if path.name[20:] == ".json" and int(path.name[:20]) <= newest:
            path.unlink()
    now = delta.open(f"delta:{where}")
    assert {f.path for f in now.files()} == files
    assert bag(now.read()) == rows
    assert expected(now) == rows


def test_a_deletion_vector_does_not_make_a_file_younger() -> None:
    table = delta.open(f"delta:{GOLDEN / 'delta_rs__table-with-dv-small'}")
    (file,) = table.files()
    assert (file.added, file.rows) == (0, 10)
    assert sum(b.num_rows for b in table.raw(file)) == 8
    assert table.state.position == 1


def test_a_renamed_partition_column_is_followed_by_its_physical_name() -> None:
    table = delta.open(f"delta:{GOLDEN / 'delta_rs__table_with_partitioning_mapping'}")
    versions = table.history()
    assert [(v.number, dict(v.renames)) for v in versions] == [(1, {}), (2, {"newid": "id"})]
    assert sorted(pa.Table.from_batches(table.read()).column("newid").to_pylist()) == [1, 2]
