"""What tests of several rooms share: rows that are valid for a schema, and tables of both formats."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib
import random
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    branch_names,
    is_null,
)
from tests.sparkling import spark as spark

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Lake:
    """One table format, as far as a test needs it: where a table goes, how it is made and appended to."""

    format: str
    folder: Path

    def uri(self, name: str) -> str:
        if self.format == "iceberg":
            return f"iceberg:{self.folder / 'lake'}/shop.{name}"
        return f"delta:{self.folder / 'lake' / name}"

    def create(self, name: str, schema: Schema, data: pa.Table | None = None, *, mark: bool = False) -> str:
        uri = self.uri(name)
        importlib.import_module(f"lakeevolve.tables.{self.format}").create_table(uri, schema, mark=mark)
        if data is not None:
            self.append(uri, data)
        return uri

    def append(self, uri: str, data: pa.Table) -> None:
        importlib.import_module(f"lakeevolve.tables.{self.format}").append(uri, data)

    def add_column(self, uri: str, name: str) -> None:
        """Add a text column as another tool would, that knows nothing of markers."""
        if self.format == "delta":
            import deltalake

            kind = deltalake.schema.PrimitiveType("string")
            found = deltalake.DeltaTable(uri.removeprefix("delta:"))
            found.alter.add_columns(deltalake.Field(name, kind, nullable=True))
            return
        from pyiceberg.types import StringType

        from lakeevolve.tables import iceberg

        with iceberg.open_table(uri).iceberg.update_schema() as update:
            update.add_column(name, StringType())


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """An empty lake of each format; the state folder lies beside it."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    return Lake(request.param, tmp_path)


@pytest.fixture
def rows() -> Callable[[Schema, int, int], pa.Table]:
    """A function that makes rows which are valid for a schema: ``rows(schema, count, seed)``."""
    return make_rows


def make_rows(schema: Schema, count: int, seed: int) -> pa.Table:
    """*count* rows in the canonical Arrow layout: nulls, empty and long containers, every symbol and branch."""
    dice = random.Random(seed)
    made = [_value(schema.root, dice) for _ in range(count)]
    return pa.Table.from_pylist(made, schema=arrow_schema(schema))


def _value(type_: AvroType, dice: random.Random) -> Any:
    match type_:
        case Union():
            return _union(type_, dice)
        case Record():
            return {field.name: _value(field.type, dice) for field in type_.fields}
        case Array():
            return [_value(type_.items, dice) for _ in range(dice.choice((0, 1, 2, 3)))]
        case Map():
            return [(f"k{n}", _value(type_.values, dice)) for n in range(dice.choice((0, 1, 2)))]
        case Enum():
            return dice.choice(type_.symbols)
        case Fixed():
            return _fixed(type_, dice)
        case Primitive():
            return _primitive(type_, dice)
    raise AssertionError(type_)


def _union(union: Union, dice: random.Random) -> Any:
    if union.nullable and dice.random() < 0.3:
        return None
    values = union.values
    if len(values) == 1:
        return _value(values[0], dice) if not is_null(values[0]) else None
    chosen = dice.randrange(len(values))
    return {name: _value(values[chosen], dice) for name in (branch_names(union)[chosen],)}


def _fixed(type_: Fixed, dice: random.Random) -> Any:
    if type_.logical is not None and type_.logical.name == "decimal":
        return _decimal(type_.logical.precision or 1, type_.logical.scale or 0, dice)
    return dice.randbytes(type_.size)


def _decimal(precision: int, scale: int, dice: random.Random) -> decimal.Decimal:
    digits = dice.randrange(10 ** min(precision, 9))
    return decimal.Decimal(digits * dice.choice((1, -1))).scaleb(-scale)


def _primitive(type_: Primitive, dice: random.Random) -> Any:
    logical = "" if type_.logical is None else type_.logical.name
    match logical:
        case "date":
            return dt.date(2020, 1, 1) + dt.timedelta(days=dice.randrange(2000))
        case "time-millis" | "time-micros":
            return dt.time(dice.randrange(24), dice.randrange(60), dice.randrange(60))
        case "timestamp-millis" | "timestamp-micros":
            return _EPOCH + dt.timedelta(seconds=dice.randrange(2_000_000_000))
        case "local-timestamp-millis" | "local-timestamp-micros":
            return dt.datetime(2020, 1, 1) + dt.timedelta(seconds=dice.randrange(100_000_000))
        case "decimal":
            assert type_.logical is not None
            return _decimal(type_.logical.precision or 1, type_.logical.scale or 0, dice)
        case "uuid":
            return str(uuid.UUID(int=dice.getrandbits(128)))
    match type_.name:
        case "boolean":
            return dice.random() < 0.5
        case "int":
            return dice.choice((0, -1, 2**31 - 1, -(2**31), dice.randrange(1000)))
        case "long":
            return dice.choice((0, 2**53 + 1, -(2**63), dice.randrange(10**12)))
        case "float" | "double":
            return dice.choice((0.0, -0.0, 1.5, float("nan"), dice.uniform(-1e6, 1e6)))
        case "bytes":
            return dice.randbytes(dice.randrange(4))
        case "string":
            return dice.choice(("", "é", "日本", f"text {dice.randrange(1000)}"))
    raise AssertionError(type_)


@pytest.fixture
def race() -> Callable[..., list[str]]:
    """A function that runs a script in several processes at once, one for each list of arguments, and returns what each
    prints. A script begins by reading a line, so that all have started when the first goes on."""

    def run(script: str, *arguments: list[str]) -> list[str]:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", script, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for given in arguments
        ]
        for each in started:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        return [each.communicate(timeout=60)[0] for each in started]

    return run
