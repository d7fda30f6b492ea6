"""What a table itself carries about its versions, so that journal, ledger and evidence may be lost.

The marker is a set of text properties ``lakeevolve.*``: ``version`` and ``schema-digest`` and ``plan-digest`` of the
newest version, and ``v.<n>`` for each version, since the formats prune their own history and a replay needs them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from lakeevolve.avro.parse import parse
from lakeevolve.errors import TableError
from lakeevolve.model.digest import canonical_json
from lakeevolve.model.schema import Schema
from lakeevolve.tables.base import MarkerEntry, Version

PREFIX: Final = "lakeevolve."
VERSION: Final = PREFIX + "version"
SCHEMA_DIGEST: Final = PREFIX + "schema-digest"
PLAN_DIGEST: Final = PREFIX + "plan-digest"
ENTRY: Final = PREFIX + "v."

#: How many versions of tables are kept parsed.
KEPT: Final = 256


def to_properties(entries: Sequence[MarkerEntry]) -> dict[str, str]:
    """The marker's properties for these versions; the last one is the newest."""
    newest = entries[-1]
    return {
        VERSION: str(newest.number),
        SCHEMA_DIGEST: newest.digest,
        PLAN_DIGEST: newest.plan or "",
        **{f"{ENTRY}{entry.number}": canonical_json(_record(entry)) for entry in entries},
    }


def from_properties(properties: Mapping[str, Any], where: str) -> tuple[MarkerEntry, ...]:
    """The versions that the properties hold, oldest first; empty where there is no marker.

    Raises ``TableError`` where the marker is there and cannot be read.
    """
    found = []
    for key, text in properties.items():
        if not key.startswith(ENTRY):
            continue
        try:
            found.append(_entry(key, text))
        except (ValueError, KeyError, TypeError) as error:
            raise TableError(
                f"the property {key} is not a lakeevolve marker",
                where=where,
                hint="restore the property from an earlier version of the table's metadata",
            ) from error
    return tuple(sorted(found, key=lambda entry: entry.number))


@lru_cache(maxsize=KEPT)
def _entry(key: str, text: str) -> MarkerEntry:
    record = json.loads(text)
    return MarkerEntry(
        number=int(key.removeprefix(ENTRY)),
        schema=record["schema"],
        digest=record["digest"],
        plan=record["plan"],
        origin=record["from"],
        fills=record["fills"],
        renames={new: old for new, old in record["renames"].items() if old is not None},
        routes=record["routes"],
        fresh=frozenset(new for new, old in record["renames"].items() if old is None),
    )


def schema_in(properties: Mapping[str, Any], entry: MarkerEntry) -> Schema:
    """The schema of one of the versions that the properties hold."""
    text = properties.get(f"{ENTRY}{entry.number}")
    return _schema(text) if isinstance(text, str) else parse(entry.schema, lenient=True)


@lru_cache(maxsize=KEPT)
def _schema(text: str) -> Schema:
    # The versions of a table are asked for again and again, and their schemas never change.
    return parse(json.loads(text)["schema"], lenient=True)


def entry_of(version: Version) -> MarkerEntry:
    """The marker's record of a version. Derived ones are recorded too, so that no later clean-up of the format's own
    history can lose them. Where it began is for the table to fill in."""
    return MarkerEntry(
        number=version.number,
        schema=version.schema.to_json(),
        digest=version.digest,
        plan=version.plan,
        origin={} if version.restores is None else {"restores": version.restores},
        fills=version.fills,
        renames=version.renames,
        routes=version.routes,
        fresh=version.fresh,
    )


def _record(entry: MarkerEntry) -> dict[str, Any]:
    return {
        "schema": entry.schema,
        "digest": entry.digest,
        "plan": entry.plan,
        "from": dict(entry.origin),
        "fills": dict(entry.fills),
        # A path that follows from nothing (a new column under a name that was in use) is a rename from null.
        "renames": {**entry.renames, **dict.fromkeys(entry.fresh)},
        "routes": dict(entry.routes),
    }
