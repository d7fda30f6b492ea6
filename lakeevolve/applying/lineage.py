"""Where the rows of a table come from: file by file, and row by row where columns of the table say it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.applying import ledger
from lakeevolve.config.state import TableState, state_of
from lakeevolve.errors import ConfigError, SourceNotFound
from lakeevolve.redaction import public_path, public_uri
from lakeevolve.tables.base import DataFile, Table, Version
from lakeevolve.tables.moments import moments_of

#: What a row's origin is told by, if a column holds it.
ORIGINS: Final = ("registry_id", "topic", "partition", "offset")
#: What stands where nothing tells, and nothing is inferred.
UNKNOWN: Final = "unknown"
#: What is told of each row.
_ROWS: Final = pa.schema(
    [
        ("file", pa.string()),
        ("row", pa.int64()),
        ("added_by", pa.int64()),
        ("version", pa.int32()),
        ("plan", pa.string()),
        *((name, pa.string()) for name in ORIGINS),
    ]
)


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of one table version: the plan that made it, who approved it, what proves it, and for whom.

    ``unknown`` stands where the ledger or the state no longer tells; None where there is nothing to tell of.
    """

    version: int
    digest: str
    plan: str | None
    approver: str | None
    evidence: str | None
    seal: str | None
    contracts: tuple[str, ...] | str

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "schema": self.digest,
            "plan": self.plan,
            "approver": self.approver,
            "evidence": self.evidence,
            "seal": self.seal,
            "contracts": self.contracts if isinstance(self.contracts, str) else list(self.contracts),
        }


@dataclass(frozen=True, slots=True)
class FileLine:
    """One live file: which commit added it, when, and the table version that it was written for."""

    path: str
    rows: int
    added: int | None
    at: datetime | None
    version: int
    inferred: bool
    file: DataFile = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.path,
            "rows": self.rows,
            "added_by": self.added,
            "added_at": None if self.at is None else self.at.isoformat(timespec="seconds"),
            "version": self.version,
            "inferred": self.inferred,
        }


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the rows of a table come from, now or at a moment.

    ``columns`` tells for each of ``registry_id``, ``topic``, ``partition`` and ``offset`` the column that holds it.
    """

    uri: str
    position: int | None
    at: datetime | None
    files: tuple[FileLine, ...]
    versions: tuple[Origin, ...]
    columns: Mapping[str, str]
    table: Table = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "uri": public_uri(self.uri),
            "position": self.position,
            "at": None if self.at is None else self.at.isoformat(timespec="seconds"),
            "files": [each.to_json() for each in self.files],
            "versions": [each.to_json() for each in self.versions],
            "rows": {name: self.columns.get(name, UNKNOWN) for name in ORIGINS},
        }

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Each row's file, number within it, commit, version and plan, and what the declared columns hold of its
        origin, as text; ``unknown`` where no column does or it is null."""
        plans = {each.version: each.plan for each in self.versions}
        for line in self.files:
            row = 0
            for batch in self.table.raw(line.file):
                count = batch.num_rows
                told = [
                    pa.repeat(pa.scalar(line.path), count),
                    pa.array(range(row, row + count), pa.int64()),
                    pa.repeat(pa.scalar(line.added, pa.int64()), count),
                    pa.repeat(pa.scalar(line.version, pa.int32()), count),
                    pa.repeat(pa.scalar(plans.get(line.version), pa.string()), count),
                    *(_told(batch, self.columns.get(name)) for name in ORIGINS),
                ]
                yield pa.RecordBatch.from_arrays(told, schema=_ROWS)
                row += count

    def save_rows(self, path: str | Path) -> int:
        """Write :meth:`rows` as a Parquet file that is not there yet; return how many there are."""
        import pyarrow.parquet as pq

        target, count = Path(path), 0
        try:
            with target.open("xb") as stream, pq.ParquetWriter(stream, _ROWS) as writer:
                for batch in self.rows():
                    writer.write_batch(batch)
                    count += batch.num_rows
        except FileExistsError as error:
            raise ConfigError("there is such a file already", where=str(target), hint="choose a new one") from error
        except OSError as error:
            raise ConfigError(
                f"the rows cannot be written: {error.strerror}", where=str(target), hint="choose a writable path"
            ) from error
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return count


