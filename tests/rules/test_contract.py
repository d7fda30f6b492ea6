"""Contracts: what one consumer reads, held against a candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.errors import ConfigError
from lakeevolve.rules.contract import Contract, load_contract


def schema(*fields: Any) -> Any:
    return le.load({"type": "record", "name": "Order", "fields": list(fields)})


ID = {"name": "id", "type": "long"}
TOTAL = {"name": "total", "type": "double", "lakeevolve.meaning": "EUR"}
OLD = schema(ID, TOTAL, {"name": "note", "type": ["null", "string"], "default": None})


def contract(**more: Any) -> Contract:
    field = {"path": "total", "type": "double", "required": True, "meaning": "EUR"}
    return load_contract({"contract": "billing", "owner": "finance", "fields": [field], **more})


def found(candidate: Any, *contracts: Any) -> set[tuple[str, str]]:
    report = le.check(candidate, [OLD], "NONE", contracts=contracts)
    told = [each for each in report.findings if each.rule.startswith("CONTRACT")]
    assert all(each.consumers == ("billing",) and "billing" in each.breaks for each in told)
    return {(each.rule, each.path) for each in told}


@pytest.mark.parametrize(
    ("candidate", "told"),
    [
        (schema(ID, TOTAL), set()),
        (schema(ID, {**TOTAL, "type": "float"}), set()),
        (schema(ID), {("CONTRACT-FIELD-GONE", "total")}),
        (schema(ID, {**TOTAL, "type": "string"}), {("CONTRACT-CANNOT-READ", "total")}),
        (schema(ID, {**TOTAL, "type": ["null", "double"]}), {("CONTRACT-FIELD-OPTIONAL", "total")}),
        (schema(ID, {**TOTAL, "lakeevolve.meaning": "USD"}), {("CONTRACT-MEANING-CHANGED", "total")}),
        (schema(ID, {"name": "total", "type": "double"}), set()),
    ],
)
def test_a_consumer_is_told_what_breaks_it_and_nothing_else(candidate: Any, told: Any) -> None:
    assert found(candidate, contract()) == told


def test_a_version_that_is_not_accepted_needs_an_update_of_the_contract() -> None:
    candidate = schema(ID, TOTAL)
    assert found(candidate, contract(accepts=[1, 2])) == set()
    assert found(candidate, contract(accepts=[1])) == {("CONTRACT-UPDATE-REQUIRED", "")}
    assert contract(accepts=[1]).accepts_version(1)
    assert contract().accepts_version(99)


def test_a_reader_schema_is_a_contract_too() -> None:
    reader = {"type": "record", "name": "Order", "fields": [{"name": "total", "type": "double"}]}
    given = {"contract": "billing", "reader": reader}
    assert found(schema(ID, TOTAL), given) == set()
    assert found(schema(ID, {**TOTAL, "name": "sum"}), given) == {("CONTRACT-CANNOT-READ", "total")}


def test_a_review_says_field_by_field_what_is_read_ignored_and_defaulted_and_who_breaks() -> None:
    reader = schema(
        {"name": "total", "type": "double"},
        {"name": "channel", "type": "string", "default": "shop"},
    )
    lines = Contract("billing", reader=reader).review(schema(ID, {**TOTAL, "type": "float"}), OLD)
    told = {(line.direction, line.path): (line.action, line.safe, line.stable) for line in lines}
    assert told["backward", "total"] == ("promoted", True, True)
    assert told["backward", "channel"] == ("filled with its default", True, True)
    assert told["backward", "id"] == ("skipped", True, False)
    assert told["forward", "note"] == ("skipped", True, False)
    assert all(line.why for line in lines)
    broken = contract().review(schema(ID))
    assert [(line.path, line.action, line.safe) for line in broken if not line.safe] == [("total", "gone", False)]
    assert "billing breaks" in broken[0].why


def test_a_contract_is_read_from_yaml_and_json(tmp_path: Path) -> None:
    (tmp_path / "reader.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": [ID]}))
    (tmp_path / "billing.yaml").write_text("contract: billing\nreader: reader.avsc\naccepts: [1, 2]\nresult: rows.2\n")
    read = load_contract(tmp_path / "billing.yaml")
    assert (read.name, read.accepts, read.result, read.reader) == ("billing", (1, 2), "rows.2", schema(ID))
    (tmp_path / "billing.json").write_text(json.dumps({"contract": "billing", "fields": [{"path": "id"}]}))
    assert load_contract(str(tmp_path / "billing.json")).fields[0].path == "id"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({}, "whose it is"),
        ({"contract": "a"}, "either a reader schema or fields"),
        ({"contract": "a", "fields": [{"path": "x"}], "reader": "x.avsc"}, "either a reader schema or fields"),
        ({"contract": "a", "fields": [{"path": "x"}], "acepts": [1]}, "has no 'acepts'"),
        ({"contract": "a", "fields": [{"path": "x"}], "accepts": ["1"]}, "numbers of versions"),
        ({"contract": "a", "fields": [{"typ": "x"}]}, "has a path"),
        ({"contract": "a", "fields": [{"path": "x", "type": "nope"}]}, "cannot be read"),
    ],
)
def test_what_is_no_contract_is_a_clean_error(record: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_contract(record)


@pytest.mark.parametrize(
    "record",
    [
        {"contract": "a", "fields": [{"path": "x"}]},
        {
            "contract": "a",
            "owner": "b",
            "subject": "c",
            "fields": [{"path": "x", "type": ["null", "long"], "required": True, "meaning": {"unit": "EUR"}}],
            "accepts": [1, 3],
            "mode": "FULL",
            "result": "a-rows.2",
            "event_id": "id",
        },
        {"contract": "a", "reader": {"type": "record", "name": "n.R", "fields": [{"name": "x", "type": "int"}]}},
    ],
)
def test_a_contract_written_out_is_the_contract_again(record: Any) -> None:
    made = load_contract(record)
    assert load_contract(json.loads(json.dumps(made.to_json()))) == made
