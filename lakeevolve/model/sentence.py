"""Changes as sentences: what a plan, a comment and a log say of each."""

from __future__ import annotations

import json
from typing import TypeVar

from lakeevolve.model.change import (
    AddBranch,
    AddField,
    AddSymbol,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropField,
    DropSymbol,
    MakeOptional,
    MakeRequired,
    MoveField,
    PromoteType,
    RenameField,
    RenameType,
    ReorderBranches,
    ReorderSymbols,
    ReplaceType,
    SetAliases,
    SetDefault,
    SetDoc,
    SetEnumDefault,
    SetOrder,
    SetProperties,
)
from lakeevolve.model.same import same_json
from lakeevolve.model.types import NO_DEFAULT, AvroType, Json, NoDefault, Primitive, describe

_SHORT = 60
_Text = TypeVar("_Text", str, str | None)


def describe_change(change: Change) -> str:
    """One change as one sentence, without a full stop.

    >>> describe_change(RenameField("address.zip", "postcode"))
    'address.zip is renamed to postcode (by its alias)'
    >>> describe_change(MakeOptional("amount", null_first=True))
    'amount becomes nullable'
    """
    at = change.path or "the root"
    match change:
        case AddField():
            return f"{at}: {describe(change.field.type)} is added, {_default(change.field.default)}"
        case DropField():
            return f"{at}: {describe(change.field.type)} is dropped"
        case RenameField():
            who = "by its alias" if change.via == "alias" else "as the owner declared"
            return f"{at} is renamed to {change.name} ({who})"
        case MoveField():
            return f"{at} moves from position {change.source + 1} to {change.target + 1}"
        case PromoteType():
            return f"{at}: {describe(change.old)} is promoted to {describe(change.new)}"
        case ChangeLogicalType():
            return f"{at}: {_exactly(change.old)} becomes {_exactly(change.new)}"
        case ReplaceType():
            return f"{at}: {_exactly(change.old)} is replaced by {_exactly(change.new)}"
        case MakeOptional():
            return f"{at} becomes nullable"
        case MakeRequired():
            return f"{at} becomes required"
        case AddBranch():
            return f"{at}: the union gains the branch {describe(change.branch)}"
        case DropBranch():
            return f"{at}: the union loses the branch {describe(change.branch)}"
        case ReorderBranches():
            return f"{at}: the branches of the union change their order"
        case AddSymbol():
            return f"{at}: the enum gains the symbol {change.symbol}"
        case DropSymbol():
            return f"{at}: the enum loses the symbol {change.symbol}"
        case ReorderSymbols():
            return f"{at}: the symbols of the enum change their order"
        case SetEnumDefault():
            return f"{at}: {_moved('the default symbol of the enum', change.old, change.new)}"
        case SetDefault():
            return f"{at}: {_default_change(change.old, change.new)}"
        case SetDoc():
            return f"{at}: {_moved(_whose('doc', change.on), change.old, change.new)}"
        case SetAliases():
            old, new = (", ".join(names) or None for names in (change.old, change.new))
            return f"{at}: {_moved(_whose('aliases', change.on), old, new, plural=True)}"
        case SetProperties():
            return f"{at}: {_properties(change)}"
        case SetOrder():
            return f"{at}: {_moved('the sort order', change.old, change.new)}"
        case RenameType():
            return _type_rename(change, at)


def told_change(change: Change) -> str:
    """The same sentence for a place that names the path already.

    >>> told_change(RenameField("address.zip", "postcode"))
    'is renamed to postcode (by its alias)'
    """
    at = change.path or "the root"
    text = describe_change(change).replace(f"the type at {at} ", "the type ", 1)
    return text.removeprefix(f"{at}: ").removeprefix(f"{at} ")


def short_json(value: Json) -> str:
    """A JSON value for a message, cut where it is long."""
    return short_text(json.dumps(value, ensure_ascii=False))


def short_text(text: _Text) -> _Text:
    """A text for a message, cut where it is long; None stays None."""
    return text if text is None or len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _default(default: Json | NoDefault) -> str:
    return "without a default" if default is NO_DEFAULT else f"with the default {short_json(default)}"


def _default_change(old: Json | NoDefault, new: Json | NoDefault) -> str:
    if old is NO_DEFAULT:
        return f"gets the default {short_json(new)}"
    if new is NO_DEFAULT:
        return f"loses its default {short_json(old)}"
    return f"the default changes from {short_json(old)} to {short_json(new)}"


def _exactly(type_: AvroType) -> str:
    """The type with what it is stored as, so that ``timestamp-millis`` and ``long`` are told apart."""
    on = f" on {type_.name}" if isinstance(type_, Primitive) and type_.logical else ""
    return describe(type_) + on


def _whose(what: str, on: str) -> str:
    return f"the {what}" if on == "field" else f"the {what} of the type"


def _moved(what: str, old: str | None, new: str | None, *, plural: bool = False) -> str:
    is_, change = ("are", "change") if plural else ("is", "changes")
    if old is None:
        return f"{what} {is_} set to {short_json(new)}"
    if new is None:
        return f"{what} {short_json(old)} {is_} removed"
    return f"{what} {change} from {short_json(old)} to {short_json(new)}"


def _properties(change: SetProperties) -> str:
    whose = "" if change.on == "field" else " of the type"
    gone = [key for key in change.old if key not in change.new]
    come = [key for key in change.new if key not in change.old]
    other = [key for key in change.new if key in change.old and not same_json(change.old[key], change.new[key])]
    told = [
        *(f"the property {key}{whose} is removed" for key in gone),
        *(f"the property {key}{whose} is set to {short_json(change.new[key])}" for key in come),
        *(
            f"the property {key}{whose} changes from {short_json(change.old[key])} to {short_json(change.new[key])}"
            for key in other
        ),
    ]
    return ", ".join(told)


def _type_rename(change: RenameType, at: str) -> str:
    if change.old == change.new:
        return f"{at}: {change.new} becomes {'an error type' if change.new_error else 'a plain record'}"
    place = f"the type at {at}" if change.path else "the root type"
    return f"{place} is renamed from {change.old} to {change.new}"
