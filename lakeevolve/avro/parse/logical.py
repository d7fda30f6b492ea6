"""Which logical types are valid where (Avro 1.12, "Logical Types")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lakeevolve.model.types import Json, Logical

#: logical type -> the types that may carry it (Avro 1.12, "Logical Types").
_CARRIERS: Final[Mapping[str, frozenset[str]]] = {
    "decimal": frozenset({"bytes", "fixed"}),
    "big-decimal": frozenset({"bytes"}),
    "uuid": frozenset({"string", "fixed"}),
    "date": frozenset({"int"}),
    "time-millis": frozenset({"int"}),
    "time-micros": frozenset({"long"}),
    "timestamp-millis": frozenset({"long"}),
    "timestamp-micros": frozenset({"long"}),
    "timestamp-nanos": frozenset({"long"}),
    "local-timestamp-millis": frozenset({"long"}),
    "local-timestamp-micros": frozenset({"long"}),
    "local-timestamp-nanos": frozenset({"long"}),
    "duration": frozenset({"fixed"}),
}
_SIZES: Final = {"uuid": 16, "duration": 12}


def logical_type(node: Mapping[str, Json], carrier: str, size: int = 0) -> tuple[Logical | None, str | None]:
    """The logical type that a schema object of the type *carrier* gives, or why it is not valid.

    A reader has to ignore one that is not valid and use the type beneath.
    """
    name = node.get("logicalType")
    if name is None:
        return None, None
    carriers = _CARRIERS.get(name) if isinstance(name, str) else None
    if carriers is None:
        return None, "is not known"
    if carrier not in carriers:
        return None, f"is not valid on {carrier}"
    if carrier == "fixed" and size != _SIZES.get(name, size):
        return None, f"needs a fixed of {_SIZES[name]} bytes"
    if name != "decimal":
        return Logical(name), None
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is not int or precision < 1:
        return None, "needs a precision of 1 or more"
    if type(scale) is not int or not 0 <= scale <= precision:
        return None, "needs a scale from 0 to its precision"
    if carrier == "fixed" and precision > math.floor((8 * size - 1) * math.log10(2)):
        return None, f"has more digits than {size} bytes hold"
    return Logical(name, precision, scale), None


def consumed(logical: Logical | None) -> frozenset[str]:
    """The attributes that a valid logical type takes in; those of an invalid one stay in ``props``."""
    if logical is None:
        return frozenset()
    return frozenset({"logicalType", "precision", "scale"} if logical.name == "decimal" else {"logicalType"})
