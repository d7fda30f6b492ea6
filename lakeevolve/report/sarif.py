"""Findings as SARIF 2.1.0 (OASIS), as GitHub code scanning and others read it."""

from __future__ import annotations

import json
from typing import Any, Final

from lakeevolve._version import __version__
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.places import file_of, sentence, uri_of
from lakeevolve.rules.catalogue import RULES, Rule
from lakeevolve.rules.findings import Finding

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}


def sarif(outcome: Outcome) -> str:
    used = sorted({finding.rule for finding in outcome.findings})
    return json.dumps(
        {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "lakeevolve",
                            "version": __version__,
                            "semanticVersion": __version__,
                            "rules": [_rule(rule, RULES.get(rule)) for rule in used],
                        }
                    },
                    "columnKind": "unicodeCodePoints",
                    "invocations": [
                        {
                            "executionSuccessful": not outcome.failures,
                            "toolExecutionNotifications": [
                                {"level": "error", "message": {"text": f"{part.title}: {part.failed}"}}
                                for part in outcome.failures
                            ],
                        }
                    ],
                    "results": [_result(finding, used.index(finding.rule)) for finding in outcome.findings],
                }
            ],
        },
        indent=2,
        sort_keys=True,
        ensure_ascii=False,
    )


def _rule(id_: str, rule: Rule | None) -> dict[str, Any]:
    if rule is None:
        return {"id": id_}
    help_ = f"{rule.rationale}\n\nExample: {rule.example}\n\nFix: {rule.fix}"
    return {
        "id": id_,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.rationale},
        "help": {"text": help_},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": finding.path or "$", "kind": "member"}],
    }
    file = file_of(finding)
    if file is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": uri_of(file)}}
        # GitHub shows no result without a line.
        place["region"] = {"startLine": finding.line or 1}
        location["physicalLocation"] = place
    found: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": sentence(finding)},
        "locations": [location],
        "partialFingerprints": {"lakeevolve/v1": finding.fingerprint},
        "properties": {
            "subject": finding.subject,
            "versions": list(finding.versions),
            "consumers": list(finding.consumers),
        },
    }
    if finding.waived:
        found["suppressions"] = [{"kind": "external", "justification": "waived by the policy"}]
    return found
