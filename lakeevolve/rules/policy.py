"""What an owner makes of findings: severities of her own, and waivers with a reason and an end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final, Literal

from lakeevolve.errors import ConfigError
from lakeevolve.model.value import value
from lakeevolve.rules.findings import SEVERITIES, Finding, Severity, by_weight
from lakeevolve.rules.rule import Rule

FailOn = Literal["error", "warning", "info", "never"]
_FAIL_ON: Final = (*SEVERITIES, "never")

EXPIRED = Rule(
    "POLICY-WAIVER-EXPIRED",
    "warning",
    "A waiver has run out",
    "The finding that it waived counts again.",
    "until: 2026-01-31, and it is February",
    "mend what the finding says, or have the waiver approved anew with a later date",
)
UNUSED = Rule(
    "POLICY-WAIVER-UNUSED",
    "warning",
    "A waiver waives nothing",
    "No finding has its fingerprint: what it was for is mended, or its subject, path or types are others now. A waiver "
    "that is left behind may hide a later finding.",
    "the fingerprint of a finding that is gone",
    "take the waiver off the policy",
)

#: The limits that an owner can set, each with what it counts.
LIMITS: Final = {"max_files": "files", "max_rewrite_bytes": "bytes"}

OVER_LIMIT = Rule(
    "POLICY-OVER-LIMIT",
    "error",
    "More is written anew than the owner allows",
    "A rewrite or backfill of a large table costs time and space, and holds up other writers.",
    "max_files: 100, and 240 files are written anew",
    "raise the limit, plan with old_rows: null where a backfill is the cost, or split the change",
)

OPTIONS_UNUSED = Rule(
    "POLICY-OPTIONS-UNUSED",
    "warning",
    "Options of the project's file apply to nothing",
    "The pattern matches no table of any subject, or the path is none of the schemas that it is meant for. Whoever "
    "wrote it relies on it.",
    'tables: {"delta:lake/ordrs": ...}, and the table is delta:lake/orders',
    "mend the pattern or the path, or take it out",
)

RULES = (OPTIONS_UNUSED, EXPIRED, UNUSED, OVER_LIMIT)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Waiver:
    """Someone's decision to let one finding pass.

    Parameters
    ----------
    fingerprint:
        Which one (:attr:`lakeevolve.rules.findings.Finding.fingerprint`).
    reason, approver:
        Why, and who says so; neither may be empty.
    until:
        The last day on which it holds; None for no end.
    """

    fingerprint: str
    reason: str
    approver: str
    until: date | None = None

    def __post_init__(self) -> None:
        for name in ("fingerprint", "reason", "approver"):
            if not str(getattr(self, name)).strip():
                raise ConfigError(f"a waiver needs a {name}", where=f"waiver {self.fingerprint}", hint=f"add {name}")
        if self.until is not None and type(self.until) is not date:
            raise ConfigError(
                "the end of a waiver is a day", where=f"waiver {self.fingerprint}", hint="write until: 2027-01-31"
            )


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy:
    """How findings are weighed.

    Parameters
    ----------
    severity:
        Rule id to ``error``, ``warning``, ``info``, or ``off``, which drops the rule's findings.
    fail_on:
        The lowest severity that fails a check or a plan; ``never`` for none.
    waivers:
        Findings that are let pass.

    Raises
    ------
    ConfigError
        A severity or ``fail_on`` is no such word, or the rule does not exist.

    Examples
    --------
    >>> Policy(severity={"FIELD-REORDERED": "off"}, fail_on="warning").fails("info")
    False
    """

    severity: Mapping[str, Severity | Literal["off"]] = field(default_factory=dict)
    fail_on: FailOn = "error"
    waivers: tuple[Waiver, ...] = ()

    def __post_init__(self) -> None:
        from lakeevolve.rules.catalogue import RULES as KNOWN

        for rule, severity in self.severity.items():
            if severity not in (*SEVERITIES, "off"):
                raise ConfigError(f"{severity!r} is no severity", where=rule, hint="use error, warning, info or off")
            if rule not in KNOWN:
                raise ConfigError(f"there is no rule {rule}", hint="`lakeevolve rules` lists them")
        if self.fail_on not in _FAIL_ON:
            raise ConfigError(f"{self.fail_on!r} is no value of fail_on", hint="use error, warning, info or never")
        object.__setattr__(self, "waivers", tuple(self.waivers))

    def fails(self, severity: Severity) -> bool:
        """Whether a finding of this severity fails a check."""
        return _FAIL_ON.index(severity) <= _FAIL_ON.index(self.fail_on) and self.fail_on != "never"


def weigh(
    findings: Iterable[Finding], policy: Policy, *, today: date | None = None, unused: bool = True
) -> tuple[Finding, ...]:
    """The findings as the policy has them, sorted, with findings about the waivers themselves.

    Parameters
    ----------
    today:
        The day that waivers are held against; None for the current one.
    unused:
        Whether to report waivers that waive nothing. Where a policy covers several subjects, weigh the findings of all
        of them at once, or leave this out.
    """
    day = today or date.today()
    waivers = {waiver.fingerprint: waiver for waiver in policy.waivers}
    used: set[str] = set()
    weighed: list[Finding] = []
    for finding in findings:
        severity = policy.severity.get(finding.rule, finding.severity)
        waiver = waivers.get(finding.fingerprint)
        if waiver is not None:
            used.add(waiver.fingerprint)
            if waiver.until is not None and waiver.until < day:
                weighed += _own(EXPIRED, waiver, finding.path, finding.subject, policy)
                waiver = None
        if severity != "off":
            weighed.append(replace(finding, severity=severity, waived=waiver is not None))
    if unused:
        weighed += unused_waivers(policy, used)
    return tuple(sorted(weighed, key=by_weight))


def unused_waivers(policy: Policy, used: Collection[str]) -> tuple[Finding, ...]:
    """A finding for each waiver of a policy whose fingerprint is not among those that were used."""
    return tuple(
        finding
        for waiver in policy.waivers
        if waiver.fingerprint not in used
        for finding in _own(UNUSED, waiver, "", "", policy)
    )


def _own(rule: Rule, waiver: Waiver, path: str, subject: str, policy: Policy) -> Iterator[Finding]:
    severity = policy.severity.get(rule.id, rule.severity)
    if severity == "off":
        return
    if rule is EXPIRED:
        message = f"the waiver of {waiver.approver} ended on {waiver.until} ({waiver.reason})"
    else:
        message = f"no finding has the fingerprint that {waiver.approver} waived ({waiver.reason})"
    found = rule.finding(path, waiver.fingerprint, None, message, subject=subject)
    yield replace(found, severity=severity)


def over_limit(limits: Mapping[str, int], files: int, bytes_: int, subject: str = "") -> Iterator[Finding]:
    """The limits that a plan is over.

    Parameters
    ----------
    limits:
        ``max_files`` and ``max_rewrite_bytes``, each or none.
    files, bytes_:
        What is written anew, in stored bytes of the files as they are.
    """
    wanted = {"max_files": files, "max_rewrite_bytes": bytes_}
    for name, limit in sorted(limits.items()):
        if wanted[name] > limit:
            message = f"{wanted[name]:,} {LIMITS[name]} would be written anew, and {name} is {limit:,}"
            yield OVER_LIMIT.finding("", name, str(limit), message, subject=subject)
