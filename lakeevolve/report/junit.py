"""Findings as JUnit XML: a test case each, of which errors fail, for CI systems that know nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from lakeevolve.report.outcome import Outcome
from lakeevolve.report.places import file_of, sentence
from lakeevolve.rules.findings import Finding

#: What XML 1.0 cannot hold at all.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcome: Outcome) -> str:
    failed = str(sum(_fails(finding) for finding in outcome.findings))
    tests = str(max(len(outcome.findings), 1))
    root = Xml.Element("testsuites", name="lakeevolve", tests=tests, failures=failed, errors="0")
    suite = Xml.SubElement(
        root,
        "testsuite",
        name=_fit(outcome.title),
        tests=tests,
        failures=failed,
        errors="0",
        skipped=str(sum(finding.waived for finding in outcome.findings)),
    )
    for finding in outcome.findings:
        _case(suite, finding)
    if not outcome.findings:
        Xml.SubElement(suite, "testcase", name=_fit(outcome.verdict or "no findings"), classname="lakeevolve")
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode")


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
