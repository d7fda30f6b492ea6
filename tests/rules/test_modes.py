from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import ConfigError, SchemaError
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.rules.catalogue import RULES
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.modes import MODES, Report, check

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
HISTORIES = [json.loads(line) for line in (CONFORMANCE / "compatibility_modes.jsonl").read_text().splitlines()]
PAIRS = [json.loads(line) for line in (CONFORMANCE / "avro_pairs.jsonl").read_text().splitlines()]

Make = Callable[..., Schema]


def rules(report: Report, *severities: str) -> list[str]:
    return [found.rule for found in report.findings if not severities or found.severity in severities]


def only(report: Report, rule: str) -> Finding:
    (found,) = (found for found in report.findings if found.rule == rule)
    return found


# The verdict --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history["id"])
def test_each_history_is_judged_as_avro_java_judges_it(history: dict[str, Any], mode: str) -> None:
    versions = [parse(version) for version in history["versions"]]
    report = check(parse(history["candidate"]), versions, mode)
    assert report.compatible is history["java_modes"][mode]


@pytest.mark.parametrize(
    ("change", "backward", "forward"),
    [
        ("add with default", True, True),
        ("add without default", False, True),
        ("remove", True, False),
        ("rename without alias", False, False),
        ("double to int", False, True),
        ("double to string", False, False),
    ],
)
def test_the_six_changes_in_the_three_modes(record: Make, change: str, backward: bool, forward: bool) -> None:
    key, amount = ("id", "string"), ("amount", "double")
    candidates = {
        "add with default": record(key, amount, ("currency", "string", "EUR")),
        "add without default": record(key, amount, ("currency", "string")),
        "remove": record(key),
        "rename without alias": record(key, ("total", "double")),
        "double to int": record(key, ("amount", "int")),
        "double to string": record(key, ("amount", "string")),
    }
    verdicts = [
        check(candidates[change], [record(key, amount)], mode).compatible for mode in ("BACKWARD", "FORWARD", "FULL")
    ]
    assert verdicts == [backward, forward, backward and forward]


@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD"])
@pytest.mark.parametrize("chunk", range(10))
def test_a_pair_has_findings_that_break_someone_exactly_where_it_does_not_resolve(chunk: int, mode: str) -> None:
    for pair in PAIRS[chunk::10]:
        writer, reader = (parse(pair[side], lenient=True) for side in ("writer", "reader"))
        candidate, old = (reader, writer) if mode == "BACKWARD" else (writer, reader)
        report = check(candidate, [old], mode)
        assert report.compatible is resolve(writer, reader).compatible, pair["id"]
        breaking = [found for found in report.findings if found.breaks and ": " not in found.breaks]
        breaking = [found for found in breaking if found.severity == "error"]
        assert bool(breaking) is not report.compatible, pair["id"]
        for found in report.findings:
            assert found.rule in RULES, pair["id"]
            assert found.message, pair["id"]
            assert any(find_type(schema.root, found.path) is not None for schema in (candidate, old)), pair["id"]


def test_findings_of_the_mode_are_errors_that_name_every_failing_version(record: Make) -> None:
    key = ("id", "string")
    versions = [record(key), record(key, ("x", "int", 1)), record(key), record(key, ("x", "int", 0))]
    report = check(record(key, ("x", "int")), versions, "BACKWARD_TRANSITIVE")
    found = only(report, "FIELD-ADDED-NO-DEFAULT")
    assert (found.severity, found.path, found.from_, found.to) == ("error", "x", None, "int")
    assert found.versions == (1, 3)
    assert found.breaks == "readers with the new schema, on data of versions 1, 3"


def test_a_mode_that_is_not_transitive_looks_at_the_newest_version(record: Make) -> None:
    versions = [record(("id", "string")), record(("id", "string"), ("x", "int", 1))]
    report = check(record(("id", "string"), ("x", "int")), versions, "BACKWARD")
    assert report.compatible
    assert "FIELD-ADDED-NO-DEFAULT" not in rules(report)


