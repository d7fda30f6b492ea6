"""A default in two commits where an UPDATE could not tell which rows to fill, or has no words for the value: the column
first, then the files of before, written anew. What others append meanwhile is left as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.errors import PartlyApplied, PlanBlocked, TableError, UnsupportedTable
from lakeevolve.model.change import AddField
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Field, Primitive
from lakeevolve.tables import delta
from lakeevolve.tables.base import Evolution
from lakeevolve.tables.delta import commit as commits
from lakeevolve.tables.delta.filling import asked_for

from .conftest import by_key, field, info, inner, of, plain, record

ITEM = field("x", "int")
LOT = field("lot", ["int", "null"], default=7)
S, L, M = inner(ITEM, name="S"), inner(ITEM, name="L"), inner(ITEM, name="M")
BASE = plain(field("s", ["null", S]), field("l", of(["null", L])), field("m", by_key(M)), field("p", "string"))


def changed(**types: Any) -> Schema:
    return plain(
        *(field(n, types.get(n, t)) for n, t in (("s", ["null", S]), ("l", of(["null", L])), ("m", by_key(M)))),
        field("p", "string"),
        *types.get("more", ()),
    )


def wider(of_: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    return {**of_, "fields": [*of_["fields"], *more]}


#: The place -> the target, the path of the added field, and what it reads in old rows, if what it lies in is there.
PLACES: dict[str, tuple[Schema, str, Any]] = {
    "a nullable field": (changed(more=[LOT]), "lot", 7),
    "a list": (changed(more=[field("lot", of("string"), default=["a", "b"])]), "lot", ["a", "b"]),
    "a record": (
        changed(more=[field("lot", inner(field("y", "long", default=1), name="In"), default={})]),
        "lot",
        {"y": 1},
    ),
    "a map": (changed(more=[field("lot", by_key("int"), default={"k": 1})]), "lot", [("k", 1)]),
    "a field of a record": (changed(s=["null", wider(S, field("lot", "int", default=7))]), "s.lot", 7),
    "a nullable field of a record": (changed(s=["null", wider(S, LOT)]), "s.lot", 7),
    "a field of a list's records": (changed(l=of(["null", wider(L, LOT)])), "l[].lot", 7),
}


@pytest.fixture
def uri(tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    where = f"delta:{tmp_path / 'a table'}"
    delta.create_table(where, BASE, mark=True, partition_by=["p"])
    for seed in (1, 2):
        data = rows(BASE, 20, seed)
        data = data.set_column(data.schema.get_field_index("p"), "p", pa.array(["a b", "c%"] * 10))
        delta.append(where, data)
    return where


def live(uri: str) -> DeltaTable:
    return DeltaTable(uri.removeprefix("delta:"))


def log(uri: str, since: int = 3) -> list[tuple[str, str | None]]:
    folder = uri.removeprefix("delta:")
    found = [info(folder, version) for version in range(since, live(uri).version() + 1)]
    return [(each["operation"], each.get("lakeevolve.update")) for each in found]


def planned(uri: str, target: Schema, path: str) -> le.Plan:
    return le.plan(uri, target, routes={path: "metadata"})


def values(uri: str, path: str) -> list[Any]:
    """What the field reads wherever what it lies in is there."""
    found = []
    for row in (row for batch in delta.open(uri).read() for row in batch.to_pylist()):
        top = row[path.partition(".")[0].removesuffix("[]")]
        for holder in top or () if "[]" in path else [top]:
            if "." not in path:
                found.append(holder)
            elif holder is not None:
                found.append(holder["lot"])
    return found


@pytest.mark.parametrize("place", PLACES)
def test_old_rows_read_the_default_and_the_proof_can_be_repeated(place: str, uri: str, readers: Any) -> None:
    target, path, expected = PLACES[place]
    before = pa.table(live(uri).scan()).num_rows
    plan = planned(uri, target, path)
    (step,) = plan.steps
    assert (step.route, step.via, step.permit) == (
        "metadata",
        "add_columns, then the files of before written anew",
        "backfill",
    )
    assert le.apply(plan, allow=["backfill"]).ok
    assert log(uri) == [("ADD COLUMN", "pending"), ("WRITE", "done"), ("SET TBLPROPERTIES", None)]
    found = values(uri, path)
    assert found
    assert all(value == expected for value in found)
    table = delta.open(uri)
    assert [(v.number, v.commit) for v in table.history()] == [(1, None), (2, 3)]
    assert table.schema == target
    assert {file.version for file in table.files()} == {2}
    replay = le.verify(uri, full=True, columns="all")
    assert replay.ok
    assert [(r["version"], r["verdict"], r["rows"]) for r in replay.evidence.oracle["rewrites"]] == [(2, "equal", 40)]
    assert le.apply(plan, allow=["backfill"]).status == "already-applied"
    if place == "a field of a list's records":
        for rows in readers([uri.removeprefix("delta:")]).values():
            assert len(rows[0]) == before


def test_a_damaged_file_of_the_second_commit_is_found_by_the_repeated_proof(uri: str) -> None:
    target, path, _ = PLACES["a nullable field"]
    le.apply(planned(uri, target, path), allow=["backfill"])
    made = delta.open(uri).files()[0]
    where = Path(uri.removeprefix("delta:")) / made.path
    data = pq.read_table(where, partitioning=None)
    at = data.schema.get_field_index("lot")
    pq.write_table(data.set_column(at, data.schema.field(at), pa.array([8] * len(data), pa.int32())), where)
    found = le.verify(uri, full=True)
    assert {(m.file, m.path) for m in found.mismatches if m.reader == "raw file"} >= {(made.path, "lot")}


def test_a_field_of_a_maps_values_is_refused_with_the_reason(uri: str) -> None:
    target = changed(m=by_key(wider(M, LOT)))
    (step,) = planned(uri, target, "m{}.lot").steps
    assert step.route == "refuse"
    assert "DataFusion could not read the table" in step.reason
    assert "leave the route out" in step.reason


def test_a_name_whose_old_values_are_still_in_files_is_refused_with_the_reason() -> None:
    change = AddField("lot", Field("lot", Primitive("int"), default=7), 1)
    found = asked_for(change, held=True, vectors=False, readers=())
    assert found.route == "refuse"
    assert "would come back" in found.reason
    assert asked_for(change, held=False, vectors=True, readers=()).via == "add_columns, then UPDATE"


# What happens between the two commits --------------------------------------------------------------------------------


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    real, acted = commits._replace, []

    def acting(*how: Any) -> None:
        if not acted:
            acted.append(True)
            act()
        real(*how)

    monkeypatch.setattr(commits, "_replace", acting)


def stopped(uri: str, monkeypatch: pytest.MonkeyPatch, place: str = "a nullable field") -> le.Plan:
    """A plan whose apply died between its two commits."""

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    target, path, _ = PLACES[place]
    plan = planned(uri, target, path)
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_replace", dying)
        with pytest.raises(BaseException):  # noqa: B017, PT011
            le.apply(plan, allow=["backfill"])
    assert log(uri) == [("ADD COLUMN", "pending")]
    return plan


def producers(uri: str) -> None:
    """Rows with a value, with a null that is meant, and of a producer who does not know the column."""
    lots = ({"lot": [9]}, {"lot": [None, 10]}, {})
    at = 100
    for lot in lots:
        count = len(lot.get("lot", [0]))
        rest = {"id": list(range(at, at + count)), "l": [[]] * count, "m": [{}] * count, "p": ["a b"] * count}
        given = pa.table({**rest, **lot}, schema=_layout(*rest, *lot))
        delta.append(uri, given)
        at += count


def _layout(*names: str) -> pa.Schema:
    whole = arrow_schema(PLACES["a nullable field"][0], strict=False)
    return pa.schema([whole.field(name) for name in names])


PRODUCED = {100: 9, 101: None, 102: 10, 103: None}


def check_produced(uri: str) -> None:
    found = {row["id"]: row["lot"] for batch in delta.open(uri).read() for row in batch.to_pylist()}
    assert {key: found[key] for key in PRODUCED} == PRODUCED
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 44
    assert {value for key, value in found.items() if key not in PRODUCED} == {7}
    replay = le.verify(uri, full=True, columns="all")
    assert replay.ok
    assert [(r["verdict"], r["rows"]) for r in replay.evidence.oracle["rewrites"]] == [("equal", 40)]


def test_rows_that_come_between_the_two_keep_what_they_hold(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, path, _ = PLACES["a nullable field"]
    between(monkeypatch, lambda: producers(uri))
    assert le.apply(planned(uri, target, path), allow=["backfill"]).ok
    check_produced(uri)


def test_resumed_after_producers_wrote_the_new_column_an_apply_leaves_their_rows(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = stopped(uri, monkeypatch)
    producers(uri)
    with pytest.raises(PartlyApplied):
        le.apply(plan, allow=["backfill"])
    table = delta.open(uri)
    assert table.schema == BASE
    assert le.verify(table, full=True).ok
    assert le.apply(plan, allow=["backfill"], resume=True, table=table).ok
    check_produced(uri)
    assert le.apply(plan, allow=["backfill"], resume=True).status == "already-applied"


def test_resumed_after_the_update_a_rows_own_value_and_absent_ones_are_told_apart(
    two_files: Callable[[Schema], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where an UPDATE fills, which takes every NULL for one that is to be filled: the field is required."""
    base = record(field("id", "long"), field("s", "string"))
    uri = two_files(base)
    target = record(*base.to_json()["fields"], field("lot", "int", default=7))  # type: ignore[index]

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    plan = planned(uri, target, "lot")
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_update", dying)
        with pytest.raises(BaseException):  # noqa: B017, PT011
            le.apply(plan, allow=["backfill"])
    delta.append(uri, pa.table({"id": [100, 101], "s": ["", ""], "lot": pa.array([9, None], pa.int32())}))
    delta.append(uri, pa.table({"id": [102], "s": [""]}))
    assert le.apply(plan, allow=["backfill"], resume=True).ok
    found = {row["id"]: row["lot"] for batch in delta.open(uri).read() for row in batch.to_pylist()}
    assert (found[100], found[101], found[102]) == (9, 7, 7)
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 43
    replay = le.verify(uri, full=True, columns="all")
    assert replay.ok
    assert any("not proved again" in note for note in replay.notes)


