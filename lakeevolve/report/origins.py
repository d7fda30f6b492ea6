"""Where a table's rows come from, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeevolve.report.json import FORMAT_VERSION
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.text import counted

if TYPE_CHECKING:
    from lakeevolve.applying.lineage import Lineage, Origin


def of_lineage(found: Lineage) -> Outcome:
    record = {"format_version": FORMAT_VERSION, **found.to_json()}
    return Outcome("lineage", record, lambda: lineage_text(found), f"Where {found.uri} comes from")


def lineage_text(found: Lineage) -> str:
    when = "" if found.at is None else f" at {found.at:%Y-%m-%d %H:%M:%S} UTC"
    place = "" if found.position is None else f", position {found.position}"
    lines = [f"{found.to_json()['uri']}{when}{place}: {counted(len(found.files), 'file')}"]
    for origin in found.versions:
        lines.append(f"  version {origin.version}  schema {origin.digest[:12]}  {_made(origin)}")
        for each in found.files:
            if each.version == origin.version:
                added = "nothing tells by what" if each.added is None else f"by {each.added}"
                at = "" if each.at is None else f" at {each.at:%Y-%m-%d %H:%M:%S} UTC"
                guessed = ", version inferred from its footer" if each.inferred else ""
                lines.append(f"    {each.path}: {counted(each.rows, 'row')}, added {added}{at}{guessed}")
    lines.append("  rows: " + ", ".join(f"{name} {told}" for name, told in found.to_json()["rows"].items()))
    return "\n".join(lines)


def _made(origin: Origin) -> str:
    if origin.plan is None:
        return "no plan"
    contracts = origin.contracts if isinstance(origin.contracts, str) else ", ".join(origin.contracts) or "none"
    return (
        f"plan {origin.plan[:12]}, approver {origin.approver or 'none'}, contracts {contracts}, "
        f"evidence {origin.evidence}"
    )
