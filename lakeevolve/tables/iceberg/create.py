"""Making Iceberg tables of Avro schemas, and adding rows to them: for the demo, for trying things out, for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import exceptions as theirs
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import TableProperties
from pyiceberg.transforms import UnknownTransform, parse_transform
from pyiceberg.typedef import Record

from lakeevolve.errors import ConfigError, TableError
from lakeevolve.model import path as paths
from lakeevolve.model.schema import Schema
from lakeevolve.tables import marker
from lakeevolve.tables.base import MarkerEntry
from lakeevolve.tables.iceberg.catalog import load, open_catalog, parse_uri, translated
from lakeevolve.tables.iceberg.history import schema_of
from lakeevolve.tables.iceberg.locate import subtree
from lakeevolve.tables.iceberg.shape import canonical_type
from lakeevolve.tables.iceberg.table import IcebergHandle
from lakeevolve.tables.iceberg.types import iceberg_field, inner_fields
from lakeevolve.tables.iceberg.write import new_path, write_file

_PARTITION = re.compile(r"(?:(\w+)\((?:(\d+),\s*)?(.+)\)|(.+))\Z")


def create_table(
    uri: str,
    schema: Schema,
    /,
    *,
    partition: Sequence[str] = (),
    identifier: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    format_version: int = 2,
    mark: bool = False,
    **options: Any,
) -> IcebergHandle:
    """Create a table for an Avro schema.

    Parameters
    ----------
    uri:
        ``iceberg:CATALOG/ns.table``; an embedded catalog and a namespace that are not there are made.
    partition:
        Partition fields: a column (``country``), ``day(ts)``, ``bucket(16, id)``, ``truncate(4, zip)``.
    identifier:
        Columns that identify a row.
    mark:
        Record the schema as the table's version 1, so that symbols and names of types are known from the start.
    options:
        As for :func:`lakeevolve.open_table`.

    Raises
    ------
    TableError
        A table of that name exists, or the schema has a type that Iceberg has none for.

    Examples
    --------
    >>> create_table("iceberg:lake/shop.orders", schema, partition=["day(at)"])  # doctest: +SKIP
    """
    location = parse_uri(uri)
    catalog = open_catalog(location, options, create=True)
    fresh = count(1).__next__
    columns = [
        iceberg_field(f.name, f.type, paths.child("", f.name), fresh, format_version, doc=f.doc) for f in schema.fields
    ]
    plain = IcebergSchema(*columns)
    try:
        made = IcebergSchema(*columns, identifier_field_ids=[plain.find_field(name).field_id for name in identifier])
        spec = PartitionSpec(*_partition_fields(plain, partition))
        spec.check_compatible(made)
    except (ValueError, theirs.ValidationError) as error:
        raise ConfigError(
            "rows cannot be identified or partitioned like this",
            where=", ".join((*identifier, *partition)),
            hint="name columns of the schema; a partition is a column, or day(at), bucket(16, id), truncate(4, zip)",
        ) from error
    marked: dict[str, str] = {}
    if mark:
        origin = {"snapshot": None, "schema_id": 0, "sequence": None}
        entry = MarkerEntry(1, schema.to_json(), schema.digest, None, origin, {}, {}, {})
        marked = marker.to_properties([entry])
    given = {TableProperties.FORMAT_VERSION: str(format_version), **(properties or {}), **marked}
    with translated(uri):
        catalog.create_namespace_if_not_exists(location.identifier[:-1])
        if catalog.table_exists(location.identifier):
            raise TableError("a table of that name exists", where=uri, hint="choose another name, or drop it")
        # The library numbers columns itself, level by level.
        catalog.create_table(location.identifier, made, partition_spec=spec, properties=given)
    return IcebergHandle(location, catalog, load(catalog, location))


def _partition_fields(schema: IcebergSchema, wanted: Sequence[str]) -> Iterator[PartitionField]:
    for number, text in enumerate(wanted):
        found = _PARTITION.match(text.strip())
        assert found is not None
        transform, width, inside, plain = found.groups()
        column = (plain or inside).strip()
        what = "identity" if plain else f"{transform}[{width}]" if width else transform
        made = parse_transform(what)
        if isinstance(made, UnknownTransform):
            raise ValueError(what)
        yield PartitionField(
            source_id=schema.find_field(column).field_id,
            field_id=PARTITION_FIELD_ID_START + number,
            transform=made,
            name=column if plain else f"{column}_{transform}",
        )


def append(table: IcebergHandle | str, data: pa.Table | pa.RecordBatch, /, **options: Any) -> int:
    """Append rows.

    Parameters
    ----------
    table:
        An open table, or its URI.
    data:
        Rows in the canonical layout of the table's newest schema (:func:`lakeevolve.arrow_schema`); foreign columns
        by name. Optional columns that are left out are null. NULL lists and maps of structs stay NULL, which
        pyiceberg's own ``append`` makes empty.

    Returns
    -------
    int
        The snapshot that holds the rows.

    Raises
    ------
    TableError
        The rows do not fit the table's columns.

    Examples
    --------
    >>> append("iceberg:lake/shop.orders", rows)  # doctest: +SKIP
    """
    from lakeevolve.tables.iceberg import open_table

    live = open_table(table, **options) if isinstance(table, str) else table
    rows = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    iceberg = live.iceberg
    newest = live.history()[-1]
    schema = schema_of(iceberg.metadata, newest.schema_id)
    rows = _complete(rows, schema, newest.schema, live.uri)
    spec = iceberg.spec()
    with translated(live.uri):
        transaction = iceberg.transaction()
        producer = transaction.update_snapshot().fast_append()
    for partition, part in _partitions(rows, spec, schema):
        folder = spec.partition_to_path(partition, schema) if len(partition) else ""
        made = write_file(
            iceberg.io,
            new_path(iceberg.location_provider(), folder),
            schema,
            newest.schema,
            part.to_batches(),
            iceberg.metadata.properties,
            partition=partition,
            spec_id=spec.spec_id,
        )
        if made is not None:
            producer.append_data_file(made.file)
    with translated(live.uri):
        producer.commit()
        transaction.commit_transaction()
    live.refresh()
    return int(producer.snapshot_id)


def _partitions(rows: pa.Table, spec: PartitionSpec, schema: IcebergSchema) -> Iterator[tuple[Record, pa.Table]]:
    """The rows of each partition. The transforms run on distinct values, in Python: those over Arrow need an extra
    package."""
    numbers: list[pa.Array] = []
    values: list[list[Any]] = []
    for each in spec.fields:
        column = schema.find_field(each.source_id)
        distinct = _plain(_source(rows, schema, each.source_id)).dictionary_encode(null_encoding="encode")
        transform = each.transform.transform(column.field_type)
        made = [transform(value) for value in distinct.dictionary.to_pylist()]
        found = list(dict.fromkeys(made))
        places = pa.array([found.index(value) for value in made], pa.int32())
        numbers.append(places.take(distinct.indices))
        values.append(found)
    if not numbers:
        yield Record(), rows
        return
    keys = pa.table(numbers, names=[str(at) for at in range(len(numbers))])
    for combination in keys.group_by(keys.column_names).aggregate([]).to_pylist():
        chosen = [pc.equal(keys.column(name), place) for name, place in combination.items()]
        mask = chosen[0]
        for other in chosen[1:]:
            mask = pc.and_(mask, other)
        yield Record(*(values[int(name)][place] for name, place in combination.items())), rows.filter(mask)


def _source(rows: pa.Table, schema: IcebergSchema, number: int) -> pa.Array:
    """The column with this id, null where a struct around it is."""
    top = next(each for each in schema.columns if number in subtree(each))
    array = pa.concat_arrays([pa.array([], rows.schema.field(top.name).type), *rows.column(top.name).chunks])
    column = top
    while column.field_id != number:
        inside = inner_fields(column.field_type)
        at = next(at for at, each in enumerate(inside) if number in subtree(each))
        array, column = array.flatten()[at], inside[at]
    return array


def _plain(array: pa.Array) -> pa.Array:
    """Dates and times as the numbers that partition values are."""
    if pa.types.is_date(array.type) or pa.types.is_time32(array.type):
        return array.cast(pa.int32())
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.cast(pa.int64())
    return array


def _complete(rows: pa.Table, schema: IcebergSchema, avro: Schema, where: str) -> pa.Table:
    """The rows with every column of the table, in its order."""
    types = {each.name: each.type for each in avro.fields}
    strange = set(rows.column_names) - {column.name for column in schema.columns}
    missing = {column.name for column in schema.columns if column.required} - set(rows.column_names)
    if strange or missing:
        told = [f"the table has no such column: {', '.join(sorted(strange))}"] if strange else []
        told += [f"the rows lack the required {', '.join(sorted(missing))}"] if missing else []
        raise TableError("; ".join(told), where=where, hint="give every required column, and none that is not there")
    arrays = [
        rows.column(column.name)
        if column.name in rows.column_names
        else pa.nulls(rows.num_rows, canonical_type(column.field_type, types.get(column.name)))
        for column in schema.columns
    ]
    return pa.table(arrays, names=[column.name for column in schema.columns])
