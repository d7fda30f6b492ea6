"""The Avro rule: what is read from where, what stands against it, and how it is told."""

from __future__ import annotations

import copy
import json
import pickle
import random
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.nodes import (
    Again,
    Fail,
    Fields,
    FillField,
    FromUnion,
    Incompatibility,
    Items,
    Keep,
    Promote,
    ReadField,
    Symbols,
    ToBranch,
    Values,
)
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import Explanation, Resolution, resolve
from lakeevolve.errors import ResolutionError, ValueMismatch
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import NULL, PROMOTIONS, Primitive, Record, Union
from lakeevolve.testing import evolutions, schemas

PROPERTY = settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def res(writer: Any, reader: Any, *how: Any, **more: Any) -> Resolution:
    return resolve(parse(writer), parse(reader), *how, **more)


def faults(resolution: Resolution) -> list[tuple[str, str, str]]:
    return [(i.kind, i.location, i.path) for i in resolution.incompatibilities]


def only(resolution: Resolution) -> Incompatibility:
    (found,) = resolution.incompatibilities
    return found


def sources(resolution: Resolution) -> dict[str, str | None]:
    """Per field of the reader, the writer's field."""
    root = resolution.root
    assert isinstance(root, Fields)
    return {
        part.field.name: root.writer.fields[part.index].name if isinstance(part, ReadField) else None
        for part in root.fields
    }


# Promotions


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_primitives_are_kept_promoted_or_refused(writer: str, reader: str) -> None:
    found = res(writer, reader)
    if writer == reader:
        assert found.root == Keep(parse(reader).root)
    elif reader in PROMOTIONS.get(writer, ()):
        assert found.root == Promote(parse(writer).root, parse(reader).root)
    else:
        assert isinstance(found.root, Fail)
        assert only(found).kind == "TYPE_MISMATCH"
        assert not only(found).value_level
    assert found.compatible == (writer == reader or reader in PROMOTIONS.get(writer, ()))


def test_promotion_reaches_into_arrays_maps_records_and_unions() -> None:
    writer = record(field("a", array({"type": "map", "values": "int"})), field("u", ["null", "float"]))
    reader = record(field("a", array({"type": "map", "values": "double"})), field("u", ["double", "null"]))
    root = res(writer, reader).root
    assert isinstance(root, Fields)
    items, union = (part.node for part in root.fields if isinstance(part, ReadField))
    assert isinstance(items, Items)
    assert isinstance(items.node, Values)
    assert items.node.node == Promote(Primitive("int"), Primitive("double"))
    assert isinstance(union, FromUnion)
    optional = Union((Primitive("double"), NULL))
    assert union.branches == (
        ToBranch(optional, 1, Keep(NULL)),
        ToBranch(optional, 0, Promote(Primitive("float"), Primitive("double"))),
    )


# Records


def test_fields_are_matched_by_name_filled_and_skipped() -> None:
    found = res(
        record(field("gone", "int"), field("id", "long")),
        record(field("new", "string", default="x"), field("id", "long"), field("opt", ["null", "int"], default=None)),
    )
    assert found.compatible
    root = found.root
    assert isinstance(root, Fields)
    new, id_, opt = root.fields
    assert isinstance(new, FillField)
    assert (new.value, new.null) == ("x", False)
    assert isinstance(id_, ReadField)
    assert id_.index == 1
    assert isinstance(opt, FillField)
    assert opt.value is None
    assert root.skipped == (0,)


def test_a_field_without_a_source_and_without_a_default_is_missing_even_if_it_is_nullable() -> None:
    found = res(record(), record(field("a", ["null", "int"])))
    assert faults(found) == [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "a")]
    assert only(found).message == "a"


