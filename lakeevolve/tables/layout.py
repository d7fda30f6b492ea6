"""Between the Arrow types that a table or one of its readers uses and the canonical layout of an Avro type.

Only the representation changes, never a value; both directions keep null structs, null and empty lists and maps, and
work on slices.
"""

from __future__ import annotations

import pyarrow as pa

from lakeevolve.avro.arrow.layout import convert
from lakeevolve.avro.arrow.types import arrow_type
from lakeevolve.errors import TableError
from lakeevolve.model.types import AvroType


def to_canonical(array: pa.Array, type_: AvroType) -> pa.Array:
    """The array in the canonical layout of an Avro type.

    Parameters
    ----------
    array:
        An array (or a chunked one, which is joined) in any representation of the type: ``large_`` and view and
        dictionary types, any list type, a list of key and value for a map, other units of time, any label for the
        zone of an instant, integers that count milliseconds (32 bits) or microseconds (64 bits) for a time, 16 bytes
        for a UUID, other widths of a decimal of the same scale. Fields of a struct are found by name.
    type_:
        The Avro type that it holds.

    Returns
    -------
    pyarrow.Array
        Of the type ``arrow_type(type, strict=False)``: every field nullable.

    Raises
    ------
    TableError
        Where the array is not a representation of the type, or a value does not fit; with its path.

    Examples
    --------
    >>> from lakeevolve.model.types import Primitive
    >>> to_canonical(pa.array(["a"], pa.large_string()), Primitive("string")).type
    DataType(string)
    """
    return convert(array, arrow_type(type_, strict=False), type_, error=TableError, canonical=True)


def to_layout(array: pa.Array, target: pa.DataType, type_: AvroType | None = None) -> pa.Array:
    """The inverse of :func:`to_canonical`: a canonical array in the Arrow type that a table asks for.

    The Avro type is needed where the 16 bytes of a UUID on a fixed are to become text, which nothing else may.

    Raises ``TableError`` where *target* does not represent the same values, or a value does not fit it: a time of
    microseconds in milliseconds, bytes of another length, a UUID that is not in canonical lower-case text.

    Examples
    --------
    >>> to_layout(pa.array(["a"]), pa.large_string()).type
    DataType(large_string)
    """
    return convert(array, target, type_, error=TableError)
