"""A whole project: every subject judged and planned, each for itself, so that none hides another.

What is wrong with one subject or table is that part's own result. Waivers are held against the findings of all parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from typing import Any, Literal

from lakeevolve import sources
from lakeevolve.config.project import Project, Subject, TableOptions
from lakeevolve.errors import ConfigError, LakeEvolveError, SourceNotFound
from lakeevolve.model.declared import check_renames
from lakeevolve.model.find import find_type
from lakeevolve.model.mapping import columns_of
from lakeevolve.model.renames import as_aliases, rename_pairs
from lakeevolve.model.schema import Schema
from lakeevolve.planning import registered
from lakeevolve.planning.make import plan as make_plan
from lakeevolve.planning.mapped import in_columns
from lakeevolve.planning.plan import Inputs, Plan
from lakeevolve.planning.touched import Touched, touched
from lakeevolve.redaction import public_uri, without_secrets
from lakeevolve.rules.contract import Contract, load_contracts
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.modes import Report, check
from lakeevolve.rules.policy import OPTIONS_UNUSED, UNUSED, Policy, Waiver, unused_waivers
from lakeevolve.tables import open_table
from lakeevolve.tables.base import Table

OpenTable = Callable[[str], Table]

#: What git's source says of a file that a revision did not have yet, unlike one of a revision that is not there.
_NOT_YET = re.compile(r"there is no .* at the revision ")


@dataclass(frozen=True, slots=True)
class Part:
    """What one subject, or one of its tables, came to.

    ``table`` is the table's URI as the project's file has it; None for a subject as a whole. ``value`` is the result,
    or None where there is an ``error``. ``target`` is the subject's newest schema, once it is read, ``plan`` what was
    applied.
    """

    subject: str
    table: str | None
    value: Any = None
    error: LakeEvolveError | None = None
    target: Schema | None = field(default=None, repr=False)
    plan: Plan | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.subject if self.table is None else f"{self.subject} · {public_uri(self.table)}"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a project in the order of its file, and what is to be said of the file itself.

    ``touched`` says which files reach which subjects, where only what a line of work touches was asked for.
    """

    project: Project
    kind: Literal["check", "plan", "verify", "apply"]
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()
    touched: Touched | None = None


def policy_of(project: Project) -> Policy:
    """The project's policy, as the rules take it."""
    entry = project.entry.policy
    waivers = tuple(Waiver(each.fingerprint, each.reason, each.approver, each.until) for each in entry.waivers)
    return Policy(severity=entry.severity, fail_on=entry.fail_on, waivers=waivers)


def contracts_of(project: Project, subject: Subject) -> tuple[Contract, ...]:
    """What the subject's consumers declared, from their files."""
    return load_contracts(project.located(file) for file in subject.contracts)


def attempt(subject: str, table: str | None, run: Callable[[], Any], target: Schema | None = None) -> Part:
    """One part: what *run* returns, or what went wrong."""
    try:
        return Part(subject, table, run(), None, target)
    except LakeEvolveError as error:
        return Part(subject, table, None, error, target)
    except Exception as error:
        # A library's text may hold row values, so only the type of what happened is told.
        failed = LakeEvolveError(f"an unexpected {type(error).__name__}", hint="run it alone, with --debug")
        failed.__cause__ = without_secrets(error)
        return Part(subject, table, None, failed, target)


def each_table(project: Project, chosen: Sequence[str], run: Callable[[Subject, str], Any]) -> tuple[Part, ...]:
    """A part for each table of the chosen subjects; *run* takes the subject and the table's URI."""
    return tuple(
        attempt(name, uri, partial(run, subject, project.located(uri)))
        for name, subject in project.subjects(chosen).items()
        for uri in subject.tables
    )


# Check ----------------------------------------------------------------------------------------------------------------


