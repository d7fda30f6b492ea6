"""The page on the project's file: its example is read, and its commands are run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.errors import PRECEDENCE
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta, iceberg

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "project-file.md").read_text(encoding="utf-8")
CONFIG, MAPPED, APPROVAL = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.partition("  #")[0]
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
ORDERS = (
    record(ID, {"name": "amount", "type": "float"}),
    record(ID, {"name": "total", "type": "double"}, {"name": "currency", "type": "string", "default": "EUR"}),
)
CUSTOMERS = (
    record(ID, {"name": "nick", "type": "string", "default": ""}),
    record(ID, {"name": "city", "type": "string", "default": ""}),
)


@pytest.fixture
def project(tmp_path: Path, rows: Callable[[Schema, int, int], pa.Table], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's project: its tables hold rows of the first versions, its schemas are the second ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEEVOLVE_STATE", raising=False)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "lakeevolve.yaml").write_text(CONFIG)
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "crm.yaml").write_text("contract: crm\nfields: [{path: id, required: true}]\n")

    def schemas(at: int) -> None:
        (tmp_path / "schemas" / "orders.avsc").write_text(json.dumps(ORDERS[at]))
        (tmp_path / "schemas" / "customers.avsc").write_text(json.dumps(CUSTOMERS[at]))

    schemas(0)
    for args in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", *args], check=True, cwd=tmp_path)
    for module, uri, schema in (
        (delta, "delta:lake/orders", ORDERS[0]),
        (iceberg, "iceberg:lake/shop.orders", ORDERS[0]),
        (delta, "delta:lake/customers", CUSTOMERS[0]),
    ):
        module.create_table(uri, le.load(schema))
        module.append(uri, rows(le.load(schema), 10, 1))
    schemas(1)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    got = main([*args, "--format", "json"])
    printed = capsys.readouterr()
    assert got == code, printed.out + printed.err
    return json.loads(printed.out)


def test_the_commands_of_the_page_do_what_it_says(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        program, *args = shlex.split(command)
        assert program == "lakeevolve"
        if "--approved" in args:
            assert "not approved" in str(told(capsys, *args, code=1))
            planned = told(capsys, "plan")
            (project / "approvals").mkdir()
            for at, part in enumerate(planned["parts"]):
                text = APPROVAL.replace("0" * 64, part["result"]["digest"])
                (project / "approvals" / f"{at}.approval.yaml").write_text(text)
        record = told(capsys, *args)
        if "findings" in record:
            assert record["findings"] == []
    assert {part["result"]["ok"] for part in told(capsys, "verify")["parts"]} == {True}
    assert {part["result"]["status"] for part in told(capsys, "apply", "--yes")["parts"]} == {"nothing-to-do"}
    assert (project / ".lakeevolve").is_dir()
    assert len(list((project / "plans").iterdir())) == 3
    assert told(capsys, "history", "delta:lake/orders")["versions"][1]["approver"] == "ann@example.com"


def test_the_faults_on_the_page_are_told_as_they_stand_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = CONFIG.replace("mode: BACKWARD", "mod: BACKWARD").replace("FIELD-OLD-ROWS-NULL", "FIELD-OLD-ROWS-NUL")
    (project / "lakeevolve.yaml").write_text(wrong)
    assert main(["check"]) == 2
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().err == shown


def test_options_reach_the_tables_as_the_page_says(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = told(capsys, "plan")
    orders, shop, customers = (part["result"] for part in planned["parts"])
    assert orders["old_rows"] == {"currency": "default", "*": "null"}
    assert "data" in shop["pin"]
    assert "data" not in orders["pin"]
    assert orders["inputs"]["limits"] == {"max_rewrite_bytes": 500 * 1024**3, "max_files": 20000}
    assert not [finding for finding in customers["findings"] if "SUSPECTED" in finding["rule"]]
    assert {step["route"] for step in shop["steps"]} >= {"metadata", "backfill"}


def test_the_table_of_exit_codes_is_the_order_in_which_they_count() -> None:
    codes = [int(code) for code in re.findall(r"^\| .* \| (\d+) \|$", PAGE, re.MULTILINE)]
    assert tuple(codes) == PRECEDENCE


def test_the_mapping_of_the_page_is_one() -> None:
    from lakeevolve.config.load import parse_project
    from lakeevolve.model.mapping import columns_of

    (options,) = parse_project("version: 1\n" + MAPPED).entry.tables.values()
    address = {"type": "record", "name": "Address", "fields": [{"name": "zipCode", "type": "string"}]}
    order = {**record({"name": "orderId", "type": "long"}, {"name": "shipTo", "type": address}), "name": "Order"}
    envelope = le.load(record({"name": "op", "type": "string"}, {"name": "after", "type": ["null", order]}))
    made = columns_of(options.mapping, envelope).schema(envelope).record
    assert [field.name for field in made.fields] == ["order_id", "ship_to"]
    assert [field.name for field in made.fields[1].type.fields] == ["zip_code"]  # type: ignore[union-attr]
    assert options.foreign == ("kafka_*",)
