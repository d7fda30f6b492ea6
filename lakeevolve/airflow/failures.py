"""What a task fails with: Airflow's exceptions, so that a retry happens where one can help and nowhere else.

Neither a credential nor what a library said of a row is passed on: Airflow logs an exception with everything that led
to it, so what is raised here has no cause.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from lakeevolve.errors import (
    ConfigError,
    Interrupted,
    InvalidConfig,
    LakeEvolveError,
    PlanError,
    ReplayMismatch,
    ResolutionError,
    SchemaError,
    SourceNotFound,
    StateUnavailable,
    TableNotFound,
    UnknownScheme,
    UnsupportedTable,
)
from lakeevolve.redaction import redact

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: What is the same at the next attempt: somebody has to decide, mend or plan anew.
FINAL: Final = (
    ConfigError,
    PlanError,
    ReplayMismatch,
    ResolutionError,
    SchemaError,
    SourceNotFound,
    TableNotFound,
    UnknownScheme,
    UnsupportedTable,
)

_PACKAGE: Final = Path(__file__).resolve().parents[1]

log = logging.getLogger("lakeevolve.airflow")


def may_pass(error: BaseException) -> bool:
    """Whether another attempt may end otherwise: a store that is down comes back, a refused plan stays refused.

    >>> from lakeevolve.errors import CatalogUnavailable, StalePlan
    >>> may_pass(CatalogUnavailable("the catalog did not answer")), may_pass(StalePlan("the plan is stale"))
    (True, False)
    """
    # What was applied when the state could not be written is said by an error of its own, which this one led to.
    return any(isinstance(each, StateUnavailable) for each in (error, error.__cause__)) or not isinstance(error, FINAL)


@dataclass(frozen=True, slots=True)
class Failure:
    """What a task fails with, as plain data. ``final``: a retry would end the same."""

    text: str
    code: int
    kind: str
    final: bool

    def as_exception(self) -> Exception:
        """Airflow's exception, without a cause."""
        from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

        failed: Exception = (AirflowFailException if self.final else AirflowException)(self.text)
        failed.exit_code = self.code  # type: ignore[attr-defined]
        failed.kind = self.kind  # type: ignore[attr-defined]
        return failed


def failure_of(error: BaseException) -> Failure:
    """What an error comes to for a task."""
    if isinstance(error, LakeEvolveError | Interrupted):
        lines = error.faults if isinstance(error, InvalidConfig) else error.lines()
        text, code = " | ".join(lines), error.exit_code
    elif _has_airflow() and _is_theirs(error):
        return Failure(redact(str(error)), 2, type(error).__name__, _is_final(error))
    else:
        log.debug("%s", redact("".join(traceback.format_exception(error)), library=True))
        # A library's text may hold row values, so only the type of what happened is told, and where.
        what = f"an unexpected {type(error).__name__} stopped lakeevolve{_place(error)}"
        text, code = f"{what} | next: run again with Airflow's logging level DEBUG", 2
    return Failure(f"{redact(text)} (exit {code})", code, type(error).__name__, not may_pass(error))


def as_airflow_says(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a function raise Airflow's exceptions.

    ``AirflowFailException`` (no retry) where the next attempt would end the same, ``AirflowException`` otherwise. Each
    has lakeevolve's exit code as ``exit_code`` and the name of its error as ``kind``. Without Airflow, lakeevolve's own
    errors are raised.
    """

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (Exception, Interrupted) as error:
            if not _has_airflow() or _is_theirs(error):
                raise
            failed = failure_of(error)
        raise failed.as_exception()

    # By a return type that is a mapping, TaskFlow would push each key as an XCom of its own.
    run.__annotations__ = {name: kind for name, kind in run.__annotations__.items() if name != "return"}
    return run


def _has_airflow() -> bool:
    try:
        import airflow  # noqa: F401
    except ImportError:
        return False
    return True


def _is_theirs(error: BaseException) -> bool:
    from airflow.providers.common.compat.sdk import AirflowException

    return isinstance(error, AirflowException)


def _is_final(error: BaseException) -> bool:
    from airflow.providers.common.compat.sdk import AirflowFailException

    return isinstance(error, AirflowFailException)


def _place(error: BaseException) -> str:
    """Where in lakeevolve it happened."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(frame.filename).parents]
    return f" ({Path(frames[-1].filename).relative_to(_PACKAGE.parent)}:{frames[-1].lineno})" if frames else ""
