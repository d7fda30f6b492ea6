"""A rule: what it looks for, why that matters, and how to mend it. Each stands beside the code that applies it."""

from __future__ import annotations

from dataclasses import dataclass

from lakeevolve.model.value import value
from lakeevolve.rules.findings import Finding, Severity


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rule:
    """One rule of the catalogue.

    ``severity`` is the one that its findings have unless the finding's case is milder or the policy says otherwise.
    ``example`` is a change that it reports, as one line.
    """

    id: str
    severity: Severity
    title: str
    rationale: str
    example: str
    fix: str

    @property
    def family(self) -> str:
        return self.id.partition("-")[0]

    def finding(
        self,
        path: str,
        from_: str | None,
        to: str | None,
        message: str,
        *,
        breaks: str = "",
        fix: str | None = None,
        severity: Severity | None = None,
        versions: tuple[int, ...] = (),
        subject: str = "",
    ) -> Finding:
        """A finding of this rule, with the rule's own severity and fix unless others are given."""
        return Finding(
            rule=self.id,
            severity=severity or self.severity,
            path=path,
            from_=from_,
            to=to,
            message=message,
            breaks=breaks,
            fix=self.fix if fix is None else fix,
            versions=versions,
            subject=subject,
        )
