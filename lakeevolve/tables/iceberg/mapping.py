"""The name mapping of a table that holds files without field ids.

Such files are read by name, so a name in the mapping means the column that it meant when they were written, for ever.
New names are added beside the old ones. pyiceberg's own update moves a name that is used again to the new column, and
with it the old data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import NestedField

from lakeevolve.tables.iceberg.types import inner_fields


def mapped(mapping: NameMapping, schema: IcebergSchema) -> NameMapping:
    """The mapping with the names of a new schema added where they are free."""
    return NameMapping(_level(list(mapping), schema.columns))


def _level(known: Sequence[MappedField], columns: Iterable[NestedField]) -> list[MappedField]:
    found = {each.field_id: each for each in known}
    taken = {name for each in known for name in each.names}
    made = list(known)
    for column in columns:
        old = found.get(column.field_id)
        inside = _level(old.fields if old is not None else [], inner_fields(column.field_type))
        names = list(old.names) if old is not None else []
        if column.name not in taken:
            names.append(column.name)
            taken.add(column.name)
        values: dict[str, Any] = {"field-id": column.field_id, "names": names, "fields": inside}
        new = MappedField(**values)
        if old is not None:
            made[made.index(old)] = new
        elif names:
            made.append(new)
    return made
