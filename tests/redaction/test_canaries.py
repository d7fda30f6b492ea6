"""Marked credentials in every place that may hold one, and every command, failing and succeeding: no byte that is
printed or written holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.model.schema import Schema

Run = Callable[..., tuple[int, str]]
Rows = Callable[[Schema, int, int], pa.Table]

CANARY = "Canary9SECRET"
V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "float"}],
}
V2 = {
    **V1,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "aliases": ["amount"], "type": "double"},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for name, schema in (("v1.avsc", V1), ("v2.avsc", V2)):
        (tmp_path / name).write_text(json.dumps(schema))
    return str(tmp_path / "v1.avsc"), str(tmp_path / "v2.avsc")


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    root = str(Path(le.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": root, "LAKEEVOLVE_STATE": str(tmp_path / "state"), "HOME": str(tmp_path)}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """One command in this process; gives its exit code and all that was printed, by native code, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def once(*args: str) -> tuple[int, str]:
        code = main(args)
        printed = capfd.readouterr()
        assert CANARY not in printed.out, printed.out
        assert CANARY not in printed.err, printed.err
        return code, printed.out + printed.err

    return once


def run_alone(folder: Path, environment: dict[str, str], *args: str) -> tuple[int, str]:
    """The same in a process of its own, with an environment of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "lakeevolve", *args], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert CANARY not in done.stdout, done.stdout
    assert CANARY not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def written(folder: Path, *, but: tuple[str, ...] = ()) -> None:
    """No file below the folder holds the canary, except those that the test itself put there."""
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in but:
            assert CANARY.encode() not in file.read_bytes(), file
        assert CANARY not in file.name


def delta_table(folder: Path, rows: Rows) -> Path:
    from lakeevolve.tables import delta

    place = folder / "lake" / "orders"
    delta.create_table(f"delta:{place}", le.load(V1))
    delta.append(f"delta:{place}", rows(le.load(V1), 10, 1))
    return place


def iceberg_table(folder: Path, rows: Rows) -> str:
    from lakeevolve.tables import iceberg

    uri = f"iceberg:{folder / 'lake'}/shop.orders"
    iceberg.create_table(uri, le.load(V1))
    iceberg.append(uri, rows(le.load(V1), 10, 1))
    return uri


@pytest.mark.parametrize("uri", ["file://{}?sig=" + CANARY, "file://user:" + CANARY + "@{}"])
def test_a_delta_table_goes_the_whole_way_with_a_credential_in_its_uri(
    uri: str, tmp_path: Path, files: tuple[str, str], rows: Rows, run: Run
) -> None:
    table, saved = f"delta:{uri.format(delta_table(tmp_path, rows))}", str(tmp_path / "plan.json")
    allow = ["--allow", "rewrite", "--allow", "backfill"]
    for args in (
        ["describe", table],
        ["describe", table, "--format", "json", "--save", str(tmp_path / "description.json")],
        ["plan", table, files[1], "--out", saved, "--output", f"json={tmp_path / 'result.json'}"],
        ["show", saved],
        ["apply", saved, "--dry-run", *allow],
        ["apply", saved, "--yes", *allow],
        ["apply", saved, "--yes", *allow],
        ["verify", table, "--full", "--format", "json"],
        ["history", table],
        ["history", table, "--format", "json"],
        ["diff", table, files[1]],
        ["check", table, files[1]],
    ):
        code, text = run(*args)
        assert code == 0, text
    assert json.loads(Path(saved).read_text())["table"]["uri"] == f"delta:file://{tmp_path}/lake/orders"
    assert any((tmp_path / "state").rglob("evidence/*.json"))
    written(tmp_path)


@pytest.mark.parametrize(
    "table",
    [
        f"delta:az://box/t?sig={CANARY}",
        f"delta:s3://KEY:{CANARY}@bucket/t",
        f"delta:s3://KEY:{CANARY}/x@bucket/t@v3",
        f"delta:file:///nowhere?sig={CANARY}",
        f"iceberg:prod/shop.orders?token={CANARY}",
        f"iceberg:prod?token={CANARY}/shop.orders",
        f"iceberg:https://user:{CANARY}@host/shop.orders",
        f"https://user:{CANARY}@host/t?token={CANARY}",
        f"hudi:s3://KEY:{CANARY}@bucket/t",
    ],
)
def test_a_table_that_cannot_be_opened_is_named_without_its_credential(
    table: str, tmp_path: Path, files: tuple[str, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    # A store that is down is asked again and again by default.
    few = ["--option", "max_retries=0", "--option", "timeout=1s"] if table.startswith("delta:s3") else []
    for args in (["describe", table, *few], ["plan", table, files[1], *few, "--debug"], ["diff", files[0], table]):
        if few and args[0] == "diff":
            continue
        code, text = run(*args)
        assert code == 2, text
        said = text[text.rindex("lakeevolve: ") :]
        assert len(said.splitlines()) <= 3
    written(tmp_path)


@pytest.mark.parametrize(
    ("state", "place"), [("up", "environment"), ("missing", "file"), ("down", "environment"), ("broken", "file")]
)
def test_credentials_of_a_catalog_are_never_seen(
    state: str, place: str, tmp_path: Path, files: tuple[str, str], rows: Rows, clean_environment: dict[str, str]
) -> None:
    iceberg_table(tmp_path, rows)
    database = tmp_path / "lake" / "catalog.db"
    properties = {
        "up": {"type": "sql", "uri": f"sqlite:///file:{database}?uri=true&mode=rw&password={CANARY}"},
        "missing": {"type": "sql", "uri": f"sqlite:///file:{tmp_path}/no/x.db?uri=true&password={CANARY}"},
        "down": {
            "type": "rest",
            "uri": f"http://user:{CANARY}@127.0.0.1:9/?token={CANARY}",
            "credential": f"client:{CANARY}",
            "token": CANARY,
        },
        "broken": {"type": "sql", "uri": f"postgresql+nosuch://user:{CANARY}@127.0.0.1:9/x"},
    }[state]
    properties |= {
        "warehouse": f"file://{tmp_path / 'lake'}",
        "s3.secret-access-key": CANARY,
        "s3.session-token": CANARY,
        "header.authorization": f"Bearer {CANARY}",
    }
    environment = dict(clean_environment)
    if place == "environment":
        for name, value in properties.items():
            key = name.upper().replace(".", "__").replace("-", "_")
            environment[f"PYICEBERG_CATALOG__LAKEEVOLVE__{key}"] = value
    else:
        told = "\n".join(f"    {name}: {json.dumps(value)}" for name, value in properties.items())
        (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  lakeevolve:\n{told}\n")
    table, saved = "iceberg:lakeevolve/shop.orders", str(tmp_path / "plan.json")
    ok = state == "up"
    steps = [["describe", table], ["plan", table, files[1], "--out", saved, "--debug"]]
    if ok:
        steps += [
            ["apply", saved, "--yes", "--allow", "rewrite", "--allow", "backfill", "--debug"],
            ["verify", table, "--format", "json"],
            ["history", table],
            ["show", saved],
        ]
    for args in steps:
        code, text = run_alone(tmp_path, environment, *args)
        assert code == (0 if ok else 2), text
    written(tmp_path, but=(".pyiceberg.yaml",))


def test_credentials_among_options_are_never_seen(tmp_path: Path, files: tuple[str, str], rows: Rows, run: Run) -> None:
    uri, delta = iceberg_table(tmp_path, rows), f"delta:{delta_table(tmp_path, rows)}"
    secret = ["--option", f"s3.secret-access-key={CANARY}"]
    for table, option in ((uri, secret), (delta, ["--option", f"AWS_SECRET_ACCESS_KEY={CANARY}"])):
        saved = str(tmp_path / "plan.json")
        for args in (
            ["describe", table],
            ["plan", table, files[1], "--out", saved],
            ["apply", saved, "--yes", "--allow", "rewrite", "--allow", "backfill"],
            ["verify", table],
            ["history", table],
        ):
            code, text = run(*args, *option)
            assert code == 0, text
    for args in (
        ["describe", "iceberg:nowhere/shop.orders", *secret, "--debug"],
        ["describe", "delta:nowhere", f"--option=token={CANARY}", "--debug"],
        ["describe", "delta:nowhere", "--option", CANARY],
        ["describe", "delta:nowhere", f"s3://KEY:{CANARY}@bucket"],
    ):
        code, text = run(*args)
        assert code == 2, text
    written(tmp_path)


def test_nothing_in_python_shows_a_credential_either(tmp_path: Path, rows: Rows) -> None:
    place = delta_table(tmp_path, rows)
    table = le.open_table(f"delta:file://{place}?sig={CANARY}", storage_options={"token": CANARY})
    plan = le.plan(table, V2)
    result = le.verify(table)
    described = le.describe(table)
    shown: list[Any] = [table, table.address, table.uri, plan, plan.to_json(), result, result.to_json(), described]
    assert not [each for each in shown if CANARY in repr(each) or CANARY in str(each)]
    assert le.apply(plan, allow=plan.permits, table=table).ok, "without the credential, the plan is of the same table"
    with pytest.raises(le.LakeEvolveError) as caught:
        le.open_table(f"delta:s3://KEY:{CANARY}@bucket/t", storage_options={"aws_secret_access_key": CANARY, "x": "y"})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_what_is_no_credential_is_shown(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "nowhere")
    code, text = run("describe", f"delta:{tmp_path}/nowhere")
    assert code == 2
    assert f"delta:{tmp_path}/nowhere" in text
