"""Iceberg tables whose catalog is a database and whose files lie in an S3 store."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

import lakeevolve as le
from lakeevolve.tables.iceberg import append, create_table, open_table

from .test_rest_catalog import ALL, BASE, NOTED, RATED, WIDER, read, rows


@pytest.fixture
def options(store: Any, tmp_path: Path) -> dict[str, str]:
    s3 = {name: value for name, value in store.rest().items() if name.startswith("s3.")}
    warehouse = f"s3://{store.bucket}/{uuid.uuid4().hex[:12]}"
    return {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": warehouse, **s3}


def test_a_table_of_a_database_catalog_goes_the_whole_walk_in_an_object_store(
    store: Any, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "PYICEBERG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = "iceberg:prod/shop.orders"
    append(create_table(uri, le.load(BASE), partition=["p"], mark=True, **options), rows(1, 2, 3))
    for target, route in ((NOTED, "metadata"), (RATED, "backfill"), (WIDER, "rewrite")):
        plan = le.plan(open_table(uri, **options), target, mode="NONE")
        assert route in {step.route for step in plan.steps}
        raced = route == "rewrite"

        def race(phase: str, _done: int, _of: int) -> None:
            nonlocal raced
            if phase == "prove" and raced:
                raced = False
                late = {**rows(4).to_pylist()[0], "note": "late", "rate": 0.25}
                append(open_table(uri, **options), table_of(RATED, late))

        done = le.apply(plan, allow=ALL, table=open_table(uri, **options), progress=race)
        assert (done.status, done.ok) == ("applied", True)
        assert le.verify(open_table(uri, **options), full=True, columns="all").ok
        assert le.apply(plan, allow=ALL, table=open_table(uri, **options)).status == "already-applied"
    found = read(open_table(uri, **options))
    assert sorted(found) == [1, 2, 3, 4]
    assert found[4] == {"id": 4, "n": 4.0, "p": "a b", "lines": [{"sku": "é4"}], "note": "late", "share": 0.25}
    # Nothing that a failed attempt wrote is left behind.
    table = open_table(uri, **options).iceberg
    known = {
        entry.data_file.file_path.removeprefix("s3://")
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    there = fs.S3FileSystem(
        access_key=store.key, secret_key=store.secret, endpoint_override=store.endpoint, region="us-east-1"
    ).get_file_info(fs.FileSelector(table.location().removeprefix("s3://"), recursive=True))
    assert {info.path for info in there if info.path.endswith(".parquet")} == known


def table_of(schema: Any, *held: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(list(held), schema=le.arrow_schema(schema))
