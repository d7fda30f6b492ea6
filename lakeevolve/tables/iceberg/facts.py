"""What of a table decides about routes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.transforms import IdentityTransform, VoidTransform

from lakeevolve.model import path as paths
from lakeevolve.tables.base import Capability


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides about routes, apart from the change itself.

    ``partitioned`` maps the source column of each partition field that is in force, or that live files still use, to
    the field's name; ``partition_names`` each partition field's name to its source where it is that column's identity.
    ``name`` is what the table is called in statements.
    """

    format_version: int
    schema: IcebergSchema
    partitioned: Mapping[int, str]
    partition_names: Mapping[str, int | None]
    sorted_by: frozenset[int]
    mapping: NameMapping | None = None
    equality_deletes: bool = False
    #: The columns that live equality delete files compare; none where one of them does not say.
    equality_ids: frozenset[int] = frozenset()
    formats: frozenset[str] = frozenset()
    branches: tuple[str, ...] = ()
    name: str = "the_table"
    #: As ``partitioned``, of specs that are kept in the metadata and that no live file uses.
    past: Mapping[int, str] = field(default_factory=dict)
    #: Whether a live file has no field ids, which only its footer tells; so it is asked where that decides.
    plain_files: Callable[[], bool] = field(default=lambda: True, compare=False, repr=False)

    @property
    def identifiers(self) -> frozenset[int]:
        return frozenset(self.schema.identifier_field_ids)

    @property
    def equality_key(self) -> str:
        """The names of the columns that equality deletes compare, as they are now."""
        return key_names(self.schema, self.equality_ids)


def key_names(schema: IcebergSchema, ids: Collection[int]) -> str:
    """The names of columns in their order, by the id where a column is no more; what is not known is said."""
    names = (schema.find_column_name(number) or f"field id {number}" for number in sorted(ids))
    return ", ".join(names) or "not known"


def facts_of(
    metadata: TableMetadata,
    *,
    name: str,
    specs: Collection[int],
    equality_deletes: bool,
    equality_ids: frozenset[int],
    formats: frozenset[str],
    plain_files: Callable[[], bool],
) -> Facts:
    """The facts of a table. *specs* are those that live files use."""
    partitioned: dict[int, str] = {}
    past: dict[int, str] = {}
    names: dict[str, int | None] = {}
    for spec in metadata.partition_specs:
        for each in spec.fields:
            names[each.name] = each.source_id if isinstance(each.transform, IdentityTransform) else None
            in_use = spec.spec_id == metadata.default_spec_id or spec.spec_id in specs
            if in_use and not isinstance(each.transform, VoidTransform):
                partitioned[each.source_id] = each.name
            elif not isinstance(each.transform, VoidTransform):
                past[each.source_id] = each.name
    return Facts(
        metadata.format_version,
        metadata.schema(),
        partitioned,
        names,
        frozenset(each.source_id for each in metadata.sort_order().fields),
        metadata.name_mapping(),
        equality_deletes,
        equality_ids,
        formats,
        tuple(
            sorted(
                branch
                for branch, ref in metadata.refs.items()
                if ref.snapshot_ref_type == SnapshotRefType.BRANCH and branch != MAIN_BRANCH
            )
        ),
        name,
        past,
        plain_files,
    )


def unreadable(facts: Facts) -> str | None:
    """Why no change of any kind is made, or None: data files in formats that are not read."""
    others = sorted(facts.formats - {"PARQUET"})
    if others:
        return f"the table holds data files in {', '.join(others)}, and only Parquet is read; rewrite them first"
    return None


def elsewhere(facts: Facts) -> str | None:
    """Why the table's rows cannot be checked or written anew as one, or None."""
    if facts.branches:
        return (
            f"the table has other branches ({', '.join(facts.branches)}) whose rows would neither be checked nor "
            "rewritten; merge or drop them first"
        )
    return None


def within_reach(path: str, renamed: Capability) -> Capability:
    """The route of a rename. What lies in a list or map right within another, pyiceberg 0.12 projects onto the names
    that the file has, and reads NULL or fails."""
    parts = paths.parts(path)
    if not any({one, two} <= {paths.ITEMS, paths.VALUES} for one, two in pairwise(parts)):
        return renamed
    return replace(
        renamed,
        route="rewrite",
        via="rename column and rewrite files",
        reason="pyiceberg reads no field that was renamed in a list or map within another: the files are written anew",
        permit="rewrite",
    )
