"""The page on Airflow shows the examples as they are, and every parameter and name that it mentions is there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from lakeevolve import airflow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "airflow.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "docs" / "examples" / "airflow").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_page_shows_the_example_as_it_is(example: Path) -> None:
    code = example.read_text(encoding="utf-8").split('"""', 2)[2].strip()
    assert f"```python\n{code}\n```" in PAGE
    assert f"docs/examples/airflow/{example.name}" in PAGE


def test_the_page_names_everything_that_can_be_imported() -> None:
    table = re.findall(r"^\|[^|]*\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
    named = {name for row in table for cell in row for name in re.findall(r"`(\w+)`", cell)}
    assert set(airflow.__all__) <= named


def test_the_page_asks_in_airflow_s_interface_as_the_tested_dag_does() -> None:
    dag = Path(__file__).with_name("dags").joinpath("asked.py").read_text(encoding="utf-8")
    asking = dag[dag.index("    ask = ") : dag.index("    apply = ")]
    assert textwrap.dedent(asking) in PAGE