def lineage_of(
    table: Table,
    at: datetime | str | None = None,
    columns: Mapping[str, str] | None = None,
    state: TableState | None = None,
) -> Lineage:
    """Where the rows of a table come from: file, commit, table version, plan, approver, evidence, contract.

    Parameters
    ----------
    table:
        An open table.
    at:
        A moment (or ISO 8601 text; without a zone, UTC): the files that were live then. None: now.
    columns:
        Which column holds what of a row's origin: ``registry_id``, ``topic``, ``partition``, ``offset``. What no column
        is named for stays unknown.
    state:
        Where ledger, plans and evidence are; by default where the table's state is kept.

    Raises
    ------
    ConfigError
        A column is not there, or the moment is none.
    SourceNotFound
        The table had no state at that moment, or its metadata no longer tells which.

    Examples
    --------
    >>> lineage_of(open_table("delta:lake/orders")).files[0].version  # doctest: +SKIP
    1
    """
    held = dict(columns or {})
    versions = table.history()
    _refuse_columns(table, versions, held)
    moments = moments_of(table)
    when, position = _at(at), table.state.position
    if when is not None:
        position = _position(moments, when, table.uri)
    times = dict(moments)
    kept = state or state_of(table.state.id)
    lines = [
        FileLine(
            public_path(file.path),
            file.rows,
            file.added,
            None if file.added is None else times.get(file.added),
            file.version,
            file.inferred,
            file,
        )
        for file in (table.files(position) if when is not None else table.files())
    ]
    known = {entry.name: entry.record for entry in ledger.entries(kept) if entry.record is not None and not entry.fault}
    used = {line.version for line in lines}
    origins = tuple(_origin(version, known, kept) for version in versions if version.number in used)
    return Lineage(table.uri, position, when, tuple(lines), origins, held, table)


def _origin(version: Version, known: Mapping[str, Mapping[str, Any]], state: TableState) -> Origin:
    if version.plan is None:
        return Origin(version.number, version.digest, None, None, None, None, ())
    name = ledger.name_of(version)
    entry = known.get(name)
    approver = UNKNOWN if entry is None or entry.get("rebuilt") else entry["approver"]
    evidence, seal = next(
        ((where, _json(said).get("seal")) for _, where, said in state.read("evidence", name)), (None, None)
    )
    plan = next((_json(said) for _, _, said in state.read("plans", version.plan)), None)
    contracts: tuple[str, ...] | str = UNKNOWN if plan is None else tuple(map(str, plan.get("consumers", ())))
    return Origin(
        version.number,
        version.digest,
        version.plan,
        approver,
        UNKNOWN if evidence is None else public_uri(evidence),
        seal,
        contracts,
    )


def _json(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refuse_columns(table: Table, versions: Sequence[Version], held: Mapping[str, str]) -> None:
    there = [*table.foreign, *(each.name for version in versions for each in version.schema.fields)]
    for name, column in held.items():
        if name not in ORIGINS:
            raise ConfigError(f"a row's origin has no {name!r}", where=table.uri, hint="it has " + ", ".join(ORIGINS))
        if column not in there:
            near = get_close_matches(column, there, n=1)
            raise ConfigError(
                f"the table has no column {column!r}",
                where=table.uri,
                hint=f"did you mean {near[0]}?" if near else "name a top-level column",
            )


def _at(given: datetime | str | None) -> datetime | None:
    if given is None:
        return None
    try:
        when = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ConfigError(
            "the moment is no time", where=str(given)[:40], hint="write it as 2026-01-31T12:00:00+00:00"
        ) from error
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _position(moments: Sequence[tuple[int, datetime | None]], when: datetime, where: str) -> int:
    """The last state that came about by then."""
    dated = [(position, at) for position, at in moments if at is not None]
    found = [position for position, at in dated if at <= when]
    if not found:
        first = f"; the oldest that is known is of {dated[0][1]:%Y-%m-%d %H:%M:%S} UTC" if dated else ""
        raise SourceNotFound(
            f"nothing tells which files the table had then{first}", where=where, hint="name a later time"
        )
    return found[-1]


def _told(batch: pa.RecordBatch, column: str | None) -> pa.Array:
    at = -1 if column is None else batch.schema.get_field_index(column)
    if at < 0:
        return pa.repeat(pa.scalar(UNKNOWN), batch.num_rows)
    held = batch.column(at)
    if pa.types.is_binary(held.type) or pa.types.is_fixed_size_binary(held.type):
        held = pa.array([None if each is None else each.hex() for each in held.to_pylist()], pa.string())
    elif pa.types.is_nested(held.type):
        return pa.repeat(pa.scalar(UNKNOWN), batch.num_rows)
    return pc.fill_null(pc.cast(held, pa.string()), UNKNOWN)
