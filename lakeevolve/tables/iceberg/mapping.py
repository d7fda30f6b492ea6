"""The name mapping of a table that holds files without field ids.

Such files are read by name, so a name in the mapping means the column that it meant when they were written. New names
are added beside the old ones. pyiceberg's own update moves a name that is used again to the new column, and with it
the old data.

There is one exception. A column whose files were all written anew under another id takes its names along: the next
file without ids means the new column. The mapping that the older files were written for is kept in a property of its
own, so that their rows can still be told (:func:`mapping_for`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, parse_mapping_from_json
from pyiceberg.types import NestedField

from lakeevolve.model import path as paths
from lakeevolve.tables import marker
from lakeevolve.tables.iceberg.types import inner_fields

#: ``lakeevolve.names.<n>``: the name mapping as it was until the end of version n.
NAMES: Final = marker.PREFIX + "names."


def mapped(
    mapping: NameMapping,
    schema: IcebergSchema,
    moved: Mapping[int, int] | None = None,
    aliases: Mapping[int, Sequence[str]] | None = None,
) -> NameMapping:
    """The mapping with the names of a new schema added where they are free, and after them its aliases.

    *moved* says which column, by its new id, holds what a column of another id held; its names go with it. *aliases*
    are those of each column's field, by the column's id.
    """
    return NameMapping(_level(list(mapping), schema.columns, moved or {}, aliases or {}))


def _level(
    known: Sequence[MappedField],
    columns: Iterable[NestedField],
    moved: Mapping[int, int],
    aliases: Mapping[int, Sequence[str]],
) -> list[MappedField]:
    columns = list(columns)
    made = [_heir(each, columns, moved) for each in known]
    found = {each.field_id: each for each in made}
    taken = {name for each in made for name in each.names}
    for column in columns:
        old = found.get(column.field_id)
        inside = _level(old.fields if old is not None else [], inner_fields(column.field_type), moved, aliases)
        names = list(old.names) if old is not None else []
        if column.name not in taken:
            names.append(column.name)
            taken.add(column.name)
        new = _mapped_field(column.field_id, names, inside)
        if old is not None:
            made[made.index(old)] = new
        elif names:
            made.append(new)
    for at, each in enumerate(made):
        free = [name for name in aliases.get(each.field_id or 0, ()) if name not in taken]
        if free:
            taken.update(free)
            made[at] = _mapped_field(each.field_id, [*each.names, *free], each.fields)
    return made


def _heir(entry: MappedField, columns: Sequence[NestedField], moved: Mapping[int, int]) -> MappedField:
    """The entry, for the column that continues its own under another id."""
    for column in columns:
        if moved.get(column.field_id) == entry.field_id:
            return _mapped_field(column.field_id, entry.names, _same_names(entry.fields, column))
    return entry


def _same_names(entries: Sequence[MappedField], above: NestedField) -> list[MappedField]:
    """The entries beneath a column that got another id: everything in it has, so only names tell."""
    inside = inner_fields(above.field_type)
    current = {column.name for column in inside}
    made = []
    for column in inside:
        entry = next((each for each in entries if column.name in each.names), None)
        if entry is not None:
            names = [name for name in entry.names if name == column.name or name not in current]
            made.append(_mapped_field(column.field_id, names, _same_names(entry.fields, column)))
    return made


def _mapped_field(number: int | None, names: Sequence[str], fields: Sequence[MappedField]) -> MappedField:
    values: dict[str, Any] = {"field-id": number, "names": list(names), "fields": list(fields)}
    return MappedField(**values)


def mapping_for(metadata: TableMetadata, version: int) -> NameMapping | None:
    """The name mapping that a file without field ids was written for, by the number of its version."""
    return _kept(metadata, version) or metadata.name_mapping()


def with_mapping_for(metadata: TableMetadata, version: int) -> TableMetadata:
    """The metadata with the name mapping of a version, for a reader that knows only of the current one."""
    kept = _kept(metadata, version)
    if kept is None:
        return metadata
    properties = {**metadata.properties, TableProperties.DEFAULT_NAME_MAPPING: kept.model_dump_json()}
    return metadata.model_copy(update={"properties": properties})


def _kept(metadata: TableMetadata, version: int) -> NameMapping | None:
    numbers = {key.removeprefix(NAMES): key for key in metadata.properties if key.startswith(NAMES)}
    later = sorted(int(number) for number in numbers if number.isdigit() and int(number) >= version)
    return parse_mapping_from_json(metadata.properties[numbers[str(later[0])]]) if later else None


def unmapped(mapping: NameMapping, schema: IcebergSchema) -> Iterator[tuple[str, int, int | None]]:
    """The columns that a file without field ids could not reach by their own name: path, id, and the id that the
    mapping gives the name instead."""
    yield from _unmapped(list(mapping), schema.columns, paths.ROOT)


def _unmapped(
    known: Sequence[MappedField], columns: Iterable[NestedField], path: str
) -> Iterator[tuple[str, int, int | None]]:
    for column in columns:
        here = paths.child(path, column.name)
        entry = next((each for each in known if column.name in each.names), None)
        if entry is None or entry.field_id != column.field_id:
            yield here, column.field_id, entry.field_id if entry is not None else None
        else:
            yield from _unmapped(entry.fields, inner_fields(column.field_type), here)
