"""How large the text of a schema may be."""

from __future__ import annotations

from typing import Final

from lakeevolve.errors import SourceError

#: The largest schema that anyone is known to use is well under a hundredth of this.
MAX_BYTES: Final = 16 * 2**20


def refuse_large(size: int, where: str) -> None:
    """Raise ``SourceError`` for a text of more than ``MAX_BYTES`` bytes."""
    if size > MAX_BYTES:
        raise SourceError(
            f"the schema has {size / 2**20:.0f} MiB, and {MAX_BYTES >> 20} MiB is the most that is read",
            where=where,
            hint="name the schema itself, not a file of data; avro:FILE reads the schema of a data file",
        )
