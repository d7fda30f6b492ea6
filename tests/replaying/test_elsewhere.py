"""Verification by other processes: the same result on every engine, of right tables and of wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from lakeevolve.engines.executor import ProcessEngine
from lakeevolve.replaying.verify import verify

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "qty", "type": ["null", "int"], "default": None},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
]
EVOLVED = [
    FIELDS[0],
    {"name": "qty", "type": ["null", "long"], "default": None},
    {**FIELDS[2], "name": "label", "aliases": ["name"]},
    FIELDS[3],
    {"name": "country", "type": "string", "default": "US"},
]


def rows(start: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": i, "qty": i % 7 or None, "name": f"n{i}", "tags": ["a"] * (i % 3), **more}
        for i in range(start, start + 40)
    ]


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessEngine]:
    engine = ProcessEngine(2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def dask() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0", "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client.get_executor(pure=False)


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: Any, disk: Any) -> Any:
    made = disk(request.param, FIELDS)
    made.add(FIELDS, rows(0))
    made.add(FIELDS, rows(40))
    made.evolve(EVOLVED)
    made.add(
        EVOLVED, [{**{k: v for k, v in r.items() if k != "name"}, "label": "x", "country": "DE"} for r in rows(80)]
    )
    return made


def told(result: Any) -> dict[str, Any]:
    """Everything that a result says, but for when it was said."""
    evidence = dict(result.evidence.to_json())
    for passing in ("at", "digest", "seal", "created"):
        evidence.pop(passing, None)
    faults = sorted(str(fault) for fault in result.reader_faults)
    found = sorted(
        (m.file or "", m.row if m.row is not None else -1, m.path, m.kind, m.reason) for m in result.mismatches
    )
    return {"evidence": evidence, "faults": faults, "found": found, "count": result.mismatched, "rows": result.rows}


def same(lake: Any, engine: Any, **more: Any) -> dict[str, Any]:
    here, there = (told(verify(lake.open(), engine=e, **more)) for e in (None, engine))
    assert here == there
    return here


def test_a_right_table_is_right_on_every_engine(lake: Any, processes: Any, dask: Any) -> None:
    for engine in (processes, dask):
        found = same(lake, engine, columns="all")
        assert found["rows"] == 120
        assert found["count"] == 0
        assert found["evidence"]["predicates"]


def test_any_executor_of_threads_will_do(lake: Any) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert same(lake, pool)["count"] == 0


def test_readers_of_older_versions_and_contracts_are_asked_elsewhere_too(lake: Any, processes: Any) -> None:
    enum = {"type": "enum", "name": "C", "symbols": ["US"]}
    reader = {"type": "record", "name": "Order", "fields": [{"name": "country", "type": enum}]}
    contract = {"contract": "billing", "subject": "orders", "reader": reader, "accepts": [1, 2]}
    found = same(lake, processes, mode="FULL", contracts=[contract])
    assert {one["name"] for one in found["evidence"]["consumers"]} >= {"billing"}


def test_fastavro_is_asked_elsewhere_too(disk: Any, processes: Any) -> None:
    made = disk("iceberg", FIELDS)
    made.add(FIELDS, rows(0))
    made.evolve([*FIELDS[:2], {**FIELDS[2], "name": "label", "aliases": ["name"]}, FIELDS[3]])
    found = same(made, processes, mode="FULL")
    assert found["evidence"]["oracle"]["fastavro"]["rows"] == {"backward": 8, "forward": 8}


def test_rows_that_a_filter_loses_are_found_elsewhere_too(lake: Any, processes: Any) -> None:
    file = lake.open().files()[0]
    if lake.format == "delta":

        def lie(add: dict[str, Any]) -> None:
            stats = json.loads(add["stats"])
            stats["minValues"]["qty"] = stats["maxValues"]["qty"] = 1000
            add["stats"] = json.dumps(stats)

        lake.edit_log(lie, file.path)
    else:

        def lie(entry: dict[str, Any]) -> None:
            for bounds in ("lower_bounds", "upper_bounds"):
                for pair in entry[bounds]:
                    if pair["key"] == 2:
                        pair["value"] = (1000).to_bytes(len(pair["value"]), "little")

        lake.edit_manifests(lie, file.path)
    here, there = (told(verify(lake.open(), engine=e)) for e in (None, processes))
    assert {(f, p, k) for f, _, p, k, _ in there["found"]} == {(f, p, k) for f, _, p, k, _ in here["found"]}
    assert {(f, p) for f, _, p, _, _ in there["found"]} == {(file.path, "qty")}


def test_a_file_that_is_gone_is_a_mismatch_elsewhere_too(lake: Any, processes: Any) -> None:
    file = lake.open().files()[1]
    lake.path(file.path).unlink()
    found = [told(verify(lake.open(), engine=e))["found"] for e in (None, processes)]
    assert found[0] == found[1]
    assert found[1][0][0] == file.path


def test_workers_read_the_table_as_it_was_when_the_replay_began(lake: Any, processes: Any) -> None:
    table = lake.open()
    files = table.files()
    lake.add(EVOLVED, [{"id": 1000, "qty": 1, "label": "z", "tags": [], "country": "FR"}])
    read = processes.map_unordered(partial(counted, table), files)
    assert sum(read) == 120
    assert sum(processes.map_unordered(listed, [table])) == len(files)


def counted(table: Any, file: Any) -> int:
    return sum(len(batch) for batch in table.read(file))


def listed(table: Any) -> int:
    return len(table.files())


def test_a_digest_that_came_from_elsewhere_takes_no_more_rows(lake: Any, processes: Any) -> None:
    import pickle

    import pyarrow as pa

    from lakeevolve.replaying.filehash import FileHash

    one = FileHash()
    one.update(pa.record_batch({"id": [1, 2]}))
    again = pickle.loads(pickle.dumps(one))
    assert (again.hex, again.rows) == (one.hex, 2)
    with pytest.raises(TypeError):
        again.update(pa.record_batch({"id": [3]}))
