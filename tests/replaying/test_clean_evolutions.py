"""Nothing is said of tables that are right, whatever became of them: random schemas, rows and evolutions on disk.

A few of each run by default. Many:
``LAKEEVOLVE_EXAMPLES=1000 python -m pytest tests/replaying/test_clean_evolutions.py``.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Array, AvroType, Map, Primitive, Record, Union, branch_names, without_null
from lakeevolve.testing import evolutions, rows

EXAMPLES = int(os.environ.get("LAKEEVOLVE_EXAMPLES", "0"))


def many(short: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=EXAMPLES or short,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Folder:
    """A fresh table of one format in a folder of its own."""

    def __init__(self, format_: str, schema: Schema, mark: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        try:
            self._create(format_, schema, mark)
        except LakeEvolveError:
            self.folder.cleanup()
            raise

    def _create(self, format_: str, schema: Schema, mark: bool) -> None:
        place = Path(self.folder.name)
        os.environ["LAKEEVOLVE_STATE"] = str(place / "state")
        if format_ == "iceberg":
            from lakeevolve.tables import iceberg

            self.uri = f"iceberg:{place / 'lake'}/shop.orders"
            iceberg.create_table(self.uri, schema, mark=mark)
            self.append: Callable[[str, pa.Table], Any] = iceberg.append
        else:
            from lakeevolve.tables.delta import create

            self.uri = f"delta:{place / 'orders'}"
            create.create_table(self.uri, schema, mark=mark)
            self.append = create.append

    def add(self, schema: Schema, values: Sequence[Mapping[str, Any]]) -> None:
        if values:
            self.append(self.uri, pa.Table.from_pylist(list(values), schema=arrow_schema(schema, strict=False)))


def judged(folder: Folder, seen: str) -> None:
    for more in ({"columns": "all"}, {"full": True}):
        result = le.verify(folder.uri, **more)  # type: ignore[arg-type]
        assert result.ok, (seen, [str(m) for m in result.mismatches])


# --- any schema that a table can hold

SPICE: Mapping[str, Sequence[Any]] = {
    "float": (
        math.nan,
        -0.0,
        0.0,
        math.inf,
        -math.inf,
        3.4028234663852886e38,
        1.401298464324817e-45,
        0.699999988079071,
    ),
    "double": (math.nan, -0.0, 0.0, math.inf, -math.inf, 1.7976931348623157e308, 5e-324, 0.7, 0.1),
    "int": (0, -1, 2**31 - 1, -(2**31)),
    "long": (0, -1, 2**63 - 1, -(2**63), 2**31, 2**53 + 1),
    "string": ("", "\x00", "a" * 70, "\U0010ffff" * 40, "é", "e\u0301"),
    "bytes": (b"", b"\x00", b"\xff" * 40),
}


def spiced(draw: Any, type_: AvroType, value: Any) -> Any:
    """The value with some of its leaves replaced by extreme ones."""
    bare = without_null(type_)
    if value is None:
        return None
    match bare:
        case Union():
            types = dict(zip(branch_names(bare), bare.values, strict=True))
            return {name: spiced(draw, types[name], each) for name, each in value.items()}
        case Record():
            return {f.name: spiced(draw, f.type, value[f.name]) for f in bare.fields}
        case Array():
            return [spiced(draw, bare.items, each) for each in value]
        case Map():
            return [(key, spiced(draw, bare.values, each)) for key, each in value]
        case Primitive() if bare.logical is None and bare.name in SPICE and draw(st.integers(0, 2)) == 0:
            return draw(st.sampled_from(SPICE[bare.name]))
    return value


def some_rows(draw: Any, schema: Schema, least: int = 0) -> list[dict[str, Any]]:
    made = draw(st.lists(rows(schema), min_size=least, max_size=4))
    return [spiced(draw, schema.record, row) for row in made]


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each table sets its own; what was there comes back afterwards.
    monkeypatch.setenv("LAKEEVOLVE_STATE", "")


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@many(8)
@given(st.data())
def test_nothing_is_said_of_a_random_evolution(format_: str, data: Any) -> None:
    old, new = data.draw(evolutions(tables=True, compatible=True))
    try:
        folder = Folder(format_, old, data.draw(st.booleans()))
    except LakeEvolveError:
        # A type that the format has not.
        return
    with folder.folder:
        folder.add(old, some_rows(data.draw, old, 1))
        folder.add(old, some_rows(data.draw, old))
        judged(folder, "before")
        plan = le.plan(folder.uri, new, mode="NONE", old_rows=data.draw(st.sampled_from(["default", "null"])))
        if plan.refused or plan.failures:
            return
        done = le.apply(plan, allow=plan.permits)
        assert done.replay is None or done.replay.ok, [str(m) for m in done.replay.mismatches]
        newest = le.open_table(folder.uri).schema
        folder.add(newest, some_rows(data.draw, newest))
        judged(folder, "after")


# --- every leaf type and promotion, over several versions

LEAVES: Mapping[str, tuple[Any, Sequence[Any]]] = {
    "int": ("int", SPICE["int"]),
    "long": ("long", SPICE["long"]),
    "float": ("float", SPICE["float"]),
    "double": ("double", SPICE["double"]),
    "string": ("string", SPICE["string"]),
    "bytes": ("bytes", SPICE["bytes"]),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        (Decimal("0.00"), Decimal("-9999999.99"), Decimal("9999999.99"), Decimal("0.01")),
    ),
    "date": ({"type": "int", "logicalType": "date"}, (date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1))),
    "at": (
        {"type": "long", "logicalType": "timestamp-micros"},
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, (datetime(1969, 12, 31, 23, 59, 59, 999999),)),
    "clock": ({"type": "long", "logicalType": "time-micros"}, (time(0), time(23, 59, 59, 999999))),
    "flag": ("boolean", (True, False)),
}
PROMOTED = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@many(8)
@given(st.data())
def test_nothing_is_said_of_leaves_of_every_type_over_several_versions(format_: str, data: Any) -> None:
    draw = data.draw
    held = {f"c{i}": draw(st.sampled_from(sorted(LEAVES))) for i in range(draw(st.integers(1, 4)))}
    nested = draw(st.booleans())

    def schema(aliases: Mapping[str, str]) -> Schema:
        fields = [
            {"name": name, "type": ["null", LEAVES[kind][0]], "default": None}
            | ({"aliases": [aliases[name]]} if name in aliases else {})
            for name, kind in held.items()
        ]
        inner = {"type": "record", "name": "Inner", "fields": fields}
        whole = [{"name": "id", "type": "long"}]
        whole += [{"name": "s", "type": ["null", inner], "default": None}] if nested else fields  # type: ignore[list-item]
        return le.load(json.dumps({"type": "record", "name": "Order", "fields": whole}))

    count = 0

    def fill(folder: Folder, of: Schema) -> None:
        nonlocal count
        for _ in range(draw(st.integers(0, 2))):
            made = []
            for _ in range(draw(st.integers(1, 5))):
                row = {n: draw(st.none() | st.sampled_from(LEAVES[k][1])) for n, k in held.items()}
                made.append({"id": count, **({"s": row if draw(st.integers(0, 3)) else None} if nested else row)})
                count += 1
            folder.add(of, made)

    folder = Folder(format_, schema({}), draw(st.booleans()))
    with folder.folder:
        fill(folder, schema({}))
        for version in range(draw(st.integers(1, 3))):
            aliases: dict[str, str] = {}
            for name, kind in list(held.items()):
                match draw(st.sampled_from(["keep", "promote", "rename", "drop", "add"])):
                    case "promote" if kind in PROMOTED:
                        held[name] = draw(st.sampled_from(PROMOTED[kind]))
                    case "rename":
                        del held[name]
                        held[f"{name}r{version}"] = kind
                        aliases[f"{name}r{version}"] = name
                    case "drop" if len(held) > 1:
                        del held[name]
                    case "add":
                        held[f"{name}a{version}"] = draw(st.sampled_from(sorted(LEAVES)))
            plan = le.plan(folder.uri, schema(aliases), mode="NONE")
            if plan.refused or plan.failures:
                # What the format has no room for, and what looks like a rename.
                break
            done = le.apply(plan, allow=plan.permits)
            assert done.ok, [str(m) for m in done.replay.mismatches] if done.replay else None
            fill(folder, schema({}))
        judged(folder, "after")
