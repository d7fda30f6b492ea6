"""Findings as GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from lakeevolve.report.outcome import Outcome
from lakeevolve.report.places import file_of, sentence

_SEVERITIES: Final = {"error": "critical", "warning": "minor", "info": "info"}


def gitlab(outcome: Outcome) -> str:
    found: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for part in outcome.failures:
        found.append(
            {
                "description": f"{part.title}: {part.failed}",
                "check_name": "could-not-run",
                "fingerprint": hashlib.sha256(part.title.encode()).hexdigest()[:16],
                "severity": "blocker",
                "location": {"path": "lakeevolve.yaml", "lines": {"begin": 1}},
            }
        )
    for finding in outcome.findings:
        if finding.waived:
            continue
        # GitLab takes two findings of one fingerprint for one.
        number = seen[finding.fingerprint] = seen.get(finding.fingerprint, 0) + 1
        found.append(
            {
                "description": sentence(finding),
                "check_name": finding.rule,
                "fingerprint": finding.fingerprint if number == 1 else f"{finding.fingerprint}-{number}",
                "severity": _SEVERITIES[finding.severity],
                "location": {
                    "path": file_of(finding) or finding.subject or "lakeevolve",
                    "lines": {"begin": finding.line or 1},
                },
            }
        )
    return json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False)