def test_all_incompatibilities_are_listed_in_the_order_of_the_reader() -> None:
    writer = record(
        field("a", "string"), field("e", enum("A", "B", "C")), field("f", {"type": "fixed", "name": "F", "size": 4})
    )
    reader = record(
        field("n", "int"),
        field("a", array("int")),
        field("e", enum("B")),
        field("f", {"type": "fixed", "name": "G", "size": 8}),
        name="S",
    )
    assert [(i.kind, i.location, i.path, i.message) for i in res(writer, reader).incompatibilities] == [
        ("NAME_MISMATCH", "/name", "", "expected: R"),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "n", "n"),
        ("TYPE_MISMATCH", "/fields/1/type", "a", "reader type: ARRAY not compatible with writer type: STRING"),
        ("MISSING_ENUM_SYMBOLS", "/fields/2/type/symbols", "e", "[A, C]"),
        ("NAME_MISMATCH", "/fields/3/type/name", "f", "expected: F"),
        ("FIXED_SIZE_MISMATCH", "/fields/3/type/size", "f", "expected: 4, found: 8"),
    ]


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        # plain aliases
        ([("a",)], [("x", "a")], {"x": "a"}),
        ([("a",)], [("x", "b", "a")], {"x": "a"}),
        # a field's own name goes before another field's alias
        ([("a",)], [("a",), ("x", "a")], {"a": "a", "x": None}),
        ([("a",), ("b",)], [("a", "b"), ("b",)], {"a": "a", "b": "b"}),
        # of two that claim one field, the first gets it
        ([("a",)], [("x", "a"), ("y", "a")], {"x": "a", "y": None}),
        # a swap, a shift along three, and both once they have happened
        ([("a",), ("b",)], [("a", "b"), ("b", "a")], {"a": "b", "b": "a"}),
        ([("a",), ("b",), ("c",)], [("b", "a"), ("c", "b"), ("d", "c")], {"b": "a", "c": "b", "d": "c"}),
        ([("a", "b"), ("b", "a")], [("a", "b"), ("b", "a")], {"a": "a", "b": "b"}),
        ([("b", "a"), ("a",)], [("b", "a"), ("a",)], {"b": "b", "a": "a"}),
        ([("b", "a"), ("a",)], [("b", "a")], {"b": "b"}),
        # an alias of the writer matches nothing
        ([("x", "a")], [("a",)], {"a": None}),
        # names are matched letter by letter
        ([("A",)], [("a", "α")], {"a": None}),
    ],
)
def test_aliases_rewrite_the_writer(writer: Any, reader: Any, expected: dict[str, str | None]) -> None:
    def made(side: list[tuple[str, ...]]) -> Schema:
        fields = [field(name, "int", aliases=list(aliases), default=0) for name, *aliases in side]
        return parse(record(*fields), lenient=True)

    found = resolve(made(writer), made(reader))
    assert found.compatible
    assert sources(found) == expected


@pytest.mark.parametrize(
    ("writer", "reader"),
    [(("a", "b"), field("b", "int", aliases=["a"])), (("a", "b"), field("c", "int", aliases=["a", "b"], default=0))],
)
def test_two_fields_that_become_one_collide(writer: tuple[str, ...], reader: Any) -> None:
    found = res(record(*(field(name, "int") for name in writer)), record(reader))
    assert faults(found) == [("ALIAS_COLLISION", "/fields/0", reader["name"])]
    assert "a, b" in only(found).message
    assert not only(found).value_level


def test_a_default_is_judged_only_where_it_is_needed() -> None:
    wrong = field("a", "int", default="seven")
    assert res(record(field("a", "int")), record(wrong)).compatible
    found = res(record(), record(wrong))
    assert faults(found) == [("INVALID_DEFAULT", "/fields/0", "a")]
    assert only(found).message == "a: a text for int"
    assert res(record(), record(wrong), fills={"a": "null"}).compatible


def test_an_enums_own_default_is_none_for_its_field() -> None:
    found = res(record(), record(field("e", enum("A", default="A"))))
    assert faults(found) == [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "e")]


def test_an_error_is_a_record() -> None:
    assert res({**record(), "type": "error"}, record()).compatible


# Names


@pytest.mark.parametrize(
    ("writer", "reader", "compatible"),
    [
        ({"name": "A"}, {"name": "A", "namespace": "n"}, True),
        ({"name": "x.A"}, {"name": "y.A"}, True),
        ({"name": "A"}, {"name": "B"}, False),
        ({"name": "A"}, {"name": "a"}, False),
        ({"name": "A"}, {"name": "B", "aliases": ["A"]}, True),
        ({"name": "n.A"}, {"name": "n.B", "aliases": ["A"]}, True),
        ({"name": "A"}, {"name": "n.B", "aliases": ["A"]}, False),
        ({"name": "o.A"}, {"name": "n.B", "aliases": ["A"]}, False),
        ({"name": "o.A"}, {"name": "n.B", "aliases": ["o.A"]}, True),
        ({"name": "B", "aliases": ["A"]}, {"name": "A"}, False),
    ],
)
@pytest.mark.parametrize(
    "kind",
    [{"type": "record", "fields": []}, {"type": "enum", "symbols": ["S"]}, {"type": "fixed", "size": 2}],
    ids=["record", "enum", "fixed"],
)
def test_named_types_match_by_short_name_or_full_alias(
    writer: Any, reader: Any, compatible: bool, kind: dict[str, Any]
) -> None:
    found = res({**kind, **writer}, {**kind, **reader})
    assert faults(found) == ([] if compatible else [("NAME_MISMATCH", "/name", "")])
    assert res(["null", {**kind, **writer}], ["null", {**kind, **reader}]).compatible == compatible


# Enums


