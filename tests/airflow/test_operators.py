"""The operators and connections, with Airflow loaded: what they refuse, what they raise, what they let nobody see."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve import errors
from lakeevolve.airflow import connections, is_approved, tasks
from lakeevolve.airflow.failures import as_airflow_says

pytestmark = [
    pytest.mark.airflow,
    # What Airflow warns of in its own code is nothing that is decided here.
    pytest.mark.filterwarnings("default"),
]

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2-of-the-store"
HEAVY = ("pyarrow", "pyiceberg", "deltalake", "fastavro", "duckdb", "polars", "pandas")

#: What a retry cannot help, and what it may.
FINAL = {
    errors.StalePlan("the plan is stale"): 4,
    errors.PlanBlocked("the plan is blocked"): 1,
    errors.PermitMissing("a permit is missing"): 1,
    errors.PlanFormatError("no plan"): 2,
    errors.ReplayMismatch("values differ"): 5,
    errors.SchemaError("no schema"): 2,
    errors.SourceNotFound("nothing there"): 2,
    errors.UnknownScheme("no such scheme"): 2,
    errors.TableNotFound("no table"): 2,
    errors.UnsupportedTable("a feature"): 2,
    errors.ConfigError("an option"): 2,
    errors.InvalidConfig("lakeevolve.yaml", [(3, "a key is unknown", None)]): 2,
    errors.ResolutionError("cannot be read"): 2,
}
PASSING = {
    errors.CatalogUnavailable("the catalog did not answer"): 2,
    errors.StateUnavailable("the state did not answer"): 2,
    errors.CommitConflict("another writer was first"): 4,
    errors.PartlyApplied("apply stopped part-way"): 6,
    errors.Interrupted("interrupted before the commit"): 130,
    errors.TableError("a file is missing"): 2,
    errors.SourceError("it could not be read"): 2,
    errors.EngineError("workers were lost"): 2,
}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function that makes an Airflow connection and returns its name."""

    def make(**fields: Any) -> str:
        monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(fields))
        return "store"

    return make


def raising(error: BaseException) -> Callable[[], None]:
    @as_airflow_says
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
def test_what_the_next_attempt_would_meet_again_is_not_retried(error: Exception) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    with pytest.raises(AirflowFailException, match=rf"\(exit {FINAL[error]}\)") as caught:
        raising(error)()
    assert (caught.value.exit_code, caught.value.kind) == (FINAL[error], type(error).__name__)


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_may_pass_is_retried(error: Exception) -> None:
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match=rf"\(exit {PASSING[error]}\)") as caught:
        raising(error)()
    assert not isinstance(caught.value, AirflowFailException)
    assert caught.value.exit_code == PASSING[error]


def test_every_kind_of_error_is_one_or_the_other() -> None:
    known = {type(error) for error in (*FINAL, *PASSING)}
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, (errors.LakeEvolveError, errors.Interrupted)):
            assert any(issubclass(each, kind) or issubclass(kind, each) for kind in known), each


def test_airflow_s_own_exceptions_pass_as_they_are() -> None:
    from airflow.providers.common.compat.sdk import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="not today"):
        raising(AirflowSkipException("not today"))()


def test_neither_rows_nor_credentials_of_a_library_s_error_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    from airflow.providers.common.compat.sdk import AirflowException

    @as_airflow_says
    def run() -> None:
        try:
            raise ValueError(f"could not convert 'alice@example.com' at s3://key:{SECRET}@bucket/orders")
        except ValueError as error:
            raise KeyError("alice@example.com") from error

    with caplog.at_level(logging.INFO), pytest.raises(AirflowException, match="unexpected KeyError") as caught:
        run()
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "alice" not in told
    assert SECRET not in told
    # What led to an error of ours is left out just so.
    failed = errors.TableError("a file cannot be read")
    failed.__cause__ = ValueError("alice@example.com")
    with pytest.raises(AirflowException) as caught:
        raising(failed)()
    assert "alice" not in "".join(traceback.format_exception(caught.value))
    with caplog.at_level(logging.DEBUG), pytest.raises(AirflowException):
        run()
    assert "alice" in caplog.text
    assert SECRET not in caplog.text


