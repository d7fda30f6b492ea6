"""Types that have fewer values than the columns which hold them so far, in every format."""

from __future__ import annotations

from lakeevolve.model.types import AvroType, Fixed, Primitive, without_null


def narrows(old: AvroType, new: AvroType) -> bool:
    """Whether the new type has fewer values than a table holds for the old one, though Avro reads every one of them: a
    text is no UUID, a number no time of day."""
    before, after = ("" if t.logical is None else t.logical.name for t in (_based(old), _based(new)))
    if after == "uuid":
        return before != "uuid" and isinstance(without_null(new), Primitive)
    return after.startswith("time-") and not before.startswith("time-")


def _based(type_: AvroType) -> Primitive | Fixed:
    bare = without_null(type_)
    return bare if isinstance(bare, (Primitive, Fixed)) else Primitive("null")