def test_an_unknown_symbol_reads_as_the_enums_default() -> None:
    root = res(enum("A", "B", "C"), enum("C", "A", default="A")).root
    assert isinstance(root, Symbols)
    assert root.read_as == ("A", "A", "C")


def test_symbols_in_another_order_change_nothing() -> None:
    assert isinstance(res(enum("A", "B"), enum("B", "A", "C")).root, Keep)


def test_a_lost_symbol_concerns_some_values_unless_none_is_left() -> None:
    some = res(enum("A", "B"), enum("A"))
    assert only(some).value_level
    assert isinstance(some.root, Symbols)
    assert some.root.read_as == ("A", None)
    none = res(enum("A", "B"), enum("C"))
    assert not only(none).value_level


# Unions


@pytest.mark.parametrize(
    ("writer", "branches", "chosen"),
    [
        ("int", ["double", "int"], 1),
        ("int", ["null", "double", "long"], 1),
        ("long", ["int", "float", "double"], 1),
        ("string", ["bytes", "string"], 1),
        ("bytes", ["null", "string"], 1),
        ("null", ["int", "null"], 1),
        (array("int"), ["null", array("double")], 1),
        (enum("A", name="x.E"), [enum("A", name="y.E"), enum("A", name="x.E")], 1),
        (enum("A", name="z.E"), [enum("A", name="y.E"), enum("A", name="x.E")], 0),
        (record(name="Old"), [record(name="Other"), record(name="New", aliases=["Old"])], 1),
    ],
)
def test_a_branch_is_the_same_type_first_then_the_first_promotion(writer: Any, branches: Any, chosen: int) -> None:
    found = res(writer, branches)
    assert found.compatible
    assert isinstance(found.root, ToBranch)
    assert found.root.index == chosen


def test_a_branch_is_chosen_once_by_name_and_its_failure_is_final() -> None:
    """Another branch that would take the value by chance is not tried: a decoder would not try it either."""
    reader = [record(field("n", "int"), field("m", "int"), name="a.R"), record(field("n", "int"), name="b.R")]
    found = res(record(field("n", "int"), name="c.R"), reader)
    assert faults(found) == [("MISSING_UNION_BRANCH", "/", "")]
    assert [(c.kind, c.location, c.path) for c in only(found).causes] == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/0/fields/1", "<a_R>.m")
    ]


def test_records_of_one_shape_and_other_names_are_not_taken_for_each_other() -> None:
    found = res(["null", record(field("n", "int"), name="Ping")], ["null", record(field("n", "int"), name="Alpha")])
    assert faults(found) == [("MISSING_UNION_BRANCH", "/1", "")]
    assert only(found).message == "reader union lacking writer type: RECORD"
    assert [(c.kind, c.location, c.message) for c in only(found).causes] == [
        ("NAME_MISMATCH", "/1/name", "expected: Ping")
    ]


def test_the_causes_stand_under_the_branch_with_their_own_places() -> None:
    inner = record(field("zip", "int"), field("no", "string"), name="A")
    found = res(
        record(field("to", [inner, "null"])),
        record(field("to", ["null", record(field("zip", "string"), field("street", "string"), name="A")])),
    )
    assert faults(found) == [("MISSING_UNION_BRANCH", "/fields/0/type/0", "to")]
    assert [(c.kind, c.location, c.path) for c in only(found).causes] == [
        ("TYPE_MISMATCH", "/fields/0/type/1/fields/0/type", "to.zip"),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0/type/1/fields/1", "to.street"),
    ]


def test_reasons_of_our_own_are_not_hidden_behind_a_missing_branch() -> None:
    found = res(["null", logical("bytes", "decimal", precision=4)], ["null", logical("bytes", "decimal", precision=5)])
    assert faults(found) == [("LOGICAL_TYPE_MISMATCH", "/1", "")]
    found = res(["null", record()], ["null", record(field("a", "int", default="x"))])
    assert faults(found) == [("INVALID_DEFAULT", "/1/fields/0", "a")]


def test_a_union_of_several_branches_names_them_in_the_path() -> None:
    found = res([record(field("n", "string")), "int"], ["int", record(field("n", "int"))])
    assert only(found).causes[0].path == "<R>.n"


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        # nullable to required: rows without null can be read
        (["null", "int"], "int", [("/0", True)]),
        (["null", "int"], "long", [("/0", True)]),
        (["int", "null"], ["int", "string"], [("/1", True)]),
        # ... unless nothing else can
        (["null", "int"], "string", [("/0", False), ("/1", False)]),
        # a branch is gone
        (["null", "int", "string"], ["null", "int"], [("/2", True)]),
        (["int", "string"], "int", [("/1", True)]),
        (["int", "string"], "boolean", [("/0", False), ("/1", False)]),
        # T became another type: no values of an optional T are left to read
        (["null", "int"], ["null", "string"], [("/1", False)]),
        # a branch that is there and does not fit
        (["null", enum("A", "B")], ["null", enum("A")], [("/1", True)]),
        (["int", record(field("a", "int"))], ["int", record(field("a", "string"))], [("/1", False)]),
        ("int", ["null", "string"], [("/", False)]),
    ],
)
def test_what_concerns_some_values_only_is_marked(writer: Any, reader: Any, expected: list[tuple[str, bool]]) -> None:
    assert [(i.location, i.value_level) for i in res(writer, reader).incompatibilities] == expected


