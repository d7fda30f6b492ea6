"""A table's life against a model of plain Python lists: whatever happens in whatever order, rows and schema agree."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lakeevolve as le

ALL = ("rewrite", "backfill", "drop")
WIDER = {"int": "long", "long": "double"}
Field = dict[str, Any]
Row = dict[str, Any]


def schema_of(fields: list[Field]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": fields}


def field(name: str, type_: Any, **more: Any) -> Field:
    return {"name": name, "type": type_, **more}


def optional(name: str, type_: str) -> Field:
    return field(name, ["null", type_], default=None)


def plain(each: Field) -> str:
    type_ = each["type"]
    return str(type_[1] if isinstance(type_, list) else type_)


class Life(RuleBasedStateMachine):
    """The rules; ``format`` is set by the subclasses."""

    format = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.module = import_module(f"lakeevolve.tables.{self.format}")
        self.uri = f"iceberg:{self.folder}/shop.t" if self.format == "iceberg" else f"delta:{self.folder}/t"
        self.before = os.environ.get("LAKEEVOLVE_STATE")
        os.environ["LAKEEVOLVE_STATE"] = str(self.folder / "state")
        self.fields: list[Field] = [field("id", "long"), field("n", "int"), optional("s", "string")]
        self.rows: list[Row] = []
        self.ids = 0
        self.names = 0
        #: Per version: fields, rows when it was last in force, and the plan that led to it.
        self.past: list[tuple[list[Field], list[Row], Any]] = []

    def teardown(self) -> None:
        try:
            if self.past:
                assert le.verify(self.uri, full=True, columns="all").ok
        finally:
            if self.before is None:
                os.environ.pop("LAKEEVOLVE_STATE", None)
            else:
                os.environ["LAKEEVOLVE_STATE"] = self.before
            shutil.rmtree(self.folder, ignore_errors=True)

    @initialize(mark=st.booleans())
    def create(self, mark: bool) -> None:
        self.module.create_table(self.uri, le.load(schema_of(self.fields)), mark=mark)
        self.past = [(copy.deepcopy(self.fields), [], None)]
        self.append(2)
        if not mark:
            le.apply(le.plan(self.uri, schema_of(self.fields)))

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        made = []
        for _ in range(count):
            self.ids += 1
            made.append({each["name"]: self._value(each) for each in self.fields})
        self.module.append(self.uri, pa.Table.from_pylist(made, schema=le.arrow_schema(schema_of(self.fields))))
        self.rows += made

    def _value(self, each: Field) -> Any:
        if each["name"] == "id":
            return self.ids
        if isinstance(each["type"], list) and self.ids % 3 == 0:
            return None
        return {"int": self.ids, "long": self.ids, "double": float(self.ids), "string": f"r{self.ids}"}[plain(each)]

    # Plans

    def _apply(self, fields: list[Field], change: Callable[[Row], Row]) -> None:
        plan = le.plan(self.uri, schema_of(fields), mode="NONE")
        assert plan.applicable, [f.message for f in plan.failures] + [s.reason for s in plan.refused]
        done = le.apply(plan, allow=ALL)
        assert done.ok
        assert le.apply(plan, allow=ALL).status == "already-applied"
        self._next(fields, [change(row) for row in self.rows], plan)

    def _next(self, fields: list[Field], rows: list[Row], plan: Any) -> None:
        self.past[-1] = (self.fields, copy.deepcopy(self.rows), self.past[-1][2])
        # Once it is made, a rename has no place in the next schema that the model plans towards.
        self.fields = [{key: value for key, value in each.items() if key != "aliases"} for each in fields]
        self.rows = rows
        self.past.append((self.fields, [], plan))

    def _new_name(self) -> str:
        self.names += 1
        return f"f{self.names}"

    @precondition(lambda self: len(self.fields) < 6)
    @rule(null=st.booleans())
    def add(self, null: bool) -> None:
        name = self._new_name()
        made = optional(name, "long") if null else field(name, "string", default="EUR")
        fill = None if null else "EUR"
        self._apply([*self.fields, made], lambda row: {**row, name: fill})

    @precondition(lambda self: len(self.fields) > 2)
    @rule()
    def drop(self) -> None:
        gone = self.fields[-1]["name"]
        self._apply(self.fields[:-1], lambda row: {key: value for key, value in row.items() if key != gone})

    @rule(data=st.data())
    def rename(self, data: Any) -> None:
        at = data.draw(st.integers(1, len(self.fields) - 1))
        old, new = self.fields[at]["name"], self._new_name()
        fields = [{**each, "name": new, "aliases": [old]} if n == at else each for n, each in enumerate(self.fields)]
        self._apply(fields, lambda row: {new if key == old else key: value for key, value in row.items()})

    @precondition(lambda self: any(plain(each) in WIDER and each["name"] != "id" for each in self.fields))
    @rule()
    def promote(self) -> None:
        at = next(n for n, each in enumerate(self.fields) if plain(each) in WIDER and each["name"] != "id")
        name, wider = self.fields[at]["name"], WIDER[plain(self.fields[at])]
        made = {**self.fields[at], "type": ["null", wider] if isinstance(self.fields[at]["type"], list) else wider}
        fields = [made if n == at else each for n, each in enumerate(self.fields)]

        def change(row: Row) -> Row:
            value = row[name]
            return {**row, name: float(value) if wider == "double" and value is not None else value}

        self._apply(fields, change)

    @rule()
    def two_plans_from_one_base(self) -> None:
        first, second = optional(self._new_name(), "int"), optional(self._new_name(), "string")
        late = le.plan(self.uri, schema_of([*self.fields, second]), mode="NONE")
        self._apply([*self.fields, first], lambda row: {**row, first["name"]: None})
        with pytest.raises(le.errors.StalePlan):
            le.apply(late, allow=ALL)
        again = le.rebase(late)
        assert le.apply(again, allow=ALL).ok
        fields = [*self.fields, second]
        self._next(fields, [{**row, second["name"]: None} for row in self.rows], again)

    # Back

    @precondition(lambda self: len(self.past) > 1)
    @rule(data=st.data())
    def rollback(self, data: Any) -> None:
        to = data.draw(st.integers(1, len(self.past) - 1))
        fields, rows, _ = self.past[to - 1]
        done = le.rollback(self.uri, to, allow={"lose-rows"})
        assert done.ok
        if done.status == "nothing-to-do":
            return
        assert done.version == len(self.past) + 1
        self._next(copy.deepcopy(fields), copy.deepcopy(rows), None)

    @precondition(lambda self: self.past and self.past[-1][2] is not None and len(self.past) > 1)
    @rule()
    def revert(self) -> None:
        fields, plan = self.past[-2][0], self.past[-1][2]
        undo = le.revert(plan)
        assert undo.applicable, [f.message for f in undo.failures] + [s.reason for s in undo.refused]
        assert le.apply(undo, allow=ALL).ok
        back = dict(plan.renames)
        rows = []
        for row in self.rows:
            kept = {back.get(key, key): value for key, value in row.items()}
            rows.append({each["name"]: self._narrow(each, kept.get(each["name"])) for each in fields})
        now = {each["name"] for each in self.fields}
        for each in fields:
            came_back = each["name"] not in now and each["name"] not in back.values()
            if came_back and "default" in each and each["default"] is not None:
                rows = [{**row, each["name"]: each["default"]} for row in rows]
        self._next(copy.deepcopy(fields), rows, undo)

    def _narrow(self, each: Field, value: Any) -> Any:
        return int(value) if isinstance(value, float) and plain(each) in ("int", "long") else value

    @invariant()
    def the_table_reads_as_the_model_says(self) -> None:
        if not self.past:
            return
        live = le.open_table(self.uri)
        read = [row for batch in live.read() for row in batch.to_pylist()]
        one, other = (sorted(json.dumps(row, sort_keys=True) for row in rows) for rows in (read, self.rows))
        assert one == other
        assert {each.name for each in live.schema.fields} == {each["name"] for each in self.fields}
        assert len(live.history()) == len(self.past)


class IcebergLife(Life):
    format = "iceberg"


class DeltaLife(Life):
    format = "delta"


@pytest.mark.parametrize("life", [IcebergLife, DeltaLife])
def test_the_life_of_a_table_is_that_of_the_model(life: type[Life]) -> None:
    how = settings(
        max_examples=4,
        stateful_step_count=7,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    run_state_machine_as_test(life, settings=how)


@pytest.mark.long
@pytest.mark.parametrize("life", [IcebergLife, DeltaLife])
def test_a_long_life_of_a_table_is_that_of_the_model(life: type[Life]) -> None:
    how = settings(
        max_examples=60,
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(life, settings=how)
