"""``registry:`` sources, read from our own registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import ConfigError, SchemaError, SourceError, SourceNotFound
from lakeevolve.sources import expand
from lakeevolve.sources.registry import Address, address, of_topic, open_registry, subject_name
from lakeevolve.sources.registry.client import text_of
from lakeevolve.tables.delta import create_table

from .conftest import ADDRESS, Ours, record

ORDER_1 = record("Order", ("id", "int"))
ORDER_2 = record("Order", ("id", "long"))
ORDER_3 = record("Order", ("id", "long"), ("note", "string", ""))


def reference(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


@pytest.fixture
def orders(ours: Ours) -> Ours:
    for each in (ORDER_1, ORDER_2, ORDER_3):
        ours.put("orders-value", each)
    return ours


@pytest.mark.parametrize(
    ("text", "subject", "version", "event"),
    [
        ("orders-value", "orders-value", "latest", None),
        ("orders-value@latest", "orders-value", "latest", None),
        ("orders-value@3", "orders-value", 3, None),
        ("orders-value@*", "orders-value", "*", None),
        (":.staging:orders@value@12", ":.staging:orders@value", 12, None),
        ("events@2#shop.Placed", "events", 2, "shop.Placed"),
        ("events#*", "events", "latest", "*"),
    ],
)
def test_a_source_names_subject_version_and_record(text: str, subject: str, version: Any, event: str | None) -> None:
    assert address(text) == Address(subject, version, event)
    assert address(Address(subject, version, event).uri) == Address(subject, version, event)


@pytest.mark.parametrize(
    "text", ["", "@3", "orders@", "orders@0", "orders@v3", "orders@first", "orders@3#", "#A", "..@1", "."]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SourceError, match="a registry source is") as caught:
        address(text)
    assert "orders-value@3" in (caught.value.hint or "")


def test_each_version_is_a_source_and_the_star_names_them_all(orders: Ours) -> None:
    assert le.load("registry:orders-value@1").to_json() == ORDER_1
    assert le.load("registry:orders-value@latest") == le.load("registry:orders-value") == le.load(ORDER_3)
    assert [each.to_json() for each in expand("registry:orders-value@*")] == [ORDER_1, ORDER_2, ORDER_3]
    assert le.load("registry:orders-value@2").source == "registry:orders-value@2"


def test_every_call_and_command_takes_a_registry_source(
    orders: Ours, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert le.check(ORDER_1, "registry:orders-value@*", "BACKWARD").compatible is False
    assert [type(each).__name__ for each in le.diff("registry:orders-value@1", "registry:orders-value@2").changes] == [
        "PromoteType"
    ]
    assert le.resolve("registry:orders-value@1", "registry:orders-value@3").compatible
    assert main(["diff", "registry:orders-value@1", "registry:orders-value@latest"]) == 0
    assert "note" in capsys.readouterr().out
    assert main(["check", "registry:orders-value@*"]) == 0
    new = tmp_path / "new.avsc"
    new.write_text(json.dumps(ORDER_1))
    assert main(["check", "registry:orders-value@*", str(new)]) == 1


def test_one_schema_is_wanted_where_the_star_names_many(orders: Ours) -> None:
    with pytest.raises(SourceError, match="names every version"):
        le.load("registry:orders-value@*")


def test_a_soft_deleted_version_is_read_by_its_number_and_left_out_of_the_star(orders: Ours) -> None:
    orders.ask("DELETE", "/subjects/orders-value/versions/2")
    assert [each.source for each in expand("registry:orders-value@*")] == [
        "registry:orders-value@1",
        "registry:orders-value@3",
    ]
    assert le.load("registry:orders-value@2").to_json() == ORDER_2
    with open_registry() as registry:
        assert registry.versions("orders-value") == [1, 3]
        assert registry.versions("orders-value", deleted=True) == [1, 2, 3]
        with pytest.raises(SourceNotFound):
            registry.version("orders-value", 2)


def test_a_soft_deleted_subject_is_read_by_number_and_listed_when_asked_for(orders: Ours) -> None:
    orders.ask("DELETE", "/subjects/orders-value")
    assert le.load("registry:orders-value@3").to_json() == ORDER_3
    with open_registry() as registry:
        assert registry.subjects() == []
        assert registry.subjects(deleted=True) == ["orders-value"]
    with pytest.raises(SourceNotFound, match="orders-value"):
        le.load("registry:orders-value@latest")


# References -----------------------------------------------------------------------------------------------------------


def test_types_of_other_subjects_are_put_where_they_are_used_first(ours: Ours) -> None:
    ours.put("country", record("Country", ("code", "string")))
    place = record("Address", ("zip", "int"), ("country", "Country"))
    ours.put("address", place, [reference("shop.Country", "country")])
    order = record("Order", ("to", "Address"), ("back", ["null", "shop.Address"]), ("origin", "Country"))
    ours.put("orders", order, [reference("shop.Address", "address"), reference("shop.Country", "country")])
    loaded = le.load("registry:orders")
    whole = record(
        "Order",
        ("to", record("Address", ("zip", "int"), ("country", record("Country", ("code", "string"))))),
        ("back", ["null", "shop.Address"]),
        ("origin", "shop.Country"),
    )
    assert loaded == le.load(whole)


def test_a_type_that_stands_inside_of_a_referred_one_is_known_too(ours: Ours) -> None:
    ours.put("customer", record("Customer", ("home", ADDRESS)))
    ours.put("orders", record("Order", ("to", "Address"), ("by", "Customer")), [reference("shop.Customer", "customer")])
    assert le.load("registry:orders") == le.load(
        record("Order", ("to", ADDRESS), ("by", record("Customer", ("home", "shop.Address"))))
    )


def test_a_type_without_a_namespace_keeps_none(ours: Ours) -> None:
    ours.put("plain", {"type": "record", "name": "Plain", "fields": [{"name": "x", "type": "int"}]})
    ours.put("holder", {"type": "record", "name": "Holder", "fields": [{"name": "p", "type": "Plain"}]},
             [reference("Plain", "plain")])  # fmt: skip
    order = record("Order", ("a", "Plain"), ("b", "Holder"))
    ours.put("orders", order, [reference("Holder", "holder"), reference("Plain", "plain")])
    made = le.load("registry:orders")
    assert made.fields[0].type.name == "Plain"  # type: ignore[union-attr]
    assert made.fields[1].type.fields[0].type == made.fields[0].type  # type: ignore[union-attr]


def test_what_a_version_refers_to_is_read_also_after_it_was_soft_deleted(ours: Ours) -> None:
    ours.put("address", ADDRESS)
    ours.put("orders", record("Order", ("to", "Address")), [reference("shop.Address", "address")])
    ours.server.store.delete("address", [1], permanent=False)
    assert le.load("registry:orders") == le.load(record("Order", ("to", ADDRESS)))


def test_who_refers_to_a_subject_is_told(ours: Ours) -> None:
    ours.put("address", ADDRESS)
    for subject in ("orders", "customers"):
        ours.put(subject, record(subject.title(), ("to", "Address")), [reference("shop.Address", "address")])
    with open_registry() as registry:
        assert registry.users("address", 1) == [("customers", 1), ("orders", 1)]
        assert registry.users("orders") == []


# Several events on a topic --------------------------------------------------------------------------------------------


@pytest.fixture
def events(ours: Ours) -> Ours:
    ours.put("placed", record("Placed", ("id", "long"), ("to", ADDRESS)))
    ours.put("sent", record("Sent", ("id", "long"), ("to", "Address")), [reference("shop.Placed", "placed")])
    references = [reference("shop.Placed", "placed"), reference("shop.Sent", "sent")]
    ours.put("orders-value", ["shop.Placed", "shop.Sent"], references)
    return ours


def test_a_union_of_records_is_a_union_also_where_they_use_each_other(events: Ours) -> None:
    root = le.load("registry:orders-value").root
    assert [branch.name for branch in root.branches] == ["shop.Placed", "shop.Sent"]  # type: ignore[union-attr]


def test_one_record_of_a_union_is_picked_by_its_name(events: Ours) -> None:
    for name in ("shop.Sent", "Sent"):
        assert le.load(f"registry:orders-value@1#{name}") == le.load(record("Sent", ("id", "long"), ("to", ADDRESS)))
    assert le.load("registry:placed#Placed") == le.load("registry:placed")
    assert [each.record.name for each in expand("registry:orders-value@*#Sent")] == ["shop.Sent"]
    with pytest.raises(SourceError, match="no record Returned") as caught:
        le.load("registry:orders-value#Returned")
    assert caught.value.hint == "its records: shop.Placed, shop.Sent"


def test_all_records_of_a_union_are_the_columns_of_one_table(events: Ours, tmp_path: Path) -> None:
    schema = le.load("registry:orders-value#*")
    assert [(field.name, field.default) for field in schema.fields] == [("Placed", None), ("Sent", None)]
    create_table(f"delta:{tmp_path / 'events'}", schema)
    plan = le.plan(f"delta:{tmp_path / 'events'}", "registry:orders-value#*")
    assert not plan.refused
    assert [step.changes for step in plan.steps] == [()]


def test_a_union_with_other_branches_is_no_table_of_records(ours: Ours) -> None:
    ours.put("mixed", ["null", record("A", ("x", "int"))])
    with pytest.raises(SourceError, match="records alone"):
        le.load("registry:mixed#*")


def test_records_of_one_short_name_go_by_their_full_names(ours: Ours) -> None:
    other = {**record("A", ("y", "int")), "namespace": "other"}
    ours.put("both", [record("A", ("x", "int")), other])
    assert [field.name for field in le.load("registry:both#*").fields] == ["shop_A", "other_A"]
    with pytest.raises(SourceError, match="more than one record A"):
        le.load("registry:both#A")


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("TopicName", "orders-value"),
        ("TopicNameStrategy", "orders-value"),
        ("RecordNameStrategy", "shop.Placed"),
        ("TopicRecordNameStrategy", "orders-shop.Placed"),
    ],
)
def test_a_strategy_names_the_subject(strategy: str, wanted: str) -> None:
    assert subject_name("orders", strategy, "shop.Placed") == wanted


def test_keys_have_subjects_of_their_own_and_what_is_unknown_is_refused() -> None:
    assert subject_name("orders", "TopicName", key=True) == "orders-key"
    with pytest.raises(ConfigError, match="not known here"):
        subject_name("", "TopicName")
    with pytest.raises(ConfigError, match="no subject name strategy 'Alphabetical'"):
        subject_name("orders", "Alphabetical")


def test_the_subjects_of_a_topic_are_found_by_their_names() -> None:
    names = [
        "orders-value",
        "orders-key",
        "orders-shop.Placed",
        "orders-Sent",
        "orders2-value",
        "shop.Placed",
        "orders-",
    ]
    assert of_topic("orders", names) == {
        "orders-value": "TopicName",
        "orders-key": "TopicName",
        "orders-shop.Placed": "TopicRecordName",
        "orders-Sent": "TopicRecordName",
    }


# What the registry says of itself -------------------------------------------------------------------------------------


def test_a_subjects_own_level_comes_before_the_global_one(orders: Ours) -> None:
    with open_registry() as registry:
        assert registry.level("orders-value") == ("BACKWARD", False)
        orders.ask("PUT", "/config", {"compatibility": "FULL"})
        assert registry.level("orders-value") == ("FULL", False)
        orders.ask("PUT", "/config/orders-value", {"compatibility": "forward_transitive"})
        assert registry.level("orders-value") == ("FORWARD_TRANSITIVE", True)


def test_the_registry_is_asked_whether_it_would_take_a_schema(orders: Ours) -> None:
    with open_registry() as registry:
        assert registry.accepts("orders-value", json.dumps(ORDER_2)) is True
        assert registry.accepts("orders-value", json.dumps(record("Order", ("id", "string")))) is False
        assert registry.accepts("not-there-yet", json.dumps(ORDER_1)) is True


def test_a_schema_is_registered_once_and_with_every_type_it_uses(ours: Ours) -> None:
    schema = le.load(record("Order", ("to", ADDRESS)))
    with open_registry() as registry:
        first = registry.register("orders", text_of(schema))
        assert registry.register("orders", text_of(schema)) == first
        assert registry.versions("orders") == [1]
    assert le.load("registry:orders") == schema


def test_a_broken_old_version_is_read_as_a_history_and_refused_as_a_candidate(ours: Ours) -> None:
    broken = {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}
    ours.server.store.add("e", json.dumps(broken), (), 7, 1)
    assert len(expand("registry:e@*")) == 1
    with pytest.raises(SchemaError):
        le.load("registry:e@1")
