"""Building the demo's tables: each version's rows are appended while the table has that version's schema."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, TypeVar

from lakeevolve import _api as le
from lakeevolve.config.state import VARIABLE
from lakeevolve.demo import samples
from lakeevolve.errors import ConfigError

#: The file that says that a folder is the demo's own.
OWN: Final = ".lakeevolve-demo"
PARTS: Final = ("iceberg", "delta", "schemas", "plans", "state")

Format = Literal["iceberg", "delta"]
FORMATS: Final[tuple[Format, ...]] = ("iceberg", "delta")
#: What both formats use. Loaded before they go side by side: a module that two threads load at once can be met half
#: loaded.
SHARED: Final = (
    "lakeevolve.applying.apply",
    "lakeevolve.planning.make",
    "lakeevolve.replaying.verify",
    "lakeevolve.tables.delta",
    "lakeevolve.tables.iceberg",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
)

#: Called with the format, what is being done to its tables, the steps done and the steps in all.
Progress = Callable[[Format, str, int, int], None]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class DemoTable:
    """One table of the demo."""

    name: str
    format: Format
    uri: str
    rows: int


def quiet(_format: Format, _what: str, _done: int, _of: int) -> None:
    """No progress."""


def each_format(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``function(item)`` for every item, in their order: the two formats have nothing in common and go side by side."""
    with ThreadPoolExecutor(len(FORMATS)) as pool:
        yield from pool.map(function, items)


def build(directory: str | Path, progress: Progress = quiet) -> tuple[DemoTable, ...]:
    """Create the sample tables in both formats, with the rows of versions 1 to 3.

    Each table is created with version 1 of its schema and brought to versions 2 and 3 by ``plan`` and ``apply``, with
    that version's rows appended in between: so every table holds files of three versions, as real ones do.

    Parameters
    ----------
    directory:
        A folder that does not exist, is empty, or holds an earlier demo, which is replaced.
    progress:
        Called before each step.

    Returns
    -------
    tuple[DemoTable, ...]
        The tables, in the order of :data:`samples.TABLES` and :data:`FORMATS`.

    Raises
    ------
    ConfigError
        The folder holds something else, or cannot be written.

    Examples
    --------
    >>> from lakeevolve.demo.build import build
    >>> [table.uri for table in build("lakeevolve-demo")]  # doctest: +SKIP
    ['iceberg:lakeevolve-demo/iceberg/shop.orders', 'delta:lakeevolve-demo/delta/orders', ...]
    """
    root = Path(directory)
    claim(root)
    for module in SHARED:
        import_module(module)
    with state_in(root):
        of_format = list(each_format(functools.partial(_build, root, progress), FORMATS))
    return tuple(table for of_name in zip(*of_format, strict=True) for table in of_name)


def _build(root: Path, progress: Progress, format_: Format) -> list[DemoTable]:
    made = []
    for name in samples.TABLES:
        uri, rows = _uri(root, name, format_), 0
        for version in samples.WRITTEN:
            progress(format_, f"{name}: version {version}", version - 1, len(samples.WRITTEN))
            rows += _write(root, name, format_, uri, version)
        made.append(DemoTable(name, format_, uri, rows))
    return made


def schema_file(root: Path, table: str, version: int | str) -> Path:
    """The demo's own copy of a schema, next to the tables, so that it can be named in a command."""
    return root / "schemas" / table / f"v{version}.avsc"


def claim(root: Path) -> None:
    """Make the folder the demo's own and empty it of an earlier demo.

    Raises ``ConfigError`` where it is no folder, holds something that no demo made, or cannot be written.
    """
    try:
        if root.exists() and not root.is_dir():
            raise ConfigError("the demo needs a folder, and this is a file", where=str(root), hint="name another path")
        if root.is_dir() and any(root.iterdir()) and not (root / OWN).is_file():
            raise ConfigError(
                "the folder is not empty and holds no earlier demo, so nothing was written",
                where=str(root),
                hint="name a new folder: lakeevolve demo DIR",
            )
        root.mkdir(parents=True, exist_ok=True)
        (root / OWN).write_text("Made by lakeevolve demo, which replaces what lies here when it runs again.\n")
        for part in PARTS:
            if (root / part).exists():
                shutil.rmtree(root / part)
        shutil.copytree(samples.folder(), root / "schemas", ignore=shutil.ignore_patterns("*.parquet", "*.md"))
        (root / "plans").mkdir()
    except OSError as error:
        raise ConfigError(
            f"the demo's folder cannot be written: {error.strerror}", where=str(root), hint="name a writable folder"
        ) from error


@contextmanager
def state_in(root: Path) -> Iterator[None]:
    """Keep plans, journal, evidence and ledger beneath the demo's folder while this lasts."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(root / "state")
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _uri(root: Path, name: str, format_: Format) -> str:
    return f"iceberg:{root}/iceberg/shop.{name}" if format_ == "iceberg" else f"delta:{root}/delta/{name}"


def _write(root: Path, name: str, format_: Format, uri: str, version: int) -> int:
    from lakeevolve.tables import delta, iceberg

    format_module = iceberg if format_ == "iceberg" else delta
    wanted = le.load(schema_file(root, name, version))
    if version == 1:
        format_module.create_table(uri, wanted)
    else:
        plan = le.plan(uri, wanted, mode="BACKWARD")
        le.apply(plan, allow=plan.permits)
    rows = samples.rows(name, version)
    format_module.append(uri, rows)
    return int(rows.num_rows)
