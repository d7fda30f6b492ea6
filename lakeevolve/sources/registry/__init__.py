"""Schemas from a schema registry: ``registry:SUBJECT@latest``, ``@N``, and ``@*`` for every version.

Behind ``#``, the full name of a record picks it out of a schema that is a union, as those of topics with several kinds
of events are; ``#*`` makes of the union one record with an optional field for each of its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lakeevolve.avro.parse import parse
from lakeevolve.errors import SourceError
from lakeevolve.model.digest import schema_json
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record, Union
from lakeevolve.sources.registry.client import Reference, Registered, Registry, open_registry
from lakeevolve.sources.registry.naming import ALL, STRATEGIES, Address, address, of_topic, subject_name
from lakeevolve.sources.registry.settings import Settings, settings

__all__ = [
    "STRATEGIES",
    "Address",
    "Reference",
    "Registered",
    "Registry",
    "Settings",
    "address",
    "event_of",
    "expand",
    "of_topic",
    "open_registry",
    "read",
    "settings",
    "subject_name",
    "with_numbers",
]


def read(location: str, *, lenient: bool = False) -> Schema:
    """The schema at ``SUBJECT@VERSION``.

    A version that is named by its number is read also where it was soft-deleted: rows that were written with it are
    still there.
    """
    place = address(location)
    if place.version == ALL:
        raise SourceError(
            "this names every version of a subject, where one is wanted",
            where=place.uri,
            hint="write @latest or a number, or use it in the history of check",
        )
    with open_registry() as registry:
        found = registry.version(place.subject, place.version, deleted=isinstance(place.version, int))
        schema = registry.schema(found, lenient=lenient)
    return schema if place.event is None else event_of(schema, place.event, place.uri)


def expand(location: str) -> list[Any]:
    """Every version that ``SUBJECT@*`` names, oldest first and read already; else the source itself.

    Versions that were soft-deleted are left out, as the registry itself leaves them out of its judgement.
    """
    place = address(location)
    return [schema for _, schema in with_numbers(place)] if place.version == ALL else [place.uri]


def with_numbers(place: Address) -> Iterator[tuple[int, Schema]]:
    """The live versions of a subject with their numbers, oldest first.

    Where one record of a union is asked for, versions from before there was such a record are no versions of it.
    """
    lacking: SourceError | None = None
    found = False
    with open_registry() as registry:
        for number in registry.versions(place.subject):
            schema = registry.schema(registry.version(place.subject, number), lenient=True)
            if place.event is not None:
                try:
                    schema = event_of(schema, place.event, replace(place, version=number).uri)
                except SourceError as error:
                    lacking = error
                    continue
            found = True
            yield number, schema
    if lacking is not None and not found:
        raise lacking


def event_of(schema: Schema, event: str, where: str) -> Schema:
    """One record of a schema that is a union of records, or with ``*`` one record that has a field for each of them.

    Raises ``SourceError`` where there is no such record.
    """
    branches = schema.root.branches if isinstance(schema.root, Union) else (schema.root,)
    records = [branch for branch in branches if isinstance(branch, Record)]
    if event != ALL:
        chosen = [record for record in records if event in (record.name, record.name.rpartition(".")[2])]
        if len(chosen) != 1:
            raise SourceError(
                f"the schema {'has more than one record' if chosen else 'has no record'} {event}",
                where=where,
                hint="its records: " + (", ".join(record.name for record in records) or "none"),
            )
        return Schema(chosen[0], where)
    if len(records) != len(branches):
        raise SourceError(
            "a table of all events needs a union of records alone", where=where, hint="pick one record: #NAME"
        )
    return parse(_together(records), source_name=where)


def _together(records: list[Record]) -> dict[str, Any]:
    """A record with one optional field for each record, named by its short name, or by its full one where two clash."""
    short = [record.name.rpartition(".")[2] for record in records]
    names = [
        record.name.replace(".", "_") if short.count(name) > 1 else name
        for record, name in zip(records, short, strict=True)
    ]
    # Types that several records use are defined where they are used first.
    union: Any = schema_json(Schema(Union(tuple(records))))
    fields = [
        {"name": name, "type": ["null", branch], "default": None} for name, branch in zip(names, union, strict=True)
    ]
    return {"type": "record", "name": "Events", "fields": fields}
