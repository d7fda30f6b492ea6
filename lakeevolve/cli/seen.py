"""Findings that were seen before, by their fingerprints: in named files, and in the plans that the state holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lakeevolve.errors import LakeEvolveError, SourceError, SourceNotFound
from lakeevolve.rules.findings import Finding, finding_from_json


def find_finding(fingerprint: str, files: Sequence[str]) -> tuple[Finding, str]:
    """The finding and where it stands. Raises ``SourceNotFound`` where no file and no plan of the state holds it."""
    for where, record in (*map(_named, files), *_saved()):
        for found in _findings(record):
            if found.fingerprint == fingerprint:
                return found, where
    raise SourceNotFound(
        "no finding of this fingerprint is known here",
        where=fingerprint,
        hint="name the result that holds it: lakeevolve explain FINGERPRINT --in plan.json",
    )


def _named(file: str) -> tuple[str, Any]:
    try:
        return file, json.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SourceNotFound("there is no such file", where=file, hint="check the path") from error
    except OSError as error:
        raise SourceError(f"the file cannot be read: {error.strerror}", where=file) from error
    except ValueError as error:
        raise SourceError(
            "the file is not JSON", where=file, hint="name a plan, or what --format json printed"
        ) from error


def _saved() -> Iterator[tuple[str, Any]]:
    """The plans of a state on this disk; one in an object store keeps no list of its tables."""
    from lakeevolve.config.state import state_root

    root = state_root()
    if isinstance(root, Path):
        for file in sorted(root.glob("*/plans/*.json")):
            try:
                yield _named(str(file))
            except SourceError:
                continue


def _findings(record: Any) -> Iterator[Finding]:
    if isinstance(record, dict):
        if "fingerprint" in record and "rule" in record:
            try:
                yield finding_from_json(record)
            except LakeEvolveError:
                return
        else:
            for value in record.values():
                yield from _findings(value)
    elif isinstance(record, list):
        for value in record:
            yield from _findings(value)
