from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.suspect import CLOSE, SOME, Suggestion, likeness, words

Make = Callable[..., Schema]


def suspicions(old: Schema, new: Schema) -> tuple[Suggestion, ...]:
    found = diff(old, new)
    assert not any(type(change).__name__ == "RenameField" for change in found.changes), "a rename was guessed"
    return found.suggestions


def test_the_same_type_in_the_same_place_is_strongly_suspected(record: Make) -> None:
    (found,) = suspicions(record(("id", "string"), ("amount", "double")), record(("id", "string"), ("total", "double")))
    assert (found.old_path, found.new_path, found.strong, found.alias) == ("amount", "total", True, "amount")
    assert found.fix == 'add "aliases": ["amount"] to the field total'


def test_a_similar_name_is_enough_in_another_place(record: Make) -> None:
    old = record(("customer_id", "string"), ("a", "int"), ("b", "int"))
    (found,) = suspicions(old, record(("a", "int"), ("b", "int"), ("customerId", "string")))
    assert found.strong
    assert "the same words" in found.reason


def test_null_does_not_keep_a_type_from_matching(record: Make) -> None:
    (found,) = suspicions(record(("amount", "double")), record(("total", ["null", "double"], None)))
    assert found.strong


def test_a_promotable_type_makes_a_weak_suspicion(record: Make) -> None:
    (found,) = suspicions(record(("item_count", "int"), ("a", "int")), record(("a", "int"), ("itemCount", "long")))
    assert not found.strong


def test_an_equal_doc_makes_a_weak_suspicion(record: Make) -> None:
    old = record({"name": "x", "type": "int", "doc": "what was paid"}, ("k", "int"))
    (found,) = suspicions(old, record(("k", "int"), {"name": "amount", "type": "int", "doc": "what was paid"}))
    assert not found.strong


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([("name", "string"), ("k", "int")], [("k", "int"), ("phone", "string")]),
        ([("amount", "double")], [("amounts", {"type": "array", "items": "double"})]),
        ([("a", "int"), ("k", "int")], [("k", "int")]),
        ([("k", "int")], [("k", "int"), ("a", "int")]),
    ],
)
def test_unlike_fields_are_not_suspected(record: Make, old: list[Any], new: list[Any]) -> None:
    assert suspicions(record(*old), record(*new)) == ()


def test_each_field_is_in_one_suspicion_only_and_the_best_wins(record: Make) -> None:
    old = record(("user_id", "string"), ("user_name", "string"))
    found = suspicions(old, record(("userName", "string"), ("userId", "string")))
    assert [(s.old_path, s.new_path) for s in found] == [("user_name", "userName"), ("user_id", "userId")]


def test_a_place_counts_only_where_as_many_fields_went_as_came(record: Make) -> None:
    old = record(("a", "string"), ("b", "string"), ("k", "int"))
    assert suspicions(old, record(("x", "string"), ("k", "int"))) == ()


def test_nested_fields_are_suspected_under_their_own_paths(record: Make) -> None:
    def order(name: str, inner: str) -> Schema:
        fields = [{"name": inner, "type": "string"}]
        return record({"name": name, "type": {"type": "record", "name": "A", "fields": fields}, "aliases": ["addr"]})

    (found,) = suspicions_with_renames(order("addr", "zip"), order("address", "zip_code"))
    assert (found.old_path, found.new_path) == ("addr.zip", "address.zip_code")


def suspicions_with_renames(old: Schema, new: Schema) -> tuple[Suggestion, ...]:
    return diff(old, new).suggestions


def test_an_alias_or_a_declaration_ends_the_suspicion(record: Make) -> None:
    old = record(("amount", "double"))
    assert diff(old, record({"name": "total", "type": "double", "aliases": ["amount"]})).suggestions == ()
    assert diff(old, record(("total", "double")), {"amount": "total"}).suggestions == ()


def test_a_suspicion_goes_into_json(record: Make) -> None:
    (found,) = suspicions(record(("amount", "double")), record(("total", "double")))
    assert found.to_json()["old"] == "amount"
    assert found.to_json()["fix"] == found.fix


def test_very_wide_records_cost_little(record: Make) -> None:
    old = record(*((f"field_{n}", "int") for n in range(400)), ("k", "int"))
    new = record(*((f"field{n}", "int") for n in range(400)), ("k", "int"))
    assert len(suspicions(old, new)) == 400


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("callset_id", ("callset", "id")),
        ("callsetId", ("callset", "id")),
        ("CallsetID", ("callset", "id")),
        ("HTTPServer2x", ("http", "server", "2", "x")),
        ("größe", ("größe",)),
    ],
)
def test_words_are_found_in_every_style(name: str, expected: tuple[str, ...]) -> None:
    assert words(name) == expected


def test_likeness_is_between_nothing_and_all() -> None:
    assert likeness("sikkerhetsniva", "sikkerhetsnivaa") > CLOSE
    assert likeness("zip", "zip_code") >= CLOSE
    assert likeness("amount", "total") < SOME
    assert likeness("_", "x") == 0
