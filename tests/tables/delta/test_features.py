"""What each feature of the Delta protocol does to plan, apply and verify: it works and survives, or it is refused by
its name and the table stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeevolve as le
from lakeevolve.errors import PlanBlocked, UnsupportedTable
from lakeevolve.tables import delta
from lakeevolve.tables.delta import features

from .conftest import field, record

FIELDS = [field("id", "long"), field("n", "int")]
WIDER = record(*FIELDS, field("x", ["null", "int"], default=None))
RENAMED = record(FIELDS[0], field("m", "int", aliases=["n"]))
BOTH = record(FIELDS[0], field("m", "int", aliases=["n"]), field("x", ["null", "int"], default=None))
ALL = ("rewrite", "backfill", "drop", "protocol-upgrade")

Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A table of two rows that another engine then upgraded: features, properties, metadata of the column ``n``."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def table(
        writer: Sequence[str] = (),
        reader: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        column: Mapping[str, Any] | None = None,
    ) -> str:
        uri, log = f"delta:{tmp_path / 't'}", tmp_path / "t" / "_delta_log"
        delta.create_table(uri, record(*FIELDS))
        delta.append(uri, pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int32())}))
        first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
        metadata = next(action["metaData"] for action in first if "metaData" in action)
        metadata["configuration"].update(properties or {})
        schema = json.loads(metadata["schemaString"])
        schema["fields"][1]["metadata"].update(column or {})
        metadata["schemaString"] = json.dumps(schema)
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "UPGRADE"}}]
        if writer or reader:
            protocol: dict[str, Any] = {"minReaderVersion": 3 if reader else 1, "minWriterVersion": 7}
            protocol["writerFeatures"] = ["invariants", *writer, *reader]
            actions.append({"protocol": {**protocol, **({"readerFeatures": [*reader]} if reader else {})}})
        actions.append({"metaData": metadata})
        (log / f"{2:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
        return uri

    return table


def contents(uri: str) -> dict[str, bytes]:
    folder = Path(uri.removeprefix("delta:"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(uri: str, said: str) -> None:
    """Plans for the table say why nothing can be changed, and apply leaves it alone."""
    was = contents(uri)
    for target in (WIDER, RENAMED):
        plan = le.plan(uri, target, mode="NONE")
        assert {step.route for step in plan.steps} == {"refuse"}
        assert all(said in step.reason for step in plan.steps), [step.reason for step in plan.steps]
        with pytest.raises(PlanBlocked, match=said):
            le.apply(plan, allow=ALL)
    assert contents(uri) == was


def changed(uri: str, rename: str = "rewrite") -> DeltaTable:
    """Two changes of the table: a column by metadata, then a name by rewrite."""
    before = DeltaTable(uri.removeprefix("delta:"))
    for target, route in ((WIDER, "metadata"), (BOTH, rename)):
        plan = le.plan(uri, target, mode="NONE")
        assert route in {step.route for step in plan.steps}, [(step.route, step.reason) for step in plan.steps]
        if route == "refuse":
            break
        assert le.apply(plan, allow=ALL).ok
        replay = le.verify(uri, full=True, columns="all")
        assert (replay.ok, replay.rows) == (True, 2)
    after = DeltaTable(uri.removeprefix("delta:"))
    for ask in ("writer_features", "reader_features"):
        assert set(getattr(before.protocol(), ask) or ()) <= set(getattr(after.protocol(), ask) or ())
    held = after.metadata().configuration
    assert {key: held.get(key) for key in before.metadata().configuration} == before.metadata().configuration
    return after


#: Features that only a writer has to know: rows are read, and nothing is changed.
WRITERS = (
    "allowColumnDefaults",
    "checkpointProtection",
    "clustering",
    "collations-preview",
    "coordinatedCommits-preview",
    "domainMetadata",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
    "identityColumns",
    "inCommitTimestamp",
    "materializePartitionColumns",
    "rowTracking",
    "what-nobody-knows",
)
#: Features without which rows cannot be read exactly.
READERS = (
    "typeWidening",
    "typeWidening-preview",
    "vacuumProtocolCheck",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
)
#: Features under which the table cannot be opened at all, with what is said.
UNOPENED = {
    "catalogManaged": "a catalog manages its commits",
    "catalogOwned-preview": "a catalog manages its commits",
    "what-nobody-knows": "what-nobody-knows",
}


@pytest.mark.parametrize("feature", WRITERS)
def test_a_feature_for_writers_that_nobody_here_keeps_up_lets_rows_be_read_and_nothing_be_changed(
    feature: str, make: Make
) -> None:
    uri = make([feature])
    replay = le.verify(uri)
    assert (replay.ok, replay.rows) == (True, 2)
    refused(uri, f"the feature {feature}")


@pytest.mark.parametrize("feature", READERS)
def test_a_feature_for_readers_that_nobody_here_reads_is_refused_by_its_name(feature: str, make: Make) -> None:
    uri = make(reader=[feature])
    with pytest.raises(UnsupportedTable, match=f"the feature {feature}"):
        le.verify(uri)
    refused(uri, f"the feature {feature}")


@pytest.mark.parametrize("feature", UNOPENED)
def test_a_table_that_cannot_be_opened_names_the_feature(feature: str, make: Make) -> None:
    uri = make(reader=[feature])
    for ask in (le.verify, le.open_table, lambda at: le.plan(at, WIDER)):
        with pytest.raises(UnsupportedTable, match=UNOPENED[feature]):
            ask(uri)


@pytest.mark.parametrize("feature", ["deletionVectors", "timestampNtz", "v2Checkpoint"])
def test_a_feature_for_readers_that_is_kept_up_survives(feature: str, make: Make) -> None:
    assert feature in (changed(make(reader=[feature])).protocol().reader_features or ())


@pytest.mark.parametrize(
    ("feature", "properties"),
    [
        ("changeDataFeed", {"delta.enableChangeDataFeed": "true"}),
        ("checkConstraints", {"delta.constraints.some": "id > 0"}),
        ("generatedColumns", {}),
        ("invariants", {}),
    ],
)
def test_a_feature_for_writers_that_is_kept_up_survives(feature: str, properties: dict[str, str], make: Make) -> None:
    assert feature in (changed(make([feature], properties=properties)).protocol().writer_features or ())


def test_an_append_only_table_takes_columns_and_is_not_rewritten(make: Make) -> None:
    changed(make(["appendOnly"], properties={"delta.appendOnly": "true"}), rename="refuse")


@pytest.mark.parametrize(
    ("column", "bound"),
    [
        ({"delta.generationExpression": "CAST(id AS INT)"}, "generated column n"),
        ({"delta.invariants": '{"expression": {"expression": "n > 0"}}'}, "invariant of n"),
    ],
)
def test_a_column_that_a_rule_binds_is_not_renamed_and_the_rule_stays(
    column: dict[str, str], bound: str, make: Make
) -> None:
    uri = make(column=column)
    plan = le.plan(uri, RENAMED, mode="NONE")
    assert any(bound in step.reason for step in plan.steps if step.route == "refuse")
    assert le.apply(le.plan(uri, WIDER)).ok
    held = next(f.metadata for f in DeltaTable(uri.removeprefix("delta:")).schema().fields if f.name == "n")
    assert column.items() <= held.items()


def test_identity_columns_and_commit_times_that_a_property_asks_for_are_refused(make: Make) -> None:
    refused(make(properties={"delta.enableInCommitTimestamps": "true"}), "inCommitTimestamp")


def test_an_identity_column_of_a_table_without_the_feature_is_refused(make: Make) -> None:
    refused(make(column={"delta.identity.start": 1, "delta.identity.step": 1}), "identity columns")


@pytest.mark.parametrize("name", ["delta.enableRowTracking", "delta.enableTypeWidening", "delta.enableIcebergCompatV2"])
def test_a_property_without_its_feature_means_nothing_and_stays(name: str, make: Make) -> None:
    changed(make(properties={name: "true"}))


def test_a_default_for_later_writes_stays_on_its_column_also_under_another_name(make: Make) -> None:
    after = changed(make(column={"CURRENT_DEFAULT": "7"}))
    assert next(f.metadata for f in after.schema().fields if f.name == "m")["CURRENT_DEFAULT"] == "7"


def test_every_feature_that_is_let_through_has_a_test() -> None:
    here = {"deletionVectors", "timestampNtz", "v2Checkpoint", "changeDataFeed", "checkConstraints", "invariants"}
    here |= {"generatedColumns", "appendOnly"}
    # Column mapping has tests of its own (test_spark.py, test_golden_changes.py).
    assert here | {"columnMapping"} == features._WRITABLE | features._READABLE
