"""An Iceberg table from its description: what its metadata says, without a catalog, a file or a row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyiceberg.exceptions import ValidationError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import IcebergBaseModel

from lakeevolve.model.change import Change
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import DataFile, Fill, Route
from lakeevolve.tables.iceberg.catalog import parse_uri
from lakeevolve.tables.iceberg.history import Entries
from lakeevolve.tables.iceberg.table import IcebergHandle
from lakeevolve.tables.offline import Nothing, files_of, sizes_of

#: Beginnings of the properties that decide something; others may hold what is nobody's business.
_KEPT: Final = ("lakeevolve.", "schema.", "write.", "commit.", "history.", "format-version")


def planning_of(table: IcebergHandle) -> dict[str, Any]:
    """What a plan needs to know of a table: its metadata, and what of its files decides about routes."""
    # The model of format version 3 refuses to be written as a table's metadata, which this is not.
    metadata = json.loads(IcebergBaseModel.model_dump_json(table.iceberg.metadata))
    metadata["properties"] = {
        key: value for key, value in (metadata.get("properties") or {}).items() if key.startswith(_KEPT)
    }
    metadata.pop("statistics", None)
    facts = table.facts
    entries = table._entries_at(None)
    return {
        "metadata": metadata,
        "plain_files": facts.mapping is not None and facts.plain_files(),
        "equality_deletes": entries.equality_deletes,
        "equality_ids": sorted(entries.equality_ids),
        "formats": sorted(entries.formats),
        "specs": sorted(entries.specs),
        "files": sizes_of(table),
    }


class Described(IcebergHandle):
    """A table as it was described; whatever needs its rows is refused."""

    described = True

    def __init__(self, record: Mapping[str, Any]) -> None:
        uri, said = record["uri"], record["planning"]
        try:
            metadata = TableMetadataUtil.parse_obj(said["metadata"])
        except ValidationError:
            raise ValueError("no metadata of a table") from None
        location = parse_uri(uri)
        nothing: Any = Nothing(uri)
        super().__init__(location, nothing, IcebergTable(location.identifier, metadata, uri, nothing, nothing))
        self._live = files_of(said["files"])
        self._plain = said["plain_files"]
        self._entries[None] = self._entries[metadata.current_snapshot_id] = Entries(
            (),
            said["equality_deletes"],
            frozenset(said["formats"]),
            frozenset(said["specs"]),
            frozenset(said["equality_ids"]),
        )

    def refresh(self) -> None:
        """Nothing changes any more."""

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        return self._live

    def must_rewrite(
        self,
        evolution_routes: Sequence[tuple[Change, Route]],
        files: Iterable[DataFile],
        fills: Mapping[str, Fill] | None = None,
    ) -> tuple[DataFile, ...]:
        """All of them, at the most: which ones hold a value, only their rows tell."""
        return tuple(files) if any(route in ("rewrite", "backfill") for _, route in evolution_routes) else ()
