"""Which files stand for all where not all are read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from lakeevolve.errors import ConfigError
from lakeevolve.tables.base import DataFile


def sampled(files: Sequence[DataFile], sample: int | None) -> tuple[DataFile, ...]:
    """At most so many files, at least one of each version; all for None.

    Raises ``ConfigError`` for a sample of none.
    """
    if sample is None or sample >= len(files):
        return tuple(files)
    if sample < 1:
        raise ConfigError("a sample has at least one file", where=f"sample={sample}")
    # By a digest of the path: the same table gives the same sample, and no writer's naming decides it.
    ranked = sorted(files, key=lambda f: hashlib.sha256(f.path.encode("utf-8", "surrogatepass")).digest())
    first = {file.version: file for file in reversed(ranked)}
    kept = {file.path for file in first.values()}
    kept.update([file.path for file in ranked if file.path not in kept][: max(0, sample - len(kept))])
    return tuple(file for file in files if file.path in kept)