def check_project(
    project: Project,
    chosen: Sequence[str] = (),
    *,
    against: str | None = None,
    changed: str | None = None,
    registry: bool = True,
    open_: OpenTable = open_table,
) -> Parts:
    """Judge the newest schema of each subject.

    Parameters
    ----------
    chosen:
        Names or patterns of subjects; all without one.
    against:
        A git revision: what a subject's source holds there are the versions before. Without it, those are the ones
        that a subject's tables have had; without tables, those of its subject in the schema registry, or else the
        earlier ones of its source, if that is a folder of them.
    changed:
        A git revision: only the subjects that were touched since, through whichever file.
    registry:
        Whether the schema registry is asked about subjects that are registered.
    open_:
        How tables are opened.

    Returns
    -------
    Parts
        A :class:`~lakeevolve.rules.modes.Report` for each table, or for the subject.
    """
    policy = policy_of(project)
    reach, chosen = _reach(project, chosen, changed)
    if reach is not None and not chosen:
        return Parts(project, "check", (), touched=reach)

    def judge(
        name: str,
        subject: Subject,
        target: Schema,
        before: Callable[[Schema], list[Schema]],
        options: TableOptions | None = None,
    ) -> Report:
        told = Inputs(
            renames=rename_pairs(subject.renames),
            not_renames=subject.not_renames,
            contracts=contracts_of(project, subject),
        )
        if options is not None and options.mapping:
            columns = columns_of(options.mapping, target, [old for old, _ in told.renames])
            target, told = columns.schema(target), in_columns(told, columns)
        versions = before(as_aliases(target, told.renames))
        if versions:
            check_renames(told.renames, target, versions)
        report = check(
            target,
            versions,
            (options.mode if options is not None else None) or subject.mode,
            told.contracts,
            policy=policy,
            subject=name,
            renames=told.renames,
            not_renames=told.not_renames,
        )
        return replace(report, findings=_without_unused(report.findings))

    def parts() -> Iterator[Part]:
        for name, subject, target, failed in _targets(project, chosen):
            if target is None:
                yield failed
            elif against is not None or not subject.tables:
                before = partial(_at, project, subject, against, registry)
                yield attempt(name, None, partial(judge, name, subject, target, before), target)
            else:
                for uri in subject.tables:
                    options = project.options(uri)
                    before = partial(_had, project.located(uri), options.foreign, open_)
                    yield attempt(name, uri, partial(judge, name, subject, target, before, options), target)

    found, told = _with_registry(project, policy, chosen, tuple(parts()), registry)
    # Findings about routes are a plan's to make, so where there are tables only a plan knows what waives nothing.
    complete = not chosen and not any(subject.tables for subject in project.entry.subjects.values())
    told = (*told, *(_about_waivers(project, policy, found, told) if complete else ()))
    return Parts(project, "check", found, told, reach)


def _reach(project: Project, chosen: Sequence[str], changed: str | None) -> tuple[Touched | None, Sequence[str]]:
    """What was touched since a revision, and of the chosen subjects the patterns of those that were."""
    if changed is None:
        return None, chosen
    reach = touched(project, project.subjects(chosen), changed)
    return reach, [escape(name) for name in reach.subjects]


def _with_registry(
    project: Project, policy: Policy, chosen: Sequence[str], found: tuple[Part, ...], ask: bool
) -> tuple[tuple[Part, ...], tuple[Finding, ...]]:
    """The parts, with one for each subject that the schema registry could not be asked about, and what it says."""
    findings, failed = registered.asked(project, policy, project.subjects(chosen), found, ask=ask)
    # What could not be read from the registry said so itself.
    told = {part.subject for part in found if part.error is not None and part.table is None}
    return (*found, *(Part(name, None, None, error) for name, error in failed.items() if name not in told)), findings


def _had(uri: str, foreign: Sequence[str], open_: OpenTable, hint: Schema) -> list[Schema]:
    live = open_(uri)
    live.leave_out(foreign)
    return [version.schema for version in live.history(hint=hint)]


def _at(project: Project, subject: Subject, revision: str | None, registry: bool, hint: Schema) -> list[Schema]:
    """The versions of the subject's source before its newest; at a revision, all that it held there."""
    if revision is None and subject.registered_as is not None and registry:
        return registered.versions_before(subject, hint)
    if revision is None:
        return [sources.load(version, lenient=True) for version in sources.expand(project.located(subject.source))[:-1]]
    if re.match(r"[A-Za-z][A-Za-z0-9+-]+:", subject.source):
        raise ConfigError(
            "a source that is no file has no earlier version at a revision",
            where=public_uri(subject.source),
            hint="leave out --against, or name the file itself as the source",
        )
    try:
        versions = sources.expand(project.located(f"git:{revision}:{subject.source}"))
        return [sources.load(version, lenient=True) for version in versions]
    except SourceNotFound as error:
        if _NOT_YET.match(error.what):
            return []
        raise


def _targets(project: Project, chosen: Sequence[str]) -> Iterator[tuple[str, Subject, Schema | None, Part]]:
    """The chosen subjects with their newest schemas; where one cannot be read, the part says why."""
    for name, subject in project.subjects(chosen).items():
        part = attempt(name, None, partial(_newest, project.located(subject.source)))
        yield name, subject, part.value, part


def _newest(source: str) -> Schema:
    return sources.load(sources.expand(source)[-1])


# Plan -----------------------------------------------------------------------------------------------------------------


