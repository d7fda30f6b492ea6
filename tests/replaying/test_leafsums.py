"""The sums by which filters are judged first: they tell values apart and know neither order nor batches."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.replaying.leafsums import LeafSum, leaf_sum

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, -1, 2**31 - 1, -(2**31), 0]),
    "long": (pa.int64(), [2**63 - 1, -(2**63), 2**62, 3]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, float("inf"), float("nan")]),
    "double": (pa.float64(), [0.1, 0.2, -0.0, 0.0]),
    "flag": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["", "a", "ab", "abcd"]),
    "day": (pa.date32(), [date(1, 1, 1), date(2026, 1, 1)]),
    "at": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)]),
    "amount": (pa.decimal128(9, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("0.01")]),
}


@pytest.mark.parametrize("name", VALUES)
def test_one_value_in_the_place_of_another_changes_the_sums(name: str) -> None:
    type_, values = VALUES[name]
    sums = [leaf_sum(pa.array([value, values[0], None], type_), 3) for value in [*values, None]]
    assert len(set(sums)) == len(values) + 1
    assert {each.count for each in sums} == {3}


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.data())
def test_order_and_batches_do_not_count(name: str, data: Any) -> None:
    type_, values = VALUES[name]
    drawn = data.draw(st.lists(st.sampled_from([*values, None]), max_size=8))
    cut = data.draw(st.integers(0, len(drawn)))
    whole = leaf_sum(pa.array(drawn, type_), len(drawn))
    again = list(reversed(drawn))
    parts = [pa.array(again[:cut], type_), pa.array(again, type_).slice(cut)]
    assert sum((leaf_sum(part, len(part)) for part in parts), LeafSum()) == whole
    mask = [data.draw(st.booleans()) for _ in drawn]
    kept = [value for value, keep in zip(drawn, mask, strict=True) if keep]
    masked = leaf_sum(pa.array(drawn, type_), len(drawn), pa.array(mask, pa.bool_()))
    assert masked == leaf_sum(pa.array(kept, type_), len(kept))


def test_a_leaf_that_is_not_there_counts_its_rows() -> None:
    assert leaf_sum(None, 4) == leaf_sum(pa.nulls(4), 4) == LeafSum(4)
    assert leaf_sum(None, 3, pa.array([True, False, True])) == LeafSum(2)
