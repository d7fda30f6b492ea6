"""Findings as JUnit XML: a test case each, of which errors fail, for CI systems that know nothing else. Each part of a
project is a suite; one that could not run is an error."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree as Xml

from lakeevolve.report.outcome import Outcome
from lakeevolve.report.places import file_of, sentence
from lakeevolve.rules.findings import Finding

#: What XML 1.0 cannot hold at all.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcome: Outcome) -> str:
    own = replace(outcome, findings=outcome.own, parts=())
    suites = [*outcome.parts, *([own] if own.findings else [])] if outcome.parts else [outcome]
    root = Xml.Element("testsuites", name="lakeevolve")
    counts: Counter[str] = Counter()
    for suite in suites:
        counts += _suite(root, suite)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(counts[name]))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode")


def _suite(root: Xml.Element, outcome: Outcome) -> Counter[str]:
    suite = Xml.SubElement(root, "testsuite", name=_fit(outcome.title))
    if outcome.failed or not outcome.findings:
        case = Xml.SubElement(suite, "testcase", name=_fit(outcome.verdict or "no findings"), classname="lakeevolve")
        if outcome.failed:
            Xml.SubElement(case, "error", type="error", message=_fit(outcome.failed)).text = _fit(outcome.failed)
    for finding in outcome.findings:
        _case(suite, finding)
    counts = Counter(
        tests=len(suite),
        failures=sum(map(_fails, outcome.findings)),
        errors=int(bool(outcome.failed)),
        skipped=sum(finding.waived for finding in outcome.findings),
    )
    for name, count in counts.items():
        suite.set(name, str(count))
    return counts


def _fails(finding: Finding) -> bool:
    return finding.severity == "error" and not finding.waived


def _case(suite: Xml.Element, finding: Finding) -> None:
    name = f"{finding.path or '$'} {finding.fingerprint}"
    case = Xml.SubElement(suite, "testcase", name=_fit(name), classname=f"lakeevolve.{finding.rule}")
    file = file_of(finding)
    where = "" if file is None else f"\n{file}" + (f":{finding.line}" if finding.line else "")
    text = _fit(sentence(finding) + where)
    if finding.waived:
        Xml.SubElement(case, "skipped").text = f"waived by the policy: {text}"
    elif _fails(finding):
        failure = Xml.SubElement(case, "failure", type=finding.rule, message=_fit(finding.message))
        failure.text = text
    else:
        Xml.SubElement(case, "system-out").text = f"{finding.severity}: {text}"


def _fit(text: str) -> str:
    return _UNFIT.sub("�", text)
