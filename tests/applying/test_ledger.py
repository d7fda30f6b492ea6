"""The ledger: what is written of each version, what is found when it was changed, and what of it can be made again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.applying import ledger
from lakeevolve.applying.apply import apply
from lakeevolve.applying.past import past_of, rebuild
from lakeevolve.config.approvals import Approval
from lakeevolve.config.state import TableState, state_of
from lakeevolve.errors import ConfigError
from lakeevolve.model.digest import json_digest
from lakeevolve.model.schema import Schema
from lakeevolve.rules.policy import Policy, Waiver

Rows = Callable[[Schema, int, int], pa.Table]

V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "float"}],
}
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "aliases": ["amount"], "type": "double"},
        {"name": "currency", "type": "string", "default": "a-default-of-the-schema"},
    ],
}
ALL = ("rewrite", "backfill", "drop")


@pytest.fixture
def orders(lake: Any, rows: Rows) -> str:
    uri: str = lake.create("orders", le.load(V1), rows(le.load(V1), 30, 1))
    return uri


@pytest.fixture
def evolved(orders: str) -> str:
    """The table at its second version."""
    le.apply(le.plan(orders, V2), allow=ALL)
    return orders


def state(uri: str) -> TableState:
    return state_of(le.open_table(uri).state.id)


def the_entry(uri: str) -> Path:
    """The one file of the ledger."""
    root = state(uri)
    assert isinstance(root.root, Path)
    (file,) = (root.root / root.table_id / "ledger").glob("*.json")
    return file


def rules(uri: str) -> list[str]:
    return [finding.rule for finding in past_of(le.open_table(uri)).findings]


def test_an_apply_writes_one_sealed_entry_named_by_version_and_plan(orders: str) -> None:
    plan = le.plan(orders, V2, policy=Policy(severity={"FIELD-RENAMED": "info"}))
    word = Approval(plan=plan.digest, approver="ann@example.com", until=date(2099, 1, 31), reason="agreed")
    done = apply(plan, allow=ALL, approval=word)
    file = the_entry(orders)
    assert file.stem == f"{done.version}-{plan.digest}"
    entry = json.loads(file.read_text())
    assert entry["seal"] == json_digest({key: value for key, value in entry.items() if key != "seal"})
    assert (entry["version"], entry["plan"], entry["schema"]) == (2, plan.digest, plan.target.digest)
    assert {change["change"] for change in entry["changes"]} >= {"rename-field", "promote-type", "add-field"}
    assert (entry["approver"], entry["approval"]["until"]) == ("ann@example.com", "2099-01-31")
    assert entry["verdicts"]["mode"] == "BACKWARD"
    assert {finding["fingerprint"] for finding in entry["verdicts"]["findings"]} == {
        finding.fingerprint for finding in plan.findings
    }
    assert entry["replay"] == {"ok": True, "files": 1, "rows": 30, "mismatched": 0}
    assert entry["rebuilt"] is False
    assert entry["at"].endswith("+00:00")
    assert rules(orders) == []


def test_a_waiver_is_named_with_its_approver(orders: str) -> None:
    narrower = {**V1, "fields": [V1["fields"][0], {"name": "amount", "type": "double"}]}
    (found, *_) = [f for f in le.plan(orders, narrower, mode="FULL").findings if f.severity == "error"]
    waiver = Waiver(found.fingerprint, "agreed", "bob")
    le.apply(le.plan(orders, narrower, mode="FULL", policy=Policy(waivers=(waiver,), fail_on="never")), allow=ALL)
    findings = json.loads(the_entry(orders).read_text())["verdicts"]["findings"]
    assert [each["waived_by"] for each in findings if each["fingerprint"] == found.fingerprint] == ["bob"]


def test_a_state_folder_that_cannot_be_written_is_refused_before_anything_is_touched(
    orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = le.plan(orders, V2)
    table = le.open_table(orders)
    folder = tmp_path / "blocked" / table.state.id
    folder.mkdir(parents=True)
    (folder / "ledger").write_text("a file where the ledger's folder is to be")
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "blocked"))
    before = (table.state, [file.path for file in table.files()])
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="cannot be written"):
        le.apply(plan, allow=ALL)
    table.refresh()
    assert (table.state, [file.path for file in table.files()]) == before
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == files


def test_a_ledger_that_fails_after_the_commit_says_that_the_plan_is_applied_and_is_made_again(
    orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise ConfigError("the state folder cannot be written: No space left on device", where="state")

    with monkeypatch.context() as broken:
        broken.setattr(TableState, "add", full)
        with pytest.raises(ConfigError) as caught:
            le.apply(le.plan(orders, V2), allow=ALL)
    assert "is applied" in caught.value.what
    assert "--rebuild" in (caught.value.hint or "")
    assert rules(orders) == ["TABLE-LEDGER-MISSING"]
    assert len(rebuild(le.open_table(orders))) == 1
    assert rules(orders) == []


def test_the_entry_is_of_the_plans_version_although_others_changed_the_table_right_after(
    lake: Any, orders: str
) -> None:
    plan = le.plan(orders, V2)
    le.apply(plan, allow=ALL)
    name = the_entry(orders).name
    the_entry(orders).unlink()
    lake.add_column(orders, "remark")
    table = le.open_table(orders)
    assert len(table.history()) == 3
    ledger.record(state(orders), plan, table)
    assert the_entry(orders).name == name
    assert rules(orders) == ["DRIFT-SCHEMA-CHANGED"]


def test_what_is_lost_is_made_again_from_the_marker_without_what_only_the_ledger_knew(evolved: str) -> None:
    file = the_entry(evolved)
    was = json.loads(file.read_text())
    file.unlink()
    assert rules(evolved) == ["TABLE-LEDGER-MISSING"]
    assert rebuild(le.open_table(evolved)) == (str(file),)
    now = json.loads(file.read_text())
    for key in ("version", "plan", "schema", "changes", "fills", "renames", "routes", "table"):
        assert now[key] == was[key], key
    assert (now["rebuilt"], now["approver"], now["verdicts"], now["replay"]) == (True, None, None, None)
    assert rules(evolved) == []
    assert rebuild(le.open_table(evolved)) == ()


def test_making_it_again_never_overwrites(evolved: str) -> None:
    file = the_entry(evolved)
    file.write_text("{")
    assert rebuild(le.open_table(evolved)) == ()
    assert file.read_text() == "{"


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "{}",
        '{"seal": 3}',
        "[" * 5000,
        '{"format_version": "9.0", "seal": "x"}',
        "\x00",
    ],
)
def test_an_entry_that_is_damaged_is_a_finding_and_history_goes_on(evolved: str, damage: str) -> None:
    the_entry(evolved).write_text(damage)
    past = past_of(le.open_table(evolved))
    assert [finding.rule for finding in past.findings] == ["TABLE-LEDGER-DAMAGED"]
    assert [step.version.number for step in past.steps] == [1, 2]
    assert past.steps[-1].entry is None


def test_an_entry_that_is_cut_off_anywhere_is_a_finding(evolved: str) -> None:
    file = the_entry(evolved)
    content = file.read_bytes()
    for length in range(0, len(content) - 2, 97):
        file.write_bytes(content[:length])
        assert rules(evolved) == ["TABLE-LEDGER-DAMAGED"], length


def test_an_entry_that_was_edited_is_a_finding(evolved: str) -> None:
    file = the_entry(evolved)
    entry = json.loads(file.read_text())
    for key, value in (("approver", "eve"), ("at", "2020-01-01T00:00:00+00:00"), ("replay", None)):
        file.write_text(json.dumps({**entry, key: value}))
        assert rules(evolved) == ["TABLE-LEDGER-DIFFERS"], key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "0" * 64),
        ("version", 7),
        ("plan", "0" * 64),
        ("fills", {"currency": "null"}),
        ("renames", {}),
        ("routes", {"currency": "metadata"}),
        ("changes", []),
        ("changes", 3),
        ("changes", [{"change": "drop-field"}]),
        ("table", {"id": "another"}),
        ("table", None),
    ],
)
def test_an_entry_that_differs_from_the_marker_is_a_finding_although_its_seal_was_made_anew(
    evolved: str, key: str, value: Any
) -> None:
    file = the_entry(evolved)
    entry = json.loads(file.read_text())
    edited = {name: held for name, held in {**entry, key: value}.items() if name != "seal"}
    file.write_text(json.dumps({**edited, "seal": json_digest(edited)}))
    assert rules(evolved) == ["TABLE-LEDGER-DIFFERS"]


def test_an_entry_that_lacks_a_field_is_damaged(evolved: str) -> None:
    file = the_entry(evolved)
    entry = json.loads(file.read_text())
    for key in ("changes", "approver", "replay"):
        kept = {name: held for name, held in entry.items() if name not in (key, "seal")}
        file.write_text(json.dumps({**kept, "seal": json_digest(kept)}))
        assert rules(evolved) == ["TABLE-LEDGER-DAMAGED"], key


def test_an_entry_of_a_version_that_the_table_does_not_have_is_a_finding(evolved: str) -> None:
    file = the_entry(evolved)
    (file.parent / f"9-{'ab' * 32}.json").write_bytes(file.read_bytes())
    assert rules(evolved) == ["TABLE-LEDGER-STRAY"]


def test_what_is_no_record_in_the_folder_is_left_alone(evolved: str) -> None:
    folder = the_entry(evolved).parent
    (folder / "notes.txt").write_text("ours")
    (folder / ".2-x.json.part").write_text("{")
    (folder / "below").mkdir()
    assert rules(evolved) == []


def test_no_row_value_and_no_credential_is_in_the_ledger(lake: Any, tmp_path: Path) -> None:
    schema = le.load({"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]})
    data = pa.table({"id": ["a-secret-row-value"]}, schema=pa.schema([pa.field("id", pa.string(), nullable=False)]))
    uri = lake.create("people", schema, data)
    target = {"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "string"], "default": None}]}
    le.apply(le.plan(uri, target), allow=ALL)
    assert "a-secret-row-value" not in the_entry(uri).read_text()


WRITER = """
import sys
import lakeevolve as le
from lakeevolve.applying.past import rebuild
table = le.open_table(sys.argv[1])
sys.stdin.readline()
print(len(rebuild(table)))
"""


def test_two_processes_that_write_the_same_entry_leave_one(evolved: str) -> None:
    the_entry(evolved).unlink()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, evolved], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert sum(int(writer.communicate(timeout=120)[0]) for writer in writers) == 1
    assert rules(evolved) == []


def test_entries_come_in_the_order_of_their_versions(tmp_path: Path) -> None:
    kept = state_of("t", tmp_path)
    for number in (10, 2, 1):
        kept.add("ledger", f"{number}-{'a' * 64}", {"n": number})
    assert [entry.version for entry in ledger.entries(kept)] == [1, 2, 10]


def test_whatever_happens_to_an_entry_history_tells_it_and_goes_on(evolved: str) -> None:
    file = the_entry(evolved)
    content = file.read_bytes()
    table = le.open_table(evolved)
    kept, versions = state(evolved), table.history()
    dice = random.Random(7)
    for _ in range(300):
        at, length = dice.randrange(len(content)), dice.choice((0, 1, 2, 10, 200))
        put = dice.choice((b"", b"0", b"null", b"{}", b"[", b'"', b"\xff", b"9" * 30, b"NaN", b"1e999", b",", b":"))
        damaged = content[:at] + put + content[at + length :]
        file.write_bytes(damaged)
        found = ledger.judge(ledger.entries(kept), table, versions)
        if json_of(damaged) != json_of(content):
            assert [finding.rule[:13] for finding in found] == ["TABLE-LEDGER-"], damaged
        else:
            assert found == ()


def json_of(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None
