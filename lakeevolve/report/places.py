"""Where a finding is written: a file and a line as CI systems take them."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from lakeevolve.redaction import public_uri
from lakeevolve.rules.findings import Finding

_GIT = "git:"


def file_of(finding: Finding) -> str | None:
    """The file of a finding, relative to the working directory where it lies below it; None where it has none.

    A schema of a git revision is shown at its path: that is what a reviewer sees.
    """
    source = finding.file
    if not source:
        return None
    if source.startswith(_GIT):
        source = source.removeprefix(_GIT).partition(":")[2].removeprefix("/")
    source = source.removeprefix("file:")
    if "://" in source:
        return public_uri(source)
    path = Path(source)
    if path.is_absolute():
        try:
            path = path.relative_to(Path(os.getcwd()))
        except ValueError:
            return path.as_posix()
    return path.as_posix()


def uri_of(file: str) -> str:
    """A file as the URI reference that SARIF wants."""
    return f"file://{quote(file)}" if file.startswith("/") else quote(file, safe="/:%")


def sentence(finding: Finding) -> str:
    """What a finding says, in a line: what changed, who breaks, how to mend it."""
    parts = [f"{finding.path or 'the schema'}: {finding.message}"]
    if finding.breaks:
        parts.append(f"Breaks: {finding.breaks}.")
    if finding.fix:
        parts.append(f"Fix: {finding.fix}.")
    first, *more = parts
    return " ".join([f"{first}." if more and not first.endswith(".") else first, *more])
