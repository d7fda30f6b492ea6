"""The catalogue of rules as one Markdown page: the reference that the documentation holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from lakeevolve.report.outcome import Outcome

_HEAD: Final = """# Rules

Made by `lakeevolve rules --format markdown`; do not edit it by hand. Each rule stands with the severity that its
findings have unless their case is milder, or the policy in `lakeevolve.yaml` says otherwise. `lakeevolve explain RULE`
prints one of them, and `lakeevolve explain FINGERPRINT` what a finding is about."""

_FAMILIES: Final = {
    "SCHEMA": "Schemas",
    "FIELD": "Fields",
    "TYPE": "Types",
    "ENUM": "Enums",
    "UNION": "Unions",
    "NAME": "Names",
    "DEFAULT": "Defaults",
    "MEANING": "Meanings",
    "CONTRACT": "Contracts",
    "POLICY": "Policy",
    "TABLE": "Tables",
    "ROUTE": "Routes",
    "DRIFT": "Changes by others",
    "ROLLOUT": "Rollout",
    "REPLAY": "Replay",
    "REGISTRY": "Registries",
}


def rules_page(outcome: Outcome) -> str:
    parts = [_HEAD]
    rules: Sequence[Mapping[str, Any]] = outcome.record
    for family, members in groupby(rules, key=lambda rule: str(rule["id"]).partition("-")[0]):
        parts.append(f"## {_FAMILIES.get(family, family.capitalize())}")
        parts += [_rule(rule) for rule in members]
    return "\n\n".join(parts)


def _rule(rule: Mapping[str, Any]) -> str:
    lines = [
        f"### {rule['id']}",
        "",
        f"{rule['title']}. *{rule['severity'].capitalize()}.*",
        "",
        rule["rationale"],
        "",
        f"* Example: {rule['example']}",
        f"* Fix: {rule['fix']}",
    ]
    return "\n".join(lines)
