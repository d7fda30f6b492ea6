"""A table that no marker describes: what it is taken for is checked on its rows, and recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema
from lakeevolve.tables.assumed import assumptions

Rows = Callable[[Schema, int, int], pa.Table]
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def optional(type_: Any) -> list[Any]:
    return ["null", type_]


def table(lake: Any, schema: dict[str, Any], *rows: dict[str, Any]) -> str:
    uri: str = lake.create("t", le.load(schema), pa.Table.from_pylist(list(rows), schema=le.arrow_schema(schema)))
    return uri


LOOSE = {
    "top": (record({"name": "a", "type": optional("int")}), {"a": 1}, {"a": None}, "a", "int"),
    "struct": (
        record({"name": "s", "type": record({"name": "a", "type": optional("int")}, name="S")}),
        {"s": {"a": 1}},
        {"s": {"a": None}},
        "s.a",
        record({"name": "a", "type": "int"}, name="S"),
    ),
    "list": (
        record({"name": "l", "type": {"type": "array", "items": optional("int")}}),
        {"l": [1]},
        {"l": [1, None]},
        "l[]",
        {"type": "array", "items": "int"},
    ),
    "map": (
        record({"name": "m", "type": {"type": "map", "values": optional("int")}}),
        {"m": [("k", 1)]},
        {"m": [("k", None)]},
        "m{}",
        {"type": "map", "values": "int"},
    ),
}


@pytest.mark.parametrize("more", [(), (NOTE,)], ids=["alone", "with a change"])
@pytest.mark.parametrize("place", LOOSE)
def test_a_null_where_the_schema_has_none_is_refused_with_file_row_path_and_way_out(
    lake: Any, place: str, more: tuple[dict[str, Any], ...]
) -> None:
    schema, good, bad, path, required = LOOSE[place]
    uri = table(lake, schema, good, bad)
    field = schema["fields"][0]
    target = record({**field, "type": required}, *more)
    before = le.open_table(uri).state
    plan = le.plan(uri, target)
    (found,) = plan.failures
    assert (found.rule, found.path) == ("TABLE-ROWS-REFUSE", path)
    assert "row 1" in found.message
    assert Path(le.open_table(uri).files()[0].path).name in found.message
    assert '["null"' in found.fix
    for refused in (plan, waived(uri, target, found.fingerprint)):
        with pytest.raises(le.errors.PlanBlocked) as caught:
            le.apply(refused)
        assert path in str(caught.value)
    assert "row 1" in str(caught.value)
    assert caught.value.hint is not None
    assert '["null"' in caught.value.hint
    assert le.open_table(uri).state == before
    said = le.verify(uri, against=record({**field, "type": required}))
    assert [(m.row, m.path) for m in said.mismatches] == [(1, path)]
    assert le.verify(uri).ok


def waived(uri: str, target: Any, fingerprint: str) -> Any:
    return le.plan(uri, target, policy=le.Policy(waivers=(le.Waiver(fingerprint, "no", "ann"),)))


@pytest.mark.parametrize("place", LOOSE)
def test_a_column_whose_rows_confirm_the_schema_is_recorded_and_stays_optional(lake: Any, place: str) -> None:
    schema, good, _, path, required = LOOSE[place]
    uri = table(lake, schema, good)
    target = record({**schema["fields"][0], "type": required})
    pin = le.open_table(uri).state.pin
    plan = le.plan(uri, target)
    (step,) = plan.steps
    assert (step.route, step.via, step.changes, step.precondition) == ("metadata", "adopt", (), "no-nulls")
    assert path in step.reason
    assert le.verify(uri, against=target).ok
    assert le.apply(plan).status == "applied"
    live = le.open_table(uri)
    assert live.schema == le.load(target)
    assert live.state.pin == pin
    assert [one.path for one in assumptions(live.derived(), le.load(target))] == [path]


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_a_table_is_adopted_by_a_plan_that_changes_nothing(lake: Any, rows: Rows, again: bool) -> None:
    schema = record({"name": "id", "type": "long"}, NOTE)
    uri = lake.create("t", le.load(schema), rows(le.load(schema), 20, 1))
    pin = le.open_table(uri).state.pin
    files = le.open_table(uri).files()
    plan = le.plan(uri, schema)
    assert [step.reason for step in plan.steps] == ["record the schema; no change to the table"]
    done = le.apply(plan)
    assert (done.status, done.version) == ("applied", 1)
    live = le.open_table(uri)
    assert [(v.number, v.recorded, v.plan) for v in live.history()] == [(1, True, plan.digest)]
    assert live.state.pin == pin
    assert [f.path for f in live.files()] == [f.path for f in files]
    assert le.apply(plan).status == "already-applied"
    assert le.plan(uri, schema).empty
    if again:
        le.apply(le.plan(uri, record({"name": "id", "type": "double"}, NOTE)), allow=("rewrite",))
        assert le.verify(uri, full=True).ok
        assert [v.number for v in le.open_table(uri).history()] == [1, 2]


def test_a_change_that_others_made_is_recorded_by_a_plan_towards_it(lake: Any, rows: Rows) -> None:
    schema = record({"name": "id", "type": "long"})
    wider = record({"name": "id", "type": "long"}, NOTE)
    uri = lake.create("t", le.load(schema), rows(le.load(schema), 10, 1), mark=True)
    lake.add_column(uri, "note")
    lake.append(uri, rows(le.load(wider), 5, 2))
    assert not le.open_table(uri).history()[-1].recorded
    plan = le.plan(uri, le.open_table(uri).schema)
    assert [step.via for step in plan.steps] == ["adopt"]
    assert le.apply(plan).ok
    live = le.open_table(uri)
    assert [v.number for v in live.history()] == [1, 2]
    assert live.history()[-1].plan == plan.digest
    assert sorted(file.version for file in live.files()) == [1, 2]
    assert le.verify(uri, full=True).ok


STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"], "default": "NEW"}
TEXTS = {
    "top": (record({"name": "e", "type": "string"}), {"e": "%s"}, "e", STATE),
    "struct": (
        record({"name": "s", "type": record({"name": "e", "type": "string"}, name="S")}),
        {"s": {"e": "%s"}},
        "s.e",
        record({"name": "e", "type": STATE}, name="S"),
    ),
    "list": (
        record({"name": "l", "type": {"type": "array", "items": "string"}}),
        {"l": ["%s"]},
        "l[]",
        {"type": "array", "items": STATE},
    ),
}


@pytest.mark.parametrize("place", TEXTS)
def test_an_enum_over_text_is_checked_where_nothing_else_changes(lake: Any, place: str) -> None:
    schema, row, path, wanted = TEXTS[place]

    def filled(text: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(json.dumps(row).replace("%s", text))
        return made

    target = record({**schema["fields"][0], "type": wanted})
    uri = table(lake, schema, filled("NEW"))
    assert le.apply(le.plan(uri, target)).ok
    assert le.open_table(uri).schema == le.load(target)
    lost = lake.create("lost", le.load(schema))
    lake.append(lost, pa.Table.from_pylist([filled("NEW"), filled("LOST")], schema=le.arrow_schema(schema)))
    (found,) = le.plan(lost, target).failures
    assert found.path == path
    with pytest.raises(le.errors.PlanBlocked):
        le.apply(le.plan(lost, target))
    assert [(m.row, m.path) for m in le.verify(lost, against=target).mismatches] == [(1, path)]


UUID = {"type": "string", "logicalType": "uuid"}
GOOD, BAD = "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "nope"


def test_text_that_a_delta_table_holds_is_checked_before_it_counts_as_uuid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import write_deltalake

    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    target = record({"name": "u", "type": optional(UUID), "default": None})
    for name, texts, ok in (("good", [GOOD, GOOD.upper(), None], True), ("bad", [GOOD, BAD], False)):
        write_deltalake(str(tmp_path / name), pa.table({"u": texts}))
        uri = f"delta:{tmp_path / name}"
        plan = le.plan(uri, target)
        assert [step.precondition for step in plan.steps] == ["values-valid"]
        assert plan.applicable is ok
        assert le.verify(uri, against=target).ok is ok
        if ok:
            assert le.apply(plan).ok
        else:
            with pytest.raises(le.errors.PlanBlocked, match=r"row 1"):
                le.apply(plan)


def test_a_number_that_a_delta_table_holds_is_checked_before_it_counts_as_a_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import write_deltalake

    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    target = record({"name": "at", "type": {"type": "int", "logicalType": "time-millis"}})
    for name, number, ok in (("good", 86_399_999, True), ("late", 86_400_000, False), ("before", -1, False)):
        column = pa.schema([pa.field("at", pa.int32(), nullable=False)])
        write_deltalake(str(tmp_path / name), pa.table({"at": pa.array([0, number], pa.int32())}, schema=column))
        assert le.plan(f"delta:{tmp_path / name}", target).applicable is ok


def test_what_the_table_says_itself_is_no_assumption() -> None:
    schema = le.load(record({"name": "u", "type": UUID}, {"name": "e", "type": "string"}, NOTE))
    assert assumptions(schema, schema) == ()


def test_names_that_move_by_an_alias_are_warned_of_until_the_owner_confirms(lake: Any) -> None:
    base = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    swap = record({"name": "b", "type": "int", "aliases": ["a"]}, {"name": "a", "type": "int", "aliases": ["b"]})
    uri = table(lake, base, {"a": 1, "b": 2})
    plan = le.plan(uri, swap)
    assert [(f.path, f.severity) for f in plan.findings if f.rule == "TABLE-NAMES-MOVE"] == [
        ("a", "warning"),
        ("b", "warning"),
    ]
    plain = record({"name": "b", "type": "int"}, {"name": "a", "type": "int"})
    confirmed = le.plan(uri, plain, renames=[("a", "b"), ("b", "a")])
    assert not [f for f in confirmed.findings if f.rule == "TABLE-NAMES-MOVE"]
    marked = lake.create("marked", le.load(base), None, mark=True)
    assert not [f for f in le.plan(marked, swap).findings if f.rule == "TABLE-NAMES-MOVE"]
    single = record({"name": "c", "type": "int", "aliases": ["a"]}, {"name": "b", "type": "int"})
    assert not [f for f in le.plan(uri, single).findings if f.rule == "TABLE-NAMES-MOVE"]


def test_a_plan_that_rows_refuse_is_exit_1_on_the_command_line(
    lake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, good, bad, path, required = LOOSE["top"]
    uri = table(lake, schema, good, bad)
    file = tmp_path / "target.avsc"
    file.write_text(json.dumps(record({**schema["fields"][0], "type": required})))
    assert main(["plan", uri, str(file)]) == 1
    assert f"TABLE-ROWS-REFUSE {path}: is null in 1 row" in capsys.readouterr().out
