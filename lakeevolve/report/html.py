"""An outcome as one HTML file that needs no other, and as the fragment that notebooks show."""

from __future__ import annotations

from html import escape

from lakeevolve._version import __version__
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.sections import Section, sections

_STYLE = """
.lakeevolve{font:14px/1.45 system-ui,sans-serif;color:#1d2329;max-width:1200px}
.lakeevolve h1{font-size:1.35em}.lakeevolve h2{font-size:1.1em;margin:1.4em 0 .4em}
.lakeevolve table{border-collapse:collapse;width:100%}
.lakeevolve th,.lakeevolve td{text-align:left;vertical-align:top;padding:.3em .6em;border-bottom:1px solid #d8dee4}
.lakeevolve th{font-weight:600;background:#f4f6f8}.lakeevolve td{overflow-wrap:anywhere}
.lakeevolve summary{cursor:pointer;font-weight:600}
.lakeevolve .error,.lakeevolve .refuse{color:#b00020;font-weight:600}
.lakeevolve .warning,.lakeevolve .rewrite,.lakeevolve .backfill{color:#8a5a00;font-weight:600}
.lakeevolve .metadata{color:#12652f;font-weight:600}
@media (prefers-color-scheme:dark){.lakeevolve.page{color:#e2e6ea}.lakeevolve.page th{background:#22282e}
.lakeevolve.page th,.lakeevolve.page td{border-color:#3a424a}
.lakeevolve.page .error,.lakeevolve.page .refuse{color:#ff7b88}.lakeevolve.page .metadata{color:#69d08c}
.lakeevolve.page .warning,.lakeevolve.page .rewrite,.lakeevolve.page .backfill{color:#e0b050}body{background:#14181c}}
"""
_WORDS = frozenset({"error", "warning", "info", "waived", "refuse", "rewrite", "backfill", "metadata", "external"})


def html(outcome: Outcome) -> str:
    """A whole page: style inside, no script, nothing loaded from anywhere."""
    body = _body(outcome, "lakeevolve page")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="lakeevolve {escape(__version__)}">\n'
        f"<title>{escape(outcome.title)}</title>\n</head>\n<body>\n{body}\n</body>\n</html>"
    )


def fragment(outcome: Outcome) -> str:
    """What a notebook shows."""
    return _body(outcome, "lakeevolve")


def _body(outcome: Outcome, class_: str) -> str:
    parts = [f'<div class="{class_}">', f"<style>{_STYLE}</style>", f"<h1>{escape(outcome.title)}</h1>"]
    if outcome.verdict:
        parts.append(f"<p><strong>{escape(outcome.verdict)}</strong></p>")
    parts += map(_section, sections(outcome))
    return "\n".join([*parts, "</div>"])


def _section(section: Section) -> str:
    inside = _table(section) if section.columns else _list(section)
    if section.folded:
        return f"<details><summary>{escape(section.title)}</summary>\n{inside}\n</details>"
    return f"<h2>{escape(section.title)}</h2>\n{inside}"


def _list(section: Section) -> str:
    return "<ul>" + "".join(f"<li>{escape(row[0])}</li>" for row in section.rows) + "</ul>"


def _table(section: Section) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in section.columns)
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in section.rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _cell(text: str) -> str:
    word = text.partition(" ")[0]
    return (
        f'<td class="{word}">{escape(text)}</td>' if word in _WORDS and len(text) < 12 else f"<td>{escape(text)}</td>"
    )
