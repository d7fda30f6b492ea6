"""Rules about a schema registry beside the tables: what it promises, and what it would say of a candidate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

WEAKER = Rule(
    "REGISTRY-WEAKER-THAN-POLICY",
    "warning",
    "The schema registry protects less than the policy",
    "A producer may register a schema that the registry takes and the policy refuses. Rows of it are on the topic "
    "before anybody asks the table.",
    "the registry has BACKWARD, and the policy BACKWARD_TRANSITIVE",
    "set the subject's level in the registry to the policy's mode: PUT /config/SUBJECT",
)
STREAMS = Rule(
    "REGISTRY-STREAMS-NEEDS-BACKWARD",
    "error",
    "A Kafka Streams application needs a mode with BACKWARD in it",
    "A Kafka Streams application restores its state from changelog topics that its older versions wrote, so that a "
    "new schema that cannot read old data stops it at its next start.",
    "streams: true in lakeevolve.yaml, and mode: FORWARD",
    "choose BACKWARD, FULL or one of their _TRANSITIVE kinds, in lakeevolve.yaml and in the registry",
)
REFUSES = Rule(
    "REGISTRY-REFUSES",
    "error",
    "The schema registry would refuse the schema",
    "The registry judges the schema by itself under the subject's level, and no producer can write what it refuses: a "
    "table that was changed for it would wait for rows that never come.",
    "amount: double becomes amount: string, under BACKWARD",
    "make the schema compatible with the registered versions, or register it under a new subject",
)
TABLE_REFUSES = Rule(
    "REGISTRY-PASSES-TABLE-REFUSES",
    "warning",
    "The schema registry passes what a table refuses",
    "A registry asks whether readers can decode the messages of a topic. A table keeps old rows, too, and its format "
    "allows fewer changes: rows of the new schema would be written to the topic and could not land in the table.",
    "amount: double becomes amount: int, under FORWARD",
    "keep what the table needs, or give the new schema its own subject and table",
)
DELETED = Rule(
    "REGISTRY-VERSION-DELETED",
    "warning",
    "The table holds a version that the registry has soft-deleted",
    "Rows of that version are still in the table, but the registry no longer judges candidates against it.",
    "version 2 was deleted in the registry, and is version 1 of the table",
    "hold candidates against the table's own versions, as check does for a subject with tables",
)
AHEAD = Rule(
    "REGISTRY-AHEAD-OF-TABLE",
    "warning",
    "The registry's newest version is not what the table has",
    "Producers may write the new version already, and what is new in it does not land in the table.",
    "the registry has version 4, and the table has version 3 of it",
    "plan the table to the registry's newest version",
)
UNKNOWN = Rule(
    "REGISTRY-TABLE-UNKNOWN",
    "warning",
    "The table has a schema that the registry never had",
    "Someone changed the table without the registry, or the registry was changed behind it. Consumers who read the "
    "table by the registry's schema read something else.",
    "a column that was added in the table alone",
    "register the table's schema, or plan the table back to a registered version",
)

RULES = (WEAKER, STREAMS, REFUSES, TABLE_REFUSES, DELETED, AHEAD, UNKNOWN)

#: Topics that Kafka Streams makes for itself, whose subjects end in -key or -value.
_INTERNAL: Final = re.compile(r".+-(changelog|repartition)(-key|-value)?\Z")


def levels(subject: str, registered_as: str | None, mode: str, level: str | None, streams: bool) -> Iterator[Finding]:
    """What is to be said of the modes alone.

    Parameters
    ----------
    subject:
        The name in the project.
    registered_as:
        The registry's subject; None where there is none.
    mode:
        The project's mode.
    level:
        The registry's level for the subject; None where it was not asked.
    streams:
        Whether a Kafka Streams application is said to read it. Topics that Kafka Streams makes are found by name.
    """
    if level is not None and not _covers(level, mode):
        message = f"the registry holds {registered_as} to {level}, and the policy wants {mode}"
        yield WEAKER.finding("", level, mode, message, subject=subject)
    if streams or (registered_as is not None and _INTERNAL.match(registered_as)):
        for who, has in (("the policy", mode), ("the registry", level)):
            if has is not None and "backward" not in _directions(has):
                message = f"Kafka Streams reads {registered_as or subject}, and {who} has {has}"
                yield STREAMS.finding("", has, "BACKWARD", message, subject=subject)


def verdict(
    subject: str, registered_as: str, level: str, accepted: bool | None, table: str | None, refusals: Sequence[str]
) -> Iterator[Finding]:
    """What the registry and a table say of the same candidate.

    Parameters
    ----------
    accepted:
        The registry's word; None where it gave none.
    table:
        The table, as it is shown, or None for the subject's own versions.
    refusals:
        What is refused there, one text for each change.
    """
    if accepted is False:
        message = f"the registry refuses it as the next version of {registered_as} ({level})"
        yield REFUSES.finding("", level, registered_as, message, subject=subject)
    elif accepted and refusals:
        who = table or "the policy"
        more = f" and {len(refusals) - 3} more" if len(refusals) > 3 else ""
        message = f"the registry passes {level}, {who} refuses {'; '.join(refusals[:3])}{more}"
        yield TABLE_REFUSES.finding("", level, table, message, subject=subject)


def _covers(level: str, mode: str) -> bool:
    """Whether a level protects everything that a mode does."""
    wide = level.endswith("_TRANSITIVE") or not mode.endswith("_TRANSITIVE")
    return set(_directions(mode)) <= set(_directions(level)) and (wide or not _directions(mode))


def _directions(mode: str) -> tuple[str, ...]:
    from lakeevolve.rules.modes import MODES

    return MODES.get(mode, ())
