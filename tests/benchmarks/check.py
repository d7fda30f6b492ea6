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
from tests.benchmarks import Figure, ratio, side_by_side

REPEATS = 5
_TYPES = ("string", "long", "int", "double", "boolean", "bytes", ["null", "string"], ["null", "long"])


def pair(fields: int, mark: str = "") -> tuple[str, str]:
    """A record and its next version: an eighth of the fields promoted, one more with a default."""
    old: list[dict[str, Any]] = [{"name": f"{mark}field_{at}", "type": _TYPES[at % 8]} for at in range(fields)]
    new = [{**field, "type": "long" if field["type"] == "int" else field["type"]} for field in old]
    new.append({"name": f"{mark}added", "type": "string", "default": "none"})
    return _text(old), _text(new)


def _text(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def _ours(pairs: Sequence[tuple[str, str]]) -> None:
    for old, new in pairs:
        assert resolve(parse(old), parse(new)).compatible


def _theirs(pairs: Sequence[tuple[str, str]]) -> None:
    for old, new in pairs:
        checker = avro.compatibility.ReaderWriterCompatibilityChecker()
        found = checker.get_compatibility(reader=avro.schema.parse(new), writer=avro.schema.parse(old))
        assert found.compatibility is avro.compatibility.SchemaCompatibilityType.compatible


def _never_twice(
    work: Callable[[list[tuple[str, str]]], None], fields: int, count: int, mark: str
) -> Callable[[], None]:
    """A call that gets other pairs each time."""
    turns = iter([[pair(fields, f"{mark}{turn}_{at}_") for at in range(count)] for turn in range(REPEATS + 1)])
    return lambda: work(next(turns))


def measure() -> list[Figure]:
    figures = []
    for fields, count, target in ((10, 200, 3.0), (1000, 2, 16.0)):
        known = [pair(fields)] * count
        for kind, ours, theirs in (
            ("known", functools.partial(_ours, known), functools.partial(_theirs, known)),
            ("new", _never_twice(_ours, fields, count, "a"), _never_twice(_theirs, fields, count, "b")),
        ):
            times = side_by_side({"ours": ours, "theirs": theirs}, repeats=REPEATS)
            name = f"parse and check a pair of {fields:,} fields, {kind}"
            figures.append(
                ratio(name, times["ours"].median / count, times["theirs"].median / count, "x avro", at_least=target)
            )
    return figures
