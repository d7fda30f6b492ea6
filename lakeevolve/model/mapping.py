"""How the names of a table's columns follow from those of a schema, where the two differ.

The owner of a table declares a mapping: path in the schema to path in the table. It gives columns other names, and with
``$`` for the path in the table it takes a record inside the schema for the table's rows (``after: $`` for an envelope
of change data). It moves nothing from one record into another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from lakeevolve.errors import ConfigError
from lakeevolve.model import path as paths
from lakeevolve.model.branches import branches_at
from lakeevolve.model.declared import every_path
from lakeevolve.model.find import find_type
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NO_DEFAULT,
    Array,
    AvroType,
    Field,
    Map,
    Record,
    Union,
    is_null,
    without_null,
)

#: The table's rows themselves, as the path of a table.
ROOT: Final = "$"


@dataclass(frozen=True, slots=True)
class Columns:
    """The names that the columns of one table have. ``root`` is the path of the record that the table's rows are, and
    ``names`` says per path of the schema what the column there is called."""

    root: str = paths.ROOT
    names: Mapping[str, str] = field(default_factory=dict)

    def path(self, path: str) -> str | None:
        """Where in the table something is that a schema has at *path*; None where it lies outside the table.

        >>> Columns("after", {"after.orderId": "order_id"}).path("after.orderId")
        'order_id'
        """
        segments, above = paths.parts(path), len(paths.parts(self.root))
        if not paths.within(path, self.root):
            return None
        above_each = [paths.join(segments[:length]) for length in range(1, len(segments) + 1)]
        found = [self.names.get(each, segment) for each, segment in zip(above_each, segments, strict=True)]
        return paths.join(tuple(found[above:]))

    def schema(self, schema: Schema) -> Schema:
        """The schema with the table's names."""
        root = find_type(schema.root, self.root) if self.root else schema.root
        made = _Renaming(self.names).type(without_null(root) if root is not None else schema.root, self.root)
        return replace(schema, root=made)


def columns_of(mapping: Mapping[str, str], schema: Schema, earlier: Iterable[str] = ()) -> Columns:
    """A declared mapping, held against a schema.

    Parameters
    ----------
    mapping:
        Path in the schema to path in the table, of which only the last name differs; ``$`` for the table's rows.
    earlier:
        Paths that the schema had before, which a declared rename starts from. Aliases are known without.

    Raises
    ------
    ConfigError
        A path is in no place of the schema, is mapped into another record, or two fields come to have one name.

    Examples
    --------
    >>> from lakeevolve.model.types import Field, Primitive
    >>> order = Schema(Record("Order", (Field("orderId", Primitive("long")),)))
    >>> columns_of({"orderId": "order_id"}, order).schema(order).fields[0].name
    'order_id'
    """
    roots = [path for path, column in mapping.items() if column == ROOT]
    if len(roots) > 1:
        raise ConfigError("two records are mapped to the table's rows", where=", ".join(roots), hint="keep one of them")
    known = list(dict.fromkeys((*every_path(schema.root), *_aliases(schema.root, ""), *earlier)))
    for path in mapping:
        if path not in known:
            raise _nowhere(path, known)
    made = declared(mapping)
    if roots and not isinstance(without_null(find_type(schema.root, made.root) or schema.root), Record):
        raise ConfigError("no record is mapped to the table's rows", where=made.root, hint="name a record's path")
    for path in made.names:
        _refuse_moved(made, path, mapping[path])
    _refuse_twice(made.schema(schema).root, "")
    return made


def declared(mapping: Mapping[str, str]) -> Columns:
    """A declared mapping as it stands, for what was held against a schema already."""
    root = next((path for path, column in mapping.items() if column == ROOT), paths.ROOT)
    return Columns(root, {path: paths.leaf(_path(path, to)) for path, to in mapping.items() if to != ROOT})


def _path(path: str, column: str) -> str:
    try:
        if paths.parts(column):
            return column
    except ValueError:
        pass
    raise ConfigError(
        "a field is mapped to what is no path of a table", where=f"{path}: {column}", hint="name a column"
    )


