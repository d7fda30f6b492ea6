"""The strategies that are offered for others' tests give what they promise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.defaults import check_default
from lakeevolve.avro.parse import parse, walk
from lakeevolve.avro.resolution import resolve
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Enum, Fixed, Record
from lakeevolve.testing import evolutions, rows, schemas

some = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@some
@given(evolutions())
def test_schemas_are_valid_avro(pair: tuple[Schema, Schema]) -> None:
    for schema in pair:
        assert parse(schema.to_json()) == schema  # type: ignore[arg-type]
        names = {t.name: t for t in walk(schema.root) if isinstance(t, (Record, Enum, Fixed))}
        for type_ in walk(schema.root):
            for field in type_.fields if isinstance(type_, Record) else ():
                assert not field.has_default or check_default(field.type, field.default, names=names) is None


@some
@given(st.data())
def test_rows_fit_the_canonical_layout(data: Any) -> None:
    schema = data.draw(schemas(tables=True, depth=2))
    made = data.draw(st.lists(rows(schema), max_size=3))
    table = pa.Table.from_pylist(made, schema=arrow_schema(schema))
    assert table.to_pylist() == made
    table.validate(full=True)


@some
@given(evolutions(tables=True, compatible=True))
def test_compatible_evolutions_can_be_read(pair: tuple[Schema, Schema]) -> None:
    old, new = pair
    assert resolve(old, new).incompatibilities == ()


def test_rows_of_what_no_table_holds_are_refused() -> None:
    node = parse({"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]})
    with pytest.raises(ValueError, match="recursive"):
        rows(node)
    with pytest.raises(ValueError, match="root"):
        rows(parse("int"))
