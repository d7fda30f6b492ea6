"""Results as plain text: what a terminal shows and what a log keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakeevolve.model.change import (
    AddBranch,
    AddField,
    AddSymbol,
    Change,
    DropBranch,
    DropField,
    DropSymbol,
    RenameField,
    RenameType,
)
from lakeevolve.model.sentence import describe_change

if TYPE_CHECKING:
    from lakeevolve.applying.apply import Application
    from lakeevolve.model.diff import Diff
    from lakeevolve.planning.plan import Estimate, Plan, Step
    from lakeevolve.replaying.result import Mismatch, ReplayResult
    from lakeevolve.report.outcome import Outcome
    from lakeevolve.rules.catalogue import Rule
    from lakeevolve.rules.findings import Finding
    from lakeevolve.rules.modes import Report

_SIGN = {
    AddField: "+",
    AddSymbol: "+",
    AddBranch: "+",
    DropField: "-",
    DropSymbol: "-",
    DropBranch: "-",
    RenameField: ">",
    RenameType: ">",
}


def sign(change: Change) -> str:
    """``+`` something is added, ``-`` dropped, ``>`` renamed, ``~`` changed."""
    return _SIGN.get(type(change), "~")


def outcome_text(outcome: Outcome) -> str:
    return outcome.text()


def diff_text(diff: Diff) -> str:
    if not diff.changes and not diff.suggestions:
        return "no changes"
    lines = [f"{counted(len(diff.changes), 'change')}"] if diff.changes else ["no changes"]
    lines += [f"  {sign(change)} {describe_change(change)}" for change in diff.changes]
    for suggestion in diff.suggestions:
        lines.append(
            f"  ? {suggestion.old_path} may have been renamed to {suggestion.new_path} ({suggestion.reason}); "
            f"if so, declare it: {suggestion.fix}"
        )
    return "\n".join(lines)


def report_text(report: Report) -> str:
    verdict = "compatible" if report.compatible else "not compatible"
    lines = [f"{report.mode}: {verdict}", *findings_text(report.findings)]
    if report.rollout and may_go_on(report):
        lines.append("rollout: " + "; ".join(report.rollout))
    return "\n".join(lines)


def may_go_on(report: Report) -> bool:
    """Whether what the rollout says is to be done: not while findings are against the change, except for the way around
    it."""
    return not report.failures or report.order == "none"


def findings_text(findings: Iterable[Finding]) -> list[str]:
    """One finding a paragraph: severity, rule, path, what changed, who breaks, how to fix."""
    lines = []
    for found in findings:
        label = "waived" if found.waived else found.severity
        moved = "" if found.from_ == found.to else f" ({found.from_ or 'nothing'} -> {found.to or 'nothing'})"
        lines.append(f"{label:<8} {found.rule} {found.path or '$'}: {found.message}{moved}")
        if found.breaks:
            lines.append(f"         breaks: {found.breaks}")
        if found.fix:
            lines.append(f"         fix: {found.fix}")
    return lines


def plan_text(plan: Plan) -> str:
    head = f"plan {plan.digest[:12]} for {plan.table['uri']}: version {plan.base_version} -> {plan.target_version}"
    if plan.empty:
        return "\n".join([head, "no changes: the table already has this schema", *findings_text(plan.findings)])
    lines = [head, _summary(plan), *_unlooked(plan), ""]
    for step in plan.steps:
        lines += _step_text(step, plan.total)
    noticed = dict.fromkeys(reader for step in plan.steps for reader in step.readers)
    if noticed:
        lines += ["", "readers will notice", *(f"  {reader}" for reader in noticed)]
    # What a route has to say stands at its step already.
    findings = [finding for finding in plan.findings if not finding.rule.startswith("ROUTE-")]
    if findings:
        lines += ["", f"findings ({plan.mode})", *(f"  {line}" for line in findings_text(findings))]
    blocked = blocked_by(plan)
    # Whoever may not go on must not read how to.
    if plan.rollout and not blocked:
        lines += ["", "rollout: " + "; ".join(plan.rollout)]
    if blocked:
        lines += ["", f"apply will refuse: {blocked}"]
    elif plan.permits:
        lines += ["", "apply needs: " + " ".join(f"--allow {permit}" for permit in sorted(plan.permits))]
    return "\n".join(lines)


def _unlooked(plan: Plan) -> list[str]:
    """What is left open of a plan that was made from a description."""
    if not plan.described:
        return []
    places = dict.fromkeys(
        f"{change.path or '$'} ({check})" if change is not None else check for change, check in plan.checks
    )
    return [
        "made from a saved description: apply holds it against the table first",
        *(f"not checked: needs the table: {place}" for place in places),
    ]


def blocked_by(plan: Plan) -> str:
    """Why apply will refuse the plan, or nothing."""
    external = sum(step.route == "external" for step in plan.steps)
    if plan.refused:
        return f"{counted(len(plan.refused), 'step')} cannot be done"
    if external:
        return f"{counted(external, 'step')} must be done by another engine"
    if plan.failures:
        return f"{counted(len(plan.failures), 'finding')} at or above {plan.fail_on}"
    return ""


def _summary(plan: Plan) -> str:
    routes: dict[str, int] = {}
    for step in plan.steps:
        routes[step.route] = routes.get(step.route, 0) + 1
    order = ("metadata", "backfill", "rewrite", "external", "refuse")
    parts = [counted(len(plan.steps), "step") + ": " + ", ".join(f"{routes[r]} {r}" for r in order if r in routes)]
    if plan.total.files:
        parts.append(_cost(plan.total) + " to be written anew")
    irreversible = sum(step.irreversible for step in plan.steps)
    if irreversible:
        parts.append(f"{irreversible} irreversible")
    return " · ".join(parts)


def _step_text(step: Step, total: Estimate) -> list[str]:
    lines = []
    for change in step.changes:
        mark = "!" if step.irreversible else " "
        lines.append(f"{mark} {sign(change)} {step.route:<9} {describe_change(change)}")
    lines += [f"      {step.reason}"] if step.changes else [f"  = {step.route:<9} {step.reason}"]
    if step.estimate.files and step.estimate != total:
        lines.append(f"      touches {_cost(step.estimate)}")
    if step.precondition:
        lines.append(f"      checked against the live rows first: {step.precondition}")
    return lines


def _cost(estimate: Estimate) -> str:
    return f"{counted(estimate.files, 'file')}, {counted(estimate.rows, 'row')}, {size(estimate.bytes)}"


def application_text(done: Application, plan: Plan) -> str:
    uri = plan.table["uri"]
    match done.status:
        case "already-applied":
            return f"plan {done.plan[:12]} is already applied to {uri} (version {done.version}); nothing was done"
        case "nothing-to-do":
            return f"{uri} already has this schema (version {done.version}); nothing was done"
        case "dry-run":
            return f"dry run: plan {done.plan[:12]} could be applied to {uri}; nothing was written"
    made = uri
    if plan.table["format"] == "parquet" and done.replay is not None:
        made = done.replay.evidence.table["uri"]
    lines = [f"applied plan {done.plan[:12]}: {made} is at version {done.version}"]
    if made != uri:
        lines.append(f"{uri} is as it was")
    if done.rewritten:
        lines.append(f"{counted(done.rewritten, 'file')} written anew")
    if done.replay is not None:
        lines.append(replay_text(done.replay, made))
    lines += unreplayed_text(done, uri)
    if done.evidence is not None:
        lines.append(f"evidence: {done.evidence}")
    if done.leftovers.deleted:
        lines.append(f"deleted {counted(len(done.leftovers.deleted), 'file')} that a killed apply had left")
    if done.leftovers.left:
        lines.append("left by a killed apply, and not to be deleted: " + ", ".join(done.leftovers.left))
    if done.undo is not None and made == uri:
        until = done.undo.until.strftime("%Y-%m-%d %H:%M UTC")
        lines.append(f"to go back: lakeevolve rollback {uri} --to {done.undo.to}, at the least until {until}")
    return "\n".join(lines)


def unreplayed_text(done: Application, uri: str) -> list[str]:
    """That nothing was replayed, and why."""
    return [f"nothing of {uri} was replayed", *findings_text(done.findings)] if done.findings else []


def replay_text(result: ReplayResult, uri: str, *, show_values: bool = False) -> str:
    from lakeevolve.redaction import redact

    verdict = "equal" if result.ok else "differs"
    lines = [f"replay of {uri}: {verdict}, {counted(result.files, 'file')}, {counted(result.rows, 'row')}"]
    lines += [f"error    {m.rule} {mismatch_text(m, show_values=show_values)}" for m in result.mismatches]
    if result.mismatched > len(result.mismatches):
        lines.append(f"         and {result.mismatched - len(result.mismatches):,} more")
    lines += [f"warning  REPLAY-READER-FAULT {redact(str(fault))}" for fault in result.reader_faults]
    lines += [f"since    {change.what} {change}" for change in result.changes if change.explained]
    lines += findings_text(result.findings)
    lines += [f"note     {note}" for note in result.notes]
    return "\n".join(lines)


def mismatch_text(mismatch: Mismatch, *, show_values: bool = False) -> str:
    """File, row, path and type; the values only when asked for."""
    from lakeevolve.redaction import redact

    told = redact(str(mismatch))
    if not show_values:
        return told
    return f"{told}: expected {mismatch.expected_value!r}, read {mismatch.actual_value!r}"


def rules_text(rules: Iterable[Rule]) -> str:
    return "\n".join(f"{rule.severity:<8} {rule.id:<36} {rule.title}" for rule in rules)


def rule_text(rule: Rule) -> str:
    return "\n".join(
        [
            f"{rule.id} ({rule.severity})",
            rule.title,
            "",
            rule.rationale,
            "",
            f"example: {rule.example}",
            f"fix: {rule.fix}",
        ]
    )


def finding_text(finding: Finding, where: str, rule: str | None) -> str:
    """A finding with where it stands, what its rule says, and how it would be waived."""
    file = "" if finding.file is None else f"{finding.file}{f':{finding.line}' if finding.line else ''}"
    lines = [f"{finding.fingerprint} in {where}", *findings_text([finding])]
    lines += [f"         of: {', '.join(filter(None, (finding.subject, file)))}"] if finding.subject or file else []
    lines += ["", rule] if rule is not None else []
    return "\n".join(
        [
            *lines,
            "",
            "to let it pass, with a reason and somebody who says so, in lakeevolve.yaml:",
            "  policy:",
            "    waivers:",
            f"      - fingerprint: {finding.fingerprint}",
            "        reason: ...",
            "        approver: ...",
        ]
    )


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(count: int) -> str:
    """Bytes in the largest unit that leaves at least 1."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")
