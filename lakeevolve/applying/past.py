"""What a table has been: its versions with what the ledger knows of each, and one column through all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal

from lakeevolve.applying import ledger
from lakeevolve.config.state import TableState, state_of
from lakeevolve.errors import ConfigError
from lakeevolve.model import path as paths
from lakeevolve.model.change import Change, RenameField
from lakeevolve.model.change_json import change_to_json
from lakeevolve.model.find import find_type
from lakeevolve.model.origin import base_path
from lakeevolve.model.sentence import describe_change
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names, describe, without_null
from lakeevolve.rules.findings import Finding, by_weight
from lakeevolve.tables.base import Table, Version
from lakeevolve.tables.drift import drift

_PINNED: Final = re.compile(r"@v?\d+\Z")

By = Literal["first", "plan", "rollback", "others"]


@dataclass(frozen=True, slots=True)
class Step:
    """One version of a table, with what led to it.

    ``by`` says who made it: it was there ``first``, a ``plan`` led to it, a ``rollback`` went back to an earlier one or
    ``others`` changed the table. ``entry`` is the ledger's entry of it, if it is there and whole.
    """

    version: Version
    by: By
    changes: tuple[Change, ...] = ()
    entry: Mapping[str, Any] | None = None

    @property
    def at(self) -> str | None:
        """When, in UTC: by the table's own clock, else by the ledger's."""
        if self.version.at is not None:
            return self.version.at.isoformat(timespec="seconds")
        return None if self.entry is None else self.entry["at"]

    @property
    def approver(self) -> str | None:
        return None if self.entry is None else self.entry["approver"]

    def to_json(self) -> dict[str, Any]:
        version, entry = self.version, self.entry or {}
        return {
            "version": version.number,
            "digest": version.digest,
            "by": self.by,
            "drift": self.by == "others",
            "plan": version.plan,
            "restores": version.restores,
            "derived": version.derived,
            "at": self.at,
            "commit": version.commit,
            "changes": [{**change_to_json(change), "text": describe_change(change)} for change in self.changes],
            "approver": self.approver,
            "verdicts": entry.get("verdicts"),
            "replay": entry.get("replay"),
            "ledger": "none" if self.entry is None else "rebuilt" if entry.get("rebuilt") else "recorded",
            "fills": dict(version.fills),
            "renames": dict(version.renames),
            "routes": dict(version.routes),
            "schema": version.schema.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Past:
    """A table's versions, oldest first, and what is to be said of the ledger and of others' changes."""

    uri: str
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "uri": self.uri,
            "versions": [step.to_json() for step in self.steps],
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """One column at one version: its path and type there (None where it is not there), and what changed in it."""

    step: Step
    path: str | None
    type: str | None
    events: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.step.version.number,
            "at": self.step.at,
            "by": self.step.by,
            "plan": self.step.version.plan,
            "approver": self.step.approver,
            "path": self.path,
            "type": self.type,
            "events": list(self.events),
        }


@dataclass(frozen=True, slots=True)
class ColumnPast:
    """A column through the versions of a table, whatever it was called."""

    uri: str
    asked: str
    steps: tuple[ColumnStep, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {"uri": self.uri, "column": self.asked, "versions": [step.to_json() for step in self.steps]}


def past_of(table: Table, state: TableState | None = None) -> Past:
    """The versions of a table with what the ledger knows of each.

    Parameters
    ----------
    state:
        Where the ledger is; by default where the table's state is kept.

    Raises
    ------
    ConfigError
        The ledger cannot be read at all. Entries that are damaged are findings.

    Examples
    --------
    >>> past_of(open_table("delta:lake/orders")).steps[-1].version.number  # doctest: +SKIP
    3
    """
    kept = state or state_of(table.state.id)
    versions = table.history()
    found = ledger.entries(kept)
    if _PINNED.search(table.uri):
        # Of a table as it was at a snapshot or version, later entries say nothing.
        found = tuple(entry for entry in found if entry.version <= versions[-1].number)
    findings = [*ledger.judge(found, table, versions), *drift(versions, table.uri)]
    whole = {entry.name: entry.record for entry in found if entry.record is not None and not entry.fault}
    return Past(table.uri, tuple(_steps(versions, whole)), tuple(sorted(findings, key=by_weight)))


def rebuild(table: Table, state: TableState | None = None) -> tuple[str, ...]:
    """Make the ledger entries anew that are missing; see :func:`lakeevolve.applying.ledger.rebuild`."""
    return ledger.rebuild(state or state_of(table.state.id), table, table.history())


def _steps(versions: Sequence[Version], whole: Mapping[str, Mapping[str, Any]]) -> Iterator[Step]:
    before: Version | None = None
    for version in versions:
        by = _made_by(version, before)
        changes = () if before is None else ledger.changes_between(before, version)
        yield Step(version, by, changes, whole.get(ledger.name_of(version)))
        before = version


def _made_by(version: Version, before: Version | None) -> By:
    if version.restores is not None:
        return "rollback"
    if version.plan is not None:
        return "plan"
    return "first" if before is None else "others"


# One column -----------------------------------------------------------------------------------------------------------


def follow(past: Past, path: str) -> ColumnPast:
    """One column through all versions, also where it had another name.

    Parameters
    ----------
    path:
        Its path in the newest version that has it, such as ``address.zip``.

    Raises
    ------
    ConfigError
        No version has such a column.
    """
    known = [at for at, step in enumerate(past.steps) if _type_at(step, path) is not None]
    if not known:
        raise _nowhere(past, path)
    versions = [step.version for step in past.steps]
    names = _forward(versions, *_origin(versions, known[-1], path))
    return ColumnPast(past.uri, path, tuple(_column_steps(past, names)))


def _origin(versions: Sequence[Version], at: int, path: str) -> tuple[int, str]:
    """Where the column that a version has under a path began: the version's index, and its path there."""
    while at > 0:
        back = versions[at].restores
        if back is not None:
            # A table that went back has the columns that it had then.
            at = back - 1
            continue
        old = _before(versions[at - 1], versions[at], path)
        if old is None:
            break
        at, path = at - 1, old
    return at, path


