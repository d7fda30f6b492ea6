"""Files that a writer added with a schema that was no longer the table's.

Such a writer loaded the table before a rewrite gave a column another field id, and its commit was retried on the new
metadata: the snapshot names the new schema, the file holds the old column. Readers find nothing there, so the file's
own columns have to say which version it was written for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.schema import Schema as IcebergSchema

from lakeevolve.model.origin import base_path
from lakeevolve.tables.base import Version
from lakeevolve.tables.iceberg.derive import known_columns
from lakeevolve.tables.iceberg.locate import subtree

#: Field id of a leaf column -> the number of the last version that had it before another id took its place.
Replaced = Mapping[int, int]


def replaced(versions: Sequence[Version], schema_of: Callable[[int | None], IcebergSchema]) -> Replaced:
    """The columns that live on under another field id since some version."""
    found: dict[int, int] = {}
    for before, after in pairwise(versions):
        old, new = schema_of(before.schema_id), schema_of(after.schema_id)
        if set(old.field_ids) <= set(new.field_ids):
            continue
        held = {known.path: known.column for known in known_columns(old, before.schema).values()}
        for number, known in known_columns(new, after.schema).items():
            if number in old.field_ids:
                continue
            was = base_path(known.path, before.schema.root, after.schema.root, after.renames, fresh=after.fresh)
            column = held.get(was) if was is not None else None
            if column is not None:
                found.update(dict.fromkeys(subtree(column) - set(new.field_ids), before.number))
    return found


def outdated(file: TheirFile, version: Version, current: Collection[int], found: Replaced) -> int | None:
    """The number of the version that a file was really written for, where it holds a column that its version replaced;
    None where it does not.

    *current* are the field ids of the version's schema. What a file holds is read off its statistics in the manifest.
    """
    if not found:
        return None
    held = {number for number in file.column_sizes or file.value_counts or () if number not in current}
    return min((found[number] for number in held if found.get(number, version.number) < version.number), default=None)
