"""Which Iceberg type holds an Avro type, and which Avro type a column of an Iceberg type is.

Iceberg table spec, "Schemas" and "Schema Evolution". The library's own converter is not used: it knows neither unions,
symbols, defaults nor references to named types, and takes an instant for a local timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakeevolve.errors import UnsupportedTable
from lakeevolve.model import path as paths
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
    without_null,
)

_PRIMITIVES: Final[dict[str, PrimitiveType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}

_LOGICAL: Final[dict[str, PrimitiveType]] = {
    "date": DateType(),
    "time-millis": TimeType(),
    "time-micros": TimeType(),
    "timestamp-millis": TimestamptzType(),
    "timestamp-micros": TimestamptzType(),
    "timestamp-nanos": TimestamptzNanoType(),
    "local-timestamp-millis": TimestampType(),
    "local-timestamp-micros": TimestampType(),
    "local-timestamp-nanos": TimestampNanoType(),
    "uuid": UUIDType(),
    "duration": FixedType(12),
}

_NANOS: Final = (TimestampNanoType(), TimestamptzNanoType())

_AVRO: Final[dict[PrimitiveType, Primitive]] = {
    BooleanType(): Primitive("boolean"),
    IntegerType(): Primitive("int"),
    LongType(): Primitive("long"),
    FloatType(): Primitive("float"),
    DoubleType(): Primitive("double"),
    BinaryType(): Primitive("bytes"),
    StringType(): Primitive("string"),
    DateType(): Primitive("int", Logical("date")),
    TimeType(): Primitive("long", Logical("time-micros")),
    TimestamptzType(): Primitive("long", Logical("timestamp-micros")),
    TimestampType(): Primitive("long", Logical("local-timestamp-micros")),
    TimestamptzNanoType(): Primitive("long", Logical("timestamp-nanos")),
    TimestampNanoType(): Primitive("long", Logical("local-timestamp-nanos")),
    UUIDType(): Primitive("string", Logical("uuid")),
}


def nullable(type_: AvroType) -> bool:
    """Whether Avro allows null where this type stands."""
    return is_null(type_) or (isinstance(type_, Union) and type_.nullable)


def leaf_type(type_: AvroType, path: str, format_version: int = 2) -> PrimitiveType:
    """The Iceberg type of a primitive, fixed or enum.

    Raises ``UnsupportedTable`` for what no table of this format version has a type for, with the path.
    """
    match type_:
        case Enum():
            return StringType()
        case Primitive() | Fixed():
            logical = type_.logical
            if logical is not None and logical.name == "decimal":
                if (logical.precision or 0) > 38:
                    raise _untyped(type_, path, "Iceberg decimals have at most 38 digits", "narrow it, or keep bytes")
                return DecimalType(logical.precision or 0, logical.scale or 0)
            found = _LOGICAL.get(logical.name) if logical is not None else None
            if found in _NANOS and format_version < 3:
                raise _untyped(type_, path, "nanoseconds need an Iceberg v3 table", "use microseconds")
            if found is not None:
                return found
            if isinstance(type_, Fixed):
                return FixedType(type_.size)
            if type_.name != "null":
                return _PRIMITIVES[type_.name]
    raise _untyped(type_, path, "a table has no column for it", "give the field another type")


def iceberg_type(type_: AvroType, path: str, fresh: Callable[[], int], format_version: int = 2) -> IcebergType:
    """The Iceberg type of an Avro type; *fresh* gives a new field id for each nested field."""
    type_ = without_null(type_)
    match type_:
        case Record():
            if not type_.fields:
                raise _untyped(type_, path, "a struct without a field cannot be written", "give the record a field")
            made = []
            for field in type_.fields:
                here = paths.child(path, field.name)
                made.append(iceberg_field(field.name, field.type, here, fresh, format_version, doc=field.doc))
            return StructType(*made)
        case Array():
            element = fresh()
            below = paths.items(path)
            inner = iceberg_type(type_.items, below, fresh, format_version)
            return ListType(element, inner, element_required=not nullable(type_.items))
        case Map():
            key, value = fresh(), fresh()
            inner = iceberg_type(type_.values, paths.values(path), fresh, format_version)
            return MapType(key, StringType(), value, inner, value_required=not nullable(type_.values))
        case Union():
            names = branch_names(type_)
            if not names or len(set(names)) < len(names):
                raise _untyped(type_, path, "its branches give no distinct column names", "rename one of the types")
            return StructType(
                *[
                    iceberg_field(name, branch, paths.branch(path, name), fresh, format_version, optional=True)
                    for name, branch in zip(names, type_.values, strict=True)
                ]
            )
        case NamedRef():
            raise _untyped(type_, path, "a record that contains itself has no table form", "keep that part as bytes")
    return leaf_type(type_, path, format_version)


def iceberg_field(
    name: str,
    type_: AvroType,
    path: str,
    fresh: Callable[[], int],
    format_version: int = 2,
    *,
    optional: bool = False,
    doc: str | None = None,
) -> NestedField:
    """A new column for an Avro type, required unless Avro allows null there or *optional* says so."""
    number = fresh()
    inner = iceberg_type(type_, path, fresh, format_version)
    return NestedField(number, name, inner, required=not (optional or nullable(type_)), doc=doc)


def loosened(column: NestedField) -> NestedField:
    """An optional column whose fields are optional, too, whatever their Avro types say.

    Where a file lacks the column, pyiceberg makes nulls down to its required fields, and pyarrow then refuses to
    convert the struct (``nulls in input cannot be viewed as non-nullable``): ``to_arrow_batch_reader`` fails on the
    table, and so does ``to_arrow`` once texts lie beside the struct in files of several ages.
    """
    if not isinstance(column.field_type, StructType):
        return column
    inside = [loosened(each).model_copy(update={"required": False}) for each in column.field_type.fields]
    return column.model_copy(update={"field_type": StructType(*inside)})


def avro_leaf(type_: IcebergType, name: str) -> AvroType | None:
    """The Avro type of a primitive column, a fixed one under the given *name*; None where Avro has none."""
    match type_:
        case DecimalType():
            return Primitive("bytes", Logical("decimal", type_.precision, type_.scale))
        case FixedType():
            return Fixed(name, len(type_))
    return _AVRO.get(type_) if isinstance(type_, PrimitiveType) else None


def promotable(old: IcebergType, new: IcebergType) -> bool:
    """Whether the spec lets a column change its type in place, on every format version.

    pyiceberg accepts more (another decimal scale, string for binary) and then reads or filters wrongly.
    """
    match old, new:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return old.scale == new.scale and old.precision <= new.precision
    return old == new


def children(type_: AvroType | None, struct: StructType, path: str) -> Iterator[tuple[str, AvroType | None, str]]:
    """Name, Avro type and path of each column of a struct, in the order of the canonical layout.

    Without an Avro type, these are the struct's own fields.
    """
    match without_null(type_) if type_ is not None else None:
        case Record() as record:
            for field in record.fields:
                yield field.name, field.type, paths.child(path, field.name)
        case Union() as union:
            for name, branch in zip(branch_names(union), union.values, strict=True):
                yield name, branch, paths.branch(path, name)
        case _:
            for column in struct.fields:
                yield column.name, None, paths.child(path, column.name)


def below(type_: AvroType | None) -> AvroType | None:
    """The type of an array's items or of a map's values."""
    match without_null(type_) if type_ is not None else None:
        case Array() as array:
            return array.items
        case Map() as map_:
            return map_.values
    return None


def by_name(struct: StructType, name: str) -> NestedField | None:
    """The struct's field of exactly this name."""
    return next((field for field in struct.fields if field.name == name), None)


def inner_fields(type_: IcebergType) -> tuple[NestedField, ...]:
    """The fields right beneath a nested type; none of a primitive one."""
    match type_:
        case StructType():
            return tuple(type_.fields)
        case ListType():
            return (type_.element_field,)
        case MapType():
            return (type_.key_field, type_.value_field)
    return ()


def _untyped(type_: AvroType, path: str, why: str, hint: str) -> UnsupportedTable:
    return UnsupportedTable(f"{describe(type_)} has no Iceberg column: {why}", where=path or "$", hint=hint)
