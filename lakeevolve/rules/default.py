"""Rules about defaults."""

from __future__ import annotations

from collections.abc import Iterator

from lakeevolve.avro.defaults import check_default
from lakeevolve.avro.parse import walk
from lakeevolve.model import path as paths
from lakeevolve.model.change import SetDefault
from lakeevolve.model.digest import canonical_json
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NO_DEFAULT,
    Array,
    AvroType,
    Enum,
    Fixed,
    Json,
    Map,
    NoDefault,
    Record,
    Union,
    branch_names,
    describe,
    without_null,
)
from lakeevolve.rules.fault import Fault
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.step import Step

INVALID = Rule(
    "DEFAULT-INVALID",
    "error",
    "A default is no value of its type",
    "Readers fail, wrap the number round, pad the bytes or hand out another type when they need such a default. Where "
    "no data needs it yet, it is a warning.",
    'count: int with "default": "7"',
    "write a default of the field's type",
)
CHANGED = Rule(
    "DEFAULT-CHANGED",
    "info",
    "The default of a field changed",
    "A default stands in for data that lacks the field. No stored row changes: rows that were filled with the old "
    "default keep it.",
    '"default": "EUR" becomes "default": "USD"',
    "nothing to do; a default that is taken away makes the field fail for data that lacks it",
)

IN_METADATA = Rule(
    "DEFAULT-IN-METADATA",
    "warning",
    "Old rows get a default that the table's format does not have",
    "pyiceberg writes defaults for old rows into tables of format versions 1 and 2, where the format has none. Some "
    "readers show them and filter them away, others read NULL, and Java refuses every later change of the schema.",
    "add_column with a default_value, by pyiceberg, on a v2 table",
    "plan a change that writes every file anew (a backfill, a new type), which puts the values into the files and "
    "takes the default out; or upgrade the table to format version 3 with Spark",
)

RULES = (INVALID, CHANGED, IN_METADATA)


def invalid(fault: Fault) -> Finding:
    """A reader needs a default that is no value of its type."""
    field = fault.new_field if fault.direction == "backward" else fault.old_field
    default = None if field is None else canonical_json(field.default)
    reason = fault.message.partition(": ")[2] or fault.message
    message = f"the default is needed, and is no value of the type: {reason}"
    if fault.direction == "backward":
        return INVALID.finding(fault.path, None, default, message)
    return INVALID.finding(fault.path, default, None, message, fix="keep the field: older readers cannot do without it")


def unneeded(candidate: Schema, reported: set[str]) -> Iterator[Finding]:
    """Invalid defaults that no data of the history needs. *reported* are the paths of those that it does."""
    names = {t.name: t for t in walk(candidate.root) if isinstance(t, (Record, Enum, Fixed))}
    for path, type_ in _records(candidate.root):
        for field in type_.fields:
            here = paths.child(path, field.name)
            if not field.has_default or here in reported:
                continue
            reason = check_default(field.type, field.default, names=names)
            if reason is not None:
                yield INVALID.finding(
                    here,
                    None,
                    canonical_json(field.default),
                    f"the default is no value of {describe(field.type)}: {reason}",
                    severity="warning",
                    breaks="readers of data that lacks the field, and parsers that check defaults",
                )


def _records(root: AvroType) -> Iterator[tuple[str, Record]]:
    """Each record once, at the first path that leads to it."""
    seen: set[int] = set()
    todo: list[tuple[str, AvroType]] = [(paths.ROOT, root)]
    while todo:
        path, type_ = todo.pop()
        type_ = without_null(type_)
        match type_:
            case Record() if id(type_) not in seen:
                seen.add(id(type_))
                yield path, type_
                todo.extend((paths.child(path, f.name), f.type) for f in reversed(type_.fields))
            case Array():
                todo.append((paths.items(path), type_.items))
            case Map():
                todo.append((paths.values(path), type_.values))
            case Union():
                names = branch_names(type_)
                todo.extend((paths.branch(path, n), b) for n, b in zip(names, type_.values, strict=True))


def changes(step: Step) -> Iterator[Finding]:
    for change in step.diff.changes:
        if isinstance(change, SetDefault):
            message = "the default changed"
            if change.old is NO_DEFAULT:
                message = "the field has a default now"
            elif change.new is NO_DEFAULT:
                message = "the field has no default any more"
            yield CHANGED.finding(change.path, _text(change.old), _text(change.new), message, versions=(step.version,))


def _text(default: Json | NoDefault) -> str | None:
    return None if default is NO_DEFAULT else canonical_json(default)
