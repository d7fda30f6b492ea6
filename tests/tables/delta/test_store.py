"""Opening a table: which version, which store, and what is said when it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakeevolve.errors import CatalogUnavailable, TableNotFound
from lakeevolve.tables import delta
from lakeevolve.tables.delta.store import guard

from .conftest import field, record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    where = tmp_path / "t"
    delta.create_table(f"delta:{where}", record(field("id", "long")))
    for number in range(3):
        delta.append(f"delta:{where}", pa.table({"id": pa.array([number])}))
    return where


def test_a_version_that_is_not_there_names_those_that_are(folder: Path) -> None:
    with pytest.raises(TableNotFound) as caught:
        delta.open(f"delta:{folder}@v99")
    assert caught.value.lines() == (
        "the table has no version 99",
        f"at: delta:{folder}@v99",
        "next: it has versions 0 to 3: name one of these, or leave out @v99 for the newest",
    )


def test_versions_that_went_with_the_log_are_said_to_be_gone(folder: Path) -> None:
    log = folder / "_delta_log"
    DeltaTable(folder, version=2).create_checkpoint()
    for number in (0, 1):
        (log / f"{number:020d}.json").unlink()
    with pytest.raises(TableNotFound) as caught:
        delta.open(f"delta:{folder}@v1")
    assert "versions 2 to 3; earlier ones went with the log's clean-up" in caught.value.lines()[2]
    assert sum(batch.num_rows for batch in delta.open(f"delta:{folder}@v2").read()) == 2


@pytest.mark.parametrize("suffix", ["2024-01-01T00:00:00Z", "2024-01-01", "v-1", "latest", "vx", ""])
def test_a_suffix_that_is_no_version_says_how_one_is_written(folder: Path, suffix: str) -> None:
    with pytest.raises(TableNotFound) as caught:
        delta.open(f"delta:{folder}@{suffix}")
    assert caught.value.lines() == (
        f"@{suffix} names no version of a table",
        f"at: delta:{folder}@{suffix}",
        "next: versions are numbers: @v3 is the newest of versions 0 to 3",
    )


def test_an_at_sign_in_a_path_is_part_of_it(tmp_path: Path) -> None:
    uri = f"delta:{tmp_path / 'shop@home'}"
    delta.create_table(uri, record(field("id", "long")))
    assert delta.open(uri).uri == uri
    with pytest.raises(TableNotFound, match="no such folder"):
        delta.open(f"delta:{tmp_path / 'nobody@home'}")


_OPENING = """
import sys
from lakeevolve.errors import LakeEvolveError
from lakeevolve.tables import open_table
try:
    open_table(sys.argv[1])
except LakeEvolveError as error:
    print(*error.lines(), sep="\\n")
"""


def opening(uri: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "RUST_"))}
    # Nobody there to sign in with, and no waiting for it.
    kept |= {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"} | more
    return subprocess.run([sys.executable, "-c", _OPENING, uri], capture_output=True, text=True, timeout=120, env=kept)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("delta:s3://bucket/shop/orders", "delta:s3://bucket/shop/orders"),
        ("delta:s3://AKIAXXXXXXXXXXXX:hunter22hunter@bucket/orders", "delta:s3://bucket/orders"),
        ("delta:az://box/orders?sig=hunter22hunter", "delta:az://box/orders"),
    ],
)
def test_a_store_without_credentials_is_said_in_three_lines_without_any(uri: str, shown: str) -> None:
    done = opening(uri)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "the table cannot be opened: no credentials for the store were found",
        f"at: {shown}",
        "next: set them in the environment (AWS_*, AZURE_*, GOOGLE_*), or pass storage_options",
    ]


def test_whoever_asks_for_the_log_of_delta_rs_gets_it() -> None:
    assert "WARN" in opening("delta:s3://bucket/shop/orders", RUST_LOG="warn").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Kernel error -> Generic S3 error\n  ↳ Error performing GET", "the store did not answer"),
        ("Generic HdfsObjectStore error\n  ↳ No NameNode hosts found", "the store did not answer"),
        ("Generic MicrosoftAzure error\n  ↳ Account must be specified", "no credentials"),
    ],
)
def test_what_a_store_says_is_told_from_what_delta_rs_says(text: str, said: str) -> None:
    with pytest.raises(CatalogUnavailable, match=said), guard("delta:s3://b/t"):
        raise OSError(text)


def test_a_handle_sees_what_was_committed_since_and_reads_no_log_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.tables.delta import table as module

    reads = []
    real = module.read_snapshot
    monkeypatch.setattr(module, "read_snapshot", lambda *how: (reads.append(how[1]), real(*how))[1])
    table = delta.open(f"delta:{folder}")
    table.refresh()
    assert reads == [3]
    delta.append(f"delta:{folder}", pa.table({"id": pa.array([9])}))
    table.refresh()
    assert table.state.position == 4
    assert len(table.files()) == 4
    table.refresh()
    assert reads == [3, 4]


def test_a_handle_sees_that_another_table_took_the_place(folder: Path) -> None:
    import shutil

    table = delta.open(f"delta:{folder}")
    before = table.state
    shutil.rmtree(folder)
    delta.create_table(f"delta:{folder}", record(field("other", "string")))
    for number in range(3):
        delta.append(f"delta:{folder}", pa.table({"other": [str(number)]}))
    table.refresh()
    assert table.state.id != before.id
    assert [f.name for f in table.schema.fields] == ["other"]