def test_empty_unions() -> None:
    assert res([], "int").compatible
    assert res([], []).compatible
    assert faults(res("int", [])) == [("MISSING_UNION_BRANCH", "/", "")]


# Recursive types


def cell(*more: Any, value: Any = "int", name: str = "Cell", **attributes: Any) -> dict[str, Any]:
    return record(field("value", value), field("next", ["null", name]), *more, name=name, **attributes)


def test_a_recursive_type_refers_back_to_itself() -> None:
    found = res(cell(), cell(value="long"))
    assert found.compatible
    root = found.root
    assert isinstance(root, Fields)
    following = root.fields[1]
    assert isinstance(following, ReadField)
    assert isinstance(following.node, FromUnion)
    branch = following.node.branches[1]
    assert isinstance(branch, ToBranch)
    assert (branch.index, branch.node) == (1, Again("Cell", "Cell"))


def test_a_fault_in_a_recursive_type_is_told_once() -> None:
    assert faults(res(cell(value="string"), cell())) == [("TYPE_MISMATCH", "/fields/0/type", "value")]
    assert faults(res(cell(name="Node"), cell())) == [("NAME_MISMATCH", "/name", "")]


def test_a_reader_may_unroll_a_recursive_type() -> None:
    unrolled = record(field("value", "int"), field("next", ["null", cell(namespace="y")]), name="x.Cell")
    assert res(cell(), unrolled).compatible
    assert res(unrolled, cell()).compatible


Graph = dict[str, list[tuple[str, str]]]


def graph(types: Graph) -> Schema:
    """Records that refer to each other in any way, each defined where it is met first, and a root that uses each."""
    done: set[str] = set()

    def node(name: str) -> Any:
        if name in done:
            return name
        done.add(name)
        made = [field(n, t if t in ("int", "string") else ["null", node(t)]) for n, t in types[name]]
        return record(*made, name=name)

    return parse(record(*(field(name, node(name)) for name in types), name="Top"))


def readable_from(start: str, writer: Graph, reader: Graph) -> bool:
    """The verdict on one type by walking all pairs that can be reached: nothing is assumed, nothing is kept."""
    todo, seen = [start], {start}
    while todo:
        name = todo.pop()
        have = dict(writer[name])
        for field_name, type_ in reader[name]:
            if have.get(field_name) != type_:
                return False
            if type_ in reader and type_ not in seen:
                seen.add(type_)
                todo.append(type_)
    return True


@pytest.mark.parametrize("seed", [*range(200), 1879, 3243, 3647])
def test_nothing_that_was_assumed_about_a_recursive_type_outlives_its_failure(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"T{i}" for i in range(rng.randint(3, 9))]
    writer = {name: [("v", "int"), *((f"f{i}", rng.choice(names)) for i in range(rng.randint(1, 3)))] for name in names}
    reader = {name: list(fields) for name, fields in writer.items()}
    for change in range(rng.randint(0, 2)):
        broken = reader[rng.choice(names)]
        at = rng.randrange(len(broken))
        broken[at] = (
            (broken[at][0], rng.choice(["string", *names])) if rng.random() < 0.7 else (f"other{change}", "int")
        )
    for fields in reader.values():
        rng.shuffle(fields)
    order = rng.sample(names, len(names))
    found = resolve(graph(writer), graph({name: reader[name] for name in order}))
    failing = {i.path.split(".")[0] for i in found.incompatibilities}
    assert failing == {name for name in names if not readable_from(name, writer, reader)}


# Shared types and size


def test_a_fault_in_a_type_that_is_used_twice_is_told_at_both_paths_and_one_place_of_the_document() -> None:
    def trip(type_: str) -> Any:
        geo = record(field("x", type_), name="Geo")
        return record(field("src", geo), field("dst", ["null", "Geo"]), field("via", array("Geo")))

    found = res(trip("long"), trip("int")).incompatibilities
    assert [(i.location, i.path) for i in found] == [
        ("/fields/0/type/fields/0/type", "src.x"),
        ("/fields/1/type/1", "dst"),
        ("/fields/0/type/fields/0/type", "via[].x"),
    ]
    assert found[1].causes[0].path == "dst.x"


