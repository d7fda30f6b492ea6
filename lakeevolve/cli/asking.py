"""Before a table is changed somebody says yes: on a terminal when asked, else beforehand, by an option."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import typer

from lakeevolve.cli.console import note
from lakeevolve.errors import ConfigError


def can_ask() -> bool:
    """Whether somebody sits at a terminal who reads questions and answers them."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@dataclass(frozen=True, slots=True)
class Word:
    """What was said beforehand: ``given`` if somebody said yes, or nothing is to be changed."""

    given: bool

    @classmethod
    def of(cls, what: str, *, yes: bool, approved: bool, dry_run: bool) -> Word:
        """The word about *what* is to be applied.

        Raises ``ConfigError`` where none was given and nobody can be asked.
        """
        given = yes or approved or dry_run
        if not given and not can_ask():
            raise ConfigError(
                "without a terminal, nobody can be asked whether to go on: nothing was done",
                where=what,
                hint="give --yes, or --approved to apply what an approval covers; --dry-run changes nothing",
            )
        return cls(given)

    def or_ask(self, shown: Callable[[], str], question: str) -> bool:
        """Whether to go on: at once where the word was given, else after showing what it is about."""
        if self.given:
            return True
        # Stdout is the result's.
        note(shown())
        if typer.confirm(question, err=True):
            return True
        note("nothing was applied")
        return False
