"""``apply --register``: the schema of an applied plan goes to the schema registry."""

from __future__ import annotations

from lakeevolve.cli.console import note
from lakeevolve.errors import LakeEvolveError, SourceError
from lakeevolve.model.schema import Schema
from lakeevolve.sources.registry import open_registry
from lakeevolve.sources.registry.client import text_of


def refuse_unregistrable(subject: str, target: Schema) -> None:
    """Raise ``SourceError`` where the registry would not take the schema, or does not answer."""
    with open_registry() as registry:
        if registry.accepts(subject, text_of(target)) is False:
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
