"""From the Arrow arrays that arrow-avro makes to the wire layout: unions as structs of their branches, or as nulls.

No array here has an offset, and none of arrow-avro's has a null: its unions hold the values of each branch one after
the other, and say of each value which branch it is.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.model.types import Array, AvroType, Fixed, Map, Record, Union, is_null


def wire(array: pa.Array, type_: AvroType, read: AvroType) -> pa.Array:
    """What is wanted of some values.

    Parameters
    ----------
    array:
        The values; a map is a list of structs of key and value, each branch of a union a struct of one field but in
        ``["null", T]``, which is a union of three, of which no value has the third.
    type_, read:
        Their type, and the part of it that is wanted.
    """
    match type_, read:
        case Array(), Array():
            return _list(array, wire(array.values, type_.items, read.items))
        case Map(), Map():
            keys, values = array.values.field(0), array.values.field(1)
            return _list(array, _struct({"key": keys, "value": wire(values, type_.values, read.values)}, len(keys)))
        case Record(), Record():
            return _record(array, type_, read)
        case Union(), Union():
            return _optional(array, type_, read) if type_.optional else _union(array, type_, read)
    return array


def has_bytes(type_: AvroType) -> bool:
    """Whether values of a type have any bytes. What has none is not in the arrays."""
    match type_:
        case Record():
            return any(has_bytes(field.type) for field in type_.fields)
        case Fixed():
            return type_.size > 0
    return not is_null(type_)


def _record(array: pa.Array, type_: Record, read: Record) -> pa.Array:
    there = [field for field in type_.fields if has_bytes(field.type)]
    found = {field.name: (field.type, array.field(at)) for at, field in enumerate(there)}
    children = {
        field.name: wire(found[field.name][1], found[field.name][0], field.type)
        if field.name in found
        else _nothing(field.type, len(array))
        for field in read.fields
    }
    return _struct(children, len(array))


def _nothing(type_: AvroType, length: int) -> pa.Array:
    """Values that have no bytes."""
    if isinstance(type_, Record):
        return _struct({field.name: _nothing(field.type, length) for field in type_.fields}, length)
    return pa.repeat(pa.scalar(b"", pa.binary(0)), length)


def _optional(array: pa.Array, type_: Union, read: Union) -> pa.Array:
    if len(array.field(2)):
        raise ValueError("a union has no branch of that number")
    at = int(type_.null_first)
    values = wire(array.field(at), type_.branches[at], read.branches[at])
    return _Chosen(array, at).spread(values)


def _union(array: pa.Array, type_: Union, read: Union) -> pa.Array:
    branches: dict[str, pa.Array] = {}
    there = None
    for at, (branch, wanted) in enumerate(zip(type_.branches, read.branches, strict=True)):
        chosen = _Chosen(array, at)
        if is_null(branch):
            there = pc.invert(chosen.mask)
        else:
            branches[str(at)] = chosen.spread(wire(array.field(at).field(0), branch, wanted))
    return _struct(branches, len(array), there)


class _Chosen:
    """Which values of a union are of the branch *at*."""

    def __init__(self, array: pa.Array, at: int) -> None:
        self.mask = pc.equal(array.type_codes, pa.scalar(at, pa.int8()))

    @functools.cached_property
    def before(self) -> pa.Array:
        """How many values of the branch stand before each value of the union, and how many there are in all."""
        return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(self.mask.cast(pa.int32()))])

    def spread(self, values: pa.Array) -> pa.Array:
        """The values of the branch as an array of the union's length, null where another branch is chosen."""
        type_, length = values.type, len(self.mask)
        if len(values) == length:
            return values
        if pa.types.is_struct(type_):
            children = {child.name: self.spread(values.field(at)) for at, child in enumerate(type_)}
            return _struct(children, length, self.valid(values))
        if pa.types.is_list(type_):
            buffers = [self.valid(values).buffers()[1], self.offsets(values)]
            return pa.Array.from_buffers(type_, length, buffers, children=[values.values])
        if pa.types.is_string(type_) or pa.types.is_binary(type_):
            # The bytes stay where they are: a null has none.
            buffers = [self.valid(values).buffers()[1], self.offsets(values), values.buffers()[2]]
            return pa.Array.from_buffers(type_, length, buffers)
        return pc.replace_with_mask(pa.nulls(length, type_), self.mask, values)

    def offsets(self, values: pa.Array) -> pa.Buffer:
        buffer = values.buffers()[1]
        ends = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, buffer]).take(self.before)
        return ends.buffers()[1]

    def valid(self, values: pa.Array) -> pa.Array:
        return pc.replace_with_mask(self.mask, self.mask, pc.is_valid(values)) if values.null_count else self.mask


def _list(array: pa.Array, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.list_(values.type), len(array), [None, array.buffers()[1]], 0, children=[values])


def _struct(children: dict[str, pa.Array], length: int, valid: pa.Array | None = None) -> pa.Array:
    type_ = pa.struct([(name, child.type) for name, child in children.items()])
    bits = None if valid is None else valid.buffers()[1]
    return pa.Array.from_buffers(type_, length, [bits], 0 if valid is None else -1, children=list(children.values()))
