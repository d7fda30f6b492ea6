"""How many rows of a Parquet file are decoded at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: At most so many rows, and at least so many: fewer cost more in calls than they save in memory.
MOST: Final = 131_072
LEAST: Final = 1_024

#: About so many bytes, as the file holds them before compression. Decoded they may be some times as many.
BYTES: Final = 1 << 23

#: So many row groups are looked at.
_GROUPS: Final = 4


def batch_rows(metadata: pq.FileMetaData) -> int:
    """The number of rows per batch that keeps memory within bounds however wide the rows are."""
    rows = size = 0
    for index in range(min(metadata.num_row_groups, _GROUPS)):
        group = metadata.row_group(index)
        rows, size = rows + group.num_rows, size + group.total_byte_size
    return max(LEAST, min(MOST, BYTES * rows // size if size > 0 else MOST))