def test_what_breaks_in_both_directions_is_one_finding(record: Make) -> None:
    versions = [record(("a", "double")), record(("a", "double"), ("b", "int", 0))]
    report = check(record(("a", "string")), versions, "FULL_TRANSITIVE")
    found = only(report, "TYPE-CHANGED")
    assert found.versions == (1, 2)
    assert found.breaks == (
        "readers with the new schema, on data of versions 1, 2; readers of versions 1, 2, on new data"
    )


def test_versions_that_break_differently_have_findings_of_their_own(record: Make) -> None:
    report = check(record(("a", "string")), [record(("a", "int")), record(("a", "boolean"))], "BACKWARD_TRANSITIVE")
    changed = [(found.from_, found.versions) for found in report.findings if found.rule == "TYPE-CHANGED"]
    assert changed == [("boolean", (2,)), ("int", (1,))]


def test_no_history_is_compatible_in_every_mode(record: Make) -> None:
    for mode in MODES:
        report = check(record(("a", "int")), [], mode)
        assert report.compatible
        assert report.order == "any"


def test_the_mode_none_is_always_compatible_and_still_tells_what_it_sees(record: Make) -> None:
    report = check(record(("total", "double")), [record(("amount", "double"))], "NONE")
    assert report.compatible
    assert set(rules(report)) == {"NAME-RENAME-SUSPECTED", "ROLLOUT-NO-ORDER"}


def test_a_mode_may_be_written_in_small_letters(record: Make) -> None:
    assert check(record(("a", "int")), [], "full_transitive").mode == "FULL_TRANSITIVE"


@pytest.mark.parametrize("mode", ["BACKWARDS", "", "full transitive", None])
def test_a_mode_that_does_not_exist_is_an_error_that_says_which_do(record: Make, mode: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check(record(("a", "int")), [], mode)
    assert "BACKWARD" in (caught.value.hint or "") or "FULL_TRANSITIVE" in (caught.value.hint or "")


# Kinds of incompatibility -------------------------------------------------------------------------------------------


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def rec(name: str, *fields: Any, **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields], **more}


def decimal(precision: int, scale: int) -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"),
    [
        ("int", "long", None, ("TYPE-WIDENED", "int", "long")),
        ("long", "int", ("TYPE-NARROWED", "long", "int"), None),
        ("int", "string", ("TYPE-CHANGED", "int", "string"), ("TYPE-CHANGED", "int", "string")),
        (["null", "int"], "int", ("FIELD-MADE-REQUIRED", "[null, int]", "int"), None),
        ("int", ["null", "int"], None, ("FIELD-MADE-OPTIONAL", "int", "[null, int]")),
        (["null", "int"], ["null", "long"], None, ("TYPE-WIDENED", "int", "long")),
        (["null", "long"], ["null", "int"], ("TYPE-NARROWED", "long", "int"), None),
        (
            ["null", "int"],
            ["null", "string"],
            ("TYPE-CHANGED", "int", "string"),
            ("TYPE-CHANGED", "int", "string"),
        ),
        ("int", ["int", "string"], None, ("UNION-BRANCH-ADDED", None, "string")),
        (["int", "string"], ["int"], ("UNION-BRANCH-REMOVED", "string", None), None),
        (["int", "string", "boolean"], ["boolean", "int", "string"], None, None),
        (enum("A", "B"), enum("A"), ("ENUM-SYMBOL-REMOVED", "B", None), None),
        (enum("A"), enum("A", "B"), None, ("ENUM-SYMBOL-ADDED", None, "B")),
        (["null", enum("A", "B")], ["null", enum("A")], ("ENUM-SYMBOL-REMOVED", "B", None), None),
        (enum("A", default="A"), enum("A", "B", default="A"), None, None),
        (rec("P", ("x", "int")), rec("Q", ("x", "int")), ("NAME-CHANGED", "P", "Q"), ("NAME-CHANGED", "P", "Q")),
        (
            rec("P", ("x", "int")),
            rec("Q", ("x", "int"), aliases=["P"]),
            None,
            ("NAME-CHANGED", "P", "Q"),
        ),
        (
            ["null", rec("P", ("x", "int"))],
            ["null", rec("Q", ("x", "int"))],
            ("NAME-CHANGED", "P", "Q"),
            ("NAME-CHANGED", "P", "Q"),
        ),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            ("TYPE-FIXED-SIZE-CHANGED", "fixed(4)", "fixed(8)"),
            ("TYPE-FIXED-SIZE-CHANGED", "fixed(4)", "fixed(8)"),
        ),
        (
            decimal(9, 2),
            decimal(9, 3),
            ("TYPE-LOGICAL-CHANGED", "decimal(9,2)", "decimal(9,3)"),
            ("TYPE-LOGICAL-CHANGED", "decimal(9,2)", "decimal(9,3)"),
        ),
        (
            ["null", decimal(9, 2)],
            ["null", decimal(9, 3)],
            ("TYPE-LOGICAL-CHANGED", "decimal(9,2)", "decimal(9,3)"),
            ("TYPE-LOGICAL-CHANGED", "decimal(9,2)", "decimal(9,3)"),
        ),
    ],
)
def test_each_incompatibility_has_its_rule(
    record: Make, old: Any, new: Any, backward: tuple[Any, ...] | None, forward: tuple[Any, ...] | None
) -> None:
    before, after = record(("a", old)), record(("a", new))
    for mode, expected in (("BACKWARD", backward), ("FORWARD", forward)):
        report = check(after, [before], mode)
        found = [(f.rule, f.path, f.from_, f.to) for f in report.findings if f.severity == "error"]
        assert found == ([] if expected is None else [(expected[0], "a", *expected[1:])])
        assert report.compatible is (expected is None)


