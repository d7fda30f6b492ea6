"""The demo: its folder is its own, its samples are found, and its story ends with every replay equal."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from lakeevolve.__main__ import main
from lakeevolve.config.state import VARIABLE
from lakeevolve.demo import samples
from lakeevolve.demo.build import OWN, build, claim
from lakeevolve.demo.run import Demonstration, own_command, run
from lakeevolve.errors import ConfigError, SourceNotFound

ROWS = 150


def test_the_demo_takes_both_tables_in_both_formats_through_three_versions_with_every_replay_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # One test, so that no second worker runs the demo again.
    root, output, whole = tmp_path / "lake", io.StringIO(), samples.rows
    monkeypatch.setattr(samples, "rows", lambda table, version: whole(table, version).slice(0, ROWS))
    monkeypatch.delenv(VARIABLE, raising=False)
    done = run(root, Console(file=output, width=120))
    assert VARIABLE not in os.environ, "the demo leaves the environment as it was"

    _every_replay_is_equal(done)
    _plans_and_evidence_lie_where_the_demo_says(done, root, output.getvalue())
    _the_refused_change_and_the_forgotten_alias_are_told(output.getvalue())
    assert main(["show", str(root / "plans" / "customers-iceberg-v4.json")]) == 0
    _the_plan_reads_as_in_the_readme(capsys.readouterr().out.replace(str(root), "lakeevolve-demo"))
    state = f"LAKEEVOLVE_STATE={root / 'state'} "
    last = [line for line in output.getvalue().splitlines() if line.startswith("try: ")]
    assert last
    assert all(line.startswith(f"try: {state}") for line in last)
    monkeypatch.setenv(VARIABLE, str(root / "state"))
    assert main(["history", next(iter(done.replays))]) == 0
    assert "TABLE-LEDGER-MISSING" not in capsys.readouterr().out


def _every_replay_is_equal(done: Demonstration) -> None:
    steps = {(each.table.name, each.table.format, each.version) for each in done.outcomes}
    assert steps == {(t, f, v) for t in samples.TABLES for f in ("iceberg", "delta") for v in samples.EVOLVED}
    for each in done.outcomes:
        assert each.applied.version == each.version
        assert each.applied.replay is not None
        assert each.applied.replay.ok
        assert each.applied.replay.rows == 3 * ROWS
    assert set(done.replays) == {each.table.uri for each in done.outcomes}
    assert all(replay.ok and replay.rows == 3 * ROWS for replay in done.replays.values())
    assert done.ok
    assert {step.route for each in done.outcomes for step in each.plan.steps} == {"metadata", "backfill", "rewrite"}


def _plans_and_evidence_lie_where_the_demo_says(done: Demonstration, root: Path, output: str) -> None:
    assert f"plans: {root / 'plans'}" in output
    for each in done.outcomes:
        assert json.loads(each.saved.read_text(encoding="utf-8"))["digest"] == each.plan.digest
        assert each.applied.evidence is not None
        assert each.applied.evidence.is_file()
        assert root / "state" in each.applied.evidence.parents


def _the_refused_change_and_the_forgotten_alias_are_told(output: str) -> None:
    refused = output.index("A change that no mode allows")
    forgotten = output.index("A rename whose alias was forgotten")
    assert refused < forgotten
    assert "weight_kg" in output[refused:forgotten]
    assert "warehouse" in output[refused:forgotten]
    assert '"aliases": ["zip"]' in output[forgotten:]


def _the_plan_reads_as_in_the_readme(shown: str) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    (kept,) = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)

    def without_counts(text: str) -> str:
        # Here the tables are smaller than in the whole demo, and a digest changes with every release.
        text = re.sub(r"plan [0-9a-f]{12}", "plan DIGEST", text)
        return re.sub(r"[\d,]+ (files?|rows?), [\d,]+ rows?, [\d.]+ [KM]iB", "COST", text)

    assert without_counts(shown) == without_counts(kept)


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_command_says_in_three_lines_that_a_folder_is_not_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["demo", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) <= 3
    assert "not empty" in captured.err


def test_an_address_of_a_store_is_refused_without_its_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "s3://KEY:hunter2@bucket/demo"]) == 2
    assert "hunter2" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine")
    with pytest.raises(ConfigError, match="this is a file"):
        claim(tmp_path / "demo")


def test_an_earlier_demo_is_replaced_and_what_others_put_there_stays(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    claim(root)
    (root / "delta" / "orders").mkdir(parents=True)
    (root / "notes.txt").write_text("mine")
    claim(root)
    assert not (root / "delta").exists()
    assert (root / "notes.txt").read_text() == "mine"
    assert (root / OWN).is_file()
    assert (root / "schemas" / "orders" / "v6.avsc").is_file()


def test_an_unwritable_folder_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        claim(tmp_path / "file" / "demo")


def test_samples_are_found_in_a_checkout_and_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples.resources, "files", lambda _package: tmp_path)
    assert (samples.folder() / "orders" / "v1.avsc").is_file()
    (tmp_path / "sample_tables").mkdir()
    assert samples.folder() == tmp_path / "sample_tables"


def test_missing_samples_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples.resources, "files", lambda _package: tmp_path / "nowhere")
    monkeypatch.setattr(samples, "__file__", str(tmp_path / "a" / "b" / "samples.py"))
    with pytest.raises(SourceNotFound, match="missing"):
        samples.folder()


def test_sample_rows_are_arrow_tables() -> None:
    assert isinstance(samples.rows("customers", 3), pa.Table)


def test_the_last_line_is_a_command_that_works_from_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ".venv" / "bin" / "lakeevolve"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert own_command() == ".venv/bin/lakeevolve"
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command() == "lakeevolve"
    monkeypatch.setattr("sys.argv", ["/somewhere/lakeevolve/__main__.py"])
    monkeypatch.setattr("sys.executable", str(tmp_path / "python 3"))
    assert own_command() == "'python 3' -m lakeevolve"
