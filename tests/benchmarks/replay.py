"""Replay of a whole table beside one bare scan of the same files, and beside the nearest peer.

The table has 4 million rows of 12 columns in 16 files (``LAKEEVOLVE_BENCH_ROWS`` changes the rows of a file), of a
version before its newest: a column was promoted, one renamed, one added. ``verify`` reads every file raw and through
the table's reader, asks for the changed columns under filters, and hashes each row for its evidence. Memory is that of
a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from tests.benchmarks import Figure, cpu_time, peak_memory, ratio, seconds, side_by_side

ROWS = int(os.environ.get("LAKEEVOLVE_BENCH_ROWS", "250000"))
FILES = 16


def optional(type_: Any) -> dict[str, Any]:
    return {"type": ["null", type_], "default": None}


BEFORE: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "customer", **optional("int")},
    {"name": "qty", **optional("int")},
    {"name": "price", **optional("double")},
    {"name": "discount", **optional("float")},
    {"name": "sku", **optional("string")},
    {"name": "country", **optional("string")},
    {"name": "note", **optional("string")},
    {"name": "at", **optional({"type": "long", "logicalType": "timestamp-micros"})},
    {"name": "day", **optional({"type": "int", "logicalType": "date"})},
    {"name": "amount", **optional({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2})},
    {"name": "flag", **optional("boolean")},
]


def after(format_: str) -> list[dict[str, Any]]:
    """The newest version: on Iceberg a promotion and a rename besides, which Delta would rewrite every file for."""
    fields = [*BEFORE, {"name": "channel", **optional("string")}]
    if format_ == "iceberg":
        fields[2] = {**fields[2], "type": ["null", "long"]}
        fields[7] = {**fields[7], "name": "label", "aliases": ["note"]}
    return fields


def schema(fields: list[dict[str, Any]]) -> Any:
    return le.load(json.dumps({"type": "record", "name": "Order", "fields": fields}))


def orders(number: int, count: int) -> pa.Table:
    """Rows that look random and are always the same."""
    ids = pc.add(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), number * count - 1)

    def mixed(salt: int, below: int) -> pa.Array:
        words = pc.multiply(pc.add(ids, salt).cast(pa.uint64()), pa.scalar(0x9E3779B97F4A7C15, pa.uint64()))
        spread = pc.shift_right(words, pa.scalar(33, pa.uint64())).cast(pa.int64())
        return pc.subtract(spread, pc.multiply(pc.divide(spread, below), below))

    def some(array: pa.Array, salt: int) -> pa.Array:
        return pc.if_else(pc.equal(mixed(salt, 20), 0), pa.scalar(None, array.type), array)

    columns = {
        "id": ids,
        "customer": some(mixed(1, 100_000).cast(pa.int32()), 2),
        "qty": some(mixed(3, 100).cast(pa.int32()), 4),
        "price": some(pc.divide(mixed(5, 10**9).cast(pa.float64()), 1e6), 6),
        "discount": some(pc.divide(mixed(7, 10**6).cast(pa.float64()), 1e6).cast(pa.float32()), 8),
        "sku": pc.binary_join_element_wise("SKU", mixed(9, 50_000).cast(pa.string()), "-"),
        "country": pa.array(["DE", "US", "FR", "GB"]).take(mixed(10, 4)),
        "note": pc.binary_join_element_wise("a note about order", ids.cast(pa.string()), " "),
        "at": pc.add(mixed(11, 2**30), 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
        "day": pc.add(mixed(12, 1000), 19_000).cast(pa.int32()).cast(pa.date32()),
        "amount": mixed(13, 10**8).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
        "flag": some(pc.equal(mixed(14, 2), 0), 15),
    }
    return pa.table(columns).cast(arrow_schema(schema(BEFORE), strict=False))


def table(folder: Path, format_: str, files: int, evolved: bool = True) -> str:
    """A table in a folder; gives its URI."""
    if format_ == "iceberg":
        from lakeevolve.tables import iceberg as made

        uri = f"iceberg:{folder / 'lake'}/shop.orders"
        made.create_table(uri, schema(BEFORE), mark=True)
    else:
        from lakeevolve.tables.delta import create as made  # type: ignore[no-redef]

        uri = f"delta:{folder / 'orders'}"
        made.create_table(uri, schema(BEFORE), mark=True)
    for number in range(files):
        made.append(uri, orders(number, ROWS))
    if evolved:
        plan = le.plan(uri, schema(after(format_)))
        le.apply(plan, allow=plan.permits)
    return uri


def paths(uri: str) -> list[str]:
    files = [file.path.removeprefix("file://") for file in le.open_table(uri).files()]
    return [file if os.path.isabs(file) else os.path.join(uri.removeprefix("delta:"), file) for file in files]


def scan(files: list[str]) -> int:
    """Read every row of every column and throw it away, as pyarrow does best."""
    return sum(batch.num_rows for batch in ds.dataset(files, format="parquet").to_batches())


def alone(uri: str) -> dict[str, float]:
    """``verify`` in a process of its own: CPU and wall seconds, and peak memory in MB."""
    code = f"from tests.benchmarks.replay import _alone; _alone({uri!r})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _alone(uri: str) -> None:
    opened = le.open_table(uri)
    cpu, wall = cpu_time(), time.perf_counter()
    result = le.verify(opened)
    assert result.ok
    spent = cpu_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": spent[0], "wall": spent[1], "peak": peak_memory()}))


def measure() -> list[Figure]:
    return list(_measured())


def _measured() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        os.environ["LAKEEVOLVE_STATE"] = str(Path(name) / "state")
        for format_ in ("iceberg", "delta"):
            uri = table(Path(name) / format_, format_, FILES)
            files = paths(uri)
            opened = le.open_table(uri)
            work: dict[str, Callable[[], object]] = {
                "verify": lambda opened=opened: _right(opened),  # type: ignore[misc]
                "scan": lambda files=files: scan(files),  # type: ignore[misc]
            }
            times = side_by_side(work, repeats=3)
            ours, bare = times["verify"].best, times["scan"].best
            rows = f"{ROWS * FILES:,} rows, {format_}"
            detail = f"{seconds(ours)} to {seconds(bare)}"
            yield Figure(f"verify, {rows}", ours / bare, "x one scan", at_most=2.6, detail=detail)
            one = alone(uri)
            yield Figure(f"peak memory of verify, {rows}", one["peak"], "MB", at_most=700)
            busy = one["cpu"] / one["wall"]
            yield Figure(f"cores that verify keeps busy, {rows}", busy, "cores", detail=f"of {os.cpu_count()}")
            if format_ == "delta":
                yield from _peer(files, ours, Path(name))
            twice = alone(table(Path(name) / f"{format_}-twice", format_, 2 * FILES))
            growth = twice["peak"] / one["peak"]
            detail = f"{one['peak']:.0f} and {twice['peak']:.0f} MB"
            yield Figure(f"peak memory, twice the rows, {format_}", growth, "x", at_most=1.15, detail=detail)


def _right(opened: Any) -> None:
    assert le.verify(opened).ok


def _peer(files: list[str], ours: float, folder: Path) -> Iterator[Figure]:
    """lake-sift compares the same rows with a copy of them; it is a command of its own, so it may be installed apart
    (``LAKE_SIFT`` names it)."""
    command = os.environ.get("LAKE_SIFT") or shutil.which("lake-sift")
    if command is None:
        print("lake-sift is not installed, and so not measured", file=sys.stderr)
        return
    sides = []
    for side in ("left", "right"):
        (folder / side).mkdir()
        for number, file in enumerate(files):
            shutil.copyfile(file, folder / side / f"{number}.parquet")
        sides.append(f"{folder / side}/*.parquet")
    before = cpu_time()
    subprocess.run([command, *sides, "-k", "id", "--summary"], check=True, stdout=subprocess.DEVNULL)
    theirs = cpu_time() - before
    name = f"verify beside a value diff of {ROWS * FILES:,} rows"
    yield ratio(name, ours, theirs, "x lake-sift", at_least=1.0)
