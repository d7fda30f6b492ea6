"""The Avro schema that Arrow columns amount to, and columns as the canonical layout has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model import path as paths
from lakeevolve.model.match import match_fields
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NULL,
    Array,
    AvroType,
    Field,
    Map,
    Record,
    Union,
    branch_names,
    is_optional,
    without_null,
)
from lakeevolve.sources.arrow import schema_of_arrow
from lakeevolve.tables.foreign import is_foreign
from lakeevolve.tables.layout import to_canonical, to_layout

_WIDER: Mapping[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
}


def wide(type_: pa.DataType) -> pa.DataType:
    """The type with numbers that Avro has none of as the next wider that it has."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([field.with_type(wide(field.type)) for field in type_])
    if t.is_map(type_):
        return pa.map_(type_.key_field, type_.item_field.with_type(wide(type_.item_type)))
    if t.is_list(type_):
        return pa.list_(type_.value_field.with_type(wide(type_.value_type)))
    if t.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(wide(type_.value_type)))
    return _WIDER.get(type_, type_)


def canonical(array: pa.Array, type_: AvroType) -> pa.Array:
    """A file's column in the canonical layout."""
    wanted = wide(array.type)
    return to_canonical(array if wanted == array.type else array.cast(wanted), type_)


def laid_out(array: pa.Array, target: pa.DataType, type_: AvroType) -> pa.Array:
    """The inverse of :func:`canonical`."""
    plain = target.value_type if pa.types.is_dictionary(target) else target
    between = wide(plain)
    made = to_layout(array, between, type_)
    return made if between == target else made.cast(target)


def kept(type_: pa.DataType, again: AvroType) -> pa.DataType:
    """The type in which a column that stays as it is can be written: its own, unless there is no way back to that."""
    inner = type_.value_type if pa.types.is_dictionary(type_) else type_
    return type_ if not _wrapped(inner) else arrow_type(again, strict=False)


def _wrapped(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_) or isinstance(type_, pa.BaseExtensionType):
        return True
    return any(_wrapped(type_.field(at).type) for at in range(type_.num_fields))


def loose(type_: AvroType) -> pa.DataType | None:
    """The canonical Arrow type, every field nullable; None where there is none."""
    try:
        return arrow_type(type_, strict=False)
    except LakeEvolveError:
        return None


@dataclass(frozen=True, slots=True)
class Derived:
    """A schema, and the columns that it does not own."""

    schema: Schema
    foreign: tuple[str, ...]


def derive(
    columns: pa.Schema,
    name: str,
    hint: Schema | None = None,
    renames: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
) -> Derived:
    """The schema of Arrow columns, with the hint's types and names where they say the same.

    See :meth:`lakeevolve.tables.base.Table.derived` for *hint* and *renames*.
    """
    root = hint.root if hint is not None and isinstance(hint.root, Record) else None
    matched = {} if root is None else _matched(columns.names, root, paths.ROOT, renames or {})
    foreign = tuple(
        each
        for each in columns.names
        if each not in matched and is_foreign(each, left_out) and (root is not None or not each.startswith("_"))
    )
    own = schema_of_arrow(pa.schema([field for field in columns if field.name not in foreign]), name).record
    fields = tuple(_field(each, matched.get(each.name), own.fields) for each in own.fields)
    return Derived(Schema(Record(root.name if root is not None else own.name, fields)), foreign)


def _matched(names: Collection[str], hint: Record, at: str, renames: Mapping[str, str]) -> dict[str, Field]:
    """The hint's field for each column, as a reader by that hint would find it."""
    columns = Record("columns", tuple(Field(name, NULL) for name in names))
    pairs, _ = match_fields(columns, hint, path=at, renames=renames)
    return {columns.fields[old].name: hint.fields[new] for new, old in pairs if old is not None}


def _field(own: Field, hint: Field | None, beside: Sequence[Field]) -> Field:
    if hint is None:
        return own
    type_ = _fit(own.type, hint.type)
    if type_ != hint.type:
        return replace(own, type=type_, doc=hint.doc if own.name == hint.name else None)
    if own.name != hint.name:
        # The rename is yet to happen.
        return replace(hint, name=own.name, aliases=())
    there = {each.name for each in beside}
    return replace(hint, aliases=tuple(alias for alias in hint.aliases if alias not in there))


def _fit(own: AvroType, hint: AvroType) -> AvroType:
    """The hint's type where the columns hold just that, with the columns' own word on null."""
    if isinstance(hint, Union) and not is_optional(hint):
        same = _branches(without_null(own)) == branch_names(hint) and loose(without_null(own)) == loose(hint)
        return hint if same and (hint.nullable or not is_optional(own)) else own
    inner = _plain(without_null(own), without_null(hint))
    if not is_optional(own):
        return inner
    if inner == without_null(hint):
        return hint
    return Union((NULL, inner))


def _branches(type_: AvroType) -> tuple[str, ...]:
    return tuple(field.name for field in type_.fields) if isinstance(type_, Record) else ()


def _plain(own: AvroType, hint: AvroType) -> AvroType:
    match own, hint:
        case Record(), Record():
            matched = _matched([field.name for field in own.fields], hint, paths.ROOT, {})
            fields = tuple(_field(each, matched.get(each.name), own.fields) for each in own.fields)
            return hint if fields == hint.fields else Record(hint.name, fields, hint.aliases, hint.doc)
        case Array(), Array():
            items = _fit(own.items, hint.items)
            return hint if items == hint.items else replace(own, items=items)
        case Map(), Map():
            values = _fit(own.values, hint.values)
            return hint if values == hint.values else replace(own, values=values)
    same = loose(own)
    return hint if same is not None and same == loose(hint) else own
