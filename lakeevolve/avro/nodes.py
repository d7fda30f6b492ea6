"""The tree that a resolution consists of: per node of the reader, where its value comes from.

:mod:`lakeevolve.avro.resolution` builds it and is the only module that decides; :mod:`lakeevolve.avro.arrow` runs it
and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, overload

from lakeevolve.model.types import Array, AvroType, Enum, Field, Json, Map, Record, Union
from lakeevolve.model.value import value


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Incompatibility:
    """One reason why a reader cannot read what a writer wrote.

    ``kind`` and ``location`` (a JSON pointer in the reader) are as Avro Java 1.12 writes them; ``path`` is the same
    place in our notation. ``value_level`` ones concern some values only: data without those values can be read.
    ``causes`` are the reasons that each candidate branch of a union failed with.
    """

    kind: str
    location: str
    path: str
    message: str
    value_level: bool = False
    causes: tuple[Incompatibility, ...] = ()


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Keep:
    """The value is read as it stands."""

    type: AvroType


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Promote:
    """The value is converted: a numeric promotion, string and bytes, or an exact change of a logical type's unit.

    Where the logical types differ otherwise, the number or the bytes beneath are read anew; with ``raw`` they always
    are, as readers do that know no logical types.
    """

    writer: AvroType
    reader: AvroType
    raw: bool = False


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Symbols:
    """``read_as[i]`` is what the writer's i-th symbol reads as; None where the reader has no symbol and no default."""

    writer: Enum
    reader: Enum
    read_as: tuple[str | None, ...]


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Items:
    """An array, item by item."""

    writer: Array
    reader: Array
    node: Node


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Values:
    """A map, value by value; the keys are read as they stand."""

    writer: Map
    reader: Map
    node: Node


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadField:
    """The reader's field takes the value of the writer's field at ``index``."""

    field: Field
    index: int
    node: Node


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FillField:
    """The reader's field has no writer field. ``value`` is the JSON default; ``null`` True means NULL by the owner's
    choice, whatever the type allows."""

    field: Field
    value: Json
    null: bool = False


class Parts(Sequence["ReadField | FillField"]):
    """One part per field of a reader's record, equal to a tuple of them.

    Most fields are read as they stand, and often nobody asks but whether there is anything else: their parts are made
    when the first one is asked for.

    Parameters
    ----------
    reader:
        The record.
    sources:
        For each field, the index of the writer's field that it reads.
    others:
        By the index of the field, the parts of those that are not read as they stand.
    """

    __slots__ = ("_made", "_others", "_reader", "_sources")

    def __init__(
        self, reader: Record, sources: Sequence[int | None], others: Mapping[int, ReadField | FillField]
    ) -> None:
        self._reader = reader
        self._sources = sources
        self._others = others
        self._made: tuple[ReadField | FillField, ...] | None = None

    def _all(self) -> tuple[ReadField | FillField, ...]:
        if self._made is None:
            keeps: dict[int, Keep] = {}
            made: list[ReadField | FillField] = []
            for at, (field_, source) in enumerate(zip(self._reader.fields, self._sources, strict=True)):
                part = self._others.get(at)
                if part is None:
                    assert source is not None
                    type_ = field_.type
                    keep = keeps.get(id(type_)) or keeps.setdefault(id(type_), Keep(type_))
                    part = ReadField(field_, source, keep)
                made.append(part)
            self._made = tuple(made)
        return self._made

    def __len__(self) -> int:
        return len(self._reader.fields)

    def __iter__(self) -> Iterator[ReadField | FillField]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> ReadField | FillField: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ReadField | FillField, ...]: ...

    def __getitem__(self, index: int | slice) -> ReadField | FillField | tuple[ReadField | FillField, ...]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Parts):
            return self._all() == other._all()
        return self._all() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fields:
    """A record. ``skipped`` are the indexes of the writer's fields that nothing reads."""

    writer: Record
    reader: Record
    fields: Sequence[ReadField | FillField]
    skipped: tuple[int, ...]


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FromUnion:
    """The writer is a union: ``branches[i]`` says how a value of its i-th branch becomes the reader's type, which may
    itself be a union (then the node is a ToBranch). A :class:`Fail` stands where a branch cannot be read."""

    writer: Union
    reader: AvroType
    branches: tuple[Node, ...]


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToBranch:
    """The value becomes the reader union's branch at ``index`` (``null`` branches count)."""

    reader: Union
    index: int
    node: Node


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Again:
    """The resolution of an enclosing pair of named types, met again (a recursive type)."""

    writer: str
    reader: str


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fail:
    """Nothing can be read here."""

    incompatibilities: tuple[Incompatibility, ...] = field(default=())


Node: TypeAlias = Keep | Promote | Symbols | Items | Values | Fields | FromUnion | ToBranch | Again | Fail
