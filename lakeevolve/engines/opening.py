"""An engine by its name, or from what a caller has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final, cast

from lakeevolve.engines.local import LocalEngine
from lakeevolve.engines.protocol import Engine
from lakeevolve.errors import ConfigError

_FORMS: Final = "local, local://N, processes://N, dask://HOST:PORT, spark:MASTER or sc://HOST:PORT"
_COUNTED: Final = re.compile(r"(local|processes)(?:://(\d+))?")


@contextmanager
def open_engine(engine: Any = None) -> Iterator[Engine]:
    """The engine that is meant; what was started for it ends with the block.

    Parameters
    ----------
    engine:
        A name (see :mod:`lakeevolve.engines`), an engine, an executor, a Spark session, or None for threads.

    Raises
    ------
    ConfigError
        The name is that of no engine.
    EngineError
        Its library is not installed, or the cluster does not answer.

    Examples
    --------
    >>> with open_engine("local://2") as engine:
    ...     sorted(engine.map_unordered(abs, [-3, 1, -2]))
    [1, 2, 3]
    """
    if not isinstance(engine, str):
        yield _given(engine)
        return
    opened = _named(engine)
    try:
        yield opened
    finally:
        opened.close()


def _given(engine: Any) -> Engine:
    if engine is None:
        return LocalEngine()
    if hasattr(engine, "map_unordered"):
        return cast(Engine, engine)
    if isinstance(engine, Executor):
        from lakeevolve.engines.executor import ExecutorEngine

        return ExecutorEngine(engine)
    if hasattr(engine, "createDataFrame"):
        from lakeevolve.engines.spark import SparkEngine

        return SparkEngine(engine)
    raise ConfigError(
        f"a {type(engine).__name__} is no engine",
        hint=f"give an executor, a Spark session, or a name: {_FORMS}",
    )


def _named(name: str) -> Engine:
    counted = _COUNTED.fullmatch(name)
    if counted is not None:
        workers = int(counted.group(2)) if counted.group(2) else None
        if workers == 0:
            raise ConfigError("an engine needs at least one worker", where=name)
        if counted.group(1) == "local":
            return LocalEngine(workers)
        from lakeevolve.engines.executor import ProcessEngine

        return ProcessEngine(workers)
    scheme, _, rest = name.partition(":")
    if scheme == "dask" and rest.strip("/"):
        from lakeevolve.engines.executor import DaskEngine

        return DaskEngine(rest.lstrip("/"))
    if scheme in ("spark", "sc") and rest.strip("/"):
        from lakeevolve.engines.spark import SparkEngine

        return SparkEngine.connect(name if scheme == "sc" or rest.startswith("//") else rest)
    raise ConfigError(f"no engine is called {name!r}", hint=f"write {_FORMS}")
