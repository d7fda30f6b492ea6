"""Rules about fields that come, go, change their place or begin to allow null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField, Change, MoveField, SetDoc, SetOrder
from lakeevolve.model.sentence import short_text
from lakeevolve.model.types import Field, Primitive, Union, describe, is_optional
from lakeevolve.rules.fault import Fault
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule
from lakeevolve.rules.step import Step

ADDED_NO_DEFAULT = Rule(
    "FIELD-ADDED-NO-DEFAULT",
    "error",
    "A field was added without a default",
    "A reader with the new schema finds no value for the field in older data and, without a default, cannot read it.",
    'fields [id] become [id, currency: string] without "default"',
    'give the field a default; for a field that may be absent, make it ["null", T] with "default": null',
)
REMOVED_NO_DEFAULT = Rule(
    "FIELD-REMOVED-NO-DEFAULT",
    "error",
    "A field without a default was removed",
    "A reader that still has the older schema expects the field, and has no default to put in its place.",
    "fields [id, amount: double] become [id]",
    "keep the field until every reader has moved on, or first release a version in which it has a default",
)
RENAMED = Rule(
    "FIELD-RENAMED",
    "error",
    "A field was renamed, which older readers do not know",
    "An alias tells readers of the new schema where old data is. It tells readers of the older schema nothing: they "
    "look for the old name in new data and find neither the field nor a default.",
    'amount becomes total with "aliases": ["amount"], in a mode that protects older readers',
    "write both fields for a while, or let readers move first (mode BACKWARD)",
)
MADE_REQUIRED = Rule(
    "FIELD-MADE-REQUIRED",
    "error",
    "Null is no longer allowed",
    "A reader with the new schema fails on the first old value that is null.",
    'note: ["null", "string"] becomes note: "string"',
    "keep null among the types, or make sure that no null is left in the data and plan the change for the table",
)
MADE_OPTIONAL = Rule(
    "FIELD-MADE-OPTIONAL",
    "error",
    "Null is allowed now, which older readers do not expect",
    "A reader with the older schema fails on the first new value that is null.",
    'note: "string" becomes note: ["null", "string"], in a mode that protects older readers',
    "let readers move before the first null is written (mode BACKWARD), or add a second, nullable field",
)
NULLABLE_NO_DEFAULT = Rule(
    "FIELD-NULLABLE-NO-DEFAULT",
    "warning",
    "A nullable field was added without a default",
    "A type that allows null is not a default of null: readers of older data fail all the same.",
    'note: ["null", "string"] is added without "default"',
    'add "default": null',
)
REORDERED = Rule(
    "FIELD-REORDERED",
    "info",
    "Fields changed their order",
    "Avro matches fields by name, and tables by id or name. Code that reads columns by position notices.",
    "fields [id, amount] become [amount, id]",
    "nothing to do, unless something reads columns by their position",
)
DOC_CHANGED = Rule(
    "FIELD-DOC-CHANGED",
    "info",
    "A doc changed",
    "A doc changes no value. Where it tells units or codes, its change may say that the meaning has changed.",
    '"doc": "in cents" becomes "doc": "in euros"',
    "check that the meaning is the same; state units in the property lakeevolve.meaning, whose changes are findings",
)
SORT_ORDER_CHANGED = Rule(
    "FIELD-SORT-ORDER-CHANGED",
    "info",
    "The sort order of a field changed",
    "It matters to programs that compare encoded records, and to nothing that reads them.",
    '"order": "ascending" becomes "order": "ignore"',
    "nothing to do, unless something sorts by encoded records",
)

OLD_ROWS_NULL = Rule(
    "FIELD-OLD-ROWS-NULL",
    "warning",
    "Old rows read NULL where the schema has a value",
    "The owner chose old_rows: null for a field that is added, so its column is optional in the table, and rows older "
    "than it hold nulls that the schema knows nothing of. New rows are not concerned.",
    'country: string with "default": "US" is added, with old_rows: null',
    "leave old_rows at default, which fills the old rows by a backfill; or tell the readers of the table",
)

RULES = (
    OLD_ROWS_NULL,
    ADDED_NO_DEFAULT,
    REMOVED_NO_DEFAULT,
    RENAMED,
    MADE_REQUIRED,
    MADE_OPTIONAL,
    NULLABLE_NO_DEFAULT,
    REORDERED,
    DOC_CHANGED,
    SORT_ORDER_CHANGED,
)


def without_value(fault: Fault) -> Finding:
    """The reader has a field that the writer lacks, and no default for it."""
    if fault.direction == "backward":
        field = fault.new_field
        if field is None:
            return ADDED_NO_DEFAULT.finding(fault.path, None, None, "the added field has no default")
        return ADDED_NO_DEFAULT.finding(
            fault.path, None, describe(field.type), "the added field has no default", fix=_default_fix(field)
        )
    old = None if fault.old_field is None else describe(fault.old_field.type)
    return REMOVED_NO_DEFAULT.finding(
        fault.path, old, None, "the field is gone, and the readers that expect it have no default for it"
    )


def renamed(path: str, old: str, new: str) -> Finding:
    """An older reader misses a field that has another name now."""
    return RENAMED.finding(path, old, new, "older readers know only the old name, and have no default for it")


def nullability(fault: Fault) -> Finding:
    """The writer may write null where the reader does not allow it."""
    rule = MADE_REQUIRED if fault.direction == "backward" else MADE_OPTIONAL
    return rule.finding(
        fault.path,
        None if fault.old is None else describe(fault.old),
        None if fault.new is None else describe(fault.new),
        "null is no longer allowed" if rule is MADE_REQUIRED else "null is allowed now",
    )


def changes(step: Step) -> Iterator[Finding]:
    """What the step does to fields apart from what a mode judges."""
    moved: dict[str, list[str]] = {}
    for change in step.diff.changes:
        match change:
            case AddField() if is_optional(change.field.type) and not change.field.has_default:
                if (ADDED_NO_DEFAULT.id, change.path) not in step.reported:
                    yield NULLABLE_NO_DEFAULT.finding(
                        change.path,
                        None,
                        describe(change.field.type),
                        "the added field allows null and has no default",
                        breaks="readers of data that lacks the field",
                        fix=_default_fix(change.field),
                        versions=(step.version,),
                    )
            case MoveField():
                moved.setdefault(paths.parent(change.path), []).append(paths.leaf(change.path))
            case SetDoc():
                yield DOC_CHANGED.finding(
                    change.path,
                    short_text(change.old),
                    short_text(change.new),
                    "the doc changed" if change.on == "field" else "the doc of the type changed",
                    versions=(step.version,),
                )
            case SetOrder():
                yield SORT_ORDER_CHANGED.finding(
                    change.path, change.old, change.new, "the sort order changed", versions=(step.version,)
                )
    for parent, names in moved.items():
        yield REORDERED.finding(
            parent, None, None, f"the order of the fields changed: {', '.join(names)} moved", versions=(step.version,)
        )


def _default_fix(field: Field) -> str:
    if not isinstance(field.type, Union) or not field.type.nullable:
        example = {"string": '""', "boolean": "false"}.get(
            field.type.name if isinstance(field.type, Primitive) else "", "..."
        )
        return f'give the field a default that is right for older data ("default": {example}), or allow null'
    if not field.type.null_first:
        return 'put "null" first in the union and add "default": null (older readers look at the first type only)'
    return 'add "default": null'


def left_null(changes: Sequence[Change], fills: Mapping[str, str], subject: str = "") -> Iterator[Finding]:
    """The added fields that old rows read NULL in, although neither their type nor their default says so.

    Parameters
    ----------
    fills:
        Path of an added field to what old rows read there: ``default`` or ``null``.
    """
    for change in changes:
        if isinstance(change, AddField) and fills.get(change.path) == "null" and change.field.default is not None:
            message = "rows older than the field read NULL, as asked"
            yield OLD_ROWS_NULL.finding(change.path, "null", describe(change.field.type), message, subject=subject)
