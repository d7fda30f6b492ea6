"""Ctrl-C and SIGTERM while a table is being changed: the command says what state the table is in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lakeevolve.errors import Interrupted, LakeEvolveError


class Stopped(LakeEvolveError):
    """The interruption as the error that ends the command."""

    exit_code = Interrupted.exit_code


@contextmanager
def stoppable() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, and either for an error that says what state the table is in."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _interrupt) if main else None
    try:
        yield
    except Interrupted as stop:
        raise Stopped(stop.what, where=stop.where, hint=stop.hint) from stop
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
