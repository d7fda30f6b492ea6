"""What is remembered of a proof, and what a later verification makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.applying.proofs import proofs_of
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "quantity", "type": "int"}],
}
CURRENCY = {"name": "currency", "type": "string", "default": "EUR"}
SECOND = {**BASE, "fields": [*BASE["fields"], CURRENCY]}
THIRD = {**BASE, "fields": [BASE["fields"][0], {"name": "quantity", "type": "double"}, CURRENCY]}
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    """A table of two files, both written anew for its second version."""
    schema = le.load(BASE)
    uri: str = lake.create("orders", schema, rows(schema, 40, 1))
    lake.append(uri, rows(schema, 25, 2))
    return uri


def repeated(capsys: pytest.CaptureFixture[str], uri: str) -> dict[str, Any]:
    """What ``verify --full`` says of the rewrite for the second version."""
    assert main(["verify", uri, "--full", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["evidence"]["oracle"]["rewrites"]
    assert (found["version"], found["sources"], found["produced"], found["rows"]) == (2, 2, 2, 65)
    assert found["verdict"] == "equal"
    return dict(found)


def test_a_proof_is_kept_beside_the_replay_and_tells_which_file_was_made_from_which(orders: str) -> None:
    before = {file.path for file in le.open_table(orders).files()}
    applied = le.apply(le.plan(orders, SECOND), allow=ALL)
    assert applied.evidence is not None
    kept = applied.evidence.with_name(f"{applied.evidence.stem}-proof.json")
    assert applied.proof is not None
    assert json.loads(kept.read_text()) == json.loads(json.dumps(applied.proof.evidence.to_json()))
    (proof,) = proofs_of(le.open_table(orders))
    assert proof.intact
    made = {Path(path).name: {Path(source).name for source in files} for path, files in proof.sources().items()}
    assert made.keys() == {Path(file.path).name for file in le.open_table(orders).files()}
    assert set().union(*made.values()) == {Path(path).name for path in before}


def test_a_rewrite_is_proved_again_file_by_file_while_its_proof_is_remembered(
    orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    applied = le.apply(le.plan(orders, SECOND), allow=ALL)
    assert repeated(capsys, orders)["groups"] == 2
    assert le.verify(orders, full=True).evidence.oracle["rewrites"][0]["groups"] == 2
    assert applied.evidence is not None
    kept = applied.evidence.with_name(f"{applied.evidence.stem}-proof.json")
    kept.write_text(kept.read_text().replace('"rows":40', '"rows":41'))
    assert repeated(capsys, orders)["groups"] == 1, "a proof whose seal does not fit is no proof"
    kept.unlink()
    assert repeated(capsys, orders)["groups"] == 1


def test_after_an_apply_filters_are_asked_for_what_its_plan_changed(orders: str) -> None:
    le.apply(le.plan(orders, SECOND), allow=ALL)
    applied = le.apply(le.plan(orders, THIRD, mode="NONE"), allow=ALL)
    assert applied.proof is not None
    assert applied.replay is not None
    for result in (applied.proof, applied.replay):
        assert {each["path"] for each in result.evidence.predicates} == {"quantity"}
        assert {each["verdict"] for each in result.evidence.predicates} == {"equal"}
    later = le.verify(orders)
    assert {each["path"] for each in later.evidence.predicates} == {"quantity", "currency"}
