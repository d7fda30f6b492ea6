from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest

from lakeevolve.errors import ConfigError
from lakeevolve.model.schema import Schema
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.modes import Report, check
from lakeevolve.rules.policy import Policy, Waiver, weigh

Make = Callable[..., Schema]
TODAY = date(2026, 6, 15)


def judged(record: Make, policy: Policy, mode: str = "BACKWARD") -> Report:
    old, new = record(("a", "int"), ("b", "int")), record(("b", "int"), ("a", "string"))
    return check(new, [old], mode, policy=policy, subject="orders", today=TODAY)


def the(report: Report, rule: str) -> Finding:
    (found,) = (found for found in report.findings if found.rule == rule)
    return found


def test_severities_may_be_changed_and_rules_switched_off(record: Make) -> None:
    report = judged(record, Policy(severity={"TYPE-CHANGED": "warning", "FIELD-REORDERED": "off"}))
    assert the(report, "TYPE-CHANGED").severity == "warning"
    assert not any(found.rule == "FIELD-REORDERED" for found in report.findings)
    assert not report.compatible, "a policy has no say in the verdict"


@pytest.mark.parametrize(("fail_on", "failing"), [("error", 1), ("warning", 2), ("info", 3), ("never", 0)])
def test_fail_on_says_what_fails(record: Make, fail_on: Any, failing: int) -> None:
    report = judged(record, Policy(fail_on=fail_on))
    assert report.fail_on == fail_on
    assert len(report.failures) == failing


def test_a_waiver_lets_its_finding_pass(record: Make) -> None:
    found = the(judged(record, Policy()), "TYPE-CHANGED")
    waiver = Waiver(found.fingerprint, "agreed with billing", "ada", date(2026, 6, 15))
    report = judged(record, Policy(waivers=(waiver,)))
    assert the(report, "TYPE-CHANGED").waived
    assert report.failures == ()
    assert not report.compatible
    assert not any(found.rule.startswith("POLICY") for found in report.findings)


def test_a_waiver_that_ended_is_a_finding_and_waives_nothing(record: Make) -> None:
    found = the(judged(record, Policy()), "TYPE-CHANGED")
    waiver = Waiver(found.fingerprint, "agreed", "ada", date(2026, 6, 14))
    report = judged(record, Policy(waivers=(waiver,)))
    assert not the(report, "TYPE-CHANGED").waived
    expired = the(report, "POLICY-WAIVER-EXPIRED")
    assert expired.path == "a"
    assert "ada" in expired.message
    assert "2026-06-14" in expired.message


def test_a_waiver_without_use_is_a_finding(record: Make) -> None:
    report = judged(record, Policy(waivers=(Waiver("0" * 16, "once", "ada"),)))
    assert the(report, "POLICY-WAIVER-UNUSED").from_ == "0" * 16


def test_a_waiver_for_another_subject_does_not_count(record: Make) -> None:
    old, new = record(("a", "int")), record(("a", "string"))
    found = the(check(new, [old], subject="other", today=TODAY), "TYPE-CHANGED")
    report = check(
        new, [old], policy=Policy(waivers=(Waiver(found.fingerprint, "x", "ada"),)), subject="orders", today=TODAY
    )
    assert not the(report, "TYPE-CHANGED").waived


def test_the_findings_about_waivers_obey_the_policy_too(record: Make) -> None:
    waivers = (Waiver("0" * 16, "once", "ada"),)
    report = judged(record, Policy(severity={"POLICY-WAIVER-UNUSED": "error"}, waivers=waivers))
    assert the(report, "POLICY-WAIVER-UNUSED").severity == "error"
    report = judged(record, Policy(severity={"POLICY-WAIVER-UNUSED": "off"}, waivers=waivers))
    assert not any(found.rule.startswith("POLICY") for found in report.findings)


def test_several_subjects_are_weighed_together_or_without_the_unused(record: Make) -> None:
    found = Finding("TYPE-CHANGED", "error", "a", "int", "string", "m")
    policy = Policy(waivers=(Waiver("0" * 16, "for another subject", "ada"),))
    assert weigh([found], policy, unused=False, today=TODAY) == (found,)
    assert len(weigh([found], policy, today=TODAY)) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Policy(severity={"TYPE-CHANGED": "fatal"}),  # type: ignore[dict-item]
        lambda: Policy(severity={"TYPE-CHANGD": "error"}),
        lambda: Policy(fail_on="always"),  # type: ignore[arg-type]
        lambda: Waiver("abc", "", "ada"),
        lambda: Waiver("abc", "agreed", " "),
        lambda: Waiver("", "agreed", "ada"),
        lambda: Waiver("abc", "agreed", "ada", "2027-01-31"),  # type: ignore[arg-type]
        lambda: Waiver("abc", "agreed", "ada", datetime(2027, 1, 31)),
    ],
)
def test_a_policy_that_makes_no_sense_is_an_error(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()
