"""Every format against files that are kept, against published schemas, and against what may never happen."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

import lakeevolve as le
from lakeevolve._version import __version__
from lakeevolve.report.markdown import LIMIT
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.render import RENDERERS, render
from lakeevolve.rules.findings import Finding

OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "amount", "type": "float"}],
}
GOLDEN = Path(__file__).parent / "golden"
#: As they were published: SARIF 2.1.0 (rtm.5), and the JUnit schema of Jenkins (MIT).
PUBLISHED = Path(__file__).parent / "schemas"
ENDINGS = {
    "text": "txt",
    "json": "json",
    "markdown": "md",
    "html": "html",
    "sarif": "sarif",
    "junit": "xml",
    "github": "github.txt",
    "gitlab": "gitlab.json",
}
FINDINGS = ("sarif", "junit", "github", "gitlab")
KEPT = [("check", format) for format in RENDERERS]
KEPT += [(name, format) for name in ("diff", "plan") for format in ("text", "markdown", "html")]
KEPT += [("diff", "json")]


@pytest.mark.parametrize(("outcome", "format"), KEPT, indirect=["outcome"])
def test_each_format_is_what_it_was(outcome: Outcome, format: str, request: pytest.FixtureRequest) -> None:
    # LAKEEVOLVE_GOLDEN=write makes the files anew; what changed in them is to be looked at.
    name = request.node.callspec.id.partition("-")[0]
    kept = GOLDEN / f"{name}.{ENDINGS[format]}"
    text = re.sub(r"(?i)\bplan [0-9a-f]{12}", "Plan DIGEST", render(outcome, format))
    text = text.replace(__version__, "VERSION") + "\n"
    if os.environ.get("LAKEEVOLVE_GOLDEN") == "write":
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")


def published(name: str) -> Path:
    return PUBLISHED / name


@pytest.mark.parametrize("outcome", ["check", "plan", "refused"], indirect=True)
def test_sarif_is_valid_by_its_published_schema(outcome: Outcome) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(published("sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema).validate(json.loads(render(outcome, "sarif")))


@pytest.mark.parametrize("outcome", ["check", "plan", "refused"], indirect=True)
def test_junit_is_valid_by_the_schema_of_jenkins(outcome: Outcome) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    xmlschema.XMLSchema(str(published("jenkins-junit.xsd"))).validate(render(outcome, "junit"))


def test_sarif_names_the_file_and_line_of_each_finding_and_describes_its_rule(check_outcome: Outcome) -> None:
    (run,) = json.loads(render(check_outcome, "sarif"))["runs"]
    assert len(run["results"]) == len(check_outcome.findings)
    rules = run["tool"]["driver"]["rules"]
    lines = Path("schemas/new.avsc").read_text().splitlines()
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert rules[result["ruleIndex"]]["help"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "schemas/new.avsc"
        path = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
        if path in ("total", "currency", "zip_code"):
            line = place["region"]["startLine"]
            assert path in "".join(lines[line - 1 : line + 1])


def test_junit_fails_for_errors_alone_and_passes_without_findings(check_outcome: Outcome, folder: Path) -> None:
    suite = Xml.fromstring(render(check_outcome, "junit"))[0]
    errors = [each for each in check_outcome.findings if each.severity == "error"]
    assert errors
    assert len(suite.findall("testcase/failure")) == len(errors) == int(suite.attrib["failures"])
    assert len(suite.findall("testcase")) == len(check_outcome.findings) == int(suite.attrib["tests"])
    fine = Xml.fromstring(render(Outcome("check", {}, str, "fine", "compatible"), "junit"))[0]
    assert fine.attrib["failures"] == "0"
    assert len(fine.findall("testcase")) == 1


def test_gitlab_fingerprints_are_unique_and_every_issue_has_a_place(check_outcome: Outcome) -> None:
    twice = Outcome("check", {}, str, "x", "", (*check_outcome.findings, *check_outcome.findings))
    issues = json.loads(render(twice, "gitlab"))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert {issue["severity"] for issue in issues} <= {"info", "minor", "major", "critical", "blocker"}
    assert all(issue["location"]["path"] == "schemas/new.avsc" for issue in issues)
    assert all(issue["location"]["lines"]["begin"] >= 1 for issue in issues)


def test_github_annotations_are_one_line_each_and_escaped() -> None:
    finding = Finding("A-B", "error", "p", "x", "y", "50% of\nthem::error", "", "", file="a,b:c.avsc", line=3)
    first, last = render(Outcome("check", {}, str, "t", "v", (finding,)), "github").splitlines()
    assert first.startswith("::error file=a%2Cb%3Ac.avsc,line=3,title=A-B::p: 50%25 of%0Athem::error")
    assert last == "t: v"


def test_a_waived_finding_is_suppressed_skipped_or_left_out() -> None:
    waived = Finding("A-B", "error", "p", "x", "y", "m", "b", "f", waived=True, file="a.avsc")
    made = Outcome("check", {"rollout": []}, str, "t", "v", (waived,))
    assert json.loads(render(made, "sarif"))["runs"][0]["results"][0]["suppressions"]
    suite = Xml.fromstring(render(made, "junit"))[0]
    assert suite.attrib["failures"] == "0"
    assert suite.find("testcase/skipped") is not None
    assert json.loads(render(made, "gitlab")) == []
    assert "::error" not in render(made, "github")
    assert "waived" in render(made, "markdown")


def test_a_part_that_could_not_run_passes_in_no_format() -> None:
    finding = Finding("A-B", "warning", "p", "x", "y", "m", "b", "f")
    fine = Outcome("check", {"rollout": []}, str, "orders", "compatible", (finding,))
    down = Outcome("project", {}, str, "customers", "the store did not answer", failed="the store did not answer")
    made = Outcome("project", {}, str, "lakeevolve.yaml", "1 could not be run", (finding,), parts=(fine, down))
    root = Xml.fromstring(render(made, "junit"))
    assert root.attrib["errors"] == "1"
    assert root.attrib["tests"] == "2"
    assert [suite.attrib["name"] for suite in root] == ["orders", "customers"]
    assert root.find("testsuite[2]/testcase/error") is not None
    (run,) = json.loads(render(made, "sarif"))["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "customers" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert render(made, "github").startswith("::error title=customers::the store did not answer")
    assert json.loads(render(made, "gitlab"))[0]["severity"] == "blocker"
    for format in ("markdown", "html"):
        assert "the store did not answer" in render(made, format)


HOSTILE = "a|b\n<script>alert(1)</script> `x` *y* [z](javascript:1) \x00\x1b[31m -->"


def hostile(count: int = 1) -> Outcome:
    findings = tuple(
        Finding("A-B", "error", f"p{n}", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, subject=HOSTILE, file="x.avsc")
        for n in range(count)
    )
    return Outcome("check", {"rollout": [HOSTILE]}, str, HOSTILE, HOSTILE, findings)


def test_names_and_docs_of_a_schema_break_no_format() -> None:
    made = hostile()
    json.loads(render(made, "sarif"))
    json.loads(render(made, "gitlab"))
    Xml.fromstring(render(made, "junit"))
    assert "<script" not in render(made, "html")
    text = render(made, "markdown")
    assert "<script" not in text.replace("\\<script", "")
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")]
    assert len(set(columns)) == 1
    assert len(render(made, "github").splitlines()) == 2 + HOSTILE.count("\n") * 2


def test_a_comment_stays_below_the_limit_and_counts_what_it_leaves_out() -> None:
    text = render(hostile(3000), "markdown")
    assert len(text) < LIMIT
    assert len(text) > LIMIT * 0.8
    shown = text.count("A-B")
    assert f"{3000 - shown:,} more" in text


class Loads(HTMLParser):
    """Whatever a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "iframe", "img", "object", "embed") or any(
            name == "src" or (name == "href" and not (to or "").startswith("#")) or name.startswith("on")
            for name, to in attrs
        ):
            self.found.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("outcome", ["check", "diff", "plan", "refused"], indirect=True)
