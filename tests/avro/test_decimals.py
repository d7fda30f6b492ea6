"""Decimals between their two's-complement bytes and Arrow's columns, against Python's own numbers."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow.raw import from_plain, to_plain
from lakeevolve.model.types import Fixed, Logical, Primitive

EXACT = decimal.Context(prec=200)


def encoded(number: int, padding: int = 0) -> bytes:
    """The fewest bytes that hold the number, and as many more."""
    return number.to_bytes(max(number, ~number).bit_length() // 8 + 1 + padding, "big", signed=True)


def numbers(digits: int) -> st.SearchStrategy[int]:
    edges = [0, 1, -1, 127, -128, 128, 2**63 - 1, -(2**63), 10**digits - 1, 1 - 10**digits, 10**digits, -(10**digits)]
    return st.one_of(st.sampled_from(edges), st.integers(-(10**digits), 10**digits), st.integers(-1000, 1000))


def unscaled(values: list[decimal.Decimal | None], scale: int) -> list[int | None]:
    return [None if value is None else int(value.scaleb(scale, EXACT)) for value in values]


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, list[bytes | None]]:
    precision = draw(st.sampled_from([1, 2, 9, 17, 18, 19, 20, 38, 39, 76]))
    value = st.builds(encoded, numbers(precision), st.sampled_from([0, 0, 0, 1, 30]))
    return precision, draw(st.lists(st.one_of(value, value, st.sampled_from([None, b""])), max_size=12))


@settings(max_examples=150, derandomize=True, deadline=None)
@given(columns(), st.integers(0, 3), st.integers(0, 3))
@example((38, [encoded(-(10**38) + 1), encoded(10**38 - 1), None]), 0, 0)
@example((18, [None, None]), 1, 0)
@example((18, []), 0, 0)
def test_bytes_are_read_exactly_or_reported(column: tuple[int, list[bytes | None]], before: int, scale: int) -> None:
    precision, values = column
    scale = min(scale, precision)
    type_ = Primitive("bytes", Logical("decimal", precision, scale))
    # A slice: what stands before it belongs to no row.
    array = pa.concat_arrays([pa.array([b"\xff"] * before, pa.binary()), pa.array(values, pa.binary())]).slice(before)
    bad: set[int] = set()
    found = from_plain(array, type_, lambda mask, why: bad.update(i for i, b in enumerate(mask.to_pylist()) if b))
    found.validate(full=True)
    truth = [int.from_bytes(value, "big", signed=True) if value else None for value in values]
    expected = [each if each is not None and abs(each) < 10**precision else None for each in truth]
    assert unscaled(found.to_pylist(), scale) == expected
    assert bad == {at for at, value in enumerate(values) if value is not None and expected[at] is None}
    again = to_plain(found, type_, lambda mask, why: pytest.fail(why))
    assert again.to_pylist() == [None if each is None else encoded(each) for each in expected]


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.data(), st.sampled_from([1, 4, 7, 8, 9, 15, 16, 17, 32]), st.integers(0, 2))
def test_fixed_is_read_exactly_or_reported(data: st.DataObject, size: int, before: int) -> None:
    digits = len(str(2 ** (8 * size - 1) - 1)) - 1 or 1
    precision = data.draw(st.integers(1, min(digits, 76)))
    limit = 2 ** (8 * size - 1)
    number = numbers(precision).map(lambda n: max(-limit, min(n, limit - 1)))
    values = data.draw(st.lists(st.one_of(number, st.none()), max_size=10))
    type_ = Fixed("F", size, Logical("decimal", precision, 0))
    wire = [None if n is None else n.to_bytes(size, "big", signed=True) for n in values]
    array = pa.concat_arrays([pa.array([b"\x80" * size] * before, pa.binary(size)), pa.array(wire, pa.binary(size))])
    bad: set[int] = set()
    found = from_plain(
        array.slice(before), type_, lambda mask, why: bad.update(i for i, b in enumerate(mask.to_pylist()) if b)
    )
    found.validate(full=True)
    expected = [n if n is not None and abs(n) < 10**precision else None for n in values]
    assert unscaled(found.to_pylist(), 0) == expected
    assert bad == {at for at, n in enumerate(values) if n is not None and expected[at] is None}
    again = to_plain(found, type_, lambda mask, why: pytest.fail(why))
    assert again.to_pylist() == [None if n is None else n.to_bytes(size, "big", signed=True) for n in expected]
