"""Catalogs: one that the caller opened, and what needs SQLAlchemy and what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lakeevolve as le
from lakeevolve.tables.iceberg import create_table
from lakeevolve.tables.iceberg.catalog import open_catalog, parse_uri

ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}

WITHOUT = """
import sys
sys.modules["sqlalchemy"] = None
from lakeevolve.errors import CatalogUnavailable
from lakeevolve.tables import open_table
from lakeevolve.tables.iceberg.catalog import translated
try:
    open_table(sys.argv[1])
except CatalogUnavailable as error:
    print(error.what)
try:
    with translated("iceberg:prod/shop.orders"):
        raise TimeoutError
except CatalogUnavailable as error:
    print(error.what)
"""


def test_a_catalog_that_the_caller_opened_serves_whatever_the_uri_calls_it(tmp_path: Path) -> None:
    uri = f"iceberg:{tmp_path / 'lake'}/shop.orders"
    create_table(uri, le.load(ROW))
    catalog = open_catalog(parse_uri(uri), {})
    table = le.open_table("iceberg:prod/shop.orders", catalog=catalog)
    assert table.uri == "iceberg:prod/shop.orders"
    assert table.state.id == le.open_table(uri).state.id
    wider = {**ROW, "fields": [{"name": "id", "type": "long"}]}
    plan = le.plan(table, wider)
    assert plan.table["uri"] == "iceberg:prod/shop.orders"


def test_without_sqlalchemy_only_the_embedded_catalog_is_missing_and_says_so(tmp_path: Path) -> None:
    uri = f"iceberg:{tmp_path / 'lake'}/shop.orders"
    create_table(uri, le.load(ROW))
    done = subprocess.run([sys.executable, "-c", WITHOUT, uri], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    embedded, other = done.stdout.splitlines()
    assert embedded == "an embedded catalog needs SQLAlchemy 2, which is not installed here"
    assert other == "the catalog or the store did not answer (TimeoutError)"
