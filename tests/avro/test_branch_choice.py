"""Which branch of a union a value goes to: one answer for diffs and for readers."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.avro.nodes import FromUnion, ToBranch
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.model.branches import pair_branches
from lakeevolve.model.change import RenameType
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Union

NAMES = ("a.X", "b.X", "c.X", "X", "a.Y", "b.Y")
PLAIN = ("null", "int", "long", "float", "double", "string", "bytes", "boolean")


def record(name: str, *aliases: str) -> dict[str, Any]:
    # A leading dot keeps an alias without a namespace from getting one.
    spelt = [alias if "." in alias else f".{alias}" for alias in aliases]
    return {"type": "record", "name": name, "namespace": "", "fields": [], "aliases": spelt}


@st.composite
def unions(draw: st.DrawFn) -> list[Any]:
    branches: list[Any] = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        others = [other for other in (*NAMES, "d.Z") if other != name]
        made = record(name, *draw(st.lists(st.sampled_from(others), unique=True, max_size=2)))
        kind = draw(st.sampled_from(["record", "record", "enum", "fixed"]))
        rest = {"record": {"fields": []}, "enum": {"symbols": ["S"]}, "fixed": {"size": 1}}[kind]
        branches.append({**{k: v for k, v in made.items() if k != "fields"}, "type": kind, **rest})
    branches += draw(st.lists(st.sampled_from(PLAIN), unique=True, max_size=3))
    branches += draw(st.lists(st.sampled_from(["array", "map"]), unique=True, max_size=1).map(_containers))
    return draw(st.permutations(branches))


def _containers(kinds: list[str]) -> list[Any]:
    return [{"type": kind, "items" if kind == "array" else "values": "int"} for kind in kinds]


def chosen(old: Schema, new: Schema) -> dict[int, int]:
    """The reader's branch by the writer's, where the values can be read."""
    root = resolve(old, new).root
    assert isinstance(root, FromUnion)
    return {i: how.index for i, how in enumerate(root.branches) if isinstance(how, ToBranch)}


@settings(max_examples=200, derandomize=True, deadline=None)
@given(unions(), unions())
def test_a_diff_pairs_no_branches_but_those_that_a_reader_pairs(old: list[Any], new: list[Any]) -> None:
    was, now = parse(old), parse(new)
    assert isinstance(was.root, Union)
    assert isinstance(now.root, Union)
    read = chosen(was, now)
    for j, i in pair_branches(was.root.branches, now.root.branches, {}).items():
        assert read.get(i, j) == j


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_alias_goes_before_the_unqualified_name_of_another_branch(order: tuple[int, int]) -> None:
    branches = [record("c.Y", "a.X"), record("b.X")]
    old, new = parse([record("a.X"), record("b.X")]), parse([branches[at] for at in order])
    assert chosen(old, new) == {0: order.index(0), 1: order.index(1)}
    assert [change for change in diff(old, new).changes if isinstance(change, RenameType)] == [
        RenameType("<a_X>", "a.X", "c.Y", after="<Y>")
    ]


def test_a_full_name_goes_before_another_branch_s_alias() -> None:
    old, new = parse([record("a.X"), "null"]), parse([record("c.Y", "a.X"), record("a.X"), "null"])
    assert chosen(old, new)[0] == 1


def test_of_two_branches_that_become_one_the_closest_continues_it() -> None:
    old, new = parse([record("a.X"), record("b.X")]), parse([record("c.X", "b.X"), "int"])
    assert chosen(old, new) == {0: 0, 1: 0}
    assert isinstance(old.root, Union)
    assert isinstance(new.root, Union)
    assert pair_branches(old.root.branches, new.root.branches, {}) == {0: 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_fastavro_takes_the_first_of_them_and_avro_python_none(order: tuple[int, int]) -> None:
    """What the documentation says of others, where one branch has an alias and another the unqualified name."""

    def named(name: str, mark: str, *aliases: str) -> dict[str, Any]:
        fields = [{"name": "v", "type": "int"}, {"name": "mark", "type": "string", "default": mark}]
        return {"type": "record", "name": name, "aliases": list(aliases), "fields": fields}

    branches = [named("b.X", "unqualified"), named("c.Y", "alias", "a.X")]
    writer = {"type": "record", "name": "a.X", "fields": [{"name": "v", "type": "int"}]}
    reader = [branches[at] for at in order]
    assert resolve(parse(writer), parse(reader)).root == ToBranch(
        parse(reader).root,  # type: ignore[arg-type]
        order.index(1),
        resolve(parse(writer), parse(branches[1])).root,
    )
    first = fastavro.schemaless_reader(
        io.BytesIO(b"\x02"), fastavro.parse_schema(writer), fastavro.parse_schema(reader), return_named_type=False
    )
    assert first["mark"] == ("unqualified", "alias")[order[0]]
    avro_schema, avro_io = pytest.importorskip("avro.schema"), pytest.importorskip("avro.io")
    decoder = avro_io.DatumReader(avro_schema.parse(json.dumps(writer)), avro_schema.parse(json.dumps(reader)))
    with pytest.raises(avro_io.avro.errors.SchemaResolutionException):
        decoder.read(avro_io.BinaryDecoder(io.BytesIO(b"\x02")))
