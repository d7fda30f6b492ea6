"""Parsing and checking Avro schemas beside avro-python, which is what Karapace asks, too.

What two schemas share is found faster the second time. So there are two kinds of figures: *new* pairs, of fields that
no schema of the process had before, as a one-off check has them; and *known* ones, as the versions of a subject are.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import avro.compatibility
import avro.schema

from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.model.schema import Schema
from lakeevolve.rules.modes import check
from tests.benchmarks import Figure, ratio, seconds, side_by_side

REPEATS = 5
_TYPES: tuple[tuple[Any, Any], ...] = (
    ("string", ""),
    ("long", 0),
    ("int", 0),
    ("double", 0.0),
    ("boolean", False),
    (["null", "string"], None),
    ({"type": "array", "items": "string"}, []),
    ({"type": "long", "logicalType": "timestamp-millis"}, 0),
    (["null", "long"], None),
    ("bytes", ""),
)


def pair(fields: int, mark: str = "") -> tuple[str, str]:
    """A record and its next version: a tenth of the fields promoted, one more with a default."""
    old: list[dict[str, Any]] = [{"name": f"{mark}field_{at}", "type": _TYPES[at % 10][0]} for at in range(fields)]
    new = [{**field, "type": "long" if field["type"] == "int" else field["type"]} for field in old]
    new.append({"name": f"{mark}added", "type": "string", "default": "none"})
    return _text(old), _text(new)


def versions(count: int, mark: str = "") -> list[str]:
    """A subject's versions, each with one field more than the one before, the first with ten."""
    fields: list[dict[str, Any]] = [
        {"name": f"{mark}field_{at}", "type": type_, "default": default}
        for at in range(count + 9)
        for type_, default in [_TYPES[at % 10]]
    ]
    return [_text(fields[:length]) for length in range(10, count + 10)]


def measure() -> list[Figure]:
    return [*_transitive(), *_pairs(), *_linear()]


def _pairs() -> list[Figure]:
    figures = []
    for fields, count, target in ((10, 200, 3.0), (1000, 2, 16.0)):
        known = [pair(fields)] * count
        for kind, ours, theirs in (
            ("known", functools.partial(_ours, known), functools.partial(_theirs, known)),
            ("new", _never_twice(_ours, fields, count, "a"), _never_twice(_theirs, fields, count, "b")),
        ):
            times = side_by_side({"ours": ours, "theirs": theirs}, repeats=REPEATS)
            name = f"parse and check a pair of {fields:,} fields, {kind}"
            one = {side: each.best / count for side, each in times.items()}
            figures.append(ratio(name, one["ours"], one["theirs"], "x avro", at_least=target))
    return figures


def _transitive() -> list[Figure]:
    """200 versions, of 10 to 209 fields, are asked whether the last can read all others."""
    subjects = [[parse(text) for text in versions(200, f"s{turn}_")] for turn in range(REPEATS + 1)]
    turns = iter(subjects)
    again = subjects[-1]
    theirs = [avro.schema.parse(text) for text in versions(200)]
    times = side_by_side(
        {
            "first": lambda: _check_all(next(turns)),
            "again": lambda: _check_all(again),
            "theirs": lambda: [_assert_compatible(theirs[-1], old) for old in theirs[:-1]],
        },
        repeats=REPEATS,
    )
    beside = f"avro {seconds(times['theirs'].best)}"
    return [
        Figure("200 versions, transitive, first time", times["first"].best, "CPU s", at_most=0.1, detail=beside),
        Figure("200 versions, transitive, again", times["again"].best, "CPU s", at_most=0.1, detail=beside),
    ]


def _linear() -> list[Figure]:
    """Ten times the fields take ten times as long, and no more."""
    small, large = ([pair(fields, "l")] for fields in (1_000, 10_000))
    times = side_by_side(
        {"small": lambda: [_ours(small) for _ in range(10)], "large": lambda: _ours(large)}, repeats=REPEATS
    )
    detail = f"{seconds(times['small'].best / 10)} and {seconds(times['large'].best)}"
    measured = times["large"].best / times["small"].best
    return [Figure("per field, of 10,000 beside 1,000", measured, "x", at_most=1.5, detail=detail)]


def _text(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def _check_all(subject: Sequence[Schema]) -> None:
    assert check(subject[-1], subject[:-1], "BACKWARD_TRANSITIVE").compatible


def _ours(pairs: Sequence[tuple[str, str]]) -> None:
    for old, new in pairs:
        assert resolve(parse(old), parse(new)).compatible


def _theirs(pairs: Sequence[tuple[str, str]]) -> None:
    for old, new in pairs:
        _assert_compatible(avro.schema.parse(new), avro.schema.parse(old))


def _assert_compatible(reader: Any, writer: Any) -> None:
    found = avro.compatibility.ReaderWriterCompatibilityChecker().get_compatibility(reader=reader, writer=writer)
    assert found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible


def _never_twice(
    work: Callable[[list[tuple[str, str]]], None], fields: int, count: int, mark: str
) -> Callable[[], None]:
    """A call that gets other pairs each time."""
    turns = iter([[pair(fields, f"{mark}{turn}_{at}_") for at in range(count)] for turn in range(REPEATS + 1)])
    return lambda: work(next(turns))
