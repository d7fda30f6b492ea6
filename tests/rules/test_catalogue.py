from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeevolve.rules.catalogue import RULES
from lakeevolve.rules.findings import SEVERITIES
from lakeevolve.rules.rule import Rule

PACKAGE = Path(__file__).resolve().parents[2] / "lakeevolve"
FAMILIES = (
    *("SCHEMA", "FIELD", "TYPE", "ENUM", "UNION", "NAME", "DEFAULT", "CONTRACT"),
    *("MEANING", "POLICY", "TABLE", "ROUTE", "REPLAY", "DRIFT", "ROLLOUT", "REGISTRY"),
)
ID = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-[A-Z]+(?:-[A-Z]+)*\b(?![-<*])")


def test_every_rule_that_the_package_names_is_in_the_catalogue() -> None:
    named = {
        (match.group(), path.name)
        for path in PACKAGE.rglob("*.py")
        for match in ID.finditer(path.read_text(encoding="utf-8"))
    }
    assert {(rule, file) for rule, file in named if rule not in RULES} == set()


def test_every_rule_stands_in_the_module_of_its_family() -> None:
    for path in (PACKAGE / "rules").glob("*.py"):
        for found in re.findall(r'= Rule\(\s*"([A-Z-]+)"', path.read_text(encoding="utf-8")):
            assert found.partition("-")[0].lower() == path.stem, found
            assert found in RULES, f"{found} is missing from the RULES of {path.name}"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_says_what_why_and_how_to_mend_it(rule: Rule) -> None:
    assert ID.fullmatch(rule.id)
    assert rule.family in FAMILIES
    assert rule.severity in SEVERITIES
    for text in (rule.title, rule.rationale, rule.example, rule.fix):
        assert text
        assert text == " ".join(text.split())
    assert rule.rationale.endswith(".")
    assert not rule.title.endswith(".")
    assert not rule.fix.endswith(".")


def test_rules_have_titles_of_their_own() -> None:
    assert len({rule.title for rule in RULES.values()}) == len(RULES)
