"""What a Delta table is at one version, as values and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeevolve.model.digest import json_digest
from lakeevolve.tables.base import DataFile, State, Version
from lakeevolve.tables.delta import features
from lakeevolve.tables.delta.history import View
from lakeevolve.tables.delta.log import Snapshot
from lakeevolve.tables.delta.types import Struct, struct_json, without_keys


def state_of(snapshot: Snapshot) -> State:
    """The table's identity, what makes a plan stale, and its version; nothing of our own marker is part of it."""
    metadata = snapshot.metadata
    struct: Struct = without_keys(metadata.struct, "lakeevolve.")
    properties = {k: v for k, v in metadata.configuration.items() if not k.startswith("lakeevolve.")}
    return State(
        metadata.id,
        {
            "schema": json_digest(struct_json(struct)),
            "partitioning": list(metadata.partition_columns),
            "properties": json_digest(properties),
            "protocol": snapshot.protocol.to_json(),
        },
        snapshot.version,
    )


def described(
    snapshot: Snapshot, *, uri: str, view: View, versions: Sequence[Version], files: Sequence[DataFile]
) -> Mapping[str, Any]:
    """See :meth:`lakeevolve.tables.base.Table.describe`."""
    metadata, state = snapshot.metadata, state_of(snapshot)
    return {
        "uri": uri,
        "format": "delta",
        "id": state.id,
        "pin": dict(state.pin),
        "position": state.position,
        "name": metadata.name,
        "schema": view.newest.schema.to_json(),
        "foreign": list(view.foreign),
        "versions": [
            {
                "version": v.number,
                "digest": v.digest,
                "plan": v.plan,
                "derived": v.derived,
                "commit": v.commit,
                "at": v.at.isoformat() if v.at else None,
            }
            for v in versions
        ],
        "columns": [
            {"name": c["name"], "type": c["type"], "nullable": c["nullable"]}
            for c in struct_json(without_keys(metadata.struct, ""))["fields"]
        ],
        "partitioning": list(metadata.partition_columns),
        "features": {
            **snapshot.protocol.to_json(),
            "columnMapping": metadata.configuration.get("delta.columnMapping.mode", "none"),
            "rules": [name for name, _ in features.conditions(metadata)],
        },
        "counts": {
            "files": len(files),
            "rows": sum(f.rows for f in files),
            "bytes": sum(f.bytes for f in files),
            "deletion_vectors": sum(1 for live in snapshot.files.values() if live.add.vector),
        },
    }
