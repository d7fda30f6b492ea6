"""Rules about what other tools did to a table behind lakeevolve's back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakeevolve.model.change_json import change_name
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.sentence import describe_change
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

SCHEMA_CHANGED = Rule(
    "DRIFT-SCHEMA-CHANGED",
    "warning",
    "Another tool changed the table's schema",
    "The table has a schema that no plan led to. Rows keep reading right, but nobody judged the change against the "
    "readers, and the Avro schema of the producers knows nothing of it.",
    "a column that was added in Spark",
    "take the change over into the Avro schema, or plan back to the schema that was applied last",
)

RULES = (SCHEMA_CHANGED,)


def changed_by_others(
    old: Schema, new: Schema, renames: Mapping[str, str], number: int, subject: str = ""
) -> Iterator[Finding]:
    """What another tool changed, one finding for each change.

    Parameters
    ----------
    old, new:
        The schemas before and after, the latter that of version *number*.
    renames:
        New path to old path of what was renamed.
    """
    for change in diff(old, new, {was: now for now, was in renames.items()}).changes:
        message = f"another tool made version {number}: {describe_change(change)}"
        yield SCHEMA_CHANGED.finding(
            change.path, None, change_name(change), message, versions=(number,), subject=subject
        )
