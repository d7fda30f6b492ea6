"""The ledger: one sealed entry for each version that a plan led to, written once and never again.

An entry says what was done and why, for people: the marker of the table stays the authority on what the table is. So
an entry can be held against the marker, and one that is lost can be made again from it, without what only the ledger
knew (approver, verdicts, replay). Entries hold neither row values nor credentials.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from lakeevolve._version import __version__
from lakeevolve.config.approvals import Approval
from lakeevolve.config.state import TableState
from lakeevolve.errors import ConfigError, LakeEvolveError, TableError
from lakeevolve.model.apply import apply_changes
from lakeevolve.model.change import Change
from lakeevolve.model.change_json import change_from_json, change_to_json
from lakeevolve.model.diff import diff
from lakeevolve.model.digest import json_digest
from lakeevolve.planning.plan import Plan
from lakeevolve.redaction import public_uri
from lakeevolve.replaying.result import ReplayResult
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.table import LEDGER_DAMAGED, LEDGER_DIFFERS, LEDGER_MISSING, LEDGER_STRAY
from lakeevolve.tables.base import Table, Version

FORMAT_VERSION: Final = "1.0"

_NAME: Final = re.compile(r"(\d+)-([0-9a-f]+)\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it lies in the ledger.

    ``record`` is None where the file is no entry; ``fault`` says what is wrong with it, or is empty.
    """

    name: str
    where: str
    record: Mapping[str, Any] | None
    fault: str = ""

    @property
    def version(self) -> int:
        """The version that the entry's name says."""
        match = _NAME.match(self.name)
        return int(match.group(1)) if match else 0

    @property
    def plan(self) -> str:
        """The plan that the entry's name says."""
        return self.name.partition("-")[2]


def name_of(version: Version) -> str:
    return f"{version.number}-{version.plan}"


def changes_between(before: Version, after: Version) -> tuple[Change, ...]:
    """What changed from one version to the next, as the marker has it."""
    return tuple(diff(before.schema, after.schema, {old: new for new, old in after.renames.items()}).changes)


# Writing --------------------------------------------------------------------------------------------------------------


def record(
    state: TableState,
    plan: Plan | None,
    table: Table,
    *,
    replay: ReplayResult | None = None,
    approval: Approval | None = None,
    found: Sequence[Finding] = (),
    now: datetime | None = None,
) -> str:
    """Write the entry of the version that was just made and return where it is.

    An entry of that version and plan that is there already stays as it is.

    Parameters
    ----------
    plan:
        The plan that just led to it; None where the table went back.
    table:
        The table after the commit, with its metadata read anew.
    replay:
        What was replayed afterwards.
    approval:
        The approval that covered the plan, or the going back.
    found:
        Of a table that went back: what was found against it and let pass, since someone gave the permit.
    """
    before, version = _made_by(plan, table.history())
    content = {
        **_facts(table, version, now or version.at or datetime.now(UTC)),
        "changes": _changes(before, version),
        "approver": None if approval is None else approval.approver,
        "approval": None
        if approval is None
        else {"approver": approval.approver, "until": approval.until.isoformat(), "reason": approval.reason},
        "verdicts": _went_back(found, approval) if plan is None else _verdicts(plan),
        "replay": None if replay is None else _replayed(replay),
        "rebuilt": False,
    }
    try:
        state.add("ledger", name_of(version), _sealed(content))
    except ConfigError as error:
        if plan is None:
            raise
        raise ConfigError(
            f"the plan is applied, and its ledger entry was not written: {error.what}",
            where=error.where,
            hint=f"the table is as planned; when the folder can be written: lakeevolve history {table.uri} --rebuild",
        ) from error
    return state.where("ledger", name_of(version))


def _made_by(plan: Plan | None, versions: Sequence[Version]) -> tuple[Version | None, Version]:
    """The version that a plan (or without one, going back) led to, and the one before it. Others may have changed the
    table since, so it need not be the newest."""
    made = [
        at
        for at, version in enumerate(versions)
        if version.plan is not None and (plan is None or version.plan == plan.digest)
    ]
    if not made:
        raise TableError(
            "the table knows nothing of the plan that was applied to it just now: another one has taken its place",
            where=None if plan is None else plan.table["uri"],
            hint="find out who replaced the table; lakeevolve history shows what is there now",
        )
    at = made[-1]
    return (versions[at - 1] if at else None), versions[at]


def rebuild(state: TableState, table: Table, versions: Sequence[Version]) -> tuple[str, ...]:
    """Make the entries anew that the marker knows of and the ledger lacks; return where they are.

    They hold what the marker holds. Entries that are there, damaged ones too, stay as they are.
    """
    made = []
    by_number = {version.number: version for version in versions}
    for version in versions:
        if version.plan is None:
            continue
        content = {
            **_facts(table, version, version.at),
            "changes": _changes(by_number.get(version.number - 1), version),
            "approver": None,
            "approval": None,
            "verdicts": None,
            "replay": None,
            "rebuilt": True,
        }
        if state.add("ledger", name_of(version), _sealed(content)):
            made.append(state.where("ledger", name_of(version)))
    return tuple(made)


def _facts(table: Table, version: Version, at: datetime | None) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "lakeevolve": __version__,
        "table": {"uri": public_uri(table.uri), "format": table.format, "id": table.state.id},
        "version": version.number,
        "schema": version.digest,
        "plan": version.plan,
        "at": None if at is None else at.astimezone(UTC).isoformat(timespec="seconds"),
        "fills": dict(version.fills),
        "renames": dict(version.renames),
        "routes": dict(version.routes),
    }