def test_a_field_that_an_older_reader_misses_was_removed_or_renamed(record: Make) -> None:
    old = record(("id", "int"), ("amount", "double"))
    gone = only(check(record(("id", "int")), [old], "FORWARD"), "FIELD-REMOVED-NO-DEFAULT")
    assert (gone.path, gone.from_, gone.to) == ("amount", "double", None)
    renamed = record(("id", "int"), {"name": "total", "type": "double", "aliases": ["amount"]})
    found = only(check(renamed, [old], "FORWARD"), "FIELD-RENAMED")
    assert (found.path, found.from_, found.to) == ("total", "amount", "total")


def test_faults_deep_inside_are_told_by_their_own_paths(record: Make) -> None:
    def schema(*fields: Any) -> Schema:
        inner = rec("P", *fields)
        return record(
            ("a", ["null", inner]),
            ("b", {"type": "array", "items": "P"}),
            ("c", {"type": "map", "values": ["null", "P"]}),
            ("d", ["string", "P"]),
        )

    report = check(schema(("x", "int"), ("y", "int")), [schema(("x", "int"))], "BACKWARD")
    found = [f.path for f in report.findings if f.rule == "FIELD-ADDED-NO-DEFAULT"]
    assert found == ["a.y", "b[].y", "c{}.y", "d<P>.y"]


def test_a_fault_beneath_a_renamed_field_is_told_in_the_new_names(record: Make) -> None:
    old = record(("addr", rec("A", ("zip", "string"))))
    new = record({"name": "address", "type": rec("A", ("zip", "int")), "aliases": ["addr"]})
    for mode in ("BACKWARD", "FULL"):
        found = [f for f in check(new, [old], mode).findings if f.rule == "TYPE-CHANGED"]
        assert [(f.path, f.from_, f.to) for f in found] == [("address.zip", "string", "int")]


def test_a_lost_branch_names_the_alias_that_would_keep_it(record: Make) -> None:
    old = record(("u", [rec("Ping", ("at", "int")), "string"]))
    new = record(("u", [rec("Pong", ("at", "int")), "string"]))
    found = only(check(new, [old], "BACKWARD"), "UNION-BRANCH-REMOVED")
    assert (found.path, found.from_, found.to) == ("u", "record Ping", None)
    assert '"aliases": ["Ping"]' in found.fix