def test_types_that_share_types_cost_no_more_than_their_definitions() -> None:
    def chain(last: str) -> Any:
        first = record(field("n", last), name="T0")
        rest = [record(field("a", f"T{i}"), field("b", f"T{i}"), name=f"T{i + 1}") for i in range(16)]
        return [first, *rest]

    writer, reader, wrong = parse(chain("int")), parse(chain("long")), parse(chain("string"))
    began = time.process_time()
    assert resolve(writer, reader).compatible
    assert time.process_time() - began < 0.2
    found = resolve(writer, wrong)
    assert not found.compatible
    assert len(found.incompatibilities) < 70_000
    assert time.process_time() - began < 5


def test_cost_grows_with_the_number_of_fields() -> None:
    def wide(count: int, extra: int) -> Schema:
        types = ["string", ["null", "long"], array("int"), logical("long", "timestamp-millis")]
        fields = [field(f"f{i}", types[i % 4]) for i in range(count)]
        return parse(json.dumps(record(*fields, *(field(f"x{i}", "int", default=0) for i in range(extra)))))

    def seconds(count: int) -> float:
        writer, reader = wide(count, 0), wide(count, 1)
        times = []
        for _ in range(3):
            began = time.process_time()
            assert resolve(writer, reader).compatible
            times.append(time.process_time() - began)
        return min(times)

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.001)
    assert seconds(20_000) < 2


# Logical types


def dec(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


@pytest.mark.parametrize(
    ("writer", "reader", "outcome"),
    [
        (dec(9, 2), dec(9, 2), "kept"),
        (dec(9, 2), dec(9, 3), "mismatch"),
        (dec(9, 2), dec(18, 2), "mismatch"),
        (logical("int", "time-millis"), logical("long", "time-micros"), "converted"),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "converted"),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-nanos"), "converted"),
        (logical("long", "local-timestamp-micros"), logical("long", "local-timestamp-nanos"), "converted"),
        (logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), "mismatch"),
        (logical("long", "timestamp-millis"), logical("long", "local-timestamp-millis"), "mismatch"),
        (logical("int", "date"), logical("long", "timestamp-millis"), "mismatch"),
        (logical("int", "date"), logical("int", "time-millis"), "mismatch"),
        (logical("int", "date"), "int", "converted"),
        (logical("int", "date"), "long", "converted"),
        (logical("int", "date"), "double", "mismatch"),
        ("int", logical("int", "date"), "converted"),
        ("int", logical("long", "timestamp-millis"), "converted"),
        ("long", logical("long", "timestamp-millis"), "converted"),
        (logical("long", "timestamp-millis"), "double", "mismatch"),
        (dec(9, 2), "bytes", "converted"),
        ("bytes", dec(9, 2), "converted"),
        (dec(9, 2), "string", "mismatch"),
        ("string", dec(9, 2), "mismatch"),
        (logical("string", "uuid"), "string", "converted"),
        (logical("string", "uuid"), "bytes", "mismatch"),
        (logical("bytes", "big-decimal"), dec(9, 2), "mismatch"),
        ({"type": "int", "logicalType": "unheard-of"}, "int", "kept"),
    ],
)
def test_a_value_keeps_its_meaning_or_is_not_read(writer: Any, reader: Any, outcome: str) -> None:
    checked, ignored = res(writer, reader), res(writer, reader, "ignore")
    if outcome == "mismatch":
        assert faults(checked) == [("LOGICAL_TYPE_MISMATCH", "/", "")]
        assert not only(checked).value_level
    else:
        assert isinstance(checked.root, Keep if outcome == "kept" else Promote)
    assert ignored.compatible
    if outcome != "kept":
        assert ignored.root == Promote(parse(writer).root, parse(reader).root, raw=True)


def test_a_type_mismatch_beneath_comes_first() -> None:
    found = res(logical("int", "date"), logical("string", "uuid"))
    assert faults(found) == [("TYPE_MISMATCH", "/", "")]


def test_another_way_with_logical_types_is_refused() -> None:
    with pytest.raises(ValueError, match="'check' or 'ignore'"):
        res("int", "int", "raw")


# What the owner of a table declares


def test_a_declared_rename_goes_before_names_and_aliases() -> None:
    writer = record(field("a", "int"), field("b", "int"))
    assert sources(res(writer, record(field("b", "int")), renames={"b": "a"})) == {"b": "a"}
    swap = record(field("a", "int"), field("b", "int"))
    assert sources(res(writer, swap, renames={"a": "b", "b": "a"})) == {"a": "b", "b": "a"}
    aliased = record(field("c", "int", aliases=["b"]))
    assert sources(res(writer, aliased, renames={"c": "a"})) == {"c": "a"}


def test_a_declared_rename_of_a_field_that_is_not_there_changes_nothing() -> None:
    assert sources(res(record(field("b", "int")), record(field("b", "int")), renames={"b": "a"})) == {"b": "b"}


