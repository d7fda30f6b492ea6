"""What one type's becoming another comes to in a Delta table."""

from __future__ import annotations

from lakeevolve.model.types import AvroType
from lakeevolve.tables.delta.schema import delta_type
from lakeevolve.tables.delta.types import DeltaType, Struct


def same_structure(old: AvroType, new: AvroType) -> bool:
    """Whether the two stand in a table alike: a struct that is a union and one that is a record hold other things."""
    return not isinstance(delta_type(old), Struct) and not isinstance(delta_type(new), Struct)


def named(type_: DeltaType) -> str:
    """What a Delta type is called in a sentence."""
    return type_ if isinstance(type_, str) else type(type_).__name__.lower()