def test_two_old_fields_for_one_new_field_are_a_finding(record: Make) -> None:
    old = record(("amount", "int"), ("sum", "int"))
    new = record({"name": "total", "type": "int", "aliases": ["amount", "sum"]})
    found = only(check(new, [old], "BACKWARD"), "NAME-ALIAS-COLLISION")
    assert (found.path, found.to) == ("total", "total")
    assert "amount" in found.message


def test_recursive_types_are_judged() -> None:
    def node(kind: str) -> Schema:
        return parse(rec("Node", ("v", kind), ("next", ["null", "Node"])))

    report = check(node("string"), [node("int")], "FULL")
    assert {f.path for f in report.findings if f.rule == "TYPE-CHANGED"} == {"v"}


# Beside the mode ----------------------------------------------------------------------------------------------------


def test_a_suspected_rename_is_an_error_and_leaves_the_verdict_alone(record: Make) -> None:
    old, new = record(("id", "int"), ("amount", "double")), record(("id", "int"), ("total", "double", 0.0))
    report = check(new, [old], "BACKWARD")
    found = only(report, "NAME-RENAME-SUSPECTED")
    assert report.compatible
    assert (found.severity, found.path, found.from_, found.to) == ("error", "total", "amount", "total")
    assert '"aliases": ["amount"]' in found.fix
    assert report.failures == (found,)


def test_a_weakly_suspected_rename_is_a_warning(record: Make) -> None:
    old, new = record(("item_count", "int"), ("k", "int")), record(("k", "int"), ("itemCount", "long", 0))
    assert only(check(new, [old]), "NAME-RENAME-SUSPECTED").severity == "warning"


@pytest.mark.parametrize("denied", [[("amount", "total")], ["total"], ["amount"], "total"])
def test_not_renames_clears_the_suspicion(record: Make, denied: Iterable[Any]) -> None:
    old, new = record(("amount", "double")), record(("total", "double", 0.0))
    assert "NAME-RENAME-SUSPECTED" not in rules(check(new, [old], not_renames=denied))


def test_denying_another_pair_clears_nothing(record: Make) -> None:
    old, new = record(("amount", "double")), record(("total", "double", 0.0))
    assert "NAME-RENAME-SUSPECTED" in rules(check(new, [old], not_renames=[("total", "amount")]))


@pytest.mark.parametrize("denied", [[("a", "b", "c")], [("a", 1)]])
def test_not_renames_that_are_no_pairs_are_an_error(record: Make, denied: Any) -> None:
    with pytest.raises(ConfigError):
        check(record(("a", "int")), [], not_renames=denied)


def test_a_declared_rename_counts_as_an_alias_for_new_readers_only(record: Make) -> None:
    old, new = record(("id", "int"), ("amount", "double")), record(("id", "int"), ("total", "double"))
    renames = {"amount": "total"}
    backward = check(new, [old], "BACKWARD", renames=renames)
    assert backward.compatible
    assert rules(backward) == ["NAME-RENAME-DECLARED"]
    assert not check(new, [old], "FORWARD", renames=renames).compatible


def test_a_declared_rename_reaches_versions_before_the_newest(record: Make) -> None:
    versions = [record(("a", "int")), record(("b", "int"))]
    report = check(record(("c", "int")), versions, "BACKWARD_TRANSITIVE", renames={"a": "b", "b": "c"})
    assert report.compatible


def test_a_rename_that_cannot_have_been_meant_is_a_warning(record: Make) -> None:
    old, new = record(("amount", "double")), record(("total", "double", 0.0))
    assert "NAME-RENAME-UNUSED" in rules(check(new, [old], renames={"amuont": "total"}))
    assert "NAME-RENAME-UNUSED" in rules(check(new, [old], renames={"amount": "totl"}))
    # Made before: nothing to say.
    assert "NAME-RENAME-UNUSED" not in rules(check(new, [record(("total", "double"))], renames={"amount": "total"}))


