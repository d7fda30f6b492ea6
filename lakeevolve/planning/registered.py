"""What the schema registry says of a project's subjects, beside what their tables say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakeevolve.config.project import Project, Subject
from lakeevolve.errors import LakeEvolveError, SourceNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.model.sentence import describe_change
from lakeevolve.planning.plan import Plan
from lakeevolve.redaction import public_uri
from lakeevolve.rules import registry as rules
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.modes import Report
from lakeevolve.rules.policy import Policy, weigh

if TYPE_CHECKING:
    from lakeevolve.planning.project import Part
    from lakeevolve.sources.registry import Registry


def asked(
    project: Project, policy: Policy, chosen: dict[str, Subject], parts: Sequence[Part], *, ask: bool = True
) -> tuple[tuple[Finding, ...], dict[str, LakeEvolveError]]:
    """The registry's verdict on every chosen subject that is registered.

    Returns
    -------
    tuple
        Findings as the policy has them, and by subject what went wrong. The registry is asked for nothing where no
        subject is registered, or *ask* is false.
    """
    found: list[Finding] = []
    failed: dict[str, LakeEvolveError] = {}
    registered = {name: each.registered_as for name, each in chosen.items() if ask and each.registered_as is not None}
    for name, subject in chosen.items():
        if name not in registered:
            found += rules.levels(name, subject.registered_as, subject.mode, None, subject.streams)
    if registered:
        from lakeevolve.sources.registry import open_registry

        try:
            with open_registry() as registry:
                for name, place in registered.items():
                    own = [part for part in parts if part.subject == name]
                    try:
                        found += _about(registry, project, name, chosen[name], place, own)
                    except LakeEvolveError as error:
                        failed[name] = error
        except LakeEvolveError as error:
            failed = dict.fromkeys(registered, error)
    return weigh(found, policy, unused=False), failed


def _about(
    registry: Registry, project: Project, name: str, subject: Subject, place: str, parts: Sequence[Part]
) -> Iterator[Finding]:
    level, _ = registry.level(place)
    modes = [project.options(uri).mode or subject.mode for uri in subject.tables] or [subject.mode]
    for mode in dict.fromkeys(modes):
        yield from rules.levels(name, place, mode, level, subject.streams)
    target = next((part.target for part in parts if part.target is not None), None)
    if target is None:
        return
    accepted = True if subject.source.startswith("registry:") else accepts(registry, place, target)
    if accepted is False:
        yield from rules.verdict(name, place, level, accepted, None, ())
    for part in parts:
        if part.value is not None:
            shown = None if part.table is None else public_uri(part.table)
            yield from rules.verdict(name, place, level, accepted or None, shown, refusals(part.value))


def versions_before(subject: Subject, target: Schema) -> list[Schema]:
    """The live versions of a subject in the registry that came before the one that is judged."""
    from lakeevolve.sources.registry import address, with_numbers

    if not subject.source.startswith("registry:"):
        try:
            found = [schema for _, schema in with_numbers(address(f"{subject.registered_as}@*"))]
        except SourceNotFound:
            # Nothing is registered yet. Where no registry answers, whoever asks for the level finds out.
            return []
        # What is registered already is not held against itself.
        return found[:-1] if found and found[-1].digest == target.digest else found
    given = address(subject.source)
    every = list(with_numbers(replace(given, version="*")))
    newest = given.version if isinstance(given.version, int) else max(number for number, _ in every)
    return [schema for number, schema in every if number < newest]


def accepts(registry: Registry, place: str, target: Schema) -> bool | None:
    """Whether the registry would take a schema, with every type that it uses, as a subject's next version."""
    from lakeevolve.sources.registry.client import text_of

    return registry.accepts(place, text_of(target))


def refusals(value: Any) -> list[str]:
    """What a plan cannot do, or what a check refuses, one text for each."""
    if isinstance(value, Plan):
        return [describe_change(change) for step in value.refused for change in step.changes]
    if isinstance(value, Report) and not value.compatible:
        return [f"{each.path}: {each.message}" if each.path else each.message for each in value.failures if each.breaks]
    return []
