"""``lakeevolve rules`` and ``lakeevolve explain RULE``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import Format, FormatOption, write, write_json


def add_to(app: typer.Typer) -> None:
    app.command("rules", help="List every rule.")(rules)
    app.command("explain", help="Explain a rule.")(explain)


def rules(format: FormatOption = Format.text) -> int:
    from lakeevolve.report.json import rule_record
    from lakeevolve.report.text import rules_text
    from lakeevolve.rules.catalogue import RULES

    if format is Format.json:
        write_json([rule_record(rule) for rule in RULES.values()])
    else:
        write(rules_text(RULES.values()))
    return 0


def explain(rule: Annotated[str, typer.Argument(help="A rule id, e.g. FIELD-ADDED-NO-DEFAULT.")]) -> int:
    from difflib import get_close_matches

    from lakeevolve.report.text import rule_text
    from lakeevolve.rules.catalogue import RULES

    found = RULES.get(rule.upper())
    if found is None:
        near = get_close_matches(rule.upper(), RULES, n=1)
        raise typer.BadParameter(
            f"there is no rule {rule!r}" + (f"; did you mean {near[0]}?" if near else "; lakeevolve rules lists them")
        )
    write(rule_text(found))
    return 0
