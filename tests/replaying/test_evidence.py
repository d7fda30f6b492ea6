"""Evidence: sealed, readable again, and without anything that must not be in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.errors import ConfigError, ReplayMismatch, SourceError, SourceNotFound
from lakeevolve.redaction import public_uri
from lakeevolve.replaying.evidence import Evidence, load
from lakeevolve.replaying.verify import verify

FIELDS = {
    "format_version",
    "table",
    "from",
    "to",
    "versions",
    "files",
    "mismatches",
    "readers",
    "predicates",
    "oracle",
    "consumers",
    "environment",
    "seal",
}


@pytest.fixture
def table(make: Any) -> Any:
    found = make.table([make.version(1, make.schema({"name": "id", "type": "long"}))])
    found.append([{"id": i} for i in range(4)], "s3://bucket/one.parquet")
    found.evolve(make.schema({"name": "id", "type": "long"}, {"name": "c", "type": "string", "default": "x"}))
    return found


def test_its_fields_are_the_published_ones(table: Any) -> None:
    record = verify(table).evidence.to_json()
    assert record.keys() == FIELDS
    assert record["format_version"] == 1
    assert record["from"] == {"version": 1, "digest": table.versions[0].digest}
    assert record["to"] == {"version": 2, "digest": table.versions[1].digest}
    (file,) = record["files"]
    assert file.keys() == {"path", "version", "inferred", "rows", "digest"}
    assert (file["version"], file["rows"], len(file["digest"])) == (1, 4, 64)
    assert record["environment"].keys() >= {"python", "lakeevolve", "pyarrow"}
    assert [v["number"] for v in record["versions"]] == [1, 2]


def test_it_is_saved_and_read_again(table: Any, tmp_path: Path) -> None:
    evidence = verify(table).evidence
    path = evidence.save(tmp_path / "deep" / "evidence.json")
    again = load(path)
    assert again.to_json() == evidence.to_json()
    assert again.intact
    assert again.digest == evidence.digest
    assert [p.name for p in path.parent.iterdir()] == ["evidence.json"]


def test_a_place_that_cannot_be_written_is_a_clean_error(table: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        verify(table).evidence.save(tmp_path / "file" / "evidence.json")


def test_a_change_breaks_the_seal(table: Any, tmp_path: Path) -> None:
    path = verify(table).evidence.save(tmp_path / "evidence.json")
    record = json.loads(path.read_text())
    record["files"][0]["rows"] = 3
    path.write_text(json.dumps(record))
    assert not Evidence.from_json(record).intact
    with pytest.raises(SourceError, match="seal"):
        load(path)
    assert not replace(verify(table).evidence, format_version=2).intact


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": 1}', '{"format_version": 9}', "\x00"])
def test_what_is_no_evidence_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(text)
    with pytest.raises(SourceError):
        load(path)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("s3://key:secret@bucket/orders?sig=abc#x", "s3://bucket/orders"),
        ("delta:s3://key:se@cret@bucket/orders", "delta:s3://bucket/orders"),
        ("delta:/data/orders", "delta:/data/orders"),
        ("iceberg:prod/shop.orders@123", "iceberg:prod/shop.orders@123"),
        ("file:///data/a@b/c", "file:///data/a@b/c"),
    ],
)
def test_credentials_are_left_out_of_uris(uri: str, public: str) -> None:
    assert public_uri(uri) == public


def test_no_credential_of_a_table_reaches_the_evidence(table: Any) -> None:
    table.uri = "delta:s3://AKIA:hunter2@bucket/orders?X-Amz-Signature=feed"
    old, new = "s3://bucket/one.parquet", "s3://AKIA:hunter2@bucket/one.parquet?X-Amz-Signature=feed"
    table.rows[new] = table.rows.pop(old)
    table.states[-1] = [replace(table.states[-1][0], path=new)]
    table.wrong = lambda _path, part: part.slice(1)
    result = verify(table)
    assert not result.ok
    text = json.dumps(result.evidence.to_json())
    assert not any(word in text for word in ("AKIA", "hunter2", "feed"))


def test_two_tables_whose_files_read_the_same_have_the_same_digest(make: Any, table: Any) -> None:
    table.append([{"id": 9, "c": "y"}], "s3://bucket/two.parquet")
    other = make.table([make.version(1, table.versions[1].schema)], format="delta", ordered=False)
    other.append([{"id": 9, "c": "y"}], "a")
    other.append([{"id": i, "c": "x"} for i in range(4)], "b")
    assert verify(other).evidence.digest == verify(table).evidence.digest
    other.append([{"id": 10, "c": "y"}], "c")
    assert verify(other).evidence.digest != verify(table).evidence.digest


def test_a_mismatch_can_be_raised(table: Any) -> None:
    verify(table).raise_for_mismatch()
    table.wrong = lambda _path, part: part.slice(1)
    with pytest.raises(ReplayMismatch, match="the row is missing"):
        verify(table).raise_for_mismatch()
