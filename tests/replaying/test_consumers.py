"""Consumers: whether every row resolves to the schema that each declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.model.schema import Schema
from lakeevolve.replaying.fold import fold
from lakeevolve.replaying.prove import prove_staged
from lakeevolve.replaying.verify import verify
from lakeevolve.tables.base import DataFile, Evolution

ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


@dataclass
class Contract:
    name: str
    reader: Schema | None


@pytest.fixture(params=[True, False])
def table(request: Any, make: Any) -> Any:
    found = make.table([make.version(1, make.schema(ID, NOTE))], ordered=request.param, format="delta")
    found.append([{"id": 1, "note": "a"}, {"id": 2, "note": "b"}], "one")
    found.append([{"id": 3, "note": "c"}, {"id": 4, "note": None}, {"id": 5, "note": None}], "two")
    return found


def test_a_consumer_that_can_read_every_row_is_recorded(table: Any, make: Any) -> None:
    result = verify(table, contracts=[Contract("billing", make.schema(ID)), Contract("later", None)])
    assert result.ok
    assert result.evidence.to_json()["consumers"] == [
        {"name": "billing", "direction": "backward", "verdict": "reads"},
        {"name": "later", "direction": "backward", "verdict": "not-replayed"},
    ]


def test_the_first_row_that_a_consumer_cannot_read_is_named(table: Any, make: Any) -> None:
    strict = make.schema(ID, {"name": "note", "type": "string"})
    result = verify(table, contracts=[Contract("billing", strict), Contract("other", make.schema(ID, NOTE))])
    assert [(m.file, m.row, m.path, m.reader) for m in result.mismatches] == [("two", 1, "note", "billing")]
    assert [c["verdict"] for c in result.evidence.consumers] == ["cannot-read", "reads"]
    # The table itself reads right.
    assert result.evidence.readers[0]["verdict"] == "equal"


def test_a_consumer_that_can_read_no_row_is_told_once(table: Any, make: Any) -> None:
    result = verify(table, contracts=[Contract("billing", make.schema({"name": "gone", "type": "string"}))])
    assert [(m.file, m.row, m.path) for m in result.mismatches] == [(None, None, "gone")]
    assert "billing cannot read the table" in result.mismatches[0].reason


def test_contracts_of_fields_are_replayed_too(table: Any, make: Any) -> None:
    note = {"path": "note", "type": "string", "required": True}
    given = [
        {"contract": "strict", "fields": [note]},
        {"contract": "loose", "fields": [{"path": "note"}]},
        {"contract": "lost", "fields": [{"path": "gone"}]},
    ]
    result = verify(table, contracts=given)
    assert {(m.file, m.row, m.path, m.reader) for m in result.mismatches} == {
        ("two", 1, "note", "strict"),
        (None, None, "gone", "lost"),
    }
    assert [c["verdict"] for c in result.evidence.consumers] == ["cannot-read", "reads", "cannot-read"]


def test_rows_are_proved_in_the_forward_direction(table: Any, make: Any) -> None:
    target = make.schema(ID, NOTE, {"name": "c", "type": "int", "default": 1})
    strict = make.version(1, make.schema(ID, {"name": "note", "type": "string"}))
    versions = (*table.versions, make.version(2, target))

    def convert(file: DataFile) -> Iterator[pa.RecordBatch]:
        return (fold(versions, 1, 2)(batch) for batch in table.raw(file))

    evolution = Evolution(table.schema, target, [], {}, {}, list(table.files()), convert)
    staged = make.staged(table, evolution, versions)
    assert prove_staged(table, staged, evolution, versions, protects=table.versions).ok
    result = prove_staged(table, staged, evolution, versions, protects=[strict])
    assert [(m.file, m.row, m.path, m.reader) for m in result.mismatches] == [("two", 1, "note", "version 1")]
    assert result.evidence.consumers == [{"name": "version 1", "direction": "forward", "verdict": "cannot-read"}]
