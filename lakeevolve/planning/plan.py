"""A plan: what apply will do to one table, exactly, as a file.

The *digest* covers what people approve: the table's identity, the version it starts from, the target, the changes
with their routes and fills, and the findings. Estimates (files, rows, bytes) lie outside it, since appends move them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve._version import __version__
from lakeevolve.avro.parse import parse
from lakeevolve.config.conform import faults
from lakeevolve.errors import LakeEvolveError, PlanFormatError
from lakeevolve.model.change import AddField, Change, ChangeLogicalType, RenameField, ReplaceType
from lakeevolve.model.change_json import change_from_json, change_to_json
from lakeevolve.model.digest import json_digest
from lakeevolve.model.renames import as_aliases
from lakeevolve.model.schema import Schema
from lakeevolve.planning.schema import PLAN
from lakeevolve.redaction import without_secrets
from lakeevolve.rules.contract import Contract, load_contracts
from lakeevolve.rules.findings import Finding, finding_from_json
from lakeevolve.rules.policy import Policy, Waiver
from lakeevolve.tables.base import Fill, Permit, Precondition, Route, Write

FORMAT_VERSION: Final = "1.0"

#: The routes whose cost alone calls for a permit of the same name.
COSTLY: Final[Mapping[str, Permit]] = {"rewrite": "rewrite", "backfill": "backfill"}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a step is expected to touch, as the table was when the plan was made. Bytes are those of stored files."""

    files: int = 0
    rows: int = 0
    bytes: int = 0

    def to_json(self) -> dict[str, int]:
        return {"files": self.files, "rows": self.rows, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Step:
    """One change, or several that cannot be told apart, on their way to the table.

    ``permit`` is what the change needs (``drop``, ...). The routes ``rewrite`` and ``backfill`` need the permit of
    their own name besides: see :attr:`permits`.
    """

    id: str
    route: Route
    via: str
    changes: tuple[Change, ...]
    reason: str
    permit: Permit | None = None
    irreversible: bool = False
    readers: tuple[str, ...] = ()
    precondition: Precondition | None = None
    estimate: Estimate = field(default=Estimate(), compare=False)

    @property
    def permits(self) -> frozenset[Permit]:
        """Every permit that ``apply`` must be given to run this step."""
        own = {self.permit} if self.permit else set()
        return frozenset(own | ({COSTLY[self.route]} if self.route in COSTLY else set()))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "route": self.route,
            "via": self.via,
            "permit": self.permit,
            "changes": [change_to_json(change) for change in self.changes],
            "reason": self.reason,
            "irreversible": self.irreversible,
            "readers": list(self.readers),
            "precondition": self.precondition,
        }


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the planner was told besides the table, the target, the mode and ``old_rows``.

    They are part of the plan, so that planning again with them tells whether the plan says what the table needs.
    ``subject`` is what findings about the schema are of, where it is not the table. ``pin`` says what makes the plan
    stale: a change of the ``schema``, or of the ``data`` as well.
    """

    renames: tuple[tuple[str, str], ...] = ()
    not_renames: tuple[tuple[str, str], ...] = ()
    routes: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    subject: str = ""
    pin: Literal["schema", "data"] = "schema"
    contracts: tuple[Contract, ...] = ()
    policy: Policy = field(default_factory=Policy)
    #: Top-level columns, by name or pattern, that no schema owns.
    foreign: tuple[str, ...] = ()
    #: Of a plan that undoes another: the other's digest, and the paths whose numbers become narrower again.
    reverts: str | None = None
    narrow: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "renames": [list(pair) for pair in self.renames],
            "not_renames": [list(pair) for pair in self.not_renames],
            "routes": dict(self.routes),
            "limits": dict(self.limits),
            "reverts": self.reverts,
            "narrow": list(self.narrow),
            "subject": self.subject,
            "pin": self.pin,
            "foreign": list(self.foreign),
            "contracts": [contract.to_json() for contract in self.contracts],
            "severity": dict(self.policy.severity),
            "waivers": [
                {
                    "fingerprint": waiver.fingerprint,
                    "reason": waiver.reason,
                    "approver": waiver.approver,
                    "until": None if waiver.until is None else waiver.until.isoformat(),
                }
                for waiver in self.policy.waivers
            ],
        }


def _inputs(record: Mapping[str, Any], fail_on: Any) -> Inputs:
    waivers = tuple(
        Waiver(
            fingerprint=waiver["fingerprint"],
            reason=waiver["reason"],
            approver=waiver["approver"],
            until=None if waiver["until"] is None else date.fromisoformat(waiver["until"]),
        )
        for waiver in record["waivers"]
    )
    return Inputs(
        renames=tuple((old, new) for old, new in record["renames"]),
        not_renames=tuple((old, new) for old, new in record["not_renames"]),
        routes=dict(record["routes"]),
        limits=dict(record["limits"]),
        subject=record["subject"],
        pin=record["pin"],
        foreign=tuple(record["foreign"]),
        contracts=load_contracts(record["contracts"]),
        policy=Policy(severity=dict(record["severity"]), fail_on=fail_on, waivers=waivers),
        reverts=record["reverts"],
        narrow=tuple(record["narrow"]),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What apply will do to one table. Made by :func:`lakeevolve.plan`, read back by :func:`lakeevolve.load_plan`."""

    table: Mapping[str, str]
    pin: Mapping[str, Any]
    base_version: int
    base_digest: str
    target: Schema
    target_version: int
    mode: str
    old_rows: str | Mapping[str, str]
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...] = ()
    rollout: tuple[str, ...] = ()
    inputs: Inputs = field(default_factory=Inputs)
    lakeevolve: str = __version__
    total: Estimate = field(default=Estimate(), compare=False)
    #: What apply reads: every live file, for the checks, the proof and the replay.
    read: Estimate = field(default=Estimate(), compare=False)
    #: The data's version when the plan was made, which appends move: no part of what is approved.
    position: int | None = field(default=None, compare=False)
    #: Whether it was made from a saved description: no row and no file was looked at.
    described: bool = field(default=False, compare=False)
    #: The schemas that the table has had, oldest first, for those who draw the plan; a saved one does not hold them.
    versions: tuple[Schema, ...] = field(default=(), compare=False, repr=False)
    #: Who wrote to the table last, the newest first.
    writers: tuple[Write, ...] = field(default=(), compare=False)

    @property
    def digest(self) -> str:
        """The intent digest: SHA-256 of the plan's canonical JSON without ``digest`` and ``estimate``."""
        return json_digest(self.intent())

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for step in self.steps for change in step.changes)

    @property
    def empty(self) -> bool:
        """Whether the table already has the target schema, and its marker says so."""
        return not self.steps

    @property
    def fail_on(self) -> str:
        """The lowest severity of a finding that keeps the plan from being applied."""
        return self.inputs.policy.fail_on

    @property
    def permits(self) -> frozenset[Permit]:
        """Every permit that ``apply`` must be given."""
        return frozenset().union(*(step.permits for step in self.steps))

    @property
    def refused(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.route == "refuse")

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that keep the plan from being applied: not waived, at or above the policy's ``fail_on``."""
        ranks = {"info": 0, "warning": 1, "error": 2, "never": 3}
        return tuple(f for f in self.findings if not f.waived and ranks[f.severity] >= ranks[self.fail_on])

    @property
    def applicable(self) -> bool:
        return not self.refused and not self.failures and all(step.route != "external" for step in self.steps)

    @property
    def checks(self) -> list[tuple[Change | None, Precondition]]:
        """What has to be true of the live rows; without a change, of what the table is taken for."""
        return [
            (change, step.precondition)
            for step in self.steps
            if step.precondition
            for change in step.changes or (None,)
        ]

    @property
    def fills(self) -> dict[str, Fill]:
        """Per path that is new or becomes narrower, what rows older than the plan read there."""
        return fills_of(self.changes, self.old_rows, self.inputs.narrow)

    @property
    def hint(self) -> Schema:
        """What a table that carries no schema is read as: the target, with the owner's renames as aliases."""
        return as_aliases(self.target, self.inputs.renames)

    @property
    def renames(self) -> dict[str, str]:
        """New path to old path of every renamed field."""
        return renames_of(self.changes)

    def stale(self, table: Any = None) -> str | None:
        """Why the plan can no longer be applied to the table as it is now, or None.

        *table* is an open table; without it the plan's own URI is opened.
        """
        from lakeevolve.planning.stale import staleness

        return staleness(self, table)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.intent(),
            "digest": self.digest,
            "estimate": {
                "position": self.position,
                "described": self.described,
                "read": self.read.to_json(),
                "written": self.total.to_json(),
                # Until the old files are vacuumed or their snapshot expires, the table holds both.
                "temporary_bytes": self.total.bytes,
                "writers": [write.to_json() for write in self.writers],
                "steps": {step.id: step.estimate.to_json() for step in self.steps},
            },
        }

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("lakeevolve.report.notebook").shown(self))

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON and return where."""
        target = Path(path)
        try:
            target.write_text(json.dumps(self.to_json(), indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        except OSError as error:
            raise PlanFormatError(
                f"the plan could not be written: {error.strerror}", where=str(target), hint="choose a writable path"
            ) from without_secrets(error)
        return target

    def intent(self) -> dict[str, Any]:
        """What the digest covers, as JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "lakeevolve": self.lakeevolve,
            "table": dict(self.table),
            "pin": dict(self.pin),
            "from": {"version": self.base_version, "digest": self.base_digest},
            "target": {
                "schema": self.target.to_json(),
                "digest": self.target.digest,
                "version": self.target_version,
            },
            "mode": self.mode,
            "old_rows": self.old_rows if isinstance(self.old_rows, str) else dict(self.old_rows),
            "steps": [step.to_json() for step in self.steps],
            "findings": [finding.to_json() for finding in self.findings],
            "fail_on": self.fail_on,
            "inputs": self.inputs.to_json(),
            "consumers": [contract.name for contract in self.inputs.contracts],
            "rollout": list(self.rollout),
        }


