"""What one type's becoming another comes to in a Delta table."""

from __future__ import annotations

from collections.abc import Mapping

from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Field, Record
from lakeevolve.tables.base import Fill
from lakeevolve.tables.delta.schema import delta_type
from lakeevolve.tables.delta.types import DeltaType, Struct


def narrowing(fills: Mapping[str, Fill], path: str) -> dict[str, Fill]:
    """The fill of the one field of :func:`holding`, where the field at *path* is to become narrower."""
    return {"value": "narrow"} if fills.get(path) == "narrow" else {}


def holding(type_: AvroType) -> Schema:
    """A record that holds the type in one field."""
    return Schema(Record("Row", (Field("value", type_),)))


def same_structure(old: AvroType, new: AvroType) -> bool:
    """Whether the two stand in a table alike: a struct that is a union and one that is a record hold other things."""
    return not isinstance(delta_type(old), Struct) and not isinstance(delta_type(new), Struct)


def named(type_: DeltaType) -> str:
    """What a Delta type is called in a sentence."""
    return type_ if isinstance(type_, str) else type(type_).__name__.lower()
