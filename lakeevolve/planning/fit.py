"""How well a version of a schema fits a table that was never managed, by the names and types of its columns alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from lakeevolve.model import path as paths
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    AddSymbol,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropField,
    MakeOptional,
    MakeRequired,
    PromoteType,
    RenameField,
    ReplaceType,
)
from lakeevolve.model.diff import diff
from lakeevolve.model.mapping import ROOT, columns_of
from lakeevolve.model.schema import Schema
from lakeevolve.model.sentence import describe_change
from lakeevolve.model.types import PROMOTIONS, Primitive, Record, without_null
from lakeevolve.planning.candidates import Candidate
from lakeevolve.tables.base import Table
from lakeevolve.tables.foreign import is_foreign

Kind = Literal["exact", "behind", "ahead", "conflicting", "unmatched"]

#: What those who load tables call the columns that they add.
INGEST: Final = re.compile(
    r"(kafka|connect|kinesis|debezium|cdc|fivetran|airbyte|dlt|dbt|etl|load|ingest|ingestion|sink|source)_?"
    r"(offset|partition|topic|timestamp|key|headers|id|ts|at|date|time|file|op|lsn|batch|batch_id|extracted_at)"
    r"|ingested(_at)?|loaded(_at)?|inserted_at|etl_\w+|kafka_\w+|dt|ds|hh",
    re.IGNORECASE,
)

#: Changes that a table is yet to make to be a version, and those that an older version would make of it.
_BEHIND: Final = (AddField, AddBranch, AddSymbol, PromoteType, MakeOptional, RenameField)
_AHEAD: Final = (DropField, DropBranch, MakeRequired)
#: Names of the record inside an envelope that holds the rows, the likeliest first.
_ENVELOPES: Final = ("after", "payload", "value", "data")


@dataclass(frozen=True, slots=True)
class Fit:
    """How one version fits: what the table lacks of it (``behind``), has beyond it (``ahead``) and has otherwise
    (``conflicts``), with the names that the table's columns have and the columns that nobody owns."""

    candidate: Candidate
    version: int
    mapping: Mapping[str, str]
    foreign: tuple[str, ...]
    common: float
    behind: tuple[Change, ...] = ()
    ahead: tuple[Change, ...] = ()
    conflicts: tuple[Change, ...] = ()
    #: The schema of the version with the table's names.
    hint: Schema = field(repr=False, kw_only=True)

    @property
    def weight(self) -> tuple[float, ...]:
        """Less is better: conflicts, then all other differences, then how few columns are common, then age."""
        apart = len(self.behind) + len(self.ahead)
        return (len(self.conflicts), apart, -round(self.common, 3), len(self.candidate.versions) - self.version)

    @property
    def kind(self) -> Kind:
        if self.common < 0.5:
            return "unmatched"
        if self.conflicts or (self.behind and self.ahead):
            return "conflicting"
        if self.ahead:
            return "ahead"
        return "behind" if self.behind or self.version < len(self.candidate.versions) else "exact"

    def reasons(self) -> Iterator[str]:
        """Sentences about what differs."""
        if self.kind == "unmatched":
            yield f"the nearest, {self.candidate.name}, shares {self.common:.0%} of the columns"
            return
        for said, changes in (
            ("conflicts", self.conflicts),
            ("the table has", self.ahead),
            ("the table lacks", self.behind),
        ):
            for change in changes:
                yield f"{said}: {_told(change, said)}"


def _told(change: Change, said: str) -> str:
    if said == "the table has" and isinstance(change, DropField):
        return f"{change.path}, which the version has not"
    if said == "the table lacks" and isinstance(change, AddField):
        return change.path
    return describe_change(change)


def best_fit(
    table: Table,
    lines: Sequence[Candidate],
    *,
    mapping: Mapping[str, str] | None = None,
    foreign: Sequence[str] = (),
) -> Fit | None:
    """The version that fits best; None where no candidate shares a column. Reads the table's metadata alone.

    *mapping* and *foreign* are what the owner declared already; without a mapping, one is proposed where names differ
    in their case and underscores alone, or where the table holds a record inside the schema.
    """
    table.leave_out(foreign)
    plain = table.derived()
    fits = [
        fit
        for line in _nearest(plain, lines)
        for number in range(len(line.versions), 0, -1)
        if (fit := _fit(table, plain, line, number, mapping, foreign)) is not None
    ]
    return min(fits, key=lambda fit: (fit.kind == "unmatched", *fit.weight), default=None)


