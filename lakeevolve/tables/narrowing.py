"""What one type's becoming another comes to in every format."""

from __future__ import annotations

from collections.abc import Mapping

from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Field, Fixed, Primitive, Record, without_null
from lakeevolve.tables.base import Fill


def narrows(old: AvroType, new: AvroType) -> bool:
    """Whether the new type has fewer values than a table holds for the old one, though Avro reads every one of them: a
    text is no UUID, a number no time of day."""
    before, after = ("" if t.logical is None else t.logical.name for t in (_based(old), _based(new)))
    if after == "uuid":
        return before != "uuid" and isinstance(without_null(new), Primitive)
    return after.startswith("time-") and not before.startswith("time-")


def holding(type_: AvroType) -> Schema:
    """A record that holds the type in one field."""
    return Schema(Record("Row", (Field("value", type_),)))


def narrowing(fills: Mapping[str, Fill], path: str) -> dict[str, Fill]:
    """The fill of the one field of :func:`holding`, where the field at *path* is to become narrower."""
    return {"value": "narrow"} if fills.get(path) == "narrow" else {}


def _based(type_: AvroType) -> Primitive | Fixed:
    bare = without_null(type_)
    return bare if isinstance(bare, (Primitive, Fixed)) else Primitive("null")
