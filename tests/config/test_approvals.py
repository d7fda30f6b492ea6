"""Approvals: files that name an intent digest, an approver and a last day."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from lakeevolve.config.approvals import (
    Approval,
    approval_files,
    approval_schema,
    covering,
    load_approval,
    load_approvals,
    require,
)
from lakeevolve.errors import ConfigError, InvalidConfig, PermitMissing

ONE, OTHER = "1" * 64, "ab" * 32
DAY = date(2027, 1, 31)


def approval(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_an_approval_names_plan_approver_last_day_and_reason(tmp_path: Path) -> None:
    text = f"plan: {OTHER}\napprover: ann@example.com\nuntil: 2027-01-31\nreason: agreed\n"
    found = load_approval(approval(tmp_path, "a.approval.yaml", text))
    assert found == Approval(plan=OTHER, approver="ann@example.com", until=DAY, reason="agreed")


@pytest.mark.parametrize("digest", [ONE, "12345678e" + "1" * 55, "0" * 64])
def test_a_digest_of_digits_alone_is_a_text(tmp_path: Path, digest: str) -> None:
    file = approval(tmp_path, "a.approval.yaml", f"plan: {digest}\napprover: ann\nuntil: 2027-01-31\n")
    assert load_approval(file).plan == digest


def test_json_is_as_good_as_yaml(tmp_path: Path) -> None:
    record = {"plan": OTHER, "approver": "ann", "until": "2027-01-31"}
    file = approval(tmp_path, "a.approval.json", json.dumps(record, indent=2))
    assert load_approval(file).judge(OTHER, today=DAY) == "valid"


def test_an_approval_is_valid_to_its_last_day_and_for_its_plan_alone() -> None:
    word = Approval(plan=ONE, approver="ann", until=DAY)
    assert word.judge(ONE, today=DAY) == "valid"
    assert word.judge(ONE, today=date(2027, 2, 1)) == "expired"
    assert word.judge(OTHER, today=DAY) == "other-plan"


def test_of_several_the_one_that_holds_longest_covers_the_plan() -> None:
    words = [
        Approval(plan=ONE, approver="ann", until=DAY),
        Approval(plan=ONE, approver="bob", until=date(2027, 3, 1)),
        Approval(plan=OTHER, approver="eve", until=date(2030, 1, 1)),
    ]
    found = covering(ONE, words, today=DAY)
    assert found is not None
    assert found.approver == "bob"
    assert covering("0" * 64, words, today=DAY) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the plan is not approved"),
        ([Approval(plan=ONE, approver="ann", until=DAY)], "the approval of ann ended on 2027-01-31"),
        (
            [Approval(plan=OTHER, approver="ann", until=DAY)],
            "no approval names this plan's digest; 1 names other plans",
        ),
    ],
)
def test_without_an_approval_the_plan_is_refused_and_it_is_said_why(words: list[Approval], said: str) -> None:
    with pytest.raises(PermitMissing) as caught:
        require(ONE, words, where="delta:orders", today=date(2027, 2, 1))
    assert caught.value.what == said
    assert ONE in (caught.value.hint or "")
    assert caught.value.exit_code == 1


def test_the_approvals_of_a_folder_are_read_by_their_names(tmp_path: Path) -> None:
    text = f"plan: {ONE}\napprover: ann\nuntil: 2027-01-31\n"
    for name in ("b.approval.yml", "a.approval.yaml", "plan.json", "notes.yaml"):
        approval(tmp_path, name, text)
    (tmp_path / "c.approval.yaml").mkdir()
    assert [file.name for file in approval_files(tmp_path)] == ["a.approval.yaml", "b.approval.yml"]
    assert len(load_approvals(tmp_path, tmp_path / "nowhere")) == 2


def test_the_faults_of_all_files_are_told_together(tmp_path: Path) -> None:
    approval(tmp_path, "a.approval.yaml", "plan: 123abc\napprover: ''\nuntil: 2027-01-31\n")
    approval(tmp_path, "b.approval.yaml", f"plan: {ONE}\naprover: ann\nuntil: some day\n")
    approval(tmp_path, "c.approval.yaml", "plan: {")
    with pytest.raises(InvalidConfig) as caught:
        load_approvals(tmp_path)
    told = [fault.removeprefix(f"{tmp_path}/").split(";")[0] for fault in caught.value.faults]
    assert told[:5] == [
        "a.approval.yaml:1: plan is no intent digest",
        "a.approval.yaml:2: approver is empty",
        "b.approval.yaml:1: approver is missing",
        "b.approval.yaml:2: unknown key aprover",
        "b.approval.yaml:3: until is no day",
    ]
    assert told[5].startswith("c.approval.yaml:1: the file is not YAML")
    assert caught.value.lines()[0] == "3 files hold 6 faults"
    assert len(caught.value.lines()) == 3


def test_a_folder_that_is_a_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_approvals(approval(tmp_path, "x", ""))


def test_the_json_schema_describes_every_key() -> None:
    made = approval_schema()
    assert made["required"] == ["plan", "approver", "until"]
    assert all("description" in value for value in made["properties"].values())
