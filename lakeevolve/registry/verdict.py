"""The registry's own judgement: our resolution under the subject's level, told as Confluent's registry tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakeevolve.avro.resolution import resolve
from lakeevolve.model.schema import Schema
from lakeevolve.rules.modes import MODES


def messages(candidate: Schema, versions: Sequence[tuple[int, Schema]], level: str) -> list[str]:
    """What makes a schema incompatible with the versions that a level covers; empty where it is compatible.

    Parameters
    ----------
    versions:
        Number and schema of the live versions, oldest first.
    level:
        A compatibility level that exists.
    """
    covered = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    for number, version in reversed(covered):
        found = list(_faults(candidate, version, level))
        if found:
            return [*found, f"{{oldSchemaVersion: {number}}}", f"{{compatibility: '{level}'}}"]
    return []


def _faults(candidate: Schema, version: Schema, level: str) -> Iterator[str]:
    for direction in MODES[level]:
        backward = direction == "backward"
        writer, reader = (version, candidate) if backward else (candidate, version)
        reads, wrote = ("new", "old") if backward else ("old", "new")
        for fault in resolve(writer, reader).incompatibilities:
            said = f"read with the {reads} schema, written with the {wrote} one: {fault.message}"
            yield f"{{errorType:'{fault.kind}', description:'{said}', additionalInfo:'{fault.location}'}}"
