"""The client against answers of each product, member for member as its documentation shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import lakeevolve as le
from lakeevolve.errors import SourceError, SourceNotFound
from lakeevolve.sources import expand
from lakeevolve.sources.registry import Reference, open_registry

from .conftest import ADDRESS, Answer, Told, record

ANSWERS: dict[str, Any] = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


@pytest.fixture(params=[name for name in ANSWERS if name != "about"])
def product(request: pytest.FixtureRequest, told: Told) -> Told:
    answers = ANSWERS[request.param]

    def answer(method: str, path: str) -> Answer:
        key = f"{method} {urlsplit(path).path}".replace("orders-value/versions/2", "orders-value/versions/latest")
        return Answer(*answers[key]) if key in answers else Answer(404, {"error_code": 404, "message": f"not {key}"})

    told.answer = answer
    return told


def test_versions_with_their_references_are_read(product: Told) -> None:
    newest = le.load(record("Order", ("id", "long"), ("to", ADDRESS)))
    assert le.load("registry:orders-value@latest") == newest
    assert [each.record.name for each in expand("registry:orders-value@*")[:1]] == ["shop.Order"]
    with open_registry() as registry:
        assert registry.subjects() == ["address", "orders-value"]
        assert registry.version("orders-value").references == (Reference("shop.Address", "address", 1),)
        assert registry.users("address", 1) == [("orders-value", 2)]


def test_levels_of_the_subject_and_of_all_are_read(product: Told) -> None:
    with open_registry() as registry:
        assert registry.level("orders-value") == ("BACKWARD", False)
        assert registry.level("address") == ("FULL_TRANSITIVE", True)


def test_what_is_not_there_is_no_fault_of_the_registry(product: Told) -> None:
    for source in ("registry:nope", "registry:orders-value@9"):
        with pytest.raises(SourceNotFound, match="does not have it"):
            le.load(source)


def test_its_verdict_is_read_also_where_only_the_newest_version_can_be_asked_about(product: Told) -> None:
    with open_registry() as registry:
        assert registry.accepts("orders-value", json.dumps(record("Order", ("id", "string")))) is False


def test_a_schema_is_registered_or_refused_in_the_registrys_words(product: Told) -> None:
    references = [Reference("shop.Address", "address", 1)]
    with open_registry() as registry:
        assert registry.register("new-value", json.dumps(record("N", ("to", "Address"))), references) in (4, 100005)
        sent = json.loads(product.asked[-1][3])
        assert sent["references"] == [{"name": "shop.Address", "subject": "address", "version": 1}]
        assert json.loads(sent["schema"])["name"] == "N"
        with pytest.raises(SourceError, match=r"refuses the schema as incompatible: .*[Ii]ncompatible"):
            registry.register("orders-value", "{}")
