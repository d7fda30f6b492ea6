"""The same on an S3-like store. Name one to run it: LAKEEVOLVE_TEST_S3=http://127.0.0.1:5555 (moto_server will do)."""

from __future__ import annotations

import os
import urllib.request
import uuid

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest

from lakeevolve.errors import CatalogUnavailable, CommitConflict, TableNotFound
from lakeevolve.tables import delta

from .conftest import bag, field, record, stage

ENDPOINT = os.environ.get("LAKEEVOLVE_TEST_S3", "")
OPTIONS = {
    "AWS_ENDPOINT_URL": ENDPOINT,
    "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "test"),
    "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "aws_conditional_put": "etag",
}

pytestmark = pytest.mark.skipif(not ENDPOINT, reason="LAKEEVOLVE_TEST_S3 names no store")


@pytest.fixture
def uri() -> str:
    bucket = f"lake-{uuid.uuid4().hex[:8]}"
    urllib.request.urlopen(urllib.request.Request(f"{ENDPOINT}/{bucket}", method="PUT")).close()
    return f"delta:s3://{bucket}/shop/all orders"


BASE = record(field("id", "long"), field("n", "int"), field("p", "string"))
NOTED = record(*BASE.to_json()["fields"], field("note", ["null", "string"], default=None))  # type: ignore[index]
WIDER = record(field("id", "long"), field("n", "long"), field("p", "string"))


def test_a_table_in_an_object_store_evolves_and_conflicts_like_any_other(uri: str) -> None:
    delta.create_table(uri, BASE, partition_by=["p"], mark=True, storage_options=OPTIONS)
    rows = pa.table({"id": pa.array([1, 2, 3]), "n": pa.array([1, 2, 3], pa.int32()), "p": ["a b", "c%", "a b"]})
    delta.append(uri, rows, storage_options=OPTIONS)
    for number, target in enumerate((NOTED, WIDER)):
        attempt = stage(delta.open(uri, storage_options=OPTIONS), target, plan=f"plan-{number}")
        expected = attempt.expected()
        assert bag(attempt.staged.read()) == expected
        attempt.commit()
        table = delta.open(uri, storage_options=OPTIONS)
        assert bag(table.read()) == expected
        assert bag(b for f in table.files() for b in table.read(f)) == expected
    attempt = stage(table, record(field("id", "long"), field("n", "double"), field("p", "string")), plan="plan-2")
    late = pa.table({"id": pa.array([4]), "n": pa.array([4]), "p": ["d"]})
    delta.append(uri, late, storage_options=OPTIONS)
    with pytest.raises(CommitConflict):
        attempt.commit()
    assert attempt.staged.abandon() == ()
    table.refresh()
    live = {f.path for f in table.files()}
    left = table._fs.get_file_info(pa_fs.FileSelector("", recursive=True))
    scratch = [i.path for i in left if i.type == pa_fs.FileType.File and i.path.startswith("_lakeevolve")]
    assert scratch == []
    assert len(live) == 3


def test_a_missing_table_is_told_from_a_missing_bucket(uri: str) -> None:
    with pytest.raises(TableNotFound):
        delta.open(uri, storage_options=OPTIONS)
    with pytest.raises(CatalogUnavailable):
        delta.open("delta:s3://there-is-no-such-bucket/x", storage_options=OPTIONS)
