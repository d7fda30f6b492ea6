"""What Avro cannot resolve stands in a plan once: in the step of the change that makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le


def schema(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, *fields]}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


FIXED = {"type": "fixed", "name": "F", "size": 2}
E = {"type": "enum", "name": "E", "symbols": ["A"]}


@pytest.fixture(params=["iceberg", "delta"])
def table(request: Any, tmp_path: Path) -> Any:
    old = le.load(
        schema({"name": "d", "type": decimal(9, 2)}, {"name": "s", "type": "string"}, {"name": "f", "type": FIXED})
    )
    if request.param == "iceberg":
        from lakeevolve.tables.iceberg import create_table

        return create_table(f"iceberg:{tmp_path / 'lake'}/shop.t", old, mark=True)
    from lakeevolve.tables.delta import create_table as create

    return create(f"delta:{tmp_path / 't'}", old, mark=True)


KEPT = (
    {"name": "d", "type": decimal(9, 2)},
    {"name": "s", "type": "string"},
    {"name": "f", "type": FIXED},
)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (({"name": "d", "type": decimal(12, 2)}, *KEPT[1:]), "d"),
        (({"name": "d", "type": decimal(9, 3), "doc": "x"}, *KEPT[1:]), "d"),
        ((*KEPT, {"name": "n", "type": "int", "default": 2**40}), "n"),
        ((*KEPT, {"name": "n", "type": "int", "default": "7"}), "n"),
        ((*KEPT, {"name": "n", "type": E, "default": "Z"}), "n"),
        ((*KEPT, {"name": "n", "type": "int"}), "n"),
        ((KEPT[0], {"name": "s", "type": "int"}, KEPT[2]), "s"),
        ((*KEPT[:2], {"name": "f", "type": {**FIXED, "name": "G"}}), "f"),
        ((*KEPT[:2], {"name": "f", "type": {**FIXED, "size": 3}}), "f"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value[-1])[:40],
)
def test_a_change_that_cannot_be_resolved_is_refused_once_in_its_own_step(table: Any, fields: Any, path: str) -> None:
    plan = le.plan(table, schema(*fields), mode="NONE")
    (refused,) = plan.refused
    assert [change.path for change in refused.changes] == [path]
    assert refused.reason
    assert refused.permit is None
    assert sum(finding.rule == "ROUTE-REFUSED" for finding in plan.findings) == 1
    assert not plan.applicable