def test_the_page_is_whole_in_itself(outcome: Outcome) -> None:
    text = render(outcome, "html")
    page = Loads()
    page.feed(text)
    assert page.found == []
    assert page.open == []
    assert "url(" not in text
    assert "@import" not in text


def test_a_comment_on_many_parts_is_cut_and_says_how_much_it_leaves_out() -> None:
    finding = Finding("A-B", "error", "p", "x", "y", "m" * 200, "b", "f")
    parts = tuple(Outcome("check", {"rollout": []}, str, f"part {n}", "bad", (finding,)) for n in range(300))
    text = render(Outcome("project", {}, str, "t" * 70_000, "v" * 70_000, parts=parts), "markdown")
    assert LIMIT * 0.8 < len(text) < LIMIT
    told = text.count("### part ")
    assert 10 < told < 300
    assert text.endswith(f"... and {300 - told} more sections; `--format json` has them all")


@pytest.mark.parametrize("outcome", ["refused"], indirect=True)
def test_a_blocked_plan_tells_nobody_to_go_on_in_any_format(outcome: Outcome) -> None:
    for format in ("text", "markdown", "html"):
        text = render(outcome, format)
        assert "cannot be done" in text
        assert "Rollout" not in text
        assert "rollout:" not in text
        assert "--allow" not in text


def test_a_failing_check_tells_nobody_to_go_on_except_around_it(folder: Path) -> None:
    from lakeevolve.report.outcome import of_check

    # Writers could go first, and the mode does not allow that.
    writers = le.check({**OLD, "fields": OLD["fields"][:1]}, ["schemas/old.avsc"], mode="FORWARD")
    assert writers.failures
    none = le.check("schemas/new.avsc", ["schemas/old.avsc"], mode="FULL")
    assert none.order == "none"
    for format in ("text", "markdown", "html"):
        assert "rollout" not in render(of_check(writers), format).lower()
        assert "new subject or table" in render(of_check(none), format)


def test_a_description_is_drawn_with_its_columns_in_each_other(table: str) -> None:
    from lakeevolve.report.outcome import of_description

    made = of_description(le.describe(table).to_json())
    text = render(made, "markdown")
    assert "| amount | float | no | float |" in text
    assert "| note | string | yes | \\[null, string\\] |" in text
    assert "<td>amount</td>" in render(made, "html")


def test_an_unknown_format_names_the_known_ones(check_outcome: Outcome) -> None:
    with pytest.raises(le.errors.ConfigError) as caught:
        render(check_outcome, "msvc")
    assert "sarif" in str(caught.value.hint)


def test_findings_carry_the_path_that_a_reviewer_sees(folder: Path) -> None:
    from lakeevolve.report.places import file_of

    def at(source: str | None) -> Any:
        return file_of(Finding("A-B", "error", "p", None, None, "m", "", "", file=source))

    assert at(None) is None
    assert at(str(folder / "schemas" / "new.avsc")) == "schemas/new.avsc"
    assert at("git:main:schemas/new.avsc") == "schemas/new.avsc"
    assert at("file:schemas/new.avsc") == "schemas/new.avsc"
    assert at("/elsewhere/new.avsc") == "/elsewhere/new.avsc"
    assert at("s3://key:secret@bucket/x.avsc?sig=y") == "s3://bucket/x.avsc"
