"""A check has something true to say of any two schemas."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.resolution import resolve
from lakeevolve.model.schema import Schema
from lakeevolve.rules.catalogue import RULES
from lakeevolve.rules.findings import finding_from_json
from lakeevolve.rules.modes import check
from lakeevolve.testing import evolutions, schemas


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(evolutions() | st.tuples(schemas(depth=2), schemas(depth=2)))
def test_the_verdict_is_the_resolutions_and_a_no_has_its_reasons(pair: tuple[Schema, Schema]) -> None:
    old, new = pair
    backward, forward = resolve(old, new).compatible, resolve(new, old).compatible
    for mode, expected in (("BACKWARD", backward), ("FORWARD", forward), ("FULL", backward and forward)):
        report = check(new, [old], mode, subject="s")
        assert report.compatible is expected
        blaming = [f for f in report.findings if f.breaks.startswith(("readers with the new", "readers of version"))]
        assert bool(blaming) is not expected
        for found in report.findings:
            assert found.rule in RULES
            assert finding_from_json(json.loads(json.dumps(found.to_json()))) == found
        assert len({f.fingerprint for f in report.findings}) == len(report.findings)
    orders = {(True, True): "any", (True, False): "readers-first", (False, True): "writers-first"}
    assert check(new, [old], "NONE").order == orders.get((backward, forward), "none")