def test_an_update_is_proved_old_against_new(two_files: Callable[[Schema], str]) -> None:
    base = record(field("id", "long"), field("s", "string"))
    uri = two_files(base)
    target = record(*base.to_json()["fields"], field("lot", "int", default=7))  # type: ignore[index]
    assert le.apply(planned(uri, target, "lot"), allow=["backfill"]).ok
    replay = le.verify(uri, full=True)
    assert [(r["version"], r["verdict"], r["rows"]) for r in replay.evidence.oracle["rewrites"]] == [(2, "equal", 40)]


def test_once_others_mixed_old_rows_with_new_ones_it_stops_and_says_why(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = stopped(uri, monkeypatch)
    producers(uri)
    live(uri).optimize.compact()
    before = pa.table(live(uri).scan()).num_rows
    with pytest.raises(PlanBlocked, match=r"OPTIMIZE of version \d+ wrote rows from before the new columns anew"):
        le.apply(plan, allow=["backfill"], resume=True)
    assert delta.open(uri).progress_of(plan.digest) == "partly"
    assert pa.table(live(uri).scan()).num_rows == before
    live(uri).restore(2)
    assert delta.open(uri).schema == BASE
    assert {step.route for step in le.plan(uri, plan.target).steps} == {"backfill"}


def test_old_rows_that_are_deleted_meanwhile_stay_deleted(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stopped(uri, monkeypatch)
    live(uri).delete("p = 'c%'")
    assert le.apply(plan, allow=["backfill"], resume=True).ok
    assert values(uri, "lot") == [7] * 20
    assert le.verify(uri, full=True, columns="all").ok


def test_a_race_with_a_delete_stops_and_is_resumed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, path, _ = PLACES["a nullable field"]
    plan = planned(uri, target, path)
    between(monkeypatch, lambda: live(uri).delete("p = 'c%'"))
    with pytest.raises(PartlyApplied):
        le.apply(plan, allow=["backfill"])
    assert le.apply(plan, allow=["backfill"], resume=True).ok
    assert values(uri, path) == [7] * 20


def test_a_commit_whose_answer_is_lost_has_landed_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, path, _ = PLACES["a nullable field"]
    real = DeltaTable.create_write_transaction

    def losing(self: DeltaTable, *how: Any, **more: Any) -> None:
        real(self, *how, **more)
        monkeypatch.setattr(DeltaTable, "create_write_transaction", real)
        raise OSError("Generic S3 error: the answer was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", losing)
    assert le.apply(planned(uri, target, path), allow=["backfill"]).ok
    assert [said for _, said in log(uri)].count("done") == 1
    assert values(uri, path) == [7] * 40


def test_beside_a_constraint_it_goes_on_and_the_constraint_holds(uri: str) -> None:
    live(uri).alter.add_constraint({"known": "p IN ('a b', 'c%')"})
    target, path, _ = PLACES["a nullable field"]
    assert le.apply(planned(uri, target, path), allow=["backfill"]).ok
    assert values(uri, path) == [7] * 40
    assert live(uri).metadata().configuration["delta.constraints.known"]
    with pytest.raises(TableError):
        delta.append(uri, pa.table({"id": [1], "l": [[]], "m": [{}], "p": ["x"]}, schema=_layout("id", "l", "m", "p")))


def test_files_with_deletion_vectors_are_refused_with_the_way_out(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs has no word for the vector of a file that it removes."""
    target, path, _ = PLACES["a nullable field"]
    plan, table = planned(uri, target, path), delta.open(uri)
    for at, found in table._snapshot.files.items():
        vector = {"storageType": "i", "pathOrInlineDv": "", "cardinality": 0}
        table._snapshot.files[at] = replace(found, add=replace(found.add, vector=vector))  # type: ignore[index]
    changes = [(change, step.route) for step in plan.steps for change in step.changes]
    evolution = Evolution(BASE, target, changes, {}, plan.fills, (), lambda _file: iter(()))
    with pytest.raises(UnsupportedTable, match="deletion vectors"):
        table.stage(evolution)


def test_a_table_whose_files_have_deletion_vectors_is_refused_when_the_plan_is_made(
    golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"delta:{golden('delta_rs__table-with-dv-small')}"
    (step,) = le.plan(uri, record(field("value", ["null", "int"]), LOT), routes={"lot": "metadata"}).steps
    assert step.route == "refuse"
    assert "whose files have deletion vectors" in step.reason


def test_a_table_without_rows_is_done_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, BASE, mark=True)
    target, path, _ = PLACES["a field of a record"]
    plan = planned(uri, target, path)
    assert le.apply(plan, allow=["backfill"]).ok
    assert delta.open(uri).progress_of(plan.digest) == "done"
    assert delta.open(uri).schema == target
