"""What a command came to, as one record that every format is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lakeevolve.model.value import value

if TYPE_CHECKING:
    from lakeevolve.applying.apply import Application
    from lakeevolve.model.diff import Diff
    from lakeevolve.model.schema import Schema
    from lakeevolve.planning.plan import Plan
    from lakeevolve.replaying.result import ReplayResult
    from lakeevolve.rules.catalogue import Rule
    from lakeevolve.rules.findings import Finding
    from lakeevolve.rules.modes import Report

Kind = Literal[
    "diff",
    "check",
    "plan",
    "apply",
    "verify",
    "replay",
    "lineage",
    "history",
    "describe",
    "rules",
    "schema",
    "project",
    "rollback",
    "batch",
    "registry",
    "adopt",
]


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Known:
    """One version of a schema, as a report names it, with when and how it came about where that is known."""

    name: str
    schema: Schema
    at: str = ""
    by: str = ""


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Background:
    """What a record of a result leaves out and a picture of it needs: the versions, oldest first, the difference of
    the last two, and the contracts of consumers."""

    versions: tuple[Known, ...] = ()
    diff: Diff | None = None
    contracts: tuple[Any, ...] = ()


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Outcome:
    """One result, ready to be rendered.

    ``record`` is its JSON, ``text`` gives what a terminal shows, ``findings`` what formats for findings tell.
    ``title`` says in a line what it is about, ``verdict`` what it came to. ``blocked``: what was planned may not be
    done. A project has ``parts``, one for each subject or table. ``failed`` says why there is no result, where there is
    none.
    """

    kind: Kind
    record: Any
    text: Callable[[], str] = field(repr=False)
    title: str
    verdict: str = ""
    findings: tuple[Finding, ...] = ()
    blocked: bool = False
    parts: tuple[Outcome, ...] = field(default=(), repr=False)
    failed: str = ""
    #: Made when it is drawn.
    background: Callable[[], Background] = field(default=Background, repr=False, compare=False)

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The parts that have no result, or the outcome itself."""
        return (*((self,) if self.failed else ()), *(part for part in self.parts if part.failed))

    @property
    def own(self) -> tuple[Finding, ...]:
        """The findings that are of no part."""
        of_parts = {id(finding) for part in self.parts for finding in part.findings}
        return tuple(finding for finding in self.findings if id(finding) not in of_parts)


def of_diff(diff: Diff) -> Outcome:
    from lakeevolve.report.json import diff_record
    from lakeevolve.report.text import counted, diff_text

    return Outcome(
        "diff",
        diff_record(diff),
        lambda: diff_text(diff),
        "What changed",
        counted(len(diff.changes), "change"),
        background=lambda: Background((Known("before", diff.old), Known("after", diff.new)), diff),
    )


def of_check(report: Report, candidate: Schema | None = None) -> Outcome:
    from lakeevolve.report.json import report_record
    from lakeevolve.report.text import may_go_on, report_text

    verdict = f"{report.mode}: {'compatible' if report.compatible else 'not compatible'}"
    return Outcome(
        "check",
        report_record(report),
        lambda: report_text(report),
        "Compatibility" if candidate is None or not candidate.source else f"Compatibility of {candidate.source}",
        verdict,
        tuple(report.findings),
        not may_go_on(report),
        background=lambda: _of_report(report),
    )


def _of_report(report: Report) -> Background:
    from lakeevolve.model.diff import diff

    if report.candidate is None:
        return Background(contracts=report.contracts)
    versions = [Known(f"version {number}", each) for number, each in enumerate(report.history, start=1)]
    changed = diff(report.history[-1], report.candidate) if report.history else None
    return Background((*versions, Known("candidate", report.candidate)), changed, report.contracts)


def _of_plan(plan: Plan) -> Background:
    from lakeevolve.model.diff import diff

    if not plan.versions:
        # A saved plan holds its target alone.
        return Background(contracts=plan.inputs.contracts)
    versions = [Known(f"version {number}", each) for number, each in enumerate(plan.versions, start=1)]
    if plan.changes:
        versions.append(Known(f"version {plan.target_version}", plan.target, by="this plan"))
    changed = diff(plan.versions[-1], plan.target, plan.inputs.renames)
    return Background(tuple(versions), changed, plan.inputs.contracts)


def of_plan(plan: Plan, target: Schema | None = None) -> Outcome:
    """*target* is the schema as it was loaded: a plan does not say where its text lies, and a finding in CI has to."""
    from lakeevolve.report.findings import located
    from lakeevolve.report.json import plan_record
    from lakeevolve.report.text import blocked_by, plan_text

    title = f"Plan {plan.digest[:12]} for {plan.table['uri']}, version {plan.base_version} to {plan.target_version}"
    verdict = blocked_by(plan) or ("no changes" if plan.empty else "can be applied")
    findings = plan.findings
    if target is not None:
        renamed = {old: new for new, old in plan.renames.items()}
        findings = tuple(located(each, target, renamed) for each in plan.findings)
    blocked = bool(blocked_by(plan))
    return Outcome(
        "plan",
        plan_record(plan),
        lambda: plan_text(plan),
        title,
        verdict,
        findings,
        blocked,
        background=lambda: _of_plan(plan),
    )


def of_application(done: Application, plan: Plan) -> Outcome:
    from lakeevolve.report.findings import of_replay
    from lakeevolve.report.json import application_record
    from lakeevolve.report.text import application_text

    uri = plan.table["uri"]
    return Outcome(
        "apply",
        application_record(done),
        lambda: application_text(done, plan),
        f"Plan {done.plan[:12]} on {uri}",
        told(done),
        done.findings if done.replay is None else of_replay(done.replay, uri),
    )


def told(done: Application) -> str:
    """The verdict on an apply or a rollback."""
    if done.findings and done.replay is None:
        return f"{done.status}, nothing replayed"
    return done.status if done.ok else "the replay differs"


def of_verify(result: ReplayResult, uri: str, *, show_values: bool = False) -> Outcome:
    from lakeevolve.report.findings import of_replay
    from lakeevolve.report.json import replay_record
    from lakeevolve.report.text import counted, replay_text

    verdict = "equal" if result.ok else "differs"
    return Outcome(
        "verify",
        replay_record(result),
        lambda: replay_text(result, uri, show_values=show_values),
        f"Replay of {uri}",
        f"{verdict}, {counted(result.files, 'file')}, {counted(result.rows, 'row')}",
        of_replay(result, uri),
    )


def of_description(record: Mapping[str, Any]) -> Outcome:
    from lakeevolve.report.description import description_text

    return Outcome("describe", dict(record), lambda: description_text(record), f"Table {record['uri']}")


def of_rules(rules: Iterable[Rule]) -> Outcome:
    from lakeevolve.report.json import rule_record
    from lakeevolve.report.text import rules_text

    known = tuple(rules)
    return Outcome("rules", [rule_record(rule) for rule in known], lambda: rules_text(known), "Rules")
