"""The functions that tasks call, without Airflow: what they return, what a second call does, what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve import airflow as tasks
from lakeevolve.applying import ledger
from lakeevolve.config.state import state_of
from lakeevolve.errors import (
    ConfigError,
    Interrupted,
    PartlyApplied,
    PermitMissing,
    PlanBlocked,
    PlanFormatError,
    ReplayMismatch,
    StalePlan,
    StateUnavailable,
)

ROOT = Path(__file__).resolve().parents[2]
OLD = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
ALLOW = ("rewrite", "backfill")
HEAVY = ("pyarrow", "pyiceberg", "deltalake", "fastavro", "pydantic", "yaml", "sqlalchemy", "airflow")


@pytest.fixture(autouse=True)
def without_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Airflow is installed, what is raised here is lakeevolve's own."""
    monkeypatch.setattr("lakeevolve.airflow.failures._has_airflow", lambda: False)


@pytest.fixture
def table(orders: Callable[..., str], tmp_path: Path) -> str:
    return orders(tmp_path / "place")


def approve(plan: str, until: str = "2099-01-01", folder: str = "approvals") -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, f"{plan[:8]}.approval.yaml").write_text(f"plan: {plan}\napprover: ann\nuntil: {until}\n")


def test_the_package_is_imported_without_any_heavy_library_and_without_airflow() -> None:
    code = f"import sys, lakeevolve.airflow; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_what_tasks_return_is_small_json_with_the_evidence_by_path(table: str) -> None:
    checked = tasks.check_schema("orders.avsc", table=table)
    planned = tasks.plan_table(table, "orders.avsc")
    applied = tasks.apply_plan(planned, allow=ALLOW)
    verified = tasks.verify_table(table, columns="all")
    for each in (checked, planned, applied, verified):
        assert len(json.dumps(each)) < 1200
    assert checked["compatible"]
    assert (planned["from"], planned["to"], planned["permits"]) == (1, 2, ["backfill", "rewrite"])
    assert tasks.has_changes(planned)
    assert (applied["status"], applied["version"], applied["rows"]) == ("applied", 2, 8)
    assert (verified["ok"], verified["rows"]) == (True, 8)
    for path in (planned["plan_path"], applied["evidence"], verified["evidence"]):
        assert Path(path).is_absolute()
        assert json.loads(Path(path).read_text())["format_version"]


def test_what_a_task_returns_does_not_grow_with_the_schema_or_the_files(tmp_path: Path, orders: Any) -> None:
    table = orders(tmp_path / "place", 8)
    wide = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    wide["fields"] += [{"name": f"c{n}", "type": ["null", "string"], "default": None} for n in range(80)]  # type: ignore[operator]
    planned = tasks.plan_table(table, wide)
    assert planned["changes"] == 80
    assert len(json.dumps(planned)) < 1200
    assert len(json.dumps(tasks.apply_plan(planned))) < 1200


def test_a_plan_made_again_is_the_same_file_and_an_applied_one_is_applied_once(table: str) -> None:
    first, again = (tasks.plan_table(table, "orders.avsc") for _ in range(2))
    assert first == again
    tasks.apply_plan(first, allow=ALLOW)
    version = deltalake.DeltaTable("lake/orders").version()
    retried = tasks.apply_plan(first, allow=ALLOW)
    assert (retried["status"], retried["ok"], retried["rows"]) == ("already-applied", True, 8)
    assert Path(retried["evidence"]).exists()
    assert deltalake.DeltaTable("lake/orders").version() == version
    assert not tasks.has_changes(tasks.plan_table(table, "orders.avsc"))


def test_a_plan_without_changes_is_applied_to_nothing(table: str) -> None:
    planned = tasks.plan_table(table, {**json.loads(Path("orders.avsc").read_text())})
    tasks.apply_plan(planned, allow=ALLOW)
    empty = tasks.plan_table(table, "orders.avsc")
    assert tasks.is_approved(empty, "approvals")
    assert tasks.apply_plan(empty, approvals="approvals")["status"] == "nothing-to-do"


