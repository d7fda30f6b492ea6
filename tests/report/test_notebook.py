"""What a notebook shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeevolve as le
from lakeevolve.report.notebook import shown


def test_every_result_is_drawn_as_a_table(table: str, folder: Path) -> None:
    plan = le.plan(table, "schemas/fine.avsc")
    le.apply(plan, allow=plan.permits)
    for value, words in (
        (le.load("schemas/new.avsc"), ("total", "currency", "EUR", "schemas/new.avsc")),
        (le.diff("schemas/old.avsc", "schemas/new.avsc"), ("is promoted to long", "zip_code")),
        (le.check("schemas/new.avsc", ["schemas/old.avsc"]), ("not compatible", "FIELD-ADDED-NO-DEFAULT")),
        (plan, ("rewrite", "backfill", table)),
        (le.describe(table), ("currency", "delta", "marker")),
        (le.verify(table), ("equal", "1 file", table)),
    ):
        text = value._repr_html_()
        assert text.startswith("<div")
        assert "<table" in text
        assert "<script" not in text
        assert "<html" not in text
        for word in words:
            assert word in text, (type(value), word)


def test_a_schema_is_drawn_with_the_paths_of_all_its_fields() -> None:
    inner = {"type": "record", "name": "B", "fields": [{"name": "c", "type": ["int", "string"], "doc": "<b>bold</b>"}]}
    schema = le.load(
        {
            "type": "record",
            "name": "A",
            "fields": [
                {"name": "list", "type": {"type": "array", "items": inner}},
                {"name": "map", "type": {"type": "map", "values": ["null", "B"]}},
                {"name": "self", "type": ["null", "A"], "default": None},
            ],
        }
    )
    text = schema._repr_html_()
    for path in ("list[].c", "map{}.c", "self"):
        assert f"<td>{path}</td>" in text
    assert "&lt;b&gt;bold" in text
    assert "<table" in le.load('"int"')._repr_html_()


def test_nothing_else_is_drawn() -> None:
    with pytest.raises(TypeError):
        shown(17)
