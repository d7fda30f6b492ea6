from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from lakeevolve.errors import PlanFormatError
from lakeevolve.rules.findings import Finding, finding_from_json

FOUND = Finding(
    "TYPE-CHANGED", "error", "a.b", "int", "string", "m", "b", "f", (1, 3), ("billing",), "orders", "o.avsc", 7, True
)


def test_the_fingerprint_covers_rule_subject_path_from_and_to() -> None:
    said = '["TYPE-CHANGED","orders","a.b","int","string"]'
    assert FOUND.fingerprint == hashlib.sha256(said.encode()).hexdigest()[:16]
    others: list[dict[str, Any]] = [{name: "x"} for name in ("rule", "subject", "path", "from_", "to")]
    for other in others:
        assert replace(FOUND, **other).fingerprint != FOUND.fingerprint


def test_wording_severity_place_and_versions_leave_the_fingerprint_alone() -> None:
    other = replace(
        FOUND, message="x", breaks="", fix="", severity="info", versions=(), consumers=(), file=None, line=None
    )
    assert replace(other, waived=False).fingerprint == FOUND.fingerprint


def test_nothing_is_not_the_empty_text() -> None:
    assert replace(FOUND, to=None).fingerprint != replace(FOUND, to="").fingerprint


def test_a_finding_survives_json() -> None:
    assert finding_from_json(json.loads(json.dumps(FOUND.to_json()))) == FOUND
    assert FOUND.to_json()["fingerprint"] == FOUND.fingerprint


@pytest.mark.parametrize("record", [{}, [], {**FOUND.to_json(), "versions": None}])
def test_what_is_no_finding_is_refused(record: object) -> None:
    with pytest.raises(PlanFormatError):
        finding_from_json(record)  # type: ignore[arg-type]
