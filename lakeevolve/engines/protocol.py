"""What an engine is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Who runs a function over a list."""

    @property
    def remote(self) -> bool:
        """Whether functions run in other processes: then they, the items and the results have to be plain data."""
        ...

    def map_unordered(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        on_done: Callable[[Result], None] | None = None,
    ) -> Iterator[Result]:
        """Yield ``function(item)`` for every item, in no particular order.

        ``on_done`` is called in the asking thread with each result. A ``LakeEvolveError`` of the function is an
        answer: it is raised here, and the function is not tried again. What an engine does about other failures it
        says itself; a function has to bear being run twice for one item.
        """
        ...

    def close(self) -> None:
        """Let go of what the engine itself started; what it was handed stays."""
        ...


def told(results: Iterable[Result], on_done: Callable[[Result], None] | None) -> Iterator[Result]:
    """The results, each told before it is given."""
    for result in results:
        if on_done is not None:
            on_done(result)
        yield result
