"""A strategy for rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    branch_names,
    short_name,
    without_null,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def rows(schema: Schema) -> SearchStrategy[dict[str, Any]]:
    """One row of a schema as a Python dict, fit for ``pyarrow.Table.from_pylist(rows, arrow_schema(schema))``.

    Dates, times and instants are :mod:`datetime` values (to the microsecond, to the millisecond where the type says
    so), decimals :class:`~decimal.Decimal`, maps lists of pairs, unions a dict with one key for each branch.
    ``math.inf`` and NaN are left out, so that rows can be compared.

    Raises ``ValueError`` where the root is no record or the schema holds what no table can.

    >>> from lakeevolve.model.types import Field
    >>> order = Schema(Record("Order", (Field("id", Primitive("long")), Field("ok", Primitive("boolean")))))
    >>> sorted(rows(order).example())  # doctest: +SKIP
    ['id', 'ok']
    """
    from hypothesis import strategies as st

    fields = schema.fields
    return st.fixed_dictionaries({field.name: _values(field.type) for field in fields})


def _values(type_: AvroType) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    match type_:
        case Union() if type_.optional:
            return st.none() | _values(without_null(type_))
        case Union():
            return _branches(type_)
        case Record():
            return st.fixed_dictionaries({field.name: _values(field.type) for field in type_.fields})
        case Array():
            return st.lists(_values(type_.items), max_size=3)
        case Map():
            pairs = st.tuples(st.text(max_size=4), _values(type_.values))
            return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
        case Enum():
            return st.sampled_from(type_.symbols)
        case Fixed() if type_.logical is not None and type_.logical.name == "decimal":
            return _decimals(type_.logical)
        case Fixed():
            return st.binary(min_size=type_.size, max_size=type_.size)
        case Primitive() if type_.logical is not None:
            return _logical_values(type_.logical)
        case Primitive():
            return _plain_values(type_.name)
        case NamedRef():
            raise ValueError(f"no table holds a recursive type: {short_name(type_.name)}")


def _branches(union: Union) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    names = branch_names(union)

    def one(name: str, values: SearchStrategy[Any]) -> SearchStrategy[Any]:
        return values.map(lambda value: {each: value if each == name else None for each in names})

    options = [one(name, _values(branch)) for name, branch in zip(names, union.values, strict=True)]
    return st.one_of(*([st.none()] if union.nullable else []), *options)


def _plain_values(name: str) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    if name == "null":
        raise ValueError("no table holds null alone")
    stock: dict[str, SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "bytes": st.binary(max_size=6),
        "string": st.text(max_size=6),
    }
    return stock[name]


def _decimals(logical: Logical) -> SearchStrategy[Decimal]:
    from hypothesis import strategies as st

    most = 10 ** (logical.precision or 1) - 1
    return st.integers(-most, most).map(lambda unscaled: Decimal(unscaled).scaleb(-(logical.scale or 0)))


def _logical_values(logical: Logical) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    name = logical.name
    if name == "decimal":
        return _decimals(logical)
    if name == "uuid":
        return st.uuids().map(str)
    if name == "date":
        return st.dates(date(1, 1, 1), date(9999, 12, 31))
    unit = 1000 if name.endswith("millis") else 1
    if name.startswith("time-"):
        return st.times().map(lambda t: _floored(t, unit))
    # Nanoseconds reach from 1677 to 2262 only.
    first, last = datetime(1700, 1, 1), datetime(2200, 1, 1)
    zone = None if name.startswith("local-") else UTC
    return st.datetimes(first, last).map(lambda t: _floored(t, unit).replace(tzinfo=zone))


def _floored(value: Any, unit: int) -> Any:
    instant: time | datetime = value
    return instant.replace(microsecond=instant.microsecond // unit * unit)
