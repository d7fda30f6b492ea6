"""Work on Spark: ``mapInArrow``, which a classic session and Spark Connect both have.

Spark runs a task anew when it fails or its executor dies, so a function has to bear being run twice. A task costs
Spark far more than a file costs us, so files are grouped by their bytes into a few tasks for each core.
"""

from __future__ import annotations

import heapq
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from lakeevolve.engines.protocol import Item, Result, told
from lakeevolve.engines.quiet import Quiet
from lakeevolve.errors import EngineError, LakeEvolveError

#: Tasks for each core of the cluster.
TASKS_PER_CORE: Final = 3

_ANSWERS: Final = "number long, ok boolean, answer binary"


class SparkEngine:
    """Runs a function over a list on Spark.

    Parameters
    ----------
    session:
        A Spark session, classic or Connect. Its executors need lakeevolve, and what opens the tables.
    tasks:
        How many tasks a list becomes at most; by default three for each core that the session tells of.

    Examples
    --------
    >>> sorted(SparkEngine(session).map_unordered(abs, [-3, 1, -2]))  # doctest: +SKIP
    [1, 2, 3]
    """

    remote = True

    def __init__(self, session: Any, *, tasks: int | None = None) -> None:
        self.session = session
        self._tasks = tasks
        self._ours = False

    @classmethod
    def connect(cls, master: str) -> SparkEngine:
        """A session of our own: ``sc://HOST:PORT`` for Spark Connect, else a master's address.

        Raises
        ------
        EngineError
            pyspark is not installed, or no session came about.
        """
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise EngineError("pyspark is not installed", hint="pip install 'lakeevolve[spark]'") from error
        if master.startswith("local"):
            # Workers of this machine would otherwise take whatever python3 the path has.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("lakeevolve")
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
        try:
            there = SparkSession.getActiveSession()
            made = cls(builder.getOrCreate())
        except Exception as error:
            raise EngineError(
                f"no Spark session came about ({type(error).__name__})",
                where=master if master.startswith("sc://") else f"spark:{master}",
                hint="check the address, the cluster, and that Java is installed for a classic session",
            ) from error
        # A session that runs already is taken, and it is somebody else's.
        made._ours = there is None
        return made

    def map_unordered(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        on_done: Callable[[Result], None] | None = None,
    ) -> Iterator[Result]:
        """See :meth:`lakeevolve.engines.protocol.Engine.map_unordered`. Results come when all are done.

        Raises
        ------
        EngineError
            Spark gave up on a task.
        """
        return told(self._run(function, list(items)), on_done)

    def close(self) -> None:
        """End the session, if it is our own."""
        if self._ours:
            with suppress(Exception):
                self.session.stop()

    def _run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        if not items:
            return
        groups = grouped(items, self._tasks or TASKS_PER_CORE * self._cores())
        try:
            from pyspark import cloudpickle

            sent = cloudpickle.dumps(Quiet(function))
            rows = [(number, pickle.dumps(group)) for number, group in enumerate(groups)]
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise EngineError(
                "what is to be run cannot be sent to another process",
                hint="functions have to be importable, and what they hold plain data; or run with --engine local",
            ) from error
        try:
            frame = self.session.createDataFrame(rows, "number long, items binary")
            frame = frame.repartitionByRange(len(rows), "number")
            answers = frame.mapInArrow(_mapped(sent), _ANSWERS).collect()
        except ImportError as error:
            # mapInArrow wants pandas to be there, though no row becomes one of its frames.
            raise EngineError(
                "Spark lacks a Python package", hint="pip install 'lakeevolve[spark]', on the executors too"
            ) from error
        except Exception as error:
            # Spark's own text is the worker's whole trace.
            raise EngineError(
                f"Spark gave up on the work ({type(error).__name__})",
                hint="nothing was committed; see the executors' logs, or run with --engine local to see the cause",
            ) from error
        for answer in answers:
            made = pickle.loads(answer["answer"])
            if not answer["ok"]:
                raise made
            yield from made

    def _cores(self) -> int:
        """How many tasks run at once, as far as the session tells."""
        with suppress(Exception):
            return max(1, int(self.session.sparkContext.defaultParallelism))
        with suppress(Exception):
            return max(1, int(self.session.conf.get("spark.default.parallelism")))
        return 8


def _mapped(sent: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a Spark task runs: the function over the items of its rows."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        function = pickle.loads(sent)
        for batch in batches:
            for number, items in zip(batch["number"].to_pylist(), batch["items"].to_pylist(), strict=True):
                try:
                    ok, answer = True, pickle.dumps([function(item) for item in pickle.loads(items)])
                except LakeEvolveError as error:
                    ok, answer = False, pickle.dumps(error)
                columns = [pa.array([number], pa.int64()), pa.array([ok]), pa.array([answer], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["number", "ok", "answer"])

    return run


def grouped(items: Sequence[Item], most: int) -> list[list[Item]]:
    """The items in at most so many groups of about the same bytes (an item's ``bytes``, where it has such).

    >>> from types import SimpleNamespace as File
    >>> [[f.bytes for f in g] for g in grouped([File(bytes=b) for b in (1, 9, 2, 3, 3)], 2)]
    [[9], [3, 3, 2, 1]]
    """
    count = min(most, len(items))
    weighed = sorted(((getattr(item, "bytes", None) or 1, n) for n, item in enumerate(items)), key=lambda w: -w[0])
    heap = [(0, n) for n in range(count)]
    groups: list[list[Item]] = [[] for _ in range(count)]
    for weight, n in weighed:
        total, group = heapq.heappop(heap)
        groups[group].append(items[n])
        heapq.heappush(heap, (total + weight, group))
    return groups