def test_changes_that_break_nobody_are_infos(record: Make) -> None:
    old = record(
        {"name": "a", "type": "int", "default": 1, "doc": "x"},
        ("e", enum("A", "B", default="A")),
        ("u", ["int", "string"]),
        ("z", "int"),
    )
    new = record(
        ("z", "int"),
        {"name": "a", "type": "int", "default": 2, "doc": "y", "aliases": ["b"], "order": "ignore"},
        ("e", enum("B", "A", default="B")),
        ("u", ["string", "int"]),
    )
    report = check(new, [old], "FULL")
    assert report.compatible
    assert set(rules(report)) == {
        "DEFAULT-CHANGED",
        "ENUM-DEFAULT-CHANGED",
        "ENUM-REORDERED",
        "FIELD-DOC-CHANGED",
        "FIELD-REORDERED",
        "FIELD-SORT-ORDER-CHANGED",
        "NAME-ALIASES-CHANGED",
        "UNION-REORDERED",
    }
    assert {found.severity for found in report.findings} == {"info"}
    assert report.failures == ()


def test_a_default_that_comes_to_a_field_is_told(record: Make) -> None:
    found = only(check(record(("a", "int", 2)), [record(("a", "int"))]), "DEFAULT-CHANGED")
    assert (found.from_, found.to) == (None, "2")


def test_a_nullable_field_without_a_default_is_a_warning_where_no_error_says_so(record: Make) -> None:
    old, new = record(("a", "int")), record(("a", "int"), ("note", ["null", "string"]))
    forward = only(check(new, [old], "FORWARD"), "FIELD-NULLABLE-NO-DEFAULT")
    assert (forward.severity, forward.fix) == ("warning", 'add "default": null')
    backward = check(new, [old], "BACKWARD")
    assert rules(backward) == ["FIELD-ADDED-NO-DEFAULT"]
    assert backward.findings[0].fix == 'add "default": null'
    other = only(check(record(("a", "int"), ("note", ["string", "null"])), [old], "NONE"), "FIELD-NULLABLE-NO-DEFAULT")
    assert 'put "null" first' in other.fix


def test_a_lost_symbol_that_reads_as_the_default_is_a_warning(record: Make) -> None:
    old, new = record(("e", enum("U", "A", "B", default="U"))), record(("e", enum("U", "A", default="U")))
    found = only(check(new, [old]), "ENUM-SYMBOL-DEFAULTED")
    assert (found.severity, found.from_, found.to) == ("warning", "B", "U")


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("long", "double", "TYPE-PROMOTION-ROUNDS"),
        ("int", "float", "TYPE-PROMOTION-ROUNDS"),
        ("bytes", "string", "TYPE-BYTES-AS-TEXT"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "TYPE-LOGICAL-REREAD",
        ),
        ("long", {"type": "long", "logicalType": "timestamp-millis"}, "TYPE-LOGICAL-REREAD"),
    ],
)
def test_what_avro_allows_and_readers_may_get_wrong_is_a_warning(record: Make, old: Any, new: Any, rule: str) -> None:
    report = check(record(("a", new)), [record(("a", old))])
    assert report.compatible
    assert only(report, rule).severity == "warning"


def test_int_to_double_rounds_nothing(record: Make) -> None:
    assert rules(check(record(("a", "double")), [record(("a", "int"))])) == []


def test_an_alias_that_older_data_still_needs_may_not_go_unseen(record: Make) -> None:
    versions = [record(("a", "int")), record({"name": "b", "type": "int", "aliases": ["a"]})]
    found = only(check(record(("b", "int")), versions, "NONE"), "NAME-ALIAS-REMOVED")
    assert (found.severity, found.from_, found.versions) == ("warning", "a", (1,))


