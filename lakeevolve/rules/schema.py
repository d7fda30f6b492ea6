"""Rules about the candidate schema by itself."""

from __future__ import annotations

from collections.abc import Iterator

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

RULES = (WARNING,)


def warnings(candidate: Schema) -> Iterator[Finding]:
    """What the parser found in the candidate."""
    for text in dict.fromkeys(candidate.warnings):
        yield WARNING.finding("", None, text, "readers ignore or tolerate it")
