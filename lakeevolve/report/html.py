"""An outcome as one HTML file that needs no other, and as the fragment that notebooks show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count

from lakeevolve._version import __version__
from lakeevolve.report import views
from lakeevolve.report.outcome import Background, Known, Outcome
from lakeevolve.report.sections import Section, sections
from lakeevolve.report.style import FRAGMENT, PAGE

_WORDS = frozenset({"error", "warning", "info", "waived", "refuse", "rewrite", "backfill", "metadata", "external"})
#: Of how many parts the schemas are drawn.
PARTS = 40
_JUDGED = frozenset({"check", "plan", "apply", "verify", "project", "batch"})
_SIGNS = {"+": "added", "-": "dropped", ">": "renamed", "~": "changed"}
_CELLS = {"reads": "good", "itself": "none", "if rows allow": "maybe", "cannot": "bad"}


def html(outcome: Outcome) -> str:
    """A whole page: style inside, no script, nothing loaded from anywhere."""
    page = _Page()
    body = "\n".join(page.body(outcome))
    links = "".join(f'<li><a href="#{id_}">{escape(title)}</a></li>' for id_, title in page.headings)
    contents = f'<nav aria-label="Contents"><ol>{links}</ol></nav>\n' if len(page.headings) > 2 else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="lakeevolve {escape(__version__)}">\n'
        f"<title>{escape(outcome.title)}</title>\n<style>{PAGE}{FRAGMENT}</style>\n</head>\n"
        f'<body class="lakeevolve">\n<a class="skip" href="#main">Skip to the result</a>\n'
        f"<header><h1>{escape(outcome.title)}</h1>{_verdict(outcome)}\n{contents}</header>\n"
        f'<main id="main" tabindex="-1">\n{body}\n</main>\n'
        f"<footer>Made by lakeevolve {escape(__version__)}.</footer>\n</body>\n</html>"
    )


def fragment(outcome: Outcome) -> str:
    """What a notebook shows."""
    body = "\n".join(_Page().body(outcome))
    return (
        f'<div class="lakeevolve">\n<style>{FRAGMENT}</style>\n<h1>{escape(outcome.title)}</h1>{_verdict(outcome)}\n'
        f"{body}\n</div>"
    )


def _verdict(outcome: Outcome) -> str:
    if not outcome.verdict:
        return ""
    bad = outcome.blocked or outcome.failed or any(f.severity == "error" and not f.waived for f in outcome.findings)
    # Where nothing is judged, nothing is good or bad.
    kind = "bad" if bad else "good" if outcome.kind in _JUDGED else "plain"
    return f'<p class="verdict {kind}"><strong>{escape(outcome.verdict)}</strong></p>'


class _Page:
    """One page on its way; it gives each heading an id of its own."""

    def __init__(self) -> None:
        self.headings: list[tuple[str, str]] = []
        self._numbers = count(1)
        self._cells: tuple[tuple[Known, ...], list[list[views.Cell]]] | None = None

    def body(self, outcome: Outcome) -> Iterator[str]:
        for section in sections(outcome):
            yield self._section(section)
        yield from self._views(outcome)
        for part in outcome.parts[:PARTS]:
            yield from self._views(part, f"{part.title}: ")
        left = len(outcome.parts) - PARTS
        if left > 0:
            yield f"<p>The schemas of {left:,} more parts are left out; choose subjects with -s to see them.</p>"

    def _heading(self, title: str) -> str:
        id_ = f"s{next(self._numbers)}"
        self.headings.append((id_, title))
        return f'<h2 id="{id_}">{escape(title)}</h2>'

    def _section(self, section: Section) -> str:
        if not section.columns:
            items = "".join(f"<li>{escape(row[0])}</li>" for row in section.rows)
            inside = f"<ul>{items}</ul>"
        else:
            rows = ["".join(map(_cell, row)) for row in section.rows]
            inside = _table(section.title, section.columns, rows)
        heading = self._heading(section.title)
        if section.folded:
            return f"<section>{heading}<details><summary>Show</summary>\n{inside}\n</details></section>"
        return f"<section>{heading}\n{inside}</section>"

    # Schemas ----------------------------------------------------------------------------------------------------------

    def _views(self, outcome: Outcome, before: str = "") -> Iterator[str]:
        known = outcome.background()
        for make in (self._tree, self._versions, self._matrix):
            made = views.lazily(lambda make=make: make(known, before))  # type: ignore[misc]
            if made:
                yield made
        rows = views.consumers(known.contracts, outcome.findings)
        if rows:
            columns = ("consumer", "owner", "reads", "accepts", "this change")
            told = ["".join(f"<td>{escape(text)}</td>" for text in row) for row in rows]
            yield f"<section>{self._heading(before + 'Consumers')}\n{_table('Consumers', columns, told)}</section>"

    def _tree(self, known: Background, before: str) -> str:
        if known.diff is None or not known.diff.changes:
            return ""
        rows, left = views.tree(known.diff)
        old, new = (each.name for each in known.versions[-2:]) if len(known.versions) > 1 else ("before", "after")
        if old == new or len(known.versions) < 2:
            old, new = "before", "after"
        title = f"{before}Schema, {old} and {new}"
        head = self._heading(title)
        table = _table(title, (old, "", new, "what changed"), [_tree_row(row) for row in rows], "tree")
        note = f"<p>{left:,} fields that did not change are left out.</p>" if left else ""
        return f"<section>{head}\n{table}{note}</section>"

    def _versions(self, known: Background, before: str) -> str:
        if not any(each.at for each in known.versions) or len(known.versions) < 2:
            return ""
        shown = known.versions[-views.VERSIONS :]
        cells = self._matrix_of(shown)
        rows = [
            "".join(
                [
                    f'<th scope="row">{escape(each.name)}</th>',
                    f"<td>{_time(each)}</td><td>{escape(each.by)}</td><td>{len(each.schema.fields)}</td>",
                    f"<td>{escape(views.readers_of(cells, shown, at))}</td>",
                ]
            )
            for at, each in enumerate(shown)
        ]
        title = f"{before}Who reads the rows of each version"
        columns = ("version", "since", "made by", "fields", "its rows are read by readers with")
        return f"<section>{self._heading(title)}\n{_table(title, columns, rows)}</section>"

    def _matrix(self, known: Background, before: str) -> str:
        shown = known.versions[-views.VERSIONS :]
        if len(shown) < 2:
            return ""
        names = [each.name for each in shown]
        title = f"{before}Compatibility of versions"
        cells = self._matrix_of(shown)
        rows = [
            f'<th scope="row">{escape(names[at])}</th>' + "".join(map(_verdict_cell, each))
            for at, each in enumerate(cells)
        ]
        head = self._heading(title)
        table = _table(title, ("reader ↓ writer →", *names), rows, "matrix")
        left = len(known.versions) - len(shown)
        note = "A reader of the row's version reads rows that the column's version wrote, by Avro's rules."
        note += f" {left} earlier versions are left out." if left else ""
        return f"<section>{head}\n<p>{note}</p>\n{table}{_reasons(names, cells)}</section>"

    def _matrix_of(self, shown: tuple[Known, ...]) -> list[list[views.Cell]]:
        # Asked for twice on a page, and of wide schemas it takes a while.
        if self._cells is None or self._cells[0] != shown:
            self._cells = (shown, views.matrix(shown))
        return self._cells[1]


def _reasons(names: Sequence[str], matrix: Sequence[Sequence[views.Cell]]) -> str:
    """Why a version cannot read another, as text: what is only seen when a mouse rests on it is not seen by all."""
    told = [
        f"<li>{escape(names[at])} and rows of {escape(names[by])}: {escape(cell.why)}</li>"
        for at, cells in enumerate(matrix)
        for by, cell in enumerate(cells)
        if cell.why
    ]
    if not told:
        return ""
    return f"<details><summary>Why not ({len(told)})</summary>\n<ul>{''.join(told)}</ul></details>"


def _verdict_cell(cell: views.Cell) -> str:
    told = "–" if cell.verdict == "itself" else cell.verdict
    return f'<td class="{_CELLS[cell.verdict]}">{told}</td>'


def _time(each: Known) -> str:
    if not each.at:
        return "since the table began"
    shown = re.sub(r"T(\d\d:\d\d).*", r" \1 UTC", each.at)
    return f'<time datetime="{escape(each.at)}">{escape(shown)}</time>'


def _tree_row(row: views.Row) -> str:
    kind = _SIGNS.get(row.sign, "")
    mark = f'<td class="sign {kind}">{escape(row.sign)}<span class="hidden">{kind}</span></td>'
    return "".join(
        [_node(row.before, kind), mark, _node(row.after, kind), f"<td>{escape('; '.join(row.changes))}</td>"]
    )


def _node(node: views.Node | None, kind: str) -> str:
    if node is None:
        return "<td></td>"
    return (
        f'<td class="{kind}" style="--depth:{node.depth}"><b>{escape(node.name)}</b> '
        f'<span class="type">{escape(node.type)}</span></td>'
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[str], class_: str = "") -> str:
    """A table in a region of its own, which scrolls where the window is narrow, also by keyboard."""
    named = any(columns)
    head = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in columns)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>\n" if named else ""
    kind = f' class="{class_}"' if class_ else ""
    return (
        f'<div class="scroll" role="region" aria-label="{escape(title)}" tabindex="0">\n'
        f"<table{kind}>\n{top}<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _cell(text: str) -> str:
    word = text.partition(" ")[0]
    return (
        f'<td class="{word}">{escape(text)}</td>' if word in _WORDS and len(text) < 12 else f"<td>{escape(text)}</td>"
    )
