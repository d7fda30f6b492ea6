"""What an Avro type is (Avro 1.12, "Schema Declaration").

Values are immutable. A named type that is used again stands there again as the same object; only a use inside
its own definition (a recursive type) is a :class:`NamedRef`. Names are full names. ``props`` holds the JSON
attributes that Avro itself does not define, in source order; it is never changed after construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum as _Enum
from typing import Any, Final, Literal, TypeAlias

from lakeevolve.model.value import value

PrimitiveName = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]

PRIMITIVES: Final[frozenset[str]] = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

#: writer primitive -> reader primitives it may be read as (Avro 1.12, "Schema Resolution").
PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


class NoDefault(_Enum):
    """The absence of a default, which is not the default ``null``."""

    NO_DEFAULT = "no default"

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT

Json: TypeAlias = Any
Props: TypeAlias = Mapping[str, Json]


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Logical:
    """A logical type that is valid on the type that carries it (an invalid one is kept in ``props``).

    ``precision`` and ``scale`` belong to ``decimal`` alone.
    """

    name: str
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Primitive:
    """A primitive type, with the logical type that it carries."""

    name: PrimitiveName
    logical: Logical | None = None
    props: Props = field(default_factory=dict, hash=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fixed:
    """So many bytes, under a name."""

    name: str
    size: int
    logical: Logical | None = None
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    props: Props = field(default_factory=dict, hash=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Enum:
    """One of some symbols. ``default`` is read for a symbol that the reader does not have."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    props: Props = field(default_factory=dict, hash=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Array:
    """A list of values of one type."""

    items: AvroType
    props: Props = field(default_factory=dict, hash=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Map:
    """Values of one type by keys, which are strings."""

    values: AvroType
    props: Props = field(default_factory=dict, hash=False)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Union:
    """A value of one of the branches."""

    branches: tuple[AvroType, ...]

    @property
    def optional(self) -> bool:
        """Whether this is ``["null", T]`` in either order: a nullable T, not a real union."""
        return len(self.branches) == 2 and sum(is_null(b) for b in self.branches) == 1

    @property
    def nullable(self) -> bool:
        """Whether ``null`` is one of the branches."""
        return any(is_null(b) for b in self.branches)

    @property
    def null_first(self) -> bool:
        return bool(self.branches) and is_null(self.branches[0])

    @property
    def values(self) -> tuple[AvroType, ...]:
        """The branches other than ``null``, in order."""
        return tuple(b for b in self.branches if not is_null(b))


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field:
    """One field of a record. ``default`` is the JSON value as written, or ``NO_DEFAULT``."""

    name: str
    type: AvroType
    default: Json | NoDefault = field(default=NO_DEFAULT, hash=False)
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    order: str | None = None
    props: Props = field(default_factory=dict, hash=False)

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Record:
    """Fields under a name. An ``error`` is a record to a reader."""

    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    error: bool = False
    props: Props = field(default_factory=dict, hash=False)

    def field(self, name: str) -> Field | None:
        """The field of that name, or None."""
        return next((f for f in self.fields if f.name == name), None)


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedRef:
    """A use of a named type inside its own definition."""

    name: str


AvroType: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | Record | NamedRef
NamedType: TypeAlias = Fixed | Enum | Record

NULL: Final = Primitive("null")


#: Logical types of one kind, coarse ones first: each value of one is one of those after it.
_FINER: Final = (
    ("time-millis", "time-micros"),
    ("timestamp-millis", "timestamp-micros", "timestamp-nanos"),
    ("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
)


def narrower(old: AvroType, new: AvroType) -> bool:
    """Whether the first type is what the second may be promoted to and holds values that the second has not: a wider
    number, a finer unit of time, a decimal with more digits before the point.

    >>> narrower(Primitive("long"), Primitive("int"))
    True
    >>> narrower(Primitive("long", Logical("timestamp-micros")), Primitive("long", Logical("timestamp-millis")))
    True
    """
    if not (isinstance(old, Primitive) and isinstance(new, Primitive)):
        return False
    if old.logical is not None and new.logical is not None:
        return _coarser(old.logical, new.logical)
    wider = new.name in ("int", "long", "float") and old.name in PROMOTIONS.get(new.name, ())
    return wider and old.logical is None


def _coarser(old: Logical, new: Logical) -> bool:
    if old.name == new.name == "decimal":
        return (old.scale or 0) == (new.scale or 0) and (new.precision or 0) < (old.precision or 0)
    return finer(new, old)


def finer(old: Logical, new: Logical) -> bool:
    """Whether the second of two logical types of one kind has the finer unit."""
    return any(
        old.name in units and new.name in units and units.index(old.name) < units.index(new.name) for units in _FINER
    )


def is_null(type_: AvroType) -> bool:
    return isinstance(type_, Primitive) and type_.name == "null"


def is_optional(type_: AvroType) -> bool:
    """Whether the type is ``["null", T]`` in either order."""
    return isinstance(type_, Union) and type_.optional


def without_null(type_: AvroType) -> AvroType:
    """T for ``["null", T]``; every other type unchanged."""
    return type_.values[0] if isinstance(type_, Union) and type_.optional else type_


def short_name(full: str) -> str:
    return full.rpartition(".")[2]


def branch_names(union: Union) -> tuple[str, ...]:
    """The name of each non-null branch as a path segment and as a struct field.

    A primitive, ``array`` and ``map`` go by their kind, a named type by its short name, and by its full name with
    ``_`` for the dots where two branches share the short one.
    """
    plain = [
        kind(b) if not isinstance(b, (Record, Enum, Fixed, NamedRef)) else short_name(b.name) for b in union.values
    ]
    uses = Counter(plain)
    return tuple(
        full.name.replace(".", "_") if uses[name] > 1 and isinstance(full, (Record, Enum, Fixed, NamedRef)) else name
        for name, full in zip(plain, union.values, strict=True)
    )


def kind(type_: AvroType) -> str:
    """The Avro word for the type: ``int``, ``record``, ``union``, ..."""
    match type_:
        case Primitive():
            return type_.name
        case Record():
            return "record"
        case Enum():
            return "enum"
        case Fixed():
            return "fixed"
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"
        case NamedRef():
            return "ref"


def describe(type_: AvroType) -> str:
    """A short, readable form of the type for messages: ``["null", decimal(9,2)]``, ``array<int>``, ``record Order``."""
    match type_:
        case Primitive():
            return str(type_.logical) if type_.logical else type_.name
        case Fixed():
            return f"{type_.logical} on fixed({type_.size})" if type_.logical else f"fixed({type_.size})"
        case Enum():
            return f"enum {short_name(type_.name)}"
        case Record():
            return f"record {short_name(type_.name)}"
        case NamedRef():
            return short_name(type_.name)
        case Array():
            return f"array<{describe(type_.items)}>"
        case Map():
            return f"map<{describe(type_.values)}>"
        case Union():
            return "[" + ", ".join(describe(b) for b in type_.branches) + "]"
