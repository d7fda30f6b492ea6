"""A Delta table from its description: what its log says, without a store, a file or a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import DataFile
from lakeevolve.tables.delta import capability as routes
from lakeevolve.tables.delta.history import View
from lakeevolve.tables.delta.log import Commit, Metadata, Protocol, Snapshot
from lakeevolve.tables.delta.store import parse_address
from lakeevolve.tables.delta.table import Table
from lakeevolve.tables.delta.types import parse_struct, struct_json
from lakeevolve.tables.offline import Nothing, files_of, sizes_of

#: Beginnings of the properties that decide something; others may hold what is nobody's business.
_KEPT: Final = ("lakeevolve.", "delta.")


def planning_of(table: Table) -> dict[str, Any]:
    """What a plan needs to know of a table: protocol, metadata, and what its commits did to them."""
    snapshot = table._snapshot
    return {
        "version": snapshot.version,
        "complete": snapshot.complete,
        "protocol": snapshot.protocol.to_json(),
        "metadata": _metadata_json(snapshot.metadata),
        "commits": [_commit_json(commit) for commit in snapshot.commits],
        "files": sizes_of(table),
    }


class Described(Table):
    """A table as it was described; whatever needs its rows is refused."""

    described = True

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = record
        super().__init__(parse_address(record["uri"], None), uri=record["uri"])

    def _read(self) -> None:
        said = self._record["planning"]
        self._pin = self._record["pin"]
        nothing: Any = Nothing(self._uri)
        self._handle = self._fs = nothing
        self._end = None
        self._views: dict[str | None, View] = {}
        self._listed: dict[str | None, tuple[DataFile, ...]] = {}
        self._live = files_of(said["files"])
        protocol = said["protocol"]
        self._snapshot = Snapshot(
            said["version"],
            Protocol(
                protocol["minReaderVersion"],
                protocol["minWriterVersion"],
                frozenset(protocol.get("readerFeatures", ())),
                frozenset(protocol.get("writerFeatures", ())),
            ),
            _metadata(said["metadata"], self._uri),
            {},
            tuple(_commit(commit, self._uri) for commit in said["commits"]),
            said["complete"],
        )

    def refresh(self) -> None:
        """Nothing changes any more."""

    @property
    def state(self) -> Any:
        # The pin has digests of properties that a description leaves out.
        return replace(super().state, pin=self._pin)

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        return self._live

    def _facts(self, base: Schema, target: Schema, renames: Mapping[str, str]) -> routes.Facts:
        # A symbol that no row may hold is taken for one that rows hold: the dearer way.
        return replace(
            super()._facts(base, target, renames), uses=lambda _path, _symbol: True, unevaluable=lambda: None
        )


def _metadata_json(metadata: Metadata) -> dict[str, Any]:
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "created": metadata.created,
        "struct": struct_json(metadata.struct),
        "partition_columns": list(metadata.partition_columns),
        "configuration": {key: value for key, value in metadata.configuration.items() if key.startswith(_KEPT)},
    }


def _metadata(said: Mapping[str, Any], uri: str) -> Metadata:
    return Metadata(
        said["id"],
        parse_struct(json.dumps(said["struct"]), uri),
        tuple(said["partition_columns"]),
        dict(said["configuration"]),
        said["name"],
        said["description"],
        said["created"],
    )


def _commit_json(commit: Commit) -> dict[str, Any]:
    return {
        "version": commit.version,
        "at": None if commit.at is None else commit.at.isoformat(),
        "operation": commit.operation,
        "properties": dict(commit.properties),
        "metadata": None if commit.metadata is None else _metadata_json(commit.metadata),
        "restored": commit.restored,
        "engine": commit.engine,
    }


def _commit(said: Mapping[str, Any], uri: str) -> Commit:
    return Commit(
        said["version"],
        None if said["at"] is None else datetime.fromisoformat(said["at"]),
        said["operation"],
        said["properties"],
        None if said["metadata"] is None else _metadata(said["metadata"], uri),
        said["restored"],
        said["engine"],
    )
