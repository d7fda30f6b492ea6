"""A schema is loaded from wherever it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import fastavro
import pytest

import lakeevolve as le
from lakeevolve.errors import SchemaError, SourceError, SourceNotFound, UnknownScheme

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def avsc(tmp_path: Path) -> Path:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    return file


def test_text_values_paths_and_schemas_are_the_same_schema(avsc: Path) -> None:
    wanted = le.load(ORDER)
    assert le.load(json.dumps(ORDER)) == wanted
    assert le.load(avsc) == wanted
    assert le.load(str(avsc)) == wanted
    assert le.load(f"file:{avsc}") == wanted
    assert le.load(wanted) is wanted
    assert le.load('"string"').root == le.load('{"type": "string"}').root


def test_a_schema_is_loaded_from_a_container_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.avro"
    with file.open("wb") as out:
        fastavro.writer(out, ORDER, [{"id": 1}])
    assert le.load(f"avro:{file}") == le.load(ORDER)
    with pytest.raises(SourceNotFound):
        le.load(f"avro:{tmp_path / 'nowhere.avro'}")


def test_a_schema_is_loaded_as_it_stood_at_a_revision(
    avsc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], check=True)
    avsc.write_text(json.dumps({**ORDER, "doc": "changed"}))
    assert le.load("git:HEAD:order.avsc") == le.load(ORDER)
    with pytest.raises(SourceNotFound):
        le.load("git:HEAD:nowhere.avsc")
    with pytest.raises(SourceNotFound):
        le.load("git:nosuchrevision:order.avsc")
    with pytest.raises(SourceError):
        le.load("git:order.avsc")


@pytest.mark.parametrize("source", [17, None, b"{}", 1.5])
def test_what_is_no_source_is_refused(source: object) -> None:
    with pytest.raises(SourceError):
        le.load(source)


def test_a_folder_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        le.load(tmp_path)
    binary = tmp_path / "binary.avsc"
    binary.write_bytes(b"\xff\xfe\x00\x00")
    with pytest.raises(SourceError):
        le.load(binary)


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(UnknownScheme) as caught:
        le.load("hudi:orders")
    assert caught.value.hint is not None
    assert "iceberg" in caught.value.hint


def test_an_error_in_a_file_names_the_file_and_the_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.avsc"
    file.write_text('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "nosuch"}]}')
    with pytest.raises(SchemaError) as caught:
        le.load(file)
    assert "bad.avsc" in str(caught.value)
    assert "$.fields[0].type" in str(caught.value)
