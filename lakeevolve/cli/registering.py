"""``apply --register``: the schema of an applied plan goes to the schema registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakeevolve.cli.console import note
from lakeevolve.errors import LakeEvolveError, SourceError
from lakeevolve.model.schema import Schema
from lakeevolve.sources.registry import open_registry
from lakeevolve.sources.registry.client import text_of

if TYPE_CHECKING:
    from lakeevolve.planning.plan import Plan
    from lakeevolve.rules.findings import Finding
    from lakeevolve.rules.modes import Report


def heard(given: Sequence[str], mode: str, wanted: Schema, value: Report | Plan) -> Iterator[Finding]:
    """What the registry says beside a check or a plan whose sources name a subject of it.

    Parameters
    ----------
    given:
        The sources, the wanted schema's last.
    value:
        What the check or the plan came to.
    """
    named = [text for text in given if isinstance(text, str) and text.startswith("registry:")]
    if not named:
        return
    from lakeevolve.planning.plan import Plan as Planned
    from lakeevolve.planning.registered import accepts, refusals
    from lakeevolve.rules import registry as rules
    from lakeevolve.sources.registry import address

    place = address(named[-1])
    table = value.table["uri"] if isinstance(value, Planned) else None
    with open_registry() as registry:
        level, _ = registry.level(place.subject)
        yield from rules.levels(place.subject, place.subject, mode.upper(), level, False)
        # A single event is not what the subject holds, and what is registered was passed.
        passed = True if named[-1] == given[-1] else None if place.event else accepts(registry, place.subject, wanted)
        yield from rules.verdict(place.subject, place.subject, level, passed, table, refusals(value))


def refuse_unregistrable(subject: str, target: Schema) -> None:
    """Raise ``SourceError`` where the registry would not take the schema, or does not answer."""
    from lakeevolve.planning.registered import accepts

    with open_registry() as registry:
        if accepts(registry, subject, target) is False:
            level, _ = registry.level(subject)
            raise SourceError(
                f"nothing was applied: the registry would refuse it as the next version of {subject} ({level})",
                where=registry.settings.shown,
                hint="lakeevolve check registry:SUBJECT@* NEW says what breaks; without --register, it can be applied",
            )


def register_applied(subject: str, target: Schema) -> None:
    """Register the schema of a plan that was applied."""
    try:
        with open_registry() as registry:
            registry.register(subject, text_of(target))
            newest = registry.version(subject)
    except LakeEvolveError as error:
        raise SourceError(
            f"the plan was applied, and its schema was not registered: {error.what}",
            where=error.where,
            hint="apply the plan again, which changes nothing and registers it",
        ) from error
    note(f"registered as version {newest.version} of {subject}")
