"""Delta: planning beside opening the table, a rewrite beside delta-rs's own, and the memory that a rewrite takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

import lakeevolve as le
from lakeevolve.model.diff import diff
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.fold import fold
from lakeevolve.tables import delta
from lakeevolve.tables.base import Evolution, MarkerEntry, Version
from tests.benchmarks import Figure, seconds, side_by_side

FILES = 10_000
ROWS = 2_000_000
#: The rows of the rewrite whose memory is measured, once and twice.
MANY_ROWS = 12_000_000
MANY_FILES = 8
_MOST = 640
_GROWTH = 1.3


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAKEEVOLVE_STATE"] = str(Path(folder) / "state")
        return [*_planning(Path(folder)), *_rewriting(Path(folder)), *_memory(Path(folder))]


# Planning -----------------------------------------------------------------------------------------------------------


def _planning(folder: Path) -> Iterator[Figure]:
    """A field is added to a table of many files, whose log has no checkpoint."""
    uri = f"delta:{folder / 'files'}"
    fields = [{"name": f"f{n}", "type": ["null", "long"]} for n in range(20)]
    delta.create_table(uri, _record(fields), mark=True)
    names = [field["name"] for field in fields]
    stats = {"numRecords": 1000, "minValues": dict.fromkeys(names, 1), "maxValues": dict.fromkeys(names, 9)}
    text = json.dumps({**stats, "nullCount": dict.fromkeys(names, 0)})
    for commit in range(10):
        adds = [
            {"path": f"part-{commit}-{n}.parquet", "partitionValues": {}, "size": 1000, "dataChange": True}
            | {"modificationTime": 1_700_000_000_000, "stats": text}
            for n in range(FILES // 10)
        ]
        actions = [{"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}, *({"add": a} for a in adds)]
        log = folder / "files" / "_delta_log" / f"{commit + 1:020d}.json"
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    target = _record([*fields, {"name": "more", "type": ["null", "int"], "default": None}])
    times = side_by_side(
        {
            "bare": lambda: DeltaTable(folder / "files"),
            "open": lambda: le.open_table(uri),
            "plan": lambda: le.plan(uri, target),
        },
        repeats=9,
    )
    opened, planned, bare = (times[name].best for name in ("open", "plan", "bare"))
    name = f"Delta plan of an added field, {FILES:,} files"
    detail = f"{seconds(planned)} to {seconds(opened)}"
    yield Figure(name, planned / opened, "x opening the table", at_most=1.3, detail=detail)
    detail = f"{seconds(planned)} to {seconds(bare)}"
    yield Figure(name, planned / bare, "x opening it with delta-rs alone", detail=detail)


# Rewriting ----------------------------------------------------------------------------------------------------------

_FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string"},
    {"name": "quantity", "type": "int"},
    {"name": "price", "type": "double"},
    {"name": "paid", "type": "boolean"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"], "default": "NEW"}},
    {"name": "note", "type": ["null", "string"]},
    {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
]
#: A promotion, a rename and a field with a default: every file has to be written anew.
_TARGET = [
    _FIELDS[0],
    {"name": "client", "type": "string", "aliases": ["customer"]},
    {**_FIELDS[2], "type": "long"},
    *_FIELDS[3:],
    {"name": "currency", "type": "string", "default": "EUR"},
]


def _rewriting(folder: Path) -> Iterator[Figure]:
    source = folder / "orders"
    _fill(source, ROWS, 4)

    def bare() -> None:
        """What delta-rs alone does of the same rows, under the same schema."""
        table = _copy(source, folder / "bare")
        reader = pa.RecordBatchReader.from_stream(table.scan())
        schema = pa.schema(list(reader.schema))
        batches = pa.RecordBatchReader.from_batches(schema, iter(reader))
        write_deltalake(table, batches, mode="overwrite", commit_properties=CommitProperties(max_commit_retries=0))

    def ours() -> None:
        _copy(source, folder / "ours")
        _rewrite(f"delta:{folder / 'ours'}")

    def whole() -> None:
        _copy(source, folder / "whole")
        uri = f"delta:{folder / 'whole'}"
        le.apply(le.plan(uri, _record(_TARGET)), allow=("rewrite", "backfill"))

    times = side_by_side({"ours": ours, "bare": bare}, repeats=3)
    mine, theirs = times["ours"].best, times["bare"].best
    name = f"Delta rewrite of {ROWS:,} rows: a rename, a promotion, a default"
    detail = f"{seconds(mine)} to {seconds(theirs)}"
    yield Figure(name, theirs / mine, "x scan() to write_deltalake", at_least=0.8, detail=detail)
    taken = side_by_side({"whole": whole}, repeats=1, warm=False)["whole"].best
    yield Figure(name + ", with every proof", theirs / taken, "x scan() to write_deltalake", detail=seconds(taken))


def _rewrite(uri: str) -> None:
    """Stage and commit, as applying does it, without what proves it."""
    table, target = delta.open(uri), _record(_TARGET)
    versions = table.history(hint=target)
    found = diff(versions[-1].schema, target)
    fills: dict[str, Any] = {"currency": "default"}
    after = Version(len(versions) + 1, target, plan="bench", fills=fills, renames=dict(found.renames))
    chain = (*versions, after)
    files = table.files(hint=target)

    def convert(file: Any) -> Iterator[pa.RecordBatch]:
        run = fold(chain, file.version, after.number)
        for batch in table.raw(file, hint=target):
            yield run(batch)

    changes = [(change, "rewrite") for change in found.changes]
    evolution = Evolution(versions[-1].schema, target, changes, found.renames, fills, files, convert)  # type: ignore[arg-type]
    staged = table.stage(evolution)
    table.commit(staged, [_entry(version) for version in chain])


def _entry(version: Version) -> MarkerEntry:
    schema = version.schema
    return MarkerEntry(
        version.number, schema.to_json(), schema.digest, version.plan, {}, version.fills, version.renames, {}
    )


# Memory -------------------------------------------------------------------------------------------------------------


def _memory(folder: Path) -> Iterator[Figure]:
    """The peak of a whole apply, proofs included, in a process of its own: what grows with the table shows here."""
    peaks = []
    source = folder / "many"
    _fill(source, MANY_ROWS, MANY_FILES)
    for times in (1, 2):
        where = folder / f"many-{times}"
        _copy(source, where)
        if times == 2:
            _double(where)
        done = subprocess.run(
            [sys.executable, "-c", _APPLY, f"delta:{where}", json.dumps(_record_json(_TARGET))],
            capture_output=True,
            text=True,
            check=True,
        )
        shutil.rmtree(where)
        peaks.append(float(done.stdout.split()[-1]))
    name = "Delta rewrite with every proof"
    yield Figure(f"{name}, {MANY_ROWS:,} rows", peaks[0], "MB at most in memory", at_most=_MOST)
    detail = f"{peaks[1]:,.0f} MB to {peaks[0]:,.0f} MB"
    yield Figure(f"{name}, twice the rows", peaks[1] / peaks[0], "x the memory", at_most=_GROWTH, detail=detail)


_APPLY = """
import json, sys
import lakeevolve as le
from tests.benchmarks import peak_memory
le.apply(le.plan(sys.argv[1], json.loads(sys.argv[2])), allow=("rewrite", "backfill"))
print(peak_memory())
"""


# Tables -------------------------------------------------------------------------------------------------------------


def _fill(where: Path, rows: int, files: int) -> None:
    delta.create_table(f"delta:{where}", _record(_FIELDS), mark=True)
    each = rows // files
    for _ in range(files):
        batches = (_orders(start, min(131_072, each - start)) for start in range(0, each, 131_072))
        schema = _orders(0, 1).schema
        write_deltalake(
            where, pa.RecordBatchReader.from_batches(schema, batches), mode="append", target_file_size=1 << 40
        )


def _orders(start: int, rows: int) -> pa.RecordBatch:
    ids = pa.array(range(start, start + rows), pa.int64())
    even = pc.equal(pc.bit_wise_and(ids, 1), 0)
    texts = pc.binary_join_element_wise(
        "customer", pc.multiply(ids, 2_654_435_761).cast(pa.string()), "", null_handling="emit_null"
    )
    columns: dict[str, pa.Array] = {
        "id": ids,
        "customer": texts,
        "quantity": pc.bit_wise_and(ids, 1023).cast(pa.int32()),
        "price": pc.divide(pc.multiply(ids, 37).cast(pa.float64()), 7.0),
        "paid": even,
        "state": pc.if_else(even, "PAID", "NEW"),
        "note": pc.if_else(even, pa.scalar(None, pa.string()), pa.scalar("a note of some words")),
        "placed": pc.add(ids, 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
        "day": pc.bit_wise_and(ids, 4095).cast(pa.int32()).cast(pa.date32()),
        "amount": pc.bit_wise_and(ids, 0xFFFFF).cast(pa.int32()).cast(pa.decimal128(12, 2)),
    }
    required = [pa.field(name, array.type, name == "note") for name, array in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(required))


def _copy(source: Path, target: Path) -> DeltaTable:
    """The table anew; its data files are links, since none of them is ever changed."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=_link)
    return DeltaTable(target)


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _double(where: Path) -> None:
    """The rows of a table once more: its files under other names."""
    table = DeltaTable(where)
    lines = [line for log in (where / "_delta_log").glob("*.json") for line in log.read_text().splitlines()]
    actions: list[AddAction | RemoveAction] = []
    for add in (action["add"] for action in map(json.loads, lines) if "add" in action):
        again = f"again-{add['path']}"
        _link(str(where / add["path"]), str(where / again))
        actions.append(AddAction(again, add["size"], {}, add["modificationTime"], True, add["stats"]))
    table.create_write_transaction(actions, "append", table.schema())


def _record_json(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": fields}


def _record(fields: list[dict[str, Any]]) -> Schema:
    return le.load(_record_json(fields))
