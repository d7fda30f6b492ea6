"""From Avro JSON to the model, and what is refused on the way."""

from __future__ import annotations

import copy
import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.parse import MAX_DEPTH, parse, walk
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NO_DEFAULT,
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    NamedRef,
    Primitive,
    Record,
    Union,
)
from lakeevolve.testing import schemas

HISTORIES = Path(__file__).resolve().parents[3] / "shared" / "histories"
PROPERTY = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

ORDER = """\
{
  "type": "record",
  "name": "Order",
  "namespace": "shop",
  "doc": "one order",
  "fields": [
    {"name": "id", "type": "long"},
    {
      "name": "to",
      "type": ["null", {
        "type": "record",
        "name": "Address",
        "fields": [
          {"name": "zip", "type": "string", "default": "", "doc": "postal code", "aliases": ["plz"], "order": "ignore"}
        ]
      }],
      "default": null
    },
    {"name": "from", "type": "Address", "x-owner": "team"},
    {"name": "more", "type": {"type": "array", "items": "shop.Address"}}
  ]
}
"""


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


# What is read


def test_a_record_is_read_with_everything_that_it_says() -> None:
    address = Record("shop.Address", (Field("zip", Primitive("string"), "", "postal code", ("plz",), "ignore", {}),))
    assert parse(ORDER).root == Record(
        "shop.Order",
        (
            Field("id", Primitive("long")),
            Field("to", Union((NULL, address)), None),
            Field("from", address, props={"x-owner": "team"}),
            Field("more", Array(address)),
        ),
        doc="one order",
    )


def test_a_named_type_used_again_is_the_same_object_and_within_itself_a_reference() -> None:
    order = parse(ORDER).record
    optional = order.fields[1].type
    assert isinstance(optional, Union)
    assert optional.branches[1] is order.fields[2].type
    cell = parse(record(field("next", ["null", "Cell"]), name="Cell")).record
    assert cell.fields[0].type == Union((NULL, NamedRef("Cell")))


def test_text_bytes_and_parsed_json_give_the_same_schema() -> None:
    parsed = parse(ORDER)
    assert parsed == parse(ORDER.encode()) == parse(b"\xef\xbb\xbf" + ORDER.encode()) == parse(json.loads(ORDER))


def test_a_schema_keeps_nothing_of_the_json_that_it_was_made_from() -> None:
    source = record(field("tags", {"type": "array", "items": "int", "x": [1]}, default=[1, 2]))
    schema = parse(source)
    before = copy.deepcopy(schema)
    source["fields"][0]["default"].append(3)
    source["fields"][0]["type"]["x"].append(2)
    assert schema == before


