"""Rules about unions of several branches. A nullable T is none of them."""

from __future__ import annotations

from collections.abc import Iterator

from lakeevolve.model.change import ReorderBranches
from lakeevolve.model.types import Record, Union, describe
from lakeevolve.rules.fault import Fault
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.name import written_alias
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.step import Step

BRANCH_REMOVED = Rule(
    "UNION-BRANCH-REMOVED",
    "error",
    "A union lost a branch",
    "A reader with the new schema fails on the first old value of that branch.",
    'payload: ["Ping", "Pong"] becomes payload: ["Ping"]',
    "keep the branch; where it was renamed, give the new type an alias",
)
BRANCH_ADDED = Rule(
    "UNION-BRANCH-ADDED",
    "error",
    "A union gained a branch, which older readers do not know",
    "A reader with the older schema fails on the first new value of that branch.",
    'payload: ["Ping"] becomes payload: ["Ping", "Pong"], in a mode that protects older readers',
    "let readers move first (mode BACKWARD), or carry the new kind of value in a field of its own",
)
REORDERED = Rule(
    "UNION-REORDERED",
    "info",
    "The branches of a union changed their order",
    "Data is read by branch, not by position. A default belongs to the first branch for older implementations.",
    '["null", "string"] becomes ["string", "null"]',
    "keep the type of the field's default first",
)

RULES = (BRANCH_REMOVED, BRANCH_ADDED, REORDERED)


def branch(fault: Fault) -> Finding:
    """A branch of the writer's union that the reader cannot read."""
    named = None if fault.branch is None else describe(fault.branch)
    if fault.direction == "backward":
        fix = BRANCH_REMOVED.fix
        if isinstance(fault.branch, Record):
            news = fault.new.branches if isinstance(fault.new, Union) else () if fault.new is None else (fault.new,)
            spaced = next((t.name for t in news if isinstance(t, Record) and "." in t.name), "")
            alias = written_alias(fault.branch.name, spaced)
            fix = f'keep the branch; where it was renamed, add "aliases": ["{alias}"] to the new type'
        return BRANCH_REMOVED.finding(fault.path, named, None, "the union no longer has the branch", fix=fix)
    return BRANCH_ADDED.finding(fault.path, None, named, "older readers do not know the branch")


def changes(step: Step) -> Iterator[Finding]:
    for change in step.diff.changes:
        if isinstance(change, ReorderBranches):
            yield REORDERED.finding(
                change.path, None, None, "the branches changed their order", versions=(step.version,)
            )
