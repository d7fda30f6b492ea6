"""Rules about one schema by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakeevolve.model.schema import Schema
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

WARNING = Rule(
    "SCHEMA-WARNING",
    "warning",
    "The schema says something that readers ignore or tolerate",
    "A logical type that is invalid where it stands is ignored, so its values are plain numbers or bytes; a name that "
    "Avro does not allow is refused by some parsers.",
    '"logicalType": "decimal" without a precision',
    "correct what the message names",
)

OLD_VERSION = Rule(
    "SCHEMA-OLD-VERSION",
    "warning",
    "An older version says something that readers refuse, ignore or tolerate",
    "It was accepted elsewhere and cannot be mended any more, so it is read as readers do that tolerate it, and the "
    "verdict holds for those; others may not read its data at all. A candidate like it is refused.",
    'version 1 has a field with the name "unit-price"',
    "nothing to do for the candidate; waive it once it is known that your readers cope",
)

RULES = (WARNING, OLD_VERSION)


def warnings(candidate: Schema) -> Iterator[Finding]:
    """What the parser found in the candidate."""
    for place, said in _places(candidate).items():
        yield WARNING.finding("", None, place, f"readers ignore or tolerate it: {said}")


def old_versions(history: Sequence[Schema], covered: Sequence[int], candidate: Schema) -> Iterator[Finding]:
    """What the parser found in the versions that are judged, apart from what is still there."""
    still = {*_places(candidate).values()}
    found: dict[tuple[str, str], list[int]] = {}
    for at in covered:
        for each in _places(history[at]).items():
            if each[1] not in still:
                found.setdefault(each, []).append(at)
    for (place, said), versions in found.items():
        numbers = tuple(at + 1 for at in versions)
        # Two versions may be wrong at one place in two ways.
        where = f"version {numbers[0]}: {place}"
        finding = OLD_VERSION.finding(
            "", where, None, f"readers ignore or tolerate it, or fail: {said}", versions=numbers
        )
        yield replace(finding, file=history[versions[0]].source)


def _places(schema: Schema) -> dict[str, str]:
    """What the parser said of each place of the JSON. The place is what a finding is known by, whatever is said."""
    found: dict[str, list[str]] = {}
    for warning in dict.fromkeys(schema.warnings):
        said, bracket, place = warning.rpartition(" ($")
        known = bool(bracket) and place.endswith(")")
        found.setdefault(f"${place[:-1]}" if known else "$", []).append(said if known else warning)
    return {place: "; ".join(said) for place, said in found.items()}