def test_a_namespace_change_is_an_info_and_a_warning_for_an_enum_in_a_union(record: Make) -> None:
    def status(space: str) -> Any:
        return {**enum("A"), "namespace": space}

    plain = check(record(("e", status("new"))), [record(("e", status("old")))], "FULL")
    assert plain.compatible
    assert only(plain, "NAME-NAMESPACE-CHANGED").severity == "info"
    nullable = check(record(("e", ["null", status("new")])), [record(("e", ["null", status("old")]))], "FULL")
    assert nullable.compatible
    assert only(nullable, "NAME-NAMESPACE-CHANGED").severity == "warning"


def test_an_invalid_default_is_an_error_where_data_needs_it_and_a_warning_elsewhere() -> None:
    old = parse({"type": "record", "name": "R", "fields": []})
    new = parse({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int", "default": "7"}]}, lenient=True)
    needed = [f for f in check(new, [old]).findings if f.rule == "DEFAULT-INVALID"]
    assert [(f.severity, f.path, f.to) for f in needed] == [("error", "n", '"7"')]
    assert not check(new, [old]).compatible
    unneeded = [f for f in check(new, [old], "FORWARD").findings if f.rule == "DEFAULT-INVALID"]
    assert [(f.severity, f.path) for f in unneeded] == [("warning", "n")]
    assert check(new, [old], "FORWARD").compatible


def test_what_the_parser_warned_of_is_a_finding() -> None:
    odd = parse(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "int", "logicalType": "uuid"}}]}
    )
    assert only(check(odd, []), "SCHEMA-WARNING").severity == "warning"


def test_a_broken_old_version_is_a_warning_that_names_it_and_a_candidate_like_it_is_refused() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "unit-price", "type": "int", "default": "x"}]}'
    with pytest.raises(SchemaError, match="is not an Avro name"):
        parse(text)
    old = parse(text, source_name="r1.avsc", lenient=True)
    new = parse({"type": "record", "name": "R", "fields": []}, source_name="r3.avsc")
    report = check(new, [old, old, new], "BACKWARD_TRANSITIVE")
    assert report.compatible
    found = [f for f in report.findings if f.rule == "SCHEMA-OLD-VERSION"]
    assert [(f.severity, f.from_, f.versions, f.file) for f in found] == [
        ("warning", "version 1: $.fields[0].default", (1, 2), "r1.avsc"),
        ("warning", "version 1: $.fields[0].name", (1, 2), "r1.avsc"),
    ]
    assert not [f for f in check(new, [old, new]).findings if f.rule == "SCHEMA-OLD-VERSION"], "it is not judged"
    still = [f for f in check(old, [old]).findings if f.rule.startswith("SCHEMA")]
    assert {f.rule for f in still} == {"SCHEMA-WARNING"}, "what is still there is said of the candidate"


def test_the_fingerprint_of_a_warning_does_not_hang_on_its_wording() -> None:
    def marks(*warnings: str) -> list[str]:
        odd = replace(parse({"type": "record", "name": "R", "fields": []}), warnings=warnings)
        return [f.fingerprint for f in check(odd, []).findings if f.rule == "SCHEMA-WARNING"]

    assert marks("this is odd ($.fields[0])") == marks("that is strange ($.fields[0])")
    assert len(set(marks("this is odd ($.fields[0])", "this is odd ($.fields[1])", "no place"))) == 3
    assert len(marks("this is odd ($.fields[0])", "and that ($.fields[0])")) == 1


