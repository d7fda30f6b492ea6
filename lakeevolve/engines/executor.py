"""Work in other processes: any :class:`concurrent.futures.Executor`, Dask's among them, or a pool of our own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic

from lakeevolve.engines.protocol import Item, Result, told
from lakeevolve.engines.quiet import Quiet, TaskFailed
from lakeevolve.errors import EngineError, LakeEvolveError

#: How often an item is tried before its failure counts.
TRIES: Final = 3


@dataclass(slots=True)
class _Attempt(Generic[Item]):
    item: Item
    failed: int = 0
    #: Where it was run last: other threads may use the same engine, and one of them may have replaced that since.
    by: Executor | None = None


class ExecutorEngine:
    """Runs a function over a list with an executor, which stays open.

    An item whose function fails with anything but a ``LakeEvolveError`` is tried three times in all.

    Parameters
    ----------
    executor:
        Any executor. For processes and clusters, functions and items have to be plain data.
    window:
        How many items are handed over ahead of the results.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     sorted(ExecutorEngine(pool).map_unordered(abs, [-3, 1, -2]))
    [1, 2, 3]
    """

    remote = True

    def __init__(self, executor: Executor, *, window: int = 64) -> None:
        self._executor = executor
        self._window = window
        self._replacing = threading.Lock()

    def map_unordered(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        on_done: Callable[[Result], None] | None = None,
    ) -> Iterator[Result]:
        """See :meth:`lakeevolve.engines.protocol.Engine.map_unordered`.

        Raises
        ------
        EngineError
            An item failed three times, or the workers are gone and cannot be replaced.
        """
        return told(self._run(function, items), on_done)

    def close(self) -> None:
        """The executor belongs to whoever handed it over."""

    def _replace(self, dead: Executor | None) -> None:
        """Have another executor in the place of one whose workers died, unless another thread saw to it."""
        with self._replacing:
            if self._executor is dead:
                self._executor = self._again()

    def _again(self) -> Executor:
        raise EngineError(
            "the workers died, and the executor takes no more work",
            hint="nothing was committed; see the workers' logs (memory is the usual cause) and run again",
        )

    def _run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        source = iter(items)
        again: deque[_Attempt[Item]] = deque()
        #: Those that ran when a worker died: one of them may be why, so they run alone until each has had its turn.
        suspects: deque[_Attempt[Item]] = deque()
        running: dict[Future[Result], _Attempt[Item]] = {}
        try:
            while True:
                alone = bool(suspects)
                while len(running) < (1 if alone else self._window):
                    attempt = suspects.popleft() if suspects else again.popleft() if again else _next(source)
                    if attempt is None:
                        break
                    running[self._submit(function, attempt)] = attempt
                if not running:
                    return
                broken: list[_Attempt[Item]] = []
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    attempt = running.pop(future)
                    error = future.exception()
                    if error is None:
                        yield future.result()
                    elif isinstance(error, LakeEvolveError):
                        raise error
                    elif isinstance(error, BrokenExecutor):
                        broken.append(attempt)
                    else:
                        again.append(_failed(attempt, error))
                if broken:
                    broken += running.values()
                    running.clear()
                    suspects.extend(_failed(broken[0], None) if alone else each for each in broken)
                    for attempt in broken:
                        self._replace(attempt.by)
        finally:
            # What has begun is let end, so that nothing is written behind the back of who cleans up after a failure.
            wait([future for future in running if not future.cancel()])

    def _submit(self, function: Callable[[Item], Result], attempt: _Attempt[Item]) -> Future[Result]:
        executor = attempt.by = self._executor
        try:
            return executor.submit(Quiet(function), attempt.item)
        except BrokenExecutor:
            self._replace(executor)
            executor = attempt.by = self._executor
            return executor.submit(Quiet(function), attempt.item)
        except RuntimeError as error:
            raise EngineError(
                "the executor was shut down and takes no more work", hint="hand over one that is open"
            ) from error


def _next(source: Iterator[Item]) -> _Attempt[Item] | None:
    for item in source:
        return _Attempt(item)
    return None


def _failed(attempt: _Attempt[Item], error: BaseException | None) -> _Attempt[Item]:
    attempt.failed += 1
    if attempt.failed < TRIES:
        return attempt
    name = str(error) if isinstance(error, TaskFailed) else type(error).__name__
    what = "the worker died each time" if error is None else f"the last time with {name}"
    raise EngineError(
        f"a task failed {TRIES} times, {what}",
        where=getattr(attempt.item, "path", None),
        hint="nothing was committed; give the workers more memory, or run with --engine local to see the cause",
    ) from error


class ProcessEngine(ExecutorEngine):
    """Runs a function over a list with processes of this machine. One that dies is replaced.

    Parameters
    ----------
    workers:
        How many processes; by default as many as there are processors.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers if workers is not None else os.cpu_count() or 1
        super().__init__(self._open(), window=2 * self.workers)

    def close(self) -> None:
        """End the processes."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _open(self) -> ProcessPoolExecutor:
        # A fork would copy the locks of Arrow's threads as they happen to stand.
        return ProcessPoolExecutor(self.workers, mp_context=multiprocessing.get_context("spawn"))

    def _again(self) -> Executor:
        self._executor.shutdown(wait=False, cancel_futures=True)
        return self._open()

    def _run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        sendable(function)
        yield from super()._run(function, items)


class DaskEngine(ExecutorEngine):
    """Runs a function over a list on a Dask cluster.

    Parameters
    ----------
    address:
        Of the scheduler, ``HOST:PORT``.

    Raises
    ------
    EngineError
        Dask is not installed, or the scheduler does not answer.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise EngineError("Dask is not installed", hint="pip install 'lakeevolve[dask]'") from error
        try:
            self._client: Any = Client(f"tcp://{address}", timeout="10s", set_as_default=False)
        except OSError as error:
            raise EngineError(
                "no Dask scheduler answers there", where=f"dask://{address}", hint="check the address and the cluster"
            ) from error
        super().__init__(self._client.get_executor(pure=False))

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        with suppress(Exception):
            self._client.close()


def sendable(function: Callable[..., Any]) -> None:
    """Raise ``EngineError`` where a function cannot be sent to another process."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise EngineError(
            "what is to be run cannot be sent to another process",
            hint="functions have to be importable, and what they hold plain data; or run with --engine local",
        ) from error
