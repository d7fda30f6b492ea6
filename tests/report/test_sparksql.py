"""A plan's external steps as a file of Spark SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.report.sparksql import spark_sql
from lakeevolve.tables import delta
from tests.tables.shapes import f, row

OLD = row(f("v", "int"), f("w", "string"), f("gone", ["null", "int"], default=None))
NEW = row(f("v", "int"), f("label", "string", aliases=["w"]), f("n", ["null", "long"], default=None, doc="a; b"))


@pytest.fixture
def mapped(tmp_path: Path) -> str:
    uri = f"delta:{tmp_path / 'orders'}"
    delta.create_table(uri, le.load(OLD), mark=True, configuration={"delta.columnMapping.mode": "name"})
    return uri


def test_external_steps_are_statements_in_their_order(mapped: str, tmp_path: Path) -> None:
    plan = le.plan(mapped, NEW, mode="NONE")
    assert {step.route for step in plan.steps} >= {"external"}
    text = spark_sql(plan)
    table = f"delta.`{tmp_path / 'orders'}`"
    said = [line for line in text.splitlines() if line and not line.startswith("--")]
    assert set(said) == {
        f"ALTER TABLE {table} RENAME COLUMN `w` TO `label`;",
        f"ALTER TABLE {table} ADD COLUMNS (`n` BIGINT COMMENT 'a; b' AFTER `v`);",
        f"ALTER TABLE {table} DROP COLUMN `gone`;",
    }
    order = [step.via for step in plan.steps if step.route == "external"]
    assert said == [f"{via.removeprefix('Spark SQL: ')};" for via in order]
    assert plan.digest[:12] in text.splitlines()[0]


def test_a_plan_that_apply_can_run_says_so(lake: Any) -> None:
    uri = lake.create("t", le.load(OLD), mark=True)
    text = spark_sql(le.plan(uri, row(*OLD["fields"][1:], f("x", ["null", "int"], default=None))))
    assert "lakeevolve apply runs every step" in text
    assert all(line.startswith("--") or not line for line in text.splitlines())


def test_the_commands_print_it_instead_of_the_plan(
    mapped: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, saved = tmp_path / "new.avsc", str(tmp_path / "plan.json")
    target.write_text(json.dumps(NEW))
    main(["plan", mapped, str(target), "--mode", "NONE", "--emit", "spark-sql", "--out", saved])
    printed = capsys.readouterr().out
    assert "RENAME COLUMN `w` TO `label`;" in printed
    assert main(["show", saved, "--emit", "spark-sql"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["plan", mapped, str(target), "--emit", "trino"]) == 2


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_runs_it_and_the_next_plan_has_only_the_version_to_record(mapped: str, spark: Any) -> None:
    folder = mapped.removeprefix("delta:")
    spark.table(spark.session.sql("SELECT 1"))
    columns = "CAST(1 AS BIGINT), CAST(7 AS INT), 'a', CAST(NULL AS INT)"
    spark.session.sql(f"INSERT INTO delta.`{folder}` SELECT {columns}")
    for statement in spark_sql(le.plan(mapped, NEW, mode="NONE")).splitlines():
        if statement and not statement.startswith("--"):
            spark.session.sql(statement.rstrip(";"))
    again = le.plan(mapped, NEW, mode="NONE")
    assert not [step for step in again.steps if step.route == "external"]
    assert le.apply(again).ok
    assert spark.rows(spark.delta(folder)) == [{"id": 1, "v": 7, "label": "a", "n": None}]
    found = le.verify(mapped, NEW)
    assert found.ok, [str(m) for m in found.mismatches]
