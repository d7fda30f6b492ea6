from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.change import DropField, MakeRequired, ReplaceType
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Field, Primitive
from lakeevolve.rules.route import of_change
from lakeevolve.rules.table import fit_for_table

Make = Callable[..., Schema]
INT, TEXT = Primitive("int"), Primitive("string")


@pytest.mark.parametrize(
    ("type_", "rule", "path"),
    [
        ("null", "TABLE-NULL-ALONE", "a"),
        (["null"], "TABLE-NULL-ALONE", "a"),
        ({"type": "array", "items": "null"}, "TABLE-NULL-ALONE", "a[]"),
        (["null", "Order"], "TABLE-RECURSIVE-TYPE", "a"),
        (["int", {"type": "map", "values": "Order"}], "TABLE-RECURSIVE-TYPE", "a<map>{}"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2},
            "TABLE-DECIMAL-TOO-WIDE",
            "a",
        ),
    ],
)
def test_what_no_table_can_hold_is_an_error(record: Make, type_: Any, rule: str, path: str) -> None:
    for table_format in (None, "iceberg", "delta"):
        (found,) = fit_for_table(record(("a", type_)), table_format, subject="t")
        assert (found.rule, found.severity, found.path, found.subject) == (rule, "error", path, "t")


def test_a_root_that_is_no_record_is_an_error() -> None:
    assert [f.rule for f in fit_for_table(parse('"int"'))] == ["TABLE-ROOT-NOT-RECORD"]


def test_names_that_differ_in_case_only_clash(record: Make) -> None:
    (found,) = fit_for_table(record(("id", "int"), ("ID", "int")))
    assert (found.rule, found.path, found.from_, found.to) == ("TABLE-NAMES-CLASH", "ID", "id", "ID")


def test_a_time_of_day_is_a_number_in_delta_only(record: Make) -> None:
    schema = record(("at", ["null", {"type": "long", "logicalType": "time-micros"}]))
    (found,) = fit_for_table(schema, "delta")
    assert (found.rule, found.severity, found.from_, found.to) == (
        "TABLE-TIME-AS-NUMBER",
        "info",
        "time-micros",
        "long",
    )
    assert fit_for_table(schema, "iceberg") == ()


def test_nanoseconds_need_a_table_that_has_them(record: Make) -> None:
    schema = record(("at", {"type": "long", "logicalType": "timestamp-nanos"}))
    assert [f.rule for f in fit_for_table(schema, "delta")] == ["TABLE-NANOSECONDS"]
    assert fit_for_table(schema, "iceberg", nanoseconds=True) == ()


def test_an_ordinary_schema_fits(record: Make) -> None:
    schema = record(("a", "int"), ("b", {"type": "array", "items": ["null", "string"]}), ("u", ["int", "string"]))
    assert fit_for_table(schema, "delta") == fit_for_table(schema, "iceberg") == ()


def test_a_refused_route_is_an_error_that_says_why() -> None:
    (found,) = of_change(ReplaceType("a", INT, TEXT), route="refuse", reason="no promotion", subject="t")
    assert (found.rule, found.severity, found.path, found.subject) == ("ROUTE-REFUSED", "error", "a", "t")
    assert "no promotion" in found.message


def test_a_route_tells_its_permits_checks_and_readers() -> None:
    found = list(
        of_change(
            DropField("a", Field("a", INT), 0),
            route="rewrite",
            reason="r",
            permit="drop",
            irreversible=True,
            readers=("polars",),
        )
    )
    assert [(f.rule, f.to) for f in found] == [
        ("ROUTE-PERMIT-NEEDED", "drop"),
        ("ROUTE-PERMIT-NEEDED", "rewrite"),
        ("ROUTE-IRREVERSIBLE", "rewrite"),
        ("ROUTE-READERS", "polars"),
    ]
    (check,) = of_change(MakeRequired("a", True), route="metadata", reason="r", precondition="no-nulls")
    assert (check.rule, check.to) == ("ROUTE-DATA-CHECK", "no-nulls")
    (external,) = of_change(MakeRequired("a", True), route="external", reason="r")
    assert external.rule == "ROUTE-EXTERNAL"
    assert list(of_change(MakeRequired("a", True), route="metadata", reason="r")) == []
