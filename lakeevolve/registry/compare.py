"""A subject of the schema registry against a table: which version is which, and what the table lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeevolve.model.change import (
    Change,
    MoveField,
    RenameType,
    ReorderBranches,
    ReorderSymbols,
    SetAliases,
    SetDefault,
    SetDoc,
    SetEnumDefault,
    SetOrder,
    SetProperties,
)
from lakeevolve.model.change_json import change_to_json
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.sentence import describe_change
from lakeevolve.redaction import public_uri
from lakeevolve.rules import registry as rules
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.sources.registry import Registry, event_of
from lakeevolve.tables.base import Table

#: What changes no value that a table holds, and is not known of a table that lakeevolve never wrote.
_BESIDE: Final = (
    MoveField,
    RenameType,
    ReorderBranches,
    ReorderSymbols,
    SetAliases,
    SetDefault,
    SetDoc,
    SetEnumDefault,
    SetOrder,
    SetProperties,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A version of the registry's, and the table's versions that hold the same."""

    version: int
    deleted: bool
    table_versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a subject and a table have in common.

    ``changes`` lead from the table's schema to the registry's newest version; ``table_version`` is the table's newest.
    """

    subject: str
    table: str
    level: str
    versions: tuple[Pair, ...]
    table_version: int
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]

    @property
    def equal(self) -> bool:
        """Whether the table holds what the registry's newest version says."""
        return not self.changes

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "table": self.table,
            "level": self.level,
            "equal": self.equal,
            "table_version": self.table_version,
            "versions": [
                {"version": pair.version, "deleted": pair.deleted, "table_versions": list(pair.table_versions)}
                for pair in self.versions
            ],
            "changes": [{**change_to_json(change), "text": describe_change(change)} for change in self.changes],
            "findings": [finding.to_json() for finding in self.findings],
        }


def compare(registry: Registry, subject: str, table: Table, *, event: str | None = None) -> Comparison:
    """Hold the versions of a subject, soft-deleted ones included, against those that a table has had.

    Parameters
    ----------
    event:
        The record of a union that the table holds; see :func:`lakeevolve.sources.registry.event_of`.
    """
    live = set(registry.versions(subject))
    every = [(number, _schema(registry, subject, number, event)) for number in registry.versions(subject, deleted=True)]
    newest = next(schema for number, schema in reversed(every) if number in live)
    history = table.history(hint=newest)
    current = history[-1].schema
    pairs = tuple(
        Pair(number, number not in live, tuple(each.number for each in history if _same(each.schema, schema)))
        for number, schema in every
    )
    changes = _changes(current, newest)
    return Comparison(
        subject,
        public_uri(table.uri),
        registry.level(subject)[0],
        pairs,
        history[-1].number,
        changes,
        tuple(_findings(subject, public_uri(table.uri), pairs, history[-1].number, changes)),
    )


def _schema(registry: Registry, subject: str, number: int, event: str | None) -> Schema:
    found = registry.version(subject, number, deleted=True)
    schema = registry.schema(found, lenient=True)
    return schema if event is None else event_of(schema, event, found.uri)


def _changes(old: Schema, new: Schema) -> tuple[Change, ...]:
    return tuple(change for change in diff(old, new).changes if not isinstance(change, _BESIDE))


def _same(old: Schema, new: Schema) -> bool:
    return old.digest == new.digest or not _changes(old, new)


def _findings(
    subject: str, table: str, pairs: Sequence[Pair], current: int, changes: Sequence[Change]
) -> Iterator[Finding]:
    def finding(rule: Rule, from_: str | None, to: str | None, message: str) -> Finding:
        return rule.finding("", from_, to, message, subject=subject)

    newest = max(pair.version for pair in pairs if not pair.deleted)
    if changes:
        known = [pair.version for pair in pairs if current in pair.table_versions]
        if known:
            message = f"{table} has version {known[-1]} of {subject}, and the registry has version {newest}"
            yield finding(rules.AHEAD, str(known[-1]), str(newest), message)
        else:
            message = f"the registry has no version of {subject} like version {current} of {table}"
            yield finding(rules.UNKNOWN, str(current), None, message)
    for pair in pairs:
        if pair.deleted and pair.table_versions:
            where = ", ".join(map(str, pair.table_versions))
            message = f"version {pair.version} of {subject} is soft-deleted, and is version {where} of {table}"
            yield finding(rules.DELETED, str(pair.version), where, message)