def _refuse_moved(made: Columns, path: str, column: str) -> None:
    here = made.path(path)
    if here is None:
        raise ConfigError(
            "a mapped field lies outside the record that the table's rows are",
            where=path,
            hint=f"the rows are what stands at {made.root}; leave the field out of the mapping",
        )
    if paths.parts(here) != paths.parts(column):
        raise ConfigError(
            "a mapping gives a field another name and moves it into no other record",
            where=f"{path}: {column}",
            hint=f"write {path}: {paths.join((*paths.parts(paths.parent(here)), paths.leaf(column)))}",
        )


def _refuse_twice(type_: AvroType, at: str) -> None:
    for record, here in _records(type_, at):
        names = [each.name for each in record.fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                "two fields are mapped to one column",
                where=", ".join(paths.child(here, name) for name in twice),
                hint="give each field a column of its own",
            )


def _records(type_: AvroType, at: str) -> Iterator[tuple[Record, str]]:
    match type_:
        case Record():
            yield type_, at
            for each in type_.fields:
                yield from _records(each.type, paths.child(at, each.name))
        case Array():
            yield from _records(type_.items, paths.items(at))
        case Map():
            yield from _records(type_.values, paths.values(at))
        case Union():
            for branch, here in branches_at(type_, at):
                yield from _records(branch, here)


def _aliases(type_: AvroType, at: str) -> Iterator[str]:
    """The paths that fields had before, by their aliases."""
    for record, here in _records(type_, at):
        for each in record.fields:
            yield from (paths.child(here, alias) for alias in each.aliases)


def _nowhere(path: str, known: Sequence[str]) -> ConfigError:
    near = get_close_matches(path, known, n=1, cutoff=0.5)
    some = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
    return ConfigError(
        f"the mapping names a field that does not exist: {path}",
        where=path,
        hint=f"did you mean {near[0]}?" if near else f"the schema's fields are {some}",
    )


@dataclass(frozen=True, slots=True)
class _Renaming:
    """One schema on its way to a table's names."""

    names: Mapping[str, str]
    #: What each record's name stands for already: mapped in one place and not in another, it takes two names.
    made: dict[str, Record] = field(default_factory=dict)

    def type(self, type_: AvroType, at: str) -> AvroType:
        match type_:
            case Record():
                return self._distinct(replace(type_, fields=tuple(self._field(each, at) for each in type_.fields)))
            case Array():
                return replace(type_, items=self.type(type_.items, paths.items(at)))
            case Map():
                return replace(type_, values=self.type(type_.values, paths.values(at)))
            case Union():
                places = (here for _, here in branches_at(type_, at))
                made = (each if is_null(each) else self.type(each, next(places)) for each in type_.branches)
                return replace(type_, branches=tuple(made))
        return type_

    def _field(self, each: Field, at: str) -> Field:
        here = paths.child(at, each.name)
        name = self.names.get(here, each.name)
        aliases = dict.fromkeys(self.names.get(paths.child(at, alias), alias) for alias in each.aliases)
        return replace(
            each,
            name=name,
            type=self.type(each.type, here),
            default=each.default if each.default is NO_DEFAULT else self._value(each.default, each.type, here),
            aliases=tuple(alias for alias in aliases if alias != name),
        )

    def _value(self, value: Any, type_: AvroType, at: str) -> Any:
        """A default, of which records' fields go by the table's names."""
        match type_, value:
            case Record(), dict():
                found = {}
                for name, inner in value.items():
                    here, own = paths.child(at, name), type_.field(name)
                    found[self.names.get(here, name)] = inner if own is None else self._value(inner, own.type, here)
                return found
            case Array(), list():
                return [self._value(each, type_.items, paths.items(at)) for each in value]
            case Map(), dict():
                return {key: self._value(each, type_.values, paths.values(at)) for key, each in value.items()}
            case Union(), _ if value is not None and type_.values:
                # A default is of the first branch; null apart, that is the first one with a value.
                return self._value(value, *next(branches_at(type_, at)))
        return value

    def _distinct(self, record: Record) -> Record:
        name, number = record.name, 2
        while self.made.setdefault(name, replace(record, name=name)) != replace(record, name=name):
            name, number = f"{record.name}_{number}", number + 1
        return self.made[name]
