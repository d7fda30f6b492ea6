"""Any schema, any evolution that has routes: what the table reads is what the resolution says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.errors import ResolutionError, TableError, UnsupportedTable
from lakeevolve.tables.base import Version
from lakeevolve.tables.iceberg import append, create_table
from lakeevolve.testing import evolutions, rows


def exact(value: Any) -> Any:
    """A value in a form in which floats are compared by their bits."""
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(inner) for inner in value]
    return repr(value) if isinstance(value, float) else value


def lenient(value: Any) -> Any:
    """The same with NULL and empty containers as one: pyiceberg takes one for the other (iceberg-python#3833)."""
    if isinstance(value, dict):
        return {key: lenient(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [lenient(inner) for inner in value] or None
    return value


def listed(batches: Any, avro: Any) -> Any:
    """The rows, in an order of their own: that of a table's files is nobody's business."""
    return sorted(
        exact(pa.Table.from_batches(list(batches), schema=arrow_schema(avro, strict=False)).to_pylist()), key=repr
    )


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_an_evolution_changes_nothing_but_what_it_says(data: Any, workshop: Any) -> None:
    old, new = data.draw(evolutions(tables=True, compatible=data.draw(st.booleans()), depth=2))
    given_ = [data.draw(rows(old)) for _ in range(data.draw(st.integers(1, 4)))]
    written = pa.Table.from_pylist(given_, schema=arrow_schema(old, strict=False))
    with tempfile.TemporaryDirectory() as folder:
        shop = type(workshop)(Path(folder))
        try:
            table = create_table(shop.uri(), old, mark=True)
        except UnsupportedTable:
            return
        append(table, written.slice(0, 1))
        append(table, written.slice(1))
        assert table.history()[-1].schema == old
        assert listed((b for file in table.files() for b in table.raw(file)), old) == sorted(
            exact(written.to_pylist()), key=repr
        )
        try:
            evolved = shop.prepare(table, new)
            versions = (
                *table.history(),
                Version(2, new, fills=evolved.evolution.fills, renames=evolved.evolution.renames),
            )
            expected = listed((b for file in table.files() for b in workshop.fold(table, versions, file)), new)
        except (UnsupportedTable, ResolutionError):
            # Refused, or a value stands against it; a plan would not have got here.
            return
        except TableError as error:
            assert "required column" in str(error)  # noqa: PT017 - a value stands against it
            return
        shop.commit(table, evolved)
        assert table.schema == new
        assert (
            listed((b for file in table.files() for b in workshop.fold(table, table.history(), file)), new) == expected
        )
        assert sorted(lenient(listed(table.read(), new)), key=repr) == sorted(lenient(expected), key=repr)
