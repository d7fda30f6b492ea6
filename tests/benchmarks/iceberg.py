"""Iceberg tables beside pyiceberg and bare pyarrow.

A schema change of 2,000 columns and a plan over 10,000 files beside pyiceberg's own; a rewrite beside reading, casting
and writing the same files with pyarrow alone; the memory of a whole ``apply`` with proof and replay, in a process of
its own, for a table and for one of twice the size (``LAKEEVOLVE_BENCH_ROWS`` changes the rows of a file).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.types import IntegerType

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.planning.plan import Plan
from lakeevolve.replaying.fold import fold
from lakeevolve.tables.base import DataFile, Evolution, Version
from lakeevolve.tables.iceberg import IcebergHandle, append, create_table, stage
from lakeevolve.tables.iceberg.catalog import open_catalog, parse_uri
from lakeevolve.tables.marker import entry_of
from tests.benchmarks import Figure, peak_memory, seconds, side_by_side

COLUMNS = 2_000
FILES = 10_000
#: 16 files of this many rows are 8 million.
ROWS = int(os.environ.get("LAKEEVOLVE_BENCH_ROWS", "500000"))
TYPES = ("int", "string", "double", "long", "boolean")


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAKEEVOLVE_STATE"] = str(Path(folder) / "state")
        return [*_changes(folder), *_plans(folder), *_rewrites(folder), *_memory(folder)]


def _theirs(uri: str) -> Any:
    """The table as pyiceberg loads it, from a catalog that was opened for it."""
    location = parse_uri(uri)
    return open_catalog(location, {}).load_table(location.identifier)


def _evolution(table: IcebergHandle, plan: Plan) -> tuple[Evolution, Version]:
    """What apply hands to the table, without its checks and proofs."""
    versions = table.history()
    after = Version(len(versions) + 1, plan.target, plan=plan.digest, fills=plan.fills, renames=plan.renames)
    changes = [(change, step.route) for step in plan.steps for change in step.changes]

    def convert(file: DataFile) -> Iterator[pa.RecordBatch]:
        run = fold((*versions, after), file.version, after.number)
        return (run(batch) for batch in table.raw(file))

    rewrite = table.must_rewrite(changes, table.files())
    made = Evolution(versions[-1].schema, plan.target, changes, plan.renames, plan.fills, rewrite, convert)
    return made, after


def _at_most(name: str, ours: float, theirs: float, unit: str, bound: float | None) -> Figure:
    return Figure(name, ours / theirs, unit, at_most=bound, detail=f"{seconds(ours)} to {seconds(theirs)}")


def _changes(folder: str) -> Iterator[Figure]:
    """One optional column more: staged and committed, and as a whole with plan, proof and replay."""
    fields = [{"name": f"c{i}", "type": ["null", TYPES[i % 5]], "default": None} for i in range(COLUMNS)]
    schema = le.load({"type": "record", "name": "Wide", "fields": fields})
    uris = [f"iceberg:{folder}/lake/bench.{name}" for name in ("staged", "whole", "theirs")]
    for uri in uris:
        create_table(uri, schema, mark=True)
    numbers = {uri: count(1) for uri in uris}
    held = {uri: list(fields) for uri in uris}
    plans: list[Any] = []

    def wider(uri: str) -> Any:
        held[uri].append({"name": f"n{next(numbers[uri])}", "type": ["null", "int"], "default": None})
        return {"type": "record", "name": "Wide", "fields": list(held[uri])}

    def theirs() -> None:
        with _theirs(uris[2]).update_schema() as update:
            update.add_column(f"n{next(numbers[uris[2]])}", IntegerType())

    def staged() -> None:
        table = le.open_table(uris[0])
        evolution, after = _evolution(table, plans.pop())
        table.commit(table.stage(evolution), [entry_of(version) for version in (*table.history(), after)])

    # What is to be staged is planned outside the measured part, each time anew.
    times: dict[str, list[float]] = {"staged": [], "whole": [], "theirs": []}
    for _ in range(4):
        plans.append(le.plan(uris[0], wider(uris[0])))
        whole = wider(uris[1])
        calls = {"staged": staged, "whole": lambda whole=whole: le.apply(le.plan(uris[1], whole)), "theirs": theirs}
        for name, taken in side_by_side(calls, repeats=1, warm=False).items():
            times[name].append(taken.best)
    # The first turn warms up; later ones have more schemas in the metadata, as tables do.
    mean = {name: sum(taken[1:]) / len(taken[1:]) for name, taken in times.items()}
    name = f"a schema change of {COLUMNS:,} columns"
    yield _at_most(f"{name}, staged and committed", mean["staged"], mean["theirs"], "x pyiceberg", 1.3)
    yield _at_most(f"{name}, with plan, proof and replay", mean["whole"], mean["theirs"], "x pyiceberg", None)


def _plans(folder: str) -> Iterator[Figure]:
    old = {"type": "record", "name": "Row", "fields": [{"name": f"c{i}", "type": "int"} for i in range(10)]}
    new = {**old, "fields": [*old["fields"], {"name": "n", "type": ["null", "int"], "default": None}]}
    uri = f"iceberg:{folder}/lake/bench.files"
    table = create_table(uri, le.load(old), mark=True)
    append(table, pa.Table.from_pylist([{f"c{i}": i for i in range(10)}], schema=arrow_schema(le.load(old))))
    (file,) = table.files()
    one = file.handle.file
    transaction = table.iceberg.transaction()
    producer = transaction.update_snapshot().fast_append()
    for number in range(1, FILES):
        values = {
            name: getattr(one, name)
            for name in (
                *("content", "file_format", "partition", "record_count", "file_size_in_bytes", "column_sizes"),
                *("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"),
            )
        }
        copy = TheirFile.from_args(file_path=f"{one.file_path[:-8]}-{number}.parquet", **values)
        copy.spec_id = 0
        producer.append_data_file(copy)
    producer.commit()
    transaction.commit_transaction()
    times = side_by_side(
        {"ours": lambda: le.plan(uri, new), "theirs": lambda: list(_theirs(uri).scan().plan_files())}, repeats=3
    )
    yield _at_most(f"a plan over {FILES:,} files", times["ours"].best, times["theirs"].best, "x plan_files", 1.3)


NARROW = [
    {"name": "id", "type": "long"},
    {"name": "amount", "type": "int"},
    {"name": "name", "type": "string"},
    {"name": "price", "type": "double"},
    {"name": "note", "type": ["null", "string"], "default": None},
]


def _narrow(amount: str) -> dict[str, Any]:
    fields = [{**field, "type": amount} if field["name"] == "amount" else field for field in NARROW]
    return {"type": "record", "name": "Row", "fields": fields}


def _rows(number: int, rows: int) -> pa.Table:
    ids = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
    return pa.table(
        {
            "id": ids,
            "amount": pc.cast(pc.bit_wise_and(ids, 0xFFFF), pa.int32()),
            "name": pc.binary_join_element_wise(pa.scalar("customer "), pc.cast(ids, pa.string()), ""),
            "price": pc.multiply(pc.cast(ids, pa.float64()), 0.01),
            "note": pc.if_else(pc.equal(pc.bit_wise_and(ids, 3), 0), pa.scalar(None, pa.string()), pa.scalar("as is")),
        }
    )


def _filled(uri: str, files: int, rows: int) -> IcebergHandle:
    table = create_table(uri, le.load(_narrow("int")), mark=True)
    for number in range(files):
        append(table, _rows(number, rows))
    return table


def _rewrites(folder: str) -> Iterator[Figure]:
    """The rewrite alone, which an int that becomes a double asks for; proof and replay are measured elsewhere.

    One file at a time: several at once take less time and, where cores share their units, more CPU seconds.
    """
    uri = f"iceberg:{folder}/lake/bench.rewrite"
    table = _filled(uri, 4, ROWS)
    plan = le.plan(table, _narrow("double"))
    sources = [file.path.removeprefix("file://") for file in table.files()]

    def ours() -> None:
        before, stage.WORKERS = stage.WORKERS, 1
        table.stage(_evolution(table, plan)[0]).abandon()
        stage.WORKERS = before

    def theirs() -> None:
        for source in sources:
            target = Path(folder) / "bare.parquet"
            with pq.ParquetFile(source) as read:
                at = read.schema_arrow.get_field_index("amount")
                schema = read.schema_arrow.set(at, read.schema_arrow.field(at).with_type(pa.float64()))
                with pq.ParquetWriter(target, schema, compression="zstd") as write:
                    for group in range(read.num_row_groups):
                        rows = read.read_row_group(group)
                        write.write_table(rows.set_column(at, schema.field(at), rows.column(at).cast(pa.float64())))

    times = side_by_side({"ours": ours, "theirs": theirs}, repeats=4)
    best, bare = times["ours"].best, times["theirs"].best
    detail = f"{seconds(best)} to {seconds(bare)}"
    yield Figure(
        f"a rewrite of {4 * ROWS:,} rows in 4 files", bare / best, "x bare pyarrow", at_least=0.8, detail=detail
    )


def _memory(folder: str) -> Iterator[Figure]:
    peaks = {}
    for files in (16, 32):
        uri = f"iceberg:{folder}/lake/bench.memory{files}"
        _filled(uri, files, ROWS)
        command = [sys.executable, "-c", f"from tests.benchmarks.iceberg import peak; peak({uri!r})"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        peaks[files] = json.loads(done.stdout.splitlines()[-1])
    name = "peak memory of an apply that rewrites"
    yield Figure(f"{name} {16 * ROWS:,} rows", peaks[16], "MB", at_most=512)
    yield Figure(
        f"{name} twice as many", peaks[32] / peaks[16], "x the memory", at_most=1.1, detail=f"{peaks[32]:.0f} MB"
    )


def peak(uri: str) -> None:
    """Apply the change to a table and print what memory that took, in MB."""
    done = le.apply(le.plan(uri, _narrow("double")), allow=("rewrite",))
    assert done.ok
    print(json.dumps(peak_memory()))
