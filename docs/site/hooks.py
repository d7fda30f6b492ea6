"""The order of the site's pages: whatever lies in a folder is in its section, so that no page is forgotten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
#: What comes first in a section; the rest follows by name.
FIRST = {"how-to": ["project-file", "adopt", "change-and-undo", "contracts", "big-tables", "registry"]}


def pages(folder: str) -> list[str]:
    first = FIRST.get(folder, [])
    names = sorted(
        (each.stem for each in (DOCS / folder).glob("*.md")),
        key=lambda name: (first.index(name) if name in first else len(first), name),
    )
    return [f"{folder}/{name}.md" for name in names]


def on_config(config: Any) -> Any:
    own = ("index", "tutorial", "ci", "testing", "benchmarks", "changelog")
    more = sorted(each.name for each in DOCS.glob("*.md") if each.stem not in own)
    config["nav"] = [
        {"Overview": "index.md"},
        {"Tutorial": "tutorial.md"},
        {"How to": [*pages("how-to"), {"Use it in CI": "ci.md"}, "testing.md", *more]},
        {"Explanation": pages("explanation")},
        {"Reference": [*pages("reference"), {"Python": "reference/api.md"}, {"Rules": "reference/rules/"}]},
        {"Benchmarks": "benchmarks.md"},
        {"Changes": "changelog.md"},
    ]
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Roles of reStructuredText in docstrings, as what they name."""
    return re.sub(r":(?:func|class|meth|mod|attr|exc):<code>~?([^<]*)</code>", r"<code>\1</code>", html)
