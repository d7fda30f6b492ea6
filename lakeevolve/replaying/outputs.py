"""Where the results of a projection go: a folder, a Parquet file or a table. All of them appear at once, or none.

What stands there already is replaced only if it came from the same contract.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.errors import ConfigError, TableNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import NULL, Field, Primitive, Record, Union
from lakeevolve.redaction import public_uri
from lakeevolve.rules.contract import Contract
from lakeevolve.tables import open_table

#: The column that says where a row comes from.
ABOUT: Final = "lakeevolve"

ABOUT_TYPE: Final = pa.struct(
    [
        pa.field("input_schema_version", pa.int32(), nullable=False),
        pa.field("result_version", pa.string(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

#: What a Parquet file says of itself.
CONTRACT: Final = b"lakeevolve.contract"
RESULT: Final = b"lakeevolve.result"

#: In a folder: the rows, and the list of what is held back.
ROWS: Final = "rows.parquet"
INDEX: Final = "quarantine.json"

_TABLES: Final = ("iceberg:", "delta:")


class Output(Protocol):
    """Rows on their way. Nothing is to be seen of them before ``finish``."""

    #: The folder for what is held back, unless another is named; None: one has to be named.
    @property
    def beside(self) -> Path | None: ...

    def write(self, batch: pa.RecordBatch) -> None: ...

    def finish(self, reader: Schema | None) -> None:
        """Put the rows where they go. *reader* is the schema that they were read with; None: there are no rows."""
        ...

    def abandon(self) -> None:
        """Leave nothing half-written behind."""
        ...


def open_output(out: str | Path, contract: Contract, options: Mapping[str, Any]) -> Output:
    """What *out* names: ``iceberg:`` and ``delta:`` a table, a path that ends in ``.parquet`` a file, any other a
    folder.

    Raises ``ConfigError`` where something else stands there, or where it cannot be written.
    """
    text = str(out)
    if not text.strip():
        raise ConfigError("the output has no name", hint="give a folder, a file.parquet or a table's URI")
    if text.startswith(_TABLES):
        return _Table(text, contract, options)
    return _File(Path(text), contract)


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into an error of ours."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"the results cannot be written: {error.strerror or type(error).__name__}",
            where=str(path),
            hint="choose a writable path",
        ) from error


class _Rows:
    """A Parquet file that is being written under a name of its own."""

    def __init__(self, folder: Path, contract: Contract) -> None:
        self._folder, self._contract = folder, contract
        self._writer: Any = None
        self._path: Path | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            with writable(self._folder):
                handle, name = tempfile.mkstemp(dir=self._folder, prefix=".rows.")
                os.close(handle)
                # Temporary files are for their owner alone; what becomes of this one is for whoever may read a file.
                mask = os.umask(0)
                os.umask(mask)
                Path(name).chmod(0o666 & ~mask)
            self._path = Path(name)
            about = {CONTRACT: self._contract.name.encode(), RESULT: self._contract.result.encode()}
            self._writer = pq.ParquetWriter(name, batch.schema.with_metadata(about), compression="zstd")
        elif not batch.schema.equals(self._writer.schema):
            raise ConfigError(
                "the consumer's fields have other types in another schema version",
                where=self._contract.name,
                hint="give the fields types in the contract, or give a reader schema",
            )
        with writable(self._folder):
            self._writer.write_batch(batch)

    def close(self) -> Path | None:
        """The finished file; None where there are no rows."""
        if self._writer is not None:
            with writable(self._folder):
                self._writer.close()
        return self._path

    def drop(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class _File:
    """A Parquet file, by itself or in a folder of its own."""

    def __init__(self, path: Path, contract: Contract) -> None:
        alone = path.suffix == ".parquet"
        self._target = path if alone else path / ROWS
        self._made = not self._target.parent.exists()
        with writable(path):
            if alone and path.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            if not alone and path.exists() and not path.is_dir():
                raise NotADirectoryError(0, "a file is in the way")
            self._target.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(self._target.parent, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        if self._target.exists():
            _same_contract(self._target, contract)
        self.beside: Path | None = path.with_suffix(".quarantine") if alone else path
        self._rows = _Rows(self._target.parent, contract)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch)

    def finish(self, reader: Schema | None) -> None:
        made = self._rows.close()
        with writable(self._target):
            if made is None:
                self._target.unlink(missing_ok=True)
            else:
                os.replace(made, self._target)

    def abandon(self) -> None:
        self._rows.drop()
        if self._made:
            with suppress(OSError):
                self._target.parent.rmdir()


def _same_contract(path: Path, contract: Contract) -> None:
    try:
        held = pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowException):
        held = {}
    if held.get(CONTRACT) != contract.name.encode():
        raise ConfigError(
            f"the file holds something else than results for {contract.name}", where=str(path), hint="choose a new path"
        )


class _Table:
    """A table that holds the results and nothing else; each projection replaces them in one commit."""

    def __init__(self, uri: str, contract: Contract, options: Mapping[str, Any]) -> None:
        self.beside: Path | None = None
        self._uri, self._contract, self._options = uri, contract, options
        try:
            self._there: Any = open_table(uri, **options)
        except TableNotFound:
            self._there = None
        if self._there is not None:
            self._held(self._there.schema)
        self._folder = tempfile.TemporaryDirectory(prefix="lakeevolve-")
        self._rows = _Rows(Path(self._folder.name), contract)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch)

    def finish(self, reader: Schema | None) -> None:
        made = self._rows.close()
        try:
            if reader is None and self._there is None:
                return
            if self._there is None or reader is not None:
                assert reader is not None
                self._put(results_schema(reader, self._contract), made)
            else:
                self._put(self._there.schema, None)
        finally:
            self._folder.cleanup()

    def _put(self, schema: Schema, made: Path | None) -> None:
        format_ = f"lakeevolve.tables.{self._uri.partition(':')[0]}"
        if self._there is None:
            importlib.import_module(format_).create_table(self._uri, schema, mark=True, **self._options)
        elif self._there.schema.digest != schema.digest:
            raise ConfigError(
                f"the table holds results that {self._contract.name} had with other fields",
                where=public_uri(self._uri),
                hint="choose a new table for the new fields",
            )
        replace = importlib.import_module(f"{format_}.replace").replace
        if made is None:
            none = pa.RecordBatchReader.from_batches(arrow_schema(schema, strict=False), [])
            replace(self._uri, none, **self._options)
            return
        with pq.ParquetFile(made) as file:
            rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            replace(self._uri, rows, **self._options)

    def _held(self, schema: Schema) -> None:
        if schema.record.props.get("lakeevolve.contract") != self._contract.name:
            raise ConfigError(
                f"the table holds something else than results for {self._contract.name}",
                where=public_uri(self._uri),
                hint="choose a new table",
            )

    def abandon(self) -> None:
        self._rows.drop()
        self._folder.cleanup()


def results_schema(reader: Schema, contract: Contract) -> Schema:
    """The schema of a table of results: where each row comes from, then what the consumer reads."""
    text = Primitive("string")
    about = Record(
        "lakeevolve.results.About",
        (
            Field("input_schema_version", Primitive("int")),
            Field("result_version", text),
            Field("event_id", Union((NULL, text))),
            Field("reason", text),
        ),
    )
    props = {"lakeevolve.contract": contract.name, "lakeevolve.result": contract.result}
    fields = (Field(ABOUT, about), *reader.record.fields)
    return Schema(Record("lakeevolve.results.Row", fields, props=props))
