"""What a folder of files and data in memory have in common: parts with rows, and a marker beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from lakeevolve.errors import LakeEvolveError, UnsupportedTable
from lakeevolve.sources.arrow import schema_of_arrow
from lakeevolve.tables.base import Stored
from lakeevolve.tables.parquet.derive import loose

#: In a file's own metadata, or that of an object: the version that it was written for.
FILE_VERSION: Final = b"lakeevolve.file-version"


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows that lie together: a file, a fragment of a dataset, or a whole table in memory.

    ``schema`` is None where it cannot be read, ``version`` what the part itself says that it was written for. ``rows``
    and ``bytes`` are those that were ``recorded`` when it was written, where they were.
    """

    name: str
    rows: int
    bytes: int
    schema: pa.Schema | None
    version: int | None
    place: Any = field(compare=False, repr=False)
    recorded: bool = False


class Target(Protocol):
    """What an evolution writes, until it is there."""

    def write(self, part: Part, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Part:
        """Write the rows that a part becomes."""
        ...

    def copy(self, part: Part, version: int) -> Part:
        """Take a part over as it is, which was written for a version."""
        ...

    def source(self) -> Source:
        """What is written so far, to be read."""
        ...

    def finish(self, properties: Mapping[str, str], version: int) -> Source:
        """Let it appear, whole, with its marker. Raises ``CommitConflict`` where something is there by now."""
        ...

    def abandon(self) -> tuple[str, ...]:
        """Delete it; return what could not be deleted."""
        ...


class Source(Protocol):
    """Where rows lie."""

    @property
    def uri(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """What the record of its rows is called where nothing else says."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """The marker."""
        ...

    @property
    def parts(self) -> Sequence[Part]: ...

    @property
    def listing(self) -> str:
        """A digest that is another one once rows come or go."""
        ...

    def again(self) -> Source:
        """The same, as it is now."""
        ...

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part in their order, read as plainly as can be."""
        ...

    def scan(
        self, parts: Sequence[Part], schema: pa.Schema, condition: Any, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of parts as a pyarrow dataset gives them."""
        ...

    def stored(self, part: Part) -> Stored: ...

    def goes_to(self, version: int) -> str:
        """Where an evolution to a version is written, in words."""
        ...

    def target(self, version: int) -> Target:
        """Begin to write that version. Raises ``TableError`` where it cannot be written."""
        ...

    def successor(self, version: int) -> Source | None:
        """What an evolution to that version made of this, if it is there."""
        ...

    def earlier(self, version: int) -> Source | None:
        """What this was made from when it was of that version, if it is still there."""
        ...

    def discard(self, paths: Sequence[str]) -> tuple[str, ...]: ...


def columns_of(parts: Sequence[Part], where: str) -> pa.Schema:
    """The columns that all parts have, nullable where any part's is.

    Raises ``UnsupportedTable`` where parts do not go together.
    """
    first: Part | None = None
    fields: dict[str, pa.Field] = {}
    for part in parts:
        if part.schema is None:
            continue
        if first is None:
            first = part
            fields = {column.name: column for column in part.schema}
            if len(fields) != len(part.schema):
                raise UnsupportedTable("two columns have one name", where=f"{where}, {part.name}")
            continue
        for column in part.schema:
            known = fields.get(column.name)
            if known is None or not _alike(known, column):
                raise _apart(first, part, column.name, where)
            fields[column.name] = known.with_nullable(known.nullable or column.nullable)
        missing = next((name for name in fields if part.schema.get_field_index(name) < 0), None)
        if missing is not None:
            raise _apart(first, part, missing, where)
    return pa.schema(list(fields.values()))


def _alike(one: pa.Field, two: pa.Field) -> bool:
    if one.type == two.type:
        return True
    return text_of(one) == text_of(two)


def text_of(column: pa.Field) -> str:
    """A column's canonical type in words; its own where Avro has none for it."""
    try:
        found = loose(schema_of_arrow(pa.schema([column]), "Row").fields[0].type)
    except LakeEvolveError:
        found = None
    return str(column.type if found is None else found)


def _apart(one: Part, two: Part, column: str, where: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"the files have other columns or types: {column} differs",
        where=f"{where}, {one.name} and {two.name}",
        hint="bring the files to one schema, or plan for a folder of those that have one",
    )
