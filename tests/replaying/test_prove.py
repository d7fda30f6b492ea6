"""Proof before the commit, its preconditions, and the repetition of a rewrite's proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.errors import PlanError, TableError
from lakeevolve.model.change import DropBranch, DropSymbol, MakeRequired
from lakeevolve.model.types import NULL, Primitive
from lakeevolve.replaying.fold import fold
from lakeevolve.replaying.prove import check_preconditions, prove_staged
from lakeevolve.replaying.verify import verify
from lakeevolve.tables.base import DataFile, Evolution

BASE = (
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "qty", "type": ["null", "int"], "default": None},
)
TARGET = (
    {"name": "id", "type": "long"},
    {"name": "label", "type": "string", "aliases": ["name"]},
    {"name": "qty", "type": ["null", "double"], "default": None},
    {"name": "country", "type": "string", "default": "US"},
)


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"n{i}", "qty": None if i % 3 == 2 else i} for i in range(start, start + count)]


@pytest.fixture(params=["ordered", "unordered"])
def table(request: Any, make: Any) -> Any:
    found = make.table([make.version(1, make.schema(*BASE))], ordered=request.param == "ordered", format="delta")
    found.append(rows(7), "one")
    found.append(rows(5, 7), "two")
    found.append(rows(6, 12), "three")
    return found


class Staging:
    """The table, what is staged, and the versions with the new one."""

    def __init__(self, make: Any, table: Any, rewrite: list[str]) -> None:
        target = make.schema(*TARGET)
        self.versions = (*table.versions, make.version(2, target))
        self.table = table

        def convert(file: DataFile) -> Iterator[pa.RecordBatch]:
            run = fold(self.versions, file.version, 2)
            return (run(batch) for batch in table.raw(file))

        chosen = [file for file in table.files() if file.path in rewrite]
        self.evolution = Evolution(table.schema, target, [], {}, {}, chosen, convert)
        self.staged = make.staged(table, self.evolution, self.versions)

    def prove(self) -> Any:
        return prove_staged(self.table, self.staged, self.evolution, self.versions)


@pytest.fixture(params=["none", "some", "all"])
def staging(request: Any, make: Any, table: Any) -> Staging:
    rewrite = {"none": [], "some": ["one", "three"], "all": ["one", "two", "three"]}[request.param]
    return Staging(make, table, rewrite)


def only(result: Any) -> Any:
    assert len(result.mismatches) == 1, [str(m) for m in result.mismatches]
    assert not result.ok
    return result.mismatches[0]


def test_a_right_evolution_is_proved(staging: Staging) -> None:
    result = staging.prove()
    assert result.ok, [str(m) for m in result.mismatches]
    assert result.rows == 18
    assert result.evidence.intact
    assert {p["path"] for p in result.evidence.predicates} == {"label", "qty", "country"}
    assert result.evidence.sources() == {f.path: f.sources for f in staging.staged.files}
    assert result.evidence.to_json()["to"]["version"] == 2


def test_progress_counts_the_live_files(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    seen: list[tuple[int, int]] = []
    given = (table, staging.staged, staging.evolution, staging.versions, table.files())
    prove_staged(*given, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_file_that_stays_and_reads_wrong_is_named(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    staging.staged.wrong = lambda path, part: make.spoil(part, 1, lambda r: r.update(qty=99)) if path == "two" else part
    found = only(staging.prove())
    assert (found.file, found.row, found.path) == ("two", 1, "qty")


@pytest.mark.parametrize("path", ["id", "label", "qty", "country"])
def test_one_changed_value_in_a_staged_file_is_named(make: Any, table: Any, path: str) -> None:
    staging = Staging(make, table, ["one", "three"])
    data = table.rows["staged-three"]
    table.rows["staged-three"] = make.spoil(data, 4, lambda r: r.update({path: {"id": 99, "qty": 0.5}.get(path, "x")}))
    result = staging.prove()
    first = [m for m in result.mismatches if m.file == "staged-three"]
    assert [(m.row, m.path) for m in first] == [(4, path)]
    assert not result.ok


@pytest.mark.parametrize("lost", [0, 3, 5])
def test_a_row_that_a_staged_file_lacks_is_named_by_its_source(make: Any, table: Any, lost: int) -> None:
    staging = Staging(make, table, ["one", "three"])
    table.rows["staged-three"] = make.without_rows(table.rows["staged-three"], lost)
    result = staging.prove()
    assert ("three", lost, "missing") in {(m.file, m.row, m.kind) for m in result.mismatches}


def test_a_row_that_a_staged_file_has_twice_is_named(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    data = table.rows["staged-one"]
    table.rows["staged-one"] = pa.concat_tables([data, data.slice(2, 1)])
    result = staging.prove()
    assert ("staged-one", 7, "doubled") in {(m.file, m.row, m.kind) for m in result.mismatches}


def test_a_source_that_no_staged_file_was_made_from_loses_its_rows(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one", "two"])
    staging.staged.files.pop()
    result = staging.prove()
    assert {m.file for m in result.mismatches if m.kind == "missing"} == {"two"}


def test_staged_files_that_share_sources_are_compared_together(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one", "two"])
    first, second = staging.staged.files
    whole = pa.concat_tables([table.rows[first.path], table.rows[second.path]])
    table.rows[first.path], table.rows[second.path] = whole.slice(0, 3), whole.slice(3)
    staging.staged.files = [replace(f, sources=("one", "two")) for f in (first, second)]
    assert staging.prove().ok
    table.rows[second.path] = make.spoil(table.rows[second.path], 2, lambda r: r.update(country="XX"))
    assert (second.path, 2, "country") in {(m.file, m.row, m.path) for m in staging.prove().mismatches}


def test_the_order_of_a_rewrite_counts_where_order_is_kept(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    table.rows["staged-one"] = table.rows["staged-one"].take(pa.array([1, 0, 2, 3, 4, 5, 6]))
    assert staging.prove().ok == (not table.ordered)


def test_a_staged_file_of_an_unknown_source_is_a_mismatch(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    staging.staged.files = [replace(staging.staged.files[0], sources=("one", "two"))]
    assert not staging.prove().ok


def test_a_staged_file_that_cannot_be_read_is_named(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    del table.rows["staged-one"]
    result = staging.prove()
    assert any(m.file == "staged-one" and m.kind == "unreadable" for m in result.mismatches)


def test_a_filter_that_loses_rows_of_the_staged_table_is_found(make: Any, table: Any) -> None:
    staging = Staging(make, table, ["one"])
    table.wrong_filtered = lambda predicate, part: part.slice(0, 0) if predicate.path == "country" else part
    result = staging.prove()
    assert not result.ok
    assert {m.path for m in result.mismatches} == {"country"}


# --- the repetition of a rewrite's proof


@pytest.fixture
def rewritten(make: Any, table: Any) -> Any:
    table.evolve(make.schema(*TARGET), rewrite=True)
    table.append([{"id": 30, "label": "late", "qty": 1.0, "country": "FR"}], "late")
    return table


def test_a_right_rewrite_is_proved_again(rewritten: Any) -> None:
    result = verify(rewritten, full=True)
    assert result.ok
    assert result.evidence.oracle["rewrites"] == [
        {"version": 2, "sources": 3, "produced": 3, "groups": 1, "rows": 18, "verdict": "equal"}
    ]


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("path", ["id", "label", "qty", "country"])
def test_one_value_changed_in_a_file_that_a_rewrite_produced_is_found(
    make: Any, rewritten: Any, path: str, mapped: bool
) -> None:
    evidence = verify(rewritten).evidence
    sources = {f"{name}.v2": (name,) for name in ("one", "two", "three")}
    evidence = replace(evidence, files=[replace(f, sources=sources.get(f.path, ())) for f in evidence.files])
    data = rewritten.rows["two.v2"]
    rewritten.rows["two.v2"] = make.spoil(data, 3, lambda r: r.update({path: {"id": 99, "qty": 0.5}.get(path, "x")}))
    # Raw and read agree, so only the state before the rewrite can tell.
    assert verify(rewritten).ok
    found = only(verify(rewritten, full=True, evidence=(evidence,) if mapped else ()))
    assert (found.file, found.row, found.path) == ("two.v2", 3, path)


def test_a_row_lost_by_a_rewrite_is_found_later(make: Any, rewritten: Any) -> None:
    rewritten.rows["one.v2"] = make.without_rows(rewritten.rows["one.v2"], 4)
    lost, counted = verify(rewritten, full=True).mismatches
    assert (lost.file, lost.row, lost.kind) == ("one", 4, "missing")
    assert (counted.file, counted.kind) == ("one.v2", "count")
    # A rewrite that wrote a row less counted a row less.
    rewritten.states[-1] = [replace(f, rows=f.rows - (f.path == "one.v2")) for f in rewritten.states[-1]]
    found = only(verify(rewritten, full=True))
    assert (found.file, found.row, found.kind) == ("one", 4, "missing")


def test_a_previous_state_that_is_gone_is_said_and_no_mismatch(rewritten: Any) -> None:
    del rewritten.rows["two"]
    result = verify(rewritten, full=True)
    assert result.ok
    assert "the state before it is gone" in result.notes[0]
    assert result.evidence.oracle["rewrites"][0]["verdict"] == "not-repeated"


def test_each_of_several_rewrites_is_proved(make: Any, rewritten: Any) -> None:
    third = [*TARGET[:3], {"name": "country", "type": ["null", "string"], "default": None}]
    rewritten.evolve(make.schema(*third), rewrite=True)
    data = rewritten.rows["three.v2"]
    assert verify(rewritten, full=True).ok
    rewritten.rows["three.v2.v3"] = make.spoil(rewritten.rows["three.v2.v3"], 0, lambda r: r.update(label="x"))
    found = only(verify(rewritten, full=True))
    assert (found.file, found.row, found.path) == ("three.v2.v3", 0, "label")
    assert data.num_rows == 6


# --- preconditions

DEEP = (
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {
        "name": "box",
        "type": [
            "null",
            {
                "type": "record",
                "name": "Box",
                "fields": [
                    {"name": "zip", "type": ["null", "string"], "default": None},
                    {
                        "name": "state",
                        "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD", "HELD"], "default": "NEW"},
                    },
                ],
            },
        ],
        "default": None,
    },
    {"name": "lines", "type": {"type": "array", "items": ["null", "Box"]}},
    {"name": "map", "type": {"type": "map", "values": ["null", "string"]}},
    {"name": "payload", "type": ["null", "string", "long", "Box"], "default": None},
)


@pytest.fixture
def deep(make: Any) -> Any:
    table = make.table([make.version(1, make.schema(*DEEP))])
    box = {"zip": "z", "state": "NEW"}
    none = {"string": None, "long": None, "Box": None}
    base = {"id": 1, "note": "n", "box": box, "lines": [box], "map": [("k", "v")], "payload": {**none, "string": "s"}}
    table.append([base, {**base, "box": None, "lines": [], "map": []}], "clean")
    table.append(
        [
            base,
            {**base, "note": None},
            {**base, "box": {"zip": None, "state": "OLD"}, "payload": {**none, "Box": {"zip": None, "state": "HELD"}}},
            {**base, "lines": [box, {"zip": None, "state": "OLD"}, {"zip": None, "state": "OLD"}, None]},
            {**base, "map": [("k", "v"), ("j", None)], "payload": {**none, "long": 5}},
            {**base, "payload": None},
        ],
        "dirty",
    )
    return table


@pytest.mark.parametrize(
    ("change", "precondition", "count", "first"),
    [
        (MakeRequired("note", True), "no-nulls", 1, 1),
        (MakeRequired("box", True), "no-nulls", 1, 1),
        (MakeRequired("box.zip", True), "no-nulls", 1, 2),
        (MakeRequired("lines[]", True), "no-nulls", 1, 3),
        (MakeRequired("lines[].zip", True), "no-nulls", 1, 3),
        (MakeRequired("map{}", True), "no-nulls", 1, 4),
        (MakeRequired("payload<Box>.zip", True), "no-nulls", 1, 2),
        (DropSymbol("box.state", "OLD", 1), "symbol-unused", 1, 2),
        (DropSymbol("lines[].state", "OLD", 1), "symbol-unused", 1, 3),
        (DropSymbol("payload<Box>.state", "HELD", 2), "symbol-unused", 1, 2),
        (DropBranch("payload", Primitive("long"), 2), "branch-unused", 1, 4),
        (DropBranch("payload", NULL, 0), "branch-unused", 1, 5),
    ],
)
def test_rows_that_stand_against_a_step_are_counted_and_the_first_named(
    deep: Any, change: Any, precondition: Any, count: int, first: int
) -> None:
    found = check_preconditions(deep, [(change, precondition)])
    assert [(b.path, b.rows, b.row) for b in found] == [(change.path, count, first)]
    assert found[0].file == ("clean" if change.path == "box" else "dirty")
    assert found[0].where == f"{found[0].file}, row {first}"
    assert f"in {count} row" in found[0].message
    assert found[0].to_json()["rows"] == count


def test_clean_rows_meet_every_precondition(deep: Any) -> None:
    files = [f for f in deep.files() if f.path == "clean"]
    checks = [
        (MakeRequired("note", True), "no-nulls"),
        (MakeRequired("box.zip", True), "no-nulls"),
        (DropSymbol("lines[].state", "OLD", 1), "symbol-unused"),
        (DropBranch("payload", Primitive("long"), 2), "branch-unused"),
    ]
    assert check_preconditions(deep, checks, files) == ()


def test_paths_follow_renames_back_to_what_the_table_has(make: Any, deep: Any) -> None:
    target = make.schema(DEEP[0], {"name": "remark", "type": "string", "aliases": ["note"]}, *DEEP[2:])
    found = check_preconditions(deep, [(MakeRequired("remark", True), "no-nulls")], hint=target)
    assert [(b.path, b.rows) for b in found] == [("note", 1)]
    plain = make.schema(DEEP[0], {"name": "remark", "type": "string"}, *DEEP[2:])
    found = check_preconditions(
        deep, [(MakeRequired("remark", True), "no-nulls")], target=plain, renames={"remark": "note"}
    )
    assert [(b.path, b.rows) for b in found] == [("note", 1)]


def test_a_step_whose_values_have_to_resolve_counts_each_row_that_does_not(make: Any, deep: Any) -> None:
    target = make.schema(DEEP[0], {"name": "note", "type": "string"}, *DEEP[2:])
    found = check_preconditions(deep, [(MakeRequired("note", True), "resolves")], hint=target)
    assert [(b.rows, b.file, b.row) for b in found] == [(1, "dirty", 1)]


def test_what_cannot_be_checked_is_an_error_and_not_met(deep: Any) -> None:
    with pytest.raises(PlanError, match="no column"):
        check_preconditions(deep, [(MakeRequired("gone", True), "no-nulls")])
    deep.damaged.add("dirty")
    with pytest.raises(TableError, match="cannot be read"):
        check_preconditions(deep, [(MakeRequired("note", True), "no-nulls")])
