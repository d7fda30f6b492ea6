"""What becomes of fields that several schemas share, such as the versions of one: found once, and kept."""

from __future__ import annotations

from typing import Final

from lakeevolve.avro.nodes import FillField
from lakeevolve.model.types import Array, AvroType, Field, Map, NoDefault, Primitive, Union

# A field is known by its identity, which lasts as long as what is kept of it.

#: A field with a default: how it is filled.
FILLED: Final[dict[int, FillField]] = {}
#: Entries at most.
_MOST: Final = 1 << 16
_SCALARS: Final = (NoDefault, bool, int, float)
#: Characters of a text that is not kept.
_LONG: Final = 500


def keep(field: Field, part: FillField) -> None:
    """Keep how a field is filled, if little is kept alive with it."""
    if _is_light(field):
        if len(FILLED) >= _MOST:
            FILLED.clear()
        FILLED[id(field)] = part


def is_small(type_: AvroType) -> bool:
    """Whether a type holds primitives alone."""
    if type(type_) is Primitive:
        return True
    match type_:
        case Union():
            return all(isinstance(branch, Primitive) for branch in type_.branches)
        case Array():
            return isinstance(type_.items, Primitive)
        case Map():
            return isinstance(type_.values, Primitive)
    return False


def _is_light(field: Field) -> bool:
    default = field.default
    return (
        not field.props
        and (not default or type(default) in _SCALARS or (isinstance(default, str) and len(default) < _LONG))
        and len(field.name) < _LONG
        and (field.doc is None or len(field.doc) < _LONG)
        and is_small(field.type)
    )
