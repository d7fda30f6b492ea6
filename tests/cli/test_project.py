"""A whole project: every subject and table for itself, one exit code for all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.cli.project import plan_name, save_plans
from lakeevolve.config.load import load_project
from lakeevolve.errors import PRECEDENCE, Interrupted, LakeEvolveError, PermitMissing, worst
from lakeevolve.model.schema import Schema
from lakeevolve.planning.project import plan_project

Rows = Callable[[Schema, int, int], pa.Table]

ID = {"name": "id", "type": "long"}
AMOUNT = {"name": "amount", "type": "float"}
TOTAL = {"name": "total", "aliases": ["amount"], "type": "double"}
CURRENCY = {"name": "currency", "type": "string", "default": "EUR"}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": list(fields)}


V1, V2 = record(ID, AMOUNT), record(ID, TOTAL, CURRENCY)


class Here:
    """A project's folder, which is the working directory."""

    def __init__(self, folder: Path, lake: Any, rows: Rows, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.lake, self.rows, self.capsys = folder, lake, rows, capsys

    def schema(self, name: str, schema: dict[str, Any]) -> None:
        (self.folder / f"{name}.avsc").write_text(json.dumps(schema, indent=1))

    def table(self, name: str, schema: dict[str, Any], count: int = 20) -> str:
        """A table with rows; its URI as the project's file has it."""
        loaded = le.load(schema)
        uri: str = self.lake.create(name, loaded, self.rows(loaded, count, 1))
        return uri.replace(f"{self.folder}/", "")

    def file(self, text: str) -> None:
        (self.folder / "lakeevolve.yaml").write_text("version: 1\nstate: state\n" + text)

    def add(self, text: str) -> None:
        file = self.folder / "lakeevolve.yaml"
        file.write_text(file.read_text() + text)

    def run(self, *args: str, code: int = 0) -> str:
        got = main(args)
        printed = self.capsys.readouterr()
        assert got == code, printed.out + printed.err
        assert "Traceback" not in printed.err
        return printed.out

    def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.run(*args, "--format", "json", code=code))
        assert made["code"] == code
        return made

    def fails(self, *args: str, code: int = 2) -> str:
        assert main(args) == code
        printed = self.capsys.readouterr()
        assert printed.out == ""
        return printed.err


@pytest.fixture
def here(
    tmp_path: Path, lake: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Here:
    monkeypatch.delenv("LAKEEVOLVE_STATE")
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path, lake, rows, capsys)


@pytest.fixture
def shop(here: Here) -> Here:
    """Two subjects: one whose change is fine, one whose change is not."""
    here.schema("orders", V2)
    here.schema("people", record(ID, {"name": "name", "type": "int"}))
    orders, people = here.table("orders", V1), here.table("people", record(ID, {"name": "name", "type": "string"}))
    here.file(
        "subjects:\n"
        f"  orders: {{source: orders.avsc, tables: ['{orders}']}}\n"
        f"  people: {{source: people.avsc, tables: ['{people}']}}\n"
    )
    return here


ALL = ("--allow", "rewrite", "--allow", "backfill", "--allow", "drop")


def test_check_judges_every_subject_against_what_its_tables_have_had(shop: Here) -> None:
    made = shop.json("check", code=1)
    assert [(part["subject"], part["code"]) for part in made["parts"]] == [("orders", 0), ("people", 1)]
    assert made["parts"][0]["result"]["compatible"] is True
    findings = made["parts"][1]["result"]["findings"]
    assert {finding["subject"] for finding in findings} == {"people"}
    assert "TYPE-CHANGED" in shop.run("check", "-s", "people", code=1)
    assert "TYPE-CHANGED" not in shop.run("check", "-s", "ord*")


def test_what_is_wrong_with_one_subject_hides_no_other(shop: Here) -> None:
    (shop.folder / "orders.avsc").write_text("{")
    made = shop.json("check", code=2)
    assert [part["code"] for part in made["parts"]] == [2, 1]
    assert "orders.avsc" in made["parts"][0]["error"]["where"]
    said = shop.run("plan", code=2)
    assert "== orders" in said
    assert "TYPE-CHANGED" in said
    assert "2 parts: 1 with findings or without a permit, 1 could not be run" in said