@pytest.mark.parametrize("name", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_a_primitive_may_stand_alone_quoted_or_as_an_object(name: str) -> None:
    for source in (name, f'"{name}"', {"type": name}, f'{{"type": "{name}"}}'):
        assert parse(source).root == Primitive(name)  # type: ignore[arg-type]


def test_no_default_is_not_the_default_null() -> None:
    fields = parse(record(field("a", ["null", "int"]), field("b", ["null", "int"], default=None))).fields
    assert fields[0].default is NO_DEFAULT
    assert fields[1].default is None
    assert fields[1].has_default


@pytest.mark.parametrize(
    ("head", "full"),
    [
        ({"name": "A"}, "A"),
        ({"name": "A", "namespace": "x.y"}, "x.y.A"),
        ({"name": "p.A", "namespace": "x.y"}, "p.A"),
        ({"name": "A", "namespace": ""}, "A"),
        ({"name": ".A", "namespace": "x"}, "A"),
    ],
)
def test_a_full_name_comes_from_the_name_or_the_namespace(head: dict[str, str], full: str) -> None:
    assert parse({"type": "fixed", "size": 1, **head}).root == Fixed(full, 1)


def test_a_namespace_reaches_the_types_within_and_an_empty_one_ends_it() -> None:
    inner = {"type": "enum", "name": "E", "symbols": ["A"]}
    free = {"type": "enum", "name": "F", "namespace": "", "symbols": ["A"]}
    root = parse(record(field("e", inner), field("f", free), field("g", "E"), field("h", "F"), namespace="n")).record
    assert [f.type.name for f in root.fields] == ["n.E", "F", "n.E", "F"]  # type: ignore[union-attr]


def test_the_aliases_of_a_type_are_full_names() -> None:
    source = record(name="New", namespace="hr", aliases=["Old", "x.Older", ".Oldest"])
    assert parse(source).record.aliases == ("hr.Old", "x.Older", "Oldest")
    assert parse(parse(source).to_json()) == parse(source)  # type: ignore[arg-type]


def test_an_error_record_is_a_record() -> None:
    assert parse({"type": "error", "name": "E", "fields": []}).record.error


def test_an_enum_has_a_default_of_its_own() -> None:
    root = parse({"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B", "doc": "d", "x": 1}).root
    assert root == Enum("E", ("A", "B"), "B", doc="d", props={"x": 1})


@pytest.mark.parametrize(
    ("node", "logical"),
    [
        ({"type": "int", "logicalType": "date"}, Logical("date")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, Logical("timestamp-nanos")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Logical("decimal", 9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, Logical("decimal", 9, 0)),
        ({"type": "string", "logicalType": "uuid"}, Logical("uuid")),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, Logical("uuid")),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, Logical("duration")),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9},
            Logical("decimal", 9, 0),
        ),
    ],
)
def test_a_valid_logical_type_is_read(node: dict[str, Any], logical: Logical) -> None:
    schema = parse(node)
    assert isinstance(schema.root, (Primitive, Fixed))
    assert schema.root.logical == logical
    assert schema.root.props == {}
    assert schema.warnings == ()


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({"type": "int", "logicalType": "timestamp-millis"}, "is not valid on int"),
        ({"type": "int", "logicalType": "moon-phase"}, "is not known"),
        ({"type": "int", "logicalType": 7}, "is not known"),
        ({"type": "bytes", "logicalType": "decimal"}, "needs a precision"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, "needs a precision"),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, "needs a precision"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5}, "needs a scale"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": -1}, "needs a scale"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10}, "more digits"),
        ({"type": "fixed", "name": "F", "size": 8, "logicalType": "uuid"}, "a fixed of 16 bytes"),
        ({"type": "fixed", "name": "F", "size": 8, "logicalType": "duration"}, "a fixed of 12 bytes"),
        ({"type": "array", "items": "int", "logicalType": "date"}, "not valid on array"),
        ({"type": "enum", "name": "E", "symbols": [], "logicalType": "date"}, "not valid on enum"),
    ],
)
def test_an_invalid_logical_type_is_kept_as_an_attribute_with_a_warning(node: dict[str, Any], why: str) -> None:
    schema = parse(node)
    assert getattr(schema.root, "logical", None) is None
    rest = {key: node[key] for key in node if key in ("logicalType", "precision", "scale")}
    assert schema.root.props == rest  # type: ignore[union-attr]
    assert why in schema.warnings[0]
    assert parse(schema.to_json()) == schema  # type: ignore[arg-type]


def test_a_logical_type_beside_the_type_of_a_field_is_a_warning() -> None:
    schema = parse(record(field("at", "long", logicalType="timestamp-millis")))
    assert schema.fields[0].type == Primitive("long")
    assert "belongs inside the field's type ($.fields[0])" in schema.warnings[0]


def test_an_attribute_that_is_given_twice_is_a_warning() -> None:
    assert "given twice" in parse('{"type": "int", "type": "long"}').warnings[0]


def test_a_type_may_be_wrapped_in_objects() -> None:
    assert parse({"type": {"type": {"type": "array", "items": {"type": "int"}}}}).root == Array(Primitive("int"))
    root = parse(record(field("a", {"type": "fixed", "name": "F", "size": 2}), field("b", {"type": "F"}))).record
    assert root.fields[0].type is root.fields[1].type


def test_the_top_level_may_be_a_union_an_empty_one_included() -> None:
    assert parse(["null", "int"]).root == Union((NULL, Primitive("int")))
    assert parse([]).root == Union(())
    assert parse([record()]).root == Union((Record("R", ()),))
    two = parse([record(name="A"), record(name="B")]).root
    assert two == Union((Record("A", ()), Record("B", ())))


# Lists of named types


