from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.model.schema import Schema
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.modes import Report, check

Make = Callable[..., Schema]


def amount(meaning: Any = None, type_: Any = "double", **more: Any) -> dict[str, Any]:
    stated = {} if meaning is None else {"lakeevolve.meaning": meaning}
    return {"name": "amount", "type": type_, **stated, **more}


def meanings(report: Report) -> list[Finding]:
    return [found for found in report.findings if found.rule.startswith("MEANING")]


def test_another_meaning_is_an_error_although_the_type_stays(record: Make) -> None:
    report = check(record(amount("USD")), [record(amount("EUR"))], "FULL")
    (found,) = meanings(report)
    assert report.compatible
    assert (found.rule, found.severity, found.path) == ("MEANING-CHANGED", "error", "amount")
    assert (found.from_, found.to, found.versions) == ("EUR", "USD", (1,))


def test_a_meaning_may_be_an_object_and_its_key_order_does_not_count(record: Make) -> None:
    old, new = {"unit": "EUR", "scale": 2}, {"scale": 2, "unit": "EUR"}
    assert meanings(check(record(amount(new)), [record(amount(old))])) == []
    (found,) = meanings(check(record(amount({"unit": "USD"})), [record(amount(old))]))
    assert found.to == '{"unit":"USD"}'


def test_a_meaning_that_goes_is_a_warning_and_one_that_comes_an_info(record: Make) -> None:
    (gone,) = meanings(check(record(amount()), [record(amount("EUR"))]))
    assert (gone.rule, gone.severity) == ("MEANING-REMOVED", "warning")
    (come,) = meanings(check(record(amount("EUR")), [record(amount())]))
    assert (come.rule, come.severity) == ("MEANING-ADDED", "info")


def test_other_properties_are_no_meaning(record: Make) -> None:
    assert meanings(check(record(amount("EUR", x=1)), [record(amount("EUR", x=2))])) == []


@pytest.mark.parametrize("new", ["double", "long", ["null", "double"]])
def test_the_meaning_may_stand_on_the_type(record: Make, new: Any) -> None:
    def stated(meaning: str, type_: Any) -> Any:
        if isinstance(type_, list):
            return ["null", stated(meaning, type_[1])]
        return {"type": type_, "lakeevolve.meaning": meaning}

    old = record(amount(type_=stated("EUR", "int")))
    (found,) = meanings(check(record(amount(type_=stated("USD", new))), [old], "NONE"))
    assert (found.rule, found.path) == ("MEANING-CHANGED", "amount")


def test_a_renamed_field_keeps_its_meaning_or_changes_it(record: Make) -> None:
    old = record(amount("EUR"))
    renamed = {"name": "total", "type": "double", "aliases": ["amount"], "lakeevolve.meaning": "USD"}
    (found,) = meanings(check(record(renamed), [old]))
    assert (found.path, found.from_, found.to) == ("total", "EUR", "USD")


def test_a_transitive_mode_compares_with_every_version(record: Make) -> None:
    versions = [record(amount("EUR")), record(amount("EUR")), record(amount("USD"))]
    assert meanings(check(record(amount("USD")), versions, "BACKWARD")) == []
    (found,) = meanings(check(record(amount("USD")), versions, "BACKWARD_TRANSITIVE"))
    assert found.versions == (1, 2)
