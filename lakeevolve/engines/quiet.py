"""A task whose failures say nothing of the data: workers write what fails into logs that others read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from lakeevolve.engines.protocol import Item, Result
from lakeevolve.errors import LakeEvolveError


class TaskFailed(Exception):  # raised in a worker, and never seen by a user
    """A library's error, by its type's name alone: its text may hold a value of a row."""


@dataclass(frozen=True, slots=True)
class Quiet(Generic[Item, Result]):
    """A function whose errors, but for ours, are told by their type."""

    function: Callable[[Item], Result]

    def __call__(self, item: Item) -> Result:
        try:
            return self.function(item)
        except LakeEvolveError:
            raise
        except Exception as error:
            raise TaskFailed(type(error).__name__) from None
