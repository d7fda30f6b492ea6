"""What an owner says in the schema's names, said in the table's, and the columns that nobody owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from lakeevolve.errors import PlanError
from lakeevolve.model.mapping import Columns
from lakeevolve.model.schema import Schema
from lakeevolve.planning.plan import Inputs
from lakeevolve.rules.contract import Contract
from lakeevolve.tables.base import Table

_Value = TypeVar("_Value")

#: What makes a name a pattern.
_PATTERN: Final = frozenset("*?[")


def in_columns(inputs: Inputs, columns: Columns) -> Inputs:
    """Everything that a plan is told by paths, by the table's paths."""
    return replace(
        inputs,
        renames=_pairs(inputs.renames, columns),
        not_renames=_pairs(inputs.not_renames, columns),
        routes=by_column(inputs.routes, columns),
        contracts=tuple(contract_of(each, columns) for each in inputs.contracts),
    )


def by_column(told: Mapping[str, _Value], columns: Columns) -> dict[str, _Value]:
    """What is told by the schema's paths, by the table's."""
    return {_path(path, columns): value for path, value in told.items()}


def contract_of(contract: Contract, columns: Columns) -> Contract:
    """A contract in the table's names. Fields outside the record that the table's rows are stay with the schema."""
    fields = [(columns.path(each.path), each) for each in contract.fields]
    return replace(
        contract,
        reader=None if contract.reader is None else columns.schema(contract.reader),
        fields=tuple(replace(each, path=path) for path, each in fields if path is not None),
        event_id=None if contract.event_id is None else columns.path(contract.event_id),
    )


def _pairs(pairs: Iterable[tuple[str, str]], columns: Columns) -> tuple[tuple[str, str], ...]:
    """Renames by the table's paths, without those that the table does not notice."""
    found = [(_path(old, columns), _path(new, columns)) for old, new in pairs]
    return tuple((old, new) for old, new in found if old != new)


def _path(path: str, columns: Columns) -> str:
    # What lies outside the table, or is no path, is for the planner to refuse under the name that it has.
    try:
        return columns.path(path) or path
    except ValueError:
        return path


def refuse_owned(table: Table, target: Schema, patterns: Iterable[str]) -> None:
    """Refuse columns as nobody's that a schema owns, or that are not there.

    Raises ``PlanError`` with the column, or with the nearest one that there is.
    """
    names = {field.name for field in target.fields}
    recorded = [version for version in table.history(hint=target) if version.recorded]
    owned = names | ({field.name for field in recorded[-1].schema.fields} if recorded else set())
    there = list(dict.fromkeys((*(field.name for field in table.derived().fields), *table.foreign)))
    for pattern in patterns:
        taken = sorted(name for name in owned if fnmatchcase(name, pattern))
        if taken:
            whose = "the schema" if taken[0] in names else "the schema that the table's marker records"
            raise PlanError(
                f"foreign names {pattern}, and the column {taken[0]} is owned by {whose}",
                where=table.uri,
                hint="keep foreign to columns that no schema has",
            )
        if not _PATTERN & set(pattern) and pattern not in there:
            near = get_close_matches(pattern, there, n=1, cutoff=0.5)
            raise PlanError(
                f"foreign names a column that does not exist: {pattern}",
                where=table.uri,
                hint=f"did you mean {near[0]}?" if near else "its columns are " + ", ".join(there[:5]),
            )