def _forward(versions: Sequence[Version], at: int, path: str) -> dict[int, str]:
    """The column's path at each version that has it, by the version's index, from its first one on."""
    names: dict[int, str] = {at: path}
    for later in range(at + 1, len(versions)):
        back = versions[later].restores
        if back is not None:
            found = names.get(back - 1)
        elif later - 1 in names:
            found = _after(versions[later - 1], versions[later], names[later - 1])
        else:
            found = None
        if found is not None:
            names[later] = found
    return names


def _column_steps(past: Past, names: Mapping[int, str]) -> Iterator[ColumnStep]:
    for at, step in enumerate(past.steps):
        path, was = names.get(at), names.get(at - 1)
        if path is None:
            yield ColumnStep(step, None, None, () if was is None else (f"{was} is dropped",))
            continue
        found = _type_at(step, path)
        if step.version.restores is not None:
            events: tuple[str, ...] = (f"the table went back to version {step.version.restores}",)
        else:
            events = tuple(describe_change(change) for change in step.changes if _touches(change, path, was))
        yield ColumnStep(step, path, None if found is None else describe(found), events)


def _touches(change: Change, path: str, was: str | None) -> bool:
    if isinstance(change, RenameField):
        return path == change.new_path or paths.within(path, change.new_path)
    return change.path != "" and (change.path in (path, was) or paths.within(change.path, path))


def _type_at(step: Step, path: str) -> AvroType | None:
    try:
        return find_type(step.version.schema.root, path) if path else None
    except ValueError:
        return None


def _before(old: Version, new: Version, path: str) -> str | None:
    found = base_path(path, old.schema.root, new.schema.root, new.renames, fresh=new.fresh)
    return None if not found or path in new.fresh else found


def _after(old: Version, new: Version, path: str) -> str | None:
    renamed = [
        paths.join(paths.parts(now) + paths.parts(path)[len(paths.parts(was)) :])
        for now, was in new.renames.items()
        if paths.within(path, was)
    ]
    # What is likely first: to look through a wide schema takes long.
    for each in (path, *renamed, *every_path(new.schema.root)):
        if find_type(new.schema.root, each) is not None and _before(old, new, each) == path:
            return each
    return None


def every_path(root: AvroType, at: str = paths.ROOT) -> Iterator[str]:
    """Every place of a schema that has a path, outer ones first."""
    match root:
        case Record():
            for each in root.fields:
                inner = paths.child(at, each.name)
                yield inner
                yield from every_path(each.type, inner)
        case Array():
            yield paths.items(at)
            yield from every_path(root.items, paths.items(at))
        case Map():
            yield paths.values(at)
            yield from every_path(root.values, paths.values(at))
        case Union() if root.optional:
            yield from every_path(without_null(root), at)
        case Union():
            for name, branch in zip(branch_names(root), root.values, strict=True):
                yield paths.branch(at, name)
                yield from every_path(branch, paths.branch(at, name))


_SHOWN: Final = 8


def _nowhere(past: Past, path: str) -> ConfigError:
    known = list(dict.fromkeys(each for step in reversed(past.steps) for each in every_path(step.version.schema.root)))
    near = get_close_matches(path, known, n=1)
    some = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    return ConfigError(
        f"no version of the table has a column {path[:80]!r}",
        where=past.uri,
        hint=f"did you mean {near[0]}?" if near else f"columns are written as address.zip; there are {some}",
    )
