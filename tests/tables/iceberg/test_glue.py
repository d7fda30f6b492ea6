"""The Glue catalog by pyiceberg's configuration, on a stand-in for it that the tests start on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

import lakeevolve as le
from lakeevolve.errors import CatalogUnavailable, CommitConflict, StalePlan
from lakeevolve.tables.iceberg import append, create_table, open_table
from tests.tables.conftest import die_with_us, free_ports
from tests.tables.shapes import f, row

pytest.importorskip("boto3", reason="the package boto3 is not installed")

OLD = row(f("v", "int"))
NEW = row(f("w", "double", aliases=["v"]), f("c", "string", default="US"))
SECRET = "not-the-usual-secret"


@pytest.fixture(scope="module")
def glue() -> Iterator[str]:
    """The address of a running ministack."""
    program = Path(sys.executable).with_name("ministack")
    if not program.is_file():
        pytest.skip("the package ministack is not installed")
    (port,) = free_ports(1)
    variables = {**os.environ, "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)}
    with subprocess.Popen(
        [str(program)], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_us
    ) as process:
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end and process.poll() is None and not _answers(port):
                time.sleep(0.1)
            assert _answers(port), "ministack did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def uri(glue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table's URI in a catalog that pyiceberg's configuration alone knows."""
    home = tmp_path / "home"
    home.mkdir()
    told = {
        "type": "glue",
        "glue.endpoint": glue,
        "glue.region": "us-east-1",
        "glue.access-key-id": "someone",
        "glue.secret-access-key": SECRET,
        "warehouse": (tmp_path / "lake").as_uri(),
    }
    lines = ["catalog:", "  aws:", *(f"    {name}: '{value}'" for name, value in told.items())]
    (home / ".pyiceberg.yaml").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    return f"iceberg:aws/shop_{tmp_path.name.lower().replace('-', '_')[:40]}.orders"


def made(uri: str) -> None:
    create_table(uri, le.load(OLD), mark=True)
    append(open_table(uri), pa.Table.from_pylist([{"id": 1, "v": 7}], schema=le.arrow_schema(OLD)))


def rows(uri: str) -> list[dict[str, Any]]:
    return [each for batch in le.open_table(uri).read() for each in batch.to_pylist()]


def test_a_table_in_glue_is_planned_changed_verified_and_goes_back(uri: str) -> None:
    made(uri)
    plan = le.plan(uri, NEW)
    assert SECRET not in str(plan.to_json())
    assert le.apply(plan, allow=("rewrite", "backfill")).ok
    assert le.apply(plan, allow=("rewrite", "backfill")).status == "already-applied"
    assert rows(uri) == [{"id": 1, "w": 7.0, "c": "US"}]
    assert [version.number for version in le.open_table(uri).history()] == [1, 2]
    assert le.verify(uri, full=True, columns="all").ok
    assert le.rollback(uri, 1).ok
    assert rows(uri) == [{"id": 1, "v": 7}]


def test_who_comes_second_in_glue_changes_nothing(uri: str) -> None:
    made(uri)
    plan = le.plan(uri, NEW)
    assert le.apply(le.plan(uri, row(*OLD["fields"][1:], f("n", ["null", "int"], default=None)))).ok
    before = open_table(uri).state
    with pytest.raises((StalePlan, CommitConflict)):
        le.apply(plan, allow=("rewrite", "backfill"))
    assert open_table(uri).state == before


def test_a_glue_that_does_not_answer_is_said_without_its_secret(uri: str) -> None:
    with pytest.raises(CatalogUnavailable) as raised:
        le.open_table(
            uri, **{"glue.endpoint": "http://127.0.0.1:9", "client.max-retries": "1", "glue.max-retries": "1"}
        )
    assert SECRET not in " ".join(raised.value.lines())
    assert load_catalog("aws").properties["type"] == "glue"
