"""Giving decoded columns the meaning that the schema gives them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeevolve.avro.arrow import nested
from lakeevolve.avro.arrow.failures import Failures, Rows
from lakeevolve.avro.arrow.promote import text
from lakeevolve.avro.arrow.raw import from_plain, within, within_precision
from lakeevolve.avro.container.header import DAMAGED
from lakeevolve.avro.container.keys import last_of_each
from lakeevolve.errors import SourceError
from lakeevolve.model import path as paths
from lakeevolve.model.types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, branch_names, describe

_MEND: Final = "write the file again without such values"


def columns(array: pa.Array, type_: AvroType, name: str, first: int) -> pa.Array:
    """Decoded rows in the loose canonical layout.

    Parameters
    ----------
    array:
        The rows in the wire layout: booleans as bytes, enums as numbers, maps as lists of key and value, a union as a
        struct of its branches, everything else as its plain type. An int may be 64 bits wide, a string bytes, and a
        fixed the decimal that it stands for; it is checked then.
    type_:
        The type of the rows.
    name, first:
        The file, and the number of the first row, for messages.
    """
    failures = Failures()
    made = _Columns(failures).read(array, type_, Rows(), paths.ROOT)
    if failures.row is not None:
        where = f"{name}, row {first + failures.row}, {failures.path or '$'}"
        raise SourceError(failures.what, where=where, hint=failures.hint)
    return made


class _Columns:
    def __init__(self, failures: Failures) -> None:
        self.failures = failures

    def read(self, array: pa.Array, type_: AvroType, rows: Rows, path: str) -> pa.Array:
        match type_:
            case Primitive() | Fixed():
                return self._plain(array, type_, rows, path)
            case Enum():
                return self._symbols(array, type_, rows, path)
            case Array():
                offsets, values = nested.lists(array)
                read = self.read(values, type_.items, rows.inside(offsets), paths.items(path))
                return nested.list_like(pa.list_(pa.field("item", read.type)), offsets, read, array)
            case Map():
                offsets, entries = nested.lists(array)
                keys, values = nested.fields(entries)
                inside, below = rows.inside(offsets), paths.values(path)
                # A key that is no text is noted; Arrow itself ends the process over one that is null.
                keys = pc.fill_null(text(keys, inside, below, self.failures), "")
                read = self.read(values, type_.values, inside, below)
                offsets, keys, read = last_of_each(offsets, keys, read)
                target = pa.map_(pa.string(), read.type)
                return nested.list_like(target, offsets, nested.entries(target, keys, read), array)
            case Record():
                fields = [(f.name, f.type, paths.child(path, f.name)) for f in type_.fields]
                return self._struct(array, fields, rows)
            case Union():
                if type_.optional:
                    return self.read(array, type_.values[0], rows, path)
                names = branch_names(type_)
                branches = [(n, b, paths.branch(path, n)) for n, b in zip(names, type_.values, strict=True)]
                return self._struct(array, branches, rows)
        raise AssertionError("arrow_type refuses recursive types")

    def _symbols(self, array: pa.Array, type_: Enum, rows: Rows, path: str) -> pa.Array:
        def report(bad: pa.Array, why: str) -> None:
            self.failures.where(bad, rows, path, why, DAMAGED)

        why = f"a number that is no symbol of {describe(type_)}"
        which = within(array, 0, len(type_.symbols) - 1, why, report)
        return pa.array(type_.symbols, pa.string()).take(which)

    def _booleans(self, array: pa.Array, rows: Rows, path: str) -> pa.Array:
        def report(bad: pa.Array, why: str) -> None:
            self.failures.where(bad, rows, path, why, DAMAGED)

        numbers = pa.Array.from_buffers(pa.uint8(), len(array), array.buffers(), array.null_count, array.offset)
        return within(numbers, 0, 1, "a byte that is no boolean", report).cast(pa.bool_())

    def _struct(self, array: pa.Array, fields: list[tuple[str, AvroType, str]], rows: Rows) -> pa.Array:
        children = nested.fields(array)
        made = [self.read(child, type_, rows, path) for child, (_, type_, path) in zip(children, fields, strict=True)]
        struct = pa.struct([pa.field(name, a.type) for (name, _, _), a in zip(fields, made, strict=True)])
        return nested.struct(struct, made, array)

    def _plain(self, array: pa.Array, type_: Primitive | Fixed, rows: Rows, path: str) -> pa.Array:
        def report(bad: pa.Array, why: str) -> None:
            self.failures.where(bad, rows, path, f"a value of type {describe(type_)} cannot be read: {why}", _MEND)

        if pa.types.is_decimal(array.type):
            return within_precision(array, array.type, report)
        if type_.name == "int" and array.type != pa.int32():
            array = within(array, -(2**31), 2**31 - 1, "it has more than 32 bits", report).cast(pa.int32())
        elif type_.name == "string":
            array = text(array, rows, path, self.failures)
        elif type_.name == "boolean":
            return self._booleans(array, rows, path)
        return from_plain(array, type_, report)
