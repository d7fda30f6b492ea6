"""What pages draw of schemas: the tree of two, the matrix of versions, consumers; and how much of it at the most."""

from __future__ import annotations

import time
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.report import html as pages
from lakeevolve.report import outcome as outcomes
from lakeevolve.report.html import html
from lakeevolve.report.outcome import Background, Known, Outcome
from lakeevolve.report.views import ROWS, VERSIONS, matrix, tree


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    keys = ("name", "type", "default", "aliases")
    return {
        "type": "record",
        "name": name,
        "fields": [{key: value for key, value in zip(keys, each, strict=False) if value != ...} for each in fields],
    }


def shown(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str | None, str, str | None]]:
    rows, _ = tree(le.diff(old, new))
    return [(r.before and r.before.path, r.sign, r.after and r.after.path) for r in rows]


def test_each_field_stands_beside_what_it_was() -> None:
    inner_old = record(("zip", "int"), ("city", "string"), ("box", "int"), name="A")
    inner_new = record(("code", "long", ..., ["zip"]), ("city", "string"), ("land", "string", ""), name="A")
    old = record(("id", "int"), ("gone", "string"), ("at", inner_old), ("tags", {"type": "array", "items": "int"}))
    new = record(
        ("id", "int"), ("place", inner_new, ..., ["at"]), ("tags", {"type": "array", "items": "long"}), ("x", "int", 1)
    )
    assert shown(old, new) == [
        ("id", "", "id"),
        ("gone", "-", None),
        ("at", ">", "place"),
        ("at.zip", ">", "place.code"),
        ("at.city", "", "place.city"),
        ("at.box", "-", None),
        (None, "+", "place.land"),
        ("tags", "~", "tags"),
        (None, "+", "x"),
    ]


def test_a_drop_inside_of_a_renamed_record_is_told_at_its_own_row() -> None:
    old = record(("at", record(("x", "int"), ("y", "int"), name="A")))
    new = record(("place", record(("x", "int"), name="A"), ..., ["at"]))
    rows, _ = tree(le.diff(old, new))
    (gone,) = [row for row in rows if row.after is None]
    assert [sentence for sentence in gone.changes if "dropped" in sentence]


def test_every_change_is_told_in_the_tree() -> None:
    old = record(("a", "int"), ("b", ["null", "int"], None), ("c", {"type": "map", "values": "int"}), ("d", "string"))
    new = record(
        ("d", "string", "x"), ("a2", "long", ..., ["a"]), ("b", "int"), ("c", {"type": "map", "values": "long"})
    )
    diff = le.diff(old, new)
    rows, _ = tree(diff)
    told = [sentence for row in rows for sentence in row.changes]
    assert len(told) == len({change.path + type(change).__name__ for change in diff.changes})


def test_two_names_that_change_places_are_paired_as_the_aliases_say() -> None:
    old = record(("a", "int"), ("b", "string"))
    new = record(("a", "string", ..., ["b"]), ("b", "int", ..., ["a"]))
    assert shown(old, new) == [("b", ">", "a"), ("a", ">", "b")]


def test_of_a_wide_schema_what_did_not_change_is_left_out_and_counted() -> None:
    fields = [(f"f{n}", "int") for n in range(2_000)]
    old = record(*fields, ("s", record(("x", "int"), ("y", "int"), name="S")))
    new = record(*fields, ("s", record(("x", "long"), ("y", "int"), name="S")))
    rows, left = tree(le.diff(old, new))
    assert [row.after.path for row in rows if row.after] == ["s", "s.x"]
    assert left == 2_001
    assert "2,001 fields that did not change are left out" in html(outcomes.of_diff(le.diff(old, new)))
    small, none = tree(le.diff(record(("a", "int")), record(("a", "long"))))
    assert (len(small), none) == (1, 0)
    assert ROWS < 2_000


def test_the_matrix_says_who_reads_whom_and_why_not() -> None:
    schemas = [record(("a", "int")), record(("a", "long")), record(("a", ["null", "long"], None))]
    known = [Known(f"v{n}", le.load(each)) for n, each in enumerate(schemas, 1)]
    found = [[cell.verdict for cell in row] for row in matrix(known)]
    assert found == [
        ["itself", "cannot", "cannot"],
        ["reads", "itself", "if rows allow"],
        ["reads", "reads", "itself"],
    ]
    assert matrix(known)[0][1].why.startswith("a: ")


def test_more_versions_than_a_page_holds_are_counted() -> None:
    history = [record(("a", "int"), *((f"f{n}", "int", 0) for n in range(count))) for count in range(VERSIONS + 5)]
    text = html(outcomes.of_check(le.check(history[-1], history[:-1], mode="BACKWARD_TRANSITIVE")))
    assert "5 earlier versions are left out" in text
    assert text.count('<th scope="row">') == VERSIONS


def test_names_and_defaults_of_a_schema_are_never_markup() -> None:
    evil = "<img src=x onerror=alert(1)>"
    old, new = record(("a", "string", evil)), record(("a", "string", f"{evil}&"), ("b", "string", evil))
    assert "<img" not in html(outcomes.of_diff(le.diff(old, new)))


def test_consumers_are_told_with_what_breaks_them() -> None:
    contracts = [
        {"contract": "billing", "owner": "finance", "fields": [{"path": "a"}]},
        {"contract": "other", "fields": [{"path": "b"}], "accepts": [1]},
    ]
    old, new = record(("a", "int"), ("b", "int")), record(("b", "int"))
    text = html(outcomes.of_check(le.check(new, [old], contracts=contracts)))
    assert "CONTRACT-FIELD-GONE a" in text
    assert "<td>finance</td><td>a</td><td>every version</td>" in text
    assert "<td>other</td>" in text


def test_the_schemas_of_so_many_parts_are_drawn_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PARTS", 2)
    versions = (Known("one", le.load(record(("a", "int")))), Known("two", le.load(record(("a", "long")))))
    parts = tuple(
        Outcome("check", {"rollout": []}, str, f"part {n}", background=lambda: Background(versions)) for n in range(5)
    )
    text = html(Outcome("project", {}, str, "t", parts=parts))
    assert text.count('class="matrix"') == 2
    assert "The schemas of 3 more parts are left out" in text


def test_a_page_of_a_wide_schema_takes_no_more_than_seconds() -> None:
    fields = [(f"f{n}", "int") for n in range(1_000)]
    old = record(*fields)
    new = record(*((f"g{n}", "int", 0) for n in range(1_000)))
    diff = le.diff(old, new)
    began = time.process_time()
    text = html(outcomes.of_diff(diff))
    assert time.process_time() - began < 5
    assert text.count('class="sign dropped"') == 1_000
