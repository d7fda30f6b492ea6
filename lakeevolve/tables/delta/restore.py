"""How long a Delta table can go back, and who wrote to it last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from lakeevolve.errors import TableError
from lakeevolve.tables.base import Write
from lakeevolve.tables.delta.log import Commit, Metadata, Snapshot
from lakeevolve.tables.delta.raw import relative

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

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


def refuse_vacuumed(fs: pa_fs.FileSystem, then: Snapshot, now: Snapshot, where: str) -> None:
    """Raise ``TableError`` where files of an earlier version that are no longer live are not there any more."""
    import pyarrow.fs as pa_fs

    paths = [relative(path, where) for path in then.files.keys() - now.files.keys()]
    gone = [info.path for info in fs.get_file_info(paths) if info.type is pa_fs.FileType.NotFound]
    if gone:
        raise TableError(
            f"{len(gone)} of the {len(then.files)} files of version {then.version} are gone: a vacuum took them",
            where=where,
            hint="the schema can still be changed back over today's rows: lakeevolve revert PLAN",
        )


def writes(commits: Sequence[Commit], limit: int) -> tuple[Write, ...]:
    """The last commits that others made, the newest first."""
    theirs = (each for each in reversed(commits) if not each.properties)
    return tuple(Write(each.at, each.operation or "unknown", each.engine) for each in islice(theirs, limit))
