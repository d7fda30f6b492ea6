"""What delta-rs cannot change on a table with column mapping is said as Spark SQL, with every name quoted."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

import lakeevolve as le
from lakeevolve.errors import PlanBlocked
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Field, Primitive, Record
from lakeevolve.tables import delta

from .conftest import by_key, field, inner, of, plain, record

ENUM = {"type": "enum", "name": "State", "symbols": ["NEW", "LOST"], "default": "NEW"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


X, NEW = field("x", "int"), field("y", ["null", "int"], default=None)

#: name -> (before, after, the statements without "ALTER TABLE t ")
CASES: dict[str, tuple[Schema, Schema, list[str | None]]] = {
    "an optional field": (
        plain(),
        plain(field("n", ["null", "int"], default=None)),
        ["ADD COLUMNS (`n` INT AFTER `id`)"],
    ),
    "a field in front": (
        plain(),
        record(field("n", ["null", "string"], default=None, doc="it's"), field("id", "long")),
        ["ADD COLUMNS (`n` STRING COMMENT 'it\\'s')"],
    ),
    "a field with a default": (
        plain(),
        plain(field("n", DECIMAL, default="\u0001")),
        ["ADD COLUMNS (`n` DECIMAL(9, 2) AFTER `id`); UPDATE t SET `n` = CAST('0.01' AS DECIMAL(9, 2))"],
    ),
    "an instant": (
        plain(),
        plain(field("n", {"type": "long", "logicalType": "timestamp-micros"}, default=1)),
        ["ADD COLUMNS (`n` TIMESTAMP AFTER `id`); UPDATE t SET `n` = TIMESTAMP'1970-01-01 00:00:00.000001+00:00'"],
    ),
    "a struct": (
        plain(),
        plain(field("n", ["null", inner(X, field("l", of("string")), field("m", by_key("double")))], default=None)),
        ["ADD COLUMNS (`n` STRUCT<`x`: INT, `l`: ARRAY<STRING>, `m`: MAP<STRING, DOUBLE>> AFTER `id`)"],
    ),
    "a field in a list of structs": (
        plain(field("l", of(inner(X)))),
        plain(field("l", of(inner(X, NEW)))),
        ["ADD COLUMNS (`l`.element.`y` INT AFTER `x`)"],
    ),
    "a field in a map of structs": (
        plain(field("m", by_key(inner(X)))),
        plain(field("m", by_key(inner(X, NEW)))),
        ["ADD COLUMNS (`m`.value.`y` INT AFTER `x`)"],
    ),
    "a default in a struct": (
        plain(field("s", inner(X))),
        plain(field("s", inner(X, field("y", "int", default=1)))),
        [None],
    ),
    "a drop": (plain(X), plain(), ["DROP COLUMN `x`"]),
    "a nested drop": (plain(field("s", inner(X, NEW))), plain(field("s", inner(X))), ["DROP COLUMN `s`.`y`"]),
    "a rename": (plain(X), plain(field("z", "int", aliases=["x"])), ["RENAME COLUMN `x` TO `z`"]),
    "a nested rename": (
        plain(field("s", inner(X))),
        plain(field("s", inner(field("z", "int", aliases=["x"])))),
        ["RENAME COLUMN `s`.`x` TO `z`"],
    ),
    "a swap": (
        plain(X, field("y", "string")),
        plain(field("y", "int", aliases=["x"]), field("x", "string", aliases=["y"])),
        [None, None],
    ),
    "a promotion": (
        plain(X),
        plain(field("x", "long")),
        [
            "ADD COLUMNS (`x__new` BIGINT AFTER `x`); UPDATE t SET `x__new` = CAST(`x` AS BIGINT); "
            "ALTER TABLE t DROP COLUMN `x`; ALTER TABLE t RENAME COLUMN `x__new` TO `x`"
        ],
    ),
    "a nested promotion": (plain(field("l", of("int"))), plain(field("l", of("long"))), [None]),
    "nested NOT NULL goes": (
        plain(field("s", inner(X))),
        plain(field("s", inner(field("x", ["null", "int"])))),
        ["ALTER COLUMN `s`.`x` DROP NOT NULL"],
    ),
    "a branch": (
        plain(field("u", ["int", "string"])),
        plain(field("u", ["int", "string", inner(X)])),
        ["ADD COLUMNS (`u`.`Inner` STRUCT<`x`: INT>)"],
    ),
    "a branch that is renamed": (
        plain(field("u", ["int", inner(X)])),
        plain(field("u", ["int", inner(X, name="Other", aliases=["Inner"])])),
        ["RENAME COLUMN `u`.`Inner` TO `Other`"],
    ),
}


def mapped(tmp_path: Path, schema: Schema) -> delta.Table:
    uri = f"delta:{tmp_path / 'it`s here'}"
    return delta.create_table(uri, schema, mark=True, configuration={"delta.columnMapping.mode": "name"})


@pytest.mark.parametrize("case", CASES)
def test_a_change_under_column_mapping_is_said_in_spark_sql(case: str, tmp_path: Path) -> None:
    before, after, expected = CASES[case]
    table = mapped(tmp_path, before)
    name = f"delta.`{tmp_path}/it``s here`"
    found = diff(before, after)
    routed = [table.capability(c, before, after, {}, found.renames) for c in found.changes]
    external = [can for can in routed if can.route == "external"]
    said = [can.via.removeprefix("Spark SQL").removeprefix(": ") or None for can in external]
    wanted = [text and f"ALTER TABLE t {text}".replace(" t ", f" {name} ") for text in expected]
    assert said == wanted
    assert all("#930" in can.reason for can in external)
    assert {can.route for can in routed} <= {"external", "metadata"}


def test_a_symbol_that_goes_is_an_update(tmp_path: Path) -> None:
    from lakeevolve.tables.base import Capability
    from lakeevolve.tables.delta.spark import statements

    before, after = plain(field("e", ENUM)), plain(field("e", {**ENUM, "symbols": ["NEW"]}))
    (change,) = diff(before, after).changes
    found = Capability("rewrite", "overwrite in one commit", "")
    assert statements(change, found, before, after, "t") == "UPDATE t SET `e` = 'NEW' WHERE `e` = 'LOST'"
    asks = Capability("metadata", "marker", "", precondition="symbol-unused")
    assert statements(change, asks, before, after, "t") is None


def test_a_name_that_needs_it_is_quoted(tmp_path: Path) -> None:
    base = Schema(Record("R", (Field("id", Primitive("long")), Field("a.b`c d", Primitive("int")))))
    target = Schema(Record("R", (Field("id", Primitive("long")),)))
    table = mapped(tmp_path, plain())
    (change,) = diff(base, target).changes
    found = table.capability(change, base, target, {})
    assert found.via.endswith("DROP COLUMN `a.b``c d`")


def test_a_plan_with_such_a_step_shows_it_and_is_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    table = mapped(tmp_path, plain(X))
    plan = le.plan(table.uri, plain(field("z", "int", aliases=["x"])), mode="NONE")
    assert "RENAME COLUMN `x` TO `z`" in plan.steps[0].via
    # Whoever reads the plan in whatever form reads the statement.
    assert "RENAME COLUMN `x` TO `z`" in plan.steps[0].reason
    version = DeltaTable(tmp_path / "it`s here").version()
    with pytest.raises(PlanBlocked):
        le.apply(plan, allow=("rewrite", "drop"))
    assert DeltaTable(tmp_path / "it`s here").version() == version
