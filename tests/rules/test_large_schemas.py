"""Judging large schemas takes time in proportion to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.schema import Schema
from lakeevolve.rules.modes import check

Pair = tuple[Schema, Schema]


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def renamed(count: int) -> Pair:
    old, new = (parse(record(*({"name": f"{mark}{at}", "type": "int"} for at in range(count)))) for mark in "fg")
    return old, new


def aliased(count: int) -> Pair:
    fields = [{"name": f"g{at}", "type": "int", "aliases": [f"f{at}"]} for at in range(count)]
    return renamed(count)[0], parse(record(*fields))


def other_symbols(count: int) -> Pair:
    old, new = (
        parse({"type": "enum", "name": "E", "symbols": [f"{mark}{at}" for at in range(2 * count)]}) for mark in "ST"
    )
    return old, new


def reordered_symbols(count: int) -> Pair:
    symbols = [f"S{at}" for at in range(2 * count)]
    return parse({"type": "enum", "name": "E", "symbols": symbols}), parse(
        {"type": "enum", "name": "E", "symbols": symbols[::-1]}
    )


def other_branches(count: int) -> Pair:
    # A tenth: each branch of the one union is held against each of the other.
    old, new = (parse([record(name=f"{mark}{at}") for at in range(count // 10)]) for mark in "RS")
    return old, new


@pytest.mark.parametrize("made", [renamed, aliased, other_symbols, reordered_symbols, other_branches])
def test_four_times_the_schema_takes_no_more_than_some_four_times_as_long(made: Callable[[int], Pair]) -> None:
    def taken(count: int) -> float:
        old, new = made(count)
        best = float("inf")
        for _ in range(3):
            before = time.process_time()
            check(new, [old], "FULL")
            best = min(best, time.process_time() - before)
        return best

    assert taken(1600) < 12 * taken(400) + 0.1


def test_a_parse_of_many_types_takes_no_more_time_than_they_need() -> None:
    def taken(count: int) -> float:
        documents: list[Any] = [
            [record(name=f"R{at}") for at in range(count)],
            [record(name=f"R{at}") for at in range(count)] + [record({"name": "x", "type": "R1"}, name="Last")],
        ]
        before = time.process_time()
        for document in documents:
            parse(document)
        parse(record(*({"name": f"f{at}", "type": f"Unknown{at}"} for at in range(count))), lenient=True)
        return time.process_time() - before

    taken(100)
    assert taken(4000) < 12 * taken(1000) + 0.1