def test_loading_operators_and_parsing_the_examples_loads_no_library_of_tables() -> None:
    examples = sorted(str(path) for path in (ROOT / "docs" / "examples" / "airflow").glob("*.py"))
    assert len(examples) == 2
    code = (
        "import runpy, sys, lakeevolve.airflow as la\n"
        "[getattr(la, name) for name in la.__all__]\n"
        f"[runpy.run_path(path) for path in {examples}]\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_airflow_knows_the_provider_and_what_it_names_is_there() -> None:
    from airflow.providers_manager import ProvidersManager

    found = ProvidersManager().providers["lakeevolve"]
    assert found.version == le.__version__
    assert found.data["package-name"] == "lakeevolve"
    for part in found.data["operators"]:
        for module in part["python-modules"]:
            loaded = importlib.import_module(module)
            assert {f"LakeEvolve{step}Operator" for step in ("Check", "Plan", "Apply", "Verify")} == set(loaded.__all__)


def operators() -> dict[str, Any]:
    from lakeevolve import airflow

    uri = "delta:lake/orders"
    return {
        "check": airflow.LakeEvolveCheckOperator(task_id="check", candidate="a.avsc", table=uri),
        "plan": airflow.LakeEvolvePlanOperator(task_id="plan", table=uri, target="a.avsc"),
        "apply": airflow.LakeEvolveApplyOperator(task_id="apply", plan="plan.json"),
        "verify": airflow.LakeEvolveVerifyOperator(task_id="verify", table=uri),
    }


@pytest.mark.parametrize("function", ["check_schema", "plan_table", "apply_plan", "verify_table", "is_approved"])
def test_a_function_that_is_made_a_task_pushes_one_xcom_without_a_warning(function: str) -> None:
    from airflow.sdk import task

    called = getattr(tasks, function, is_approved)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not task(task_id=function)(called).multiple_outputs
    # Airflow 2 warns of an annotation that it cannot resolve.
    assert "return" not in called.__annotations__


FUNCTIONS = {
    "check": tasks.check_schema,
    "plan": tasks.plan_table,
    "apply": tasks.apply_plan,
    "verify": tasks.verify_table,
}


def test_every_template_field_is_a_parameter_that_the_function_has() -> None:
    for name, operator in operators().items():
        parameters = inspect.signature(FUNCTIONS[name]).parameters
        assert set(operator.template_fields) <= set(parameters)
        assert "conn_id" in operator.template_fields
        for parameter in set(parameters) - {"stop"}:
            assert hasattr(operator, parameter), f"{name}: {parameter}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_of_an_operator_reaches_its_function_under_its_own_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = inspect.signature(FUNCTIONS[name])
    given = {parameter: f"the {parameter}" for parameter in set(signature.parameters) - {"stop"}}
    operator = operators()[name]
    for parameter, value in given.items():
        setattr(operator, parameter, value)
    seen: dict[str, Any] = {}

    def function(*args: Any, **kwargs: Any) -> None:
        seen.update(signature.bind(*args, **kwargs).arguments)

    monkeypatch.setattr(tasks, FUNCTIONS[name].__name__, function)
    operator.execute({})
    assert set(seen) == set(signature.parameters)
    assert {parameter: seen[parameter] for parameter in given} == given


@pytest.mark.parametrize("name", ["check", "plan", "verify"])
def test_credentials_in_a_uri_are_refused_when_the_dag_is_parsed(name: str) -> None:
    kind = type(operators()[name])
    uri = f"delta:s3://AKIAKEY:{SECRET}@bucket/orders"
    with pytest.raises(ValueError, match="connection") as caught:
        kind(task_id=name, table=uri)
    assert SECRET not in str(caught.value)
    kind(task_id=name, table="delta:{{ params.table }}")


def test_credentials_in_an_engine_s_name_are_refused_when_the_dag_is_parsed_and_when_it_runs(
    tmp_path: Path, orders: Callable[..., str]
) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    from lakeevolve import airflow

    name = f"sc://spark:15002/;token={SECRET}"
    with pytest.raises(ValueError, match="environment") as parsed:
        airflow.LakeEvolveVerifyOperator(task_id="verify", table="delta:lake/orders", engine=name)
    assert SECRET not in str(parsed.value)
    table = orders(tmp_path / "place")
    with pytest.raises(AirflowFailException, match="environment") as ran:
        airflow.verify_table(table, engine=name)
    assert SECRET not in str(ran.value)


def test_a_permit_that_does_not_exist_is_refused_when_the_dag_is_parsed() -> None:
    from lakeevolve import airflow

    for allow in (["rewrites"], "rewrite", {"all"}):
        with pytest.raises(ValueError, match="rewrite"):
            airflow.LakeEvolveApplyOperator(task_id="apply", plan="plan.json", allow=allow)
    airflow.LakeEvolveApplyOperator(task_id="apply", plan="plan.json", allow=["rewrite", "{{ params.permit }}"])
    airflow.LakeEvolveApplyOperator(task_id="apply2", plan="plan.json", allow="{{ params.permits }}")


def test_a_killed_operator_stops_at_the_next_file(tmp_path: Path, orders: Callable[..., str]) -> None:
    from airflow.providers.common.compat.sdk import AirflowException

    from lakeevolve import airflow

    table = orders(tmp_path / "place")
    planned = airflow.plan_table(table, "orders.avsc")
    applied = airflow.LakeEvolveApplyOperator(task_id="apply", plan=planned, allow=["rewrite", "backfill"])
    verified = airflow.LakeEvolveVerifyOperator(task_id="verify", table=table)
    for operator, said in ((applied, "interrupted before the commit"), (verified, "between two files")):
        operator.on_kill()
        with pytest.raises(AirflowException, match=said):
            operator.execute({})


def test_a_task_that_runs_out_of_time_leaves_the_table_as_it_was(tmp_path: Path, orders: Callable[..., str]) -> None:
    import signal

    from airflow.sdk.exceptions import AirflowTaskTimeout

    from lakeevolve import airflow
    from lakeevolve.applying.journal import Journal

    table = orders(tmp_path / "place")
    planned = airflow.plan_table(table, "orders.avsc")
    operator = airflow.LakeEvolveApplyOperator(task_id="apply", plan=planned, allow=["rewrite", "backfill"])
    before = set(Path("lake/orders").rglob("*"))

    def out_of_time(*_: Any) -> None:
        raise AirflowTaskTimeout

    written: list[str] = []

    def writing(journal: Journal, path: str) -> None:
        noted(journal, path)
        written.append(path)
        if len(written) == 3:
            signal.raise_signal(signal.SIGALRM)

    noted, was = Journal.writing, signal.signal(signal.SIGALRM, out_of_time)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Journal, "writing", writing)
            with pytest.raises(AirflowTaskTimeout):
                operator.execute({})
    finally:
        signal.signal(signal.SIGALRM, was)
    assert set(Path("lake/orders").rglob("*")) == before
    assert operator.execute({})["status"] == "applied"


