"""The page on Airflow shows the examples as they are, and every parameter and name that it mentions is there."""

from __future__ import annotations

import re
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
