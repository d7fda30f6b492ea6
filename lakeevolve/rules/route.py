"""Rules about how a change reaches a table. They are told the route; planning decides it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakeevolve.model.change import Change
from lakeevolve.model.change_json import change_name
from lakeevolve.model.sentence import told_change
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

REFUSED = Rule(
    "ROUTE-REFUSED",
    "error",
    "The table cannot take the change",
    "No route leads there without changing or losing rows, or the format has no way to say it.",
    "amount: double becomes amount: string, in a table",
    "give a default, let old rows be null, keep the wider type, or start a new table",
)
EXTERNAL = Rule(
    "ROUTE-EXTERNAL",
    "warning",
    "The change needs Spark",
    "The table uses a feature that the Python libraries cannot write. The plan holds the Spark SQL, and lakeevolve "
    "replays what it did.",
    "a rename in a Delta table with column mapping",
    "run the plan with the Spark engine, or run its SQL and verify the table afterwards",
)
PERMIT_NEEDED = Rule(
    "ROUTE-PERMIT-NEEDED",
    "info",
    "The change needs a permit",
    "Rewrites and backfills cost time and space, drops take data out of sight, and protocol upgrades shut out older "
    "readers. None of them happens without being asked for.",
    "a field is dropped",
    "name the permit when the plan is applied",
)
DATA_CHECK = Rule(
    "ROUTE-DATA-CHECK",
    "info",
    "The change depends on the rows",
    "It can be made only where no row holds a value that the new schema has no place for. Apply looks at the rows, and "
    "stops before it changes anything.",
    'note: ["null", "string"] becomes note: "string"',
    "nothing to do, unless the check finds rows",
)
IRREVERSIBLE = Rule(
    "ROUTE-IRREVERSIBLE",
    "warning",
    "The change cannot be undone",
    "Once it is committed, no plan leads back to the table as it was; only older snapshots hold what it had.",
    "a protocol upgrade",
    "make sure that it is wanted, and keep the snapshots until it has proved itself",
)
READERS = Rule(
    "ROUTE-READERS",
    "warning",
    "Some readers of the table will notice",
    "The change is right in the table, and a reader is known that shows it differently or stops reading.",
    "an upgrade of the reader protocol",
    "update those readers first",
)

RULES = (REFUSED, EXTERNAL, PERMIT_NEEDED, DATA_CHECK, IRREVERSIBLE, READERS)


def of_change(
    change: Change,
    *,
    route: str,
    reason: str,
    permit: str | None = None,
    irreversible: bool = False,
    readers: Sequence[str] = (),
    precondition: str | None = None,
    subject: str = "",
) -> Iterator[Finding]:
    """What there is to say of the route that one change takes.

    Parameters
    ----------
    route:
        ``metadata``, ``backfill``, ``rewrite``, ``external`` or ``refuse``.
    reason:
        Why this route; for ``refuse``, why none and the ways out.
    permit, irreversible, readers, precondition:
        As the table's capability has them.
    subject:
        The table's URI.
    """
    where, what = change.path, change_name(change)
    if route == "refuse":
        yield REFUSED.finding(where, what, None, f"{told_change(change)}: {reason}", subject=subject)
        return
    if route == "external":
        yield EXTERNAL.finding(where, what, route, f"{told_change(change)}: {reason}", subject=subject)
    permits = [each for each in (permit, route if route in ("rewrite", "backfill") else None) if each]
    for each in dict.fromkeys(permits):
        fix = f"apply the plan with --allow {each}"
        yield PERMIT_NEEDED.finding(where, what, each, f"{told_change(change)}: {reason}", fix=fix, subject=subject)
    if precondition is not None:
        yield DATA_CHECK.finding(where, what, precondition, f"{told_change(change)}: {reason}", subject=subject)
    if irreversible:
        yield IRREVERSIBLE.finding(where, what, route, f"{told_change(change)}: {reason}", subject=subject)
    for reader in readers:
        yield READERS.finding(where, what, reader, told_change(change), breaks=reader, subject=subject)
