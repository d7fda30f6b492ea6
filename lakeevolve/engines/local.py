"""Work on this machine: a pool of threads, which Arrow's kernels and Parquet's decoder let run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from lakeevolve.engines.protocol import Item, Result, told


class LocalEngine:
    """Runs a function over a list with threads.

    Parameters
    ----------
    workers:
        How many threads; by default as many as there are processors, eight at most. With 1, everything runs in the
        calling thread.

    Examples
    --------
    >>> sorted(LocalEngine(2).map_unordered(abs, [-3, 1, -2]))
    [1, 2, 3]
    """

    remote = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers if workers is not None else min(8, os.cpu_count() or 1)

    def map_unordered(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        on_done: Callable[[Result], None] | None = None,
    ) -> Iterator[Result]:
        """Yield ``function(item)`` for every item as each is done, in no particular order.

        At most twice as many items as there are workers are taken from *items* ahead of the results, so that a long
        list costs no memory. ``on_done`` is called in the calling thread. An exception of the function is raised here;
        what has not begun by then is not begun.
        """
        return told(self._run(function, items), on_done)

    def close(self) -> None:
        """Nothing is kept between calls."""

    def _run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        if self.workers <= 1:
            yield from map(function, items)
            return
        source = iter(items)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="lakeevolve") as pool:
            running: set[Future[Result]] = set()
            try:
                while True:
                    for item in source:
                        running.add(pool.submit(function, item))
                        if len(running) >= 2 * self.workers:
                            break
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in running:
                    future.cancel()
