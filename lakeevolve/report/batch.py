"""What became of many plans, in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeevolve.report.outcome import Outcome

if TYPE_CHECKING:
    from lakeevolve.applying.batch import Batch


def of_batch(batch: Batch, name: str) -> Outcome:
    from lakeevolve.report.findings import of_replay

    counts = batch.to_json()["counts"]
    verdict = ", ".join(f"{number} {status}" for status, number in counts.items()) or "no plans"
    findings = [
        finding
        for each in batch.outcomes
        if each.application is not None
        for finding in (
            each.application.findings
            if each.application.replay is None
            else of_replay(each.application.replay, each.table or "")
        )
    ]
    return Outcome(
        "batch",
        {"format_version": "1.0", **batch.to_json()},
        lambda: _text(batch, verdict),
        f"Plans of {name}",
        verdict,
        tuple(findings),
        blocked=batch.exit_code != 0,
    )


def _text(batch: Batch, verdict: str) -> str:
    lines = []
    for each in batch.outcomes:
        where = "" if each.table is None else f"  {each.table}"
        lines.append(f"{each.status:<15} {each.file}{where}")
        lines += [f"                {line}" for line in each.lines]
    return "\n".join([*lines, verdict])
