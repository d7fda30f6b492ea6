"""Delta tables on a disk, by pattern."""

from __future__ import annotations

import glob
import os
from typing import Any, Final

from lakeevolve.errors import ConfigError

LOG: Final = "_delta_log"


def list_tables(pattern: str, /, **_options: Any) -> tuple[str, ...]:
    """The URIs of the tables whose folders match ``delta:PATTERN``. A table inside another's folder is none."""
    path = pattern.removeprefix("delta:")
    if "://" in path:
        raise ConfigError(
            "an object store is not searched for tables",
            where=pattern,
            hint="name each table, or list the store with its own tool",
        )
    found = [each.rstrip("/") for each in glob.iglob(path, recursive=True) if os.path.isdir(os.path.join(each, LOG))]
    kept: list[str] = []
    for each in sorted(set(found)):
        if not any(each.startswith(f"{outer}/") for outer in kept):
            kept.append(each)
    return tuple(f"delta:{each}" for each in kept)
