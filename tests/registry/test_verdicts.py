"""Both sides of a project: what the registry says of a schema, and what the tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.config.load import load_project
from lakeevolve.planning.project import Parts, check_project, plan_project
from lakeevolve.rules.catalogue import RULES
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.modes import MODES
from lakeevolve.rules.registry import levels
from lakeevolve.sources.registry.settings import URL
from lakeevolve.tables.delta import create_table

from .conftest import Answer, Ours, Told, record

V1 = record("Order", ("id", "long"), ("price", "double"))
NARROWER = record("Order", ("id", "long"), ("price", "int"))
WIDER = record("Order", ("id", "long"), ("price", "double"), ("note", ["null", "string"], None))


@pytest.fixture
def shop(ours: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ours:
    """A project whose table and registry have the first version."""
    monkeypatch.chdir(tmp_path)
    ours.put("orders-value", V1)
    create_table("delta:orders", le.load(V1))
    return ours


def project(schema: Any, mode: str = "BACKWARD", *, tables: str = "[delta:orders]", more: str = "") -> Parts | Any:
    Path("orders.avsc").write_text(json.dumps(schema))
    Path("lakeevolve.yaml").write_text(
        f"version: 1\nsubjects:\n  orders: {{source: orders.avsc, registry: orders-value, mode: {mode},"
        f" tables: {tables}}}\n{more}"
    )
    return load_project()


def rules(parts: Parts) -> dict[str, Finding]:
    return {each.rule: each for each in parts.findings}


def test_nothing_is_said_where_both_agree(shop: Ours) -> None:
    for judged in (check_project, plan_project):
        parts = judged(project(WIDER))
        assert parts.findings == ()
        assert [part.error for part in parts.parts] == [None]


def test_the_registry_passes_forward_and_the_table_refuses_double_to_int(
    shop: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.ask("PUT", "/config/orders-value", {"compatibility": "FORWARD"})
    parts = plan_project(project(NARROWER, "FORWARD"))
    found = rules(parts)["REGISTRY-PASSES-TABLE-REFUSES"]
    assert found.message == "the registry passes FORWARD, delta:orders refuses price: double is replaced by int"
    assert parts.parts[0].value.refused
    assert main(["plan"]) == 1
    assert "the registry passes FORWARD, delta:orders refuses price" in capsys.readouterr().out


def test_check_tells_both_verdicts_too(shop: Ours) -> None:
    shop.ask("PUT", "/config/orders-value", {"compatibility": "FORWARD"})
    found = rules(check_project(project(NARROWER, "BACKWARD")))
    assert found["REGISTRY-PASSES-TABLE-REFUSES"].message.startswith(
        "the registry passes FORWARD, delta:orders refuses price"
    )
    assert found["REGISTRY-WEAKER-THAN-POLICY"].from_ == "FORWARD"


def test_what_the_registry_would_refuse_is_an_error_before_the_table_is_changed(shop: Ours) -> None:
    shop.ask("PUT", "/config/orders-value", {"compatibility": "FULL"})
    required = record("Order", ("id", "long"))
    parts = check_project(project(required, "BACKWARD"))
    assert parts.parts[0].value.compatible
    found = rules(parts)["REGISTRY-REFUSES"]
    assert (found.severity, found.from_, found.to) == ("error", "FULL", "orders-value")
    assert main(["check"]) == 1


def test_without_tables_a_schema_is_held_against_the_registered_versions(
    ours: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = check_project(project(V1, tables="[]"))
    assert [(part.error, part.value.compatible) for part in first.parts] == [(None, True)]
    ours.put("orders-value", V1)
    ours.put("orders-value", WIDER)
    required = record("Order", ("id", "long"), ("price", "double"), ("who", "string"))
    assert not check_project(project(required, tables="[]")).parts[0].value.compatible
    # What is registered already is held against what came before it.
    same = check_project(project(WIDER, tables="[]")).parts[0].value
    assert [each.rule for each in same.findings] == [each.rule for each in le.check(WIDER, [V1]).findings]


def test_a_source_in_the_registry_is_held_against_the_versions_before_it(
    ours: Ours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ours.ask("PUT", "/config", {"compatibility": "NONE"})
    for schema in (V1, NARROWER, WIDER):
        ours.put("orders-value", schema)
    for source, compatible in (("orders-value", True), ("orders-value@2", False), ("orders-value@1", True)):
        Path("lakeevolve.yaml").write_text(f"version: 1\nsubjects: {{orders: {{source: 'registry:{source}'}}}}\n")
        parts = check_project(load_project())
        assert parts.parts[0].value.compatible is compatible
        assert "REGISTRY-WEAKER-THAN-POLICY" in rules(parts)


def test_versions_before_an_event_was_in_the_union_are_none_of_it(ours: Ours) -> None:
    a, b = record("A", ("x", "int")), record("B", ("y", "int"))
    ours.put("topic-value", [a])
    ours.put("topic-value", [a, b])
    assert le.check(b, "registry:topic-value@*#B", "FULL_TRANSITIVE").compatible
    with pytest.raises(le.errors.SourceError, match="no record C"):
        le.check(b, "registry:topic-value@*#C")


# Levels ---------------------------------------------------------------------------------------------------------------


def said(mode: str, level: str | None, *, subject: str | None = "s", streams: bool = False) -> list[str]:
    return [each.rule for each in levels("orders", subject, mode, level, streams)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", MODES)
def test_a_level_is_weaker_where_it_leaves_out_a_direction_or_old_versions(mode: str, level: str) -> None:
    promises = {
        (direction, reach)
        for direction in MODES[mode]
        for reach in (("newest", "all") if mode.endswith("_TRANSITIVE") else ("newest",))
    }
    keeps = {
        (direction, reach)
        for direction in MODES[level]
        for reach in (("newest", "all") if level.endswith("_TRANSITIVE") else ("newest",))
    }
    assert (said(mode, level) == ["REGISTRY-WEAKER-THAN-POLICY"]) is not (promises <= keeps)


def test_kafka_streams_needs_backward_on_both_sides() -> None:
    assert said("FORWARD", None, subject=None, streams=True) == ["REGISTRY-STREAMS-NEEDS-BACKWARD"]
    assert said("FORWARD", "FORWARD", streams=True) == ["REGISTRY-STREAMS-NEEDS-BACKWARD"] * 2
    assert said("BACKWARD", "FULL_TRANSITIVE", streams=True) == []
    assert said("FORWARD", "FULL") == []
    for topic in ("app-totals-changelog-value", "app-by-id-repartition-key"):
        assert said("FULL", "NONE", subject=topic)[-1] == "REGISTRY-STREAMS-NEEDS-BACKWARD"


def test_a_kafka_streams_application_is_told_by_the_project(shop: Ours, tmp_path: Path) -> None:
    project(V1)
    Path("lakeevolve.yaml").write_text(
        "version: 1\nsubjects:\n"
        "  orders: {source: orders.avsc, streams: true, mode: FORWARD, tables: ['delta:orders']}\n"
    )
    found = rules(check_project(load_project()))["REGISTRY-STREAMS-NEEDS-BACKWARD"]
    assert (found.severity, found.from_) == ("error", "FORWARD")
    assert main(["check"]) == main(["plan"]) == 1


def test_each_table_with_a_mode_of_its_own_is_held_against_the_level(shop: Ours) -> None:
    parts = check_project(project(V1, more="tables: {'delta:*': {mode: FULL}}\n"))
    assert rules(parts)["REGISTRY-WEAKER-THAN-POLICY"].to == "FULL"


# Policy and failures --------------------------------------------------------------------------------------------------


def test_the_policy_weighs_what_is_said_of_the_registry(shop: Ours) -> None:
    shop.ask("PUT", "/config/orders-value", {"compatibility": "NONE"})
    found = rules(plan_project(project(V1)))["REGISTRY-WEAKER-THAN-POLICY"]
    assert found.severity == "warning"
    off = "policy: {severity: {REGISTRY-WEAKER-THAN-POLICY: off}}\n"
    assert rules(plan_project(project(V1, more=off))) == {}
    waived = f"policy: {{waivers: [{{fingerprint: {found.fingerprint}, reason: r, approver: a}}]}}\n"
    parts = plan_project(project(V1, more=waived))
    assert [(each.rule, each.waived) for each in parts.findings] == [("REGISTRY-WEAKER-THAN-POLICY", True)]


def test_a_registry_that_is_down_fails_the_registered_subjects_and_no_others(
    shop: Ours, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(URL, "http://127.0.0.1:1")
    Path("other.avsc").write_text(json.dumps(V1))
    file = project(WIDER).file
    file.write_text(file.read_text() + "  other: {source: other.avsc}\n")
    parts = check_project(load_project())
    assert [(part.subject, part.table, part.error is None) for part in parts.parts] == [
        ("orders", "delta:orders", True),
        ("other", None, True),
        ("orders", None, False),
    ]
    assert main(["check"]) == 2
    assert "does not answer" in capsys.readouterr().out


def test_a_project_without_registered_subjects_asks_no_registry(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.answer = lambda method, path: Answer(500)
    monkeypatch.chdir(tmp_path)
    Path("a.avsc").write_text(json.dumps(V1))
    Path("lakeevolve.yaml").write_text("version: 1\nsubjects: {a: {source: a.avsc}}\n")
    assert main(["check"]) == 0
    assert told.asked == []


def test_a_subject_says_which_one_of_the_registry_it_is(tmp_path: Path) -> None:
    from lakeevolve.config.project import Subject

    for source, wanted in (
        ("registry:orders-value@latest", "orders-value"),
        ("registry:orders-value", "orders-value"),
        ("registry:events@3#shop.A", "events"),
        ("orders.avsc", None),
    ):
        assert Subject(source=source).registered_as == wanted
    assert Subject(source="orders.avsc", registry="x-value").registered_as == "x-value"


def test_the_rules_are_in_the_catalogue() -> None:
    assert {rule for rule in RULES if rule.startswith("REGISTRY-")} >= {
        "REGISTRY-WEAKER-THAN-POLICY",
        "REGISTRY-STREAMS-NEEDS-BACKWARD",
        "REGISTRY-REFUSES",
        "REGISTRY-PASSES-TABLE-REFUSES",
    }


# Without a project ----------------------------------------------------------------------------------------------------


def test_check_of_a_subject_tells_what_the_registry_would_say_of_the_new_schema(
    shop: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.ask("PUT", "/config/orders-value", {"compatibility": "FULL"})
    Path("new.avsc").write_text(json.dumps(record("Order", ("id", "long"))))
    assert main(["check", "registry:orders-value@*", "new.avsc"]) == 1
    out = capsys.readouterr().out
    assert "REGISTRY-REFUSES" in out
    assert "BACKWARD: compatible" in out
    assert main(["check", "registry:orders-value@*", "new.avsc", "--no-registry"]) == 0
    shop.ask("PUT", "/config/orders-value", {"compatibility": "FORWARD"})
    Path("new.avsc").write_text(json.dumps(NARROWER))
    assert main(["check", "registry:orders-value@*", "new.avsc"]) == 1
    out = capsys.readouterr().out
    assert "the registry passes FORWARD, the policy refuses price" in out
    assert "REGISTRY-WEAKER-THAN-POLICY" in out


def test_plan_to_a_registered_version_tells_that_the_registry_passed_it_and_the_table_does_not(
    shop: Ours, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.ask("PUT", "/config/orders-value", {"compatibility": "FORWARD"})
    shop.put("orders-value", NARROWER)
    command = ["plan", "delta:orders", "registry:orders-value@latest", "--mode", "FORWARD", "--out", "plan.json"]
    assert main(command) == 1
    said = "warning: the registry passes FORWARD, delta:orders refuses price: double is replaced by int"
    assert said in capsys.readouterr().err
    before = Path("plan.json").read_bytes()
    # The plan itself is the same whatever the registry says.
    assert main([*command, "--no-registry"]) == 1
    assert "registry" not in capsys.readouterr().err
    assert Path("plan.json").read_bytes() == before


def test_where_nobody_has_the_registrys_credentials_a_project_is_judged_without_it(
    shop: Ours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, "http://127.0.0.1:1")
    project(WIDER)
    assert main(["check", "--no-registry"]) == main(["plan", "--no-registry"]) == 0
    assert main(["plan"]) == 2
