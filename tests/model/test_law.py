"""The law of diffs: changes lead from one schema to the other exactly, and back; nothing is lost in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from lakeevolve.avro.parse import parse
from lakeevolve.model.apply import apply_changes
from lakeevolve.model.change_json import change_from_json, change_to_json
from lakeevolve.model.diff import diff
from lakeevolve.model.same import same_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.sentence import describe_change
from lakeevolve.testing import evolutions, schemas

HISTORIES = Path(__file__).resolve().parents[3] / "shared" / "histories"

many = settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_law(old: Schema, new: Schema) -> None:
    changes = diff(old, new).changes
    there = apply_changes(changes, old)
    assert there == new
    assert same_type(there.root, new.root)
    assert there.digest == new.digest
    back = apply_changes([change.reverse() for change in reversed(changes)], new)
    assert back == old
    assert same_type(back.root, old.root)


@many
@given(evolutions())
def test_changes_lead_from_a_schema_to_what_became_of_it_and_back(pair: tuple[Schema, Schema]) -> None:
    check_law(*pair)


@many
@given(schemas(), schemas())
def test_changes_lead_from_any_schema_to_any_other_and_back(old: Schema, new: Schema) -> None:
    check_law(old, new)


@many
@given(evolutions())
def test_every_change_survives_json_and_has_a_sentence(pair: tuple[Schema, Schema]) -> None:
    for change in diff(*pair).changes:
        written = json.loads(json.dumps(change_to_json(change)))
        read = change_from_json(written)
        assert read == change
        assert change_to_json(read) == written
        assert describe_change(change)


@many
@given(schemas())
def test_a_schema_differs_in_nothing_from_itself_read_anew(schema: Schema) -> None:
    anew = parse(json.loads(json.dumps(schema.to_json())))
    assert anew == schema
    assert diff(schema, anew).changes == ()
    assert diff(schema, anew).suggestions == ()


@pytest.mark.skipif(not HISTORIES.is_dir(), reason="the shared histories are not here")
@pytest.mark.parametrize(
    "history",
    sorted(path.parent.name for path in HISTORIES.glob("*/001.avsc")) if HISTORIES.is_dir() else [],
)
def test_every_step_of_a_real_history_is_told_exactly(history: str) -> None:
    before: Schema | None = None
    for file in sorted((HISTORIES / history).glob("*.avsc")):
        schema = parse(file.read_text(), lenient=True)
        if before is not None:
            check_law(before, schema)
            for change in diff(before, schema).changes:
                assert change_from_json(json.loads(json.dumps(change_to_json(change)))) == change
        before = schema
