"""A wider number read as a narrower one where that was declared, as far as every value fits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import ResolutionError, ValueMismatch
from lakeevolve.model.schema import Schema


def record(type_: Any) -> Schema:
    return parse({"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]})


PLACES = {
    "plain": (lambda t: t, "v", lambda v: v),
    "optional": (lambda t: ["null", t], "v", lambda v: v),
    "list": (lambda t: {"type": "array", "items": t}, "v[]", lambda v: [v]),
    "map": (lambda t: {"type": "map", "values": ["null", t]}, "v{}", lambda v: [("k", v)]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("wide", "narrow", "good", "bad"),
    [
        ("long", "int", 7, 2**31),
        ("double", "int", 7.0, 0.5),
        ("double", "float", 0.5, 0.1),
        ("float", "long", 2.0, 0.5),
    ],
)
def test_a_declared_narrowing_reads_what_fits_and_stops_at_the_first_row_that_does_not(
    place: str, wide: str, narrow: str, good: Any, bad: Any
) -> None:
    typed, path, held = PLACES[place]
    writer, reader = record(typed(wide)), record(typed(narrow))
    assert not resolve(writer, reader).compatible
    with pytest.raises(ResolutionError):
        resolve(writer, reader).to_arrow(_rows(writer, held, [good]), partial=True)
    declared = resolve(writer, reader, fills={path: "narrow"})
    assert not declared.compatible
    assert all(each.value_level for each in declared.incompatibilities)
    read = declared.to_arrow(_rows(writer, held, [good]), partial=True)
    assert read.to_pylist() == [{"v": held(good)}]
    with pytest.raises(ValueMismatch) as caught:
        declared.to_arrow(_rows(writer, held, [good, bad]), partial=True)
    assert (caught.value.row, caught.value.path) == (1, path)


def _rows(schema: Schema, held: Any, values: list[Any]) -> pa.RecordBatch:
    from lakeevolve.avro.arrow import arrow_schema

    return pa.RecordBatch.from_pylist([{"v": held(value)} for value in values], schema=arrow_schema(schema))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("string", "int"),
        ("int", "boolean"),
        ("bytes", "int"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "int"),
    ],
)
def test_only_plain_numbers_can_be_declared_narrower(wide: Any, narrow: Any) -> None:
    found = resolve(record(wide), record(narrow), fills={"v": "narrow"})
    assert not all(each.value_level for each in found.incompatibilities)
