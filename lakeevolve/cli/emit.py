"""A result on stdout and in the files that ``--output`` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    for each in outputs or ():
        wanted, _, file = each.partition("=")
        target = Path(file)
        try:
            target.write_text(render(outcome, wanted) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"the result cannot be written: {error.strerror}", where=str(target), hint="choose a writable path"
            ) from error
