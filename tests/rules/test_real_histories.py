"""Every step of every Avro history of public projects is judged, in every mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.model.schema import Schema
from lakeevolve.rules.catalogue import RULES
from lakeevolve.rules.modes import MODES, check

HISTORIES = Path(__file__).resolve().parents[3] / "shared" / "histories"
NAMES = sorted({path.parent.name for path in HISTORIES.glob("*/*.avsc")})


def history(name: str) -> list[Schema]:
    """All versions; old ones may be broken, so that a candidate would be refused and they are not."""
    return [
        parse(file.read_bytes(), source_name=file.name, lenient=True)
        for file in sorted((HISTORIES / name).glob("*.avsc"))
    ]


@pytest.mark.skipif(not NAMES, reason="the shared histories are not here")
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_every_step_is_checked_in_every_mode(name: str) -> None:
    versions = history(name)
    for number in range(1, len(versions)):
        before, candidate = versions[number - 1], versions[number]
        backward, forward = resolve(before, candidate).compatible, resolve(candidate, before).compatible
        # All earlier versions every tenth time: that is what takes long.
        known = versions[:number] if number % 10 == 0 or candidate is versions[-1] else [before]
        reports = {mode: check(candidate, known, mode, subject=name) for mode in MODES}
        verdicts = {mode: report.compatible for mode, report in reports.items()}
        assert verdicts["NONE"]
        assert (verdicts["BACKWARD"], verdicts["FORWARD"]) == (backward, forward)
        assert verdicts["FULL"] == (backward and forward)
        assert verdicts["FULL_TRANSITIVE"] == (verdicts["BACKWARD_TRANSITIVE"] and verdicts["FORWARD_TRANSITIVE"])
        for mode, report in reports.items():
            assert report.compatible or report.failures, "what is incompatible is a finding"
            assert report.rollout
            for found in report.findings:
                assert found.rule in RULES
                assert found.message
                assert all(1 <= version <= len(known) for version in found.versions)
                assert found.line is None or found.line >= 1
            marks = [found.fingerprint for found in report.findings]
            assert len(set(marks)) == len(marks), mode
