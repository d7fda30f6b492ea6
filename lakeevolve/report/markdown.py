"""An outcome as Markdown, for the comment on a pull request and a job's summary."""

from __future__ import annotations

import re
from typing import Final

from lakeevolve.report.outcome import Outcome
from lakeevolve.report.sections import Section, sections

#: GitHub takes comments of 65,536 characters, and whoever posts one adds a little.
LIMIT: Final = 60_000
#: How much of a title is told.
_LINE: Final = 2_000
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(outcome: Outcome) -> str:
    """Under ``LIMIT`` characters, whatever the number of findings; what is left out is counted."""
    if outcome.kind == "rules":
        from lakeevolve.report.rules_page import rules_page

        return rules_page(outcome)
    head = [f"<!-- lakeevolve:{outcome.kind} -->", f"## {_short(outcome.title)}"]
    if outcome.verdict:
        head += ["", f"**{_short(outcome.verdict)}**"]
    text, left = "\n".join(head), 0
    for section in sections(outcome):
        made = _section(section, LIMIT - len(text) - 200)
        text += made
        left += not made and bool(section.rows)
    more = f"\n\n... and {left:,} more sections; `--format json` has them all" if left else ""
    return text + more


def _short(text: str) -> str:
    """A line that leaves room for what is beneath it."""
    return _text(text if len(text) <= _LINE else f"{text[:_LINE]} ...")


def _section(section: Section, room: int) -> str:
    before = f"\n\n### {_text(section.title)}\n\n"
    after = ""
    if section.folded:
        before = f"\n\n<details><summary>{_text(section.title)}</summary>\n\n"
        after = "\n\n</details>"
    if section.columns:
        before += f"|{'|'.join(f' {name} ' for name in section.columns)}|\n|{'---|' * len(section.columns)}\n"
    rows, left = [], len(section.rows)
    room -= len(before) + len(after)
    for row in section.rows:
        line = f"| {' | '.join(map(_text, row))} |" if section.columns else f"* {_text(row[0])}"
        if room < len(line) + 1:
            break
        room -= len(line) + 1
        rows.append(line)
        left -= 1
    if not rows and left:
        return ""
    more = f"\n\n... and {left:,} more; `--format json` has them all" if left else ""
    return before + "\n".join(rows) + more + after


def _text(text: str) -> str:
    """A text that shows as it is: Markdown may not be made of a schema's names or docs."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
