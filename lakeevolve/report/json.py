"""Results as JSON records. Every record carries ``format_version``: minor means additions, major means a break."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.model.change_json import change_to_json
from lakeevolve.model.sentence import describe_change

if TYPE_CHECKING:
    from lakeevolve.applying.apply import Application
    from lakeevolve.model.diff import Diff
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replaying.result import ReplayResult
    from lakeevolve.report.outcome import Outcome
    from lakeevolve.rules.catalogue import Rule
    from lakeevolve.rules.modes import Report

FORMAT_VERSION: Final = "1.0"


def json_text(record: Any) -> str:
    """A record as text; the same record gives the same text."""
    return json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)


def outcome_json(outcome: Outcome) -> str:
    return json_text(outcome.record)


def _record(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, **content}


def diff_record(diff: Diff) -> dict[str, Any]:
    return _record(
        {
            "changes": [{**change_to_json(change), "text": describe_change(change)} for change in diff.changes],
            "suggestions": [suggestion.to_json() for suggestion in diff.suggestions],
        }
    )


def report_record(report: Report) -> dict[str, Any]:
    return _record(
        {
            "mode": report.mode,
            "compatible": report.compatible,
            "findings": [finding.to_json() for finding in report.findings],
            "rollout": list(report.rollout),
        }
    )


def plan_record(plan: Plan) -> dict[str, Any]:
    return plan.to_json()


def application_record(done: Application) -> dict[str, Any]:
    return _record(done.to_json())


def replay_record(result: ReplayResult) -> dict[str, Any]:
    return _record(result.to_json())


def rule_record(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "severity": rule.severity,
        "title": rule.title,
        "rationale": rule.rationale,
        "example": rule.example,
        "fix": rule.fix,
    }
