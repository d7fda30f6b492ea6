"""``lakeevolve rules``, and ``lakeevolve explain`` for a rule or a finding."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import typer

from lakeevolve.cli.console import write
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import RulesFormat, RulesOutput

_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z", re.IGNORECASE)


def _known() -> Iterable[str]:
    from lakeevolve.rules.catalogue import RULES

    return RULES


def rules(format: RulesFormat = "text", output: RulesOutput = None) -> int:
    """List every rule."""
    from lakeevolve.report.outcome import of_rules
    from lakeevolve.rules.catalogue import RULES

    emit(of_rules(RULES.values()), format, output)
    return 0


def explain(
    rule: Annotated[
        str,
        typer.Argument(
            help="A rule, e.g. FIELD-ADDED-NO-DEFAULT, or a finding's fingerprint.",
            metavar="RULE|FINGERPRINT",
            autocompletion=lambda: list(_known()),
        ),
    ],
    within: Annotated[
        list[str] | None,
        typer.Option("--in", help="Look for the finding in this plan or JSON result, too. Repeatable.", metavar="FILE"),
    ] = None,
) -> int:
    """Explain a rule, or a finding by its fingerprint."""
    from difflib import get_close_matches

    from lakeevolve.report.text import finding_text, rule_text
    from lakeevolve.rules.catalogue import RULES

    if _FINGERPRINT.match(rule):
        from lakeevolve.cli.seen import find_finding

        finding, where = find_finding(rule.lower(), within or ())
        known = RULES.get(finding.rule)
        write(finding_text(finding, where, None if known is None else rule_text(known)))
        return 0
    found = RULES.get(rule.upper())
    if found is None:
        near = get_close_matches(rule.upper(), RULES, n=1)
        raise typer.BadParameter(
            f"there is no rule {rule!r}" + (f"; did you mean {near[0]}?" if near else "; lakeevolve rules lists them")
        )
    write(rule_text(found))
    return 0
