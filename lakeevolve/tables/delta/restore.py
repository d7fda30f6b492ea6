"""How long a Delta table can go back."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lakeevolve.tables.delta.log import Metadata

_KEPT: Final = "delta.deletedFileRetentionDuration"
_WEEK: Final = timedelta(days=7)
_UNITS: Final = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}
_INTERVAL: Final = re.compile(r"(?:interval )?(\d+) (week|day|hour|minute|second)s?", re.IGNORECASE)


def retention(metadata: Metadata) -> timedelta:
    """How long files that a commit took out stay before a vacuum may delete them."""
    found = _INTERVAL.fullmatch(metadata.configuration.get(_KEPT, "").strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found is not None else _WEEK
