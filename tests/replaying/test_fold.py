"""The fold of a table's versions: where it and a direct resolution differ, the fold is right for a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_schema, execute
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import ResolutionError, ValueMismatch
from lakeevolve.replaying.fold import Folds, fold

ID = {"name": "id", "type": "long"}


def batch(version: Any, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(version.schema, strict=False))


def both(versions: list[Any], rows: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The rows of version 1 through the fold, and resolved directly."""
    data = batch(versions[0], rows)
    direct = resolve(versions[0].schema, versions[-1].schema)
    folded = fold(versions, 1, len(versions))(data)
    assert folded.schema == arrow_schema(versions[-1].schema, strict=False)
    return folded.to_pylist(), execute(direct, data, partial=True).to_pylist()


@pytest.fixture(scope="session")
def chain(make: Any) -> Any:
    def versions(*schemas: list[dict[str, Any]], **more: Any) -> list[Any]:
        return [make.version(n, make.schema(*fields), **more.get(f"v{n}", {})) for n, fields in enumerate(schemas, 1)]

    return versions


def test_a_default_that_changed_later_does_not_reach_rows_that_were_filled(chain: Any) -> None:
    versions = chain(
        [ID],
        [ID, {"name": "country", "type": "string", "default": "US"}],
        [ID, {"name": "country", "type": "string", "default": "DE"}],
    )
    folded, direct = both(versions, [{"id": 1}])
    assert folded == [{"id": 1, "country": "US"}]
    assert direct == [{"id": 1, "country": "DE"}]


def test_a_field_dropped_and_added_again_is_a_new_column(chain: Any) -> None:
    note = {"name": "note", "type": ["null", "string"], "default": None}
    folded, direct = both(chain([ID, note], [ID], [ID, note]), [{"id": 1, "note": "old"}])
    assert folded == [{"id": 1, "note": None}]
    assert direct == [{"id": 1, "note": "old"}]


def test_a_symbol_removed_and_added_again_stays_defaulted(chain: Any) -> None:
    def state(*symbols: str) -> list[dict[str, Any]]:
        return [
            ID,
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": list(symbols), "default": "NEW"}},
        ]

    versions = chain(state("NEW", "HELD"), state("NEW"), state("NEW", "HELD"))
    folded, direct = both(versions, [{"id": 1, "state": "HELD"}, {"id": 2, "state": "NEW"}])
    assert [row["state"] for row in folded] == ["NEW", "NEW"]
    assert [row["state"] for row in direct] == ["HELD", "NEW"]


def test_int_to_float_to_double_rounds(chain: Any) -> None:
    versions = chain(*([ID, {"name": "n", "type": name}] for name in ("int", "float", "double")))
    folded, direct = both(versions, [{"id": 1, "n": 16777217}])
    assert folded[0]["n"] == 16777216.0
    assert direct[0]["n"] == 16777217.0


def test_a_rename_onto_a_dropped_name_follows_the_steps(chain: Any) -> None:
    versions = chain(
        [{"name": "a", "type": "string"}, {"name": "b", "type": "string"}],
        [{"name": "b", "type": "string"}],
        [{"name": "a", "type": "string", "aliases": ["b"]}],
    )
    folded = fold(versions, 1, 3)(batch(versions[0], [{"a": "first", "b": "second"}]))
    assert folded.to_pylist() == [{"a": "second"}]
    # Resolved directly, the name and the alias both find a field.
    direct = resolve(versions[0].schema, versions[2].schema)
    assert [i.kind for i in direct.incompatibilities] == ["ALIAS_COLLISION"]


def test_a_default_of_a_field_that_exists_changes_no_row(chain: Any) -> None:
    field = {"name": "x", "type": ["null", "int"]}
    versions = chain([ID, field], [ID, {**field, "default": None}], [ID, field])
    folded, direct = both(versions, [{"id": 1, "x": 5}, {"id": 2, "x": None}])
    assert folded == direct == [{"id": 1, "x": 5}, {"id": 2, "x": None}]


