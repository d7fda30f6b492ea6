"""What the table's own reader (delta-rs with DataFusion) gives, for the live table and for one that is to be."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from lakeevolve.errors import LakeEvolveError, TableError
from lakeevolve.model import path as paths
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Enum, Field, Fixed, Primitive, without_null
from lakeevolve.tables.base import Predicate
from lakeevolve.tables.delta.log import Add, Metadata, Protocol
from lakeevolve.tables.delta.project import align, canonical, positions
from lakeevolve.tables.delta.raw import Layout, absolute_vector
from lakeevolve.tables.delta.schema import delta_type
from lakeevolve.tables.delta.store import Address, guard
from lakeevolve.tables.delta.types import Struct, decimal_of, struct_json

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pa_fs
    from deltalake import DeltaTable


def read_table(
    table: DeltaTable,
    layout: Layout,
    condition: str | None = None,
    names: Sequence[str] | None = None,
    filled: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows that delta-rs gives, in no particular order, laid out as asked; the columns of these names, or all.

    ``filled`` are columns whose NULLs an update is yet to fill, with the SQL of what they are filled with.
    """
    import pyarrow as pa

    if names is not None:
        layout = layout.only(names)
    columns, schema = layout.columns(), layout.schema()
    chosen = None if names is None else [column.name for column, _ in columns]
    with guard(layout.where, "delta-rs cannot read the table"):
        if filled:
            reader = pa.RecordBatchReader.from_stream(_as_filled(table, chosen, condition, filled))
        else:
            reader = pa.RecordBatchReader.from_stream(table.scan(chosen, condition))
        have = list(reader.schema)
        place = positions(Struct(tuple(c for c, _ in columns)), have, "name")
        for batch in reader:
            arrays = []
            for (column, avro), target in zip(columns, schema.types, strict=True):
                at = place[column.name]
                array = pa.nulls(batch.num_rows) if at is None else align(batch.column(at), column.type, "name")
                made = canonical(array, column, avro, paths.child("", column.name), layout.where)
                arrays.append(made if made.type == target else made.cast(target))
            if batch.num_rows:
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_filled(
    table: DeltaTable, chosen: Sequence[str] | None, condition: str | None, filled: Mapping[str, str]
) -> Any:
    """The table as it reads once an update has filled its new columns."""
    from deltalake import QueryBuilder

    names = [column.name for column in table.schema().fields]
    parts = ", ".join(
        f"{fill(name, filled[name])} AS {identifier(name)}" if name in filled else identifier(name) for name in names
    )
    outer = "*" if chosen is None else ", ".join(map(identifier, chosen))
    where = "" if condition is None else f" WHERE {condition}"
    query = f"SELECT {outer} FROM (SELECT {parts} FROM {identifier(_TABLE)}){where}"
    return QueryBuilder().register(_TABLE, table).execute(query)


def fill(name: str, value: str) -> str:
    """The SQL of a column that has a value wherever it had none."""
    # Not COALESCE: DataFusion finds no common type of binary and the view of it that delta-rs reads.
    return f"CASE WHEN {identifier(name)} IS NULL THEN {value} ELSE {identifier(name)} END"


def literal_of(field: Field) -> str | None:
    """A field's default as DataFusion SQL; None for a type that no plain literal has."""
    import pyarrow as pa

    from lakeevolve.avro.arrow import arrow_type
    from lakeevolve.avro.defaults import default_value

    bare = without_null(field.type)
    if not isinstance(bare, (Primitive, Fixed, Enum)):
        return None
    try:
        value = pa.scalar(default_value(field.type, field.default), arrow_type(field.type, strict=False)).as_py()
    except LakeEvolveError:
        return None  # no default of that type, which is said elsewhere
    return None if value is None else _literal(value, bare)


_TABLE: Final = "updated"

#: The only table properties that say how to read.
_MAPPING: Final = "delta.columnMapping."

