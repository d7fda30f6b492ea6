"""A finding: one opinion of one rule about one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from lakeevolve.errors import PlanFormatError
from lakeevolve.model.digest import canonical_json, text_digest
from lakeevolve.model.value import value

Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Finding:
    """What a rule says about one place of a schema or one table.

    Parameters
    ----------
    rule:
        The rule's id; :data:`lakeevolve.rules.catalogue.RULES` explains it.
    path:
        Where, in the new schema's notation (in the old one's for what is gone).
    from_, to:
        What was there and what is there now; None for nothing.
    message:
        What is wrong, without *from_* and *to*.
    breaks:
        Who breaks, in words; empty where nobody does.
    fix:
        How to mend it.
    versions:
        Numbers (from 1) of the versions in the history that it concerns.
    consumers:
        Names of the contracts that it concerns.
    subject:
        What is judged: a subject's name or a table's URI.
    file, line:
        Where the place stands in a source file, if known.
    waived:
        Whether the policy lets it pass.
    """

    rule: str
    severity: Severity
    path: str
    from_: str | None
    to: str | None
    message: str
    breaks: str = ""
    fix: str = ""
    versions: tuple[int, ...] = ()
    consumers: tuple[str, ...] = ()
    subject: str = ""
    file: str | None = None
    line: int | None = None
    waived: bool = False

    @property
    def fingerprint(self) -> str:
        """16 hex digits over rule, subject, path, from and to: the same while those are, whatever the wording."""
        said = canonical_json([self.rule, self.subject, self.path, self.from_, self.to])
        return text_digest(said)[:16]

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "severity": self.severity,
            "path": self.path,
            "from": self.from_,
            "to": self.to,
            "message": self.message,
            "breaks": self.breaks,
            "fix": self.fix,
            "versions": list(self.versions),
            "consumers": list(self.consumers),
            "subject": self.subject,
            "file": self.file,
            "line": self.line,
            "fingerprint": self.fingerprint,
            "waived": self.waived,
        }


def finding_from_json(record: Mapping[str, Any]) -> Finding:
    """The inverse of :meth:`Finding.to_json`. Raises ``PlanFormatError`` where the object is no finding."""
    try:
        return Finding(
            rule=record["rule"],
            severity=record["severity"],
            path=record["path"],
            from_=record["from"],
            to=record["to"],
            message=record["message"],
            breaks=record["breaks"],
            fix=record["fix"],
            versions=tuple(record["versions"]),
            consumers=tuple(record["consumers"]),
            subject=record["subject"],
            file=record["file"],
            line=record["line"],
            waived=record["waived"],
        )
    except (KeyError, TypeError) as error:
        raise PlanFormatError(
            "an object in the file is not a finding", hint="make the plan again; a plan is never edited by hand"
        ) from error


def by_weight(finding: Finding) -> tuple[int, str, str, str, str]:
    """A sort key: errors first, then by path and rule."""
    return (
        SEVERITIES.index(finding.severity),
        finding.path,
        finding.rule,
        finding.from_ or "",
        finding.to or "",
    )
