"""The canonical Arrow layout: which Arrow type holds which Avro type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeevolve.errors import SchemaError
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
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
    is_null,
    is_optional,
    short_name,
    without_null,
)

_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def arrow_type(type_: AvroType, *, strict: bool = True) -> pa.DataType:
    """The Arrow type that holds values of an Avro type.

    Parameters
    ----------
    type_:
        The Avro type. ``["null", T]`` gives T's Arrow type: whether nulls are allowed is a matter of the field that
        holds it.
    strict:
        True: a field is nullable exactly where Avro allows null. False: every field is nullable, as in tables, where
        the owner of a table may choose NULL for rows older than a column.

    Raises
    ------
    SchemaError
        For what has no table form: ``null`` alone, a recursive record, a decimal of more than 76 digits.

    Examples
    --------
    >>> from lakeevolve.model.types import Array, Primitive
    >>> arrow_type(Array(Primitive("int")))
    ListType(list<item: int32 not null>)
    """
    return _Layout(strict).of(type_, paths.ROOT)


def arrow_schema(schema: Schema, *, strict: bool = True) -> pa.Schema:
    """The Arrow schema of a table that holds records of an Avro schema, whose root has to be a record.

    Parameters and errors as in :func:`arrow_type`.

    Examples
    --------
    >>> from lakeevolve.model.schema import Schema
    >>> from lakeevolve.model.types import Field, Primitive, Record
    >>> arrow_schema(Schema(Record("Order", (Field("id", Primitive("string")),)))).field("id")
    pyarrow.Field<id: string not null>
    """
    if not isinstance(schema.root, Record):
        raise SchemaError(
            "the root of the schema is not a record, so it has no columns",
            where=schema.source,
            hint="wrap the type in a record with one field",
        )
    return pa.schema(list(root_type(schema, strict=strict)))


def root_type(schema: Schema, *, strict: bool = True) -> pa.DataType:
    """The Arrow type of a schema's root, as :func:`arrow_type`; errors say where the schema came from."""
    try:
        return arrow_type(schema.root, strict=strict)
    except SchemaError as error:
        if schema.source is None:
            raise
        raise SchemaError(error.what, where=f"{schema.source}: {error.where}", hint=error.hint) from error


class _Layout:
    """``open`` holds the records that the type at hand stands in."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.open: set[str] = set()

    def of(self, type_: AvroType, path: str) -> pa.DataType:
        match type_:
            case Primitive():
                if type_.name == "null":
                    raise _no_table_form("null alone has no table form", path, "drop the field or give it a type")
                return _logical(type_.logical, path) or _PRIMITIVES[type_.name]
            case Fixed():
                return _logical(type_.logical, path) or pa.binary(type_.size)
            case Enum():
                return pa.string()
            case Array():
                return pa.list_(self.field("item", type_.items, paths.items(path)))
            case Map():
                return pa.map_(pa.string(), self.field("value", type_.values, paths.values(path)))
            case Record():
                self.open.add(type_.name)
                fields = [self.field(f.name, f.type, paths.child(path, f.name)) for f in type_.fields]
                self.open.discard(type_.name)
                return pa.struct(fields)
            case Union():
                return self.union(type_, path)
            case NamedRef():
                raise self.reference(type_, path)

    def field(self, name: str, type_: AvroType, path: str) -> pa.Field:
        return pa.field(name, self.of(type_, path), nullable=not self.strict or nullable(type_))

    def union(self, union: Union, path: str) -> pa.DataType:
        if union.optional:
            return self.of(without_null(union), path)
        if not union.values:
            raise _no_table_form("a union without a branch other than null has no table form", path, "give it a type")
        names = branch_names(union)
        if len(set(names)) < len(names):
            raise _no_table_form("two branches of the union have the same name", path, "rename one of the types")
        return pa.struct(
            [
                pa.field(name, self.of(branch, paths.branch(path, name)), nullable=True)
                for name, branch in zip(names, union.values, strict=True)
            ]
        )

    def reference(self, ref: NamedRef, path: str) -> SchemaError:
        if ref.name not in self.open:
            return _no_table_form(f"the schema does not define {ref.name}", path, "add its definition to the schema")
        return _no_table_form(
            f"the record {short_name(ref.name)} contains itself, and a recursive type has no table form",
            path,
            "store the part that recurs as bytes or string",
        )


def nullable(type_: AvroType) -> bool:
    """Whether Avro allows null where this type stands."""
    return is_null(type_) or is_optional(type_) or (isinstance(type_, Union) and type_.nullable)


def _logical(logical: Logical | None, path: str) -> pa.DataType | None:
    if logical is None:
        return None
    if logical.name != "decimal":
        return _LOGICAL.get(logical.name)
    precision, scale = logical.precision or 0, logical.scale or 0
    if precision <= 38:
        return pa.decimal128(precision, scale)
    if precision <= 76:
        return pa.decimal256(precision, scale)
    raise _no_table_form(f"{logical} has more digits than Arrow holds (76)", path, "narrow it, or keep it as bytes")


def _no_table_form(what: str, path: str, hint: str) -> SchemaError:
    return SchemaError(what, where=path or "$", hint=hint)