def test_a_list_of_types_that_refer_to_each_other_is_a_file_of_types() -> None:
    schema = parse([record(field("n", "int"), name="A"), record(field("a", {"type": "array", "items": "A"}), name="B")])
    assert schema.record.name == "B"
    assert schema.fields[0].type == Array(Record("A", (Field("n", Primitive("int")),)))


def test_the_last_record_of_a_list_is_the_root_and_unused_types_are_a_warning() -> None:
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    schema = parse([colour, record(name="Unused"), record(field("c", "Colour"), name="Car"), {**colour, "name": "X"}])
    assert schema.record.name == "Car"
    assert schema.warnings == ("2 of the 4 types of the list are not part of the last record ($)",)


def test_a_type_used_before_its_definition_is_an_error_unless_lenient() -> None:
    source = [record(field("b", "n.B"), name="A"), record(field("c", ["null", "B"]), name="B", namespace="n")]
    source.append(record(field("a", ".A"), name="C", namespace="n"))
    with pytest.raises(SchemaError, match=r"used before its definition \(\$\[0\]\.fields\[0\]\.type\)") as caught:
        parse(source)
    assert caught.value.hint == "move its definition, $[1], up"
    schema = parse(source, lenient=True)
    assert {t.name for t in walk(schema.root) if isinstance(t, Record)} == {"A", "n.B", "n.C"}
    assert any("used before its definition" in warning for warning in schema.warnings)


# What is refused

BAD: dict[str, tuple[Any, str, str]] = {
    "no schema at all": (7, "$", "not a number"),
    "null": ({"type": None}, "$.type", "not null"),
    "no type": ({"name": "x"}, "$", '"type" is missing'),
    "an unknown type": (record(field("a", "integer")), "$.fields[0].type", 'unknown type "integer"'),
    "an unknown type in an array": (
        record(field("a", {"type": "array", "items": ["null", "Nope"]})),
        "$.fields[0].type.items[1]",
        'unknown type "Nope"',
    ),
    "an unresolved reference": (
        record(field("a", "int"), field("b", {"type": "map", "values": "x.Y"})),
        "$.fields[1].type.values",
        'unknown type "x.Y"',
    ),
    "a duplicate type": (
        record(field("a", record(name="A")), field("b", record(name="A"))),
        "$.fields[1].type.name",
        "the type A is defined twice",
    ),
    "a type that defines itself again": (record(field("a", record())), "$.fields[0].type.name", "defined twice"),
    "a duplicate field": (record(field("a", "int"), field("a", "int")), "$.fields[1].name", "the field a twice"),
    "a field name with a dash": (record(field("a-b", "int")), "$.fields[0].name", '"a-b" is not an Avro name'),
    "a field name with a digit first": (record(field("1a", "int")), "$.fields[0].name", "is not an Avro name"),
    "a field name with a line end": (record(field("a\n", "int")), "$.fields[0].name", "is not an Avro name"),
    "a field name in other letters": (record(field("straße", "int")), "$.fields[0].name", "is not an Avro name"),
    "an empty field name": (record(field("", "int")), "$.fields[0].name", "a name is empty"),
    "a field name that is no text": (record(field(5, "int")), "$.fields[0].name", "not a number"),  # type: ignore[arg-type]
    "a field without a name": (record({"type": "int"}), "$.fields[0]", '"name" is missing'),
    "a field without a type": (record({"name": "a"}), "$.fields[0]", '"type" is missing'),
    "a field that is no object": (record("a"), "$.fields[0]", "a field is an object"),
    "a record without fields": ({"type": "record", "name": "R"}, "$", '"fields" is missing'),
    "fields that are no list": ({"type": "record", "name": "R", "fields": {}}, "$.fields", "has to be a list"),
    "a record without a name": ({"type": "record", "fields": []}, "$", '"name" is missing'),
    "a record name with a dash": (record(name="a-b"), "$.name", "is not an Avro name"),
    "an empty part of a namespace": (record(name="R", namespace="a..b"), "$.namespace", "is not an Avro name"),
    "a namespace that is no text": (record(name="R", namespace=[]), "$.namespace", "not a list"),
    "a type named after a primitive": (record(name="x.int"), "$.name", "the name of the primitive int"),
    "a bad alias": (record(aliases=["a b"]), "$.aliases[0]", "is not an Avro name"),
    "aliases that are no list": (record(aliases="A"), "$.aliases", "a list of names"),
    "an alias that is no text": (record(field("a", "int", aliases=[1])), "$.fields[0].aliases", "a list of names"),
    "a bad order": (record(field("a", "int", order="up")), "$.fields[0].order", "ascending"),
    "an order that is no text": (record(field("a", "int", order=[])), "$.fields[0].order", "ascending"),
    "an enum without symbols": ({"type": "enum", "name": "E"}, "$", '"symbols" is missing'),
    "a duplicate symbol": ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "$.symbols[1]", '"A" twice'),
    "a bad symbol": ({"type": "enum", "name": "E", "symbols": ["A", "B C"]}, "$.symbols[1]", "not an Avro name"),
    "a symbol that is no text": ({"type": "enum", "name": "E", "symbols": [1]}, "$.symbols[0]", "not a number"),
    "an enum default that is no symbol": (
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        "$.default",
        "not one of its symbols",
    ),
    "a fixed without a size": ({"type": "fixed", "name": "F"}, "$", '"size" is missing'),
    "a negative size": ({"type": "fixed", "name": "F", "size": -1}, "$.size", "a whole number from 0"),
    "a size that is no whole number": ({"type": "fixed", "name": "F", "size": 1.0}, "$.size", "a whole number"),
    "a size that is a boolean": ({"type": "fixed", "name": "F", "size": True}, "$.size", "a whole number"),
    "an enormous size": ({"type": "fixed", "name": "F", "size": 2**31}, "$.size", "a whole number"),
    "an array without items": ({"type": "array"}, "$", '"items" is missing'),
    "a map without values": ({"type": "map"}, "$", '"values" is missing'),
    "a union in a union": (["null", ["int"]], "$[1]", "may not hold a union"),
    "a primitive twice in a union": (["int", "null", {"type": "int"}], "$[2]", "the branch int twice"),
    "two arrays in a union": (
        [{"type": "array", "items": "int"}, {"type": "array", "items": "long"}],
        "$[1]",
        "the branch array twice",
    ),
    "a named type twice in a union": (record(field("a", ["R", "R"])), "$.fields[0].type[1]", "the branch R twice"),
    "an infinite default": (record(field("a", "double", default=1e999)), "$.fields[0].default", "not finite"),
    "a number that is none": (record(field("a", "double", default=float("nan"))), "$.fields[0].default", "not finite"),
    "an infinite attribute": ({"type": "int", "x": {"y": [1, float("-inf")]}}, "$.x.y[1]", "not finite"),
    "half a surrogate pair": (record(doc="\ud800"), "$.doc", "surrogate"),
    "a key that is half a surrogate pair": (record(**{"\udfff": 1}), "$", "not Unicode"),
}


