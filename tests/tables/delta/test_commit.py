"""What happens when others write, when we die in between, and when we come back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from lakeevolve.errors import CommitConflict, TableError
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta
from lakeevolve.tables.delta import commit as commits

from .conftest import bag, check, entry, evolve, field, info, log_actions, record, stage

V1 = record(field("id", "long"), field("n", "int", doc="old"), field("s", "string"))
RENAMED = record(field("id", "long"), field("count", "int", aliases=["n"]), field("s", "string"))
WIDER = record(*V1.to_json()["fields"], field("note", ["null", "string"], default=None))  # type: ignore[index]
TEXTS = record(
    field("id", "long", doc="the key"),
    field("n", "int", doc="new"),
    field("s", "string"),
    field("note", ["null", "string"], default=None),
)


@pytest.fixture
def table(tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table]) -> str:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, V1, mark=True)
    delta.append(uri, rows(V1, 20, 1))
    delta.append(uri, rows(V1, 20, 2))
    return uri


def folder(uri: str) -> Path:
    return Path(uri.removeprefix("delta:"))


def parquet(uri: str) -> set[str]:
    return {p.name for p in folder(uri).rglob("*.parquet") if "_delta_log" not in p.parts}


@pytest.mark.parametrize("target", [RENAMED, WIDER, TEXTS], ids=["rewrite", "metadata", "several commits"])
def test_an_append_between_stage_and_commit_conflicts_and_no_row_is_lost(
    table: str, target: Schema, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    before = parquet(table)
    attempt = stage(table, target)
    delta.append(table, rows(V1, 5, 3))
    version = delta.open(table).state.position
    with pytest.raises(CommitConflict):
        attempt.commit()
    assert attempt.table.progress_of("plan-1") == "none"
    assert attempt.staged.abandon() == ()
    now = delta.open(table)
    assert now.state.position == version
    assert sum(b.num_rows for b in now.read()) == 45
    assert len(parquet(table) - before) == 1
    assert [v.number for v in now.history()] == [1]
    # The same again, against the table as it is now, goes through.
    evolve(table, target)
    assert sum(b.num_rows for b in delta.open(table).read()) == 45


def test_another_schema_change_between_stage_and_commit_conflicts(table: str) -> None:
    attempt = stage(table, RENAMED)
    DeltaTable(folder(table)).alter.add_columns([Field("x", "long", nullable=True)])
    with pytest.raises(CommitConflict):
        attempt.commit()
    attempt.staged.abandon()
    assert delta.open(table).schema.fields[-1].name == "x"


def test_a_rewrite_is_one_commit_and_its_copy_another(table: str) -> None:
    evolve(table, RENAMED)
    kinds = [next(iter(a)) for a in log_actions(folder(table), 3)]
    assert sorted(set(kinds)) == ["add", "commitInfo", "metaData", "remove", "txn"]
    assert kinds.count("add") == kinds.count("remove") == 2
    said = info(folder(table), 3)
    assert said["lakeevolve.version"] == "2"
    assert said["lakeevolve.plan-digest"] == "plan-1"
    began = json.loads(said["lakeevolve.v.2"])["from"]
    assert (set(began), began["version"]) == ({"version", "at"}, 3)
    assert abs(began["at"] - said["timestamp"]) < 60_000
    assert info(folder(table), 4)["lakeevolve.copy"] == "2"
    first = json.loads(DeltaTable(folder(table)).schema().to_json())["fields"][0]
    assert {"lakeevolve.version", "lakeevolve.v.1", "lakeevolve.v.2"} <= set(first["metadata"])


def test_an_added_column_carries_the_marker(table: str) -> None:
    evolve(table, WIDER)
    fields = json.loads(DeltaTable(folder(table)).schema().to_json())["fields"]
    # Version 1 has been in the table's properties since it was created.
    assert set(fields[-1]["metadata"]) >= {"lakeevolve.version", "lakeevolve.v.2"}


def test_texts_come_first_and_the_columns_last(table: str) -> None:
    evolve(table, TEXTS)
    steps = [info(folder(table), v) for v in (3, 4, 5, 6)]
    assert [s.get("lakeevolve.step") for s in steps] == ["1 of 3", "2 of 3", None, None]
    assert [s["operation"] for s in steps] == [
        "UPDATE FIELD METADATA",
        "UPDATE FIELD METADATA",
        "ADD COLUMN",
        "SET TBLPROPERTIES",
    ]
    found = {
        f["name"]: f["metadata"].get("comment")
        for f in json.loads(DeltaTable(folder(table)).schema().to_json())["fields"]
    }
    assert found == {"id": "the key", "n": "new", "s": None, "note": None}
    assert delta.open(table).history()[-1].commit == 5


@pytest.mark.parametrize("landed", [1, 2])
def test_a_plan_that_stopped_part_way_is_finished_by_committing_again(
    table: str, landed: int, monkeypatch: pytest.MonkeyPatch, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    real, done = commits._properties, 0

    def dying(custom: Any) -> Any:
        nonlocal done
        done += 1
        if done > landed:
            raise KeyboardInterrupt
        return real(custom)

    attempt = stage(table, TEXTS)
    monkeypatch.setattr(commits, "_properties", dying)
    with pytest.raises(KeyboardInterrupt):
        attempt.commit()
    monkeypatch.undo()
    assert delta.open(table).progress_of("plan-1") == "partly"
    assert [v.number for v in delta.open(table).history()] == [1]
    delta.append(table, rows(V1, 5, 3))
    evolve(table, TEXTS)
    assert delta.open(table).progress_of("plan-1") == "done"
    assert delta.open(table).schema == TEXTS
    assert sum(b.num_rows for b in delta.open(table).read()) == 45


def test_appends_between_our_commits_do_not_stop_us(
    table: str, monkeypatch: pytest.MonkeyPatch, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    real, done = commits._properties, 0

    def raced(custom: Any) -> Any:
        nonlocal done
        done += 1
        if done == 3:
            delta.append(table, rows(V1, 5, 3))
        return real(custom)

    attempt = stage(table, TEXTS)
    monkeypatch.setattr(commits, "_properties", raced)
    attempt.commit()
    monkeypatch.undo()
    now = delta.open(table)
    assert now.history()[-1].commit == 6
    assert sum(b.num_rows for b in now.read()) == 45
    assert [f.version for f in now.files()] == [1, 1, 1]
    check(table, bag(now.read()))


def test_a_crash_before_the_copy_loses_nothing(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> bool:
        raise KeyboardInterrupt

    attempt = stage(table, WIDER)
    monkeypatch.setattr(commits, "copy_marker", crash)
    with pytest.raises(KeyboardInterrupt):
        attempt.commit()
    monkeypatch.undo()
    assert "lakeevolve.v.2" not in DeltaTable(folder(table)).metadata().configuration
    now = delta.open(table)
    assert now.progress_of("plan-1") == "done"
    assert now.schema == WIDER
    assert [(v.number, v.commit, v.plan) for v in now.history()] == [(1, None, None), (2, 3, "plan-1")]
    # Committing the same plan again is a no-op that makes up for the copy.
    position = now.state.position or 0
    attempt.commit()
    assert info(folder(table), position + 1)["lakeevolve.copy"] == "2"
    assert delta.open(table).state.position == position + 1
    attempt.commit()
    assert delta.open(table).state.position == position + 1


def test_the_marker_outlives_the_log(table: str, rows: Callable[[Schema, int, int], pa.Table]) -> None:
    evolve(table, WIDER)
    evolve(
        table, record(*WIDER.to_json()["fields"][:2], field("s", "bytes"), WIDER.to_json()["fields"][3]), plan="plan-2"
    )  # type: ignore[index]
    expected = bag(delta.open(table).read())
    times = [v.at for v in delta.open(table).history()]
    _forget(table)
    now = delta.open(table)
    assert [(v.number, v.commit) for v in now.history()] == [(1, None), (2, 3), (3, 5)]
    # When each came into force is known as long as the marker is.
    for before, after in zip(times, [v.at for v in now.history()], strict=True):
        assert (before is None) == (after is None)
        assert before is None or after is None or abs((before - after).total_seconds()) < 60
    assert None not in times
    assert now.progress_of("plan-2") == "done"
    assert {f.version for f in now.files()} == {3}
    assert all(f.inferred and f.added is None for f in now.files())
    check(table, expected)


def test_the_marker_outlives_the_log_of_a_table_with_features(golden: Callable[[str], Path]) -> None:
    where = golden("delta_rs__table-with-dv-small")
    uri = f"delta:{where}"
    evolve(uri, record(field("value", ["null", "int"]), field("note", ["null", "string"], default=None)))
    features = DeltaTable(where).protocol()
    assert (features.reader_features, features.writer_features) == (["deletionVectors"], ["deletionVectors"])
    evolve(
        uri,
        record(field("value", ["null", "int"], aliases=["v"]), field("note", ["null", "string"], default=None)),
        plan="plan-2",
    )
    expected = bag(delta.open(uri).read())
    _forget(uri)
    now = delta.open(uri)
    assert [v.number for v in now.history()] == [1, 2, 3]
    check(uri, expected)


def _forget(uri: str) -> None:
    """Leave nothing of the log but a checkpoint."""
    where = folder(uri)
    DeltaTable(where).create_checkpoint()
    for path in (where / "_delta_log").glob("*.json"):
        path.unlink()


def test_files_of_an_older_version_are_told_by_their_footers_when_the_log_is_gone(
    table: str, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    evolve(table, WIDER)
    delta.append(table, rows(WIDER, 7, 5))
    expected = bag(delta.open(table).read())
    _forget(table)
    now = delta.open(table)
    assert sorted(f.version for f in now.files()) == [1, 1, 2]
    assert all(f.inferred for f in now.files())
    check(table, expected)


def test_a_failing_conversion_leaves_no_file_and_no_commit(table: str) -> None:
    attempt = stage(table, RENAMED)
    attempt.staged.abandon()
    before = parquet(table)
    served = 0

    def convert(file: Any) -> Iterator[pa.RecordBatch]:
        nonlocal served
        served += 1
        if served == 2:
            raise TableError("the source broke")
        yield from attempt.evolution.convert(file)

    with pytest.raises(TableError, match="the source broke"):
        attempt.table.stage(replace(attempt.evolution, convert=convert))
    assert parquet(table) == before
    assert delta.open(table).state.position == 2


def test_abandoning_deletes_what_was_written(table: str) -> None:
    before = parquet(table)
    attempt = stage(table, RENAMED)
    assert len(parquet(table) - before) == 2
    assert attempt.staged.abandon() == ()
    assert parquet(table) == before
    assert attempt.staged.abandon() == ()


def test_staging_some_of_the_files_is_refused(table: str) -> None:
    attempt = stage(table, RENAMED)
    attempt.staged.abandon()
    with pytest.raises(CommitConflict):
        attempt.table.stage(replace(attempt.evolution, rewrite=attempt.evolution.rewrite[:1]))


def test_going_back_is_a_version_of_its_own(table: str) -> None:
    before = bag(delta.open(table).read())
    evolve(table, RENAMED)
    now = delta.open(table)
    versions = now.history()
    back = replace(versions[0], number=3, plan="back", derived=False)
    now.restore(2, [*(entry(v) for v in versions), entry(back)])
    again = delta.open(table)
    assert [(v.number, v.commit) for v in again.history()] == [(1, None), (2, 3), (3, 5)]
    assert again.schema == V1
    assert bag(again.read()) == before
    assert {f.version for f in again.files()} == {3}
    check(table, before)


def test_going_back_refuses_when_others_wrote(table: str, rows: Callable[[Schema, int, int], pa.Table]) -> None:
    now = delta.open(table)
    delta.append(table, rows(V1, 1, 9))
    with pytest.raises(CommitConflict):
        now.restore(0, [entry(v) for v in now.history()])


def test_what_others_change_after_a_marker_becomes_a_version(table: str) -> None:
    evolve(table, WIDER)
    DeltaTable(folder(table)).alter.add_columns(
        [Field("x", "long", nullable=True), Field("_offset", "long", nullable=True)]
    )
    now = delta.open(table)
    versions = now.history()
    assert [(v.number, v.derived) for v in versions] == [(1, True), (2, False), (3, True)]
    assert versions[2].fills == {"x": "null"}
    assert [f.name for f in now.schema.fields] == ["id", "n", "s", "note", "x"]
    assert now.schema.record.field("n").doc == "old"  # type: ignore[union-attr]
    assert now.foreign == ("_offset",)
    evolve(table, record(*now.schema.to_json()["fields"], field("m", "int", default=1)), plan="plan-2")  # type: ignore[index]
    assert [v.number for v in delta.open(table).history()] == [1, 2, 3, 4]


def test_a_comment_of_another_tool_makes_no_version_and_stays(table: str) -> None:
    evolve(table, WIDER)
    DeltaTable(folder(table)).alter.set_column_metadata("s", {"comment": "theirs"})
    assert [v.number for v in delta.open(table).history()] == [1, 2]
    evolve(
        table,
        record(*WIDER.to_json()["fields"][:1], field("n", "long", doc="old"), *WIDER.to_json()["fields"][2:]),
        plan="plan-2",
    )  # type: ignore[index]
    kept = {
        f["name"]: f["metadata"].get("comment")
        for f in json.loads(DeltaTable(folder(table)).schema().to_json())["fields"]
    }
    assert kept["s"] == "theirs"


def test_an_overwrite_by_another_tool_keeps_the_history(table: str) -> None:
    evolve(table, WIDER)
    data = pa.table(
        {"id": pa.array([1]), "n": pa.array([2], pa.int32()), "s": ["a"], "note": pa.array([None], pa.string())}
    )
    write_deltalake(folder(table), data, mode="overwrite", schema_mode="overwrite")
    now = delta.open(table)
    assert now.progress_of("plan-1") == "done"
    assert now.schema == WIDER
    check(table, bag(now.read()))


def test_a_restore_by_another_tool_becomes_a_version(table: str) -> None:
    before = bag(delta.open(table).read())
    evolve(table, RENAMED)
    DeltaTable(folder(table)).restore(2)
    now = delta.open(table)
    assert [(v.number, v.derived) for v in now.history()] == [(1, True), (2, False), (3, True)]
    assert now.schema == V1
    check(table, before)
    evolve(table, RENAMED, plan="plan-3")
    assert [v.number for v in delta.open(table).history()] == [1, 2, 3, 4]
    assert delta.open(table).schema == RENAMED


def test_the_pin_moves_with_the_schema_and_not_with_appends_or_our_own_marks(
    table: str, rows: Callable[[Schema, int, int], pa.Table]
) -> None:
    first = delta.open(table).state
    delta.append(table, rows(V1, 1, 9))
    second = delta.open(table).state
    assert (second.id, second.pin) == (first.id, first.pin)
    assert (second.position or 0) > (first.position or 0)
    DeltaTable(folder(table)).alter.set_table_properties({"lakeevolve.x": "1"}, raise_if_not_exists=False)
    assert delta.open(table).state.pin == first.pin
    DeltaTable(folder(table)).alter.set_table_properties({"delta.appendOnly": "true"})
    third = delta.open(table).state
    assert {k for k in first.pin if first.pin[k] != third.pin[k]} == {"properties"}
    DeltaTable(folder(table)).alter.add_columns([Field("x", "long", nullable=True)])
    assert delta.open(table).state.pin["schema"] != first.pin["schema"]


def test_a_table_opened_at_a_version_reads_the_past_and_cannot_be_changed(table: str) -> None:
    before = bag(delta.open(table).read())
    evolve(table, RENAMED)
    past = delta.open(table + "@v2")
    assert bag(past.read()) == before
    assert past.uri.endswith("@v2")
    assert past.schema == V1
    with pytest.raises(TableError, match="opened at a version"):
        stage(past, RENAMED)


def test_files_of_an_earlier_position_can_be_read(table: str) -> None:
    before = bag(delta.open(table).read())
    evolve(table, RENAMED)
    now = delta.open(table)
    earlier = now.files(position=2)
    assert {f.version for f in earlier} == {1}
    assert bag(b for f in earlier for b in now.raw(f)) == before


def test_a_marker_alone_is_one_commit(table: str) -> None:
    target = record(field("id", "long"), field("n", "int", doc="old", default=3), field("s", "string", order="ignore"))
    position = delta.open(table).state.position or 0
    evolve(table, target)
    assert delta.open(table).state.position == position + 1
    assert info(folder(table), position + 1)["lakeevolve.version"] == "2"


def test_aliases_and_symbols_are_on_the_columns_themselves(table: str) -> None:
    state = {"type": "enum", "name": "State", "symbols": ["A", "B"]}
    first, _, s = V1.to_json()["fields"]  # type: ignore[index]
    evolve(table, record(first, field("count", "int", aliases=["n"]), s, field("state", ["null", state], default=None)))
    more = {**state, "symbols": ["A", "B", "C"]}
    target = record(
        first,
        field("count", "int", aliases=["n", "number"]),
        field("s", "string", aliases=["text"]),
        field("state", ["null", more], default=None),
    )
    evolve(table, target, plan="plan-2")
    held = {f["name"]: f["metadata"] for f in json.loads(DeltaTable(folder(table)).schema().to_json())["fields"]}
    assert json.loads(held["count"]["lakeevolve.aliases"]) == ["n", "number"]
    assert json.loads(held["s"]["lakeevolve.aliases"]) == ["text"]
    assert json.loads(held["state"]["lakeevolve.type"])[1]["symbols"] == ["A", "B", "C"]
    # What the columns say is enough to know them again, whatever becomes of the marker.
    found = delta.open(table).derived()
    assert [f.aliases for f in found.fields] == [(), ("n", "number"), ("text",), ()]
    # An alias that goes leaves an empty text, since delta-rs takes none away.
    evolve(table, record(first, field("count", "int"), *target.to_json()["fields"][2:]), plan="plan-3")  # type: ignore[index]
    assert delta.open(table).derived().fields[1].aliases == ()
    assert delta.open(table).schema.fields[1].aliases == ()


def test_a_nested_comment_is_said_to_wait_and_comes_with_the_next_rewrite(tmp_path: Path) -> None:
    def inner(**more: Any) -> dict[str, Any]:
        return {"type": "record", "name": "Inner", "fields": [field("x", "int", **more)]}

    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, record(field("id", "long"), field("l", {"type": "array", "items": inner()})), mark=True)
    documented = field("l", {"type": "array", "items": inner(doc="why")})
    found = evolve(uri, record(field("id", "long"), documented)).routes["SetDoc l[].x"]
    assert (found.route, found.via) == ("metadata", "marker")
    assert "when the table is next rewritten" in found.reason

    def comment() -> str | None:
        column = json.loads(DeltaTable(tmp_path / "t").schema().to_json())["fields"][1]
        text: str | None = column["type"]["elementType"]["fields"][0]["metadata"].get("comment")
        return text

    assert comment() is None
    evolve(uri, record(field("id", "long"), documented, field("lot", "int", default=7)), plan="plan-2")
    assert comment() == "why"
