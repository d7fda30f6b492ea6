"""What other tools did to a table since its marker was written last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakeevolve.rules.drift import changed_by_others
from lakeevolve.rules.findings import Finding
from lakeevolve.tables.base import Version


def drift(versions: Sequence[Version], uri: str) -> tuple[Finding, ...]:
    """A finding for each change of the versions, oldest first, that no marker holds.

    A table that has no marker at all has not drifted: nobody said yet what it is to be.
    """
    found: list[Finding] = []
    for before, after in pairwise(versions):
        if not after.recorded and versions[0].recorded:
            found += changed_by_others(before.schema, after.schema, after.renames, after.number, uri)
    return tuple(found)
