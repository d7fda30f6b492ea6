from __future__ import annotations

from collections.abc import Callable

import pytest

from lakeevolve.model.schema import Schema
from lakeevolve.rules.modes import check
from lakeevolve.rules.rollout import next_subject, rollout

Make = Callable[..., Schema]


@pytest.mark.parametrize(
    ("mode", "backward", "forward", "order"),
    [
        ("BACKWARD", True, True, "readers-first"),
        ("BACKWARD", True, False, "readers-first"),
        ("BACKWARD", False, True, "writers-first"),
        ("FORWARD", True, True, "writers-first"),
        ("FORWARD", False, True, "writers-first"),
        ("FORWARD_TRANSITIVE", True, False, "readers-first"),
        ("FULL", True, True, "any"),
        ("FULL_TRANSITIVE", True, False, "readers-first"),
        ("NONE", True, True, "any"),
        ("NONE", True, False, "readers-first"),
        ("NONE", False, True, "writers-first"),
        *((mode, False, False, "none") for mode in ("NONE", "BACKWARD", "FORWARD", "FULL")),
    ],
)
def test_the_order_follows_from_what_can_be_read(mode: str, backward: bool, forward: bool, order: str) -> None:
    assert rollout(mode, backward, forward, "orders").order == order


def test_the_first_sentence_says_who_moves_and_the_second_where_the_table_stands() -> None:
    found = rollout("BACKWARD", True, False, "orders")
    assert found.sentences[0].startswith("readers first:")
    assert found.sentences[1] == "evolve the table before the producers move"
    assert rollout("FORWARD", False, True, "orders").sentences[0].startswith("writers first:")
    assert rollout("FULL", True, True, "orders").sentences[0].startswith("any order:")


def test_an_order_that_the_mode_does_not_allow_is_said_to_be_none_of_its() -> None:
    assert "FORWARD does not allow" in rollout("FORWARD", True, False, "orders").sentences[-1]


def test_where_no_order_works_a_new_subject_is_proposed(record: Make) -> None:
    report = check(record(("a", "string")), [record(("a", "int"))], "BACKWARD", subject="orders-value")
    assert report.order == "none"
    assert "orders-value-v2" in report.rollout[0]
    (found,) = (found for found in report.findings if found.rule == "ROLLOUT-NO-ORDER")
    assert "orders-value-v2" in found.fix


@pytest.mark.parametrize(
    ("subject", "following"),
    [("orders", "orders-v2"), ("orders-v2", "orders-v3"), ("a.b.v9", "a.b.v10"), ("", ""), ("v2", "v2-v2")],
)
def test_the_following_subject_counts_on(subject: str, following: str) -> None:
    assert next_subject(subject) == following


def test_the_versions_that_the_mode_covers_decide(record: Make) -> None:
    versions = [record(("a", "int")), record(("a", "int"), ("x", "int", 0))]
    candidate = record(("a", "int"), ("x", "int"))
    assert check(candidate, versions, "FULL").order == "any"
    assert check(candidate, versions, "FULL_TRANSITIVE").order == "writers-first"
