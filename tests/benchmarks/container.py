"""Reading Avro container files with an evolved reader schema beside fastavro and the bare columnar decoder."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import polars_avro
import pyarrow as pa

from lakeevolve.avro.container import read_avro
from lakeevolve.avro.parse import parse
from tests.benchmarks import Figure, ratio, seconds, side_by_side

ROWS = 100_000
_UTC = dt.UTC
_FIXED = {"type": "fixed", "name": "Fixed8", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2}
_BYTES = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
_WRITER = {
    "id": "long",
    "customer": "string",
    "quantity": "int",
    "price": "float",
    "amount": "double",
    "paid": "boolean",
    "state": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT", "LOST"], "default": "NEW"},
    "note": ["null", "string"],
    "discount": ["null", "double"],
    "placed": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "legacy": ["null", "long"],
}


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        return [*_orders(Path(folder)), *_decimals(Path(folder))]


def _orders(folder: Path) -> Iterator[Figure]:
    """Twelve fields: two promoted, one renamed, one symbol taken away, one field dropped and one added."""
    reader = {
        **_WRITER,
        "quantity": "long",
        "price": "double",
        "state": {**_WRITER["state"], "symbols": ["NEW", "PAID", "SENT"]},
    }
    del reader["legacy"], reader["customer"]
    evolved = _record(
        reader,
        {"name": "client", "type": "string", "aliases": ["customer"]},
        {"name": "currency", "type": "string", "default": "EUR"},
    )
    schema = parse(evolved)
    for codec in ("null", "deflate"):
        path = str(folder / f"orders-{codec}.avro")
        _write(path, _record(_WRITER), _order, codec)

        def rows(path: str = path) -> pa.Table:
            with open(path, "rb") as file:
                return pa.Table.from_pylist(list(fastavro.reader(file, reader_schema=evolved)))

        theirs = side_by_side({"fastavro": rows}, repeats=3)["fastavro"].best
        times = side_by_side(
            {
                "ours": lambda path=path: read_avro(path, schema).read_all(),
                "bare": lambda path=path: polars_avro.read_avro(path),
            },
            repeats=9,
        )
        ours, bare = times["ours"].best, times["bare"].best
        name = f"read_avro, evolved reader, codec {codec}"
        yield ratio(name, ours, theirs, "x fastavro", at_least=25)
        yield _beside(name, ours, bare)


def _decimals(folder: Path) -> Iterator[Figure]:
    """Files of which most fields are decimals, of bytes and of fixed, as they stand."""
    fields = {"id": "long", **{f"amount_{at}": _BYTES for at in range(3)}, "fixed_0": _FIXED, "fixed_1": "Fixed8"}
    path = str(folder / "decimals.avro")
    _write(path, _record(fields), _amounts, "null")
    times = side_by_side(
        {"ours": lambda: read_avro(path).read_all(), "bare": lambda: polars_avro.read_avro(path)}, repeats=9
    )
    yield _beside("read_avro, mostly decimals", times["ours"].best, times["bare"].best)


def _beside(name: str, ours: float, bare: float) -> Figure:
    return Figure(name, ours / bare, "x polars-avro's CPU", at_most=1.5, detail=f"{seconds(ours)} to {seconds(bare)}")


def _record(fields: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [*({"name": n, "type": t} for n, t in fields.items()), *more]}


def _write(path: str, schema: dict[str, Any], row: Callable[[random.Random, int], dict[str, Any]], codec: str) -> None:
    chance = random.Random(1)
    with open(path, "wb") as file:
        fastavro.writer(file, schema, (row(chance, at) for at in range(ROWS)), codec=codec)


def _order(chance: random.Random, at: int) -> dict[str, Any]:
    return {
        "id": at * 7,
        "customer": f"customer {chance.randrange(10**5)}",
        "quantity": chance.randrange(100),
        "price": chance.random() * 100,
        "amount": chance.random() * 1000,
        "paid": chance.random() < 0.5,
        "state": chance.choice(["NEW", "PAID", "SENT", "LOST"]),
        "note": None if chance.random() < 0.5 else "a note of some words",
        "discount": None if chance.random() < 0.7 else chance.random(),
        "placed": dt.datetime(2024, 1, 1, tzinfo=_UTC) + dt.timedelta(seconds=at),
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=at % 365),
        "legacy": None if chance.random() < 0.5 else at,
    }


def _amounts(chance: random.Random, at: int) -> dict[str, Any]:
    names = [*(f"amount_{each}" for each in range(3)), "fixed_0", "fixed_1"]
    return {"id": at, **{name: decimal.Decimal(chance.randrange(10**9)).scaleb(-2) for name in names}}
