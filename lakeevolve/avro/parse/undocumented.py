"""What a type says of the data, without what it says to people and programs about it."""

from __future__ import annotations

from dataclasses import replace

from lakeevolve.model.types import Array, AvroType, Enum, Field, Fixed, Map, Primitive, Record, Union


def undocumented(type_: AvroType) -> AvroType:
    """The type without docs and properties, at every depth."""
    return _Bare({}).of(type_)


class _Bare:
    def __init__(self, made: dict[int, AvroType]) -> None:
        #: Named types, which may be used many times, by the identity of what they are made from.
        self.made = made

    def of(self, type_: AvroType) -> AvroType:
        match type_:
            case Primitive():
                return Primitive(type_.name, type_.logical)
            case Array():
                return Array(self.of(type_.items))
            case Map():
                return Map(self.of(type_.values))
            case Union():
                return Union(tuple(map(self.of, type_.branches)))
            case Enum() | Fixed():
                return replace(type_, doc=None, props={})
            case Record():
                if id(type_) not in self.made:
                    fields = tuple(map(self.field, type_.fields))
                    self.made[id(type_)] = replace(type_, fields=fields, doc=None, props={})
                return self.made[id(type_)]
        return type_

    def field(self, field: Field) -> Field:
        return replace(field, type=self.of(field.type), doc=None, props={})