def test_what_each_step_recorded_is_used(chain: Any) -> None:
    versions = chain(
        [ID, {"name": "old", "type": "string"}],
        [
            ID,
            {"name": "new", "type": "string"},
            {"name": "n", "type": "int", "default": 7},
            {"name": "m", "type": "int", "default": 8},
        ],
        [
            ID,
            {"name": "new", "type": ["null", "string"], "default": None},
            {"name": "n", "type": "long", "default": 7},
            {"name": "m", "type": "long", "default": 8},
        ],
        v2={"renames": {"new": "old"}, "fills": {"n": "null", "m": "default"}},
        v3={"fresh": frozenset({"new"})},
    )
    run = Folds(versions)
    data = batch(versions[0], [{"id": 1, "old": "x"}])
    assert run(1, 2)(data).to_pylist() == [{"id": 1, "new": "x", "n": None, "m": 8}]
    assert run(1)(data).to_pylist() == [{"id": 1, "new": None, "n": None, "m": 8}]


def test_foreign_columns_pass_through(chain: Any) -> None:
    versions = chain([ID], [ID, {"name": "x", "type": "int", "default": 1}])
    data = batch(versions[0], [{"id": 1}]).append_column("_offset", pa.array([9], pa.int16()))
    found = fold(versions, 1, 2)(data)
    assert found.to_pylist() == [{"id": 1, "x": 1, "_offset": 9}]
    assert found.schema.field("_offset").type == pa.int16()
    assert fold(versions, 2, 2)(found) is found


def test_a_checked_step_runs_and_names_a_row_that_breaks_it(chain: Any) -> None:
    versions = chain([ID, {"name": "x", "type": ["null", "int"], "default": None}], [ID, {"name": "x", "type": "int"}])
    run = fold(versions, 1, 2)
    assert run(batch(versions[0], [{"id": 1, "x": 2}])).to_pylist() == [{"id": 1, "x": 2}]
    bad = batch(versions[0], [{"id": 1, "x": 2}, {"id": 2, "x": None}])
    with pytest.raises(ValueMismatch) as caught:
        list(run.stream(iter([bad, bad])))
    assert (caught.value.row, caught.value.path) == (1, "x")
    with pytest.raises(ValueMismatch) as caught:
        run(bad, row_offset=100)
    assert caught.value.row == 101


def test_a_step_that_does_not_resolve_is_an_error_and_others_are_not(chain: Any) -> None:
    versions = chain([{"name": "x", "type": "string"}], [{"name": "x", "type": "int"}], [{"name": "x", "type": "long"}])
    run = Folds(versions)
    assert run(2)(batch(versions[1], [{"x": 1}])).to_pylist() == [{"x": 1}]
    with pytest.raises(ResolutionError, match="version 1 cannot be read at version 2"):
        run(1)


def test_a_fold_is_composed_once(chain: Any) -> None:
    versions = chain([ID], [ID, {"name": "x", "type": "int", "default": 1}])
    run = Folds(versions)
    assert run(1) is run(1, 2)
    assert fold(versions, 1, 2) is fold(tuple(versions), 1, 2)
    assert fold(versions, 1, 2) is not fold(list(chain([ID], [ID])), 1, 2)
    with pytest.raises(ValueError, match="no versions 2 to 1"):
        run(2, 1)


TYPES = ("int", "long", "float", "double")


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=4), min_size=2, max_size=5))
def test_the_fold_is_what_its_steps_give_one_after_the_other(chain: Any, shapes: list[list[tuple[str, int]]]) -> None:
    schemas = []
    least: dict[str, int] = {}
    for shape in shapes:
        fields = [ID]
        now = {}
        for name, level in dict(shape).items():
            now[name] = max(level, least.get(name, 0))
            kind = TYPES[now[name]]
            fields.append({"name": name, "type": ["null", kind], "default": None})
        least = now
        schemas.append(fields)
    versions = chain(*schemas)
    data = batch(versions[0], [{"id": 1, **{name: 3 for name, _ in shapes[0]}}, {"id": 2}])
    whole = fold(versions, 1, len(versions))(data)
    for number in range(1, len(versions)):
        data = fold(versions, number, number + 1)(data)
    assert whole.equals(data)