def _nearest(plain: Schema, lines: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that share the most names with the table: more than one only where they share nearly as many."""
    names = {_fold(each.name) for each in plain.fields}

    def shared(line: Candidate) -> float:
        return max(_share(names, record) for schema in line.versions for _, record in _roots(schema))

    shares = [(shared(line), line) for line in lines]
    best = max((share for share, _ in shares), default=0.0)
    return [line for share, line in shares if share and share >= best - 0.15]


def _share(names: set[str], record: Record) -> float:
    own = {_fold(name) for each in record.fields for name in (each.name, *each.aliases)}
    return len(names & own) / max(len(names), len(record.fields), 1)


def _roots(schema: Schema) -> Iterator[tuple[str, Record]]:
    """The records that a table's rows may be: the schema's own, and those right inside it."""
    assert isinstance(schema.root, Record)
    yield "", schema.root
    for name in _ENVELOPES:
        inner = schema.root.field(name)
        if inner is not None and isinstance(record := without_null(inner.type), Record):
            yield name, record


def _fit(
    table: Table,
    plain: Schema,
    line: Candidate,
    number: int,
    declared: Mapping[str, str] | None,
    foreign: Sequence[str],
) -> Fit | None:
    version = line.versions[number - 1]
    mapping = dict(declared) if declared else _mapping(plain, version)
    hint = columns_of(mapping, version).schema(version) if mapping else version
    own = {field.name for field in hint.fields} | {alias for field in hint.fields for alias in field.aliases}
    columns = {each.name for each in plain.fields}
    extra = [each.name for each in plain.fields if each.name not in own]
    known = {field.name for schema in line.versions for field in schema.fields}
    nobodys = [name for name in extra if is_foreign(name, foreign) or (name not in known and INGEST.fullmatch(name))]
    table.leave_out((*foreign, *nobodys))
    changes = diff(table.derived(hint=hint), hint).changes
    owned = columns - set(nobodys)
    common = len(owned & own) / max(len(owned), len(hint.fields), 1)
    if not owned & own:
        return None
    groups = [(change, _group(change)) for change in changes]
    ahead = tuple(change for change, group in groups if group == "ahead")
    left = [each.path for each in ahead if isinstance(each, DropField) and len(paths.parts(each.path)) == 1]
    return Fit(
        line,
        number,
        mapping,
        tuple(dict.fromkeys((*foreign, *(name for name in nobodys if not name.startswith("_")), *left))),
        common,
        tuple(change for change, group in groups if group == "behind"),
        ahead,
        tuple(change for change, group in groups if group == "conflict"),
        hint=hint,
    )


def _group(change: Change) -> Literal["behind", "ahead", "conflict", ""]:
    if isinstance(change, _BEHIND):
        return "behind"
    if isinstance(change, _AHEAD):
        return "ahead"
    if isinstance(change, ReplaceType):
        old, new = without_null(change.old), without_null(change.new)
        wider = isinstance(old, Primitive) and isinstance(new, Primitive) and (new.name, old.name) in _WIDER
        return "ahead" if wider else "conflict"
    return "conflict" if isinstance(change, ChangeLogicalType) else ""


#: (narrow, wide) for every promotion that loses nothing.
_WIDER: Final = frozenset(
    (narrow, wide) for narrow, wides in PROMOTIONS.items() for wide in wides if wide not in ("string", "bytes")
)


def _mapping(plain: Schema, version: Schema) -> dict[str, str]:
    """Path in the schema to path in the table, where names alone say so and only one way."""
    names = {_fold(each.name) for each in plain.fields}
    at, record = max(_roots(version), key=lambda root: _share(names, root[1]))
    assert isinstance(plain.root, Record)
    found = dict(_renamed(record, plain.root, at, ""))
    return {at: ROOT, **found} if at else found


def _renamed(record: Record, columns: Record, at: str, there: str) -> Iterator[tuple[str, str]]:
    named = {each.name for each in columns.fields}
    free = [each.name for each in columns.fields if record.field(each.name) is None]
    for each in record.fields:
        column = each.name if each.name in named else None
        if column is None and not named & set(each.aliases):
            alike = [name for name in free if _fold(name) == _fold(each.name)]
            rivals = [other for other in record.fields if _fold(other.name) == _fold(each.name)]
            column = alike[0] if len(alike) == 1 and len(rivals) == 1 else None
            if column is not None:
                yield paths.child(at, each.name), paths.child(there, column)
        found = columns.field(column) if column is not None else None
        if found is not None:
            own, inner = without_null(each.type), without_null(found.type)
            if isinstance(own, Record) and isinstance(inner, Record):
                yield from _renamed(own, inner, paths.child(at, each.name), paths.child(there, found.name))


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
