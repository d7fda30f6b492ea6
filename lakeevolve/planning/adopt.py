"""A table whose newest version no marker records: what it is taken for, and the steps that record it."""

from __future__ import annotations

from lakeevolve.model.schema import Schema
from lakeevolve.planning.plan import Step
from lakeevolve.tables.assumed import assumptions, by_precondition

VIA = "adopt"


def adopting(table: Schema, base: Schema, changes: bool) -> tuple[Step, ...]:
    """The steps that record the schema which a table is taken for, each with what its rows have to confirm.

    Parameters
    ----------
    table:
        The schema read off the table alone.
    base:
        The schema that the table is taken for, with the table's own names.
    changes:
        Whether the plan has other steps, whose commit records the schema anyway.
    """
    steps = []
    for number, (kind, places) in enumerate(by_precondition(assumptions(table, base)).items(), start=1):
        told = dict.fromkeys((one.table, one.schema) for one in places)
        reasons = [
            f"{', '.join(one.path for one in places if (one.table, one.schema) == pair)}: the table says {pair[0]}, "
            f"the schema {pair[1]}"
            for pair in told
        ]
        reason = "; ".join(reasons) + "; the column stays as it is"
        steps.append(Step(f"a{number}", "metadata", VIA, (), reason, precondition=kind))
    if not steps and not changes:
        steps.append(Step("a1", "metadata", VIA, (), "record the schema; no change to the table"))
    return tuple(steps)