def test_a_fresh_field_takes_nothing_from_the_field_of_its_name() -> None:
    found = res(record(field("a", "int")), record(field("a", "int", default=7)), fresh=["a"])
    assert sources(found) == {"a": None}
    assert found.root.skipped == (0,)  # type: ignore[union-attr]


def test_a_fill_with_null_needs_neither_default_nor_null_in_the_type() -> None:
    reader = record(field("a", "int"), field("b", "int", default=1), field("c", "int", default=2))
    found = res(record(), reader, fills={"a": "null", "b": "null", "c": "default"})
    assert found.compatible
    assert isinstance(found.root, Fields)
    assert [(p.value, p.null) for p in found.root.fields if isinstance(p, FillField)] == [
        (None, True),
        (None, True),
        (2, False),
    ]


def test_what_is_declared_holds_at_its_path_alone_even_in_a_shared_type() -> None:
    def shared(*fields: Any) -> Any:
        inner = record(*fields, name="I")
        return record(field("x", inner), field("y", array("I")), field("z", ["null", "I"]))

    found = res(
        shared(field("a", "int")),
        shared(field("b", "int", default=0), field("n", "int", default=1)),
        renames={"y[].b": "y[].a"},
        fills={"z.n": "null"},
    )
    rows = {row.path: row.action for row in found.explain()}
    assert rows["x.b"] == "filled with its default"
    assert rows["y[].b"] == "renamed"
    assert rows["z.b"] == "filled with its default"
    assert (rows["x.n"], rows["y[].n"], rows["z.n"]) == (
        "filled with its default",
        "filled with its default",
        "filled with null",
    )


@pytest.mark.parametrize("declared", [{"renames": {"a.<": "b"}}, {"fresh": ["]"]}, {"fills": {"{": "null"}}])
def test_what_is_declared_of_no_path_is_refused(declared: Any) -> None:
    with pytest.raises(ResolutionError, match="no valid path"):
        res(record(), record(), **declared)


# Explanation


def test_each_field_is_explained_and_so_is_what_is_skipped() -> None:
    writer = record(
        field("id", "int"),
        field("amount", "float"),
        field("to", ["null", record(field("zip", "int"), field("city", "string"), name="A")]),
        field("kind", enum("X", "Y")),
        field("old", "string"),
    )
    reader = record(
        field("id", "int"),
        field("total", "double", aliases=["amount"]),
        field("to", ["null", record(field("zip", "long"), field("land", "string", default="DE"), name="A")]),
        field("kind", enum("X", default="X")),
        field("note", ["null", "string"], default=None),
        field("extra", "int"),
    )
    found = res(writer, reader, fills={"extra": "null"})
    assert found.explain() == (
        Explanation("id", "read", "", "id"),
        Explanation("total", "renamed", "from amount; float to double", "amount"),
        Explanation("to", "read", "", "to"),
        Explanation("to.zip", "promoted", "int to long", "to.zip"),
        Explanation("to.land", "filled with its default", '"DE"'),
        Explanation("to.city", "skipped", "", "to.city"),
        Explanation("kind", "read", "Y is read as X", "kind"),
        Explanation("note", "filled with its default", "null"),
        Explanation("extra", "filled with null"),
        Explanation("old", "skipped", "", "old"),
    )


def test_what_cannot_be_read_is_explained_too() -> None:
    found = res(
        record(field("a", "int"), field("b", ["null", "int"]), field("c", ["null", "int"])),
        record(field("a", "string"), field("b", "int"), field("c", ["null", "string"]), field("d", "int")),
    )
    assert [(row.path, row.action) for row in found.explain()] == [
        ("a", "incompatible"),
        ("b", "read"),
        ("c", "incompatible"),
        ("d", "incompatible"),
    ]
    rows = {row.path: row.detail for row in found.explain()}
    assert rows["b"] == "null cannot be read"
    assert rows["d"] == "READER_FIELD_MISSING_DEFAULT_VALUE: d"


def test_a_record_of_another_name_is_not_explained_as_read() -> None:
    found = res(
        record(field("a", array(record(field("x", "int"), name="A"))), field("b", "int")),
        record(field("a", array(record(field("x", "int"), name="B"))), field("b", "int")),
    )
    assert [(row.path, row.action, row.detail) for row in found.explain()] == [
        ("a", "incompatible", "NAME_MISMATCH: expected: A"),
        ("b", "read", ""),
    ]


def test_branches_items_and_values_have_paths_of_their_own() -> None:
    inner = record(field("x", "int"), name="I")
    same = record(field("u", ["int", inner]), field("m", {"type": "map", "values": array("I")}))
    paths = [row.path for row in res(same, same).explain()]
    assert paths == ["u", "u<I>.x", "m", "m{}[].x"]


