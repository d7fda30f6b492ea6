"""Mapped names: a schema as a table calls it."""

from __future__ import annotations

from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.errors import ConfigError
from lakeevolve.model.mapping import columns_of
from lakeevolve.model.schema import Schema

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "zipCode", "type": "int"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "orderId", "type": "long", "aliases": ["orderNo"]},
        {"name": "shipTo", "type": ADDRESS, "default": {"zipCode": 1}},
        {"name": "billTo", "type": ["null", "Address"], "default": None},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "itemNo", "type": "int"}]},
            },
        },
    ],
}


def named(mapping: dict[str, str], schema: Any = ORDER, *, earlier: tuple[str, ...] = ()) -> Schema:
    loaded = le.load(schema)
    return columns_of(mapping, loaded, earlier).schema(loaded)


def test_fields_take_the_names_that_the_table_has_at_every_depth_in_defaults_and_in_aliases() -> None:
    made = named(
        {
            "orderId": "order_id",
            "orderNo": "order_no",
            "shipTo": "ship_to",
            "shipTo.zipCode": "ship_to.zip_code",
            "lines[].itemNo": "lines[].item_no",
        }
    ).record
    order, ship, bill, lines = made.fields
    assert (order.name, order.aliases) == ("order_id", ("order_no",))
    assert (ship.name, ship.default, ship.type.fields[0].name) == ("ship_to", {"zip_code": 1}, "zip_code")  # type: ignore[union-attr]
    assert bill.name == "billTo"
    assert lines.type.items.fields[0].name == "item_no"  # type: ignore[union-attr]


def test_a_record_that_is_mapped_in_one_place_only_is_two_records_and_its_json_says_so() -> None:
    made = named({"shipTo.zipCode": "shipTo.zip_code"})
    again = le.load(made.to_json())
    assert again == made
    assert {field.name for field in again.fields} == {"orderId", "shipTo", "billTo", "lines"}
    assert '"zipCode"' in str(made.to_json()).replace("'", '"')


def test_a_record_inside_an_envelope_is_taken_for_the_rows() -> None:
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": ["null", ORDER], "default": None}],
    }
    loaded = le.load(envelope)
    columns = columns_of({"after": "$", "after.orderId": "order_id"}, loaded)
    assert [field.name for field in columns.schema(loaded).fields] == ["order_id", "shipTo", "billTo", "lines"]
    assert columns.path("after.orderId") == "order_id"
    assert columns.path("after.shipTo.zipCode") == "shipTo.zipCode"
    assert columns.path("op") is None


@pytest.mark.parametrize(
    ("mapping", "said", "hint"),
    [
        ({"orderID": "order_id"}, "does not exist: orderID", "did you mean orderId?"),
        ({"shipTo.zipcode": "shipTo.zip"}, "does not exist: shipTo.zipcode", "did you mean shipTo.zipCode?"),
        ({"shipTo.zipCode": "zip"}, "moves it into no other record", "write shipTo.zipCode: shipTo.zip"),
        ({"shipTo": "ship_to", "shipTo.zipCode": "shipTo.zip"}, "no other record", "write shipTo.zipCode: ship_to.zip"),
        ({"orderId": "billTo"}, "two fields are mapped to one column", "a column of its own"),
        ({"orderId": "a..b"}, "what is no path of a table", "name a column"),
        ({"orderId": ""}, "what is no path of a table", "name a column"),
        ({"orderId": "$"}, "no record is mapped", "name a record's path"),
        ({"shipTo": "$", "billTo": "$"}, "two records are mapped to the table's rows", "keep one"),
        ({"shipTo": "$", "orderId": "order_id"}, "lies outside the record", "leave the field out"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused_with_the_nearest_right_word(
    mapping: dict[str, str], said: str, hint: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        named(mapping)
    assert hint in (caught.value.hint or "")


def test_a_path_that_a_declared_rename_starts_from_may_be_mapped_though_the_schema_has_it_no_more() -> None:
    assert named({"amount": "amt"}, earlier=("amount",)) == le.load(ORDER)
