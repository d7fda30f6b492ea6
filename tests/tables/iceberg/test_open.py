"""Finding tables, and what is said where there is none."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg import exceptions as theirs

import lakeevolve.errors as ours
from lakeevolve.errors import CatalogUnavailable, ConfigError, LakeEvolveError, TableError, TableNotFound, UnknownScheme
from lakeevolve.tables import open_table
from lakeevolve.tables.iceberg.catalog import parse_uri, translated

ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}


def test_what_a_store_says_that_lets_nobody_in_is_told_without_its_words() -> None:
    with pytest.raises(CatalogUnavailable) as raised, translated("iceberg:prod/shop.orders"):
        raise OSError("When reading information for key 'm.json' in bucket 'lake': AWS Error ACCESS_DENIED: hunter2")
    told = " ".join(raised.value.lines())
    assert "iceberg:prod/shop.orders" in told
    assert "credentials" in told or "access" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("uri", "catalog", "identifier", "snapshot"),
    [
        ("iceberg:lake/shop.orders", "lake", ("shop", "orders"), None),
        ("iceberg:/data/lake/shop.eu.orders", "/data/lake", ("shop", "eu", "orders"), None),
        ("iceberg:./my.lake/shop.orders@123", "./my.lake", ("shop", "orders"), 123),
        ("iceberg:prod/shop.orders@v2", "prod", ("shop", "orders@v2"), None),
    ],
)
def test_a_uri_names_catalog_table_and_snapshot(uri: str, catalog: str, identifier: Any, snapshot: Any) -> None:
    found = parse_uri(uri)
    assert (found.catalog, found.identifier, found.snapshot) == (catalog, identifier, snapshot)


@pytest.mark.parametrize(
    "uri", ["iceberg:orders", "iceberg:lake/orders", "iceberg:/shop.orders", "iceberg:lake/.orders"]
)
def test_a_uri_that_names_no_table_says_how_to_write_one(uri: str) -> None:
    with pytest.raises(TableNotFound) as caught:
        open_table(uri)
    assert "iceberg:CATALOG/namespace.table" in str(caught.value.hint)


def test_a_format_that_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownScheme, match="hudi"):
        open_table("hudi:lake/orders")
    with pytest.raises(UnknownScheme):
        open_table("lake/orders")


def test_a_table_opens_by_folder(workshop: Any) -> None:
    made = workshop.table(ROW, [{"id": 1}])
    table = open_table(made.uri)
    assert (table.format, table.ordered, table.uri) == ("iceberg", True, made.uri)
    assert table.state.id == str(made.iceberg.metadata.table_uuid)
    assert table.state.position == made.iceberg.metadata.current_snapshot_id


def test_a_table_opens_by_a_relative_folder(workshop: Any, monkeypatch: Any) -> None:
    workshop.table(ROW, [{"id": 1}])
    monkeypatch.chdir(workshop.folder)
    assert open_table("iceberg:lake/shop.t").schema.fields[0].name == "id"
    assert open_table("iceberg:./lake/shop.t").schema.fields[0].name == "id"


def test_the_catalogs_own_name_in_its_file_is_used(workshop: Any) -> None:
    made = workshop.table(ROW)
    with sqlite3.connect(workshop.folder / "lake" / "catalog.db") as connection:
        for name in ("iceberg_tables", "iceberg_namespace_properties"):
            connection.execute(f"UPDATE {name} SET catalog_name = 'theirs'")
    connection.close()
    assert open_table(made.uri).schema.fields[0].name == "id"


def test_opening_makes_no_catalog(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="no embedded catalog"):
        open_table(f"iceberg:{tmp_path}/shop.t")
    assert list(tmp_path.iterdir()) == []


def test_a_table_or_namespace_that_is_not_there(workshop: Any) -> None:
    workshop.table(ROW)
    for name in ("shop.other", "other.t"):
        with pytest.raises(TableNotFound, match="no such table"):
            open_table(f"iceberg:{workshop.folder / 'lake'}/{name}")


def test_a_file_that_is_no_catalog(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("this is no database" * 100)
    with pytest.raises(CatalogUnavailable):
        open_table(f"iceberg:{tmp_path}/shop.t")


def test_a_catalog_that_is_not_configured(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogUnavailable, match="'prod'") as caught:
        open_table("iceberg:prod/shop.t", password="hunter2")
    assert "hunter2" not in " ".join(caught.value.lines())


def test_options_reach_the_catalog(workshop: Any) -> None:
    made = workshop.table(ROW)
    table: Any = open_table(made.uri, **{"s3.region": "eu-central-1"})
    assert table.iceberg.catalog.properties["s3.region"] == "eu-central-1"


def test_a_configured_catalog_opens_by_its_name(workshop: Any, monkeypatch: Any) -> None:
    workshop.table(ROW, [{"id": 1}])
    folder = workshop.folder / "lake"
    table = open_table(
        "iceberg:lakeevolve/shop.t", type="sql", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri()
    )
    assert table.schema.fields[0].name == "id"


def test_metadata_that_is_gone_is_our_error(workshop: Any) -> None:
    made = workshop.table(ROW)
    Path(made.iceberg.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(TableError, match="missing"):
        open_table(made.uri)


def test_metadata_that_is_broken_is_our_error(workshop: Any) -> None:
    made = workshop.table(ROW)
    Path(made.iceberg.metadata_location.removeprefix("file://")).write_text('{"format-version": 9}')
    with pytest.raises(ours.UnsupportedTable):
        open_table(made.uri)


def test_a_table_is_created_once(workshop: Any) -> None:
    workshop.table(ROW)
    with pytest.raises(TableError, match="exists"):
        workshop.table(ROW)


def test_a_partition_over_no_column_is_an_error(workshop: Any) -> None:
    with pytest.raises(ConfigError):
        workshop.table(ROW, partition=["country"])
    with pytest.raises(ConfigError):
        workshop.table(ROW, partition=["frobnicate(id)"])


def test_rows_that_do_not_fit_are_not_appended(workshop: Any) -> None:
    table = workshop.table(ROW)
    import pyarrow as pa

    from lakeevolve.tables.iceberg import append

    with pytest.raises(TableError, match="no such column: x"):
        append(table, pa.table({"id": pa.array([1], pa.int32()), "x": [1]}))
    with pytest.raises(TableError, match="lack the required id"):
        append(table, pa.table({"x": [1]}))
    with pytest.raises(TableError, match="no representation"):
        append(table, pa.table({"id": ["x"]}))
    with pytest.raises(TableError, match="null"):
        append(table, pa.table({"id": pa.array([None], pa.int32())}))
    assert table.state.position is None


def test_every_exception_of_pyiceberg_becomes_one_of_ours() -> None:
    known = [each for each in vars(theirs).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert len(known) > 20
    for each in [*known, ValueError, TypeError, StopIteration, AttributeError, OSError, RuntimeError]:
        if each is Exception:
            continue
        with pytest.raises(LakeEvolveError) as caught, translated("iceberg:x/y.z"):
            raise each("password=hunter2")
        assert "hunter2" not in " ".join(caught.value.lines())
        assert caught.value.hint


def test_what_the_client_of_a_cloud_raises_is_a_catalog_that_does_not_answer() -> None:
    for module in ("botocore.exceptions", "google.api_core.exceptions", "thrift.transport.TTransport"):
        kind = type("EndpointConnectionError", (Exception,), {"__module__": module})
        with pytest.raises(CatalogUnavailable, match="did not answer") as caught, translated("iceberg:x/y.z"):
            raise kind("Could not connect to https://user:hunter2@host")
        assert "hunter2" not in " ".join(caught.value.lines())


def test_a_table_describes_itself_as_json(workshop: Any) -> None:
    import json

    row = {**ROW, "fields": [*ROW["fields"], {"name": "c", "type": "string"}]}  # type: ignore[misc]
    table = workshop.table(row, [{"id": 1, "c": "x"}, {"id": 2, "c": "y"}], partition=["c"], identifier=["id"])
    found = json.loads(json.dumps(table.describe()))
    assert found["format"] == "iceberg"
    assert found["uri"] == table.uri
    assert found["pin"] == dict(table.state.pin)
    assert found["counts"]["rows"] == 2
    assert found["counts"]["files"] == 2
    assert found["partitioning"] == [{"name": "c", "transform": "identity", "column": "c"}]
    assert found["identifier"] == ["id"]
    assert found["versions"][0]["number"] == 1
    assert [column["name"] for column in found["columns"]] == ["id", "c"]


DOWN = "127.0.0.1:9"  # the discard service, which nobody runs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"type": "rest", "uri": f"http://user:hunter2@{DOWN}/", "token": "hunter2"}, "did not answer"),
        ({"type": "sql", "uri": f"sqlite:////nowhere/{DOWN}/hunter2.db"}, "did not answer"),
        ({"type": "hive", "uri": f"thrift://user:hunter2@{DOWN}"}, "did not answer|not installed"),
        (
            {"type": "glue", "glue.endpoint": f"http://{DOWN}", "glue.secret-access-key": "hunter2"},
            "not installed|cannot be opened",
        ),
    ],
    ids=["rest", "sql", "hive", "glue"],
)
def test_a_catalog_that_is_down_or_lacks_its_library_is_one_error_without_secrets(
    options: Any, said: str, capfd: Any
) -> None:
    with pytest.raises(CatalogUnavailable, match=said) as caught:
        open_table("iceberg:prod/shop.t", **options)
    assert len(caught.value.lines()) == 3
    assert "hunter2" not in " ".join(caught.value.lines())
    assert capfd.readouterr() == ("", "")


def test_a_store_that_is_down_is_one_error_and_no_librarys_log(workshop: Any, tmp_path: Path) -> None:
    made = workshop.table(ROW)
    with sqlite3.connect(workshop.folder / "lake" / "catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = 's3://nowhere/t/metadata.json'")
    connection.close()
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "AWS_ENDPOINT_URL": f"http://{DOWN}",
        "AWS_ACCESS_KEY_ID": "admin",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_REGION": "eu-central-1",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = subprocess.run(
        [sys.executable, "-m", "lakeevolve", "describe", made.uri], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) <= 3
    assert "the store did not answer" in done.stderr
    assert "hunter2" not in done.stderr


def test_an_address_is_no_catalog() -> None:
    with pytest.raises(TableNotFound, match="through their catalog") as caught:
        open_table("iceberg:s3://key:hunter2@bucket/lake/shop.t")
    assert "hunter2" not in " ".join(caught.value.lines())
