"""Findings for formats that tell them: those of a replay, and where a finding's place is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeevolve.model import path as paths
from lakeevolve.redaction import public_path
from lakeevolve.rules.findings import Finding

if TYPE_CHECKING:
    from lakeevolve.model.schema import Schema
    from lakeevolve.replaying.faults import ReaderFault
    from lakeevolve.replaying.result import Mismatch, ReplayResult
    from lakeevolve.rules.findings import Severity


def of_replay(result: ReplayResult, uri: str) -> tuple[Finding, ...]:
    """An error for each mismatch that is named, a warning for each fault of a reader. No row values."""
    mismatches = (
        _finding(
            each,
            "error",
            f"{each.reason}{f'; {each.why}' if each.why else ''}",
            f"whoever reads the table{f' with {each.reader}' if each.reader else ''}",
            "restore the table to the version before, or rewrite the file",
            uri,
        )
        for each in result.mismatches
    )
    faults = (
        _finding(
            each,
            "warning",
            each.reason,
            f"readers that use {each.reader}",
            "the table is right; read it with another reader",
            uri,
        )
        for each in result.reader_faults
    )
    return (*mismatches, *faults, *result.findings)


def _finding(of: Mismatch | ReaderFault, severity: Severity, said: str, breaks: str, fix: str, uri: str) -> Finding:
    return Finding(
        rule=of.rule,
        severity=severity,
        path=of.path,
        from_=of.expected_type,
        to=of.actual_type,
        message=f"{_place(of.file, of.row)}: {said}",
        breaks=breaks,
        fix=fix,
        subject=uri,
    )


def located(finding: Finding, schema: Schema, renamed: Mapping[str, str] | None = None) -> Finding:
    """The finding with the file of the schema and the line of its place there, or of what encloses it.

    *renamed* tells the new path of each renamed field by its old one.
    """
    path, line = (renamed or {}).get(finding.path, finding.path), None
    while schema.lines and line is None:
        line = schema.lines.get(path)
        if not path:
            break
        path = paths.parent(path)
    return replace(finding, file=schema.source, line=line)


def _place(file: str | None, row: int | None) -> str:
    where = "the table" if file is None else public_path(file)
    return where if row is None else f"{where}, row {row}"
