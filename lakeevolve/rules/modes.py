"""May it change? The compatibility modes, and everything else that is to be said of a candidate.

A mode chooses directions and versions; :func:`lakeevolve.avro.resolution.resolve` alone decides. What breaks in
several versions or in both directions is one finding that names them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import ConfigError
from lakeevolve.model import path as paths
from lakeevolve.model.diff import diff
from lakeevolve.model.renames import Renames, rename_pairs, renames_between
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Union, is_null
from lakeevolve.model.value import value
from lakeevolve.rules import default, enum, meaning, name, rollout, schema, union
from lakeevolve.rules import field as fields
from lakeevolve.rules import type as types
from lakeevolve.rules.fault import Direction, Fault, faults
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.policy import FailOn, Policy, weigh
from lakeevolve.rules.rollout import Order
from lakeevolve.rules.step import Step

#: Mode to the directions that it protects.
MODES: Final[Mapping[str, tuple[Direction, ...]]] = {
    "NONE": (),
    "BACKWARD": ("backward",),
    "FORWARD": ("forward",),
    "FULL": ("backward", "forward"),
    "BACKWARD_TRANSITIVE": ("backward",),
    "FORWARD_TRANSITIVE": ("forward",),
    "FULL_TRANSITIVE": ("backward", "forward"),
}


@runtime_checkable
class Contract(Protocol):
    """What a consumer declared that it reads; gives its own findings."""

    def judge(self, candidate: Schema, history: Sequence[Schema], subject: str) -> Iterable[Finding]: ...


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report:
    """The verdict on a candidate.

    ``compatible`` is a matter of the mode alone. ``findings`` hold that and everything else, errors first. ``rollout``
    says in sentences who moves first; ``order`` in a word. ``fail_on`` is the policy's.
    """

    compatible: bool
    findings: tuple[Finding, ...]
    rollout: tuple[str, ...]
    mode: str
    order: Order = "any"
    fail_on: FailOn = "error"
    subject: str = ""
    #: What was judged, and what it was held against: for those who draw it.
    candidate: Schema | None = field(default=None, compare=False, repr=False)
    history: tuple[Schema, ...] = field(default=(), compare=False, repr=False)
    contracts: tuple[Contract, ...] = field(default=(), compare=False, repr=False)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that fail the check: not waived, at or above ``fail_on``."""
        policy = Policy(fail_on=self.fail_on)
        return tuple(found for found in self.findings if not found.waived and policy.fails(found.severity))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("lakeevolve.report.notebook").shown(self))


