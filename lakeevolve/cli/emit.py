"""A result on stdout and in the files that ``--output`` names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakeevolve.cli.console import write
from lakeevolve.errors import ConfigError

if TYPE_CHECKING:
    from lakeevolve.report.outcome import Outcome


def emit(outcome: Outcome, format: str, outputs: Sequence[str] | None) -> None:
    """Write the outcome to stdout in one format, and into each ``FORMAT=FILE``.

    Raises ``ConfigError`` where a file cannot be written; the result is on stdout then all the same.
    """
    from lakeevolve.report.render import render

    text = render(outcome, format)
    if text:
        write(text, coloured=format == "text")
    if format == "github":
        _summarise(render(outcome, "markdown"))
    for each in outputs or ():
        wanted, _, file = each.partition("=")
        _into(Path(file), render(outcome, wanted), "w")


def _summarise(text: str) -> None:
    """Add to the summary of the job, where GitHub asks for one."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        _into(Path(place), text, "a")


def _into(file: Path, text: str, mode: Literal["w", "a"]) -> None:
    try:
        with file.open(mode, encoding="utf-8") as out:
            out.write(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"the result cannot be written: {error.strerror}", where=str(file), hint="choose a writable path"
        ) from error
