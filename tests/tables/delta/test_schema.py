"""Avro schemas read off Delta schemas, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.avro.parse import parse
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import describe, without_null
from lakeevolve.tables.delta.follow import follow
from lakeevolve.tables.delta.schema import delta_type, derive
from lakeevolve.tables.delta.types import Column, ListOf, MapOf, Struct, same_type, shape

from .conftest import field, record

STATE = {"type": "enum", "name": "shop.State", "symbols": ["A", "B"], "doc": "where it is"}
ADDRESS = {"type": "record", "name": "shop.Address", "fields": [field("zip", "string", doc="code", default="0")]}


def read_off(schema: Schema, hint: Schema | None = None, **how: Any) -> Schema:
    struct = delta_type(schema.record)
    assert isinstance(struct, Struct)
    return derive(struct, name="table", hint=hint, **how).schema


def test_without_a_hint_types_have_plain_names_and_optional_columns_are_unions_with_null() -> None:
    found = read_off(
        record(
            field("id", "long"),
            field("at", ["null", ADDRESS]),
            field("tags", {"type": "array", "items": ["string", "null"]}),
        )
    )
    assert found == parse(
        {
            "type": "record",
            "name": "table",
            "fields": [
                field("id", "long"),
                field("at", ["null", {"type": "record", "name": "at", "fields": [field("zip", "string", doc="code")]}]),
                field("tags", {"type": "array", "items": ["null", "string"]}),
            ],
        }
    )


def test_a_hint_that_the_table_fits_is_taken_whole() -> None:
    hint = record(
        field("id", "long", doc="key", aliases=["key"], default=7),
        field("state", ["null", STATE], default=None),
        field("code", {"type": "fixed", "name": "Code", "size": 4}),
        field("at", ADDRESS),
        field("when", {"type": "int", "logicalType": "time-millis"}, unit="ms"),
        field("u", ["null", "int", "string"]),
    )
    assert read_off(hint, hint) == hint


def test_a_sinks_optional_column_keeps_the_hints_type() -> None:
    hint = record(field("id", "long", default=3))
    assert read_off(record(field("id", ["null", "long"])), hint) == hint


def test_a_required_column_is_not_widened_by_the_hint() -> None:
    hint = record(field("id", ["null", "long"], default=None))
    found = read_off(record(field("id", "long")), hint)
    assert found == record(field("id", "long"))


def test_another_type_keeps_the_names_and_not_the_default() -> None:
    hint = record(
        field(
            "at",
            {**ADDRESS, "fields": [*ADDRESS["fields"], field("no", "int", default=1)]},
            default={"zip": "1", "no": 1},
        )
    )  # type: ignore[misc]
    found = read_off(record(field("at", ADDRESS)), hint)
    assert found == record(field("at", ADDRESS))


def test_columns_with_an_underscore_that_the_hint_lacks_are_foreign() -> None:
    struct = delta_type(record(field("id", "long"), field("_offset", "long"), field("extra", "int")).record)
    assert isinstance(struct, Struct)
    found = derive(struct, name="t", hint=record(field("id", "long")))
    assert [f.name for f in found.schema.fields] == ["id", "extra"]
    assert found.foreign == ("_offset",)
    assert derive(struct, name="t").foreign == ()


@pytest.mark.parametrize(
    "type_",
    [
        "byte",
        "short",
        "void",
        "interval day",
        "variant",
        MapOf("integer", "string"),
        ListOf(Struct((Column("x", "byte"),))),
    ],
)
def test_what_avro_cannot_say_is_foreign(type_: Any) -> None:
    found = derive(Struct((Column("id", "long"), Column("odd", type_))), name="t")
    assert found.foreign == ("odd",)


def test_an_alias_or_a_declared_rename_lends_its_types() -> None:
    hint = record(field("status", STATE, aliases=["state"]))
    renamed = read_off(record(field("state", "string")), hint)
    assert renamed == record(field("state", STATE))
    overlay = record(field("status", STATE))
    assert read_off(record(field("state", "string")), overlay, renames={"status": "state"}) == record(
        field("state", STATE)
    )


def test_a_type_that_stands_at_two_places_and_differs_at_one_gets_a_second_name() -> None:
    wide = {**ADDRESS, "fields": [*ADDRESS["fields"], field("no", ["null", "int"], default=None)]}  # type: ignore[misc]
    hint = record(field("a", wide), field("b", "shop.Address"))
    table = record(field("a", wide), field("b", {**ADDRESS, "name": "B"}))
    found = read_off(table, hint)
    first, second = (f.type for f in found.fields)
    assert first != second
    assert parse(found.to_json()) == found  # type: ignore[arg-type]


def test_a_union_that_is_to_gain_a_branch_is_still_a_union() -> None:
    hint = record(field("u", ["null", "int", "string", ADDRESS]))
    assert read_off(record(field("u", ["null", "int", "string"])), hint) == record(
        field("u", ["null", "int", "string"])
    )


def test_the_order_of_the_version_before_stays() -> None:
    before = record(field("b", "int"), field("a", "int"))
    table = record(field("a", "int"), field("b", "int"), field("c", ["null", "int"]))
    found = read_off(table, before, follow=True)
    assert [f.name for f in found.fields] == ["b", "a", "c"]


def test_columns_are_followed_by_their_physical_names() -> None:
    def column(name: str, physical: str, type_: Any = "long") -> Column:
        return Column(name, type_, True, {"delta.columnMapping.physicalName": physical})

    old = Struct((column("a", "p1"), column("b", "p2"), column("s", "p3", Struct((column("x", "q1"),)))))
    new = Struct(
        (column("b", "p1"), column("a", "p9"), column("s", "p3", Struct((column("y", "q1"), column("x", "q2")))))
    )
    found = follow(old, new)
    assert dict(found.renames) == {"b": "a", "s.y": "s.x"}
    assert found.fresh == {"a", "s.x"}
    assert found.added == ("a", "s.x")


_LEAVES = st.sampled_from(
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "bytes",
        "string",
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        {"type": "string", "logicalType": "uuid"},
        {"type": "long", "logicalType": "time-micros"},
    ]
)


def _types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda t: {"type": "array", "items": t}),
        inner.map(lambda t: {"type": "map", "values": t}),
        inner.filter(lambda t: not isinstance(t, list)).map(lambda t: ["null", t]),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: {"type": "record", "name": "R", "fields": [field(f"f{i}", t) for i, t in enumerate(ts)]}
        ),
    )


def _named(type_: Any, names: list[int]) -> Any:
    """The type with a name of its own for each record."""
    if isinstance(type_, list):
        return [_named(t, names) for t in type_]
    if not isinstance(type_, dict):
        return type_
    if type_["type"] == "record":
        names.append(0)
        name = f"R{len(names)}"
        return {**type_, "name": name, "fields": [{**f, "type": _named(f["type"], names)} for f in type_["fields"]]}
    return {k: _named(v, names) if k in ("items", "values") else v for k, v in type_.items()}


SCHEMAS = st.lists(st.recursive(_LEAVES, _types, max_leaves=6), min_size=1, max_size=4).map(
    lambda types: record(*[field(f"c{i}", t) for i, t in enumerate(_named(types, []))])
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(SCHEMAS)
def test_a_schema_read_off_its_own_table_is_that_schema(schema: Schema) -> None:
    assert read_off(schema, schema) == schema


@settings(max_examples=60, derandomize=True, deadline=None)
@given(SCHEMAS)
def test_what_is_read_off_without_a_hint_maps_to_the_same_table(schema: Schema) -> None:
    struct = delta_type(schema.record)
    back = delta_type(read_off(schema).record)
    assert same_type(struct, back)
    assert shape(struct) == shape(back)


def test_names_that_are_yet_to_change_places_lend_their_types_crosswise() -> None:
    struct = Struct((Column("a", Struct((Column("x", "integer"),))), Column("b", "string", False)))
    inner = {"type": "record", "name": "In", "fields": [field("x", ["null", "int"])]}
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    hint = record(field("b", inner, aliases=["a"]), field("a", enum, aliases=["b"]))
    found = derive(struct, name="t", hint=hint).schema
    assert [(f.name, describe(without_null(f.type))) for f in found.fields] == [("a", "record In"), ("b", "enum E")]