def fills_of(
    changes: Sequence[Change], old_rows: str | Mapping[str, str], narrow: Collection[str] = ()
) -> dict[str, Fill]:
    """Per added path, what old rows read there: ``old_rows`` for all paths, or per path with ``default`` otherwise; and
    which paths become narrower."""
    found: dict[str, Fill] = {}
    for change in changes:
        if isinstance(change, ReplaceType | ChangeLogicalType) and change.path in narrow:
            found[change.path] = "narrow"
        if isinstance(change, AddField):
            wanted = old_rows if isinstance(old_rows, str) else old_rows.get(change.path, old_rows.get("*", "default"))
            found[change.path] = "null" if wanted == "null" else "default"
    return found


def renames_of(changes: Sequence[Change]) -> dict[str, str]:
    """New path to old path of every renamed field, both as full paths of their own schema."""
    from lakeevolve.model import path as paths

    found: dict[str, str] = {}
    for change in changes:
        if isinstance(change, RenameField):
            # An outer record's renames come first, so the change's own path already holds the new outer names.
            old = change.path
            for new_outer, old_outer in sorted(found.items(), key=lambda item: -len(paths.parts(item[0]))):
                if old != new_outer and paths.within(paths.parent(change.path), new_outer):
                    rest = paths.parts(change.path)[len(paths.parts(new_outer)) :]
                    old = paths.join(paths.parts(old_outer) + rest)
                    break
            found[change.new_path] = old
    return found


