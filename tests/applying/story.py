"""One table, a plan for it, and what has to be true of it whatever fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeevolve as le
from lakeevolve.model.schema import Schema

Rows = Callable[[Schema, int, int], pa.Table]
ALL = ("rewrite", "backfill", "drop")

BASE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "int"},
        {"name": "paid", "type": ["null", "boolean"], "default": None},
    ],
}
REWRITTEN = {
    **BASE,
    "fields": [
        BASE["fields"][0],
        {"name": "total", "type": "double", "aliases": ["amount"]},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}
#: On Delta, texts and columns take several commits.
SEVERAL = {
    **BASE,
    "fields": [
        {**BASE["fields"][0], "doc": "The number on the receipt."},
        {"name": "amount", "type": ["null", "int"], "default": None, "doc": "In cents."},
        BASE["fields"][2],
        {"name": "more", "type": ["null", "string"], "default": None},
    ],
}
TARGETS = {"rewrite": REWRITTEN, "several": SEVERAL}


class Story:
    """One table, its plan, and what has to be true of it whatever is killed."""

    def __init__(self, lake: Any, rows: Rows, target: str, name: str) -> None:
        base = le.load(BASE)
        self.lake, self.target = lake, le.load(TARGETS[target])
        self.uri = lake.create(name, base, rows(base, 30, 1), mark=True)
        lake.append(self.uri, rows(base, 20, 2))
        self.plan = le.plan(self.uri, TARGETS[target], mode="NONE").save(lake.folder / f"{name}.json")
        self.state = lake.folder / "state"
        self.before = self.rows()
        self.after = [self._after(row) for row in self.before]

    def rows(self) -> list[dict[str, Any]]:
        read = [row for batch in le.open_table(self.uri).read() for row in batch.to_pylist()]
        return sorted(read, key=lambda row: json.dumps(row, sort_keys=True, default=str))

    def _after(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.target == le.load(REWRITTEN):
            return {"id": row["id"], "total": float(row["amount"]), "currency": "EUR"}
        return {**row, "more": None}

    def check(self) -> bool:
        """Every row is there, as before or as after; return whether the plan has landed."""
        live = le.open_table(self.uri)
        landed = live.progress_of(le.load_plan(self.plan).digest)
        done = landed == "done"
        assert live.schema.digest == (self.target if done else le.load(BASE)).digest
        key = json.dumps
        wanted = self.after if done else self.before
        assert sorted(map(key, self.rows())) == sorted(map(key, wanted))
        return done

    def finish(self, *, lose_state: bool) -> None:
        if lose_state:
            shutil.rmtree(self.state, ignore_errors=True)
        done = le.apply(self.plan, allow=ALL, resume=True)
        assert done.status in ("applied", "already-applied")
        assert self.check()
        assert le.verify(self.uri, full=True).ok
        assert [version.number for version in le.open_table(self.uri).history()] == [1, 2]

    def strays(self) -> set[str]:
        """The data files that no version of the table refers to."""
        live = le.open_table(self.uri)
        positions = {live.state.position, *(p for v in live.history() for p in live.around(v))}
        known = {Path(file.path).name for at in positions if at is not None for file in live.files(at)}
        folder = self.lake.folder / "lake"
        here = {path.name for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
        return here - known