def test_storage_options_of_a_connection_open_a_delta_table(
    connect: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(connections, "open_table", lambda uri, **options: seen.update({uri: options}))
    name = connect(conn_type="generic", extra={"storage_options": {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "x"}})
    connections.open_with("delta:s3://bucket/a", name)
    name = connect(
        conn_type="aws",
        login="AKIAKEY",
        password=SECRET,
        extra={"region_name": "eu-west-1", "storage_options": {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}},
    )
    connections.open_with("delta:s3://bucket/b", name)
    assert seen == {
        "delta:s3://bucket/a": {"storage_options": {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "x"}},
        "delta:s3://bucket/b": {
            "storage_options": {
                "AWS_ACCESS_KEY_ID": "AKIAKEY",
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            }
        },
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "generic", "password": SECRET}, "holds no storage_options"),
        ({"conn_type": "generic", "extra": {"storage_options": f"key={SECRET}"}}, "no object of texts"),
        ({"conn_type": "generic", "extra": {"storage_options": {"key": 7}}}, "no object of texts"),
        ({"conn_type": "aws", "extra": {"role_arn": "arn:aws:iam::1:role/r"}}, "role_arn"),
    ],
)
def test_a_connection_that_opens_no_delta_table_says_what_it_lacks(
    connect: Callable[..., str], fields: dict[str, Any], said: str
) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    with pytest.raises(AirflowFailException, match=said) as caught:
        tasks.verify_table("delta:s3://bucket/orders", conn_id=connect(**fields))
    assert SECRET not in str(caught.value)


def test_a_catalog_that_is_down_is_tried_again_and_its_connection_is_not_shown(connect: Callable[..., str]) -> None:
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    name = connect(conn_type="iceberg", host="http://127.0.0.1:9", login="someone", password=SECRET)
    with pytest.raises(AirflowException, match="did not answer") as caught:
        tasks.plan_table("iceberg:prod/shop.orders", "orders.avsc", conn_id=name)
    assert not isinstance(caught.value, AirflowFailException)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_secrets_of_a_connection_are_masked_in_whatever_is_logged(
    connect: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.common.compat import sdk

    masked: list[str] = []
    monkeypatch.setattr(sdk, "mask_secret", masked.append, raising=False)
    options = {"AWS_ACCESS_KEY_ID": "AKIAKEY", "AZURE_STORAGE_SAS_KEY": SECRET, "AWS_REGION": "eu-west-1"}
    name = connect(conn_type="generic", extra={"storage_options": options})
    monkeypatch.setattr(connections, "open_table", lambda *_args, **_options: None)
    connections.open_with("delta:s3://bucket/orders", name)
    assert SECRET in masked
    assert "eu-west-1" not in masked


def test_a_connection_that_is_not_there_is_airflow_s_to_say() -> None:
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    with pytest.raises(AirflowNotFoundException):
        tasks.verify_table("delta:s3://bucket/orders", conn_id="nowhere")
