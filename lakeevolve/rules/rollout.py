"""Who moves first: the order in which readers, writers and tables take up a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lakeevolve.model.value import value
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

Order = Literal["any", "readers-first", "writers-first", "none"]

NO_ORDER = Rule(
    "ROLLOUT-NO-ORDER",
    "warning",
    "There is no order in which readers and writers can take up the schema",
    "New readers cannot read old data and old readers cannot read new data, so whoever moves first, someone fails.",
    "amount: double becomes amount: string",
    "publish the change as a new, versioned subject or table, and let readers move over",
)

RULES = (NO_ORDER,)

_READERS = "readers first: deploy every reader with the new schema, then let producers write it"
_WRITERS = "writers first: let every producer write the new schema, then move the readers"


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rollout:
    """The order that follows from a verdict, and what is to be done, as sentences."""

    order: Order
    sentences: tuple[str, ...]


def rollout(mode: str, backward: bool, forward: bool, subject: str, *, empty: bool = False) -> Rollout:
    """The order that works.

    Parameters
    ----------
    mode:
        The compatibility mode. Where what it promises holds, its order is the one to take.
    backward, forward:
        Whether new readers can read old data, and old readers new data, over the versions that the mode covers.
    subject:
        The subject's name, for naming the one that follows it.
    empty:
        Whether there is no version yet.
    """
    if empty:
        return Rollout("any", ("any order: nothing is written yet",))
    if not backward and not forward:
        name = next_subject(subject)
        return Rollout(
            "none",
            (
                f"no order works: publish the change as a new subject or table{f' ({name})' if name else ''}",
                "fill it beside the old one, move the readers over, then retire the old one",
            ),
        )
    promised = mode.removesuffix("_TRANSITIVE")
    both = backward and forward
    if promised == "BACKWARD" and backward:
        more = ("older readers can read the new data too, so writers may also move first",) if both else ()
        return Rollout("readers-first", (_READERS, _table("before"), *more))
    if promised == "FORWARD" and forward:
        more = ("new readers can read the old data too, so readers may also move first",) if both else ()
        return Rollout("writers-first", (_WRITERS, _table("after"), *more))
    if both:
        return Rollout("any", ("any order: readers and writers may move independently", _table("before or after")))
    limit = () if promised == "NONE" else (f"no other order works, and {mode} does not allow this one",)
    if backward:
        return Rollout("readers-first", (_READERS, _table("before"), *limit))
    return Rollout("writers-first", (_WRITERS, _table("after"), *limit))


def _table(when: str) -> str:
    return f"evolve the table {when} the producers move"


def next_subject(subject: str) -> str:
    """The name of the subject that follows: ``orders`` gives ``orders-v2``, ``orders-v2`` gives ``orders-v3``.

    >>> next_subject("orders-v9")
    'orders-v10'
    """
    if not subject:
        return ""
    match = re.search(r"^(.*[-_.]v)(\d+)$", subject)
    return f"{match.group(1)}{int(match.group(2)) + 1}" if match else f"{subject}-v2"


def findings(found: Rollout, versions: tuple[int, ...]) -> Iterator[Finding]:
    if found.order == "none":
        yield NO_ORDER.finding(
            "",
            None,
            None,
            "neither can new readers read old data nor old readers new data",
            breaks="readers or writers, whoever moves second",
            fix="; ".join(found.sentences),
            versions=versions,
        )
