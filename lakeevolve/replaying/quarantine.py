"""Rows that a consumer may not have: kept as they were written, with the reason, in a place of their own.

An index (``quarantine.json``) names what is held back, file by file, and since when; beside it lie the rows. What is
held is let go once the consumer may have it, and its rows are deleted once their time of retention has passed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeevolve.errors import ConfigError
from lakeevolve.redaction import public_path
from lakeevolve.replaying.outputs import ABOUT, INDEX, writable
from lakeevolve.rules.contract import Contract


@dataclass(frozen=True, slots=True)
class Held:
    """Rows of one file that are in no result.

    Parameters
    ----------
    source:
        The file, without the values of its partition.
    version:
        The schema version that it was written with; None for one that is not known.
    rows:
        How many rows it has.
    verdict:
        ``contract-update-required`` or ``cannot-read``.
    path, row:
        The first field and row that the consumer cannot read.
    since, until:
        The days on which it was first held back, and after which its rows are deleted.
    file:
        The name of the Parquet file that holds the rows; None once they are deleted.
    """

    source: str
    version: int | None
    rows: int
    verdict: str
    path: str = ""
    row: int | None = None
    since: date | None = None
    until: date | None = None
    file: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "input_schema_version": self.version,
            "rows": self.rows,
            "verdict": self.verdict,
            "path": self.path,
            "row": self.row,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "file": self.file,
        }


class Quarantine:
    """What is held back from one contract's consumer."""

    def __init__(self, index: Path, folder: Path, contract: Contract, days: int | None, today: date | None) -> None:
        if days is not None and days < 1:
            raise ConfigError("rows are kept for one day at least", where=f"keep_days={days}")
        self._index, self._folder, self._contract, self._days = index, folder, contract, days
        self._today = today or datetime.now(UTC).date()
        self._before = _read(index, contract)
        self._seen: set[str] = set()
        self._found: list[Held] = []
        self._written: list[tuple[Path, Path]] = []

    def saw(self, source: str) -> None:
        """Say that a file is still among what is projected."""
        self._seen.add(public_path(source))

    def hold(self, held: Held, address: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep the rows of a file at *address*, unless their time is over."""
        name = _name(address, held)
        since = next((each.since for each in self._before if _same(each, held)), None) or self._today
        until = None if self._days is None else since + timedelta(days=self._days)
        over = until is not None and self._today > until
        rows = sum(batch.num_rows for batch in batches) if over else self._keep(name, held, batches)
        file = None if over or not rows else name
        self._found.append(replace(held, rows=rows, since=since, until=until, file=file))

    def _keep(self, name: str, held: Held, batches: Iterable[pa.RecordBatch]) -> int:
        rows, writer, partial = 0, None, self._folder / f".{name}"
        try:
            for batch in batches:
                about = _about(held, rows, batch.num_rows)
                names = [ABOUT, *(each for each in batch.schema.names if each != ABOUT)]
                made = pa.RecordBatch.from_arrays([about, *(batch.column(each) for each in names[1:])], names=names)
                if writer is None:
                    with writable(self._folder):
                        self._folder.mkdir(parents=True, exist_ok=True)
                    self._written.append((partial, self._folder / name))
                    writer = pq.ParquetWriter(partial, made.schema, compression="zstd")
                writer.write_batch(made)
                rows += batch.num_rows
        finally:
            if writer is not None:
                writer.close()
        return rows

    def finish(self, *, always: bool) -> tuple[Held, ...]:
        """Put everything in its place. With *always* the index is written even if nothing is held back."""
        gone = [each for each in self._before if each.source not in self._seen]
        kept = [each for each in gone if each.until is None or each.until >= self._today]
        found = sorted([*self._found, *kept], key=lambda each: (each.version or 0, each.source, each.verdict))
        for partial, target in self._written:
            with writable(target):
                os.replace(partial, target)
        stays = {each.file for each in found}
        for each in self._before:
            if each.file is not None and each.file not in stays:
                (self._folder / each.file).unlink(missing_ok=True)
        if found or always or self._before:
            record = {"contract": self._contract.name, "held": [each.to_json() for each in found]}
            partial = self._index.with_name(f".{self._index.name}")
            with writable(self._index):
                self._index.parent.mkdir(parents=True, exist_ok=True)
                partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
                os.replace(partial, self._index)
        return tuple(sorted(self._found, key=lambda each: (each.version or 0, each.source)))

    def abandon(self) -> None:
        for partial, _ in self._written:
            partial.unlink(missing_ok=True)
        if self._written:
            with suppress(OSError):
                self._folder.rmdir()


def _about(held: Held, first: int, count: int) -> pa.Array:
    numbers = pa.array(range(first, first + count), pa.int64())
    return pa.StructArray.from_arrays(
        [
            pa.repeat(pa.scalar(held.version, pa.int32()), count),
            pa.repeat(pa.scalar(held.verdict), count),
            pa.repeat(pa.scalar(held.source), count),
            numbers,
        ],
        names=["input_schema_version", "reason", "source", "row"],
    )


def _same(one: Held, two: Held) -> bool:
    return (one.source, one.version, one.verdict) == (two.source, two.version, two.verdict)


def _name(address: str, held: Held) -> str:
    digest = hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    version = "unknown" if held.version is None else f"v{held.version}"
    return f"{held.verdict}-{version}-{digest}.parquet"


def place(given: str | Path | None, beside: Path | None, out: str) -> tuple[Path, Path]:
    """Where the index and the rows lie."""
    if given is not None:
        return Path(given) / INDEX, Path(given)
    if beside is None:
        raise ConfigError(
            "results in a table need a place for what is held back",
            where=out,
            hint="name a folder: --quarantine DIR, or quarantine=DIR",
        )
    return beside / INDEX, beside / "quarantine" if beside.suffix != ".quarantine" else beside


def _read(index: Path, contract: Contract) -> tuple[Held, ...]:
    if not index.exists():
        return ()
    try:
        record = json.loads(index.read_text(encoding="utf-8"))
        if record["contract"] != contract.name:
            raise ConfigError(
                f"the quarantine is that of {record['contract']}", where=str(index), hint="choose another folder"
            )
        return tuple(_held(each) for each in record["held"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "the list of what is held back cannot be read", where=str(index), hint="move it away, and run again"
        ) from error


def _held(record: dict[str, Any]) -> Held:
    since, until = (date.fromisoformat(d) if (d := record.get(key)) else None for key in ("since", "until"))
    file = record.get("file")
    return Held(
        record["source"],
        record["input_schema_version"],
        record["rows"],
        record["verdict"],
        record["path"],
        record["row"],
        since,
        until,
        # A name alone: nothing outside the folder is ever deleted.
        None if file is None else Path(file).name,
    )
