"""Reports of other projects' users as tests: the state before, the change, and what has to come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import lakeevolve as le

REPORTS = Path(__file__).resolve().parents[3] / "shared" / "bugs" / "reports.jsonl"
ALL = ("rewrite", "backfill", "drop", "protocol-upgrade")

_Test = TypeVar("_Test", bound=Callable[..., Any])


def reports(*_numbers: str) -> Callable[[_Test], _Test]:
    """Which reports a test is about; test_all_reports.py reads it off the source."""
    return lambda test: test


@pytest.fixture
def report() -> Callable[[str], Any]:
    """A report by its number: ``before``, ``after``, ``data``."""
    if not REPORTS.is_file():
        pytest.skip("the reports are not here")
    held = {entry["id"]: entry for entry in map(json.loads, REPORTS.read_text().splitlines())}
    return lambda number: SimpleNamespace(**held[number])


@pytest.fixture
def single(report: Any) -> Callable[[str], tuple[Any, Any]]:
    """The schemas of a report whose before and after are each one schema, as Avro."""
    return lambda number: (schema_of(report(number).before), schema_of(report(number).after))


def schema_of(told: Any) -> Any:
    """A report's schema as Avro: it is written as such, or as columns."""
    return record(*map(column, told["columns"])) if "columns" in told else told


def record(*fields: Mapping[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [dict(field) for field in fields]}


def column(told: Any) -> dict[str, Any]:
    """A field from ``{"name", "type", "required"}`` or ``"name type"``."""
    if isinstance(told, str):
        name, _, rest = told.partition(" ")
        return column(
            {"name": name, "type": rest.removesuffix(" not null") or "string", "required": "not null" in rest}
        )
    inner = avro_type(told["type"], told["name"])
    if told["required"]:
        return {"name": told["name"], "type": inner}
    return {"name": told["name"], "type": ["null", inner], "default": None}


_NAMED: dict[str, Any] = {
    "timestamp": {"type": "long", "logicalType": "local-timestamp-micros"},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}


def avro_type(text: str, name: str) -> Any:
    """``int``, ``decimal(10,5)``, ``list<string>``, ``struct<a:int,b:int>``, ``map<string,int>`` as Avro."""
    text, _, more = text.partition(" elements ")
    head, _, inside = text.rstrip(">").rstrip(")").replace("(", "<").partition("<")
    match head:
        case "list":
            inner = avro_type(text[5:-1], name)
            return {"type": "array", "items": inner if more == "required" else ["null", inner]}
        case "struct":
            parts = (part.split(":") for part in text[7:-1].split(","))
            fields = [column({"name": n, "type": t, "required": False}) for n, t in parts]
            return {"type": "record", "name": f"{name}_struct", "fields": fields}
        case "map":
            return {"type": "map", "values": ["null", avro_type(text[4:-1].partition(",")[2], name)]}
        case "decimal":
            precision, scale = map(int, inside.split(","))
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return _NAMED.get(head, head)


def table_of(schema: Any, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows in the canonical layout of a schema; what they leave out is null."""
    return pa.Table.from_pylist(list(rows), schema=_loose(le.arrow_schema(schema)))


def _loose(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def read(uri: str) -> list[dict[str, Any]]:
    """The rows that a table gives, in the order of their texts."""
    return sorted((row for batch in le.open_table(uri).read() for row in batch.to_pylist()), key=str)


def apply(uri: str, target: Any, **how: Any) -> Any:
    """Plan, apply and verify; the plan."""
    how.setdefault("mode", "NONE")
    plan = le.plan(uri, target, **how)
    done = le.apply(plan, allow=ALL)
    assert done.ok, done.replay
    checked = le.verify(uri, full=True, columns="all")
    assert checked.ok, checked.mismatches
    return plan


def routes(plan: Any) -> set[str]:
    return {step.route for step in plan.steps}


def changes(plan: Any) -> list[tuple[str, str]]:
    """Each change of a plan as its kind and path."""
    return [(type(change).__name__, change.path) for step in plan.steps for change in step.changes]


def refused(uri: str, target: Any, *said: str, **how: Any) -> Any:
    """The plan is refused with these words, apply refuses it too, and nothing is changed."""
    before = le.open_table(uri).state
    how.setdefault("mode", "NONE")
    plan = le.plan(uri, target, **how)
    assert "refuse" in routes(plan), [(s.route, s.reason) for s in plan.steps]
    told = " | ".join([s.reason for s in plan.steps] + [f.message for f in plan.findings])
    for word in said:
        assert word in told, told
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(plan, allow=ALL)
    assert le.open_table(uri).state == before
    return plan
