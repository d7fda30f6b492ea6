"""The schema of Arrow and Parquet files: ``arrow:file`` (Arrow IPC, Feather or Parquet) and ``parquet:file-or-folder``.

Such a file has no Avro names: records are named by their paths. A nullable field becomes ``["null", T]``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.avro.parse import parse
from lakeevolve.errors import SourceError, SourceNotFound
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.redaction import without_secrets

if TYPE_CHECKING:
    import pyarrow as pa

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TIMESTAMPS: Final = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}
_TIMES: Final = {"s": ("int", "time-millis"), "ms": ("int", "time-millis"), "us": ("long", "time-micros")}


def read_arrow(path: str, *, lenient: bool = False) -> Schema:
    """The schema of an Arrow IPC, Feather or Parquet file; *lenient* changes nothing."""
    return _schema(Path(path), f"arrow:{path}", _either)


def read_parquet(path: str, *, lenient: bool = False) -> Schema:
    """The schema of a Parquet file, or of the newest file of a folder whose files all have one schema."""
    place = Path(path)
    if not place.is_dir():
        return _schema(place, f"parquet:{path}", _parquet)
    files = sorted(each for each in place.rglob("*.parquet") if not each.name.startswith((".", "_")))
    if not files:
        raise SourceNotFound("the folder holds no Parquet file", where=f"parquet:{path}", hint="check the path")
    found: dict[str, tuple[Schema, Path]] = {}
    for file in files:
        schema = _schema(file, f"parquet:{path}", _parquet)
        found.setdefault(schema.digest, (schema, file))
    if len(found) > 1:
        (_, one), (_, other), *_ = found.values()
        raise SourceError(
            f"the files of the folder have {len(found)} schemas",
            where=f"{one} and {other}",
            hint="name one file: parquet:FILE",
        )
    return next(iter(found.values()))[0]


def schema_of_arrow(schema: pa.Schema, name: str = "Row", source: str | None = None) -> Schema:
    """The Avro schema whose rows an Arrow schema holds.

    Raises ``SourceError`` where a type has no counterpart, with its path.
    """
    fields = [_field(field, paths.ROOT, name, source) for field in schema]
    return parse({"type": "record", "name": name, "fields": fields}, source_name=source)


def _schema(path: Path, source: str, read: Any) -> Schema:
    import pyarrow as pa

    try:
        found = read(path)
    except FileNotFoundError as error:
        raise SourceNotFound("there is no such file", where=source, hint="check the path") from without_secrets(error)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            "the file is neither Arrow nor Parquet, or it is damaged", where=source, hint="check the file"
        ) from without_secrets(error)
    name = re.sub(r"\W", "_", path.stem)
    return schema_of_arrow(found, name if _NAME.match(name) else "Row", source)


def _parquet(path: Path) -> pa.Schema:
    import pyarrow.parquet as pq

    return pq.read_schema(path)


def _either(path: Path) -> pa.Schema:
    import pyarrow as pa

    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return _parquet(path)
    with pa.memory_map(str(path)) as source:
        try:
            return pa.ipc.open_file(source).schema
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).schema


def _field(field: pa.Field, above: str, owner: str, source: str | None) -> dict[str, Any]:
    if not _NAME.match(field.name):
        raise SourceError(
            f"the column {field.name!r} has no name that Avro allows",
            where=source,
            hint="rename it, or name a schema file",
        )
    path = paths.child(above, field.name)
    type_ = _type(field.type, path, f"{owner}_{field.name}", source)
    return (
        {"name": field.name, "type": ["null", type_], "default": None}
        if field.nullable
        else {"name": field.name, "type": type_}
    )


def _type(type_: pa.DataType, path: str, name: str, source: str | None) -> Any:
    import pyarrow as pa

    t = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        if type_.extension_name == "arrow.uuid":
            return {"type": "string", "logicalType": "uuid"}
        return _type(type_.storage_type, path, name, source)
    if t.is_dictionary(type_):
        return _type(type_.value_type, path, name, source)
    if t.is_struct(type_):
        fields = [_field(field, path, name, source) for field in type_]
        return {"type": "record", "name": name, "fields": fields}
    if t.is_map(type_):
        if not _is_text(type_.key_type):
            raise _refused(path, f"a map with keys of the type {type_.key_type}", source)
        return {"type": "map", "values": _inside(type_.item_field, paths.values(path), name, source)}
    if hasattr(type_, "value_field"):
        return {"type": "array", "items": _inside(type_.value_field, paths.items(path), name, source)}
    found = _scalar(type_)
    if found is None:
        raise _refused(path, f"the type {type_}", source)
    return found


def _inside(field: pa.Field, path: str, name: str, source: str | None) -> Any:
    type_ = _type(field.type, path, f"{name}_item", source)
    return ["null", type_] if field.nullable else type_


def _scalar(type_: pa.DataType) -> Any:
    import pyarrow as pa

    t = pa.types
    if t.is_boolean(type_):
        return "boolean"
    if t.is_integer(type_):
        if t.is_uint64(type_):
            return None
        return "long" if t.is_int64(type_) or t.is_uint32(type_) else "int"
    if t.is_floating(type_):
        return "double" if t.is_float64(type_) else "float"
    if t.is_decimal(type_):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if _is_text(type_):
        return "string"
    if t.is_fixed_size_binary(type_):
        return {"type": "fixed", "name": f"Fixed{type_.byte_width}", "size": type_.byte_width}
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_binary_view(type_):
        return "bytes"
    if t.is_date(type_):
        return {"type": "int", "logicalType": "date"}
    if t.is_timestamp(type_):
        zoned = "" if type_.tz else "local-"
        return {"type": "long", "logicalType": f"{zoned}timestamp-{_TIMESTAMPS[type_.unit]}"}
    if t.is_time(type_) and type_.unit in _TIMES:
        base, logical = _TIMES[type_.unit]
        return {"type": base, "logicalType": logical}
    return None


def _is_text(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _refused(path: str, what: str, source: str | None) -> SourceError:
    where = path if source is None else f"{source}, {path}"
    return SourceError(
        f"Avro has no counterpart of {what}", where=where, hint="leave the column out, or name a schema file"
    )
