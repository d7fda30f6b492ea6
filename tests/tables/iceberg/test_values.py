"""A value that stands against a change is told by its file, row and path, and never shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.errors import PlanBlocked

SMALL = {"write.parquet.row-group-limit": "500"}
GOOD = "00000000-0000-0000-0000-0000000000"


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, *fields]}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


CASES: dict[str, tuple[Any, Any, Callable[[int], Any], Any]] = {
    "a text that is no UUID": (
        "string",
        {"type": "string", "logicalType": "uuid"},
        lambda at: f"{GOOD}{at % 100:02}",
        "SECRET",
    ),
    "a UUID in capitals, which would come back in lower case": (
        "string",
        {"type": "string", "logicalType": "uuid"},
        lambda at: f"{GOOD}{at % 100:02}",
        "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
    ),
    "bytes that are not UTF-8": ("bytes", "string", lambda at: str(at).encode(), b"\xffSECRET"),
    "a number that is no time of a day": (
        "int",
        {"type": "int", "logicalType": "time-millis"},
        lambda at: at,
        987_654_321,
    ),
    "a symbol that goes": (enum("A", "SECRET"), enum("A"), lambda at: "A", "SECRET"),
    "a branch that goes": (
        ["int", "string"],
        "int",
        lambda at: {"int": at, "string": None},
        {"int": None, "string": "SECRET"},
    ),
    "a null": (["null", "int"], "int", lambda at: at, None),
}

PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "at the top": (lambda t: t, lambda v: v, "w"),
    "in a record": (
        lambda t: {"type": "record", "name": "S", "fields": [{"name": "q", "type": t}]},
        lambda v: {"q": v},
        "w.q",
    ),
    "in a list": (lambda t: {"type": "array", "items": t}, lambda v: [v], "w[]"),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_value_that_stands_against_a_change_is_named_by_file_row_and_path(
    case: Any, place: Any, workshop: Any
) -> None:
    (old, new, good, bad), (wrap, put, path) = case, place
    table = workshop.table(
        record({"name": "w", "type": wrap(old)}), [{"id": 0, "w": put(good(0))}], mark=True, properties=SMALL
    )
    rows = [{"id": at, "w": put(bad if at == 1234 else good(at))} for at in range(1300)]
    workshop.append(table, record({"name": "w", "type": wrap(old)}), rows)
    (file,) = (file for file in table.files() if file.rows == 1300)
    before = table.state
    plan = le.plan(table.uri, record({"name": "w", "type": wrap(new)}), mode="NONE")
    if isinstance(new, dict) and "logicalType" in new:
        # What the type itself does not have is found by the plan.
        (precondition,) = (step.precondition for step in plan.steps)
        assert precondition == "values-valid"
        fixes = " ".join(finding.fix for finding in plan.failures)
        assert ("lower case" in fixes) == (new["logicalType"] == "uuid")
    if not plan.failures:
        with pytest.raises(PlanBlocked) as raised:
            le.apply(plan, allow={"rewrite"})
        told = str(raised.value)
    else:
        told = " ".join(f"{finding.path} {finding.message}" for finding in plan.failures)
    assert f"{file.path}, row 1234" in told
    assert path in told
    assert "SECRET" not in told.replace("symbol SECRET", "")
    assert "6BA7" not in told
    assert "987" not in told.replace(file.path, "")
    table.refresh()
    assert table.state == before
