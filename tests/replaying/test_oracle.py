"""fastavro's second opinion: it agrees on what is right, and what our own fold and the table's reader both get wrong
is found by it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.avro.container.oracle import Chain, Unasked, agrees
from lakeevolve.avro.resolution import resolve
from lakeevolve.replaying import fold as folding
from lakeevolve.replaying.verify import verify

ID = {"name": "id", "type": "long"}


def optional(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, **more}


@pytest.fixture
def table(make: Any) -> Any:
    found = make.table([make.version(1, make.schema(ID, optional("n", "int"), optional("name", "string")))])
    found.append([{"id": i, "n": i, "name": f"n{i}"} for i in range(20)], "one")
    found.evolve(make.schema(ID, optional("n", "double"), optional("label", "string", aliases=["name"])))
    found.append([{"id": 30, "n": 0.5, "label": "x"}], "two")
    return found


def test_it_agrees_and_evidence_says_so(table: Any) -> None:
    result = verify(table)
    assert result.ok
    said = result.evidence.oracle["fastavro"]
    assert (said["verdict"], said["rows"]) == ("agrees", {"backward": 8})
    assert said["version"]
    assert verify(table, oracle=False).evidence.oracle["fastavro"] is None


@pytest.mark.parametrize("spoiled", ["n", "label"])
def test_a_fold_that_is_wrong_is_found_though_the_table_agrees_with_it(
    table: Any, monkeypatch: pytest.MonkeyPatch, spoiled: str
) -> None:
    right = folding.execute

    def wrong(resolution: Any, batch: pa.RecordBatch, **more: Any) -> pa.RecordBatch:
        made = right(resolution, batch, **more)
        at = made.schema.get_field_index(spoiled)
        if at < 0:
            return made
        rows = [None if v is None else v + (1 if spoiled == "n" else "!") for v in made.column(at).to_pylist()]
        return made.set_column(at, made.schema.field(at), pa.array(rows, made.column(at).type))

    monkeypatch.setattr(folding, "execute", wrong)
    result = verify(table)
    # Table and fold are wrong alike, and only the oracle can tell.
    assert {m.reader for m in result.mismatches} == {"fastavro"}
    assert {(m.file, m.path) for m in result.mismatches} == {("one", spoiled)}
    assert len(result.mismatches) == 8
    assert result.evidence.oracle["fastavro"]["verdict"] == "differs"


SHAPES = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 3},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
             "default": "\u0001"},
            {"name": "raw", "type": "bytes", "default": "\u00ff"},
            {"name": "small", "type": "float", "default": 0.1},
            {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}, "default": {"a": 1}},
            {"name": "either", "type": ["string", "long"], "default": "x"},
            {"name": "inner", "type": {"type": "record", "name": "I", "fields": [
                {"name": "x", "type": "int", "default": 1}]}, "default": {}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1},
        ],
    }
)  # fmt: skip


def test_known_faults_of_fastavro_are_put_right() -> None:
    empty = le.load('{"type": "record", "name": "R", "fields": []}')
    full = le.load(SHAPES)
    ours = resolve(empty, full).to_arrow(pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([]))))
    theirs = Chain([empty, full]).read({})
    assert agrees(full.root, ours.to_pylist()[0], theirs) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("day", None), ("amount", None), ("raw", b""), ("small", 0.25), ("tags", [("a", 2)]), ("either", {"string": "y"})],
)
def test_another_value_is_another_value(name: str, value: Any) -> None:
    empty = le.load('{"type": "record", "name": "R", "fields": []}')
    full = le.load(SHAPES)
    ours = resolve(empty, full).to_arrow(pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))).to_pylist()[0]
    wrong = agrees(full.root, {**ours, name: value}, Chain([empty, full]).read({}))
    assert wrong is not None
    assert wrong.startswith(f".{name}")


def test_what_cannot_be_asked_is_said_without_a_value() -> None:
    schema = le.load('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}')
    with pytest.raises(Unasked) as caught:
        Chain([schema, schema]).read({"n": "secret"})
    assert "secret" not in str(caught.value)


def test_a_union_whose_order_misleads_fastavro_is_not_asked_about() -> None:
    def schema(*branches: str) -> Any:
        return le.load({"type": "record", "name": "R", "fields": [{"name": "u", "type": list(branches)}]})

    with pytest.raises(Unasked, match="wider branch"):
        Chain([schema("int", "string"), schema("string", "double", "int")])
    assert Chain([schema("int", "string"), schema("string", "int", "double")]).read(
        {"u": {"int": 1, "string": None}}
    ) == {"u": 1}