def test_a_retry_makes_up_for_the_replay_that_the_killed_attempt_owes(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = tasks.plan_table(table, "orders.avsc")

    def killed(*_args: Any, **_kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lakeevolve.applying.apply.verify", killed)
        with pytest.raises(Interrupted, match="after the commit"):
            tasks.apply_plan(planned, allow=ALLOW)
    state = state_of(le.open_table(table).state.id)
    assert list(state.read("evidence")) == []
    assert ledger.entries(state) == ()

    retried = tasks.apply_plan(planned, allow=ALLOW)
    assert (retried["status"], retried["ok"], retried["rows"]) == ("already-applied", True, 8)
    assert json.loads(Path(retried["evidence"]).read_text())["mismatches"] == []
    (entry,) = ledger.entries(state)
    assert entry.record is not None
    assert entry.record["replay"]["rows"] == 8
    assert tasks.apply_plan(planned, allow=ALLOW) == retried


def test_a_state_that_is_down_after_the_commit_is_no_reason_not_to_try_again(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.airflow.failures import may_pass
    from lakeevolve.config.state import TableState

    planned = tasks.plan_table(table, "orders.avsc")
    write = TableState.write

    def down(self: TableState, kind: Any, *args: Any, **kwargs: Any) -> Any:
        if kind == "evidence":
            raise StateUnavailable("the state cannot be kept there: it did not answer")
        return write(self, kind, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(TableState, "write", down)
        with pytest.raises(ConfigError, match="the plan is applied") as caught:
            tasks.apply_plan(planned, allow=ALLOW)
    assert may_pass(caught.value)
    retried = tasks.apply_plan(planned, allow=ALLOW)
    assert (retried["status"], retried["rows"]) == ("already-applied", 8)
    assert Path(retried["evidence"]).is_file()


def test_values_that_differ_after_the_commit_are_no_success_at_the_second_attempt_either(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeevolve.replaying.verify import verify

    planned = tasks.plan_table(table, "orders.avsc")

    def damaged(live: Any, *args: Any, **kwargs: Any) -> Any:
        for file in deltalake.DeltaTable("lake/orders").file_uris():
            pa.parquet.write_table(pa.parquet.read_table(file).slice(1), file)
        return verify(live, *args, **kwargs)

    import pyarrow.parquet  # noqa: F401

    with monkeypatch.context() as patched:
        patched.setattr("lakeevolve.applying.apply.verify", damaged)
        with pytest.raises(ReplayMismatch):
            tasks.apply_plan(planned, allow=ALLOW)
    with pytest.raises(ReplayMismatch, match="the plan is applied"):
        tasks.apply_plan(planned, allow=ALLOW)
    with pytest.raises(ReplayMismatch):
        tasks.verify_table(table)


@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_task_that_is_killed_stops_between_two_files_and_a_retry_goes_on(table: str, after: int) -> None:
    planned = tasks.plan_table(table, "orders.avsc")
    asked = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) >= after

    with pytest.raises(Interrupted, match="interrupted before the commit"):
        tasks.apply_plan(planned, allow=ALLOW, stop=stop)
    assert len(asked) == after
    live = {Path(uri).name for uri in deltalake.DeltaTable("lake/orders").file_uris()}
    assert {path.name for path in Path("lake/orders").glob("*.parquet")} == live
    assert tasks.apply_plan(planned, allow=ALLOW)["status"] == "applied"


def test_a_verification_that_is_killed_stops_between_two_files(table: str) -> None:
    with pytest.raises(Interrupted, match="between two files"):
        tasks.verify_table(table, stop=lambda: True)


def test_an_engine_does_the_work_of_applying_and_verifying(table: str) -> None:
    planned = tasks.plan_table(table, "orders.avsc")
    assert tasks.apply_plan(planned, allow=ALLOW, engine="local://1")["rows"] == 8
    assert tasks.verify_table(table, engine="local://1")["rows"] == 8
    with pytest.raises(ConfigError, match="no engine is called"):
        tasks.verify_table(table, engine="abacus://1")


def test_what_was_applied_in_part_is_resumed_by_a_retry(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeevolve.tables.delta import commit as commits

    wanted = {**OLD, "fields": [{"name": "id", "type": "int", "doc": "d"}, NOTE]}
    planned = tasks.plan_table(table, wanted)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commits, "_once", killed)
        with pytest.raises(Interrupted, match="between two commits"):
            tasks.apply_plan(planned)
    with pytest.raises(PartlyApplied):
        tasks.apply_plan(planned, resume=False)
    assert tasks.apply_plan(planned)["status"] == "applied"
    assert le.open_table(table).schema == le.load(wanted)


def test_plans_lie_in_a_bucket_as_well(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from obstore.store import MemoryStore

    from lakeevolve.airflow import plans
    from lakeevolve.config.store import Objects

    store = MemoryStore()
    monkeypatch.setattr(plans, "store_at", lambda place: Objects(store, str(place)) if "://" in str(place) else None)
    planned = tasks.plan_table(table, "orders.avsc", plans="s3://key:hunter2hunter2@bucket/plans")
    assert planned["plan_path"] == f"s3://bucket/plans/{planned['plan']}.json"
    assert tasks.is_approved(planned, "approvals") is False
    assert tasks.apply_plan(planned, allow=ALLOW)["status"] == "applied"
    with pytest.raises(PlanFormatError, match="there is no plan") as caught:
        tasks.apply_plan("s3://bucket/plans/other.json")
    assert caught.value.where == "s3://bucket/plans/other.json"
    Objects(store, "s3://bucket/plans").put(f"{planned['plan']}.json", b"{}")
    with pytest.raises(PlanFormatError, match="not a lakeevolve plan") as caught:
        tasks.apply_plan(planned)
    assert caught.value.where == planned["plan_path"]


def test_a_state_whose_store_is_down_is_told_from_one_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore
    from obstore.exceptions import GenericError, PermissionDeniedError

    from lakeevolve.airflow.failures import may_pass
    from lakeevolve.config.store import Objects

    for raised, kind, passing in (
        (GenericError("timed out"), StateUnavailable, True),
        (PermissionDeniedError("403"), ConfigError, False),
    ):

        def put(*_: Any, error: Exception = raised, **__: Any) -> None:
            raise error

        monkeypatch.setattr(obstore, "put", put)
        with pytest.raises(ConfigError) as caught:
            Objects(None, "s3://bucket/state").put("a", b"")  # type: ignore[arg-type]
        assert type(caught.value) is kind
        assert may_pass(caught.value) is passing


def test_a_plan_that_became_stale_is_refused_and_made_again(table: str) -> None:
    planned = tasks.plan_table(table, "orders.avsc")
    deltalake.DeltaTable("lake/orders").alter.add_columns([deltalake.Field("note", "string")])
    with pytest.raises(StalePlan):
        tasks.apply_plan(planned, allow=ALLOW)
    wanted = json.loads(Path("orders.avsc").read_text())
    wanted["fields"].append(NOTE)
    again = tasks.plan_table(table, wanted)
    assert tasks.apply_plan(again, allow=ALLOW)["status"] == "applied"


def test_an_approval_is_waited_for_and_is_what_applying_asks_for(table: str) -> None:
    planned = tasks.plan_table(table, "orders.avsc")
    assert not tasks.is_approved(planned, "approvals")
    with pytest.raises(PermitMissing, match="not approved"):
        tasks.apply_plan(planned, allow=ALLOW, approvals="approvals")
    approve(planned["plan"], "2020-01-01")
    assert not tasks.is_approved(planned, "approvals")
    approve(planned["plan"])
    assert tasks.is_approved(planned["plan_path"], ["elsewhere", "approvals"])
    tasks.apply_plan(planned, allow=ALLOW, approvals="approvals")
    (entry,) = ledger.entries(state_of(le.open_table(table).state.id))
    assert entry.record is not None
    assert entry.record["approver"] == "ann"


def test_what_cannot_be_planned_fails_its_task_and_says_where_the_plan_lies(table: str) -> None:
    narrower = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "string"}]}
    with pytest.raises(PlanBlocked, match="will not be applied") as caught:
        tasks.plan_table(table, narrower, plans="plans")
    (saved,) = Path("plans").glob("*.json")
    assert str(saved) in str(caught.value.hint)
    with pytest.raises(PlanBlocked):
        tasks.apply_plan(str(saved))


def test_a_schema_with_findings_fails_its_task_unless_it_only_reports(table: str) -> None:
    other = {"type": "record", "name": "Row", "fields": [{"name": "number", "type": "int"}]}
    with pytest.raises(PlanBlocked, match="refused in BACKWARD"):
        tasks.check_schema(other, table=table)
    reported = tasks.check_schema(other, [{"type": "record", "name": "Row", "fields": []}], fail_on="never")
    assert not reported["compatible"]
    assert reported["findings"]["error"] > 0


#: What a template makes of what a task returned, where only its text is taken.
RENDERED = "{'plan': '0', 'plan_path': 'plan.json'}"


@pytest.mark.parametrize("given", ["none.json", RENDERED, {"plan": "0" * 64}, {"plan_path": ""}, "", 7, None])
def test_what_is_no_plan_is_said_to_be_none(given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanFormatError):
        tasks.apply_plan(given)


def test_another_plan_under_the_same_path_is_not_applied(table: str) -> None:
    planned = tasks.plan_table(table, "orders.avsc")
    other = tasks.plan_table(table, {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]})
    Path(planned["plan_path"]).write_bytes(Path(other["plan_path"]).read_bytes())
    with pytest.raises(PlanFormatError, match="another plan"):
        tasks.apply_plan(planned, allow=ALLOW)


@pytest.mark.parametrize(
    "uri", ["delta:s3://AKIAKEY:hunter2hunter2@bucket/orders", "delta:az://box/orders?sig=hunter2hunter2"]
)
def test_credentials_in_a_table_s_uri_are_refused_without_being_shown(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tasks.plan_table(uri, "orders.avsc")
    told = " ".join(caught.value.lines())
    assert "hunter2" not in told
    assert "conn_id" in told


def project(*, tables: str, target: str = "orders.avsc") -> str:
    Path("lakeevolve.yaml").write_text(
        "version: 1\nstate: kept\nsubjects:\n  orders:\n"
        f"    source: {target}\n    tables: [{tables}]\n"
        'tables:\n  "delta:*": {old_rows: "null"}\n'
    )
    return "lakeevolve.yaml"


def test_a_project_says_target_options_and_state_of_each_of_its_tables(table: str) -> None:
    config = project(tables=f"{table}, delta:lake/other")
    assert tasks.project_tables(config) == [table, "delta:lake/other"]
    planned = tasks.plan_table(table, config=config)
    assert planned["permits"] == ["rewrite"]
    assert Path(planned["plan_path"]).is_relative_to(Path("kept").absolute())
    applied = tasks.apply_plan(planned, allow=["rewrite"], config=config)
    verified = tasks.verify_table(table, config=config)
    for path in (applied["evidence"], verified["evidence"]):
        assert Path(path).is_relative_to(Path("kept").absolute())
    assert not Path(".lakeevolve").exists()
    with pytest.raises(ConfigError, match="does not list"):
        tasks.plan_table("delta:lake/orders2", config=config)


def test_a_project_is_judged_as_a_whole(table: str) -> None:
    assert tasks.check_schema(config=project(tables=table))["ok"]
    Path("orders.avsc").write_text('{"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}')
    with pytest.raises(PlanBlocked, match="orders · delta:lake/orders is refused"):
        tasks.check_schema(config=project(tables=table))


def test_a_state_of_its_own_is_kept_where_the_task_says(table: str) -> None:
    planned = tasks.plan_table(table, "orders.avsc", state="mine")
    applied = tasks.apply_plan(planned, allow=ALLOW, state="mine")
    verified = tasks.verify_table(table, state="mine", evidence="proof/orders.json")
    assert Path(planned["plan_path"]).is_relative_to(Path("mine").absolute())
    assert Path(applied["evidence"]).is_relative_to(Path("mine").absolute())
    assert verified["evidence"] == str(Path("proof/orders.json").absolute())
    assert not Path(".lakeevolve").exists()


def verify_in_project(**given: Any) -> None:
    tasks.verify_table("delta:lake/orders", config=project(tables="delta:lake/orders"), **given)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tasks.check_schema(), "nothing to check"),
        (lambda: tasks.check_schema(OLD, [OLD], table="delta:lake/orders"), "its own history"),
        (lambda: tasks.plan_table("delta:lake/orders"), "one schema"),
        (lambda: tasks.plan_table("delta:lake/orders", "a.avsc", config="lakeevolve.yaml"), "one schema"),
        *(
            (lambda given=given: verify_in_project(**given), "the project says it")
            for given in ({"against": OLD}, {"contracts": ["a.avsc"]}, {"mode": "FULL"})
        ),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(table: str, call: Any, said: str) -> None:
    with pytest.raises(le.LakeEvolveError, match=said):
        call()
