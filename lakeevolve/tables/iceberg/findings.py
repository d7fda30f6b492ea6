"""What is wrong with a table as it stands, whatever is planned: mostly what other tools left behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType

from lakeevolve.model import path as paths
from lakeevolve.rules.default import IN_METADATA
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.table import COLUMNS_CLASH, MANY_SCHEMAS, NAME_MAPPING, PARTITION_SOURCE_GONE, ROWS_UNREADABLE
from lakeevolve.tables.iceberg.facts import key_names
from lakeevolve.tables.iceberg.mapping import unmapped
from lakeevolve.tables.iceberg.types import inner_fields

#: Columns of all schemas together: about 15 MB of metadata.
MANY_COLUMNS: Final = 100_000

_UNNAMED = {"element": paths.ITEMS, "value": paths.VALUES, "key": paths.VALUES}


def table_findings(metadata: TableMetadata, specs: Collection[int], uri: str) -> tuple[Finding, ...]:
    """The findings of a table's metadata. *specs* are the partition specs that live files use."""
    schema = metadata.schema()
    found = [*_mapping(metadata, uri), *_clashes(schema, uri), *_sources(metadata, specs, uri)]
    columns = sum(len(each.field_ids) for each in metadata.schemas)
    if columns > MANY_COLUMNS:
        message = f"the metadata holds {len(metadata.schemas):,} schemas with {columns:,} columns in all"
        found.append(MANY_SCHEMAS.finding(paths.ROOT, None, None, message, subject=uri))
    if metadata.format_version < 3:
        found += _defaults(schema, metadata.format_version, uri)
    return tuple(found)


def unread(schema: IcebergSchema, equality_ids: Collection[int], uri: str) -> Iterator[Finding]:
    """That equality deletes, which compare these columns, keep the rows from being read."""
    yield ROWS_UNREADABLE.finding(
        paths.ROOT,
        None,
        None,
        "the table holds equality deletes, which no Python library applies, so its rows cannot be read; a change is "
        f"checked from the schema alone, and nothing is replayed (equality key: {key_names(schema, equality_ids)})",
        subject=uri,
    )


def _mapping(metadata: TableMetadata, uri: str) -> Iterator[Finding]:
    mapping = metadata.name_mapping()
    for path, column, other in unmapped(mapping, metadata.schema()) if mapping is not None else ():
        leads = f"field id {other}" if other is not None else "no column"
        yield NAME_MAPPING.finding(
            path,
            leads,
            f"field id {column}",
            f"the table's name mapping leads {paths.leaf(path)} to {leads}, and the column is field id {column}",
            breaks="rows of files without field ids that are added from now on: they read NULL here, or not at all",
            fix=f"set schema.name-mapping.default so that the name {paths.leaf(path)} leads to field id {column}",
            subject=uri,
        )


def _defaults(schema: IcebergSchema, version: int, uri: str) -> Iterator[Finding]:
    for path, column in _columns(schema.columns, paths.ROOT):
        if column.initial_default is not None:
            yield IN_METADATA.finding(
                path,
                None,
                f"format version {version}",
                f"old rows get the column's value from a default in the metadata, which format version {version} does "
                "not have",
                breaks="readers that keep to the format read NULL or find no row by the value; Java refuses every "
                "later change of the schema",
                subject=uri,
            )


def _clashes(schema: IcebergSchema, uri: str) -> Iterator[Finding]:
    for path, structs in _structs(schema):
        seen: dict[str, str] = {}
        for column in structs:
            other = seen.setdefault(column.name.casefold(), column.name)
            if other != column.name:
                yield COLUMNS_CLASH.finding(
                    paths.child(path, column.name),
                    other,
                    column.name,
                    f"the table has the columns {other} and {column.name}, which differ in case only",
                    breaks="engines that ignore case (Spark, DuckDB): they read one for the other, or refuse",
                    subject=uri,
                )


def _structs(schema: IcebergSchema) -> Iterator[tuple[str, tuple[NestedField, ...]]]:
    yield paths.ROOT, tuple(schema.columns)
    for path, column in _columns(schema.columns, paths.ROOT):
        if isinstance(column.field_type, StructType):
            yield path, tuple(column.field_type.fields)


def _sources(metadata: TableMetadata, specs: Collection[int], uri: str) -> Iterator[Finding]:
    ids = metadata.schema().field_ids
    for spec in metadata.partition_specs:
        if spec.spec_id not in specs and spec.spec_id != metadata.default_spec_id:
            continue
        for each in spec.fields:
            if each.source_id not in ids:
                yield PARTITION_SOURCE_GONE.finding(
                    each.name,
                    f"spec {spec.spec_id}",
                    None,
                    f"live files are partitioned by {each.name}, whose column (field id {each.source_id}) was dropped",
                    breaks="DuckDB, which cannot read the table, and what pyiceberg tells of its files",
                    subject=uri,
                )


def _columns(columns: Collection[NestedField], path: str, *, named: bool = True) -> Iterator[tuple[str, NestedField]]:
    """Every column, at every depth, with its path."""
    for column in columns:
        here = paths.child(path, column.name) if named else path + _UNNAMED[column.name]
        yield here, column
        inner = inner_fields(column.field_type)
        yield from _columns(inner, here, named=isinstance(column.field_type, StructType))