def plan_project(
    project: Project,
    chosen: Sequence[str] = (),
    *,
    changed: str | None = None,
    registry: bool = True,
    open_: OpenTable = open_table,
) -> Parts:
    """Plan every table of the chosen subjects. Nothing is changed.

    Parameters
    ----------
    chosen, changed, registry, open_:
        As for :func:`check_project`.

    Returns
    -------
    Parts
        A :class:`~lakeevolve.planning.plan.Plan` for each table.
    """
    policy = policy_of(project)
    reach, chosen = _reach(project, chosen, changed)
    if reach is not None and not chosen:
        return Parts(project, "plan", (), touched=reach)

    def parts() -> Iterator[Part]:
        for name, subject, target, failed in _targets(project, chosen):
            if target is None:
                yield failed
                continue
            for uri in subject.tables:
                yield attempt(name, uri, partial(_plan, project, name, subject, uri, target, policy, open_), target)

    found, told = _with_registry(project, policy, chosen, tuple(parts()), registry)
    if not chosen:
        told = (*told, *_about_waivers(project, policy, found, told), *_about_options(project, policy, found))
    return Parts(project, "plan", found, told, reach)


def _plan(
    project: Project, name: str, subject: Subject, uri: str, target: Schema, policy: Policy, open_: OpenTable
) -> Plan:
    options = project.options(uri)
    made = make_plan(
        open_(project.located(uri)),
        target,
        options.mode or subject.mode,
        _old_rows(options, target),
        contracts_of(project, subject),
        policy,
        routes=options.routes,
        renames=subject.renames,
        not_renames=subject.not_renames,
        limits=options.limits.to_json(),
        pin=options.pin or "schema",
        subject=name,
        mapping=options.mapping,
        foreign=options.foreign,
    )
    return _with_own_waivers(made)


def _old_rows(options: TableOptions, target: Schema) -> str | Mapping[str, str]:
    """What the options say of this schema's paths: a pattern may be meant for tables of several schemas."""
    if not isinstance(options.old_rows, Mapping):
        return options.old_rows or "default"
    return {path: wanted for path, wanted in options.old_rows.items() if path == "*" or _has(target, path)} or "default"


def _has(schema: Schema, path: str) -> bool:
    try:
        return find_type(schema.root, path) is not None
    except ValueError:
        return False


def _with_own_waivers(plan: Plan) -> Plan:
    """The plan with those of the project's waivers that it uses: others are no part of what is approved."""
    fingerprints = {finding.fingerprint for finding in plan.findings}
    policy = plan.inputs.policy
    own = tuple(waiver for waiver in policy.waivers if waiver.fingerprint in fingerprints)
    inputs = replace(plan.inputs, policy=replace(policy, waivers=own))
    return replace(plan, inputs=inputs, findings=_without_unused(plan.findings))


# The file itself ------------------------------------------------------------------------------------------------------


def _without_unused(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.rule != UNUSED.id)


def _about_waivers(
    project: Project, policy: Policy, parts: Sequence[Part], others: Sequence[Finding] = ()
) -> tuple[Finding, ...]:
    if any(part.error is not None for part in parts):
        # What could not be looked at may be what a waiver is for.
        return ()
    used = {finding.fingerprint for part in parts for finding in part.value.findings}
    used |= {finding.fingerprint for finding in others}
    lines = {
        waiver.fingerprint: project.line("policy", "waivers", at, "fingerprint")
        for at, waiver in enumerate(project.entry.policy.waivers)
    }
    return tuple(
        replace(finding, file=project.shown, line=lines[finding.from_ or ""])
        for finding in unused_waivers(policy, used)
    )


def _about_options(project: Project, policy: Policy, parts: Sequence[Part]) -> Iterator[Finding]:
    """Patterns that match no table, and paths under them that none of the schemas there has."""
    severity = policy.severity.get(OPTIONS_UNUSED.id, OPTIONS_UNUSED.severity)
    if severity == "off":
        return

    def finding(message: str, pattern: str, path: str, *place: str) -> Finding:
        found = OPTIONS_UNUSED.finding(path, pattern, pattern, message)
        line = project.line("tables", pattern, *place)
        return replace(found, severity=severity, file=project.shown, line=line)

    unused = project.unused_tables()
    for pattern, options in project.entry.tables.items():
        if pattern in unused:
            yield finding(f"the pattern {pattern!r} matches no table of a subject", pattern, "")
            continue
        there = [part for part in parts if part.table is not None and project.matches(pattern, part.table)]
        if any(part.error is not None for part in there):
            continue
        schemas = [part.target for part in there if part.target is not None]
        old_rows = options.old_rows if isinstance(options.old_rows, Mapping) else {}
        for key, named in (("old_rows", old_rows), ("routes", options.routes)):
            for path in named:
                if path != "*" and schemas and not any(_has(schema, path) for schema in schemas):
                    message = f"{key} names {path}, which no schema of the tables that {pattern!r} matches has"
                    yield finding(message, pattern, path, key, path)
