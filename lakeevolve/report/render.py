"""One outcome in any format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from lakeevolve.errors import ConfigError
from lakeevolve.report.outcome import Outcome

#: Format -> the function that makes it, loaded when it is asked for.
RENDERERS: Final[Mapping[str, str]] = {
    "text": "lakeevolve.report.text:outcome_text",
    "json": "lakeevolve.report.json:outcome_json",
    "markdown": "lakeevolve.report.markdown:markdown",
    "html": "lakeevolve.report.html:html",
    "sarif": "lakeevolve.report.sarif:sarif",
    "junit": "lakeevolve.report.junit:junit",
    "github": "lakeevolve.report.github:github",
    "gitlab": "lakeevolve.report.gitlab:gitlab",
}


def render(outcome: Outcome, format: str) -> str:
    """The outcome as text in that format, without a newline at its end."""
    if format not in RENDERERS:
        raise ConfigError(f"there is no format {format!r}", hint="one of " + ", ".join(RENDERERS))
    module, _, name = RENDERERS[format].partition(":")
    make: Callable[[Outcome], str] = getattr(import_module(module), name)
    return make(outcome)
