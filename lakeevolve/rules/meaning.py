"""Rules about what values mean, as far as the schema says it.

A field (or its type) may state the meaning of its values, a unit, a currency, a code list, in the property
``lakeevolve.meaning``. When that changes, every value may be misread although its type is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lakeevolve.avro.parse import walk
from lakeevolve.model.change import ChangeLogicalType, PromoteType, ReplaceType, SetProperties
from lakeevolve.model.diff import Diff
from lakeevolve.model.digest import canonical_json
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import AvroType, Json, NamedRef, Record, Union, without_null
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

#: The property that states the meaning.
MEANING: Final = "lakeevolve.meaning"

CHANGED = Rule(
    "MEANING-CHANGED",
    "error",
    "The meaning of a field changed",
    "The type is the same and the values mean something else: old and new rows can no longer be compared, added or "
    "filtered together, and nothing fails.",
    '"lakeevolve.meaning": "EUR" becomes "lakeevolve.meaning": "USD"',
    "add a field with the new meaning beside the old one",
)
REMOVED = Rule(
    "MEANING-REMOVED",
    "warning",
    "The stated meaning of a field is gone",
    "Readers no longer learn from the schema what the values mean, and a later change of it would go unseen.",
    '"lakeevolve.meaning": "EUR" is removed',
    "keep the property",
)
ADDED = Rule(
    "MEANING-ADDED",
    "info",
    "The meaning of a field is stated now",
    "It is taken to hold for the values that are there already.",
    '"lakeevolve.meaning": "EUR" is added',
    "nothing to do, if it holds for the values that are there",
)

RULES = (CHANGED, REMOVED, ADDED)


def changes(diff: Diff, version: int) -> Iterator[Finding]:
    """What became of stated meanings from one version to the candidate."""
    for change in diff.changes:
        if isinstance(change, SetProperties):
            old, new = change.old.get(MEANING), change.new.get(MEANING)
        elif isinstance(change, (ReplaceType, PromoteType, ChangeLogicalType)):
            old, new = _of_type(change.old), _of_type(change.new)
        else:
            continue
        was, is_ = _text(old), _text(new)
        if was == is_:
            continue
        path = getattr(change, "after", None) or change.path
        if was is None:
            yield ADDED.finding(path, was, is_, "the meaning is stated now", versions=(version,))
        elif is_ is None:
            yield REMOVED.finding(path, was, is_, "the meaning is no longer stated", versions=(version,))
        else:
            yield CHANGED.finding(
                path,
                was,
                is_,
                "the values mean something else",
                breaks="everyone who reads old and new rows together",
                versions=(version,),
            )


def states_meaning(schema: Schema) -> bool:
    """Whether the schema states the meaning of anything."""
    for type_ in walk(schema.root):
        if MEANING in _props(type_):
            return True
        if isinstance(type_, Record) and any(MEANING in field.props for field in type_.fields):
            return True
    return False


def _props(type_: AvroType) -> Mapping[str, Json]:
    return {} if isinstance(type_, (Union, NamedRef)) else type_.props


def _of_type(type_: AvroType) -> Json:
    return _props(without_null(type_)).get(MEANING)


def _text(meaning: Json) -> str | None:
    return meaning if meaning is None or isinstance(meaning, str) else canonical_json(meaning)