@pytest.mark.parametrize(("source", "where", "what"), BAD.values(), ids=BAD)
def test_a_schema_is_refused_with_its_json_path(source: Any, where: str, what: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(source)
    assert caught.value.where == where
    assert what in caught.value.what
    assert len(caught.value.lines()) <= 3
    with pytest.raises(SchemaError) as as_text:
        parse(json.dumps(source, indent=1), source_name="a.avsc")
    assert (as_text.value.where or "").startswith(f"a.avsc: {where}, line ")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{\n "type": "int",\n}', "line 3, column 1"),
        ('"int" "long"', "line 1, column 7"),
        ("{'type': 'int'}", "line 1, column 2"),
        ("integer", "line 1, column 1"),
    ],
)
def test_broken_json_is_refused_with_line_and_column(text: str, where: str) -> None:
    with pytest.raises(SchemaError, match="not valid JSON") as caught:
        parse(text)
    assert caught.value.where == where


@pytest.mark.parametrize(
    "source",
    [
        b"\xff\xfe",
        '{"type": "int", "x": ' + "9" * 5000 + "}",
        {"type": "int", "x": 10**5000},
        {"type": "int", 5: "x"},
        {"type": "int", "x": {1, 2}},
        {"type": ("int",)},
        object(),
        None,
    ],
    ids=["no UTF-8", "digits", "a large number", "a key", "a set", "a tuple", "an object", "nothing"],
)
def test_what_is_not_json_is_refused(source: Any) -> None:
    with pytest.raises(SchemaError):
        parse(source)