# One after the other

V1 = record(field("id", "int"), field("amount", "float"), field("gone", "int"))
V2 = record(field("id", "long"), field("sum", "float", aliases=["amount"]), field("land", "string", default="US"))
V3 = record(
    field("id", "double"), field("total", "double", aliases=["sum"]), field("country", "string", aliases=["land"])
)
V4 = record(field("id", "double"), field("country", "string", default="DE"), field("gone", "int", default=-1))


def test_resolutions_follow_one_another() -> None:
    steps = [res(V1, V2), res(V2, V3), res(V3, V4)]
    whole = steps[0].then(steps[1]).then(steps[2])
    assert (whole.writer, whole.reader) == (parse(V1), parse(V4))
    assert whole.roots == tuple(step.root for step in steps)
    assert whole.compatible
    assert whole.explain() == (
        Explanation("id", "promoted", "int to long; then long to double", "id"),
        Explanation("country", "filled with its default", '"US"; then from land'),
        Explanation("gone", "filled with its default", "-1"),
        Explanation("amount", "skipped", "", "amount"),
        Explanation("gone", "skipped", "", "gone"),
    )


def test_the_order_of_composing_makes_no_difference() -> None:
    a, b, c = res(V1, V2), res(V2, V3), res(V3, V4)
    left, right = a.then(b).then(c), a.then(b.then(c))
    assert left == right
    assert left.explain() == right.explain()


def test_composed_resolutions_are_compatible_only_if_all_are() -> None:
    broken = res(V2, record(field("id", "long"), field("sum", "string")))
    whole = res(V1, V2).then(broken)
    assert not whole.compatible
    assert whole.incompatibilities == broken.incompatibilities
    assert {row.path: row.action for row in whole.explain()}["sum"] == "incompatible"


def test_only_a_resolution_of_what_was_read_can_follow() -> None:
    with pytest.raises(ResolutionError, match="does not read what the first one gives"):
        res(V1, V2).then(res(V3, V4))


# Running


def test_data_is_read_through_the_resolution() -> None:
    data = pa.Table.from_pylist([{"id": 1, "amount": 1.5, "gone": 3}], arrow_schema(parse(V1)))
    whole = res(V1, V2).then(res(V2, V3)).then(res(V3, V4))
    assert whole.to_arrow(data).to_pylist() == [{"id": 1.0, "country": "US", "gone": -1}]
    direct = res(V1, V4).to_arrow(data).to_pylist()
    assert direct == [{"id": 1.0, "country": "DE", "gone": 3}]


def test_an_incompatible_pair_does_not_run() -> None:
    data = pa.Table.from_pylist([{"a": "x"}])
    found = res(record(field("a", "string")), record(field("a", "int")))
    for partial in (False, True):
        with pytest.raises(ResolutionError, match="TYPE_MISMATCH"):
            found.to_arrow(data, partial=partial)


def test_value_level_incompatibilities_run_in_part() -> None:
    found = res(
        record(field("n", ["null", "int"]), field("e", enum("A", "B")), field("u", ["int", "string", "boolean"])),
        record(field("n", "int"), field("e", enum("A")), field("u", ["int", "string"])),
    )
    assert [i.value_level for i in found.incompatibilities] == [True, True, True]
    schema = arrow_schema(found.writer)

    def rows(*rows: Any) -> pa.Table:
        whole = [{"n": n, "e": e, "u": {"int": None, "string": None, "boolean": None, **u}} for n, e, u in rows]
        return pa.Table.from_pylist(whole, schema)

    good = rows((1, "A", {"int": 1}), (2, "A", {"string": "s"}))
    with pytest.raises(ResolutionError):
        found.to_arrow(good)
    assert [row["n"] for row in found.to_arrow(good, partial=True).to_pylist()] == [1, 2]
    for bad, path in (
        ((None, "A", {"int": 1}), "n"),
        ((1, "B", {"int": 1}), "e"),
        ((1, "A", {"boolean": True}), "u"),
    ):
        with pytest.raises(ValueMismatch) as caught:
            found.to_arrow(pa.concat_tables([good, rows(bad)]), partial=True)
        assert (caught.value.row, caught.value.path) == (2, path)


# Lenient schemas


def test_types_that_are_not_defined_are_the_same_only_by_name() -> None:
    writer = parse(record(field("a", "x.Missing")), lenient=True)
    assert resolve(writer, parse(record(field("a", "y.Missing")), lenient=True)).compatible
    for other in ("Other", "int"):
        found = resolve(writer, parse(record(field("a", other)), lenient=True))
        assert only(found).kind == "TYPE_MISMATCH"
        assert "does not define Missing" in only(found).message


# Properties


