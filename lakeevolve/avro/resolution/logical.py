"""Whether a value of one logical type may be read as another (Avro 1.12, "Logical Types").

The specification has a rule for decimals alone: they match where precision and scale are the same. For the others,
implementations read the underlying number or bytes anew, which turns a date into an instant of 1970. Here that is a
mismatch, except where nothing can be misread.
"""

from __future__ import annotations

from typing import Literal

from lakeevolve.model.types import Fixed, Primitive, finer

Fit = Literal["same", "converted", "mismatch"]


def fit(writer: Primitive | Fixed, reader: Primitive | Fixed) -> Fit:
    """How the logical types of two types fit that are the same beneath, or of which one is promoted to the other.

    Examples
    --------
    >>> from lakeevolve.model.types import Logical
    >>> millis = Primitive("long", Logical("timestamp-millis"))
    >>> fit(millis, Primitive("long", Logical("timestamp-micros")))
    'converted'
    >>> fit(Primitive("int", Logical("date")), millis)
    'mismatch'
    """
    old, new = writer.logical, reader.logical
    promoted = isinstance(writer, Primitive) and isinstance(reader, Primitive) and writer.name != reader.name
    if old == new:
        if promoted and old is not None:
            return "mismatch"
        return "converted" if promoted else "same"
    if old is not None and new is not None:
        return "converted" if finer(old, new) else "mismatch"
    # A logical type that comes or goes: the number or the bytes stay what they are, widened at most from int to long.
    return "mismatch" if promoted and reader.name != "long" else "converted"


def gains_digits(writer: Primitive | Fixed, reader: Primitive | Fixed) -> bool:
    """Whether a decimal gets more digits before the point: no resolution of Avro's, and a promotion of every table
    format, which changes no value.

    Examples
    --------
    >>> from lakeevolve.model.types import Logical
    >>> small = Primitive("bytes", Logical("decimal", 9, 2))
    >>> gains_digits(small, Primitive("bytes", Logical("decimal", 12, 2)))
    True
    >>> gains_digits(small, Primitive("bytes", Logical("decimal", 12, 4)))
    False
    """
    old, new = writer.logical, reader.logical
    if old is None or new is None or old.name != "decimal" or new.name != "decimal":
        return False
    return (old.scale or 0) == (new.scale or 0) and (old.precision or 0) <= (new.precision or 0)