def test_an_unknown_type_gets_a_suggestion() -> None:
    with pytest.raises(SchemaError) as caught:
        parse(record(field("a", "strng")))
    assert caught.value.hint == "did you mean string?"


def nested(depth: int, *, optional: bool = False) -> Any:
    inner: Any = "int"
    for level in range(depth):
        inner = record(field("x", ["null", inner] if optional else inner), name=f"D{level}")
    return inner


def test_types_nest_up_to_a_bound_and_all_of_the_model_works_at_the_bound() -> None:
    for deepest in (parse(nested(MAX_DEPTH - 1)), parse(nested(MAX_DEPTH // 2 - 1, optional=True))):
        assert parse(deepest.to_json()) == deepest  # type: ignore[arg-type]
        assert deepest.digest
        assert hash(deepest) == hash(parse(deepest.to_json()))  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 1000, 100_000])
def test_deeper_types_are_refused_whatever_they_are_made_of(depth: int) -> None:
    with pytest.raises(SchemaError, match="nested"):
        parse(nested(depth))
    with pytest.raises(SchemaError, match="nested"):
        parse('{"type": "array", "items": ' * depth + '"int"' + "}" * depth)
    with pytest.raises(SchemaError, match="nested"):
        parse('{"type": "int", "x": ' + "[" * 10 * depth + "]" * 10 * depth + "}")


def test_a_chain_of_named_types_counts_as_depth() -> None:
    chain = [record(field("n", "int"), name="T0"), *(record(field("t", f"T{i}"), name=f"T{i + 1}") for i in range(500))]
    with pytest.raises(SchemaError, match="nested more than"):
        parse(chain)


def test_a_few_types_that_stand_for_very_many_are_refused_at_once() -> None:
    bomb = [record(field("n", "int"), name="T0")]
    bomb += [record(field("a", f"T{i}"), field("b", f"T{i}"), name=f"T{i + 1}") for i in range(60)]
    began = time.process_time()
    with pytest.raises(SchemaError, match="stands for more than"):
        parse(bomb)
    assert time.process_time() - began < 2


def test_json_that_holds_itself_or_shares_itself_is_refused() -> None:
    loop: dict[str, Any] = {"type": "array"}
    loop["items"] = loop
    with pytest.raises(SchemaError, match="nested"):
        parse(loop)
    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(SchemaError, match=r"the JSON holds more than|not a list|may not hold"):
        parse({"type": "int", "x": shared})


def test_ten_thousand_fields_are_read_in_a_moment() -> None:
    text = json.dumps(record(*(field(f"f{i}", ["null", "long"], default=None) for i in range(10_000))))
    began = time.process_time()
    assert len(parse(text).fields) == 10_000
    assert time.process_time() - began < 2


# Lenient


@pytest.mark.parametrize(
    ("source", "warning"),
    [
        (record(field("a-b", "int")), '"a-b" is not an Avro name ($.fields[0].name)'),
        (record(name="my-record"), '"my-record" is not an Avro name ($.name)'),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "A", "B"]},
            'the enum E has the symbol "A" twice ($.symbols[1])',
        ),
        ({"type": "enum", "name": "E", "symbols": ["A-B"]}, 'the symbol "A-B" is not an Avro name ($.symbols[0])'),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "Z"},
            "the default of the enum E is not one of its symbols ($.default)",
        ),
        (
            record(field("a", ["int", "null"], default="x")),
            "the default of a is not valid: a text for int ($.fields[0].default)",
        ),
        (record(field("a", "int", order="up")), 'the order of a field is "ascending"'),
        (record(field("a", "x.Missing")), 'unknown type "x.Missing" ($.fields[0].type)'),
        (
            record(field("a", record(name="A")), field("b", record(name="A"))),
            "the type A is defined twice ($.fields[1].type)",
        ),
    ],
)
def test_a_broken_old_version_is_read_leniently_with_a_warning(source: Any, warning: str) -> None:
    schema = parse(source, lenient=True)
    assert any(warning in found for found in schema.warnings)
    assert parse(schema.to_json(), lenient=True) == schema  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (record(name="A"), record(field("x", "int"), name="A")),
        (record(field("x", "int"), name="A"), record(field("x", "long"), name="A")),
        (record(field("x", "int"), name="A"), record(field("x", "int", default=1), name="A")),
        (record(field("x", "int", default=1), name="A"), record(field("x", "int", default=True), name="A")),
        (record(field("x", "int"), name="A"), record(field("x", "int", aliases=["y"]), name="A")),
        (record(field("x", "int"), name="A"), record(field("x", "int"), name="A", aliases=["B"])),
        (
            {"type": "enum", "name": "A", "symbols": ["X"]},
            {"type": "enum", "name": "A", "symbols": ["X"], "default": "X"},
        ),
        (
            {"type": "fixed", "name": "A", "size": 4},
            {"type": "fixed", "name": "A", "size": 4, "logicalType": "decimal", "precision": 2},
        ),
    ],
)
def test_lenient_does_not_guess_between_two_definitions(first: Any, second: Any) -> None:
    with pytest.raises(SchemaError, match="the type A is defined twice, and differently"):
        parse(record(field("a", first), field("b", second)), lenient=True)


