"""An outcome as sections of tables and lists, which Markdown and HTML draw each in their way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeevolve.model.change import Change
from lakeevolve.model.change_json import change_from_json
from lakeevolve.model.sentence import describe_change, told_change
from lakeevolve.redaction import public_path
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.places import file_of
from lakeevolve.report.text import counted, sign, size
from lakeevolve.rules.findings import Finding


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: a table where it has columns, a list where it has none. ``folded``: shown when asked for."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...] = ()
    folded: bool = False


def sections(outcome: Outcome) -> list[Section]:
    record = outcome.record
    match outcome.kind:
        case "diff":
            found = [*_changes(record["changes"]), *_suggestions(record["suggestions"])]
        case "check":
            onward = () if outcome.blocked else record["rollout"]
            found = [*_findings(outcome.findings), *_list("Rollout", onward)]
        case "plan":
            # What a route has to say stands at its step already.
            told = [finding for finding in outcome.findings if not finding.rule.startswith("ROUTE-")]
            found = [*_plan(record), *_findings(told), *_onward(outcome)]
        case "apply":
            found = [*_applied(record), *_findings(outcome.findings)]
        case "verify":
            found = [*_replayed(record), *_findings(outcome.findings), *_list("Not covered", record.get("notes", ()))]
        case "replay":
            found = [*_projected(record), *_findings(outcome.findings)]
        case "schema":
            found = [Section("Fields", tuple(record["fields"]), ("path", "type", "default", "doc"))]
        case "history":
            found = [*_versions(record["versions"])]
        case "describe":
            found = [*_described(record)]
        case "adopt":
            found = [*_adopted(record["tables"])]
        case "registry":
            found = [*_changes(record.get("changes", ())), *_findings(outcome.findings)]
        case "project":
            found = [*_touched(record.get("touched")), *_parts(outcome), *_findings(outcome.own)]
        case _:
            found = []
    return found


def _projected(record: Mapping[str, Any]) -> Iterator[Section]:
    versions = tuple((f"version {number}", f"{rows:,}") for number, rows in record["versions"].items())
    yield Section(f"Rows in {record['out']}", versions, ("written with", "rows"))


def _touched(record: Mapping[str, Any] | None) -> Iterator[Section]:
    """Which file reaches which subject and table."""
    rows = tuple(
        (each["file"], reached["subject"], ", ".join(reached["tables"]))
        for each in (record or {}).get("files", ())
        for reached in each["subjects"]
    )
    if record is not None and rows:
        yield Section(f"What changed since {record['base']}", rows, ("file", "subject", "tables"))


def _parts(outcome: Outcome) -> Iterator[Section]:
    """An overview, then what each part has to say under its name."""
    if outcome.parts:
        rows = tuple((part.title, part.verdict) for part in outcome.parts)
        yield Section(f"Parts ({len(rows)})", rows, ("part", "result"))
    for part in outcome.parts:
        for section in sections(part):
            yield replace(section, title=f"{part.title}: {section.title}")


def _list(title: str, items: Iterable[str], *, folded: bool = False) -> Iterator[Section]:
    rows = tuple((str(item),) for item in items)
    if rows:
        yield Section(title, rows, folded=folded)


def _changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    rows = tuple((sign(change), change.path or "$", told_change(change)) for change in map(_change, changes))
    if rows:
        yield Section("Changes", rows, ("", "path", "change"))


def _change(record: Mapping[str, Any]) -> Change:
    return change_from_json({key: value for key, value in record.items() if key != "text"})


def _suggestions(suggestions: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    yield from _list(
        "Perhaps renamed",
        (
            f"{each['old']} may have been renamed to {each['new']} ({each['reason']}); if so: {each['fix']}"
            for each in suggestions
        ),
    )


def _findings(findings: Sequence[Finding]) -> Iterator[Section]:
    columns = ("severity", "rule", "where", "what", "breaks", "fix", "fingerprint")
    loud = [each for each in findings if each.severity != "info" and not each.waived]
    quiet = [each for each in findings if each.severity == "info" or each.waived]
    for title, some, folded in (("Findings", loud, False), ("Notes", quiet, True)):
        rows = tuple(_finding(each) for each in some)
        if rows:
            yield Section(f"{title} ({len(rows)})", rows, columns, folded)


def _finding(finding: Finding) -> tuple[str, ...]:
    file = file_of(finding)
    place = "" if file is None else f" ({file}{f':{finding.line}' if finding.line else ''})"
    moved = "" if finding.from_ == finding.to else f" ({finding.from_ or 'nothing'} -> {finding.to or 'nothing'})"
    return (
        "waived" if finding.waived else finding.severity,
        finding.rule,
        f"{finding.path or '$'}{place}",
        finding.message + moved,
        finding.breaks,
        finding.fix,
        finding.fingerprint,
    )


def _plan(record: Mapping[str, Any]) -> Iterator[Section]:
    rows = []
    for step in record["steps"]:
        estimate = record["estimate"]["steps"].get(step["id"], {})
        changes = "; ".join(f"{sign(change)} {describe_change(change)}" for change in map(_change, step["changes"]))
        rows.append(
            (
                f"{step['route']}{' !' if step['irreversible'] else ''}",
                changes or step["reason"],
                _cost(estimate),
                step["reason"] if changes else "",
            )
        )
    if rows:
        yield Section("Steps", tuple(rows), ("route", "change", "touches", "why"))
    costs = ((name, _cost(record["estimate"][name])) for name in ("read", "written"))
    yield from _list("Cost", (f"{text} to be {name}" for name, text in costs if text))
    readers = dict.fromkeys(reader for step in record["steps"] for reader in step["readers"])
    yield from _list("Readers will notice", readers)


def _cost(estimate: Mapping[str, int]) -> str:
    if not estimate.get("files"):
        return ""
    return f"{counted(estimate['files'], 'file')}, {counted(estimate['rows'], 'row')}, {size(estimate['bytes'])}"


def _onward(outcome: Outcome) -> Iterator[Section]:
    """What comes next, where the plan may be applied at all."""
    if outcome.blocked:
        return
    record = outcome.record
    yield from _list("Rollout", record["rollout"])
    permits = sorted({permit for step in record["steps"] for permit in step_permits(step)})
    yield from _list("Apply needs", (f"--allow {permit}" for permit in permits))


def step_permits(step: Mapping[str, Any]) -> Iterator[str]:
    if step["permit"]:
        yield step["permit"]
    if step["route"] in ("rewrite", "backfill"):
        yield step["route"]


def _applied(record: Mapping[str, Any]) -> Iterator[Section]:
    replay = record["replay"]
    rows = [("status", record["status"]), ("version", str(record["version"]))]
    if record["rewritten"]:
        rows.append(("written anew", counted(record["rewritten"], "file")))
    if replay is not None:
        verdict = "equal" if replay["ok"] else "differs"
        rows.append(("replay", f"{verdict}, {counted(replay['files'], 'file')}, {counted(replay['rows'], 'row')}"))
    if record["evidence"]:
        rows.append(("evidence", record["evidence"]))
    yield Section("Applied", tuple(rows), ("", ""))


def _replayed(record: Mapping[str, Any]) -> Iterator[Section]:
    evidence = record["evidence"]
    rows = tuple(
        (str(version), f"{len(written):,}", f"{sum(each['rows'] for each in written):,}")
        for version in sorted({each["version"] for each in evidence["files"]})
        if (written := [each for each in evidence["files"] if each["version"] == version])
    )
    if rows:
        yield Section("Rows compared", rows, ("written for version", "files", "rows"))
    read = tuple(
        (str(each["name"]), str(each.get("version", "")), str(each.get("verdict", ""))) for each in evidence["readers"]
    )
    if read:
        yield Section("Readers asked", read, ("reader", "version", "verdict"))
    consumers = tuple(
        (str(each.get("name", "")), str(each.get("verdict", each.get("ok", "")))) for each in evidence["consumers"]
    )
    if consumers:
        yield Section("Consumers", consumers, ("consumer", "verdict"))
    files = tuple(
        (public_path(each["path"]), str(each["version"]), "inferred" if each["inferred"] else "", f"{each['rows']:,}")
        for each in evidence["files"]
    )
    if files:
        yield Section(f"Files ({len(files)})", files, ("file", "version", "how known", "rows"), folded=True)


def _described(record: Mapping[str, Any]) -> Iterator[Section]:
    from lakeevolve.report.description import facts_of, rows_of

    yield Section("Table", tuple(fact for fact in facts_of(record) if fact[1]), ("", ""))
    head, *rows = rows_of(record)
    # Markdown and HTML fold spaces, so what is inside of another column is set off by dots.
    columns = tuple((row[0].replace("  ", "· "), *row[1:]) for row in rows)
    yield Section(f"Columns ({len(rows)})", columns, tuple(head))


def _adopted(tables: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    def row(each: Mapping[str, Any]) -> tuple[str, ...]:
        said = [*each["reasons"], *(f"{path} is {column}" for path, column in each["mapping"].items())]
        said += [f"foreign: {', '.join(each['foreign'])}"] if each["foreign"] else []
        said += [f"baseline: {counted(len(each['baseline']), 'finding')}"] if each["baseline"] else []
        of = "" if each["subject"] is None else f"{each['subject']}, version {each['version']} of {each['newest']}"
        return each["table"], each["class"], of, "; ".join(said), each["status"]

    yield Section("Tables", tuple(map(row, tables)), ("table", "class", "is", "because", "marker"))


def _versions(versions: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    rows = tuple(
        (str(each["version"]), each["at"] or "", each["digest"][:12], (each["plan"] or "")[:12]) for each in versions
    )
    yield Section("Versions", rows, ("version", "at", "schema", "plan"))
