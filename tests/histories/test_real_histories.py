"""Tables walked through the real schema histories of public projects, on both formats, with rows at every version.

Where a step is not allowed, the plan says why; the walk then goes on from the version that the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record

HISTORIES = Path(__file__).resolve().parents[3] / "shared" / "histories"
ROWS = 60
Rows = Callable[[Schema, int, int], pa.Table]
ALL = ("rewrite", "backfill", "drop")

pytestmark = pytest.mark.skipif(not HISTORIES.is_dir(), reason="the shared histories are not here")


@dataclass
class Walk:
    applied: list[int] = field(default_factory=list)
    unchanged: list[int] = field(default_factory=list)
    refused: dict[int, list[str]] = field(default_factory=dict)
    suspected: dict[int, list[tuple[str, str]]] = field(default_factory=dict)


def versions(name: str) -> Iterator[tuple[int, Schema]]:
    """The history's versions that parse and have a record for a root, by number."""
    for file in sorted((HISTORIES / name).glob("*.avsc")):
        try:
            schema = le.load(file)
        except LakeEvolveError:
            continue
        if isinstance(schema.root, Record):
            yield int(file.stem), schema


def walk(history: list[tuple[int, Schema]], lake: Any, rows: Rows, *, marked: bool = False) -> Walk:
    """Create the table from the first version and take it through the others."""
    done = Walk()
    (first, current), *later = history
    uri = lake.create("history", current, rows(current, ROWS, first), mark=marked)
    for number, target in later:
        plan = le.plan(uri, target, mode="NONE", old_rows="null")
        if suspected := [(f.from_, f.to) for f in plan.failures if f.rule == "NAME-RENAME-SUSPECTED"]:
            # Nobody declared these renames. That is said, and only the owner's word lets the plan pass.
            done.suspected[number] = suspected
            with pytest.raises(le.errors.PlanBlocked):
                le.apply(plan, allow=ALL)
            plan = le.plan(uri, target, mode="NONE", old_rows="null", not_renames=suspected)
        if plan.empty:
            done.unchanged.append(number)
            continue
        if not plan.applicable:
            done.refused[number] = [step.reason for step in plan.refused] + [f.rule for f in plan.failures]
            with pytest.raises(le.errors.PlanBlocked):
                le.apply(plan, allow=ALL)
            continue
        before = le.open_table(uri).state
        try:
            application = le.apply(plan, allow=ALL)
        except le.errors.PlanBlocked as blocked:
            # The data decides: a value that the new version cannot hold. The table is as it was.
            assert le.open_table(uri).state == before
            done.refused[number] = [blocked.what]
            continue
        assert application.status == "applied"
        assert application.replay is not None
        assert application.replay.ok, application.replay.mismatches
        done.applied.append(number)
        lake.append(uri, rows(target, ROWS, number))
        replay = le.verify(uri)
        assert replay.ok, replay.mismatches
        assert le.apply(plan, allow=ALL).status == "already-applied"
    replay = le.verify(uri, full=True)
    assert replay.ok, replay.mismatches
    return done


@dataclass(frozen=True)
class Expected:
    """From which version a table starts, and what the walk then meets: the versions with suspected renames, and those
    that the table cannot take, each with a part of the reason."""

    first: int
    suspected: frozenset[int] = frozenset()
    refused: dict[int, str] = field(default_factory=dict)
    marked: bool = False


NO_RESOLUTION = "Avro cannot read"
OTHER_NAME = "NAME_MISMATCH"
#: The plan has looked at the rows: a value is there that the new version cannot hold.
ROWS_FORBID = "TABLE-ROWS-REFUSE"
#: What only the conversion of each value tells: the rewrite stops before the commit.
REWRITE_STOPS = "the data does not allow"

#: Some tables carry the marker from the start, the others are tables that lakeevolve has never seen.
WALKS: dict[str, Expected] = {
    "gobblin_GaaSObservabilityEventExperimental": Expected(1),
    "venice_StoreVersionState": Expected(1, marked=True),
    "radar_oura_daily_activity": Expected(1, suspected=frozenset({4})),
    "navikt_beskjed": Expected(
        1, suspected=frozenset({5, 6}), refused=dict.fromkeys(range(7, 19), OTHER_NAME), marked=True
    ),
    "navikt_done": Expected(5, suspected=frozenset({6})),
    "radar_fibaro_device": Expected(6, refused=dict.fromkeys(range(8, 15), NO_RESOLUTION)),
    "radar_questionnaire": Expected(
        3,
        suspected=frozenset(range(5, 18)),
        refused={**dict.fromkeys(range(5, 9), ROWS_FORBID), **dict.fromkeys(range(9, 18), NO_RESOLUTION)},
        marked=True,
    ),
    "driver_simulation_entity_item": Expected(
        1, suspected=frozenset({7, 8, 9}), refused={**dict.fromkeys((4, 5, 7, 8), ROWS_FORBID), 13: REWRITE_STOPS}
    ),
}


@pytest.mark.parametrize("name", WALKS)
def test_a_table_follows_its_real_history(name: str, lake: Any, rows: Rows) -> None:
    expected = WALKS[name]
    history = [(number, schema) for number, schema in versions(name) if number >= expected.first]
    done = walk(history, lake, rows, marked=expected.marked)
    assert done.applied
    assert set(done.suspected) == expected.suspected
    assert set(done.refused) == set(expected.refused)
    for number, reason in expected.refused.items():
        assert any(reason in said for said in done.refused[number]), done.refused[number]
