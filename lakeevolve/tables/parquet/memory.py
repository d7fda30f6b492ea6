"""Arrow data in memory: a ``pyarrow.Table``, a ``RecordBatch`` or a ``pyarrow.dataset.Dataset``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from lakeevolve.errors import ConfigError
from lakeevolve.model.digest import text_digest
from lakeevolve.tables import marker
from lakeevolve.tables.base import Stored
from lakeevolve.tables.parquet.parts import FILE_VERSION, Part

_URI: Final = "arrow:memory"


@dataclass(frozen=True, slots=True)
class Memory:
    """See :class:`lakeevolve.tables.parquet.parts.Source`. The marker lies in the metadata of the data's schema."""

    data: Any
    id: str
    properties: Mapping[str, str]
    parts: tuple[Part, ...]

    uri: str = _URI
    name: str = "Row"

    @classmethod
    def of(cls, data: Any) -> Memory:
        """The data as a table. Raises ``ConfigError`` where it is none."""
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if not isinstance(data, pa.Table | ds.Dataset):
            raise ConfigError(
                f"a table cannot be made of a {type(data).__name__}",
                hint="give a URI, a pyarrow.Table or a pyarrow.dataset.Dataset",
            )
        told = {key.decode(): value.decode() for key, value in (data.schema.metadata or {}).items() if _ours(key)}
        identity = told.pop(marker.PREFIX + "id", None) or text_digest(f"arrow:{data.schema}")[:32]
        version = told.pop(FILE_VERSION.decode(), "")
        number = int(version) if version.isdigit() else None
        if isinstance(data, pa.Table):
            plain = Part("memory", data.num_rows, data.nbytes, data.schema, number, data)
            return cls(data, identity, told, (plain,))
        fragments = enumerate(data.get_fragments())
        parts = [Part(f"fragment-{n}", each.count_rows(), 0, data.schema, number, each) for n, each in fragments]
        return cls(data, identity, told, tuple(parts))

    @property
    def listing(self) -> str:
        return text_digest(str([(part.name, part.rows) for part in self.parts]))

    def again(self) -> Memory:
        return self

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        if isinstance(part.place, pa.Table):
            yield from part.place.to_batches(max_chunksize=1 << 17)
        else:
            yield from part.place.to_batches(schema=self.data.schema)

    def scan(
        self, parts: Sequence[Part], schema: pa.Schema, condition: Any, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        names = schema.names if columns is None else [name for name in columns if name in schema.names]
        for part in parts:
            place = ds.dataset(part.place) if isinstance(part.place, pa.Table) else part.place
            extra = {} if isinstance(place, ds.Dataset) else {"schema": self.data.schema}
            yield from place.to_batches(columns=names, filter=condition, **extra)

    def stored(self, part: Part) -> Stored:
        return Stored(part.bytes, part.rows)

    def goes_to(self, version: int) -> str:
        return "the rows go into a new pyarrow.Table"

    def target(self, version: int) -> MemoryTarget:
        return MemoryTarget(self)

    def successor(self, version: int) -> Memory | None:
        return None

    def earlier(self, version: int) -> Memory | None:
        return None

    def discard(self, paths: Sequence[str]) -> tuple[str, ...]:
        return ()


@dataclass(slots=True)
class MemoryTarget:
    """Tables that are being made, one of each part."""

    old: Memory
    made: list[Part] = field(default_factory=list)

    def write(self, part: Part, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Part:
        table = pa.Table.from_batches(list(batches), schema)
        return self._made(part, table)

    def copy(self, part: Part, version: int) -> Part:
        return self._made(part, pa.Table.from_batches(list(self.old.batches(part)), part.schema))

    def _made(self, part: Part, table: pa.Table) -> Part:
        found = Part(f"new-{part.name}", table.num_rows, table.nbytes, table.schema, None, table)
        self.made.append(found)
        return found

    def source(self) -> Memory:
        data = pa.concat_tables([part.place for part in self.made]) if self.made else self.old.data
        return Memory(data, self.old.id, {}, tuple(self.made))

    def finish(self, properties: Mapping[str, str], version: int) -> Memory:
        whole = self.source().data
        kept = {key: value for key, value in (whole.schema.metadata or {}).items() if not _ours(key)}
        told = {**properties, marker.PREFIX + "id": self.old.id, FILE_VERSION.decode(): str(version)}
        return Memory.of(whole.replace_schema_metadata({**kept, **told}))

    def abandon(self) -> tuple[str, ...]:
        self.made.clear()
        return ()


def _ours(key: bytes) -> bool:
    return key.startswith(marker.PREFIX.encode())
