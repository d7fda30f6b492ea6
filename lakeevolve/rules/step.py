"""What the rules about single changes are given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakeevolve.model.diff import Diff
from lakeevolve.model.value import value


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Step:
    """The step from the newest version of a history to the candidate.

    ``version`` is that version's number. ``reported`` holds (rule id, path) of what the mode has found already, so
    that nothing is said twice.
    """

    diff: Diff
    version: int
    subject: str
    reported: Collection[tuple[str, str]] = ()
