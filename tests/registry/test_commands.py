"""``lakeevolve registry``: its commands as a user types them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.report.schemas import SCHEMAS
from lakeevolve.sources.registry import open_registry
from lakeevolve.sources.registry.settings import URL
from lakeevolve.tables.delta import create_table
from tests.conftest import Lake

from .conftest import ADDRESS, Ours, record

V1 = record("Order", ("id", "int"), ("price", "float"))
V2 = record("Order", ("id", "long"), ("price", "float"))
V3 = record("Order", ("id", "long"), ("price", "double"), ("note", ["null", "string"], None))
REFERENCE = "shop.Address=address@1"


def printed(capsys: pytest.CaptureFixture[str], name: str, *args: str, code: int = 0) -> Any:
    """The JSON of a command, held against its schema."""
    assert main(["registry", *args, "--format", "json"]) == code
    found = json.loads(capsys.readouterr().out)
    pytest.importorskip("jsonschema").Draft202012Validator(SCHEMAS[f"registry-{name}"]).validate(found)
    return found


@pytest.fixture
def here(ours: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ours:
    monkeypatch.chdir(tmp_path)
    return ours


# subjects -------------------------------------------------------------------------------------------------------------


def test_subjects_are_listed_with_versions_level_and_type(here: Ours, capsys: pytest.CaptureFixture[str]) -> None:
    here.put("orders-value", V1)
    here.put("orders-value", V2)
    here.put("orders-shop.Sent", ADDRESS)
    here.ask("PUT", "/config/orders-value", {"compatibility": "FULL"})
    here.ask("DELETE", "/subjects/orders-value/versions/1")
    here.put("gone", ADDRESS)
    here.ask("DELETE", "/subjects/gone")
    assert main(["registry", "subjects"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "orders-shop.Sent: AVRO, version 1, BACKWARD (global)",
        "orders-value: AVRO, version 2, FULL",
        "2 subjects",
    ]
    assert main(["registry", "subjects", "--deleted"]) == 0
    assert capsys.readouterr().out.splitlines()[::2] == [
        "gone: AVRO, version (1), BACKWARD (global)",
        "orders-value: AVRO, version (1), 2, FULL",
    ]
    found = printed(capsys, "subjects", "subjects", "--topic", "orders")
    assert {each["subject"]: each["strategy"] for each in found["subjects"]} == {
        "orders-shop.Sent": "TopicRecordName",
        "orders-value": "TopicName",
    }
    assert main(["registry", "subjects", "orders-v", "--url", here.url]) == 0
    assert "1 subject" in capsys.readouterr().out


# diff -----------------------------------------------------------------------------------------------------------------


def test_a_table_and_its_subject_are_held_against_each_other(
    here: Ours, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in (V1, V2, V3):
        here.put("orders-value", version)
    uri = Lake("iceberg", tmp_path).create("orders", le.load(V1), mark=True)
    le.apply(le.plan(uri, V2))
    here.ask("DELETE", "/subjects/orders-value/versions/1")
    found = printed(capsys, "diff", "diff", "orders-value", uri)
    assert [(each["version"], each["deleted"], each["table_versions"]) for each in found["versions"]] == [
        (1, True, [1]),
        (2, False, [2]),
        (3, False, []),
    ]
    assert [each["text"] for each in found["changes"]] == [
        "note: [null, string] is added, with the default null",
        "price: float is promoted to double",
    ]
    assert [each["rule"] for each in found["findings"]] == ["REGISTRY-AHEAD-OF-TABLE", "REGISTRY-VERSION-DELETED"]
    assert main(["registry", "diff", "orders-value", uri, "--fail-on", "warning"]) == 1
    text = capsys.readouterr().out
    assert "1 (deleted): the table's version 1" in text
    assert "has version 2 of orders-value, and the registry has version 3" in text
    le.apply(le.plan(uri, "registry:orders-value@latest"))
    assert printed(capsys, "diff", "diff", "orders-value", uri)["equal"] is True


def test_a_table_that_was_changed_behind_the_registry_is_told(
    here: Ours, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here.put("orders-value", V1)
    create_table("delta:orders", le.load(record("Order", ("id", "int"), ("price", "float"), ("extra", "int"))))
    found = printed(capsys, "diff", "diff", "orders-value", "delta:orders")
    assert [each["rule"] for each in found["findings"]] == ["REGISTRY-TABLE-UNKNOWN"]
    for format in ("markdown", "html", "sarif", "junit", "github", "gitlab"):
        assert main(["registry", "diff", "orders-value", "delta:orders", "--format", format]) == 0
        assert "REGISTRY-TABLE-UNKNOWN" in capsys.readouterr().out, format


def test_a_table_of_one_event_is_held_against_its_record_of_the_union(
    here: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    here.put("events-value", [V1, ADDRESS])
    create_table("delta:orders", le.load(V1))
    assert printed(capsys, "diff", "diff", "events-value#Order", "delta:orders")["equal"] is True
    assert main(["registry", "diff", "events-value@1", "delta:orders"]) == 2


# register -------------------------------------------------------------------------------------------------------------


def test_a_schema_is_registered_under_a_subject_or_by_a_strategy(
    here: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("order.avsc").write_text(json.dumps(V1))
    first = printed(capsys, "register", "register", "order.avsc", "--subject", "mine")
    assert (first["subject"], first["version"], first["new"]) == ("mine", 1, True)
    again = printed(capsys, "register", "register", "order.avsc", "--subject", "mine")
    assert (again["version"], again["id"], again["new"]) == (1, first["id"], False)
    for strategy, subject in (
        ("TopicName", "orders-value"),
        ("RecordName", "shop.Order"),
        ("TopicRecordName", "orders-shop.Order"),
    ):
        assert (
            printed(capsys, "register", "register", "order.avsc", "--topic", "orders", "--strategy", strategy)[
                "subject"
            ]
            == subject
        )
    assert (
        printed(capsys, "register", "register", "order.avsc", "--topic", "orders", "--key")["subject"] == "orders-key"
    )
    assert main(["registry", "register", "order.avsc"]) == 2
    assert main(["registry", "register", "order.avsc", "--subject", "a", "--topic", "b"]) == 2


def test_a_schema_of_several_files_is_registered_whole_or_with_its_references(
    here: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    here.put("address", ADDRESS)
    Path("Address.avsc").write_text(json.dumps(ADDRESS))
    Path("order.avsc").write_text(json.dumps(record("Order", ("to", "Address"))))
    assert main(["registry", "register", "order.avsc", "--subject", "whole"]) == 0
    assert main(["registry", "register", "order.avsc", "--subject", "parts", "--reference", REFERENCE]) == 0
    assert "Address" in here.ask("GET", "/subjects/whole/versions/1/schema")["fields"][0]["type"]["name"]
    assert here.ask("GET", "/subjects/parts/versions/1")["references"][0]["subject"] == "address"
    assert le.load("registry:whole") == le.load("registry:parts") == le.load("order.avsc")
    for bad in ("shop.Address", "shop.Address=address", "=address@1"):
        assert main(["registry", "register", "order.avsc", "--subject", "parts", "--reference", bad]) == 2
    capsys.readouterr()


def test_what_the_registry_refuses_is_said_with_its_reason(here: Ours, capsys: pytest.CaptureFixture[str]) -> None:
    here.put("orders-value", V2)
    Path("order.avsc").write_text(json.dumps(record("Order", ("id", "string"))))
    assert main(["registry", "register", "order.avsc", "--subject", "orders-value"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "incompatible" in lines[0]
    assert here.ask("GET", "/subjects/orders-value/versions") == [1]


# uses -----------------------------------------------------------------------------------------------------------------


def test_a_change_to_a_shared_type_names_every_subject_and_table_that_it_reaches(
    here: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    here.put("address", ADDRESS)
    address = [{"name": "shop.Address", "subject": "address", "version": 1}]
    here.put("customers", record("Customer", ("home", "Address")), address)
    customer = [{"name": "shop.Customer", "subject": "customers", "version": 1}]
    here.put("orders", record("Order", ("by", "Customer")), customer)
    here.put("other", V1)
    Path("lakeevolve.yaml").write_text(
        "version: 1\nsubjects: {o: {source: 'registry:orders', tables: ['delta:orders', 'delta:old']}}\n"
    )
    found = printed(capsys, "uses", "uses", "address")
    assert found["users"] == [
        {"subject": "customers", "version": 1, "tables": []},
        {"subject": "orders", "version": 1, "tables": ["delta:orders", "delta:old"]},
    ]
    assert main(["registry", "uses", "address@1"]) == 0
    assert "orders@1: delta:orders, delta:old" in capsys.readouterr().out


# apply --register -----------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(here: Ours) -> str:
    here.put("orders-value", V1)
    create_table("delta:orders", le.load(V1))
    le.plan("delta:orders", V3).save("plan.json")
    return "plan.json"


APPLY = ("apply", "--yes", "--allow", "rewrite", "--register", "orders-value")


def test_after_an_apply_the_schema_is_registered_when_asked_for(
    here: Ours, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*APPLY, plan, "--dry-run"]) == 0
    assert here.ask("GET", "/subjects/orders-value/versions") == [1]
    assert main([*APPLY, plan]) == 0
    assert "registered as version 2 of orders-value" in capsys.readouterr().err
    assert le.load("registry:orders-value") == le.open_table("delta:orders").schema
    # Once more: nothing to do on either side.
    assert main([*APPLY, plan]) == 0
    assert here.ask("GET", "/subjects/orders-value/versions") == [1, 2]


def test_what_the_registry_would_refuse_is_not_applied(
    here: Ours, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here.ask("PUT", "/config/orders-value", {"compatibility": "FORWARD"})
    before = le.open_table("delta:orders").schema
    assert main([*APPLY, plan]) == 2
    assert "the registry would refuse it" in capsys.readouterr().err
    assert le.open_table("delta:orders").schema == before


def test_a_registry_that_is_away_is_found_out_before_the_table_is_changed(
    here: Ours, plan: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = le.open_table("delta:orders").schema
    monkeypatch.setenv(URL, "http://127.0.0.1:1")
    assert main([*APPLY, plan]) == 2
    assert "does not answer" in capsys.readouterr().err
    assert le.open_table("delta:orders").schema == before


def test_registering_is_for_one_plan(here: Ours, plan: str) -> None:
    Path("plans").mkdir()
    assert main([*APPLY, "plans"]) == 2
    assert main([*APPLY]) == 2


# serve ----------------------------------------------------------------------------------------------------------------


def test_a_folder_is_served_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reg" / "orders-value").mkdir(parents=True)
    (tmp_path / "reg" / "orders-value" / "v1.avsc").write_text(json.dumps(V1))
    command = [sys.executable, "-m", "lakeevolve", "registry", "serve", str(tmp_path / "reg"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as served:
        assert served.stderr is not None
        told = served.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", told)
        try:
            assert found is not None, told
            monkeypatch.setenv(URL, found.group())
            assert le.load("registry:orders-value").to_json() == V1
            with open_registry() as registry:
                registry.register("orders-value", json.dumps(V2))
        finally:
            os.kill(served.pid, signal.SIGTERM)
        assert served.wait(timeout=10) == 0
        assert served.stderr.read().strip() == "stopped"
    assert (tmp_path / "reg" / "orders-value" / "v2.avsc").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--port", "http"), "no port"),
        (("--port", "99999"), "no port"),
        (("--read-only",), "no such folder"),
        (("--host", "203.0.113.1", "--port", "0"), "nothing can listen there"),
    ],
)
def test_what_cannot_be_served_is_told(
    tmp_path: Path, args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["registry", "serve", str(tmp_path / "none"), *args]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) <= 3
