"""Every report is a test, or has a reason why it is none."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from .conftest import REPORTS

#: Reports that tests elsewhere hold -> the file and the test.
ELSEWHERE = {
    "B121": (
        "tables/iceberg/test_rest_catalog.py",
        "test_a_catalog_or_store_that_does_not_let_us_in_is_said_in_three_lines",
    ),
}

#: Reports that concern nothing that lakeevolve does -> why.
NOT_OURS = {
    "B063": "lakeevolve makes no union of the schemas of several files: a table has one schema, a file its own",
    "B118": "views are no part of a table's metadata, and no catalog lists which of them read a table",
    "B125": "about the arguments of an operator of Airflow, not about a change of a table",
}


def test_every_report_is_a_test_or_has_a_reason_why_it_is_none() -> None:
    if not REPORTS.is_file():
        pytest.skip("the reports are not here")
    known = {json.loads(line)["id"] for line in REPORTS.read_text().splitlines()}
    tested = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reports":
                tested |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    assert tested & (ELSEWHERE.keys() | NOT_OURS.keys()) == set()
    assert tested | ELSEWHERE.keys() | NOT_OURS.keys() == known


def test_what_is_held_elsewhere_is_there() -> None:
    for file, test in ELSEWHERE.values():
        assert f"def {test}(" in (Path(__file__).parents[1] / file).read_text()