def load_plan(path: str | Path) -> Plan:
    """Read a saved plan.

    Raises ``PlanFormatError`` where the file is no plan, is of another format version, or was edited by hand (its
    digest is not that of its content).

    >>> plan = load_plan("plan.json")  # doctest: +SKIP
    """
    source = Path(path)
    try:
        record = json.loads(source.read_text())
    except OSError as error:
        raise PlanFormatError(f"the plan cannot be read: {error.strerror}", where=str(source)) from without_secrets(
            error
        )
    except ValueError as error:
        raise PlanFormatError(
            "the file is not JSON, so it is not a plan", where=str(source), hint="make a plan with: lakeevolve plan"
        ) from error
    if not isinstance(record, dict) or "format_version" not in record or "steps" not in record:
        raise PlanFormatError(
            "the file is not a lakeevolve plan", where=str(source), hint="make a plan with: lakeevolve plan"
        )
    if str(record["format_version"]).split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise PlanFormatError(
            f"the plan has format version {record['format_version']}, this lakeevolve reads {FORMAT_VERSION}",
            where=str(source),
            hint="make the plan again with this version of lakeevolve",
        )
    wrong = next(faults(record, PLAN), None)
    if wrong is not None:
        raise PlanFormatError(
            f"the file is not a lakeevolve plan: {wrong}", where=str(source), hint="make the plan again"
        )
    content = {key: value for key, value in record.items() if key not in ("digest", "estimate")}
    if json_digest(content) != record.get("digest"):
        raise PlanFormatError(
            "the plan was changed after it was made: its digest is not that of its content",
            where=str(source),
            hint="make the plan again; a plan is never edited by hand",
        )
    try:
        plan = _from_json(record)
    except (KeyError, TypeError, ValueError, LakeEvolveError) as error:
        raise PlanFormatError(
            "the plan holds something that this lakeevolve cannot read", where=str(source), hint="make the plan again"
        ) from error
    if plan.digest != record["digest"]:
        raise PlanFormatError(
            "the plan contradicts itself: a digest or a fingerprint in it is not that of what it stands for",
            where=str(source),
            hint="make the plan again; a plan is never edited by hand",
        )
    return plan


def _from_json(record: Mapping[str, Any]) -> Plan:
    estimate = record["estimate"]
    costs = estimate["steps"]
    steps = tuple(
        Step(
            id=step["id"],
            route=step["route"],
            via=step["via"],
            permit=step["permit"],
            changes=tuple(change_from_json(change) for change in step["changes"]),
            reason=step["reason"],
            irreversible=step["irreversible"],
            readers=tuple(step["readers"]),
            precondition=step["precondition"],
            estimate=Estimate(**costs.get(step["id"], {})),
        )
        for step in record["steps"]
    )
    return Plan(
        table=record["table"],
        pin=record["pin"],
        base_version=record["from"]["version"],
        base_digest=record["from"]["digest"],
        target=parse(record["target"]["schema"]),
        target_version=record["target"]["version"],
        mode=record["mode"],
        old_rows=record["old_rows"],
        steps=steps,
        findings=tuple(finding_from_json(finding) for finding in record["findings"]),
        rollout=tuple(record["rollout"]),
        inputs=_inputs(record["inputs"], record["fail_on"]),
        lakeevolve=record["lakeevolve"],
        total=Estimate(**estimate["written"]),
        read=Estimate(**estimate["read"]),
        position=estimate["position"],
        described=estimate["described"],
        writers=tuple(
            Write(None if one["at"] is None else datetime.fromisoformat(one["at"]), one["operation"], one["by"])
            for one in estimate["writers"]
        ),
    )