def test_of_two_definitions_that_differ_in_docs_and_properties_the_first_counts() -> None:
    def twice(**more: Any) -> Any:
        inner = {"type": "enum", "name": "E", "symbols": ["X"], **more}
        return record(field("x", ["null", inner], **more), field("y", {"type": "int", **more}), name="A", **more)

    two = record(field("a", twice(doc="one")), field("b", twice(doc="two ", lakes=[1])), field("c", "A"))
    with pytest.raises(SchemaError, match="the type A is defined twice"):
        parse(two)
    schema = parse(two, lenient=True)
    assert schema.warnings == (
        "the type E is defined twice, with other docs or properties; the first definition counts"
        " ($.fields[1].type.fields[0].type[1])",
        "the type A is defined twice, with other docs or properties; the first definition counts ($.fields[1].type)",
    )
    first, second, third = (each.type for each in schema.fields)
    assert first is second is third
    assert first.doc == "one"
    assert parse(schema.to_json(), lenient=True) == schema  # type: ignore[arg-type]


def test_an_invalid_default_is_no_error_of_the_schema() -> None:
    schema = parse(record(field("a", "int", default="seven")))
    assert schema.fields[0].default == "seven"
    assert schema.warnings == ()


def test_a_namespace_with_hyphens_which_java_accepts_is_a_warning() -> None:
    schema = parse(record(namespace="com.my-company"))
    assert schema.record.name == "com.my-company.R"
    assert "com.my-company" in schema.warnings[0]


@pytest.mark.parametrize(
    ("head", "where"),
    [
        ({"name": "R", "namespace": "1 x!"}, "$.namespace"),
        ({"name": "R", "namespace": "a.2b"}, "$.namespace"),
        ({"name": "a b.R"}, "$.name"),
    ],
)
def test_a_namespace_is_made_of_avro_names_and_of_others_with_a_warning_where_read_leniently(
    head: dict[str, str], where: str
) -> None:
    source = record(**head)
    with pytest.raises(SchemaError, match="is not made of Avro names") as caught:
        parse(source)
    assert caught.value.where is not None
    assert caught.value.where.endswith(where)
    schema = parse(source, lenient=True)
    assert schema.record.name.endswith(".R")
    assert "is not made of Avro names" in schema.warnings[0]
    renamed = parse(record(name="S", aliases=[schema.record.name]))
    assert renamed.record.aliases == (schema.record.name,)


# Lines


def test_each_path_has_the_line_of_its_definition() -> None:
    lines = parse(ORDER, source_name="order.avsc").lines
    assert dict(lines) == {
        "": 1,
        "id": 7,
        "to": 8,
        "to.zip": 14,
        "from": 19,
        "from.zip": 14,
        "more": 20,
        "more[]": 10,
        "more[].zip": 14,
    }
    assert parse(json.loads(ORDER)).lines == {}