def test_a_table_that_cannot_be_opened_is_its_own_part_only(shop: Here) -> None:
    text = (shop.folder / "lakeevolve.yaml").read_text().replace("['", f"['{shop.lake.format}:lake/no.where', '", 1)
    (shop.folder / "lakeevolve.yaml").write_text(text)
    made = shop.json("verify", code=2)
    assert [part["code"] for part in made["parts"]] == [2, 0, 0]
    assert made["parts"][1]["result"]["ok"] is True


def test_the_whole_way_from_plan_to_history(shop: Here) -> None:
    made = shop.json("plan", "-s", "orders", "--detailed-exitcode", code=3)
    (plan,) = (part["result"] for part in made["parts"])
    assert plan["inputs"]["subject"] == "orders"
    done = shop.json("apply", "-s", "orders", "--yes", *ALL)
    assert done["parts"][0]["result"]["status"] == "applied"
    assert shop.json("verify", "--engine", "local://2")["parts"][0]["result"]["ok"] is True
    assert shop.json("plan", "-s", "orders", "--detailed-exitcode")["parts"][0]["result"]["steps"] == []
    assert shop.json("apply", "-s", "orders", "--yes")["parts"][0]["result"]["status"] == "nothing-to-do"
    assert (shop.folder / "state").is_dir()
    uri = made["parts"][0]["table"]
    assert "verdict: BACKWARD" in shop.run("history", uri)


def test_apply_brings_each_table_on_its_way_whatever_becomes_of_the_others(shop: Here) -> None:
    said = shop.run("apply", "--yes", *ALL, code=1)
    assert "is at version 2" in said
    assert "cannot be run here" in said


def test_apply_asks_for_a_yes_where_there_is_no_terminal(shop: Here) -> None:
    assert "--yes" in shop.fails("apply", *ALL)
    assert "could be applied" in shop.run("apply", "-s", "orders", "--dry-run", *ALL)
    assert shop.json("plan", "-s", "orders", "--detailed-exitcode", code=3)


