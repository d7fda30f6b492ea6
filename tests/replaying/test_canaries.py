"""Marked values are planted wherever rows hold values, and looked for in every byte that is written or printed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.__main__ import main
from lakeevolve.avro.arrow import arrow_schema

CANARY = "canary7f3a"
NUMBER = 7_340_921_557

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "secret", "type": ["null", "string"], "default": None},
    {"name": "number", "type": ["null", "long"], "default": None},
    {"name": "raw", "type": ["null", "bytes"], "default": None},
    {"name": "tags", "type": {"type": "map", "values": "string"}},
    {"name": "state", "type": ["null", "string"], "default": None},
    {"name": "deep", "type": {"type": "array", "items": {
        "type": "record", "name": "Deep", "fields": [{"name": "inner", "type": "string"}]}}},
    {"name": "region", "type": "string"},
]  # fmt: skip
RENAMED = [{**f, "name": "hidden", "aliases": ["secret"]} if f["name"] == "secret" else f for f in FIELDS]
NEXT = [*RENAMED, {"name": "added", "type": "string", "default": "none"}]
STRICT = [{**f, "type": "string", "default": "x"} if f["name"] == "hidden" else f for f in NEXT]
ENUM = [
    {**f, "type": ["null", {"type": "enum", "name": "State", "symbols": ["NEW"]}]} if f["name"] == "state" else f
    for f in NEXT
]


def schema(fields: Any) -> Any:
    return le.load(json.dumps({"type": "record", "name": "Order", "fields": fields}))


def row(number: int) -> dict[str, Any]:
    mark = f"{CANARY}-{number}"
    return {
        "id": number,
        "secret": None if number % 4 == 3 else mark,
        "number": NUMBER + number,
        "raw": mark.encode(),
        "tags": [(mark, mark)],
        "state": mark,
        "deep": [{"inner": mark}],
        "region": f"{CANARY}region{number % 2}",
    }


@pytest.fixture(params=["iceberg", "delta"])
def uri(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    data = pa.Table.from_pylist([row(i) for i in range(12)], schema=arrow_schema(schema(FIELDS), strict=False))
    if request.param == "iceberg":
        from lakeevolve.tables import iceberg

        found = f"iceberg:{tmp_path / 'lake'}/shop.orders"
        iceberg.create_table(found, schema(FIELDS), partition=["region"])
        iceberg.append(found, data)
    else:
        from lakeevolve.tables.delta import create

        found = f"delta:{tmp_path / 'orders'}"
        create.create_table(found, schema(FIELDS), partition_by=["region"])
        create.append(found, data)
    return found


def clean(text: str | bytes, where: str) -> None:
    raw = text.encode() if isinstance(text, str) else text
    for mark in (CANARY.encode(), str(NUMBER)[:7].encode()):
        at = raw.find(mark)
        assert at < 0, f"{where}: {raw[max(0, at - 200) : at + 60]!r}"


def test_no_value_of_a_row_reaches_anything_that_is_written_or_printed(
    uri: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def run(*args: str) -> int:
        code = main(list(args))
        said = capfd.readouterr()
        clean(said.out, f"stdout of {args}")
        clean(said.err, f"stderr of {args}")
        return code

    def write(name: str, fields: Any) -> str:
        (tmp_path / name).write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
        return str(tmp_path / name)

    target = write("next.avsc", NEXT)
    run("plan", uri, target, "--out", "plan.json")
    assert run("apply", "plan.json", "--yes", "--allow", "rewrite", "--allow", "backfill") == 0
    for more in ((), ("--full", "--columns", "all", "--format", "json")):
        assert run("verify", uri, *more) == 0
    assert run("history", uri) == 0
    run("history", uri, "--format", "json")
    run("describe", uri)

    # Steps that the rows stand against, with rows that no target schema can read.
    for name, fields in (("strict.avsc", STRICT), ("enum.avsc", ENUM)):
        run("plan", uri, write(name, fields), "--mode", "NONE", "--out", f"{name}.json")
        run("--debug", "apply", f"{name}.json", "--yes", "--allow", "rewrite", "--allow", "backfill", "--allow", "drop")

    # A value changed behind the table's back, a row lost, a file damaged, one gone.
    table = le.open_table(uri)
    kept = table.files()
    paths = [tmp_path / "orders" / f.path if uri.startswith("delta:") else Path(f.path[7:]) for f in kept]
    before = [path.read_bytes() for path in paths]
    data = pq.read_table(paths[0])
    pq.write_table(data.slice(0, max(1, data.num_rows - 1)), paths[0])
    for more in ((), ("--full", "--format", "json"), ("--format", "html"), ("--reader", "duckdb")):
        assert run("verify", uri, *more) == 5
    paths[0].write_bytes(before[0][: len(before[0]) // 2])
    for more in (("--format", "sarif"), ("--debug",)):
        assert run("verify", uri, *more) == 5
    paths[0].unlink()
    assert run("verify", uri) == 5

    for record in caplog.records:
        clean(record.getMessage(), f"log of {record.name}")
    written = [*(tmp_path / "state").rglob("*"), *tmp_path.glob("*.json")]
    assert any(path.name.endswith(".json") for path in written)
    for path in written:
        if path.is_file():
            clean(path.read_bytes(), str(path))
            clean(str(path), "a file's name")


def test_mismatches_tell_values_apart_by_keyed_digests_alone(uri: str, tmp_path: Path) -> None:
    result = le.verify(uri, columns="all")
    assert result.ok
    from lakeevolve.replaying.compare import Hidden

    one, two = Hidden(f"{CANARY}-1", f"{CANARY}-2"), Hidden(f"{CANARY}-1", 3)
    assert one.digests[0] == two.digests[0] != one.digests[1]
    assert all(len(each) == 16 and CANARY not in each for each in one.digests)
    assert CANARY not in f"{one!r} {one}"


def test_an_exception_of_a_library_passes_no_value_on(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = le.open_table(uri)

    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError(f"cannot cast {CANARY}-5 of {NUMBER}")

    monkeypatch.setattr(table, "read", fail)
    result = le.verify(table)
    assert not result.ok
    clean(json.dumps(result.to_json()), "the result")
    clean("\n".join(str(m) for m in result.mismatches), "the mismatches")
