"""The README's Python example runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import lakeevolve as le
from lakeevolve.demo import samples
from lakeevolve.tables import delta

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_python_example_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    delta.create_table("delta:lake/orders", le.load(samples.schema_path("orders", 3)))
    delta.append("delta:lake/orders", samples.rows("orders", 3).slice(0, 50))
    shutil.copy(samples.schema_path("orders", 4), "orders.avsc")
    exec(compile(example, str(README), "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "True 1 50"
