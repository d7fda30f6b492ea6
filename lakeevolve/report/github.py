"""Findings as GitHub's workflow commands, which annotate the changed lines of a pull request."""

from __future__ import annotations

from typing import Final

from lakeevolve.report.outcome import Outcome
from lakeevolve.report.places import file_of, sentence
from lakeevolve.rules.findings import Finding

_COMMANDS: Final = {"error": "error", "warning": "warning", "info": "notice"}


def github(outcome: Outcome) -> str:
    lines = [f"::error title={_property(part.title)}::{_data(part.failed)}" for part in outcome.failures]
    lines += [_annotation(finding) for finding in outcome.findings if not finding.waived]
    return "\n".join([*lines, f"{outcome.title}: {outcome.verdict}"])


def _annotation(finding: Finding) -> str:
    properties = {"title": finding.rule}
    file = file_of(finding)
    if file is not None:
        properties = {"file": file, "line": str(finding.line or 1), **properties}
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {told}::{_data(sentence(finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
