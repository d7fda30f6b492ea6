"""``lakeevolve rules`` and ``lakeevolve explain RULE``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli.console import write
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import PlainFormat, PlainOutput


def rules(format: PlainFormat = "text", output: PlainOutput = None) -> int:
    """List every rule."""
    from lakeevolve.report.outcome import of_rules
    from lakeevolve.rules.catalogue import RULES

    emit(of_rules(RULES.values()), format, output)
    return 0


def explain(
    rule: Annotated[str, typer.Argument(help="A rule id, e.g. FIELD-ADDED-NO-DEFAULT.", metavar="RULE")],
) -> int:
    """Explain a rule."""
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
