"""The local engine."""

from __future__ import annotations

import threading

import pytest

from lakeevolve.engines.local import LocalEngine


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_item_is_done_once(workers: int) -> None:
    seen: list[int] = []
    found = list(LocalEngine(workers).map_unordered(lambda n: n * n, range(50), on_done=seen.append))
    assert sorted(found) == [n * n for n in range(50)]
    assert seen == found


def test_a_long_list_is_not_taken_ahead() -> None:
    taken = 0

    def items() -> object:
        nonlocal taken
        for n in range(1000):
            taken += 1
            yield n

    running = LocalEngine(2).map_unordered(abs, items())  # type: ignore[arg-type]
    next(running)
    assert taken <= 8
    running.close()  # type: ignore[attr-defined]


def test_an_exception_is_raised_and_what_has_not_begun_is_not_begun() -> None:
    begun: list[int] = []

    def run(n: int) -> int:
        begun.append(n)
        if n == 3:
            raise ZeroDivisionError
        return n

    with pytest.raises(ZeroDivisionError):
        list(LocalEngine(1).map_unordered(run, range(100)))
    assert begun == [0, 1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        list(LocalEngine(3).map_unordered(run, range(100)))
    assert len(begun) < 100


def test_work_runs_side_by_side() -> None:
    meet = threading.Barrier(2, timeout=20)
    assert sorted(LocalEngine(2).map_unordered(lambda n: (meet.wait() >= 0, n)[1], [1, 2])) == [1, 2]


def test_an_empty_list_gives_nothing() -> None:
    assert list(LocalEngine(2).map_unordered(abs, [])) == []