def test_findings_carry_the_subject_the_file_and_the_line() -> None:
    text = '{"type": "record", "name": "R",\n "fields": [\n  {"name": "a",\n   "type": "string"}]}'
    new = parse(text, source_name="r.avsc")
    old = parse('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    found = only(check(new, [old], subject="orders"), "TYPE-CHANGED")
    assert (found.subject, found.file) == ("orders", "r.avsc")
    assert found.line in (3, 4)


def test_errors_come_first_and_the_order_is_always_the_same(record: Make) -> None:
    old = record({"name": "a", "type": "int", "doc": "x"}, ("b", "int"))
    new = record({"name": "a", "type": "string", "doc": "y"}, ("b", "string"))
    first, second = (check(new, [old]).findings for _ in range(2))
    assert first == second
    ranks = [("error", "warning", "info").index(found.severity) for found in first]
    assert ranks == sorted(ranks)


class Consumer:
    """A contract that finds one thing."""

    def judge(self, candidate: Schema, history: Any, subject: str) -> Iterable[Finding]:
        yield Finding("CONTRACT-FIELD-GONE", "error", "a", "int", None, "billing reads it", consumers=("billing",))


def test_contracts_add_findings_and_leave_the_verdict_alone(record: Make) -> None:
    report = check(record(("a", "int")), [record(("a", "int"))], contracts=[Consumer()], subject="orders")
    assert report.compatible
    assert [(f.consumers, f.subject) for f in report.findings] == [(("billing",), "orders")]


def test_what_is_no_contract_is_an_error(record: Make) -> None:
    with pytest.raises(ConfigError):
        check(record(("a", "int")), [], contracts=["billing.yaml"])  # type: ignore[list-item]


def test_a_day_may_be_given_for_the_waivers(record: Make) -> None:
    assert check(record(("a", "int")), [], today=date(2030, 1, 1)).findings == ()


# Advice -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [("R", "x.S"), ("x.R", "y.S"), ("x.R", "S"), ("R", "S"), ("R", "x.R"), ("x.R", "y.R"), ("x.R", "R")],
)
@pytest.mark.parametrize("union", [False, True])
def test_the_alias_that_is_advised_for_a_named_type_clears_the_finding(old: str, new: str, union: bool) -> None:
    def made(name: str, **more: Any) -> Schema:
        type_ = {"type": "record", "name": name, "fields": [], **more}
        other = {"type": "record", "name": "Other", "fields": []}
        fields = [{"name": "f", "type": [type_, other]}]
        return parse({"type": "record", "name": "Top", "fields": fields} if union else type_)

    about = {"NAME-CHANGED", "NAME-NAMESPACE-CHANGED", "UNION-BRANCH-REMOVED"}
    (found,) = (each for each in check(made(new), [made(old)]).findings if each.rule in about)
    advised = json.loads("{" + found.fix[found.fix.index('"aliases"') : found.fix.index("]") + 1] + "}")
    after = check(made(new, **advised), [made(old)])
    assert after.compatible
    assert not about & set(rules(after))


def test_where_the_old_name_is_no_avro_name_the_advice_is_a_declared_rename() -> None:
    old = parse({"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]}, lenient=True)
    new = parse({"type": "record", "name": "R", "fields": [{"name": "a_b", "type": "int"}]})
    found = only(check(new, [old]), "NAME-RENAME-SUSPECTED")
    assert "--rename 'a-b=a_b'" in found.fix
    assert '"aliases"' not in found.fix
    after = check(new, [old], renames=[("a-b", "a_b")])
    assert after.compatible
    assert "NAME-RENAME-SUSPECTED" not in rules(after)
    assert '"aliases"' not in only(after, "NAME-RENAME-DECLARED").fix


def test_no_alias_is_advised_that_strict_parsing_refuses() -> None:
    old = parse({"type": "record", "name": "1x", "fields": []}, lenient=True)
    found = only(check(parse({"type": "record", "name": "R", "fields": []}), [old]), "NAME-CHANGED")
    assert '"aliases"' not in found.fix
    assert "waive" in found.fix


def test_a_mistyped_or_misshapen_rename_is_refused_by_the_public_calls(record: Make) -> None:
    old, new = record(("p", "int")), record(("q", "int"))
    calls: list[Callable[[Any], Any]] = [
        lambda renames: le.diff(old, new, renames=renames),
        lambda renames: le.check(new, [old], renames=renames),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="typo"):
            call({"typo": "q"})
        with pytest.raises(ConfigError, match="typo"):
            call({"p": "typo"})
        for wrong in (5, None, "p=q", [5], [("p",)]):
            with pytest.raises(ConfigError):
                call(wrong)
        call({"p": "q"})
