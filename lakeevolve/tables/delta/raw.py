"""A data file as pyarrow alone reads it, cut by its deletion vector, with the partition values that the log gives."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

from lakeevolve.errors import TableError, UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.types import AvroType, Record
from lakeevolve.redaction import without_secrets
from lakeevolve.tables.base import Stored
from lakeevolve.tables.batches import batch_rows
from lakeevolve.tables.delta.log import Metadata
from lakeevolve.tables.delta.project import By, align, canonical, loose, positions, restrict
from lakeevolve.tables.delta.store import unanswered
from lakeevolve.tables.delta.types import Column, DeltaType, Struct, arrow_type, decimal_of
from lakeevolve.tables.delta.unfit import first_unfit

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pa_fs

#: Without these, pyarrow holds the whole file (pre_buffer) or whole column chunks while it hands out batches.
_STREAMED: Final[Mapping[str, Any]] = {
    "pre_buffer": False,
    "buffer_size": 2**20,
    "coerce_int96_timestamp_unit": "us",
}

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are laid out: the Avro record that owns columns, the Delta schema, and the foreign columns.

    ``partition`` are the physical names of the partition columns: the logical ones change.
    """

    record: Record
    struct: Struct
    foreign: tuple[Column, ...]
    partition: frozenset[str]
    by: By
    where: str

    def columns(self) -> tuple[tuple[Column, Any], ...]:
        """Each column in the order of a batch, with its Avro type (None: foreign)."""
        owned = restrict(self.struct, self.record, self.where)
        assert isinstance(owned, Struct)
        inner = [(c, f.type) for c, f in zip(owned.columns, self.record.fields, strict=True)]
        return (*inner, *((c, None) for c in self.foreign))

    def only(self, names: Collection[str]) -> Layout:
        """The layout of the columns of these names alone."""
        fields = tuple(f for f in self.record.fields if f.name in names)
        foreign = tuple(c for c in self.foreign if c.name in names)
        return replace(self, record=replace(self.record, fields=fields), foreign=foreign)

    def schema(self) -> pa.Schema:
        """The Arrow schema of a batch."""
        import pyarrow as pa

        from lakeevolve.avro.arrow import arrow_type as canonical_type

        owned = [pa.field(f.name, canonical_type(f.type, strict=False)) for f in self.record.fields]
        return pa.schema([*owned, *(pa.field(c.name, loose(arrow_type(c.type, c.name))) for c in self.foreign)])