def check(
    candidate: Schema,
    history: Sequence[Schema],
    mode: str = "BACKWARD",
    contracts: Sequence[Contract] = (),
    policy: Policy | None = None,
    *,
    subject: str = "",
    renames: Renames = (),
    not_renames: Iterable[tuple[str, str] | str] = (),
    today: date | None = None,
) -> Report:
    """Judge a candidate against the versions before it.

    Parameters
    ----------
    candidate:
        The schema that is to be the next version.
    history:
        The versions so far, oldest first; the first has number 1.
    mode:
        NONE, BACKWARD (new readers read old data), FORWARD (old readers read new data), FULL (both), each against the
        newest version, or with _TRANSITIVE against all.
    contracts:
        What consumers declared; their findings are added.
    policy:
        Severities and waivers. Waivers that waive nothing are reported, so a policy for several subjects is better
        weighed over the findings of all of them (:func:`lakeevolve.rules.policy.weigh`).
    subject:
        The name of what is judged, a part of each finding's fingerprint.
    renames:
        Renames that the owner approves, as :func:`lakeevolve.model.diff.diff` takes them. They count as aliases do
        for readers of the candidate, and say nothing to older readers.
    not_renames:
        Suspected renames that are none: (old path, new path), or a path that is no part of any.
    today:
        The day that waivers are held against; None for the current one.

    Returns
    -------
    Report

    Raises
    ------
    ConfigError
        The mode does not exist, or ``renames``, ``not_renames`` or ``contracts`` are not what they should be.

    Examples
    --------
    >>> from lakeevolve.avro.parse import parse
    >>> old = parse({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
    >>> new = parse({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
    >>> report = check(new, [old])
    >>> report.compatible, [found.rule for found in report.findings]
    (False, ['TYPE-CHANGED', 'ROLLOUT-NO-ORDER'])
    """
    wanted = _mode(mode)
    pairs = rename_pairs(renames)
    denied = _denied(not_renames)
    covered = range(len(history)) if wanted.endswith("_TRANSITIVE") else range(max(len(history) - 1, 0), len(history))
    verdict = _Verdict()
    holds: dict[Direction, bool] = {"backward": True, "forward": True}
    for at in covered:
        for direction in ("backward", "forward"):
            if not _resolves(verdict, candidate, history[at], at + 1, direction, pairs, direction in MODES[wanted]):
                holds[direction] = False
    order = rollout.rollout(wanted, holds["backward"], holds["forward"], subject, empty=not history)

    found = [*verdict.findings()]
    reported = {(each.rule, each.path) for each in found}
    found += schema.warnings(candidate)
    found += schema.old_versions(history, covered, candidate)
    found += default.unneeded(candidate, {path for rule, path in reported if rule == default.INVALID.id})
    if history:
        step = Step(diff(history[-1], candidate, pairs), len(history), subject, reported)
        found += _step(step, history, denied)
        found += _meanings(candidate, history, covered, step, pairs)
    found += rollout.findings(order, tuple(at + 1 for at in covered))
    judges = tuple(map(_contract, contracts))
    for judge in judges:
        found += judge.judge(candidate, history, subject)
    # The docs of a field and of its type may change alike, which is said once.
    placed = {each.fingerprint: each for each in reversed([_placed(each, candidate, subject) for each in found])}
    policy = policy or Policy()
    return Report(
        compatible=all(holds[direction] for direction in MODES[wanted]),
        findings=weigh(placed.values(), policy, today=today),
        rollout=order.sentences,
        mode=wanted,
        order=order.order,
        fail_on=policy.fail_on,
        subject=subject,
        candidate=candidate,
        history=tuple(history),
        contracts=judges,
    )


def _contract(given: Any) -> Contract:
    """A contract, from its file where that is what was given."""
    if isinstance(given, str | Path | Mapping):
        from lakeevolve.rules.contract import load_contract

        return load_contract(given)
    if not isinstance(given, Contract):
        raise ConfigError(f"not a contract: a {type(given).__name__}", hint="give a contract, or its file")
    return given


def _mode(mode: str) -> str:
    wanted = mode.strip().upper() if isinstance(mode, str) else str(mode)
    if wanted not in MODES:
        near = get_close_matches(wanted, MODES, n=1)
        raise ConfigError(
            f"there is no compatibility mode {mode!r}",
            hint=f"did you mean {near[0]}?" if near else f"use one of {', '.join(MODES)}",
        )
    return wanted


def _denied(not_renames: Iterable[tuple[str, str] | str]) -> frozenset[tuple[str, str] | str]:
    found: set[tuple[str, str] | str] = set()
    for each in [not_renames] if isinstance(not_renames, str) else not_renames:
        if isinstance(each, str):
            found.add(each)
        elif len(each) == 2 and all(isinstance(side, str) for side in each):
            found.add((each[0], each[1]))
        else:
            raise ConfigError(
                "not_renames holds pairs of paths, old and new, or single paths",
                where=str(each),
                hint='write [("amount", "total")]',
            )
    return frozenset(found)


# The mode -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Verdict:
    """What resolutions said so far, each thing once with all its versions."""

    said: dict[tuple[str, str, str | None, str | None], Finding] = field(default_factory=dict)
    versions: dict[tuple[str, str, str | None, str | None], dict[Direction, list[int]]] = field(default_factory=dict)

    def add(self, finding: Finding, direction: Direction, version: int) -> None:
        key = (finding.rule, finding.path, finding.from_, finding.to)
        self.said.setdefault(key, finding)
        numbers = self.versions.setdefault(key, {}).setdefault(direction, [])
        if version not in numbers:
            numbers.append(version)

    def findings(self) -> Iterator[Finding]:
        for key, finding in self.said.items():
            by_direction = self.versions[key]
            told = []
            if "backward" in by_direction:
                told.append(f"readers with the new schema, on data of {_numbers(by_direction['backward'])}")
            if "forward" in by_direction:
                told.append(f"readers of {_numbers(by_direction['forward'])}, on new data")
            versions = sorted({number for numbers in by_direction.values() for number in numbers})
            yield replace(finding, breaks="; ".join(told), versions=tuple(versions))


