"""Committed records of a contract: each check runs them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.errors import ConfigError
from lakeevolve.rules.contract import load_contract


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *fields]}


V1 = record({"name": "amount", "type": "int"})
V2 = record({"name": "total", "type": ["null", "long"], "default": None, "aliases": ["amount"]})
READER = record({"name": "total", "type": ["null", "double"], "default": None, "aliases": ["amount"]})
OLD = {"version": 1, "record": {"id": 1, "amount": 3}, "expect": {"id": 1, "total": 3.0}}
NEW = {"record": {"id": 2, "total": None}, "expect": {"id": 2, "total": None}}


def contract(*fixtures: Any, **more: Any) -> dict[str, Any]:
    return {"contract": "billing", "reader": READER, "fixtures": list(fixtures), **more}


def found(candidate: Any, *fixtures: Any, **more: Any) -> list[tuple[str, str]]:
    report = le.check(candidate, [V1], contracts=[load_contract(contract(*fixtures, **more))])
    return [(f.path, f.message) for f in report.findings if f.rule == "CONTRACT-FIXTURE-DIFFERS"]


def test_an_old_record_and_a_future_event_that_read_as_expected_say_nothing() -> None:
    assert found(V2, OLD, NEW) == []


def test_a_record_that_reads_otherwise_is_named_without_its_values() -> None:
    ((path, said),) = found(V2, {**OLD, "expect": {"id": 1, "total": 31415.0}}, NEW)
    assert path == "total"
    assert said == "billing, fixture 1 (version 1): it reads otherwise than expected"


def test_what_is_held_back_or_cannot_be_read_may_be_expected() -> None:
    assert found(V2, OLD, {**NEW, "expect": "contract-update-required"}, accepts=[1]) == []
    assert found(V2, {**NEW, "expect": "contract-update-required"}) != []
    assert found(V2, NEW, accepts=[1]) != []
    assert found(V2, {**OLD, "expect": "cannot-read"}) != []
    text = record({"name": "total", "type": "string"})
    assert found(text, {"record": {"id": 1, "total": "x"}, "expect": "cannot-read"}) == []
    assert found(text, {"record": {"id": 1, "total": "x"}, "expect": {"id": 1}}) != []


def test_a_record_that_is_none_of_its_version_is_said_to_be() -> None:
    ((_, said),) = found(V2, {**OLD, "record": {"id": "one"}})
    assert "none of its version" in said
    assert found(V2, {**OLD, "version": 9}) == [], "its version is yet to come"


def test_two_fixtures_have_two_fingerprints_and_a_contract_comes_back_from_its_json() -> None:
    wrong = {**OLD, "expect": {"id": 9, "total": 3.0}}
    made = load_contract(contract(wrong, wrong))
    report = le.check(V2, [V1], contracts=[made])
    assert len({f.fingerprint for f in report.findings if f.rule == "CONTRACT-FIXTURE-DIFFERS"}) == 2
    assert load_contract(made.to_json()) == made


@pytest.mark.parametrize("bad", [3, {}, [3], [{"record": {}}], [{**OLD, "version": 0}], [{**OLD, "expect": "fine"}]])
def test_what_is_no_fixture_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="a fixture of a contract"):
        load_contract({**contract(), "fixtures": bad or [{}]})


def test_a_contract_without_fixtures_loads_no_arrow() -> None:
    code = (
        "import sys, lakeevolve as le\n"
        f"le.check({V2!r}, [{V1!r}], contracts=[{contract()!r}])\n"
        "assert 'pyarrow' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