@PROPERTY
@given(schemas())
def test_every_schema_reads_what_it_wrote(schema: Schema) -> None:
    again = parse(schema.to_json())  # type: ignore[arg-type]
    for found in (resolve(schema, again), resolve(schema, again, "ignore")):
        assert found.compatible
        assert {row.action for row in found.explain()} <= {"read"}


@PROPERTY
@given(schemas(), schemas(), st.sampled_from(["check", "ignore"]))
def test_any_two_schemas_have_a_verdict_and_an_explanation(old: Schema, new: Schema, logical_types: Any) -> None:
    found = resolve(old, new, logical_types)
    found.explain()
    found.then(resolve(new, old, logical_types)).explain()
    assert all(fault.location.startswith("/") for fault in found.incompatibilities)
    assert found.compatible == (not found.incompatibilities)


@PROPERTY
@given(evolutions(compatible=True, steps=1))
def test_compatible_edits_resolve(pair: tuple[Schema, Schema]) -> None:
    old, new = pair
    assert resolve(old, new).incompatibilities == ()


@PROPERTY
@given(evolutions())
def test_a_resolution_is_complete_and_consistent(pair: tuple[Schema, Schema]) -> None:
    old, new = pair
    found = resolve(old, new)
    assert found == resolve(old, new)
    assert found.compatible == (not found.incompatibilities)
    assert resolve(old, new, "ignore").compatible or not found.compatible
    if isinstance(new.root, Record) and isinstance(found.root, Fields):
        top = [row.path for row in found.explain() if "." not in row.path and row.action != "skipped"]
        assert [f.name for f in new.root.fields] == [path for path in top if not set(path) & set("[{<")]


@PROPERTY
@given(evolutions(tables=True, compatible=True, steps=1), st.data())
def test_a_step_and_its_identity_compose_to_the_step(pair: tuple[Schema, Schema], data: st.DataObject) -> None:
    old, new = pair
    step = resolve(old, new)
    before, after = resolve(old, old).then(step), step.then(resolve(new, new))
    by_path = {row.path: row.action for row in step.explain()}
    assert {row.path: row.action for row in before.explain()} == by_path
    assert {row.path: row.action for row in after.explain()} == by_path


def test_a_record_filled_as_a_whole_stays_one_row_when_steps_are_composed() -> None:
    inner = {"type": "record", "name": "A", "fields": [{"name": "zip", "type": "int"}]}
    old = parse({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
    added = {"name": "address", "type": inner, "default": {"zip": 1}}
    new = parse({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, added]})
    composed = resolve(old, new).then(resolve(new, new))
    assert [(row.path, row.action) for row in composed.explain()] == [
        ("id", "read"),
        ("address", "filled with its default"),
    ]


def test_the_parts_of_a_record_are_a_tuple_to_whoever_asks() -> None:
    old = parse(record(field("a", "int"), field("b", "int"), field("c", "string")))
    new = parse(record(field("c", "string"), field("b", "long"), field("n", "int", default=1)))
    root = resolve(old, new).root
    assert isinstance(root, Fields)
    expected = (
        ReadField(new.fields[0], 2, Keep(new.fields[0].type)),
        ReadField(new.fields[1], 1, Promote(old.fields[1].type, new.fields[1].type)),
        FillField(new.fields[2], 1),
    )
    assert (root.fields == expected, hash(root.fields) == hash(expected), len(root.fields)) == (True, True, 3)
    assert root.fields != expected[:2]
    assert (root.fields[-1], root.fields[:2], tuple(root.fields)) == (expected[2], expected[:2], expected)
    assert repr(root.fields) == repr(expected)
    for again in (resolve(old, new).root, copy.deepcopy(root), pickle.loads(pickle.dumps(root))):
        assert again == root
        assert hash(again) == hash(root)
    assert root == Fields(old.record, new.record, expected, (0,))


@pytest.mark.parametrize(
    ("writer", "reader", "compatible"),
    [
        (("long", "timestamp-millis"), ("double", None), False),
        (("int", "date"), ("float", None), False),
        (("string", "uuid"), ("bytes", None), False),
        (("bytes", None), ("string", "uuid"), False),
        (("int", "date"), ("long", None), True),
        (("int", None), ("long", "timestamp-millis"), True),
    ],
)
def test_a_logical_type_comes_or_goes_with_no_promotion_but_that_of_int_to_long(
    writer: tuple[str, str | None], reader: tuple[str, str | None], compatible: bool
) -> None:
    old, new = (parse({"type": name, **({"logicalType": of} if of else {})}) for name, of in (writer, reader))
    kinds = [found.kind for found in resolve(old, new).incompatibilities]
    assert kinds == ([] if compatible else ["LOGICAL_TYPE_MISMATCH"])
    assert resolve(old, new, logical="ignore").compatible
