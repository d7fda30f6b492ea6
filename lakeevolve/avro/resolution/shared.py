"""What becomes of fields that several schemas share, such as the versions of one: found once, and kept."""

from __future__ import annotations

from typing import Final, TypeVar

from lakeevolve.avro.nodes import FillField, ReadField
from lakeevolve.model.types import Array, AvroType, Field, Map, NoDefault, Primitive, Union

_Key = TypeVar("_Key", int, tuple[int, int])
_Part = TypeVar("_Part", ReadField, FillField)

# A field is known by its identity, which lasts as long as what is kept of it.

#: A field that writer and reader have both, and its index in the writer: how it is read, which is as it stands.
SAME: Final[dict[tuple[int, int], ReadField]] = {}
#: A field with a default: how it is filled.
FILLED: Final[dict[int, FillField]] = {}
#: Entries of each at most.
_MOST: Final = 1 << 16
_SCALARS: Final = (NoDefault, bool, int, float)
#: Characters of a text that is not kept.
_LONG: Final = 500


def keep(known: dict[_Key, _Part], key: _Key, part: _Part) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[key] = part


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


def is_light(field: Field) -> bool:
    """Whether little is kept alive with a field."""
    default = field.default
    return (
        not field.props
        and (not default or type(default) in _SCALARS or (isinstance(default, str) and len(default) < _LONG))
        and len(field.name) < _LONG
        and (field.doc is None or len(field.doc) < _LONG)
        and is_small(field.type)
    )