def _numbers(versions: Sequence[int]) -> str:
    return f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, versions))}"


def _resolves(
    verdict: _Verdict,
    candidate: Schema,
    version: Schema,
    number: int,
    direction: Direction,
    pairs: Sequence[tuple[str, str]],
    protected: bool,
) -> bool:
    """Whether the direction holds for one version; what the mode protects is noted where it does not."""
    backward = direction == "backward"
    # An overlay is known to readers of the candidate only.
    renames = renames_between(pairs, version, candidate) if backward and pairs else {}
    writer, reader = (version, candidate) if backward else (candidate, version)
    resolution = resolve(writer, reader, renames=renames)
    if protected and not resolution.compatible:
        # Where the candidate has the fields that older readers miss under their old names.
        moved = {} if backward else {old: new for new, old in diff(version, candidate, pairs).renames.items()}
        for fault in faults(resolution, direction, renames):
            for finding in _findings_of(fault, moved):
                verdict.add(finding, direction, number)
    return resolution.compatible


def _findings_of(fault: Fault, moved: Mapping[str, str]) -> Iterator[Finding]:
    match fault.kind:
        case "READER_FIELD_MISSING_DEFAULT_VALUE":
            new = moved.get(fault.old_path or "")
            yield fields.without_value(fault) if new is None else fields.renamed(new, fault.old_path or "", new)
        case "MISSING_ENUM_SYMBOLS":
            yield from enum.missing_symbols(fault)
        case "NAME_MISMATCH":
            yield name.mismatch(fault)
        case "ALIAS_COLLISION":
            yield name.collision(fault)
        case "FIXED_SIZE_MISMATCH":
            yield types.fixed_size(fault)
        case "LOGICAL_TYPE_MISMATCH":
            yield types.logical(fault)
        case "INVALID_DEFAULT":
            yield default.invalid(fault)
        case _:
            # TYPE_MISMATCH and MISSING_UNION_BRANCH
            if fault.branch is not None and is_null(fault.branch):
                yield fields.nullability(fault)
            elif fault.branch is not None and isinstance(fault.writer, Union) and not fault.writer.optional:
                yield union.branch(fault)
            else:
                yield types.mismatch(fault)


# Everything else ----------------------------------------------------------------------------------------------------


def _step(step: Step, history: Sequence[Schema], denied: frozenset[tuple[str, str] | str]) -> Iterator[Finding]:
    yield from fields.changes(step)
    yield from types.changes(step)
    yield from enum.changes(step)
    yield from union.changes(step)
    yield from default.changes(step)
    yield from name.changes(step, history)
    yield from name.suspected(step, denied)
    yield from name.declared(step, history)


def _meanings(
    candidate: Schema, history: Sequence[Schema], covered: range, step: Step, pairs: Sequence[tuple[str, str]]
) -> Iterator[Finding]:
    """What became of stated meanings, against each version that the mode covers and at least the newest."""
    said: dict[tuple[str, str, str | None, str | None], Finding] = {}
    for at in sorted({*covered, len(history) - 1}):
        version = history[at]
        if not meaning.states_meaning(version) and not meaning.states_meaning(candidate):
            continue
        delta = step.diff if at == len(history) - 1 else diff(version, candidate, pairs)
        for each in meaning.changes(delta, at + 1):
            key = (each.rule, each.path, each.from_, each.to)
            before = said.get(key)
            said[key] = each if before is None else replace(before, versions=(*before.versions, at + 1))
    yield from said.values()


def _placed(finding: Finding, candidate: Schema, subject: str) -> Finding:
    """The finding with its subject, and with the line of its place or of what encloses it."""
    if finding.file is not None:  # of another version
        return replace(finding, subject=subject)
    line = None
    path = finding.path
    while candidate.lines and line is None:
        line = candidate.lines.get(path)
        if not path:
            break
        path = paths.parent(path)
    return replace(finding, subject=subject, file=candidate.source, line=line)
