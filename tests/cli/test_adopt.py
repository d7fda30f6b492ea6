"""``adopt`` as people call it: the proposal, the review, the markers, and what is said of wrong calls."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.report.schemas import SCHEMAS
from lakeevolve.tables import open_table

SAMPLES = Path(__file__).resolve().parents[2] / "sample_tables"


@pytest.fixture
def tables(lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A table of an early and of the newest version, and one of something else; the schemas beside them."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLES, tmp_path / "samples")
    other = {"type": "record", "name": "X", "fields": [{"name": "q", "type": "int"}]}
    made = {"a": le.load(SAMPLES / "orders" / "v1.avsc"), "b": le.load(SAMPLES / "orders" / "v6.avsc")}
    return [lake.create(name, schema) for name, schema in {**made, "c": le.load(other)}.items()]


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_propose_review_apply_plan(
    lake: Any, tables: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "adopt", lake.uri("*"), "--against", "samples")
    assert code == 0
    assert out.startswith("3 tables: 1 exact, 1 behind, 1 unmatched")
    assert "adoption.yaml" in err
    assert not any(open_table(uri).history()[-1].recorded for uri in tables)
    proposal = (tmp_path / "adoption.yaml").read_text()
    assert "unmatched" in proposal
    # As it stands, it is what check and plan go by.
    assert run(capsys, "check", "--config", "adoption.yaml")[0] == 0
    (tmp_path / "adoption.yaml").rename(tmp_path / "lakeevolve.yaml")
    code, out, _ = run(capsys, "adopt", "--apply", "--format", "json")
    assert code == 0
    found = json.loads(out)
    jsonschema.validate(found, SCHEMAS["adopt"])
    assert [each["status"] for each in found["tables"]] == ["recorded"] * 2
    assert [open_table(uri).history()[-1].recorded for uri in tables] == [True, True, False]
    assert run(capsys, "adopt", "--apply")[1].startswith("2 tables: 2 managed")
    assert run(capsys, "plan", "--detailed-exitcode")[0] == 3


def test_tables_that_get_no_marker_make_the_exit_code_1(
    lake: Any, tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "adopt", lake.uri("*"), "--against", "samples", "--apply")
    assert code == 1
    assert "marker: left: unmatched" in out
    assert not Path("adoption.yaml").exists()


@pytest.mark.parametrize("format", ["markdown", "html"])
def test_other_formats_tell_each_table(
    lake: Any, tables: list[str], capsys: pytest.CaptureFixture[str], format: str
) -> None:
    _, out, _ = run(capsys, "adopt", lake.uri("*"), "--against", "samples", "--format", format)
    for kind in ("exact", "behind", "unmatched"):
        assert kind in out


WRONG = {
    "no table": (["--against", "samples"], "no table is named"),
    "no schemas": (["delta:lake/*"], "--against"),
    "no such schemas": (["delta:lake/*", "--against", "nowhere"], "nowhere"),
    "no format": (["lake/*", "--against", "samples"], "format's name"),
    "a store": (["delta:s3://b/*", "--against", "samples"], "object store"),
    "no catalog": (["iceberg:*", "--against", "samples"], "names no catalog"),
    "a day that is over": (["delta:x", "--against", "samples", "--until", "2020-01-31"], "is over"),
    "no day": (["delta:x", "--against", "samples", "--until", "soon"], "no day"),
    "both": (["delta:x", "--against", "samples", "--apply", "--out", "x.yaml"], "no proposal"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_says_what_to_do(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLES, tmp_path / "samples")
    args, said = WRONG[case]
    code, out, err = run(capsys, "adopt", *args)
    assert (code, out) == (2, "")
    assert said in err


def test_a_proposal_that_is_there_is_kept(tables: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("adoption.yaml").write_text("mine")
    code, _, err = run(capsys, "adopt", tables[0], "--against", "samples")
    assert code == 2
    assert "there already" in err
    assert Path("adoption.yaml").read_text() == "mine"


def test_what_the_project_declares_of_a_table_counts(
    lake: Any, tables: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    schema = le.load(SAMPLES / "orders" / "v6.avsc").to_json()
    schema["fields"].append({"name": "region", "type": "string"})
    uri = lake.create("d", le.load(schema))
    Path("one.avsc").write_text((SAMPLES / "orders" / "v6.avsc").read_text())
    config = {"version": 1, "subjects": {"orders": {"source": "one.avsc", "tables": [uri]}}}
    Path("lakeevolve.yaml").write_text(json.dumps(config))
    assert run(capsys, "adopt", "--apply")[0] == 1
    config["tables"] = {uri: {"foreign": ["region"]}}
    Path("lakeevolve.yaml").write_text(json.dumps(config))
    code, out, _ = run(capsys, "adopt", "--apply")
    assert code == 0, out
    assert open_table(uri).history()[-1].recorded
