"""Filters on columns of bytes, in which every value is compared byte by byte, as numbers without a sign."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from tests.tables.shapes import f, rec, row

SCHEMA = row(
    f("b", ["null", "bytes"], default=None),
    f("x", ["null", {"type": "fixed", "name": "F", "size": 4}], default=None),
    f("s", ["null", rec("S", f("b", "bytes"))], default=None),
)


def table_of(lake: Any) -> str:
    dice = random.Random(7)
    long = [dice.randbytes(dice.choice((1, 15, 16, 17, 40))) for _ in range(20)]
    held = [None, b"", b"\x00", b"\x7f", b"\x80", b"\xff" * 16, b"\xff" * 17, *long]
    rows = [
        {
            "id": n,
            "b": each,
            "x": each.ljust(4, b"\xff")[:4] if each else None,
            "s": None if each is None else {"b": each},
        }
        for n, each in enumerate(held)
    ]
    uri: str = lake.create("t", le.load(SCHEMA), mark=True)
    for part in (rows[:9], rows[9:]):
        lake.append(uri, pa.Table.from_pylist(part, schema=le.arrow_schema(SCHEMA)))
    return uri


def test_columns_of_bytes_are_asked_for_by_value(lake: Any) -> None:
    checked = le.verify(table_of(lake), columns="all", readers=("duckdb", "polars"))
    assert checked.ok, [str(each) for each in checked.mismatches]
    asked = {(each["path"], each["op"]) for each in checked.evidence.predicates}
    assert asked >= {(path, op) for path in ("b", "x", "s.b") for op in ("=", "<", "in", "is null")}


@pytest.mark.parametrize("path", ["b", "x", "s.b"])
def test_a_row_that_a_filter_on_bytes_loses_is_a_mismatch(
    path: str, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = table_of(lake)
    kind: Any = type(le.open_table(uri))
    reading = kind.read

    def losing(self: Any, file: Any = None, predicate: Any = None, columns: Any = None) -> Any:
        for batch in reading(self, file, predicate, columns):
            lost = predicate is not None and (predicate.path, predicate.op) == (path, "<")
            yield batch.slice(1) if lost else batch

    monkeypatch.setattr(kind, "read", losing)
    checked = le.verify(uri, columns="all")
    assert {each.path for each in checked.mismatches} == {path}
