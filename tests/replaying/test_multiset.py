"""Comparing and locating in bounded memory, on more rows than a test may print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeevolve.replaying import multiset
from lakeevolve.replaying.canonical import counting
from lakeevolve.replaying.multiset import Rows, locate

COUNT = 60_000


def data() -> pa.Table:
    ids = counting(COUNT)
    return pa.table(
        {
            "id": ids,
            "group": pc.bit_wise_and(ids, pa.scalar(7, pa.int64())),
            "name": pc.cast(pc.bit_wise_and(ids, pa.scalar(1023, pa.int64())), pa.string()),
            "v": pc.multiply(ids, pa.scalar(3, pa.int64())),
        }
    )


def side(table: pa.Table, file: str | None = "f") -> Any:
    def read() -> Iterator[Rows]:
        start = 0
        for batch in table.to_batches(max_chunksize=7_000):
            yield Rows(batch, file, start if file else None)
            start += batch.num_rows

    return read


def mixed(table: pa.Table) -> pa.Table:
    order = pc.sort_indices(pc.bit_wise_xor(table["id"], pa.scalar(0x5A5A, pa.int64())))
    return table.take(order)


def found(actual: pa.Table) -> Any:
    return locate(side(data()), side(mixed(actual), None), file="f")


def put(table: pa.Table, name: str, where: Any, value: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, name, pc.if_else(where, value, table[name]))


def test_equal_multisets_in_another_order_are_equal() -> None:
    located = found(data())
    assert located.mismatches == ()
    assert not located.more


@pytest.mark.parametrize("name", ["id", "group", "name", "v"])
def test_one_changed_value_among_many_rows(name: str) -> None:
    table = data()
    value = pa.scalar("x") if name == "name" else pa.scalar(-5, pa.int64())
    located = found(put(table, name, pc.equal(table["id"], 31_337), value))
    assert [(m.file, m.row, m.path) for m in located.mismatches] == [("f", 31_337, name)]


def test_a_few_faults_of_every_kind_at_once() -> None:
    table = data()
    table = put(table, "v", pc.is_in(table["id"], pa.array([5, 50_000])), pa.scalar(-1, pa.int64()))
    table = table.filter(pc.invert(pc.is_in(table["id"], pa.array([100, 200]))))
    table = pa.concat_tables([table, table.slice(1_000, 1)])
    located = found(table)
    assert {(m.row, m.path, m.kind) for m in located.mismatches} == {
        (5, "v", "value"),
        (50_000, "v", "value"),
        (100, "", "missing"),
        (200, "", "missing"),
        (located_row(table), "", "doubled"),
    }


def located_row(table: pa.Table) -> int:
    return table["id"][1_000].as_py()


def test_a_column_that_changed_in_most_rows_is_the_only_one_named() -> None:
    table = data()
    located = found(put(table, "v", pc.less(table["id"], 40_000), pa.scalar(0, pa.int64())))
    assert located.more
    assert located.mismatches
    assert {(m.path, m.kind) for m in located.mismatches} == {("v", "value")}
    assert all(m.row < 40_000 for m in located.mismatches)


def test_values_that_changed_places_between_many_rows_are_told() -> None:
    table = data()
    swapped = table.set_column(3, "v", pa.concat_arrays([table["v"].combine_chunks().slice(1), pa.array([0])]))
    located = found(swapped)
    assert located.mismatches
    assert located.more


def test_half_of_the_rows_lost_is_told_by_rows_that_are_missing() -> None:
    table = data()
    located = found(table.filter(pc.less(table["id"], COUNT // 2)))
    assert located.more
    assert {m.kind for m in located.mismatches} == {"missing"}
    assert all(m.row >= COUNT // 2 for m in located.mismatches)


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiset, "ROWS_HELD", 50)
    table = data()
    located = found(put(table, "v", pc.greater_equal(table["id"], 0), pa.scalar(0, pa.int64())))
    assert located.more
    assert 0 < len(located.mismatches) <= 50


def test_the_side_whose_places_are_named_can_be_chosen() -> None:
    table = data()
    actual = put(table, "v", pc.equal(table["id"], 7), pa.scalar(0, pa.int64())).slice(3)
    actual = pa.concat_tables([actual, table.slice(0, 3)])
    located = locate(side(table, "old"), side(actual, "new"), label="actual")
    assert [(m.file, m.row, m.path) for m in located.mismatches] == [("new", 4, "v")]


def test_one_of_many_equal_rows_is_missed() -> None:
    table = pa.table({"x": pa.repeat(pa.scalar(7), COUNT)})
    located = locate(side(table), side(table.slice(1), None), file="f")
    assert [m.kind for m in located.mismatches] == ["missing"]
    located = locate(side(table.slice(1)), side(table, None), file="f")
    assert [m.kind for m in located.mismatches] == ["doubled"]


def test_rows_that_have_nothing_in_common_are_lost_and_foreign() -> None:
    one = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [1.0, 2.0, 3.0]})
    two = pa.table({"a": [1, 2, 9], "b": ["x", "y", "q"], "c": [1.0, 2.0, 9.0]})
    located = locate(side(one), side(two, None), file="f")
    assert {(m.row, m.kind) for m in located.mismatches} == {(2, "missing"), (None, "extra")}
