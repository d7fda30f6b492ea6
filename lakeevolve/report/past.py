"""What a table has been, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakeevolve.model.sentence import describe_change
from lakeevolve.report.json import FORMAT_VERSION
from lakeevolve.report.outcome import Background, Known, Outcome
from lakeevolve.report.text import counted, findings_text, sign

if TYPE_CHECKING:
    from lakeevolve.applying.past import ColumnPast, ColumnStep, Past, Step


def of_past(past: Past, rebuilt: Sequence[str] = ()) -> Outcome:
    """*rebuilt* tells which ledger entries were just made again."""
    record = {"format_version": FORMAT_VERSION, **past.to_json(), "rebuilt": list(rebuilt)}
    return Outcome(
        "history",
        record,
        lambda: past_text(past, rebuilt),
        f"Versions of {past.uri}",
        counted(len(past.steps), "version"),
        findings=past.findings,
        background=lambda: Background(tuple(map(_known_version, past.steps))),
    )


def _known_version(step: Step) -> Known:
    return Known(f"version {step.version.number}", step.version.schema, step.at or "", _made(step))


def of_column(past: ColumnPast) -> Outcome:
    record = {"format_version": FORMAT_VERSION, **past.to_json()}
    return Outcome("history", record, lambda: column_text(past), f"{past.asked} in {past.uri}")


def past_text(past: Past, rebuilt: Sequence[str] = ()) -> str:
    lines = [f"{past.uri}: {counted(len(past.steps), 'version')}"]
    for step in past.steps:
        lines += _step_text(step)
    if rebuilt:
        what = f"{counted(len(rebuilt), 'ledger entry')} made again".replace("entrys", "entries")
        lines += ["", f"{what} from the table's marker:", *(f"  {each}" for each in rebuilt)]
    if past.findings:
        lines += ["", *findings_text(past.findings)]
    return "\n".join(lines)


def _step_text(step: Step) -> Iterator[str]:
    version = step.version
    when = "" if step.at is None else f"{step.at}  "
    yield f"  {version.number:>3}  {when}{version.digest[:12]}  {_made(step)}  {len(version.schema.fields)} fields"
    yield from (f"         {sign(change)} {describe_change(change)}" for change in step.changes)
    if step.entry is not None:
        yield from _known(step)


def _made(step: Step) -> str:
    plan = (step.version.plan or "")[:12]
    made = {
        "first": "as first seen",
        "others": "by others (drift)",
        "plan": f"plan {plan}",
        "rollback": f"back to version {step.version.restores}",
    }[step.by]
    return made if step.approver is None else f"{made}, approved by {step.approver}"


def _known(step: Step) -> Iterator[str]:
    entry = step.entry or {}
    if entry.get("rebuilt"):
        yield "         ledger entry made again: approver, verdicts and replay are not known"
        return
    verdicts, replay = entry.get("verdicts"), entry.get("replay")
    if isinstance(verdicts, dict):
        found = [each for each in verdicts.get("findings", ()) if isinstance(each, dict)]
        counts = [
            counted(number, severity)
            for severity in ("error", "warning")
            if (number := sum(each.get("severity") == severity for each in found))
        ]
        waived = sorted({str(each["waived_by"]) for each in found if each.get("waived_by")})
        said = ", ".join(counts) or "no errors or warnings"
        by = f", waived by {', '.join(waived)}" if waived else ""
        yield f"         verdict: {verdicts.get('mode')}, {said}{by}"
    if isinstance(replay, dict):
        verdict = "equal" if replay.get("ok") else "differs"
        files, rows = counted(replay.get("files", 0), "file"), counted(replay.get("rows", 0), "row")
        yield f"         replay: {verdict}, {files}, {rows}"


def column_text(past: ColumnPast) -> str:
    there = [step for step in past.steps if step.path is not None]
    lines = [f"{past.asked} in {past.uri}: in {len(there)} of {counted(len(past.steps), 'version')}"]
    width = max(len(_place(step)) for step in past.steps)
    before: ColumnStep | None = None
    for step in past.steps:
        # A version that left the column as it was says nothing of it.
        if before is None or step.events or (step.path, step.type) != (before.path, before.type):
            version = step.step.version
            when = "" if step.step.at is None else f"{step.step.at}  "
            lines.append(f"  {version.number:>3}  {when}{_place(step):<{width}}  {_made(step.step)}")
            lines += [f"         {event}" for event in step.events]
        before = step
    return "\n".join(lines)


def _place(step: ColumnStep) -> str:
    return "not there" if step.path is None else f"{step.path}: {step.type}"
