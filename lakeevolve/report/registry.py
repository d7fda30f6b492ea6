"""What commands tell of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeevolve.model.sentence import describe_change
from lakeevolve.report.json import FORMAT_VERSION
from lakeevolve.report.outcome import Outcome
from lakeevolve.report.text import counted, findings_text

if TYPE_CHECKING:
    from lakeevolve.registry.compare import Comparison


def of_comparison(found: Comparison) -> Outcome:
    verdict = "equal" if found.equal else f"{counted(len(found.changes), 'change')} from the table to the registry"
    return Outcome(
        "registry",
        {"format_version": FORMAT_VERSION, **found.to_json()},
        lambda: _comparison(found, verdict),
        f"{found.subject} and {found.table}",
        verdict,
        found.findings,
    )


def _comparison(found: Comparison, verdict: str) -> str:
    lines = [f"{found.subject} ({found.level}) and {found.table}, version {found.table_version}"]
    for pair in found.versions:
        there = ", ".join(map(str, pair.table_versions)) or "none"
        lines.append(f"  {pair.version}{' (deleted)' if pair.deleted else ''}: the table's version {there}")
    lines += [f"  {describe_change(change)}" for change in found.changes]
    return "\n".join([*lines, *findings_text(found.findings), verdict])


def of_subjects(record: Sequence[Mapping[str, Any]], registry: str) -> Outcome:
    """The subjects of a registry: name, versions, level, type, strategy and who refers to them."""

    def text() -> str:
        lines = []
        for each in record:
            versions = ", ".join(
                f"({number})" if number in each["deleted"] else str(number) for number in each["versions"]
            )
            own = "" if each["own_level"] else " (global)"
            strategy = f", {each['strategy']}" if each["strategy"] else ""
            lines.append(f"{each['subject']}: {each['type']}, version {versions}, {each['level']}{own}{strategy}")
        return "\n".join([*lines, counted(len(record), "subject")])

    whole = {"format_version": FORMAT_VERSION, "registry": registry, "subjects": [dict(each) for each in record]}
    return Outcome("registry", whole, text, f"Subjects of {registry}")


def of_registration(subject: str, version: int, id_: int, new: bool) -> Outcome:
    what = f"{subject}: version {version}, id {id_}" + ("" if new else ", as it was already")
    record = {"format_version": FORMAT_VERSION, "subject": subject, "version": version, "id": id_, "new": new}
    return Outcome("registry", record, lambda: what, f"Registered {subject}")


def of_users(subject: str, users: Sequence[tuple[str, int]], tables: Mapping[str, Sequence[str]]) -> Outcome:
    """Who refers to a subject, directly or not, with the tables of the project that hold their rows."""
    record: list[dict[str, Any]] = [
        {"subject": name, "version": version, "tables": list(tables.get(name, ()))} for name, version in users
    ]

    def text() -> str:
        lines = [
            f"{each['subject']}@{each['version']}" + (f": {', '.join(each['tables'])}" if each["tables"] else "")
            for each in record
        ]
        return "\n".join([*lines, f"{counted(len(record), 'version')} with a reference to {subject}"])

    whole = {"format_version": FORMAT_VERSION, "subject": subject, "users": record}
    return Outcome("registry", whole, text, f"Users of {subject}")
