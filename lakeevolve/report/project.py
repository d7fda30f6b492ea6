"""What became of a project's subjects and tables, part by part and together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakeevolve.errors import LakeEvolveError, ReplayMismatch, worst
from lakeevolve.redaction import public_uri
from lakeevolve.report.json import FORMAT_VERSION
from lakeevolve.report.outcome import Outcome, of_application, of_check, of_plan, of_verify
from lakeevolve.report.text import counted, findings_text
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.route import REFUSED

if TYPE_CHECKING:
    from lakeevolve.planning.plan import Plan
    from lakeevolve.planning.project import Part, Parts
    from lakeevolve.planning.touched import Touched

_RANKS = {"info": 0, "warning": 1, "error": 2, "never": 3}
_FOUND = 1
_CHANGES = 3


def code_of(kind: str, part: Part, fail_on: str, *, detailed: bool = False) -> int:
    """The exit code of one part. *detailed*: a clean plan with changes is 3."""
    if part.error is not None:
        return part.error.exit_code
    value = part.value
    match kind:
        case "check":
            return _FOUND if _fails(value.findings, fail_on) else 0
        case "plan":
            if _refuses(value) or _fails(value.findings, fail_on):
                return _FOUND
            return _CHANGES if detailed and not value.empty else 0
    return 0 if value.ok else ReplayMismatch.exit_code


def _fails(findings: tuple[Finding, ...], fail_on: str) -> bool:
    return any(_RANKS[found.severity] >= _RANKS[fail_on] and not found.waived for found in findings)


def _refuses(plan: Plan) -> bool:
    """Whether a step is refused that nobody let pass. Apply refuses the plan all the same."""
    passed = {found.path for found in plan.findings if found.rule == REFUSED.id and found.waived}
    return any(not step.changes or {change.path for change in step.changes} - passed for step in plan.refused)


def code_of_all(parts: Parts, fail_on: str, *, detailed: bool = False) -> int:
    """The exit code of the whole: the one that counts most of all parts', and of the file's own findings."""
    own = [_FOUND] if _fails(parts.findings, fail_on) else []
    return worst([*own, *(code_of(parts.kind, part, fail_on, detailed=detailed) for part in parts.parts)])


def of_project(parts: Parts, fail_on: str, *, detailed: bool = False) -> Outcome:
    """All parts as one outcome. Findings that several tables of a subject share are told once."""
    outcomes = [_outcome(parts.kind, part) for part in parts.parts]
    codes = [code_of(parts.kind, part, fail_on, detailed=detailed) for part in parts.parts]
    record = {
        "format_version": FORMAT_VERSION,
        "project": parts.project.shown,
        "kind": parts.kind,
        "code": code_of_all(parts, fail_on, detailed=detailed),
        "parts": [
            {
                "subject": part.subject,
                "table": None if part.table is None else public_uri(part.table),
                "code": code,
                "error": None if part.error is None else _error(part.error),
                "result": None if outcome is None else outcome.record,
            }
            for part, outcome, code in zip(parts.parts, outcomes, codes, strict=True)
        ],
        "findings": [finding.to_json() for finding in parts.findings],
        "touched": None if parts.touched is None else parts.touched.to_json(),
    }
    findings = [*parts.findings, *(found for each in outcomes if each is not None for found in each.findings)]
    once = {(found.fingerprint, found.waived): found for found in reversed(findings)}
    return Outcome(
        "project",
        record,
        lambda: _text(parts, outcomes, codes),
        f"{parts.project.shown}: {parts.kind}",
        _verdict(codes, parts.touched),
        tuple(reversed(once.values())),
        blocked=any(outcome is not None and outcome.blocked for outcome in outcomes),
        parts=tuple(_named(part, outcome) for part, outcome in zip(parts.parts, outcomes, strict=True)),
    )


def _named(part: Part, outcome: Outcome | None) -> Outcome:
    """A part's outcome under the part's name."""
    if outcome is not None:
        return replace(outcome, title=part.name)
    assert part.error is not None
    said = "; ".join(part.error.lines())
    return Outcome("project", {}, lambda: said, part.name, said, failed=said)


def _outcome(kind: str, part: Part) -> Outcome | None:
    value: Any = part.value
    if value is None:
        return None
    match kind:
        case "check":
            return of_check(value, part.target)
        case "plan":
            return of_plan(value, part.target)
        case "verify":
            return of_verify(value, public_uri(part.table or part.subject))
    assert part.plan is not None
    return of_application(value, part.plan)


def _error(error: LakeEvolveError) -> dict[str, Any]:
    return {"what": error.what, "where": error.where, "hint": error.hint, "exit_code": error.exit_code}


_WORDS = {
    0: "done",
    1: "with findings or without a permit",
    2: "could not be run",
    3: "with changes",
    4: "stale",
    5: "with values that differ",
    6: "stopped part-way",
}


def _verdict(codes: list[int], touched: Touched | None = None) -> str:
    counts = {code: codes.count(code) for code in sorted(set(codes))}
    told = ", ".join(f"{number} {_WORDS.get(code, 'failed')}" for code, number in counts.items())
    if not codes and touched is not None:
        return f"nothing to do: no subject is touched by what changed since {touched.base}"
    return f"{counted(len(codes), 'part')}: {told}" if codes else "nothing to do: the file names no table"


def _text(parts: Parts, outcomes: list[Outcome | None], codes: list[int]) -> str:
    lines = [] if parts.touched is None else _reached(parts.touched)
    for part, outcome in zip(parts.parts, outcomes, strict=True):
        lines.append(f"== {part.name}")
        if outcome is not None:
            lines.append(outcome.text())
        elif part.error is not None:
            first, *rest = part.error.lines()
            lines += [f"error    {first}", *(f"         {line}" for line in rest)]
        lines.append("")
    if parts.findings:
        lines += [f"== {parts.project.shown}", *findings_text(parts.findings), ""]
    return "\n".join([*lines, _verdict(codes, parts.touched)])


def _reached(touched: Touched) -> list[str]:
    lines = [f"== what changed since {touched.base}"]
    for file, reached in touched.files.items():
        lines.append(f"{file} reaches {counted(len(reached), 'subject')}")
        lines += [f"  {name}{': ' if uris else ''}{', '.join(uris)}" for name, uris in reached.items()]
    if touched.left_out:
        lines.append(f"left out, since no file here holds their schemas: {', '.join(touched.left_out)}")
    return [*lines, ""]
