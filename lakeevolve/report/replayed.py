"""What a projection came to, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeevolve.redaction import public_uri
from lakeevolve.report.json import FORMAT_VERSION
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.text import counted, findings_text

if TYPE_CHECKING:
    from lakeevolve.replaying.project import ReplayOutput


def of_replay_output(done: ReplayOutput) -> Outcome:
    record = {
        "format_version": FORMAT_VERSION,
        **done.to_json(),
        "findings": [finding.to_json() for finding in done.findings],
    }
    held = sum(each.rows for each in done.held)
    verdict = counted(done.rows, "row") + (f", {counted(held, 'row')} held back" if done.held else "")
    title = f"{done.result_version} for {done.contract}"
    return Outcome("replay", record, lambda: replayed_text(done), title, verdict, done.findings)


def replayed_text(done: ReplayOutput) -> str:
    lines = [f"{done.result_version} for {done.contract}: {counted(done.rows, 'row')} in {public_uri(str(done.out))}"]
    lines += [f"  version {number}: {counted(rows, 'row')}" for number, rows in done.versions.items()]
    lines += findings_text(done.findings)
    if done.held:
        lines.append(f"  held back: see {done.quarantine}")
    lines.append(f"  digest {done.digest}")
    return "\n".join(lines)
