"""What notebooks show of the values that a call returns."""

from __future__ import annotations

from lakeevolve.model import path as paths
from lakeevolve.model.branches import branches_at
from lakeevolve.model.diff import Diff
from lakeevolve.model.schema import Schema
from lakeevolve.model.sentence import short_json
from lakeevolve.model.types import NO_DEFAULT, Array, AvroType, Map, Record, Union, describe
from lakeevolve.planning.adoption import Adoption
from lakeevolve.planning.plan import Plan
from lakeevolve.report import outcome as outcomes
from lakeevolve.report.adoption import of_adoption
from lakeevolve.report.html import fragment
from lakeevolve.report.outcome import Outcome
from lakeevolve.rules.modes import Report
from lakeevolve.tables.description import Description


def shown(value: object) -> str:
    """The HTML of a schema, a diff, a report, a plan, a description or a replay. No row values, no credentials."""
    match value:
        case Schema():
            made = of_schema(value)
        case Diff():
            made = outcomes.of_diff(value)
        case Report():
            made = outcomes.of_check(value)
        case Plan():
            made = outcomes.of_plan(value)
        case Adoption():
            made = of_adoption(value)
        case Description():
            made = outcomes.of_description(value.to_json())
        case _:
            from lakeevolve.replaying.result import ReplayResult

            if not isinstance(value, ReplayResult):
                raise TypeError(f"nothing is drawn of a {type(value).__name__}")
            made = outcomes.of_verify(value, value.evidence.table["uri"])
    return fragment(made)


def of_schema(schema: Schema) -> Outcome:
    """A schema as a table of its fields."""
    rows = list(_fields(schema.root, paths.ROOT))
    title = f"Schema {describe(schema.root).removeprefix('record ')}"
    verdict = f"{len(rows)} fields" + (f", from {schema.source}" if schema.source else "")
    return Outcome("schema", {"fields": rows}, lambda: "\n".join(map(" ".join, rows)), title, verdict)


def _fields(type_: AvroType, at: str) -> list[tuple[str, str, str, str]]:
    match type_:
        case Record():
            found = []
            for field in type_.fields:
                path = paths.child(at, field.name)
                default = "" if field.default is NO_DEFAULT else short_json(field.default)
                found.append((path, describe(field.type), default, field.doc or ""))
                found += _fields(field.type, path)
            return found
        case Array():
            return _fields(type_.items, paths.items(at))
        case Map():
            return _fields(type_.values, paths.values(at))
        case Union():
            return [row for branch, here in branches_at(type_, at) for row in _fields(branch, here)]
    return []