#: Where scratches lie in an object store, beneath the table.
_SCRATCH: Final = "_lakeevolve/scratch"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A log of its own, whose files are those of a table; see :func:`scratch`."""

    address: Address
    fs: pa_fs.FileSystem
    folder: str

    def open(self) -> DeltaTable:
        local = self.address.local
        return self.address.open_other(self.folder if local is not None else f"{self.address.root}{self.folder}")

    def close(self) -> tuple[str, ...]:
        """Take it away; what a store would not delete is returned."""
        if self.address.local is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            return ()
        try:
            self.fs.delete_file(_first(self.folder))
            _sweep(self.fs, self.folder)
        except OSError:
            # Whatever it was made for goes on, or fails with an error of its own that says more.
            return (_first(self.folder),)
        return ()


def scratch(
    address: Address, fs: pa_fs.FileSystem, protocol: Protocol, metadata: Metadata, adds: Iterable[Add]
) -> Scratch:
    """A table that nobody sees: the given schema over files that stay where they are.

    On a local disk it lies in a temporary folder; in an object store beneath the table, where delta-rs and Spark look
    for no data (the name begins with ``_``), since a store may hold files of its own bucket alone.
    """
    lines = (_line(action) for action in _actions(address, protocol, metadata, adds))
    text = b"".join(lines)
    if address.local is not None:
        made = Scratch(address, fs, tempfile.mkdtemp(prefix="lakeevolve-"))
        try:
            log = Path(made.folder) / "_delta_log"
            log.mkdir()
            Path(_first(made.folder)).write_bytes(text)
        except BaseException:
            made.close()
            raise
        return made
    made = Scratch(address, fs, f"{_SCRATCH}/{uuid4().hex}")
    try:
        with fs.open_output_stream(_first(made.folder)) as stream:
            stream.write(text)
    except OSError as error:
        raise TableError(
            "nothing can be written beneath the table", where=address.uri, hint="check the permissions of the store"
        ) from error
    return made


def _sweep(fs: pa_fs.FileSystem, folder: str) -> None:
    """Take away the folders that a deleted scratch leaves in a store that has real ones: empty, they are listed as
    objects of no bytes."""
    import pyarrow.fs as pa_fs

    below = pa_fs.FileSelector(_SCRATCH.partition("/")[0], allow_not_found=True, recursive=True)
    for place in (f"{folder}/_delta_log", folder, *(_SCRATCH.rsplit("/", n)[0] for n in range(2))):
        listed = {i.path: i.size for i in fs.get_file_info(below) if i.type is pa_fs.FileType.File}
        if listed.get(place) != 0:
            return
        try:
            fs.delete_file(place)
        except OSError:
            # Another scratch came into it meanwhile, and takes it away in turn.
            return


def _line(action: Mapping[str, Any]) -> bytes:
    """One line of a log. Text stands in it as it is: of characters from U+100000 on that are written as escapes,
    delta-rs 1.6 reads others, and statistics that do not hold the file's values."""
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _first(folder: str) -> str:
    return f"{folder}/_delta_log/{0:020d}.json"


def _actions(address: Address, protocol: Protocol, metadata: Metadata, adds: Iterable[Add]) -> Iterator[dict[str, Any]]:
    yield {"protocol": protocol.to_json()}
    yield {
        "metaData": {
            "id": metadata.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(struct_json(metadata.struct), ensure_ascii=False),
            "partitionColumns": list(metadata.partition_columns),
            "configuration": {k: v for k, v in metadata.configuration.items() if k.startswith(_MAPPING)},
            "createdTime": metadata.created or 0,
        }
    }
    for add in adds:
        vector = absolute_vector(add.vector, address.root) if add.vector else None
        absolute = add.path if "://" in add.path else address.root + add.path
        yield {"add": replace(add, path=absolute, vector=vector).to_json()}


def sql(predicate: Predicate, schema: Schema, where: str) -> str:
    """A predicate as DataFusion SQL.

    Raises ``TableError`` for a path that no column of the schema has, or that leads into a list or a map.
    """
    type_ = find_type(schema.root, predicate.path)
    parts = paths.parts(predicate.path)
    if type_ is None or not parts or paths.ITEMS in parts or paths.VALUES in parts:
        raise TableError(
            "no filter can be put on this path",
            where=f"{where}, {predicate.path or '$'}",
            hint="filter on a column that is in no list or map",
        )
    column = identifier(parts[0])
    for part in parts[1:]:
        column += f"[{_text(part[1:-1] if part.startswith('<') else part)}]"
    match predicate.op:
        case "is null":
            return f"{column} IS NULL"
        case "in":
            return f"{column} IN ({', '.join(_literal(v, type_) for v in predicate.value)})"
        case _:
            return f"{column} {predicate.op} {_literal(predicate.value, type_)}"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_CASTS: Final = {
    "integer": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "timestamp": 'Timestamp(Microsecond, Some("UTC"))',
    "timestamp_ntz": "Timestamp(Microsecond, None)",
}


def _literal(value: Any, type_: AvroType) -> str:
    bare = without_null(type_)
    kind = delta_type(bare)
    if not isinstance(kind, str):
        raise TableError("only leaf columns can be compared", hint="filter on a field of the struct")
    if value is None:
        return "NULL"
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind == "binary":
        return f"X'{bytes(value).hex()}'"
    if kind == "date":
        return f"arrow_cast({_text(_day(value))}, 'Date32')"
    decimal = decimal_of(kind)
    if decimal is not None:
        return f"arrow_cast({_text(format(Decimal(value), 'f'))}, 'Decimal128({decimal[0]}, {decimal[1]})')"
    if kind == "string":
        return _text(_uuid(value) if _is_uuid(bare) else str(value))
    return f"arrow_cast({_text(_number(value, kind, bare))}, '{_CASTS[kind]}')"


def _number(value: Any, kind: str, type_: AvroType) -> str:
    if kind in ("timestamp", "timestamp_ntz"):
        if kind == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC)
        return str(value.replace(tzinfo=None).isoformat()) + ("Z" if kind == "timestamp" else "")
    if isinstance(value, time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        millis = isinstance(type_, Primitive) and type_.logical is not None and type_.logical.name == "time-millis"
        return str(micros // 1000 if millis else micros)
    return repr(float(value)) if kind in ("float", "double") else str(int(value))


def _day(value: Any) -> str:
    day = value.date() if isinstance(value, datetime) else value
    return day.isoformat() if isinstance(day, date) else str(day)


def _is_uuid(type_: AvroType) -> bool:
    return isinstance(type_, (Primitive, Fixed)) and type_.logical is not None and type_.logical.name == "uuid"


def _uuid(value: Any) -> str:
    return str(UUID(bytes=bytes(value))) if isinstance(value, (bytes, bytearray)) else str(value)