def test_an_interruption_is_told_of_its_table_and_the_rest_is_not_begun(
    shop: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lakeevolve.applying.project as applying

    def stop(*_: object, **__: object) -> None:
        raise Interrupted("interrupted: the table is as it was", hint="run it again")

    monkeypatch.setattr(applying, "apply", stop)
    made = shop.json("apply", "--yes", *ALL, code=130)
    assert [part["code"] for part in made["parts"]] == [130, 130]
    assert [part["error"]["what"] for part in made["parts"]] == [
        "interrupted: the table is as it was",
        "not begun: the run was interrupted before",
    ]


def test_what_nobody_thought_of_is_one_parts_failure_and_shows_no_value(
    shop: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lakeevolve.planning.project as planning

    make = planning.make_plan

    def fail(table: Any, *args: Any, **more: Any) -> Any:
        if more["subject"] == "orders":
            raise RuntimeError("a-secret-row-value")
        return make(table, *args, **more)

    monkeypatch.setattr(planning, "make_plan", fail)
    made = shop.json("plan", code=2)
    assert made["parts"][0]["error"]["what"] == "an unexpected RuntimeError"
    assert made["parts"][1]["result"]["steps"]
    assert "a-secret-row-value" not in json.dumps(made)


def test_tables_that_others_write_to_are_left_alone_where_idleness_is_required(shop: Here) -> None:
    said = shop.run("apply", "-s", "orders", "--yes", "--require-idle", "1h", *ALL, code=1)
    assert "the table is in use" in said
    assert "is at version 2" in shop.run("apply", "-s", "orders", "--yes", *ALL)


def test_apply_asks_on_a_terminal_and_takes_no_for_an_answer(shop: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import typer

    asked: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", lambda text, **_: asked.append(text))
    assert main(["apply", "-s", "orders", *ALL]) == 0
    said = shop.capsys.readouterr().err
    assert asked == ["apply 1 of these plans?"]
    assert "1 -> 2" in said
    monkeypatch.undo()
    monkeypatch.chdir(shop.folder)
    assert shop.json("plan", "-s", "orders", "--detailed-exitcode", code=3)


def test_with_approved_only_what_an_approval_covers_is_applied_and_the_ledger_names_who(shop: Here) -> None:
    assert "not approved" in shop.run("apply", "-s", "orders", "--approved", *ALL, code=1)
    digest = shop.json("plan", "-s", "orders")["parts"][0]["result"]["digest"]
    folder = shop.folder / "approvals"
    folder.mkdir()
    for day, said, code in (
        (date.today() - timedelta(days=1), "the approval of ann@example.com ended", 1),
        (date.today(), "is at version 2", 0),
    ):
        (folder / "1.approval.yaml").write_text(f"plan: {digest}\napprover: ann@example.com\nuntil: {day}\n")
        assert said in shop.run("apply", "-s", "orders", "--approved", *ALL, code=code)
    assert "approved by ann@example.com" in shop.run("history", shop.json("check", "-s", "orders")["parts"][0]["table"])
    (folder / "2.approval.yaml").write_text("plan: x\n")
    assert "2.approval.yaml:1: approver is missing" in shop.fails("apply", "--approved", *ALL)


def test_one_plan_is_applied_with_the_approval_that_lies_beside_it_or_in_the_projects_folder(shop: Here) -> None:
    shop.run("plan", "-s", "orders", "--out", "plans")
    (file,) = (shop.folder / "plans").iterdir()
    digest = json.loads(file.read_text())["digest"]
    assert "not approved" in shop.fails("apply", str(file), "--approved", *ALL, code=1)
    word = f"plan: {digest}\napprover: ann\nuntil: {date.today()}\n"
    other = shop.folder / "elsewhere"
    other.mkdir()
    (other / "x.approval.yaml").write_text(word.replace(digest, "0" * 64))
    assert "1 names other plans" in shop.fails("apply", str(file), "--approvals", "elsewhere", *ALL, code=1)
    with pytest.raises(PermitMissing):
        le.apply(file, allow=("rewrite", "backfill"), approval=other / "x.approval.yaml")
    (file.parent / "x.approval.yaml").write_text(word)
    assert "is at version 2" in shop.run("apply", str(file), "--approved", *ALL)
    (entry,) = (shop.folder / "state").rglob("ledger/*.json")
    assert json.loads(entry.read_text())["approver"] == "ann"


def test_plans_are_saved_by_subject_and_table_and_can_be_applied_one_by_one(shop: Here) -> None:
    shop.run("plan", "--out", "plans", code=1)
    saved = sorted((shop.folder / "plans").iterdir())
    assert [file.name.split(".")[0] for file in saved] == ["orders", "people"]
    assert "is at version 2" in shop.run("apply", str(saved[0]), "--yes", *ALL)


def test_plans_whose_files_would_have_one_name_are_all_saved(shop: Here) -> None:
    made = plan_project(load_project(), ["orders"])
    (part,) = made.parts
    alike = replace(made, parts=(part, replace(part, table="delta:a.b"), replace(part, table="delta:a-b")))
    names = [Path(file).name for file in save_plans(alike, "plans")]
    assert names[1:] == ["orders.delta-a-b.json", "orders.delta-a-b-2.json"]
    assert len(list((shop.folder / "plans").iterdir())) == 3


def test_a_limit_that_a_plan_is_over_refuses_it(shop: Here) -> None:
    shop.add("tables: {'*orders': {limits: {max_files: 0}}}\n")
    assert "POLICY-OVER-LIMIT" in shop.run("plan", "-s", "orders", code=1)
    assert "max_files" in shop.run("apply", "-s", "orders", "--yes", *ALL, code=1)
    assert "1 version" in shop.run("history", shop.json("check", "-s", "orders")["parts"][0]["table"])


def test_what_consumers_declared_is_held_in_check_plan_and_verify(shop: Here) -> None:
    folder = shop.folder / "contracts"
    folder.mkdir()
    file = folder / "billing.yaml"
    file.write_text("contract: billing\nowner: ann\nfields: [{path: amount, required: true}]\n")
    text = (shop.folder / "lakeevolve.yaml").read_text()
    (shop.folder / "lakeevolve.yaml").write_text(
        text.replace("source: orders.avsc", "source: orders.avsc, contracts: [contracts/billing.yaml]")
    )
    for command in ("check", "plan"):
        (part,) = shop.json(command, "-s", "orders", code=1)["parts"]
        told = [found for found in part["result"]["findings"] if found["rule"] == "CONTRACT-FIELD-GONE"]
        assert [found["consumers"] for found in told] == [["billing"]]
    assert shop.json("verify", "-s", "orders")["parts"][0]["result"]["ok"] is True
    file.write_text("contract: billing\nfilds: []\n")
    assert "filds" in shop.run("check", "-s", "orders", code=2)


def test_a_table_may_have_a_mode_of_its_own(shop: Here) -> None:
    shop.add("tables: {'*orders': {mode: FULL}}\n")
    assert [part["result"]["mode"] for part in shop.json("check", code=1)["parts"]] == ["FULL", "BACKWARD"]
    assert shop.json("plan", "-s", "orders", code=1)["parts"][0]["result"]["mode"] == "FULL"


def test_options_of_tables_reach_their_plans(shop: Here) -> None:
    shop.add("tables:\n  '*orders': {old_rows: {currency: null, other: default}, pin: data}\n  '*': {routes: {}}\n")
    made = shop.json("plan", code=1)
    plan = made["parts"][0]["result"]
    assert plan["old_rows"] == {"currency": "null"}
    assert plan["pin"]["data"] == plan["estimate"]["position"]
    assert made["parts"][1]["result"]["old_rows"] == "default"
    assert [(f["rule"], f["path"], f["file"], f["line"]) for f in made["findings"]] == [
        ("POLICY-OPTIONS-UNUSED", "other", "lakeevolve.yaml", 7)
    ]


def test_a_pattern_that_matches_no_table_is_a_finding_with_its_line(shop: Here) -> None:
    shop.add("tables:\n  'delta:s3://*': {}\npolicy: {severity: {POLICY-OPTIONS-UNUSED: error}}\n")
    (found,) = shop.json("plan", code=1)["findings"]
    assert (found["rule"], found["severity"], found["line"]) == ("POLICY-OPTIONS-UNUSED", "error", 7)


def test_severity_and_fail_on_of_the_policy_count(shop: Here) -> None:
    shop.add("policy: {severity: {TYPE-CHANGED: info}}\n")
    assert shop.run("check")
    assert shop.run("check", "--fail-on", "info", code=1)


def test_one_waiver_lets_a_finding_pass_in_check_and_in_plan_until_its_day_is_over(shop: Here) -> None:
    findings = shop.json("check", "-s", "people", code=1)["parts"][0]["result"]["findings"]
    (fingerprint,) = [each["fingerprint"] for each in findings if each["severity"] == "error"]
    file = shop.folder / "lakeevolve.yaml"
    before = file.read_text()

    def waive(until: date) -> None:
        file.write_text(
            before
            + f"policy: {{waivers: [{{fingerprint: {fingerprint}, reason: agreed, approver: ann, until: {until}}}]}}\n"
        )

    waive(date.today())
    assert "waived" in shop.run("check", "-s", "people")
    told = shop.json("plan", code=1)
    assert [f["waived"] for f in told["parts"][1]["result"]["findings"] if f["fingerprint"] == fingerprint] == [True]
    assert [waiver["approver"] for waiver in told["parts"][1]["result"]["inputs"]["waivers"]] == ["ann"]
    assert told["parts"][0]["result"]["inputs"]["waivers"] == []
    assert told["findings"] == []
    waive(date.today() - timedelta(days=1))
    said = shop.run("check", "-s", "people", code=1)
    assert "POLICY-WAIVER-EXPIRED" in said
    assert "POLICY-WAIVER-UNUSED" not in said


def test_a_waiver_that_waives_nothing_in_the_whole_project_is_a_finding_with_its_line(shop: Here) -> None:
    shop.add("policy:\n  waivers:\n    - {fingerprint: 0123456789abcdef, reason: gone, approver: ann}\n")
    (found,) = shop.json("plan", code=1)["findings"]
    assert (found["rule"], found["file"], found["line"]) == ("POLICY-WAIVER-UNUSED", "lakeevolve.yaml", 8)
    # Of a part of the project nobody can say it, and a check does not see what plans find.
    assert shop.json("plan", "-s", "orders")["findings"] == []
    assert shop.json("check", code=1)["findings"] == []


def test_declared_renames_and_what_is_no_rename_reach_check_and_plan(here: Here) -> None:
    here.schema("orders", record(ID, {"name": "total", "type": "float"}))
    uri = here.table("orders", V1)
    here.file(f"subjects:\n  orders: {{source: orders.avsc, mode: NONE, tables: ['{uri}']}}\n")
    assert "NAME-RENAME-SUSPECTED" in here.run("check", code=1)
    for declared in ("renames: {amount: total}", "not_renames: [[amount, total]]"):
        here.file(f"subjects:\n  orders: {{source: orders.avsc, mode: NONE, tables: ['{uri}'], {declared}}}\n")
        assert "SUSPECTED" not in here.run("check", "--fail-on", "never")
        made = here.json("plan", "--fail-on", "never", code=0 if declared.startswith("renames") else 1)
        assert not [f for f in made["parts"][0]["result"]["findings"] if "SUSPECTED" in f["rule"]]
    here.file(f"subjects:\n  orders: {{source: orders.avsc, tables: ['{uri}'], renames: {{amonut: total}}}}\n")
    assert "amonut" in here.run("plan", code=2)


@pytest.fixture
def versioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """A project without tables, in a git repository whose first commit holds the first version."""
    monkeypatch.chdir(tmp_path)
    here = Here(tmp_path, None, lambda *_: None, capsys)
    here.file("subjects: {orders: {source: orders.avsc, mode: FULL}}\n")
    here.schema("orders", V1)
    for args in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", *args], check=True, cwd=tmp_path)
    here.schema("orders", V2)
    return here


def test_without_tables_a_subject_is_judged_by_itself_or_against_a_revision(versioned: Here) -> None:
    assert versioned.json("check")["parts"][0]["result"]["compatible"] is True
    made = versioned.json("check", "--against", "main", code=1)
    assert made["parts"][0]["result"]["compatible"] is False
    assert made["parts"][0]["result"]["mode"] == "FULL"
    assert "no-such-ref" in versioned.run("check", "--against", "no-such-ref", code=2)


def test_a_folder_of_versions_is_a_source_whose_last_version_is_judged(versioned: Here) -> None:
    folder = versioned.folder / "orders"
    folder.mkdir()
    for name, schema in (("v10", V2), ("v9", V1), ("v2", V1)):
        (folder / f"{name}.avsc").write_text(json.dumps(schema))
    versioned.file("subjects: {orders: {source: orders, mode: FORWARD}}\n")
    (part,) = versioned.json("check", code=1)["parts"]
    assert part["result"]["compatible"] is False
    assert {tuple(found["versions"]) for found in part["result"]["findings"] if found["severity"] == "error"} == {(2,)}


def test_a_source_that_the_revision_did_not_have_yet_has_no_version_before(versioned: Here) -> None:
    versioned.schema("people", record(ID))
    versioned.file("subjects: {people: {source: people.avsc}}\n")
    assert versioned.json("check", "--against", "main")["parts"][0]["code"] == 0


def test_from_below_the_folder_and_from_elsewhere_the_paths_are_the_files(
    versioned: Here, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = versioned.folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert versioned.json("check", "--against", "main", code=1)["parts"][0]["result"]["mode"] == "FULL"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert "there is no lakeevolve.yaml" in versioned.fails("check")
    versioned.json("check", "--config", str(versioned.folder / "lakeevolve.yaml"))


def test_where_a_waiver_is_of_no_table_check_knows_that_it_waives_nothing(versioned: Here) -> None:
    versioned.file(
        "subjects: {orders: {source: orders.avsc}}\n"
        "policy: {waivers: [{fingerprint: 0123456789abcdef, reason: gone, approver: ann}]}\n"
    )
    assert [found["rule"] for found in versioned.json("check")["findings"]] == ["POLICY-WAIVER-UNUSED"]


def test_faults_of_the_file_are_all_told_and_nothing_is_run(here: Here) -> None:
    here.file("subjects:\n  orders: {sorce: x}\npolcy: {}\n")
    assert "lakeevolve.yaml holds 3 faults" in here.fails("check")
    assert main(["check", "--format", "json"]) == 2
    told = json.loads(here.capsys.readouterr().out)["faults"]
    assert [fault.split(":")[1] for fault in told] == ["4", "4", "5"]
    for command in ("plan", "verify"):
        here.fails(command)
    here.fails("apply", "--yes")


def test_what_the_file_has_to_say_is_refused_as_an_option(versioned: Here) -> None:
    for args in (
        ("check", "--mode", "FULL"),
        ("check", "--rename", "a=b"),
        ("plan", "--old-rows", "null"),
        ("plan", "--route", "a=rewrite"),
        ("verify", "--against", "x.avsc"),
        ("apply", "--yes", "--within", "1h"),
        ("apply", "--yes", "--jobs", "2"),
        ("check", "a.avsc", "-s", "orders"),
        ("plan", "delta:x", "a.avsc", "-s", "orders"),
        ("check", "a.avsc", "b.avsc", "--against", "main"),
    ):
        assert len(versioned.fails(*args).splitlines()) <= 3
    assert "did you mean orders?" in versioned.fails("check", "-s", "ordrs")


def test_a_file_without_subjects_has_nothing_to_do(here: Here) -> None:
    here.file("")
    assert "nothing to do" in here.run("check")


def test_the_findings_of_all_parts_are_in_formats_for_findings(shop: Here) -> None:
    shop.run("check", "--output", "json=all.json", code=1)
    sarif = json.loads(shop.run("check", "--format", "sarif", code=1))
    told = {result["ruleId"] for result in sarif["runs"][0]["results"]}
    assert "TYPE-CHANGED" in told
    assert json.loads((shop.folder / "all.json").read_text())["code"] == 1


def test_markdown_and_html_tell_each_part_under_its_name(shop: Here) -> None:
    (shop.folder / "orders.avsc").write_text("{")
    for format in ("markdown", "html"):
        said = shop.run("check", "--format", format, code=2)
        assert "Parts (2)" in said
        assert "orders.avsc" in said
        assert "Findings (" in said
        assert "TYPE-CHANGED" in said


def test_of_several_exit_codes_the_one_counts_that_says_most() -> None:
    assert worst([]) == 0
    assert [worst([0, 3, 1]), worst([1, 4]), worst([4, 2]), worst([2, 5]), worst([5, 6]), worst([6, 130])] == [
        *(1, 4, 2, 5, 6, 130)
    ]
    known = {LakeEvolveError.exit_code, *(kind.exit_code for kind in _kinds(LakeEvolveError))}
    assert known <= set(PRECEDENCE)


def _kinds(kind: type[LakeEvolveError]) -> list[type[LakeEvolveError]]:
    return [found for each in kind.__subclasses__() for found in (each, *_kinds(each))]


def test_a_plan_is_named_after_its_subject_and_table_without_credentials() -> None:
    assert plan_name("orders", "delta:s3://key:secret@bucket/a b") == "orders.delta-s3-bucket-a-b"
    assert plan_name("../x", "iceberg:lake/shop.orders") == "x.iceberg-lake-shop-orders"