def test_lines_follow_branches_maps_and_lists_of_types() -> None:
    text = """[
      {"type": "record", "name": "A", "fields": [
        {"name": "x", "type": "int"}]},
      {"type": "record", "name": "B", "fields": [
        {"name": "u", "type": ["int", "A"]},
        {"name": "m", "type": {"type": "map", "values": "A"}}]}
    ]"""
    assert dict(parse(text).lines) == {
        "": 4,
        "u": 5,
        "u<A>": 2,
        "u<A>.x": 3,
        "m": 6,
        "m{}": 2,
        "m{}.x": 3,
    }


def test_a_schema_survives_copying_and_pickling() -> None:
    schema = parse(ORDER)
    assert pickle.loads(pickle.dumps(schema)) == copy.deepcopy(schema) == schema
    assert pickle.loads(pickle.dumps(schema)).lines["id"] == 7


# Properties


@PROPERTY
@given(schemas())
def test_a_schemas_json_parses_to_the_same_schema(schema: Schema) -> None:
    assert parse(schema.to_json()) == schema  # type: ignore[arg-type]
    assert parse(json.dumps(schema.to_json())) == schema
    assert parse(schema.to_json()).digest == schema.digest  # type: ignore[arg-type]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["int", "record", "enum", "fixed", "array", "map", "A", "", "a.b", "null", "error"]),
    st.lists(st.sampled_from(["null", "int", {"type": "array"}, []]), max_size=2),
    st.dictionaries(st.sampled_from(["type", "name", "items", "symbols", "fields", "size"]), st.none(), max_size=2),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, below in members:
        found += places(below, (*path, key))
    return found


def damaged(node: Any, path: tuple[Any, ...], junk: Any, how: str) -> Any:
    if not path:
        return junk
    parent = node
    for key in path[:-1]:
        parent = parent[key]
    if how == "replace":
        parent[path[-1]] = junk
    elif how == "remove":
        del parent[path[-1]]
    elif isinstance(parent, list):
        parent.insert(path[-1], junk)
    else:
        parent[junk if isinstance(junk, str) else "x"] = parent[path[-1]]
    return node


def schema_or_error(source: Any, **how: Any) -> Schema | SchemaError:
    try:
        return parse(source, **how)
    except SchemaError as error:
        return error


@PROPERTY
@given(schemas(), st.data(), st.booleans())
def test_damaged_json_gives_a_schema_or_a_schema_error(schema: Schema, data: st.DataObject, lenient: bool) -> None:
    node = json.loads(json.dumps(schema.to_json()))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(node)))
        # What is sampled is one object in every example, and is damaged itself in some.
        junk = copy.deepcopy(data.draw(JUNK))
        node = damaged(node, path, junk, data.draw(st.sampled_from(["replace", "remove", "insert"])))
    found = schema_or_error(node, lenient=lenient)
    if isinstance(found, SchemaError):
        assert found.where
        return
    assert parse(found.to_json(), lenient=lenient) == found  # type: ignore[arg-type]
    assert found.digest


@PROPERTY
@given(schemas(), st.data())
def test_damaged_text_gives_a_schema_or_a_schema_error(schema: Schema, data: st.DataObject) -> None:
    text = json.dumps(schema.to_json(), indent=data.draw(st.sampled_from([None, 1])))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    text = text[:start] + data.draw(st.text(max_size=3)) + text[end:]
    found = schema_or_error(text, source_name="x.avsc")
    if isinstance(found, SchemaError):
        assert found.where
        return
    assert all(line >= 1 for line in found.lines.values())


@pytest.mark.skipif(not HISTORIES.is_dir(), reason="the shared histories are not here")
def test_real_schemas_parse_and_come_back_as_they_were() -> None:
    strict = broken = 0
    for file in sorted(HISTORIES.glob("*/*.avsc")):
        text = file.read_bytes()
        schema = schema_or_error(text, source_name=file.name)
        if isinstance(schema, SchemaError):
            broken += 1
            schema = parse(text, source_name=file.name, lenient=True)
        else:
            strict += 1
            assert parse(schema.to_json()) == schema  # type: ignore[arg-type]
        assert len(schema.lines) > 1
    assert strict > 300
    assert broken < 40


def test_types_nested_too_deep_are_refused_with_a_next_step() -> None:
    deep: Any = "int"
    for _ in range(110):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="nested more than") as caught:
        parse(deep)
    assert "flatten" in (caught.value.hint or "")
