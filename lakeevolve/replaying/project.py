"""Versioned results for one consumer: rows of a table or of Avro files as its contract reads them.

Each row says which schema version it came from and which version of the results it belongs to. Rows of a version that
the contract does not list are held back: none of them is in the results, and the quarantine says so. The same source
and contract give the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import arrow_schema, execute
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import ConfigError, SourceNotFound, ValueMismatch
from lakeevolve.model.digest import json_digest
from lakeevolve.model.find import find_field
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Record
from lakeevolve.redaction import public_path, public_uri
from lakeevolve.replaying import canonical, predicates
from lakeevolve.replaying.filehash import FileHash
from lakeevolve.replaying.outputs import ABOUT, ABOUT_TYPE, Output, open_output
from lakeevolve.replaying.quarantine import Held, Quarantine, place
from lakeevolve.rules.contract import CANNOT_READ, HELD_BACK, UPDATE_REQUIRED, Contract, load_contract
from lakeevolve.rules.findings import Finding, by_weight
from lakeevolve.tables import is_table, open_table
from lakeevolve.tables.base import DataFile, Table

Reason = Literal["live", "historical"]


@dataclass(frozen=True, slots=True)
class ReplayOutput:
    """What a consumer gets, and what is held back from it.

    Parameters
    ----------
    out:
        Where the results are: a folder (``rows.parquet`` in it), a file or a table's URI.
    quarantine:
        The file that lists what is held back.
    rows:
        How many rows are in the results.
    versions:
        How many of them came from each schema version.
    held:
        What is held back, file by file.
    digest:
        SHA-256 over the rows in their order.
    """

    out: Path | str
    quarantine: Path
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

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is held back, by schema version and reason."""
        found = []
        for version, verdict, path in sorted(
            {(each.version, each.verdict, each.path) for each in self.held}, key=lambda key: (key[0] or 0, *key[1:])
        ):
            these = [each for each in self.held if (each.version, each.verdict, each.path) == (version, verdict, path)]
            rows = sum(each.rows for each in these)
            written = "an unknown version" if version is None else f"version {version}"
            files = "1 file" if len(these) == 1 else f"{len(these):,} files"
            row = "row" if rows == 1 else "rows"
            message = f"{rows:,} {row} of {written} in {files} held back from {self.contract}: {verdict}"
            rule = UPDATE_REQUIRED if verdict == HELD_BACK else CANNOT_READ
            versions = () if version is None else (version,)
            found.append(
                rule.finding(path, written, written, message, versions=versions, subject=public_uri(str(self.out)))
            )
        return tuple(sorted(found, key=by_weight))

    def to_json(self) -> dict[str, Any]:
        return {
            "out": public_uri(str(self.out)),
            "quarantine": str(self.quarantine),
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
    reason: Reason
    read: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Source:
    """What is projected: the schema versions that are known, oldest first, and the files."""

    versions: Sequence[Schema]
    parts: Iterator[_Part]


def project(
    source: Any,
    contract: Any,
    out: str | Path,
    *,
    history: Sequence[Any] = (),
    since: int | None = None,
    quarantine: str | Path | None = None,
    keep_days: int | None = None,
    options: Mapping[str, Any] | None = None,
    today: date | None = None,
) -> ReplayOutput:
    """Write the rows of a source as a contract's consumer reads them.

    Parameters
    ----------
    source:
        An open table or its URI; or an Avro container file, a folder of them, or a list of them.
    contract:
        A contract, or its file.
    out:
        Where to: a folder (the rows are ``rows.parquet`` in it), a file that ends in ``.parquet``, or the URI of an
        Iceberg or Delta table, which is made where there is none. What an earlier run for this contract left there is
        replaced. The rows hold the consumer's fields, and in the column ``lakeevolve`` the ``input_schema_version``,
        ``result_version``, ``event_id`` and ``reason`` of each: ``live`` for rows of the newest schema version,
        ``historical`` for those of earlier ones.
    history:
        For Avro files: the schema versions, oldest first; a folder of versions stands for all in it. A file's version
        is the one whose schema it was written with.
    since:
        Leave out rows of schema versions before this one.
    quarantine:
        The folder for rows that are held back, and their list ``quarantine.json``. By default beside the results; for
        a table it has to be named.
    keep_days:
        How many days rows are kept there. None: until the consumer may have them.
    options:
        What a table that is written to needs to be opened with, as for :func:`lakeevolve.open_table`.
    today:
        The day that retention is counted from; by default today in UTC.

    Raises
    ------
    ConfigError
        The contract is none, or names a field that a schema has not; or something else stands where the results go.
    SourceError
        The source cannot be read, or has no such version.

    Examples
    --------
    >>> project("delta:tables/orders", "contracts/billing.yaml", "out/billing").rows  # doctest: +SKIP
    4000
    """
    wanted = load_contract(contract)
    given = _source(source, history, since)
    output = open_output(out, wanted, options or {})
    writer = None
    try:
        index, folder = place(quarantine, output.beside, str(out))
        writer = _Writer(wanted, output, Quarantine(index, folder, wanted, keep_days, today), given.versions)
        for part in given.parts:
            writer.take(part)
        held = writer.finish(always=quarantine is None and output.beside is not None and folder != index.parent)
    except BaseException:
        output.abandon()
        if writer is not None:
            writer.quarantine.abandon()
        raise
    return ReplayOutput(
        str(out) if is_table(str(out)) else Path(out),
        index,
        wanted.name,
        wanted.result,
        writer.rows,
        dict(sorted(writer.versions.items())),
        held,
        json_digest({"rows": writer.hash.hex, "result": wanted.result}),
    )


# --- sources ------------------------------------------------------------------------------------------------------


def _source(source: Any, history: Sequence[Any], since: int | None) -> _Source:
    if isinstance(source, str) and is_table(source):
        source = open_table(source)
    if hasattr(source, "files") and hasattr(source, "history"):
        if history:
            raise ConfigError("a table knows its schema versions", where=source.uri, hint="leave the history out")
        versions = source.history()
        schemas = [version.schema for version in versions]
        return _Source(schemas, _table(source, schemas, _first(since, len(schemas), source.uri)))
    known = _schemas(history)
    files = list(_containers(source))
    return _Source(known, _avro(files, known, _first(since, len(known), str(files[0].parent))))


def _first(since: int | None, newest: int, where: str) -> int:
    if since is not None and not 1 <= since <= newest:
        raise SourceNotFound(
            f"there is no schema version {since}",
            where=public_uri(where),
            hint=f"versions are 1 to {newest}" if newest else "give the schema versions: --history, or history=[...]",
        )
    return since or 1


def _schemas(history: Any) -> list[Schema]:
    from lakeevolve.sources import expand, load

    given = [history] if isinstance(history, str | Path) else history
    return [load(version, lenient=True) for each in given for version in expand(each)]


def _table(table: Table, versions: Sequence[Schema], first: int) -> Iterator[_Part]:
    for file in sorted(table.files(), key=lambda each: (each.version, each.path)):
        if file.version >= first:
            reason: Reason = "live" if file.version == len(versions) else "historical"
            yield _Part(file.path, file.version, versions[file.version - 1], reason, _raw(table, file))


def _raw(table: Table, file: DataFile) -> Any:
    return lambda: table.raw(file)


def _containers(source: Any) -> Iterator[Path]:
    given: Iterable[Any] = [source] if isinstance(source, str | Path) else source
    for each in given:
        path = Path(str(each).removeprefix("avro:"))
        if path.is_dir():
            files = sorted(path.glob("*.avro"))
            if not files:
                raise SourceNotFound("the folder holds no Avro file", where=str(path), hint="Avro files are *.avro")
            yield from files
        elif path.is_file():
            yield path
        else:
            raise SourceNotFound("there is no such file", where=str(path), hint="give a table's URI or Avro files")


def _avro(files: Sequence[Path], known: Sequence[Schema], first: int) -> Iterator[_Part]:
    from lakeevolve.avro.container import read_avro, read_header

    for path in files:
        schema = read_header(path).schema
        number = next((at for at, each in enumerate(known, 1) if each.digest == schema.digest), None)
        if number is None or number >= first:
            reason: Reason = "live" if number is not None and number == len(known) else "historical"
            yield _Part(path.name, number, schema, reason, lambda path=path: read_avro(path))


# --- results ------------------------------------------------------------------------------------------------------


class _Writer:
    """One projection while it runs."""

    def __init__(self, contract: Contract, output: Output, quarantine: Quarantine, versions: Sequence[Schema]) -> None:
        self.contract, self.output, self.quarantine = contract, output, quarantine
        self.rows = 0
        self.versions: dict[int, int] = {}
        self.hash = FileHash()
        self._reader = _reader(contract, versions)
        self._read: Schema | None = None

    def take(self, part: _Part) -> None:
        """Add a file's rows, or hold them back; all of them or none."""
        self.quarantine.saw(part.source)
        if part.version is None or not self.contract.accepts_version(part.version):
            self._hold(part, HELD_BACK)
            return
        resolution = resolve(part.schema, self._reader)
        wrong = next((each for each in resolution.incompatibilities if not each.value_level), None)
        if wrong is not None:
            self._hold(part, "cannot-read", wrong.path)
            return
        try:
            if not resolution.compatible:
                # Whether each row can be read is known only when all are: nothing of the file is written before.
                for _ in self._rows(part, resolution):
                    pass
            for batch in self._rows(part, resolution):
                self._write(batch)
                self.versions[part.version] = self.versions.get(part.version, 0) + batch.num_rows
        except ValueMismatch as error:
            self._hold(part, "cannot-read", error.path, error.row)

    def _rows(self, part: _Part, resolution: Resolution) -> Iterator[pa.RecordBatch]:
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
            fields=list(ABOUT_TYPE),
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
        self._read = self._reader
        self.output.write(batch)
        self.hash.update(batch)
        self.rows += batch.num_rows

    def _hold(self, part: _Part, verdict: str, path: str = "", row: int | None = None) -> None:
        held = Held(public_path(part.source), part.version, 0, verdict, path, row)
        self.quarantine.hold(held, part.source, part.read())

    def finish(self, *, always: bool) -> tuple[Held, ...]:
        """What is held back comes first: rows may be in the quarantine and the results, but never in neither."""
        held = self.quarantine.finish(always=always)
        self.output.finish(self._read)
        return held


def _reader(contract: Contract, versions: Sequence[Schema]) -> Schema:
    """What the consumer reads with: its own schema, or that of its fields in the newest version that it accepts."""
    accepted = [each for number, each in enumerate(versions, 1) if contract.accepts_version(number)]
    if contract.reader is None and accepted:
        there = [each for each in accepted if all(find_field(each.root, f.path) is not None for f in contract.fields)]
        return contract.reader_for((there or accepted)[-1])
    if contract.reader is None:
        # No version is accepted, so nothing is read.
        return Schema(Record("Nothing", ()))
    return contract.reader