def _changes(before: Version | None, after: Version) -> list[Any]:
    return [] if before is None else [change_to_json(change) for change in changes_between(before, after)]


def _verdicts(plan: Plan) -> dict[str, Any]:
    waivers = {waiver.fingerprint: waiver.approver for waiver in plan.inputs.policy.waivers}
    findings = [_verdict(each, waivers.get(each.fingerprint) if each.waived else None) for each in plan.findings]
    return {"mode": plan.mode, "fail_on": plan.fail_on, "findings": findings}


def _went_back(found: Sequence[Finding], approval: Approval | None) -> dict[str, Any]:
    """No mode is kept by going back; what would have refused it was let pass by a permit."""
    by = "a permit" if approval is None else approval.approver
    return {"mode": "NONE", "fail_on": "error", "findings": [_verdict(each, by) for each in found]}


def _verdict(finding: Finding, waived_by: str | None) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "path": finding.path,
        "fingerprint": finding.fingerprint,
        "waived_by": waived_by,
    }


def _replayed(replay: ReplayResult) -> dict[str, Any]:
    return {"ok": replay.ok, "files": replay.files, "rows": replay.rows, "mismatched": replay.mismatched}


def _sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "seal": json_digest(dict(content))}


# Reading --------------------------------------------------------------------------------------------------------------


def entries(state: TableState) -> tuple[Entry, ...]:
    """All entries of a table, by version; damaged ones with what is wrong with them."""
    found = [_entry(name, where, content) for name, where, content in state.read("ledger")]
    return tuple(sorted(found, key=lambda entry: (entry.version, entry.name)))


def _entry(name: str, where: str, content: bytes) -> Entry:
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        return Entry(name, where, None, "it is not JSON")
    if not isinstance(read, dict) or not isinstance(read.get("seal"), str):
        return Entry(name, where, None, "it is no ledger entry")
    if str(read.get("format_version")).split(".")[0] != FORMAT_VERSION.split(".")[0]:
        said = str(read.get("format_version"))[:20]
        return Entry(name, where, None, f"it has format version {said}, and this lakeevolve reads {FORMAT_VERSION}")
    try:
        sealed = json_digest({key: value for key, value in read.items() if key != "seal"})
        missing = _FIELDS - read.keys()
    except (ValueError, TypeError, RecursionError):
        return Entry(name, where, None, "it is no ledger entry")
    if missing:
        return Entry(name, where, None, f"it lacks {', '.join(sorted(missing))}")
    return Entry(name, where, read, "" if sealed == read["seal"] else "its seal does not fit")


_FIELDS: Final = frozenset(
    (
        *("table", "version", "schema", "plan", "at", "changes", "fills", "renames", "routes"),
        *("approver", "verdicts", "replay", "rebuilt"),
    )
)


def judge(found: Iterable[Entry], table: Table, versions: Sequence[Version]) -> tuple[Finding, ...]:
    """What the ledger says otherwise than the table, and what it lacks."""
    return tuple(_judged(tuple(found), table, {version.number: version for version in versions}))


def _judged(found: tuple[Entry, ...], table: Table, versions: Mapping[int, Version]) -> Iterator[Finding]:
    uri = table.uri
    present = {entry.name for entry in found}
    for entry in found:
        about = _about(entry, table, versions)
        if about is not None:
            rule, message = about
            yield rule.finding("", entry.name, entry.name, message, versions=(entry.version,), subject=uri)
    for version in versions.values():
        if version.plan is not None and name_of(version) not in present:
            message = f"the ledger has no entry of version {version.number}"
            name = name_of(version)
            yield LEDGER_MISSING.finding("", name, name, message, versions=(version.number,), subject=uri)


def _about(entry: Entry, table: Table, versions: Mapping[int, Version]) -> tuple[Rule, str] | None:
    """What is to be said of one entry."""
    version = versions.get(entry.version)
    if entry.record is None:
        return LEDGER_DAMAGED, f"the ledger entry {entry.where} cannot be read: {entry.fault}"
    if entry.fault:
        return LEDGER_DIFFERS, f"the ledger entry {entry.where} was changed after it was written: {entry.fault}"
    if version is None or version.plan != entry.plan:
        return LEDGER_STRAY, f"the table has no version {entry.version} of plan {entry.plan[:12]} any more"
    for what in _differences(entry.record, table, version, versions.get(version.number - 1)):
        return LEDGER_DIFFERS, f"the ledger entry {entry.where} {what}"
    return None


def _differences(said: Mapping[str, Any], table: Table, version: Version, before: Version | None) -> Iterator[str]:
    marker = _facts(table, version, None)
    for key in ("version", "plan", "schema", "fills", "renames", "routes"):
        if said[key] != marker[key]:
            yield f"has {_WORDS[key]} that the table's marker does not have"
    if not isinstance(said["table"], dict) or said["table"].get("id") != table.state.id:
        yield "is of another table"
    if before is not None and not _leads(said["changes"], before, version):
        yield "has changes that do not lead from the version before to this one"


_WORDS: Final = {
    "version": "a version",
    "plan": "a plan",
    "schema": "a schema",
    "fills": "fills",
    "renames": "renames",
    "routes": "routes",
}


def _leads(changes: Any, before: Version, after: Version) -> bool:
    """Whether the changes, made to the schema before, give the schema after."""
    try:
        made = apply_changes([change_from_json(change) for change in changes], before.schema)
    except (LakeEvolveError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return False
    return made.digest == after.digest
