"""What a replay found, in every format: places without values and without credentials."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as Xml

import lakeevolve as le
from lakeevolve.replaying.compare import Hidden, Mismatch
from lakeevolve.replaying.result import ReplayResult
from lakeevolve.report.outcome import of_verify
from lakeevolve.report.render import RENDERERS, render

FILE = "s3://AKIA:hunter2@bucket/orders/country=Atlantis/part-1.parquet?X-Amz-Signature=feed"


def differing(table: str) -> ReplayResult:
    mismatch = Mismatch(
        file=FILE,
        row=7,
        path="address.zip",
        expected_type="string",
        actual_type="null",
        reason="null was read",
        reader="delta-rs",
        values=Hidden("4711secret", None),
    )
    return replace(le.verify(table), mismatches=(mismatch,), mismatched=5, notes=("1 file was sampled",))


def test_every_format_names_the_place_and_no_value(table: str) -> None:
    made = of_verify(differing(table), table)
    for format in RENDERERS:
        text = render(made, format)
        assert "part-1.parquet" in text, format
        assert "address.zip" in text, format
        assert "null was read" in text, format
        for word in ("4711", "hunter2", "AKIA", "feed", "Atlantis"):
            assert word not in text.replace("feedback", ""), (format, word)
    assert "differs" in render(made, "text")
    assert "and 4 more" in render(made, "text")
    assert "1 file was sampled" in render(made, "markdown")


def test_a_mismatch_is_an_error_of_its_rule(table: str) -> None:
    made = of_verify(differing(table), table)
    (result,) = json.loads(render(made, "sarif"))["runs"][0]["results"]
    assert result["ruleId"] == "REPLAY-MISMATCH"
    assert result["level"] == "error"
    root = Xml.fromstring(render(made, "junit"))
    assert root.attrib["failures"] == "1"
    assert render(made, "github").startswith("::error title=REPLAY-MISMATCH::")


def test_values_are_shown_only_when_asked_for(table: str) -> None:
    result = differing(table)
    assert "4711secret" in render(of_verify(result, table, show_values=True), "text")
    assert "4711secret" not in render(of_verify(result, table, show_values=True), "json")
    assert "4711secret" not in repr(result)
