"""Benchmarks: what lakeevolve costs beside what it is held against, measured in one run.

``python -m tests.benchmarks`` runs every module of this folder, ``python -m tests.benchmarks avro startup`` some. A
module offers ``measure() -> list[Figure]``. Times are CPU time of this process and its children, so that what else the
machine does counts little; what is compared runs by turns, so that it counts for both sides.
"""

from __future__ import annotations

import gc
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Parameters
    ----------
    name:
        What was done, and how much of it.
    measured, unit:
        The figure, and what it counts: ``x avro`` for a ratio, ``CPU s``, ``MB``.
    at_least, at_most:
        The target, if there is one.
    detail:
        What the figure was made from, such as the two times of a ratio.
    """

    name: str
    measured: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    detail: str = ""

    @property
    def target(self) -> str:
        bounds = ((self.at_least, ">="), (self.at_most, "<="))
        return " and ".join(f"{sign} {bound:g}" for bound, sign in bounds if bound is not None)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if not self.target:
            return None
        return (self.at_least is None or self.measured >= self.at_least) and (
            self.at_most is None or self.measured <= self.at_most
        )


@dataclass(frozen=True, slots=True)
class Times:
    """CPU seconds of one call, of several turns. Other work on the machine disturbs the best one least."""

    best: float
    median: float


def cpu_time() -> float:
    """CPU seconds of this process with its threads, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_memory() -> float:
    """What this process held in memory at most, in MB.

    ``getrusage`` would count what its parent held when it made it: on Linux that outlives the new program's start.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)


def side_by_side(calls: Mapping[str, Callable[[], object]], *, repeats: int = 5, warm: bool = True) -> dict[str, Times]:
    """Call each of *calls* in turn, *repeats* times over.

    Parameters
    ----------
    calls:
        What to do, by name. One call should take at least some milliseconds; loop inside it if it does not.
    repeats:
        Turns that count.
    warm:
        Begin with a turn that does not count.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-warm, repeats):
        for name, call in calls.items():
            gc.collect()
            before = cpu_time()
            call()
            after = cpu_time()
            if turn >= 0:
                taken[name].append(after - before)
    return {name: Times(min(times), statistics.median(times)) for name, times in taken.items()}


def ratio(name: str, ours: float, theirs: float, unit: str, *, at_least: float | None = None) -> Figure:
    """How many times as fast as another we are: CPU seconds for the same work."""
    return Figure(name, theirs / ours, unit, at_least=at_least, detail=f"{seconds(ours)} to {seconds(theirs)}")


def seconds(value: float) -> str:
    """CPU seconds for a reader: ``12.3 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1 or unit == "us":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError
