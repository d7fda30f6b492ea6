"""Versioned results for one consumer: rows of a table or of Avro files as its contract reads them.

Each row says which schema version it came from and which version of the results it belongs to. Rows of a version that
the contract does not list are held back: none of them is in the results, and the quarantine says so. The same source
and contract give the same bytes each time.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeevolve.avro.arrow import arrow_schema, execute
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import ConfigError, SourceError, ValueMismatch
from lakeevolve.model.digest import json_digest
from lakeevolve.model.schema import Schema
from lakeevolve.redaction import public_path
from lakeevolve.replaying import canonical, predicates
from lakeevolve.replaying.filehash import FileHash
from lakeevolve.rules.contract import HELD_BACK, Contract, load_contract
from lakeevolve.tables import open_table
from lakeevolve.tables.base import DataFile, Table

#: The column that says where a row comes from.
ABOUT: Final = "lakeevolve"

_ABOUT_TYPE: Final = pa.struct(
    [
        pa.field("input_schema_version", pa.int32(), nullable=False),
        pa.field("result_version", pa.string(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

Reason = Literal["live", "historical"]


@dataclass(frozen=True, slots=True)
class Held:
    """Rows of one file that are in no result. ``verdict`` is ``contract-update-required`` or ``cannot-read``."""

    source: str
    version: int | None
    rows: int
    verdict: str
    path: str = ""
    row: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "input_schema_version": self.version,
            "rows": self.rows,
            "verdict": self.verdict,
            "path": self.path,
            "row": self.row,
        }


@dataclass(frozen=True, slots=True)
class ReplayOutput:
    """What a consumer gets, and what is held back from it.

    Parameters
    ----------
    out:
        The folder: ``rows.parquet`` and ``quarantine.json``.
    rows:
        How many rows are in the results.
    versions:
        How many of them came from each schema version.
    held:
        What is held back, file by file.
    digest:
        SHA-256 over the rows in their order.
    """

    out: Path
    contract: str
    result_version: str
    rows: int
    versions: dict[int, int]
    held: tuple[Held, ...]
    digest: str

    @property
    def ok(self) -> bool:
        """Whether nothing is held back."""
        return not self.held

    def to_json(self) -> dict[str, Any]:
        return {
            "contract": self.contract,
            "result_version": self.result_version,
            "rows": self.rows,
            "versions": {str(number): count for number, count in sorted(self.versions.items())},
            "held": [each.to_json() for each in self.held],
            "digest": self.digest,
        }


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one file of a known or unknown schema version."""

    source: str
    version: int | None
    schema: Schema
    rows: int | None
    reason: Reason
    read: Any = field(repr=False)


def project(
    source: Any, contract: Any, out: str | Path, *, history: Sequence[Any] = (), since: int | None = None
) -> ReplayOutput:
    """Write the rows of a source as a contract's consumer reads them.

    Parameters
    ----------
    source:
        An open table or its URI; or an Avro container file, a folder of them, or a list of them.
    contract:
        A contract, or its file.
    out:
        The folder to write to. ``rows.parquet`` holds the consumer's fields and a column ``lakeevolve`` with
        ``input_schema_version``, ``result_version``, ``event_id`` and ``reason``; ``quarantine.json`` says what is held
        back.
    history:
        For Avro files: the schema versions, oldest first. A file's version is the one whose schema it was written with.
    since:
        Rows of this schema version and later are ``live``, those of earlier ones ``historical``; by default the newest.

    Raises
    ------
    ConfigError
        The contract is none, or names a field that a schema has not.
    SourceError
        The source cannot be read.

    Examples
    --------
    >>> project("delta:tables/orders", "contracts/billing.yaml", "out/billing").rows  # doctest: +SKIP
    4000
    """
    wanted = load_contract(contract)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer(wanted, folder)
    try:
        for part in _parts(source, history, since):
            writer.take(part)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


# --- sources ------------------------------------------------------------------------------------------------------


def _parts(source: Any, history: Sequence[Any], since: int | None) -> Iterator[_Part]:
    if isinstance(source, str) and source.startswith(("iceberg:", "delta:")):
        source = open_table(source)
    if hasattr(source, "files") and hasattr(source, "history"):
        yield from _table(source, since)
        return
    yield from _avro(list(_containers(source)), history, since)


def _table(table: Table, since: int | None) -> Iterator[_Part]:
    versions = table.history()
    first = versions[-1].number if since is None else since
    for file in sorted(table.files(), key=lambda each: (each.version, each.path)):
        schema = versions[file.version - 1].schema
        reason: Reason = "live" if file.version >= first else "historical"
        yield _Part(file.path, file.version, schema, None, reason, _raw(table, file))


def _raw(table: Table, file: DataFile) -> Any:
    return lambda: table.raw(file)


def _containers(source: Any) -> Iterator[Path]:
    given: Iterable[Any] = [source] if isinstance(source, str | Path) else source
    for each in given:
        path = Path(str(each).removeprefix("avro:"))
        if path.is_dir():
            yield from sorted(path.glob("*.avro"))
        elif path.is_file():
            yield path
        else:
            raise SourceError("there is no such file", where=str(path), hint="give a table's URI or Avro files")


def _avro(files: Sequence[Path], history: Sequence[Any], since: int | None) -> Iterator[_Part]:
    from lakeevolve.avro.container import read_avro, read_header
    from lakeevolve.sources import load

    known = [load(each, lenient=True) for each in history]
    first = len(known) if since is None else since
    for path in files:
        schema = read_header(path).schema
        number = next((at for at, each in enumerate(known, 1) if each.digest == schema.digest), None)
        reason: Reason = "live" if number is not None and number >= first else "historical"
        yield _Part(path.name, number, schema, None, reason, lambda path=path: read_avro(path))


# --- results ------------------------------------------------------------------------------------------------------


class _Writer:
    """The files of one projection while they are written."""

    def __init__(self, contract: Contract, folder: Path) -> None:
        self.contract, self.folder = contract, folder
        self.rows = 0
        self.versions: dict[int, int] = {}
        self.held: list[Held] = []
        self.hash = FileHash()
        self._writer: Any = None
        self._layout: pa.Schema | None = None
        self._temporary = ""

    def take(self, part: _Part) -> None:
        """Add a file's rows, or hold them back; all of them or none."""
        if part.version is None or not self.contract.accepts_version(part.version):
            self._hold(part, HELD_BACK)
            return
        resolution = resolve(part.schema, self.contract.reader_for(part.schema))
        wrong = next((each for each in resolution.incompatibilities if not each.value_level), None)
        if wrong is not None:
            self._hold(part, "cannot-read", wrong.path)
            return
        try:
            if not resolution.compatible:
                # Whether each row can be read is known only when all are: nothing of the file is written before.
                self._drain(part, resolution)
            for batch in self._read(part, resolution):
                self._write(batch)
                self.versions[part.version] = self.versions.get(part.version, 0) + batch.num_rows
        except ValueMismatch as error:
            self._hold(part, "cannot-read", error.path, error.row)

    def _drain(self, part: _Part, resolution: Resolution) -> None:
        for _ in self._read(part, resolution):
            pass

    def _read(self, part: _Part, resolution: Resolution) -> Iterator[pa.RecordBatch]:
        names = list(arrow_schema(resolution.writer, strict=False).names)
        offset = 0
        for batch in part.read():
            owned = batch.select(names)
            made = execute(resolution, owned, partial=True, row_offset=offset)
            yield self._with_about(part, owned, made)
            offset += batch.num_rows

    def _with_about(self, part: _Part, owned: pa.RecordBatch, made: pa.RecordBatch) -> pa.RecordBatch:
        count = made.num_rows
        if ABOUT in made.schema.names:
            raise ConfigError(
                f"the consumer has a field called {ABOUT}, which says where rows come from",
                where=self.contract.name,
                hint="leave the field out of the contract",
            )
        about = pa.StructArray.from_arrays(
            [
                pa.repeat(pa.scalar(part.version, pa.int32()), count),
                pa.repeat(pa.scalar(self.contract.result), count),
                self._events(owned, made),
                pa.repeat(pa.scalar(part.reason), count),
            ],
            fields=list(_ABOUT_TYPE),
        )
        return pa.RecordBatch.from_arrays([about, *made.columns], names=[ABOUT, *made.schema.names])

    def _events(self, owned: pa.RecordBatch, made: pa.RecordBatch) -> pa.Array:
        """Each row's event id as text: of what the consumer reads, or of what was written."""
        path = self.contract.event_id or "event_id"
        for batch in (made, owned):
            found = predicates.column(batch, path)
            if found is not None and not pa.types.is_nested(found.type):
                plain = canonical.normalise_array(found)
                if pa.types.is_binary(plain.type) or pa.types.is_fixed_size_binary(plain.type):
                    return pa.array([None if v is None else v.hex() for v in plain.to_pylist()], pa.string())
                return pc.cast(plain, pa.string())
        if self.contract.event_id is not None:
            raise ConfigError(
                f"the contract's event id {self.contract.event_id} is no field of the schema",
                where=self.contract.name,
                hint="name a field with one value per row",
            )
        return pa.nulls(made.num_rows, pa.string())

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._open(batch.schema)
        assert self._layout is not None
        if not batch.schema.equals(self._layout):
            raise ConfigError(
                "the consumer's fields have other types in another schema version",
                where=self.contract.name,
                hint="give the fields types in the contract, or give a reader schema",
            )
        self._writer.write_batch(batch)
        self.hash.update(batch)
        self.rows += batch.num_rows

    def _open(self, layout: pa.Schema) -> None:
        handle, self._temporary = tempfile.mkstemp(dir=self.folder, prefix=".rows.")
        os.close(handle)
        self._layout = layout
        about = {
            b"lakeevolve.contract": self.contract.name.encode(),
            b"lakeevolve.result": self.contract.result.encode(),
        }
        self._writer = pq.ParquetWriter(self._temporary, layout.with_metadata(about), compression="zstd")

    def _hold(self, part: _Part, verdict: str, path: str = "", row: int | None = None) -> None:
        rows = sum(batch.num_rows for batch in part.read())
        self.held.append(Held(public_path(part.source), part.version, rows, verdict, path, row))

    def finish(self) -> ReplayOutput:
        target = self.folder / "rows.parquet"
        if self._writer is not None:
            self._writer.close()
            os.replace(self._temporary, target)
            self._writer = None
        else:
            target.unlink(missing_ok=True)
        held = sorted(self.held, key=lambda each: (each.version or 0, each.source))
        text = json.dumps({"contract": self.contract.name, "held": [each.to_json() for each in held]}, indent=1)
        quarantine = self.folder / "quarantine.json"
        partial = self.folder / ".quarantine.json"
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, quarantine)
        return ReplayOutput(
            self.folder,
            self.contract.name,
            self.contract.result,
            self.rows,
            dict(sorted(self.versions.items())),
            tuple(held),
            json_digest({"rows": self.hash.hex, "result": self.contract.result}),
        )

    def abandon(self) -> None:
        """Leave nothing half-written behind."""
        if self._writer is not None:
            self._writer.close()
            Path(self._temporary).unlink(missing_ok=True)
            self._writer = None