def read_file(
    fs: pa_fs.FileSystem, path: str, layout: Layout, values: Mapping[str, str | None], keep: pa.Array | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one Parquet file in file order.

    Parameters
    ----------
    fs, path:
        Where the file is.
    layout:
        What to make of it.
    values:
        The file's partition values as the log writes them, by physical name.
    keep:
        For each row, whether it is kept; rows past its end are.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, schema = layout.columns(), layout.schema()
    constants = {
        c.name: partition_value(values.get(c.physical), c, layout.where)
        for c, _ in columns
        if c.physical in layout.partition
    }
    row = seen = 0
    try:
        with pq.ParquetFile(fs.open_input_file(path), **_STREAMED) as file:
            have = list(file.schema_arrow)
            place = positions(Struct(tuple(c for c, _ in columns)), have, layout.by)
            chosen = _chosen(have, place)
            names = [have[i].name for i in chosen] if len(chosen) < len(have) else None
            for batch in file.iter_batches(batch_size=batch_rows(file.metadata), columns=names):
                start, row = row, row + batch.num_rows
                kept = batch if keep is None else batch.filter(_window(keep, start, batch.num_rows))
                arrays = []
                for (column, avro), target in zip(columns, schema.types, strict=True):
                    at = place[column.name]
                    if column.name in constants:
                        array = constants[column.name]
                        array = pa.repeat(array, kept.num_rows) if array.is_valid else pa.nulls(kept.num_rows)
                    elif at is None:
                        array = pa.nulls(kept.num_rows)
                    else:
                        array = align(kept.column(chosen.index(at)), column.type, layout.by, have[at])
                    made = _converted(array, column, avro, f"{layout.where}, {path}", seen)
                    arrays.append(made if made.type == target else made.cast(target))
                seen += kept.num_rows
                if kept.num_rows:
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except FileNotFoundError as error:
        raise TableError(
            "a data file that the table lists is missing",
            where=f"{layout.where}, {path}",
            hint="it was deleted behind the table's back: restore it, or repair the table with FSCK",
        ) from error
    except (OSError, pa.ArrowException) as error:
        told = "a data file cannot be read"
        raise unanswered(error, layout.where, told) or TableError(
            told, where=f"{layout.where}, {path}", hint="it may be damaged, or not be Parquet"
        ) from without_secrets(error)


def _converted(array: pa.Array, column: Column, avro: AvroType | None, where: str, before: int) -> pa.Array:
    """The column in the layout that rows travel in; an error names the file and the row, of which *before* came before
    these."""
    here = paths.child("", column.name)
    try:
        return canonical(array, column, avro, here, where)
    except TableError as error:
        row, alone = first_unfit(
            lambda start, count: canonical(array.slice(start, count), column, avro, here, where), len(array), error
        )
        place = (alone.where or "").removeprefix(f"{where}, ")
        raise TableError(alone.what, where=f"{where}, row {before + row}, {place}", hint=alone.hint) from error


def _chosen(have: Sequence[pa.Field], place: Mapping[str, int | None]) -> list[int]:
    """The fields of a file to read: those that are wanted, or all where pyarrow could mistake one name for another."""
    wanted = sorted({at for at in place.values() if at is not None}) or [0]
    names = [field.name for field in have]
    clear = not any("." in name for name in names) and len(set(names)) == len(names)
    return wanted if clear else list(range(len(have)))


def _window(keep: pa.Array, start: int, rows: int) -> pa.Array:
    import pyarrow as pa

    part = keep.slice(start, rows)
    return pa.concat_arrays([part, pa.repeat(pa.scalar(True), rows - len(part))]) if len(part) < rows else part


def footer(fs: pa_fs.FileSystem, path: str, where: str) -> tuple[pa.Schema, int]:
    """The Arrow schema and the number of rows that a file's footer says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(fs.open_input_file(path), **_STREAMED) as file:
            return file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        told = "a data file cannot be read"
        raise unanswered(error, where, told) or TableError(
            told, where=f"{where}, {path}", hint="it was deleted behind the table's back, or is damaged"
        ) from without_secrets(error)


def stored(fs: pa_fs.FileSystem, path: str, where: str) -> Stored:
    """What lies where the log lists a file; see :class:`lakeevolve.tables.base.Stored`."""
    import pyarrow.fs as pa_fs

    info = fs.get_file_info(path)
    if info.type == pa_fs.FileType.NotFound:
        return Stored(None, None)
    try:
        return Stored(info.size, footer(fs, path, where)[1])
    except TableError:
        return Stored(info.size, None)


def partition_value(text: str | None, column: Column, where: str) -> pa.Scalar:
    """A partition value as the log writes it, typed (protocol, "Partition Value Serialization")."""
    import pyarrow as pa

    type_ = arrow_type(column.type, column.name)
    if text is None or text == "":
        return pa.scalar(None, type_)
    try:
        return pa.scalar(_parse(text, column.type), type_)
    except (ValueError, InvalidOperation, pa.ArrowException) as error:
        raise TableError(
            f"a partition value of {column.name} is no {column.type}", where=where, hint="repair the table's log"
        ) from error


def empty_values(metadata: Metadata, values: Mapping[str, str | None]) -> Mapping[str, str | bytes]:
    """The partition columns of text or bytes that the log gives an empty value, with that value.

    Null by the protocol, which leaves no way to say that a value is empty; delta-rs and Spark read an empty text, and
    delta-rs writes one so (delta-io/delta#7091).
    """
    if "" not in values.values():
        return {}
    columns = (c for c in metadata.struct.columns if c.name in metadata.partition_columns)
    empty: Mapping[object, str | bytes] = {"string": "", "binary": b""}
    return {c.name: empty[c.type] for c in columns if values.get(c.physical) == "" and c.type in empty}


def _parse(text: str, type_: DeltaType) -> Any:
    assert isinstance(type_, str)
    if decimal_of(type_):
        return Decimal(text)
    match type_:
        case "string":
            return text
        case "byte" | "short" | "integer" | "long":
            return int(text)
        case "float" | "double":
            return float(text)
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise ValueError("not a boolean")
            return text.lower() == "true"
        case "date":
            return date.fromisoformat(text)
        case "timestamp" | "timestamp_ntz":
            found = datetime.fromisoformat(text.replace("Z", "+00:00"))
            if type_ == "timestamp_ntz":
                return found.replace(tzinfo=None)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        case "binary":
            # What Spark writes, and every reader reads: the protocol's "escaped binary values" is otherwise open.
            return text.encode()
    raise ValueError("no partition type")


def relative(path: str, where: str) -> str:
    """The path of an ``add`` within the table, decoded.

    Raises ``UnsupportedTable`` for a file outside the table's folder (a shallow clone).
    """
    if ":" not in path and "%" not in path and not path.startswith("/"):
        return path
    parsed = urlparse(path)
    if parsed.scheme or path.startswith("/"):
        raise UnsupportedTable(
            "the table has data files outside its own folder (a shallow clone)",
            where=where,
            hint="make a full copy of the table first",
        )
    return unquote(path)


def absolute_vector(vector: Mapping[str, Any], root: str) -> dict[str, Any]:
    """A deletion vector's descriptor that does not depend on where the log lies.

    ``root`` is the table's address with a slash at its end (protocol, "Deletion Vector Descriptor Schema").
    """
    if vector["storageType"] != "u":
        return dict(vector)
    text = vector["pathOrInlineDv"]
    prefix, packed = text[:-20], text[-20:]
    name = uuid.UUID(bytes=base64.b85decode(packed.translate(str.maketrans(_Z85, _B85))))
    folder = f"{prefix}/" if prefix else ""
    return {**vector, "storageType": "p", "pathOrInlineDv": f"{root}{folder}deletion_vector_{name}.bin"}
