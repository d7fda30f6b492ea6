"""When findings make a command fail."""

from __future__ import annotations

from collections.abc import Iterable

from lakeevolve.rules.findings import Finding

_RANK = {"info": 0, "warning": 1, "error": 2}


def failing(findings: Iterable[Finding], fail_on: str) -> bool:
    """Whether a finding that nobody waived is at or above *fail_on*."""
    if fail_on == "never":
        return False
    return any(_RANK[finding.severity] >= _RANK[fail_on] and not finding.waived for finding in findings)
